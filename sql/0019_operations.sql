-- Operations: one change for all jobs that a filter finds, done in pieces. See sql/README.md.

CREATE TABLE IF NOT EXISTS operations (
  id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
  kind ENUM('cancel','reschedule','redrive','run_now') CHARACTER SET ascii NOT NULL,
  state ENUM('running','done','stopped','failed') CHARACTER SET ascii NOT NULL DEFAULT 'running',
  request BLOB NOT NULL COMMENT 'the filter as it was given, JSON',
  topic_from VARBINARY(201) NOT NULL COMMENT 'jobs of topics from this name …',
  topic_to VARBINARY(201) NOT NULL COMMENT '… to this one match',
  key_prefix VARBINARY(255) NULL,
  run_from BIGINT NOT NULL,
  run_to BIGINT NOT NULL COMMENT 'exclusive',
  created_from BIGINT NOT NULL,
  created_to BIGINT NOT NULL COMMENT 'inclusive, and no later than started_at: jobs that are made later do not belong to the operation',
  error_code VARBINARY(100) NULL,
  at_ms BIGINT NULL COMMENT 'when jobs run that are rescheduled; NULL = shift_ms later than they would',
  shift_ms BIGINT NOT NULL DEFAULT 0,
  spread_ms BIGINT NOT NULL DEFAULT 0 COMMENT 'the i-th of n runs i/n of this after at_ms',
  rate VARCHAR(20) CHARACTER SET ascii NULL COMMENT 'jobs that may be changed, e.g. 100/s or 600/m; NULL = any number',
  walk ENUM('jobs','keys','history','over') CHARACTER SET ascii NOT NULL COMMENT 'where jobs are looked for; over: all are found, and are changed one piece after the other',
  after_id BIGINT NOT NULL DEFAULT 0 COMMENT 'jobs up to this one were looked at; once the walk is over: were changed, of those that run at after_at',
  after_key VARBINARY(255) NULL,
  after_at BIGINT NOT NULL DEFAULT 0,
  matched BIGINT NOT NULL DEFAULT 0 COMMENT 'found so far',
  changed BIGINT NOT NULL DEFAULT 0,
  refused BIGINT NOT NULL DEFAULT 0 COMMENT 'found, and in another state when their turn came',
  sample VARBINARY(300) NOT NULL DEFAULT '[]' COMMENT 'ids of the first ten that were found, JSON',
  error VARBINARY(500) NULL COMMENT 'of a failed one',
  look_at BIGINT NULL COMMENT 'when a dispatcher does the next piece; of a finished one: removes what is left of it',
  started_at BIGINT NOT NULL,
  finished_at BIGINT NULL,
  KEY look (look_at)
) ENGINE=InnoDB COMMENT='changes of whole sets of jobs: what was asked, and how far each is. Who does a piece holds the row';

CREATE TABLE IF NOT EXISTS operation_jobs (
  operation BIGINT NOT NULL,
  run_at BIGINT NOT NULL COMMENT 'of the job when it was found',
  job_id BIGINT NOT NULL,
  PRIMARY KEY (operation, run_at, job_id)
) ENGINE=InnoDB COMMENT='the jobs of operations, in the order in which they are changed; removed when the operation has finished';
