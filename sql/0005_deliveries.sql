-- How the due jobs of a topic leave: by Kafka, by a call of a URL, or by being popped.

ALTER TABLE topics
  ADD COLUMN delivery ENUM('kafka','http','pull') CHARACTER SET ascii NOT NULL DEFAULT 'kafka' COMMENT 'the way of attempts that are claimed from now on';
