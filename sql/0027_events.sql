-- duetime: who did what. See sql/README.md.

CREATE TABLE IF NOT EXISTS job_events (
  id BIGINT NOT NULL AUTO_INCREMENT,
  at BIGINT NOT NULL,
  actor VARBINARY(100) NOT NULL COMMENT 'the name of the token; - where none is asked for',
  action VARBINARY(40) NOT NULL COMMENT 'cancel, change, run_now, redrive, replace; topic_…, schedule_…, operation_…, token_…, shards',
  topic VARBINARY(200) NULL COMMENT 'of the job or schedule, or the topic itself; NULL = it is about none, or about many',
  job_id BIGINT NULL,
  subject VARBINARY(255) NULL COMMENT 'the name of the schedule or token; the number of the operation that was asked for',
  operation_id BIGINT NULL COMMENT 'the operation that changed the job',
  was MEDIUMTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL COMMENT 'JSON: the members that changed, before',
  became MEDIUMTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL COMMENT 'JSON: and after',
  PRIMARY KEY (id, at),
  KEY by_job (job_id, id),
  KEY by_topic (topic, id),
  KEY by_actor (actor, id)
) ENGINE=InnoDB COMMENT='what was changed by whom, written with the change'
  PARTITION BY RANGE (at) (PARTITION later VALUES LESS THAN MAXVALUE);

ALTER TABLE operations
  ADD COLUMN actor VARBINARY(100) NULL COMMENT 'who asked for it; NULL = nobody is noted';
