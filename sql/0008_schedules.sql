-- duetime: schedules, which make jobs again and again. See sql/README.md.

CREATE TABLE IF NOT EXISTS schedules (
  name VARBINARY(200) NOT NULL PRIMARY KEY,
  topic VARBINARY(200) NOT NULL COMMENT 'of the jobs that it makes',
  cron VARBINARY(250) NULL COMMENT 'a cron expression; NULL = every every_ms',
  every_ms BIGINT NULL COMMENT 'elapsed time between fires, from anchor_at on',
  anchor_at BIGINT NOT NULL COMMENT 'starts_at, or when the schedule was made',
  time_zone VARBINARY(64) NOT NULL COMMENT 'whose clocks the expression means; a name of tzdata',
  starts_at BIGINT NULL COMMENT 'no fire before it',
  ends_at BIGINT NULL COMMENT 'no fire at it or later',
  overlap ENUM('allow','skip','cancel') CHARACTER SET ascii NOT NULL COMMENT 'what becomes of a fire while the one before is not finished: made, made as a cancelled job, made and the other one has no further attempts',
  catch_up_ms BIGINT NOT NULL COMMENT 'fires that were missed are made if they are no older',
  catch_up_max INT NULL COMMENT 'so many of them, the newest; NULL = all',
  jitter_ms BIGINT NOT NULL COMMENT 'jobs run up to so much later than their fire',
  paused BOOLEAN NOT NULL,
  created_at BIGINT NOT NULL,
  updated_at BIGINT NOT NULL,
  version BIGINT NOT NULL COMMENT 'raised by every change through the API; the ETag',
  digest BINARY(16) NOT NULL COMMENT 'of the request; its jobs have it, too',
  -- What its jobs have, as in jobs.
  retry VARCHAR(1600) CHARACTER SET ascii NULL COMMENT 'NULL = the topic''s, when a job is made',
  ack_timeout_ms BIGINT NULL COMMENT 'likewise',
  partition_key VARBINARY(255) NULL,
  headers BLOB NULL,
  content_type VARBINARY(255) NULL,
  payload_binary BOOLEAN NOT NULL,
  payload MEDIUMBLOB NOT NULL,
  KEY time_zone (time_zone)
) ENGINE=InnoDB COMMENT='schedules as they were set';

CREATE TABLE IF NOT EXISTS schedule_fires (
  name VARBINARY(200) NOT NULL PRIMARY KEY,
  next_fire_at BIGINT NULL COMMENT 'the first fire without a job; NULL = none follows',
  look_at BIGINT NULL COMMENT 'when a dispatcher makes jobs for it next; NULL = not by itself (paused, or ended)',
  last_fire_at BIGINT NULL COMMENT 'the last fire that has a job, perhaps ahead of its time',
  last_job_id BIGINT NULL COMMENT 'the job of the last fire that was to run',
  zone_stamp BIGINT NULL COMMENT 'of the tzdata file that next_fire_at was reckoned with',
  error VARBINARY(500) NULL COMMENT 'why no job could be made',
  error_at BIGINT NULL,
  KEY look (look_at)
) ENGINE=InnoDB COMMENT='how far each schedule is: who makes jobs for a schedule, or changes it, holds its row here';
