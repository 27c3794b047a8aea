UPDATE schema_migrations SET needs = 37 WHERE applied_at = 0;

-- The owner of a topic: what is shared out is shared by owner. It is decided when a topic is made, and again for all topics when a token is made or
-- revoked; dispatchers decide again each minute, also for rows that were edited by hand or were there before this column. They need the right to read
-- api_tokens (name, scopes, topics, jobs_per_second, pending_jobs): print the grants again.

ALTER TABLE topics
  ADD COLUMN owner BIGINT NOT NULL DEFAULT 0 COMMENT 'hash of the prefixes of the token with the longest prefix that covers the name; without one, of the part before the first dot; 0 = not decided yet';

-- An answer to a command waits for its own Kafka topic alone, and owners take turns: a row has answers of one pair of topics. A row that a program
-- before this one wrote names neither.
ALTER TABLE command_answers
  ADD COLUMN of_topic VARBINARY(200) NOT NULL DEFAULT '' COMMENT 'the topic that the answered commands name; its owner is the owner of the answers; empty = none',
  ADD COLUMN topic VARBINARY(249) NOT NULL DEFAULT '' COMMENT 'the Kafka topic of the answers',
  ADD KEY waiting (kafka_partition, id, topic, of_topic);
