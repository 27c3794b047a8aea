-- The schema of duetime. Types are plain; times are BIGINT, in milliseconds since 1970-01-01 UTC. README.md explains
-- the CHECKs and which columns may be changed by hand.

-- ---- The installation ----

CREATE TABLE IF NOT EXISTS installation (
  one TINYINT NOT NULL PRIMARY KEY DEFAULT 1 CHECK (one = 1),
  name VARBINARY(100) NOT NULL COMMENT 'prefix of Kafka topics, Redis keys and ZooKeeper paths',
  uuid CHAR(36) CHARACTER SET ascii NOT NULL,
  shards INT NOT NULL COMMENT 'number of shards that slots map to; only POST /v1/admin/shards changes it',
  generation BIGINT NOT NULL DEFAULT 1 COMMENT 'of the slot map: incremented when the number of shards changes',
  topics_version BIGINT NOT NULL DEFAULT 1 COMMENT 'incremented by every change of a topic''s settings',
  token_rule ENUM('asked','never_made','waived') CHARACTER SET ascii NOT NULL DEFAULT 'never_made' COMMENT 'asked: a token was created once, so every request needs one, even if none is left; waived: duetime-api --waive-tokens reverted that',
  cursor_key VARBINARY(32) NOT NULL DEFAULT '' COMMENT 'key that encrypts next_cursor; created by the first API that finds it empty',
  created_at BIGINT NOT NULL
) ENGINE=InnoDB COMMENT='one row: the installation';

CREATE TABLE IF NOT EXISTS id_sequence (
  one TINYINT NOT NULL PRIMARY KEY DEFAULT 1 CHECK (one = 1),
  next_id BIGINT NOT NULL COMMENT 'first unused sequence number; a block begins at 16 numbers per millisecond since 1970, or later'
) ENGINE=InnoDB COMMENT='job ids are allocated in blocks: home day << 40 | low 39 bits of the sequence number';

CREATE TABLE IF NOT EXISTS test_clock (
  one TINYINT NOT NULL PRIMARY KEY DEFAULT 1 CHECK (one = 1),
  ahead_ms BIGINT NOT NULL DEFAULT 0 COMMENT 'while it runs: how far it is ahead of the server''s clock',
  frozen_at BIGINT NULL COMMENT 'the instant at which it is frozen; NULL = it runs',
  version BIGINT NOT NULL DEFAULT 1 COMMENT 'incremented by every change',
  changed_at BIGINT NOT NULL COMMENT 'by the server''s clock'
) ENGINE=InnoDB COMMENT='one row if the installation was created with installation.test_clock, otherwise none';

-- ---- Topics ----

CREATE TABLE IF NOT EXISTS topics (
  name VARBINARY(200) NOT NULL PRIMARY KEY,
  kafka_topic VARBINARY(249) NULL COMMENT 'NULL = the name of the topic',
  kafka_name VARBINARY(249) AS (COALESCE(kafka_topic, name)) STORED COMMENT 'the Kafka topic that jobs are sent to',
  kafka_fold VARBINARY(249) AS (REPLACE(COALESCE(kafka_topic, name), '.', '_')) STORED COMMENT 'Kafka refuses a_b if a.b exists: two topics with the same fold must have the same kafka_name',
  retry VARCHAR(1600) CHARACTER SET ascii NULL COMMENT 'delays between attempts, e.g. 15s 3m 10m; NULL = the default schedule',
  ack_timeout_ms BIGINT NULL COMMENT 'time to report a result; NULL = 5 minutes',
  retention_ms BIGINT NULL COMMENT 'how long finished jobs are kept; NULL = 30 days',
  paused BOOLEAN NOT NULL DEFAULT FALSE,
  created_at BIGINT NOT NULL,
  updated_at BIGINT NOT NULL,
  version BIGINT NOT NULL DEFAULT 1,
  delivery ENUM('kafka','http','pull') CHARACTER SET ascii NOT NULL DEFAULT 'kafka' COMMENT 'how attempts are delivered that are claimed from now on',
  callback_url VARBINARY(2000) NULL COMMENT 'where callbacks go if the job has no URL of its own',
  callback_timeout_ms BIGINT NULL COMMENT 'time to answer; NULL = 10 seconds, or half of a shorter ack_timeout_ms',
  callback_headers BLOB NULL COMMENT 'JSON object of strings, added to each callback; values are secret',
  callback_secret VARBINARY(600) NULL COMMENT 'signs callbacks: whsec_ and a key in base64, or two of them separated by a space',
  max_in_flight INT NULL COMMENT 'maximal number of attempts without a report; NULL = no limit',
  rate_limit VARCHAR(20) CHARACTER SET ascii NULL COMMENT 'maximal rate of attempts, e.g. 100/s or 600/m; NULL = no limit',
  deletion BIGINT NULL COMMENT 'the operation that deletes the topic; while it runs no new jobs are accepted; NULL = none',
  alerts BLOB NULL COMMENT 'JSON object: overdue, unreported (ms), backlog, dead (jobs); 0 = off, absent = the default; url, secret, mute_until (ms UTC). NULL = defaults',
  -- Owners share resources fairly. A topic's owner is set when the topic is created, and recomputed for all topics when
  -- a token is created or revoked. Dispatchers recompute it each minute, also for rows that were edited by hand.
  owner BIGINT NOT NULL DEFAULT 0 COMMENT 'hash of the prefixes of the token with the longest prefix of the name; without a token, of the name up to the first dot; 0 = not set yet',
  -- A job may name any URL. A topic's headers and signature are sent only to the scheme, host and port of the topic's
  -- own URL, and to the origins in callback_hosts.
  callback_hosts VARBINARY(4000) NULL COMMENT 'scheme://host[:port], separated by commas: further origins to which callback_headers and the signature may be sent',
  KEY kafka_fold (kafka_fold),
  CHECK (ack_timeout_ms > 0),
  CHECK (retention_ms >= 0),
  CONSTRAINT max_in_flight_is_a_number CHECK (max_in_flight > 0),
  CONSTRAINT rate_limit_is_a_rate CHECK (rate_limit REGEXP '^[1-9][0-9]{0,6}/[sm]$'),
  -- A topic has a name in Kafka if its delivery is kafka, or if kafka_topic is set. This name must not be the name of a
  -- Kafka topic in which any installation on the same Kafka keeps its own records: the topic's jobs would be read as
  -- such records. The appended '/' lets INSTR match the end of the name.
  CONSTRAINT kafka_topics_are_not_records CHECK (
    (kafka_topic IS NULL AND delivery <> 'kafka')
    OR (INSTR(CONCAT(COALESCE(kafka_topic, name), '/'), '.ledger/') = 0
    AND INSTR(CONCAT(COALESCE(kafka_topic, name), '/'), '.results/') = 0
    AND INSTR(CONCAT(COALESCE(kafka_topic, name), '/'), '.results.rejected/') = 0
    AND INSTR(CONCAT(COALESCE(kafka_topic, name), '/'), '.commands/') = 0
    AND INSTR(CONCAT(COALESCE(kafka_topic, name), '/'), '.commands.rejected/') = 0
    AND INSTR(CONCAT(COALESCE(kafka_topic, name), '/'), '.dead/') = 0
    AND INSTR(CONCAT(COALESCE(kafka_topic, name), '/'), '.alerts/') = 0
    AND LEFT(COALESCE(kafka_topic, name), 2) <> '__'))
) ENGINE=InnoDB COMMENT='classes of jobs with common settings';

CREATE TABLE IF NOT EXISTS deleted_topics (
  name VARBINARY(200) NOT NULL PRIMARY KEY,
  deleted_at BIGINT NOT NULL,
  KEY deleted_at (deleted_at)
) ENGINE=InnoDB COMMENT='topics that were deleted within a day: if an API does not know it yet and adds a job, the topic is created again, with defaults';

CREATE TABLE IF NOT EXISTS topic_gates (
  topic VARBINARY(200) NOT NULL PRIMARY KEY,
  next_ns BIGINT NOT NULL DEFAULT 0 COMMENT 'nanoseconds since 1970: when the next attempt begins at exactly the topic''s rate',
  interval_ns BIGINT NOT NULL DEFAULT 0 COMMENT 'nanoseconds between attempts at the rate that next_ns was computed with; 0 = none yet',
  opens_at BIGINT NOT NULL DEFAULT 0 COMMENT 'no claim before this time: set with a topic''s first limit, because claims that do not know the limit may be running'
) ENGINE=InnoDB COMMENT='one row per topic that has, or had, a limit. A transaction that claims jobs of the topic locks it until its commit, so claims are serialized';

-- ---- Jobs ----

CREATE TABLE IF NOT EXISTS jobs (
  id BIGINT NOT NULL PRIMARY KEY COMMENT 'home day << 40 | sequence; opaque to callers',
  topic VARBINARY(200) NOT NULL,
  job_key VARBINARY(255) NULL COMMENT 'the caller''s key; job_keys maps it to its latest job',
  state ENUM('scheduled','dispatched','succeeded','dead','cancelled') CHARACTER SET ascii NOT NULL DEFAULT 'scheduled',
  run_at BIGINT NOT NULL COMMENT 'the time that a caller last requested',
  next_at BIGINT NULL COMMENT 'when the job next needs attention: run, retry or report deadline; zero or less: now; NULL if finished',
  near BOOLEAN NOT NULL DEFAULT FALSE COMMENT 'TRUE: the index has the exact next_at (within about two days); FALSE: only its day',
  -- If a manual edit ends an attempt or a job, the row sorts before all other finished rows (band 2, key 0), even if
  -- the job is scheduled again or next_at is set. So dispatchers find such rows without a search. They correct the
  -- counts, and the attempts of these rows no longer count against max_in_flight.
  due_band TINYINT AS (IF(next_at IS NULL OR state + 0 > 2 OR (state + 0 = 1 AND attempt_status + 0 = 1), 2, near)) STORED COMMENT '-1 offered, 0 far, 1 near, 2 finished, or its attempt ended by hand',
  due_key BIGINT AS (IF(state + 0 <> 2 AND (attempt_status + 0 = 1 OR (state + 0 > 2 AND next_at IS NOT NULL)), 0, IF(next_at IS NULL, leave_at, IF(near, GREATEST(next_at, 1), GREATEST(next_at, 1) - GREATEST(next_at, 1) MOD 86400000)))) STORED COMMENT 'when the job is due, in the precision of its band: exact if near, its day if far; 1 if next_at is zero or less; leave_at if finished; 0 in band 2: ended by a manual edit and not counted yet',
  attempt INT NOT NULL DEFAULT 0 COMMENT 'dispatches so far; never falls',
  failures INT NOT NULL DEFAULT 0 COMMENT 'failed attempts since creation or redrive',
  -- The next five columns, http_status and duration_ms are not NULL from the beginning, so that the row does not grow
  -- when the job is claimed and finished, and stays in its page. With NULLs, claims cost 1.4 times as much and results
  -- twice as much, because pages were split.
  attempt_status ENUM('dispatched','succeeded','failed','timed_out','snoozed','gave_up','undeliverable','lost','none') CHARACTER SET ascii NOT NULL DEFAULT 'none' COMMENT 'of the latest attempt',
  due_at BIGINT NOT NULL DEFAULT 0 COMMENT 'next_at when the latest attempt was claimed; 0 = none yet',
  dispatched_at BIGINT NOT NULL DEFAULT 0 COMMENT 'when the latest attempt was claimed; 0 = none yet',
  finished_at BIGINT NULL DEFAULT 0 COMMENT 'when the latest attempt, or the job, ended; 0 (or NULL) = not yet',
  claim_shard SMALLINT NOT NULL DEFAULT -1 COMMENT 'shard that claimed the latest attempt; -1 = none yet',
  no_retries BOOLEAN NOT NULL DEFAULT FALSE COMMENT 'TRUE: cancelled while an attempt was out, so no further attempt follows',
  retry VARCHAR(1600) CHARACTER SET ascii NOT NULL COMMENT 'delays between attempts, e.g. 15s 3m 10m; empty = none',
  ack_timeout_ms BIGINT NOT NULL,
  version INT NOT NULL DEFAULT 1 COMMENT 'incremented by every change through the API; the ETag',
  created_at BIGINT NOT NULL,
  updated_at BIGINT NOT NULL,
  purge_at BIGINT NULL COMMENT 'when a finished job is deleted: its end + the topic''s retention',
  leave_at BIGINT NOT NULL DEFAULT 0 COMMENT 'when a finished job leaves this table, for history, or for good if purge_at is earlier; 0 = not set',
  maker BIGINT NOT NULL COMMENT 'random number of the process, and the id block, that created it',
  digest BINARY(16) NOT NULL COMMENT 'of the request that created it: recognizes repeated creates',
  partition_key VARBINARY(255) NULL,
  content_type VARBINARY(255) NULL COMMENT 'NULL = application/json',
  payload_binary BOOLEAN NOT NULL DEFAULT FALSE COMMENT 'TRUE: the payload was given as payload_base64',
  error_at BIGINT NULL COMMENT 'time of the last failure',
  error_code VARBINARY(100) NULL,
  error_message VARBINARY(1000) NULL,
  headers BLOB NULL COMMENT 'JSON object of strings',
  payload MEDIUMBLOB NOT NULL,
  ttr_ms BIGINT NOT NULL DEFAULT 0 COMMENT 'time to report, from the pop of the latest attempt; replaces ack_timeout_ms; 0 = none',
  http_status SMALLINT NULL DEFAULT 0 COMMENT 'answer of the receiver to the latest attempt; 0 (or NULL) = no callback, or no answer',
  duration_ms INT NULL DEFAULT -1 COMMENT 'time from sending that callback to its answer or failure; -1 (or NULL) = no callback',
  callback_url VARBINARY(2000) NULL COMMENT 'where its callbacks go; NULL = the topic''s callback_url at the time of the attempt',
  KEY due (due_band, due_key, id),
  CONSTRAINT live_jobs_have_next_at CHECK (next_at IS NOT NULL OR state NOT IN ('scheduled','dispatched')),
  CONSTRAINT next_at_is_a_time CHECK (next_at <= 253402300799999),
  CONSTRAINT ack_timeout_is_a_time CHECK (ack_timeout_ms > 0),
  CONSTRAINT attempt_counts CHECK (attempt >= 0 AND failures >= 0),
  -- Each claim and each result increments these columns. If a number could not rise, the statement for the whole batch
  -- would fail again and again, so a manual edit must leave room.
  CONSTRAINT numbers_can_rise CHECK (attempt < 2000000000 AND failures < 2000000000 AND version < 2000000000)
) ENGINE=InnoDB COMMENT='one row per live job; finished jobs stay for a while (history.after) and then move to history';

CREATE TABLE IF NOT EXISTS job_keys (
  topic VARBINARY(200) NOT NULL,
  job_key VARBINARY(255) NOT NULL,
  job_id BIGINT NOT NULL COMMENT 'the latest job with the key',
  PRIMARY KEY (topic, job_key)
) ENGINE=InnoDB COMMENT='maps keys to jobs';

CREATE TABLE IF NOT EXISTS attempts (
  job_id BIGINT NOT NULL,
  attempt INT NOT NULL,
  status ENUM('dispatched','succeeded','failed','timed_out','snoozed','gave_up','undeliverable','lost','none') CHARACTER SET ascii NOT NULL,
  due_at BIGINT NULL,
  dispatched_at BIGINT NULL,
  finished_at BIGINT NULL,
  error_code VARBINARY(100) NULL,
  error_message VARBINARY(1000) NULL,
  http_status SMALLINT NULL COMMENT 'answer of the receiver',
  duration_ms INT NULL COMMENT 'duration of the callback',
  PRIMARY KEY (job_id, attempt)
) ENGINE=InnoDB COMMENT='attempts that a later attempt followed; the latest attempt is in jobs. v_attempts has both';

CREATE TABLE IF NOT EXISTS job_counts (
  topic VARBINARY(200) NOT NULL,
  piece TINYINT NOT NULL COMMENT 'of jobs: home day MOD 32, that is (id >> 40) MOD 32; the audit recounts one piece at a time',
  writer TINYINT NOT NULL COMMENT 'connections are spread over 32 writers, so that few wait for each other',
  scheduled BIGINT NOT NULL DEFAULT 0,
  dispatched BIGINT NOT NULL DEFAULT 0,
  succeeded BIGINT NOT NULL DEFAULT 0,
  dead BIGINT NOT NULL DEFAULT 0,
  cancelled BIGINT NOT NULL DEFAULT 0,
  created BIGINT NOT NULL DEFAULT 0 COMMENT 'jobs ever created; never decreases',
  edited BIGINT NOT NULL DEFAULT 0 COMMENT 'rows of jobs that manual edits added, minus those that they deleted, as the audit found',
  corrected BIGINT NOT NULL DEFAULT 0 COMMENT 'jobs whose state differed from the count when the audit checked; never decreases',
  PRIMARY KEY (topic, piece, writer),
  KEY by_piece (piece)
) ENGINE=InnoDB COMMENT='number of rows of jobs by state: the sum over pieces and writers. Changed in the transaction that changes jobs; single rows may be negative';

CREATE TABLE IF NOT EXISTS count_audits (
  piece TINYINT NOT NULL PRIMARY KEY,
  version BIGINT NOT NULL COMMENT 'incremented by every recount: if two run at once, only one is stored',
  audited_at BIGINT NOT NULL COMMENT 'when the latest recount of the piece ended',
  jobs BIGINT NOT NULL COMMENT 'rows of jobs in the latest recount',
  corrected BIGINT NOT NULL COMMENT 'corrected by all recounts so far',
  found BIGINT NOT NULL DEFAULT 0 COMMENT 'jobs that the latest recount corrected'
) ENGINE=InnoDB COMMENT='the audit: the latest recount of each piece of jobs';

CREATE TABLE IF NOT EXISTS removed_jobs (
  topic VARBINARY(200) NOT NULL PRIMARY KEY,
  removed BIGINT NOT NULL DEFAULT 0
) ENGINE=InnoDB COMMENT='finished jobs that were deleted after their retention, per topic: part of the audit';

-- ---- Finished jobs ----

-- A partition has the jobs that are deleted on the same day; if that day is more than 400 days ahead, the jobs that are
-- deleted in the same month. Dispatchers create and drop the partitions of history and history_attempts, so deleting
-- old jobs costs nothing. Jobs whose partition does not exist yet, and jobs that are kept for ever, are in the
-- partition `rest`. A job is in history or in jobs, never in both.
CREATE TABLE IF NOT EXISTS history (
  id BIGINT NOT NULL,
  part INT NOT NULL COMMENT 'the UTC day of purge_at as YYYYMMDD, or its month as YYYYMM; 0 = rest',
  topic VARBINARY(200) NOT NULL,
  job_key VARBINARY(255) NULL,
  state ENUM('scheduled','dispatched','succeeded','dead','cancelled') CHARACTER SET ascii NOT NULL,
  run_at BIGINT NOT NULL,
  attempt INT NOT NULL,
  failures INT NOT NULL,
  attempt_status ENUM('dispatched','succeeded','failed','timed_out','snoozed','gave_up','undeliverable','lost','none') CHARACTER SET ascii NOT NULL,
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
  purge_at BIGINT NOT NULL COMMENT 'from this time the row is not shown any more; its partition is dropped at the end of the day or month',
  key_until BIGINT NULL COMMENT 'until when job_key stays taken; NULL without a key',
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
  http_status SMALLINT NULL,
  duration_ms INT NULL,
  callback_url VARBINARY(2000) NULL,
  died_at BIGINT AS (IF(state = 'dead', COALESCE(error_at, finished_at, updated_at), NULL)) STORED COMMENT 'time of the last failure of a dead job; NULL of any other',
  PRIMARY KEY (id, part),
  KEY dead (died_at, id)
) ENGINE=InnoDB COMMENT='finished jobs until their retention ends: the columns of jobs, as they were when the job left jobs'
  PARTITION BY LIST (part) (PARTITION rest VALUES IN (0));

CREATE TABLE IF NOT EXISTS history_attempts (
  job_id BIGINT NOT NULL,
  attempt INT NOT NULL,
  part INT NOT NULL COMMENT 'the same as of its job in history',
  purge_at BIGINT NOT NULL COMMENT 'the same as of its job',
  status ENUM('dispatched','succeeded','failed','timed_out','snoozed','gave_up','undeliverable','lost','none') CHARACTER SET ascii NOT NULL,
  due_at BIGINT NULL,
  dispatched_at BIGINT NULL,
  finished_at BIGINT NULL,
  error_code VARBINARY(100) NULL,
  error_message VARBINARY(1000) NULL,
  http_status SMALLINT NULL,
  duration_ms INT NULL,
  PRIMARY KEY (job_id, attempt, part)
) ENGINE=InnoDB COMMENT='rows of attempts whose jobs are in history'
  PARTITION BY LIST (part) (PARTITION rest VALUES IN (0));

CREATE TABLE IF NOT EXISTS history_counts (
  topic VARBINARY(200) NOT NULL,
  state ENUM('scheduled','dispatched','succeeded','dead','cancelled') CHARACTER SET ascii NOT NULL,
  part INT NOT NULL,
  jobs BIGINT NOT NULL,
  PRIMARY KEY (topic, state, part),
  KEY by_part (part)
) ENGINE=InnoDB COMMENT='number of rows of history: changed in the transaction that changes history, so that the counts stay right when a partition is dropped';

CREATE TABLE IF NOT EXISTS history_days (
  home_day INT NOT NULL COMMENT 'id >> 40: the day in the id of a job',
  part INT NOT NULL COMMENT 'a partition of history that has jobs of that day',
  PRIMARY KEY (home_day, part),
  KEY by_part (part)
) ENGINE=InnoDB COMMENT='which partitions can have a job, by its home day. Written with the rows, deleted with the partition';

CREATE TABLE IF NOT EXISTS key_ends (
  free_at BIGINT NOT NULL COMMENT 'history.key_until',
  job_id BIGINT NOT NULL,
  topic VARBINARY(200) NOT NULL,
  job_key VARBINARY(255) NOT NULL,
  PRIMARY KEY (free_at, job_id)
) ENGINE=InnoDB COMMENT='keys of jobs in history, ordered by when they become free: a queue';

-- ---- Leaders and processes ----

CREATE TABLE IF NOT EXISTS shards (
  shard SMALLINT NOT NULL PRIMARY KEY,
  epoch BIGINT NOT NULL DEFAULT 0 COMMENT 'fencing number: incremented at each takeover',
  token BIGINT NOT NULL DEFAULT 0 COMMENT 'random number of the current leadership',
  version BIGINT NOT NULL DEFAULT 0 COMMENT 'incremented by every transaction of a leader',
  owner VARBINARY(100) NULL COMMENT 'host:pid of the leader; NULL after it stepped down',
  owner_since BIGINT NULL,
  ledger_offset BIGINT NOT NULL DEFAULT 0 COMMENT 'everything below it in the ledger partition is settled',
  batch_no BIGINT NOT NULL DEFAULT 0,
  inflight MEDIUMTEXT CHARACTER SET ascii NOT NULL COMMENT 'attempts that are claimed and not settled: [[job id,attempt,due ms],...] in the order of sending',
  send_n INT NOT NULL DEFAULT 0 COMMENT 'how many of inflight, from the first, are the next batch; fewer than all after Kafka refused one',
  index_at VARBINARY(300) NULL COMMENT 'Redis endpoint that holds the shard''s set',
  index_epoch BIGINT NOT NULL DEFAULT 0 COMMENT 'epoch of the leadership that first found the set there: markers of earlier epochs are ignored',
  trim_offset BIGINT NULL COMMENT 'ledger records below it are deleted after it has been in the row for ledger.trim_after',
  trim_at BIGINT NULL COMMENT 'since when trim_offset has its value',
  halted VARBINARY(500) NULL COMMENT 'why the shard waits for an operator: see dt_clear_halt'
) ENGINE=InnoDB COMMENT='one row per shard that ever existed: the fence of its leader. Rows are kept, so that epochs and offsets continue if the number of shards rises again';

CREATE TABLE IF NOT EXISTS shard_stats (
  shard SMALLINT NOT NULL PRIMARY KEY,
  seen_at BIGINT NOT NULL COMMENT 'written by the leader once per reconciler period',
  epoch BIGINT NOT NULL,
  generation BIGINT NOT NULL DEFAULT 0 COMMENT 'of the slot map that the leader uses; 0 until its index is filled for it',
  waiting VARBINARY(20) NULL COMMENT 'what the leader waits for: kafka, redis, or NULL',
  detail VARBINARY(500) NULL,
  overdue BIGINT NOT NULL DEFAULT 0,
  oldest_due_at BIGINT NULL,
  drift_missing BIGINT NOT NULL DEFAULT 0 COMMENT 'index entries added since the leader took over',
  drift_extra BIGINT NOT NULL DEFAULT 0,
  drift_wrong BIGINT NOT NULL DEFAULT 0,
  callbacks VARBINARY(20) NULL COMMENT 'why due callbacks wait: full (all places of the dispatcher are taken), off (callbacks.enabled is false), or NULL',
  drains BIGINT NOT NULL DEFAULT 0 COMMENT 'jobs per second that its leader claimed during the last backlog; 0 = never measured',
  held BIGINT NOT NULL DEFAULT 0 COMMENT 'due jobs of paused topics; not counted as overdue'
) ENGINE=InnoDB COMMENT='what leaders report about their shards';

CREATE TABLE IF NOT EXISTS processes (
  id BIGINT NOT NULL PRIMARY KEY COMMENT 'random; chosen by the process',
  kind ENUM('api','dispatcher') CHARACTER SET ascii NOT NULL,
  name VARBINARY(100) NOT NULL COMMENT 'host:pid',
  started_at BIGINT NOT NULL,
  seen_at BIGINT NOT NULL COMMENT 'written by the process once a second',
  index_down VARBINARY(1000) NULL COMMENT 'Redis endpoints that it cannot write to, separated by commas; * = all. Meanwhile the leaders of their shards read due jobs from MySQL',
  index_losses BIGINT NOT NULL DEFAULT 0 COMMENT 'failed writes to the index since it started',
  leads TEXT CHARACTER SET ascii NULL COMMENT 'dispatchers only: the shards that it leads, separated by commas',
  waits VARBINARY(40) NULL COMMENT 'dispatchers only: what its leaders wait for: kafka, redis, or both',
  version VARBINARY(40) NULL COMMENT 'of the program; NULL = not reported',
  elected_by VARBINARY(20) NULL COMMENT 'zookeeper or mysql: how the dispatcher is elected, whether it leads a shard or not; NULL if it is no candidate'
) ENGINE=InnoDB COMMENT='one row per running process, and its state. Rows are removed after an hour';

CREATE TABLE IF NOT EXISTS process_findings (
  process BIGINT NOT NULL COMMENT 'processes.id of the process that reports it; valid while that process lives',
  finding VARBINARY(40) NOT NULL COMMENT 'its name in GET /v1/doctor',
  subject VARBINARY(250) NOT NULL COMMENT 'the topic, server or file concerned',
  detail VARBINARY(400) NOT NULL COMMENT 'what was observed',
  found_at BIGINT NOT NULL,
  PRIMARY KEY (process, finding, subject)
) ENGINE=InnoDB COMMENT='problems with Kafka, ZooKeeper, clocks and certificates, as each dispatcher sees them. Written only on a change, so nothing is written at rest';

-- Elections without ZooKeeper: the members of the election, and the shards that each member leads.
CREATE TABLE IF NOT EXISTS election_members (
  id BIGINT NOT NULL PRIMARY KEY COMMENT 'random; chosen by the dispatcher when it joined',
  name VARBINARY(100) NOT NULL COMMENT 'host:pid',
  timeout_ms BIGINT NOT NULL COMMENT 'zookeeper.session_timeout of the dispatcher: other members may end it this long after renewed_at',
  joined_at BIGINT NOT NULL COMMENT 'if shards do not divide evenly, earlier members lead one more',
  renewed_at BIGINT NOT NULL COMMENT 'written by the dispatcher every 0.3 timeouts; this one statement renews all of its leases',
  renewals BIGINT NOT NULL DEFAULT 0 COMMENT 'number of renewals; other members watch whether it changes',
  leaving BOOLEAN NOT NULL DEFAULT FALSE COMMENT 'it takes no more shards, and gives back those that it has',
  ended BOOLEAN NOT NULL DEFAULT FALSE COMMENT 'it left, or another member ended it after its timeout; never reset: a dispatcher that returns joins as a new member'
) ENGINE=InnoDB COMMENT='dispatchers that elect leaders by leases (zookeeper.servers is empty). A member that joins removes rows that ended a minute ago or earlier';

CREATE TABLE IF NOT EXISTS leases (
  shard INT NOT NULL PRIMARY KEY,
  member BIGINT NOT NULL COMMENT 'the holder of the lease, unless that member has ended',
  KEY by_member (member)
) ENGINE=InnoDB COMMENT='one row per shard that has a leader. shards.epoch guards what the leader writes, not this row';

-- ---- Ways out: Kafka, callbacks, pops ----

CREATE TABLE IF NOT EXISTS outbox (
  id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
  shard SMALLINT NOT NULL COMMENT 'the shard whose leader sends it',
  kind ENUM('dead') CHARACTER SET ascii NOT NULL,
  job_id BIGINT NOT NULL,
  attempt INT NOT NULL,
  made_at BIGINT NOT NULL,
  KEY by_shard (shard, id),
  KEY by_job (job_id)
) ENGINE=InnoDB COMMENT='dead letters that are sent to Kafka at least once, written with the change of state';

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
) ENGINE=InnoDB COMMENT='results from Kafka for jobs whose row another session keeps locked: applied in this order when it is released';

-- Leaders offer due jobs for pops; an API claims an offered job for its client. The row of an offered job in jobs has
-- near = -1, so its due_band is -1, and scans for due jobs skip it.
CREATE TABLE IF NOT EXISTS pop_queue (
  topic VARBINARY(200) NOT NULL,
  due_at BIGINT NOT NULL COMMENT 'next_at of the job when it was offered; 1 if that was zero or less',
  job_id BIGINT NOT NULL,
  PRIMARY KEY (topic, due_at, job_id)
) ENGINE=InnoDB COMMENT='due jobs of topics with delivery pull, in pop order. A row is a hint: the claim checks the job''s row, and removes this row in the same transaction';

CREATE TABLE IF NOT EXISTS hands (
  job_id BIGINT NOT NULL PRIMARY KEY COMMENT 'a job whose latest attempt is claimed for a callback and has no outcome yet',
  attempt INT NOT NULL,
  shard SMALLINT NOT NULL COMMENT 'the shard whose leader claimed it',
  owner BIGINT NOT NULL COMMENT 'hand_owners.owner: the only process that may send it; 0 = none, the attempt is lost'
) ENGINE=InnoDB COMMENT='attempts in the hands of a process: written with the claim, deleted with the outcome, or by a leader that ends the attempt as lost';

CREATE TABLE IF NOT EXISTS hand_owners (
  owner BIGINT NOT NULL PRIMARY KEY COMMENT 'random; chosen by the dispatcher',
  name VARBINARY(100) NOT NULL COMMENT 'host:pid',
  timeout_ms BIGINT NOT NULL COMMENT 'this long after renewed_at the owner has expired, and its attempts are lost',
  renewed_at BIGINT NOT NULL,
  renewals BIGINT NOT NULL DEFAULT 0 COMMENT 'number of renewals'
) ENGINE=InnoDB COMMENT='dispatchers that send callbacks. After it expired a number is never used again';

-- ---- Ways in: commands, rows of an application's own transaction ----

CREATE TABLE IF NOT EXISTS command_ids (
  id VARBINARY(255) NOT NULL PRIMARY KEY,
  job_id BIGINT NOT NULL COMMENT 'the job that was added with this id; the id is its key'
) ENGINE=InnoDB COMMENT='ids that callers gave to jobs added by a command; an id is free again when the job''s key is';

CREATE TABLE IF NOT EXISTS command_offsets (
  kafka_partition INT NOT NULL PRIMARY KEY,
  next_offset BIGINT NOT NULL COMMENT 'the first message that is not processed; changed in the transaction that processes the messages before it',
  last_offset BIGINT NULL COMMENT 'the last message that was processed; NULL = none, or not to be compared',
  last_digest VARBINARY(16) NULL COMMENT 'of that message: recognizes a commands topic that was deleted and created again',
  halted VARCHAR(500) CHARACTER SET utf8mb4 NULL COMMENT 'why the partition is not read until an operator sets where to continue; NULL = it is read',
  updated_at BIGINT NOT NULL COMMENT 'ms UTC'
) ENGINE=InnoDB COMMENT='up to which message each partition of the commands topic is processed';

-- All answers of a row have the same of_topic and the same topic. So a Kafka topic that cannot be written does not
-- block the answers for other Kafka topics, and the sender can take turns between owners.
CREATE TABLE IF NOT EXISTS command_answers (
  id BIGINT NOT NULL PRIMARY KEY AUTO_INCREMENT,
  kafka_partition INT NOT NULL COMMENT 'of the answered message; the process that reads the partition sends them',
  answers MEDIUMBLOB NOT NULL COMMENT 'JSON: [{"topic":…,"key":…,"value":…,"headers":[[name,value],…]},…]; bytes as base64, null = none',
  created_at BIGINT NOT NULL COMMENT 'ms UTC',
  of_topic VARBINARY(200) NOT NULL DEFAULT '' COMMENT 'the topic that the answered commands name; its owner is the owner of the answers; empty = none',
  topic VARBINARY(249) NOT NULL DEFAULT '' COMMENT 'the Kafka topic of the answers',
  KEY by_partition (kafka_partition, id),
  KEY waiting (kafka_partition, id, topic, of_topic)
) ENGINE=InnoDB COMMENT='answers to processed messages, and rejected messages, until they are sent to Kafka';

CREATE TABLE IF NOT EXISTS job_inbox (
  id BIGINT NOT NULL PRIMARY KEY AUTO_INCREMENT COMMENT 'of the committed rows with the same key, the lowest is processed first',
  action ENUM('create', 'replace', 'cancel', 'change', 'run_now') NOT NULL DEFAULT 'create',
  topic VARBINARY(1000) NULL,
  job_key VARBINARY(1000) NULL,
  job_id BIGINT NULL COMMENT 'names a job without a key; not for create and replace',
  run_at BIGINT NULL COMMENT 'ms UTC; give this or delay_ms',
  delay_ms BIGINT NULL COMMENT 'counted from created_at',
  payload MEDIUMBLOB NULL COMMENT 'JSON; any bytes if options has content_type',
  options MEDIUMBLOB NULL COMMENT 'a JSON object: retry, ack_timeout, headers, partition_key, content_type, callback_url',
  created_at BIGINT NOT NULL DEFAULT (TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000) COMMENT 'ms UTC, of the INSERT',
  error VARCHAR(2000) CHARACTER SET utf8mb4 NULL COMMENT 'why it could not be carried out; NULL = still open, or to be tried again',
  error_at BIGINT NULL COMMENT 'ms UTC',
  is_open TINYINT GENERATED ALWAYS AS (IF(error IS NULL, 1, NULL)) STORED COMMENT '1 = open; otherwise NULL',
  KEY open_rows (is_open, id),
  KEY by_error (error_at),
  CONSTRAINT created_at_is_a_time CHECK (created_at >= 0 AND created_at <= 253402300799999)
) ENGINE=InnoDB COMMENT='requests of applications, written in their own transaction; dispatchers carry one out and delete its row in one transaction';

-- ---- Schedules and operations ----

CREATE TABLE IF NOT EXISTS schedules (
  name VARBINARY(200) NOT NULL PRIMARY KEY,
  topic VARBINARY(200) NOT NULL COMMENT 'topic of its jobs',
  cron VARBINARY(250) NULL COMMENT 'a cron expression; NULL = every every_ms',
  every_ms BIGINT NULL COMMENT 'time between fires, from anchor_at on',
  anchor_at BIGINT NOT NULL COMMENT 'starts_at, or when the schedule was created',
  time_zone VARBINARY(64) NOT NULL COMMENT 'a name of tzdata: the time zone of the expression',
  starts_at BIGINT NULL COMMENT 'no fire before it',
  ends_at BIGINT NULL COMMENT 'no fire at it or later',
  overlap ENUM('allow','skip','cancel') CHARACTER SET ascii NOT NULL COMMENT 'if the job of the last fire is not finished: allow creates the next one, skip creates it as cancelled, cancel creates it and stops retries of the other',
  catch_up_ms BIGINT NOT NULL COMMENT 'missed fires are created if they are at most this old',
  catch_up_max INT NULL COMMENT 'at most this many, the newest; NULL = all',
  jitter_ms BIGINT NOT NULL COMMENT 'jobs run up to this much later than their fire',
  paused BOOLEAN NOT NULL,
  created_at BIGINT NOT NULL,
  updated_at BIGINT NOT NULL,
  version BIGINT NOT NULL COMMENT 'incremented by every change through the API; the ETag',
  digest BINARY(16) NOT NULL COMMENT 'of the request; its jobs have the same digest',
  -- The next columns are columns of the jobs that the schedule creates, with the same meaning as in the table jobs.
  retry VARCHAR(1600) CHARACTER SET ascii NULL COMMENT 'NULL = the topic''s value when a job is created',
  ack_timeout_ms BIGINT NULL COMMENT 'NULL = the topic''s value when a job is created',
  partition_key VARBINARY(255) NULL,
  headers BLOB NULL,
  content_type VARBINARY(255) NULL,
  payload_binary BOOLEAN NOT NULL,
  payload MEDIUMBLOB NOT NULL,
  callback_url VARBINARY(2000) NULL COMMENT 'of its jobs',
  KEY time_zone (time_zone),
  KEY topic (topic)
) ENGINE=InnoDB COMMENT='schedules as they were set';

CREATE TABLE IF NOT EXISTS schedule_fires (
  name VARBINARY(200) NOT NULL PRIMARY KEY,
  next_fire_at BIGINT NULL COMMENT 'the first fire without a job; NULL = none follows',
  look_at BIGINT NULL COMMENT 'when a dispatcher next creates jobs for it; NULL = never (paused, or ended)',
  last_fire_at BIGINT NULL COMMENT 'the last fire that has a job, which may still be ahead',
  last_job_id BIGINT NULL COMMENT 'the job of the last fire, except jobs created as cancelled',
  zone_stamp BIGINT NULL COMMENT 'of the tzdata file that next_fire_at was computed with',
  error VARBINARY(500) NULL COMMENT 'why no job could be created',
  error_at BIGINT NULL,
  owner BIGINT NOT NULL DEFAULT 0 COMMENT 'of its topic, when the schedule was last processed',
  waits_since BIGINT NULL COMMENT 'since when fires wait because a quota of the owner is exceeded; they are created later; NULL = none waits',
  KEY look (look_at),
  KEY turns (owner, look_at)
) ENGINE=InnoDB COMMENT='the progress of each schedule. A process that makes jobs for a schedule, or changes it, locks this row';

CREATE TABLE IF NOT EXISTS operations (
  id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
  kind ENUM('cancel','reschedule','redrive','run_now','delete_topic') CHARACTER SET ascii NOT NULL,
  state ENUM('running','done','stopped','failed') CHARACTER SET ascii NOT NULL DEFAULT 'running',
  request BLOB NOT NULL COMMENT 'the filter as requested, JSON',
  topic_from VARBINARY(201) NOT NULL COMMENT 'first name of the range of topics',
  topic_to VARBINARY(201) NOT NULL COMMENT 'last name of the range of topics',
  key_prefix VARBINARY(255) NULL,
  run_from BIGINT NOT NULL,
  run_to BIGINT NOT NULL COMMENT 'exclusive',
  created_from BIGINT NOT NULL,
  created_to BIGINT NOT NULL COMMENT 'inclusive, and at most started_at: jobs that are created later do not belong to the operation',
  error_code VARBINARY(100) NULL,
  at_ms BIGINT NULL COMMENT 'the new time of rescheduled jobs; NULL = shift_ms is added to their own',
  shift_ms BIGINT NOT NULL DEFAULT 0,
  spread_ms BIGINT NOT NULL DEFAULT 0 COMMENT 'the i-th of n jobs runs i/n of this after at_ms',
  rate VARCHAR(20) CHARACTER SET ascii NULL COMMENT 'maximal rate of changes, e.g. 100/s or 600/m; NULL = no limit',
  walk ENUM('jobs','keys','history','over') CHARACTER SET ascii NOT NULL COMMENT 'the table or index where matching jobs are searched; over: all were found, and are changed piece by piece',
  after_id BIGINT NOT NULL DEFAULT 0 COMMENT 'while searching: the last id that was searched. After that: the last id that was changed, of the jobs that run at after_at',
  after_key VARBINARY(255) NULL,
  after_at BIGINT NOT NULL DEFAULT 0,
  matched BIGINT NOT NULL DEFAULT 0 COMMENT 'found so far',
  changed BIGINT NOT NULL DEFAULT 0,
  refused BIGINT NOT NULL DEFAULT 0 COMMENT 'found, but in another state when they were to be changed',
  sample VARBINARY(300) NOT NULL DEFAULT '[]' COMMENT 'ids of the first ten jobs that were found, JSON',
  error VARBINARY(500) NULL COMMENT 'why it failed',
  look_at BIGINT NULL COMMENT 'when a dispatcher does the next piece; of a finished operation: removes its remaining rows',
  started_at BIGINT NOT NULL,
  finished_at BIGINT NULL,
  actor VARBINARY(100) NULL COMMENT 'the caller; NULL = not recorded',
  failed_from BIGINT NULL COMMENT 'matches jobs whose last failure was at this time or later; NULL = not compared',
  failed_to BIGINT NULL COMMENT 'exclusive; NULL with failed_from',
  owner BIGINT NOT NULL DEFAULT 0 COMMENT 'owners take turns: topics.owner of its topic, or for several topics the owner of the token that asked; if a token for all topics asked: negated, or 0 for several topics',
  KEY look (look_at),
  KEY turns (owner, look_at)
) ENGINE=InnoDB COMMENT='changes of whole sets of jobs: the request, and the progress. The process that does a piece locks the row';

CREATE TABLE IF NOT EXISTS operation_jobs (
  operation BIGINT NOT NULL,
  run_at BIGINT NOT NULL COMMENT 'of the job when it was found',
  job_id BIGINT NOT NULL,
  PRIMARY KEY (operation, run_at, job_id)
) ENGINE=InnoDB COMMENT='the jobs of operations, in the order in which they are changed; deleted when the operation has finished';

-- ---- Alerts ----

CREATE TABLE IF NOT EXISTS alerts (
  id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
  topic VARBINARY(200) NOT NULL DEFAULT '' COMMENT 'empty = the whole installation',
  kind ENUM('overdue','backlog','dead','unreported','shard_halted','no_leader','kafka_unwritable','index_incomplete','inbox_errors','audit_corrected','no_dispatcher') CHARACTER SET ascii NOT NULL,
  value BIGINT NOT NULL COMMENT 'the current figure: ms for overdue and unreported, otherwise a number',
  bound BIGINT NOT NULL COMMENT 'the threshold: the alert is active from this value on',
  began_at BIGINT NOT NULL,
  told_at BIGINT NULL COMMENT 'when its latest message was created; NULL = none, it is muted or silenced',
  silenced_until BIGINT NULL COMMENT 'no messages before this time, except that the end is reported if the beginning was',
  UNIQUE KEY what (topic, kind)
) ENGINE=InnoDB COMMENT='active alerts: the row is inserted when the alert begins and deleted when it ends';

CREATE TABLE IF NOT EXISTS alert_messages (
  id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
  alert BIGINT NOT NULL COMMENT 'alerts.id, which may have ended',
  type ENUM('began','reminded','ended') CHARACTER SET ascii NOT NULL,
  target ENUM('topic','installation','kafka') CHARACTER SET ascii NOT NULL COMMENT 'the topic''s alerts.url, the configuration''s, or the Kafka topic',
  topic VARBINARY(200) NOT NULL,
  kind ENUM('overdue','backlog','dead','unreported','shard_halted','no_leader','kafka_unwritable','index_incomplete','inbox_errors','audit_corrected','no_dispatcher') CHARACTER SET ascii NOT NULL,
  value BIGINT NOT NULL,
  bound BIGINT NOT NULL,
  began_at BIGINT NOT NULL,
  made_at BIGINT NOT NULL,
  next_at BIGINT NOT NULL COMMENT 'when it is sent, or tried again',
  tries INT NOT NULL DEFAULT 0,
  error VARBINARY(500) NULL COMMENT 'of the latest try',
  KEY of_alert (alert, target, id)
) ENGINE=InnoDB COMMENT='messages about alerts that were not delivered yet: at most 10,000 rows, each for a day';

-- One process at a time, the judge, evaluates all alerts: a dispatcher; if no dispatcher is live, an API.
CREATE TABLE IF NOT EXISTS alert_judge (
  only_row TINYINT NOT NULL PRIMARY KEY COMMENT '1',
  process BIGINT NOT NULL COMMENT 'processes.id of the process that evaluates alerts and sends their messages'
) ENGINE=InnoDB COMMENT='one row: a lease that its process renews with its row in processes (seen_at); expires after four seconds';

-- ---- What happened ----

CREATE TABLE IF NOT EXISTS job_events (
  id BIGINT NOT NULL AUTO_INCREMENT,
  at BIGINT NOT NULL,
  actor VARBINARY(100) NOT NULL COMMENT 'name of the token; - = no token is required',
  action VARBINARY(40) NOT NULL COMMENT 'cancel, change, run_now, redrive, replace; topic_…, schedule_…, operation_…, token_…, shards',
  topic VARBINARY(200) NULL COMMENT 'topic of the job or schedule, or the topic itself; NULL = none, or several',
  job_id BIGINT NULL,
  subject VARBINARY(255) NULL COMMENT 'name of the schedule or token; id of the operation',
  operation_id BIGINT NULL COMMENT 'the operation that changed the job',
  was MEDIUMTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL COMMENT 'JSON: the members that changed, before',
  became MEDIUMTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL COMMENT 'JSON: the same members, after',
  PRIMARY KEY (id, at),
  KEY by_job (job_id, id),
  KEY by_topic (topic, id),
  KEY by_actor (actor, id)
) ENGINE=InnoDB COMMENT='the audit log: who changed what, written in the transaction of the change'
  PARTITION BY RANGE (at) (PARTITION later VALUES LESS THAN MAXVALUE);

CREATE TABLE IF NOT EXISTS figures (
  step_ms INT NOT NULL COMMENT 'length of the step: 5000 (kept for two hours) or 300000 (for two weeks)',
  topic VARBINARY(200) NOT NULL COMMENT 'empty = all topics together',
  at BIGINT NOT NULL COMMENT 'start of the step',
  writer BIGINT NOT NULL COMMENT 'random number of the process that counted',
  created INT NOT NULL COMMENT 'jobs created',
  dispatched INT NOT NULL COMMENT 'attempts that were claimed',
  succeeded INT NOT NULL COMMENT 'jobs that succeeded',
  failed INT NOT NULL COMMENT 'attempts that failed, whether or not another followed',
  dead INT NOT NULL COMMENT 'jobs that died',
  cancelled INT NOT NULL COMMENT 'jobs cancelled',
  overdue INT NOT NULL COMMENT 'maximum of due and not dispatched jobs in the shards of the writer; only for all topics together',
  PRIMARY KEY (step_ms, topic, at, writer),
  KEY by_time (step_ms, at)
) ENGINE=InnoDB COMMENT='what each process committed, by step and topic: only sums over writers mean something. No row: nothing happened';

CREATE TABLE IF NOT EXISTS figures_lateness (
  step_ms INT NOT NULL,
  at BIGINT NOT NULL,
  writer BIGINT NOT NULL,
  up_to_us BIGINT NOT NULL COMMENT 'upper bound of the bucket, in microseconds; a day for the last, open bucket',
  attempts INT NOT NULL COMMENT 'attempts in the bucket',
  PRIMARY KEY (step_ms, at, writer, up_to_us)
) ENGINE=InnoDB COMMENT='histogram of lateness, from the due time to the sending, for each row of figures with all topics';

-- ---- Tokens ----

CREATE TABLE IF NOT EXISTS api_tokens (
  name VARBINARY(100) NOT NULL PRIMARY KEY,
  hash BINARY(32) NOT NULL COMMENT 'SHA-256 of the token',
  scopes VARBINARY(100) NOT NULL COMMENT 'separated by commas: write report read admin; any other value = none',
  topics VARBINARY(4000) NOT NULL DEFAULT '' COMMENT 'topic prefixes, separated by commas; * alone = all topics; empty = none',
  created_at BIGINT NOT NULL,
  requests_per_second BIGINT NULL COMMENT 'quota: requests per second; NULL = the configuration''s, 0 = no limit',
  jobs_per_second BIGINT NULL COMMENT 'quota: new jobs per second; NULL = the configuration''s, 0 = no limit',
  payload_bytes_per_second BIGINT NULL COMMENT 'quota: payload bytes of new jobs per second; NULL = the configuration''s, 0 = no limit',
  pending_jobs BIGINT NULL COMMENT 'quota: unfinished jobs of its topics; NULL = the configuration''s, 0 = no limit'
) ENGINE=InnoDB COMMENT='bearer tokens, hashed; the tokens themselves are stored nowhere';

CREATE TABLE IF NOT EXISTS token_usage (
  day BIGINT NOT NULL COMMENT 'start of the day, UTC',
  token VARBINARY(100) NOT NULL COMMENT 'name of the token',
  requests BIGINT NOT NULL DEFAULT 0 COMMENT 'accepted',
  requests_refused BIGINT NOT NULL DEFAULT 0 COMMENT 'refused because of a quota',
  jobs BIGINT NOT NULL DEFAULT 0 COMMENT 'jobs created',
  jobs_refused BIGINT NOT NULL DEFAULT 0 COMMENT 'refused because of a quota',
  payload_bytes BIGINT NOT NULL DEFAULT 0 COMMENT 'of the created jobs',
  PRIMARY KEY (day, token)
) ENGINE=InnoDB COMMENT='use of each token per day; kept for 400 days';

-- Jobs that a schedule creates use the quotas of the tokens of the schedule's owner. All processes that create such
-- jobs share one row, with process = 2.
CREATE TABLE IF NOT EXISTS quota_shares (
  token BIGINT NOT NULL COMMENT 'first 63 bits of a hash of api_tokens.name',
  process BIGINT NOT NULL COMMENT 'odd: random number of an API process; 2: all makers of fires; 0: a row to lock',
  until BIGINT NOT NULL COMMENT 'when the share ends unless it is renewed',
  requests_demand BIGINT NOT NULL DEFAULT 0 COMMENT 'requests that arrived at the process in a second',
  requests_share INT NOT NULL DEFAULT 0 COMMENT 'the process''s part of the quota, in millionths',
  jobs_demand BIGINT NOT NULL DEFAULT 0,
  jobs_share INT NOT NULL DEFAULT 0,
  bytes_demand BIGINT NOT NULL DEFAULT 0,
  bytes_share INT NOT NULL DEFAULT 0,
  jobs_left BIGINT NOT NULL DEFAULT 0 COMMENT 'process 2: thousandths of jobs that were left at left_at',
  left_at BIGINT NOT NULL DEFAULT 0,
  pending_left BIGINT NOT NULL DEFAULT 0 COMMENT 'process 2: how many more pending jobs the quota allowed at left_at',
  count_at BIGINT NOT NULL DEFAULT 0 COMMENT 'when pending jobs are counted again',
  PRIMARY KEY (token, process)
) ENGINE=InnoDB COMMENT='the share of each process in the quotas of tokens; all shares of a token add up to at most the whole. Only for tokens in recent use';

-- An account that may insert into all columns of job_inbox must not be able to use up the ids: after a row with the
-- last id, each INSERT would fail. A CHECK cannot do this: it cannot read an AUTO_INCREMENT column, and it would also
-- refuse the errors that dispatchers write. (If the server assigns the id, NEW.id is still 0 in the trigger.)
DELIMITER $$
CREATE TRIGGER IF NOT EXISTS job_inbox_bounds BEFORE INSERT ON job_inbox FOR EACH ROW
BEGIN
  IF NEW.id < 0 OR NEW.id > 4611686018427387903 THEN
    SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'job_inbox: id must be left out, or be from 1 to 4611686018427387903';
  END IF;
  IF NEW.error IS NOT NULL OR NEW.error_at IS NOT NULL THEN
    SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'job_inbox: error and error_at are written by dispatchers';
  END IF;
END$$
DELIMITER ;

-- ---- Views ----

-- Views are for people. Times are DATETIME(3) in UTC, whatever the session's time zone; topics and keys are bytes.
-- Values out of range are clamped: a time before the year 1000 is shown as the beginning of that year, a time after
-- 9999 as the end of 9999. A next_at of zero or less means now: such a job is due, and overdue by 0 ms. v_jobs (by id),
-- v_overdue, v_shards and v_audit are cheap. v_backlog reads all overdue jobs, v_recount all live jobs, v_dead all live
-- jobs and history.

-- defines v_live 9a5aecaccd98
-- defines v_history 0885ce7c1ee4
-- defines v_jobs 75f96fbaf218
-- defines v_overdue 1dfa6dd521c2
-- defines v_backlog 73f41cb2e25f
-- defines v_shards 437a31cbd5f2
-- defines v_in_flight 7113bb3e7086
-- defines v_dead 8cde0c197f86
-- defines v_attempts 3b1238eb0768
-- defines v_inbox_errors 9dd09b7776dc
-- defines v_commands 845eea5f1fa9
-- defines v_audit cf2a76cbe000
-- defines v_recount 3eab941ebf4d
-- defines v_history_audit 855cea7e7fd2

-- ---- Procedures ----

-- The procedures up to dt_mark_sent are for operators. They follow the rules of the API. Each runs in a transaction of
-- its own (an open transaction is committed first) and returns one row, whose column outcome is one of
--
--   cancelled, rescheduled, redriven, cleared   the change was made
--   too_late    the job is not scheduled any more, or an earlier attempt is being sent to Kafka. (If that attempt has
--               arrived, the shard's row may not say so yet: dt_cancel retries for 200 ms, without holding locks.)
--   not_dead, not_halted, not_found             nothing was changed
--
-- A job that is not in `jobs` is looked up in history, in the partitions that have jobs of its home day (p_id DIV
-- 2^40). If history does not have the job either, the job never existed, or it was redriven meanwhile and is in `jobs`
-- again: so both tables are read again.
--
-- The isolation level must be READ COMMITTED: after the job's row is locked, the in-flight list of the claiming shard
-- must be read as it is committed now. A transaction that locks a job's row never locks the row of the shard.

-- defines dt_explain 20c10ae54927
-- defines dt_cancel 10a7c7271fa5
-- defines dt_reschedule 709b04c59c86
-- defines dt_redrive e7ebbbee0564
-- defines dt_begin_operation 7fecd9bc1aff
-- defines dt_redrive_all aded07e37300
-- defines dt_shift_all a3b2d9a6471b
-- defines dt_cancel_all 2fb5a2cf667d
-- defines dt_clear_halt 6ad3b41c5e5a
-- defines dt_mark_sent ccdce81cc675
-- defines dt_renew_member eab126838386
-- defines dt_watch_alerts 215dec08db7a
