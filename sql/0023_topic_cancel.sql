-- Topics that are deleted with their jobs. See sql/README.md.

ALTER TABLE topics
  ADD COLUMN deletion BIGINT NULL COMMENT 'the operation that deletes the topic: nothing new is taken for it; NULL = none';

ALTER TABLE operations
  MODIFY COLUMN kind ENUM('cancel','reschedule','redrive','run_now','delete_topic') CHARACTER SET ascii NOT NULL;
