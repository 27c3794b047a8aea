-- duetime: tables. Plain types, times as BIGINT milliseconds since 1970-01-01 UTC. See sql/README.md.

CREATE TABLE IF NOT EXISTS installation (
  one TINYINT NOT NULL PRIMARY KEY DEFAULT 1 CHECK (one = 1),
  name VARBINARY(100) NOT NULL COMMENT 'prefix of Kafka topics, Redis keys and ZooKeeper paths',
  uuid CHAR(36) CHARACTER SET ascii NOT NULL,
  shards INT NOT NULL COMMENT 'number of shards that slots map to; changed by POST /v1/admin/shards alone',
  generation BIGINT NOT NULL DEFAULT 1 COMMENT 'of the slot map: raised with every change of shards',
  topics_version BIGINT NOT NULL DEFAULT 1 COMMENT 'raised with every change of a topic''s settings',
  token_rule ENUM('asked','never_made','waived') CHARACTER SET ascii NOT NULL DEFAULT 'never_made' COMMENT 'asked: a token was made once, so every request needs one, even when none is left; waived: duetime-api --waive-tokens took that back',
  cursor_key VARBINARY(32) NOT NULL DEFAULT '' COMMENT 'seals next_cursor; made by the first API that finds it empty',
  created_at BIGINT NOT NULL
) ENGINE=InnoDB COMMENT='one row: what this installation is';

CREATE TABLE IF NOT EXISTS id_sequence (
  one TINYINT NOT NULL PRIMARY KEY DEFAULT 1 CHECK (one = 1),
  next_id BIGINT NOT NULL COMMENT 'first sequence number not given out yet; the next block begins no lower than 16 for each millisecond since 1970'
) ENGINE=InnoDB COMMENT='job ids are taken in blocks: home day << 40 | low 39 bits of the sequence number';

CREATE TABLE IF NOT EXISTS topics (
  name VARBINARY(200) NOT NULL PRIMARY KEY,
  kafka_topic VARBINARY(249) NULL COMMENT 'NULL = the topic''s own name',
  kafka_name VARBINARY(249) AS (COALESCE(kafka_topic, name)) STORED COMMENT 'the Kafka topic that jobs go to',
  kafka_fold VARBINARY(249) AS (REPLACE(COALESCE(kafka_topic, name), '.', '_')) STORED COMMENT 'Kafka refuses a_b beside a.b: two topics with one fold must share one kafka_name',
  retry VARCHAR(1600) CHARACTER SET ascii NULL COMMENT 'delays between attempts, e.g. 15s 3m 10m; NULL = the default schedule',
  ack_timeout_ms BIGINT NULL COMMENT 'time to report a result; NULL = 5 minutes',
  retention_ms BIGINT NULL COMMENT 'how long finished jobs are kept; NULL = 30 days',
  paused BOOLEAN NOT NULL DEFAULT FALSE,
  created_at BIGINT NOT NULL,
  updated_at BIGINT NOT NULL,
  version BIGINT NOT NULL DEFAULT 1,
  KEY kafka_fold (kafka_fold),
  -- Names end with their '/' here, so that one look finds an ending. No topic's jobs go where an installation, ours or
  -- another on the same Kafka, keeps its own records: they would be taken for its.
  CONSTRAINT kafka_topics_are_not_internal CHECK (
    INSTR(CONCAT(COALESCE(kafka_topic, name), '/'), '.ledger/') = 0
    AND INSTR(CONCAT(COALESCE(kafka_topic, name), '/'), '.results/') = 0
    AND INSTR(CONCAT(COALESCE(kafka_topic, name), '/'), '.results.rejected/') = 0
    AND INSTR(CONCAT(COALESCE(kafka_topic, name), '/'), '.commands/') = 0
    AND INSTR(CONCAT(COALESCE(kafka_topic, name), '/'), '.commands.rejected/') = 0
    AND INSTR(CONCAT(COALESCE(kafka_topic, name), '/'), '.dead/') = 0
    AND LEFT(COALESCE(kafka_topic, name), 2) <> '__'),
  CHECK (ack_timeout_ms > 0),
  CHECK (retention_ms >= 0)
) ENGINE=InnoDB COMMENT='classes of jobs with common settings';

CREATE TABLE IF NOT EXISTS jobs (
  id BIGINT NOT NULL PRIMARY KEY COMMENT 'home day << 40 | sequence; opaque to callers',
  topic VARBINARY(200) NOT NULL,
  job_key VARBINARY(255) NULL COMMENT 'the caller''s key; job_keys maps it to its latest job',
  state ENUM('scheduled','dispatched','succeeded','dead','cancelled') CHARACTER SET ascii NOT NULL DEFAULT 'scheduled',
  run_at BIGINT NOT NULL COMMENT 'what a caller last asked for',
  next_at BIGINT NULL COMMENT 'when the job next needs attention: run, retry or acknowledgement deadline; zero or less: now; NULL when finished',
  near BOOLEAN NOT NULL DEFAULT FALSE COMMENT 'next_at is indexed exactly (within about two days), not by its day',
  due_band TINYINT AS (IF(next_at IS NULL, 2, near)) STORED COMMENT '0 far, 1 near, 2 finished',
  due_key BIGINT AS (IF(next_at IS NULL, leave_at, IF(near, GREATEST(next_at, 1), GREATEST(next_at, 1) - GREATEST(next_at, 1) MOD 86400000))) STORED COMMENT 'graded due time: exact when near, its day when far; 1 for what is due whenever it was (next_at zero or less); leave_at when finished',
  attempt INT NOT NULL DEFAULT 0 COMMENT 'dispatches so far; never falls',
  failures INT NOT NULL DEFAULT 0 COMMENT 'failed attempts since creation or redrive',
  -- The next five have a value from the start: a row that does not grow when it is claimed and finished keeps its place
  -- in its page. As NULLs they made claims cost 1.4 times, results twice as much (pages were split).
  attempt_status ENUM('dispatched','succeeded','failed','timed_out','snoozed','gave_up','undeliverable','none') CHARACTER SET ascii NOT NULL DEFAULT 'none' COMMENT 'of the latest attempt',
  due_at BIGINT NOT NULL DEFAULT 0 COMMENT 'next_at at which the latest attempt was claimed; 0 = none yet',
  dispatched_at BIGINT NOT NULL DEFAULT 0 COMMENT 'when the latest attempt was claimed; 0 = none yet',
  finished_at BIGINT NULL DEFAULT 0 COMMENT 'when the latest attempt, or the job, ended; 0 (or NULL) = not',
  claim_shard SMALLINT NOT NULL DEFAULT -1 COMMENT 'shard that claimed the latest attempt; -1 = none yet',
  no_retries BOOLEAN NOT NULL DEFAULT FALSE COMMENT 'cancelled from further attempts',
  retry VARCHAR(1600) CHARACTER SET ascii NOT NULL COMMENT 'delays between attempts, e.g. 15s 3m 10m; empty = none',
  ack_timeout_ms BIGINT NOT NULL,
  version INT NOT NULL DEFAULT 1 COMMENT 'raised by every change through the API; the ETag',
  created_at BIGINT NOT NULL,
  updated_at BIGINT NOT NULL,
  purge_at BIGINT NULL COMMENT 'when a finished job is removed for good: its end + the topic''s retention',
  leave_at BIGINT NOT NULL DEFAULT 0 COMMENT 'when a finished job leaves this table: for history, or for good when purge_at comes first; 0 = not told',
  maker BIGINT NOT NULL COMMENT 'random number of the process and id block that made it',
  digest BINARY(16) NOT NULL COMMENT 'of the request that made it',
  partition_key VARBINARY(255) NULL,
  content_type VARBINARY(255) NULL COMMENT 'NULL = application/json',
  payload_binary BOOLEAN NOT NULL DEFAULT FALSE COMMENT 'made with payload_base64',
  error_at BIGINT NULL COMMENT 'last failure',
  error_code VARBINARY(100) NULL,
  error_message VARBINARY(1000) NULL,
  headers BLOB NULL COMMENT 'JSON object of strings',
  payload MEDIUMBLOB NOT NULL,
  KEY due (due_band, due_key, id),
  CONSTRAINT live_jobs_have_next_at CHECK (next_at IS NOT NULL OR state NOT IN ('scheduled','dispatched')),
  CONSTRAINT next_at_is_a_time CHECK (next_at <= 253402300799999),
  CONSTRAINT ack_timeout_is_a_time CHECK (ack_timeout_ms > 0),
  CONSTRAINT attempt_counts CHECK (attempt >= 0 AND failures >= 0)
) ENGINE=InnoDB COMMENT='one row a live job; finished ones stay for a while (history.after), then stand in history';

CREATE TABLE IF NOT EXISTS job_counts (
  topic VARBINARY(200) NOT NULL,
  piece TINYINT NOT NULL COMMENT 'of jobs: home day MOD 32, that is (id >> 40) MOD 32; what the audit recounts at once',
  writer TINYINT NOT NULL COMMENT 'who counts: connections spread over 32, so that few wait for each other',
  scheduled BIGINT NOT NULL DEFAULT 0,
  dispatched BIGINT NOT NULL DEFAULT 0,
  succeeded BIGINT NOT NULL DEFAULT 0,
  dead BIGINT NOT NULL DEFAULT 0,
  cancelled BIGINT NOT NULL DEFAULT 0,
  created BIGINT NOT NULL DEFAULT 0 COMMENT 'jobs ever made; never falls',
  edited BIGINT NOT NULL DEFAULT 0 COMMENT 'rows of jobs that hands added, less those that hands took away, as the audit found',
  corrected BIGINT NOT NULL DEFAULT 0 COMMENT 'jobs that the audit found in another state than counted; never falls',
  PRIMARY KEY (topic, piece, writer),
  KEY by_piece (piece)
) ENGINE=InnoDB COMMENT='how many rows jobs has, by state: the sum over pieces and writers. Changed in the transaction that changes jobs; single rows may be negative';

CREATE TABLE IF NOT EXISTS count_audits (
  piece TINYINT NOT NULL PRIMARY KEY,
  version BIGINT NOT NULL COMMENT 'raised by every recount: of two at once one counts',
  audited_at BIGINT NOT NULL COMMENT 'when the latest recount of the piece ended',
  jobs BIGINT NOT NULL COMMENT 'rows of jobs that it found',
  corrected BIGINT NOT NULL COMMENT 'of all recounts so far'
) ENGINE=InnoDB COMMENT='the audit: when each piece of jobs was recounted last';

CREATE TABLE IF NOT EXISTS job_keys (
  topic VARBINARY(200) NOT NULL,
  job_key VARBINARY(255) NOT NULL,
  job_id BIGINT NOT NULL COMMENT 'the latest job that carries the key',
  PRIMARY KEY (topic, job_key)
) ENGINE=InnoDB COMMENT='callers'' keys';

CREATE TABLE IF NOT EXISTS attempts (
  job_id BIGINT NOT NULL,
  attempt INT NOT NULL,
  status ENUM('dispatched','succeeded','failed','timed_out','snoozed','gave_up','undeliverable','none') CHARACTER SET ascii NOT NULL,
  due_at BIGINT NULL,
  dispatched_at BIGINT NULL,
  finished_at BIGINT NULL,
  error_code VARBINARY(100) NULL,
  error_message VARBINARY(1000) NULL,
  PRIMARY KEY (job_id, attempt)
) ENGINE=InnoDB COMMENT='attempts that a later attempt followed; the latest one stands in jobs. v_attempts has both';

-- Finished jobs. A partition holds those that are removed on one day, or in one month when that is more than 400 days
-- ahead; the dispatchers make partitions and drop them (so retention costs nothing), two tables alike. What has no
-- partition yet, or is kept for ever, lies in `rest`. A job is here or in jobs, never in both.
CREATE TABLE IF NOT EXISTS history (
  id BIGINT NOT NULL,
  part INT NOT NULL COMMENT 'the UTC day of purge_at as YYYYMMDD, or its month as YYYYMM; 0 = rest',
  topic VARBINARY(200) NOT NULL,
  job_key VARBINARY(255) NULL,
  state ENUM('scheduled','dispatched','succeeded','dead','cancelled') CHARACTER SET ascii NOT NULL,
  run_at BIGINT NOT NULL,
  attempt INT NOT NULL,
  failures INT NOT NULL,
  attempt_status ENUM('dispatched','succeeded','failed','timed_out','snoozed','gave_up','undeliverable','none') CHARACTER SET ascii NOT NULL,
  due_at BIGINT NOT NULL,
  dispatched_at BIGINT NOT NULL,
  finished_at BIGINT NULL,
  claim_shard SMALLINT NOT NULL,
  no_retries BOOLEAN NOT NULL,
  retry VARCHAR(1600) CHARACTER SET ascii NOT NULL,
  ack_timeout_ms BIGINT NOT NULL,
  version INT NOT NULL,
  created_at BIGINT NOT NULL,
  updated_at BIGINT NOT NULL,
  purge_at BIGINT NOT NULL COMMENT 'from then on nobody is shown the row; its partition is dropped at the end of the day, or month',
  key_until BIGINT NULL COMMENT 'so long job_key stays taken; NULL without a key',
  maker BIGINT NOT NULL,
  digest BINARY(16) NOT NULL,
  partition_key VARBINARY(255) NULL,
  content_type VARBINARY(255) NULL,
  payload_binary BOOLEAN NOT NULL,
  error_at BIGINT NULL,
  error_code VARBINARY(100) NULL,
  error_message VARBINARY(1000) NULL,
  headers BLOB NULL,
  payload MEDIUMBLOB NOT NULL,
  PRIMARY KEY (id, part)
) ENGINE=InnoDB COMMENT='finished jobs until their retention ends: the columns of jobs, as they were when the job left it'
  PARTITION BY LIST (part) (PARTITION rest VALUES IN (0));

CREATE TABLE IF NOT EXISTS history_attempts (
  job_id BIGINT NOT NULL,
  attempt INT NOT NULL,
  part INT NOT NULL COMMENT 'of its job in history',
  purge_at BIGINT NOT NULL COMMENT 'of its job',
  status ENUM('dispatched','succeeded','failed','timed_out','snoozed','gave_up','undeliverable','none') CHARACTER SET ascii NOT NULL,
  due_at BIGINT NULL,
  dispatched_at BIGINT NULL,
  finished_at BIGINT NULL,
  error_code VARBINARY(100) NULL,
  error_message VARBINARY(1000) NULL,
  PRIMARY KEY (job_id, attempt, part)
) ENGINE=InnoDB COMMENT='the rows of attempts of jobs that are in history'
  PARTITION BY LIST (part) (PARTITION rest VALUES IN (0));

CREATE TABLE IF NOT EXISTS history_counts (
  topic VARBINARY(200) NOT NULL,
  state ENUM('scheduled','dispatched','succeeded','dead','cancelled') CHARACTER SET ascii NOT NULL,
  part INT NOT NULL,
  jobs BIGINT NOT NULL,
  PRIMARY KEY (topic, state, part),
  KEY by_part (part)
) ENGINE=InnoDB COMMENT='how many rows history has: changed in the transaction that changes history, so that dropping a partition counts right';

CREATE TABLE IF NOT EXISTS history_days (
  home_day INT NOT NULL COMMENT 'id >> 40, the day that a job''s id carries',
  part INT NOT NULL COMMENT 'a partition of history that jobs of that day have gone to',
  PRIMARY KEY (home_day, part),
  KEY by_part (part)
) ENGINE=InnoDB COMMENT='where a job of history can be: few partitions a day. Written with the rows, forgotten with the partition';

CREATE TABLE IF NOT EXISTS key_ends (
  free_at BIGINT NOT NULL COMMENT 'history.key_until',
  job_id BIGINT NOT NULL,
  topic VARBINARY(200) NOT NULL,
  job_key VARBINARY(255) NOT NULL,
  PRIMARY KEY (free_at, job_id)
) ENGINE=InnoDB COMMENT='keys of jobs in history, in the order in which they become free: a queue';

CREATE TABLE IF NOT EXISTS shards (
  shard SMALLINT NOT NULL PRIMARY KEY,
  epoch BIGINT NOT NULL DEFAULT 0 COMMENT 'fencing number: +1 at each takeover',
  token BIGINT NOT NULL DEFAULT 0 COMMENT 'random number of the present leadership',
  version BIGINT NOT NULL DEFAULT 0 COMMENT 'raised by every leader''s transaction',
  owner VARBINARY(100) NULL COMMENT 'host:pid of the leader; NULL after it stepped down',
  owner_since BIGINT NULL,
  ledger_offset BIGINT NOT NULL DEFAULT 0 COMMENT 'everything below it in the ledger partition is settled',
  batch_no BIGINT NOT NULL DEFAULT 0,
  inflight MEDIUMTEXT CHARACTER SET ascii NOT NULL COMMENT 'claimed and not settled: [[job id,attempt,due ms],...] in the order of sending',
  send_n INT NOT NULL DEFAULT 0 COMMENT 'so many of them, from the first, are the next batch: fewer than all after Kafka refused one',
  index_at VARBINARY(300) NULL COMMENT 'Redis endpoint that holds the shard''s set',
  index_epoch BIGINT NOT NULL DEFAULT 0 COMMENT 'of the leadership that found it there first: markers of earlier ones are not believed',
  trim_offset BIGINT NULL COMMENT 'ledger records below it are deleted once the row has held it for ledger.trim_after',
  trim_at BIGINT NULL COMMENT 'since when it has held trim_offset',
  halted VARBINARY(500) NULL COMMENT 'why the shard waits for an operator: see dt_clear_halt'
) ENGINE=InnoDB COMMENT='one row for every shard that there ever was: the fence of its leader. Rows never go: epochs and offsets go on when a number of shards comes back';

CREATE TABLE IF NOT EXISTS shard_stats (
  shard SMALLINT NOT NULL PRIMARY KEY,
  seen_at BIGINT NOT NULL COMMENT 'written by the leader once a reconciler period',
  epoch BIGINT NOT NULL,
  generation BIGINT NOT NULL DEFAULT 0 COMMENT 'of the slot map that the leader works with; 0 until its index is filled for it',
  waiting VARBINARY(20) NULL COMMENT 'what the leader waits for: kafka, redis, or NULL',
  detail VARBINARY(500) NULL,
  overdue BIGINT NOT NULL DEFAULT 0,
  oldest_due_at BIGINT NULL,
  drift_missing BIGINT NOT NULL DEFAULT 0 COMMENT 'index entries added since the leader took over',
  drift_extra BIGINT NOT NULL DEFAULT 0,
  drift_wrong BIGINT NOT NULL DEFAULT 0
) ENGINE=InnoDB COMMENT='what leaders say about their shards';

CREATE TABLE IF NOT EXISTS processes (
  id BIGINT NOT NULL PRIMARY KEY COMMENT 'a random number that the process gave itself',
  kind ENUM('api','dispatcher') CHARACTER SET ascii NOT NULL,
  name VARBINARY(100) NOT NULL COMMENT 'host:pid',
  started_at BIGINT NOT NULL,
  seen_at BIGINT NOT NULL COMMENT 'written by the process once a second',
  index_down VARBINARY(1000) NULL COMMENT 'Redis endpoints that it cannot write to, separated by commas; * = any: leaders of their shards read due jobs from jobs meanwhile',
  index_losses BIGINT NOT NULL DEFAULT 0 COMMENT 'writes to the index that failed since it started',
  leads TEXT CHARACTER SET ascii NULL COMMENT 'of a dispatcher: the shards that it leads, separated by commas',
  waits VARBINARY(40) NULL COMMENT 'of a dispatcher: what its leaders wait for: kafka, redis, or both'
) ENGINE=InnoDB COMMENT='one row a process of ours: that it lives, and what it can do. Rows that are an hour old are removed';

CREATE TABLE IF NOT EXISTS outbox (
  id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
  shard SMALLINT NOT NULL COMMENT 'whose leader sends it',
  kind ENUM('dead') CHARACTER SET ascii NOT NULL,
  job_id BIGINT NOT NULL,
  attempt INT NOT NULL,
  made_at BIGINT NOT NULL,
  KEY by_shard (shard, id),
  KEY by_job (job_id)
) ENGINE=InnoDB COMMENT='notices that leave for Kafka at least once, written with the state change';

CREATE TABLE IF NOT EXISTS deferred_results (
  id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
  job_id BIGINT NOT NULL,
  attempt INT NOT NULL,
  status ENUM('succeeded','failed','snoozed','gave_up','extended') CHARACTER SET ascii NOT NULL,
  retry_after_ms BIGINT NOT NULL COMMENT '-1 = the report has none',
  error_code VARBINARY(100) NULL,
  error_message VARBINARY(1000) NULL,
  deferred_at BIGINT NOT NULL,
  KEY by_job (job_id, id)
) ENGINE=InnoDB COMMENT='results from Kafka of jobs whose row another session keeps locked: applied in this order once it lets go';

CREATE TABLE IF NOT EXISTS removed_jobs (
  topic VARBINARY(200) NOT NULL PRIMARY KEY,
  removed BIGINT NOT NULL DEFAULT 0
) ENGINE=InnoDB COMMENT='finished jobs removed after their retention, per topic: part of the audit';

CREATE TABLE IF NOT EXISTS api_tokens (
  name VARBINARY(100) NOT NULL PRIMARY KEY,
  hash BINARY(32) NOT NULL COMMENT 'SHA-256 of the token',
  scopes VARBINARY(100) NOT NULL COMMENT 'comma separated: write report read admin; anything else = none',
  topics VARBINARY(4000) NOT NULL DEFAULT '' COMMENT 'comma separated topic prefixes; * alone = all topics; empty = none',
  created_at BIGINT NOT NULL
) ENGINE=InnoDB COMMENT='bearer tokens; the tokens themselves are nowhere';
