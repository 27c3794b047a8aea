-- duetime: the schema. Plain types, times as BIGINT milliseconds since 1970-01-01 UTC. Why each table, column and CHECK is there: README.md.

-- ---- The installation ----

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

CREATE TABLE IF NOT EXISTS test_clock (
  one TINYINT NOT NULL PRIMARY KEY DEFAULT 1 CHECK (one = 1),
  ahead_ms BIGINT NOT NULL DEFAULT 0 COMMENT 'so far ahead of the server''s clock it is while it goes on',
  frozen_at BIGINT NULL COMMENT 'the instant at which it stands still; NULL = it goes on',
  version BIGINT NOT NULL DEFAULT 1 COMMENT 'raised by every change',
  changed_at BIGINT NOT NULL COMMENT 'by the server''s clock'
) ENGINE=InnoDB COMMENT='one row in an installation that was made with installation.test_clock, none in any other';

-- ---- Topics ----

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
  delivery ENUM('kafka','http','pull') CHARACTER SET ascii NOT NULL DEFAULT 'kafka' COMMENT 'the way of attempts that are claimed from now on',
  callback_url VARBINARY(2000) NULL COMMENT 'where callbacks of jobs go that have no URL of their own',
  callback_timeout_ms BIGINT NULL COMMENT 'time for an answer; NULL = 10 seconds, or half of a shorter ack_timeout_ms',
  callback_headers BLOB NULL COMMENT 'JSON object of strings, added to each callback; values are secret',
  callback_secret VARBINARY(600) NULL COMMENT 'whsec_ and a key in base64, or two of them with a space between: signs callbacks',
  max_in_flight INT NULL COMMENT 'attempts that may be dispatched and not reported; NULL = any number',
  rate_limit VARCHAR(20) CHARACTER SET ascii NULL COMMENT 'attempts that may begin, e.g. 100/s or 600/m; NULL = any number',
  deletion BIGINT NULL COMMENT 'the operation that deletes the topic: nothing new is taken for it; NULL = none',
  alerts BLOB NULL COMMENT 'JSON object: overdue, unreported (ms), backlog, dead (jobs); 0 = never, absent = the default; url, secret, mute_until (ms UTC). NULL = defaults',
  -- What is shared out is shared by owner. It is decided when a topic is made, again for all topics when a token is made or revoked, and again by
  -- dispatchers each minute, also for rows that were edited by hand.
  owner BIGINT NOT NULL DEFAULT 0 COMMENT 'hash of the prefixes of the token with the longest prefix that covers the name; without one, of the part before the first dot; 0 = not decided yet',
  -- A topic's headers and signature go to the topic's own scheme, host and port, and to these places: a job may name any URL.
  callback_hosts VARBINARY(4000) NULL COMMENT 'scheme://host[:port], between commas: further places to which callback_headers and the signature may go',
  KEY kafka_fold (kafka_fold),
  CHECK (ack_timeout_ms > 0),
  CHECK (retention_ms >= 0),
  CONSTRAINT max_in_flight_is_a_number CHECK (max_in_flight > 0),
  CONSTRAINT rate_limit_is_a_rate CHECK (rate_limit REGEXP '^[1-9][0-9]{0,6}/[sm]$'),
  -- A topic has a name in Kafka while its delivery is kafka, or if kafka_topic names one. No topic's jobs go where an installation, this one or another
  -- on the same Kafka, keeps its own records, or it would read them as its own. A '/' after the name finds an ending with one INSTR.
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
) ENGINE=InnoDB COMMENT='topics that were deleted within a day: one that an API did not hear of in time is made again, with defaults, if it got a job';

CREATE TABLE IF NOT EXISTS topic_gates (
  topic VARBINARY(200) NOT NULL PRIMARY KEY,
  next_ns BIGINT NOT NULL DEFAULT 0 COMMENT 'nanoseconds since 1970: when the next attempt would begin if they came at the topic''s rate',
  interval_ns BIGINT NOT NULL DEFAULT 0 COMMENT 'nanoseconds between attempts at the rate that next_ns was counted with; 0 = none yet',
  opens_at BIGINT NOT NULL DEFAULT 0 COMMENT 'nothing is claimed before: set with a topic''s first limit, because claims that do not know it may be under way'
) ENGINE=InnoDB COMMENT='one row a topic that has, or had, a limit: whoever claims jobs of it holds the lock of the row until its commit, so claims come one after the other';

-- ---- Jobs ----

CREATE TABLE IF NOT EXISTS jobs (
  id BIGINT NOT NULL PRIMARY KEY COMMENT 'home day << 40 | sequence; opaque to callers',
  topic VARBINARY(200) NOT NULL,
  job_key VARBINARY(255) NULL COMMENT 'the caller''s key; job_keys maps it to its latest job',
  state ENUM('scheduled','dispatched','succeeded','dead','cancelled') CHARACTER SET ascii NOT NULL DEFAULT 'scheduled',
  run_at BIGINT NOT NULL COMMENT 'what a caller last asked for',
  next_at BIGINT NULL COMMENT 'when the job next needs attention: run, retry or acknowledgement deadline; zero or less: now; NULL when finished',
  near BOOLEAN NOT NULL DEFAULT FALSE COMMENT 'next_at is indexed exactly (within about two days), not by its day',
  -- A manual edit that ends an attempt, or a job, puts the row before all others of the finished ones (band 2, key 0), also if the job is scheduled
  -- again or next_at is still set. So dispatchers find such rows without a search, count them, and give their place of max_in_flight back.
  due_band TINYINT AS (IF(next_at IS NULL OR state + 0 > 2 OR (state + 0 = 1 AND attempt_status + 0 = 1), 2, near)) STORED COMMENT '-1 offered, 0 far, 1 near, 2 finished, or its attempt ended by hand',
  due_key BIGINT AS (IF(state + 0 <> 2 AND (attempt_status + 0 = 1 OR (state + 0 > 2 AND next_at IS NOT NULL)), 0, IF(next_at IS NULL, leave_at, IF(near, GREATEST(next_at, 1), GREATEST(next_at, 1) - GREATEST(next_at, 1) MOD 86400000)))) STORED COMMENT 'graded due time: exact when near, its day when far; 1 for what is due whenever it was (next_at zero or less); leave_at when finished; 0 in band 2: ended by a manual edit, and not counted yet',
  attempt INT NOT NULL DEFAULT 0 COMMENT 'dispatches so far; never falls',
  failures INT NOT NULL DEFAULT 0 COMMENT 'failed attempts since creation or redrive',
  -- The next five have a value from the start, and http_status and duration_ms below too: a row that does not grow when it is claimed and finished
  -- keeps its place in its page. As NULLs they made claims cost 1.4 times, results twice as much (pages were split).
  attempt_status ENUM('dispatched','succeeded','failed','timed_out','snoozed','gave_up','undeliverable','lost','none') CHARACTER SET ascii NOT NULL DEFAULT 'none' COMMENT 'of the latest attempt',
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
  ttr_ms BIGINT NOT NULL DEFAULT 0 COMMENT 'time to report that a pop asked for, in place of ack_timeout_ms, of the latest attempt; 0 = it asked for none',
  http_status SMALLINT NULL DEFAULT 0 COMMENT 'that a receiver answered to the latest attempt; 0 (or NULL) = no callback, or no answer',
  duration_ms INT NULL DEFAULT -1 COMMENT 'from the sending of that callback to its answer, or its failure; -1 (or NULL) = no callback',
  callback_url VARBINARY(2000) NULL COMMENT 'where its callbacks go; NULL = its topic''s callback_url, at the time of each attempt',
  KEY due (due_band, due_key, id),
  CONSTRAINT live_jobs_have_next_at CHECK (next_at IS NOT NULL OR state NOT IN ('scheduled','dispatched')),
  CONSTRAINT next_at_is_a_time CHECK (next_at <= 253402300799999),
  CONSTRAINT ack_timeout_is_a_time CHECK (ack_timeout_ms > 0),
  CONSTRAINT attempt_counts CHECK (attempt >= 0 AND failures >= 0),
  -- Each claim and each result adds one to these. A row whose number cannot rise would make the statement fail for all jobs of its batch, again and
  -- again: a manual edit must leave room.
  CONSTRAINT numbers_can_rise CHECK (attempt < 2000000000 AND failures < 2000000000 AND version < 2000000000)
) ENGINE=InnoDB COMMENT='one row a live job; finished ones stay for a while (history.after), then stand in history';

CREATE TABLE IF NOT EXISTS job_keys (
  topic VARBINARY(200) NOT NULL,
  job_key VARBINARY(255) NOT NULL,
  job_id BIGINT NOT NULL COMMENT 'the latest job that carries the key',
  PRIMARY KEY (topic, job_key)
) ENGINE=InnoDB COMMENT='callers'' keys';

CREATE TABLE IF NOT EXISTS attempts (
  job_id BIGINT NOT NULL,
  attempt INT NOT NULL,
  status ENUM('dispatched','succeeded','failed','timed_out','snoozed','gave_up','undeliverable','lost','none') CHARACTER SET ascii NOT NULL,
  due_at BIGINT NULL,
  dispatched_at BIGINT NULL,
  finished_at BIGINT NULL,
  error_code VARBINARY(100) NULL,
  error_message VARBINARY(1000) NULL,
  http_status SMALLINT NULL COMMENT 'that a receiver answered',
  duration_ms INT NULL COMMENT 'of the callback',
  PRIMARY KEY (job_id, attempt)
) ENGINE=InnoDB COMMENT='attempts that a later attempt followed; the latest one stands in jobs. v_attempts has both';

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
  corrected BIGINT NOT NULL COMMENT 'of all recounts so far',
  found BIGINT NOT NULL DEFAULT 0 COMMENT 'jobs that the latest recount corrected'
) ENGINE=InnoDB COMMENT='the audit: when each piece of jobs was recounted last';

CREATE TABLE IF NOT EXISTS removed_jobs (
  topic VARBINARY(200) NOT NULL PRIMARY KEY,
  removed BIGINT NOT NULL DEFAULT 0
) ENGINE=InnoDB COMMENT='finished jobs removed after their retention, per topic: part of the audit';

-- ---- Finished jobs ----

-- A partition holds the jobs that are removed on one day, or in one month when that is more than 400 days ahead. Dispatchers make and drop the
-- partitions of both tables, so retention costs nothing. Jobs whose partition does not exist yet, and jobs that are kept for ever, are in `rest`.
-- A job is in history or in jobs, never in both.
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
  http_status SMALLINT NULL,
  duration_ms INT NULL,
  callback_url VARBINARY(2000) NULL,
  died_at BIGINT AS (IF(state = 'dead', COALESCE(error_at, finished_at, updated_at), NULL)) STORED COMMENT 'of a dead job: when it failed last; NULL of any other',
  PRIMARY KEY (id, part),
  KEY dead (died_at, id)
) ENGINE=InnoDB COMMENT='finished jobs until their retention ends: the columns of jobs, as they were when the job left it'
  PARTITION BY LIST (part) (PARTITION rest VALUES IN (0));

CREATE TABLE IF NOT EXISTS history_attempts (
  job_id BIGINT NOT NULL,
  attempt INT NOT NULL,
  part INT NOT NULL COMMENT 'of its job in history',
  purge_at BIGINT NOT NULL COMMENT 'of its job',
  status ENUM('dispatched','succeeded','failed','timed_out','snoozed','gave_up','undeliverable','lost','none') CHARACTER SET ascii NOT NULL,
  due_at BIGINT NULL,
  dispatched_at BIGINT NULL,
  finished_at BIGINT NULL,
  error_code VARBINARY(100) NULL,
  error_message VARBINARY(1000) NULL,
  http_status SMALLINT NULL,
  duration_ms INT NULL,
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

-- ---- Leaders and processes ----

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
  drift_wrong BIGINT NOT NULL DEFAULT 0,
  callbacks VARBINARY(20) NULL COMMENT 'why due callbacks wait here: full (all places of the dispatcher are taken), off (callbacks.enabled is false), or NULL',
  drains BIGINT NOT NULL DEFAULT 0 COMMENT 'jobs a second that its leader claimed while more were due, when that last lasted; 0 = never measured',
  held BIGINT NOT NULL DEFAULT 0 COMMENT 'due jobs of paused topics, which are not overdue'
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
  waits VARBINARY(40) NULL COMMENT 'of a dispatcher: what its leaders wait for: kafka, redis, or both',
  version VARBINARY(40) NULL COMMENT 'of the program; NULL = of one that did not say so',
  elected_by VARBINARY(20) NULL COMMENT 'of a dispatcher that is elected for a shard, whether it leads it yet or not: zookeeper or mysql; NULL of any other'
) ENGINE=InnoDB COMMENT='one row a process of ours: that it lives, and what it can do. Rows that are an hour old are removed';

CREATE TABLE IF NOT EXISTS process_findings (
  process BIGINT NOT NULL COMMENT 'processes.id of whoever sees it; counts while that process lives',
  finding VARBINARY(40) NOT NULL COMMENT 'its name, as GET /v1/doctor tells it',
  subject VARBINARY(250) NOT NULL COMMENT 'the topic, server or file that it is about',
  detail VARBINARY(400) NOT NULL COMMENT 'what it was seen by',
  found_at BIGINT NOT NULL,
  PRIMARY KEY (process, finding, subject)
) ENGINE=InnoDB COMMENT='what is wrong with Kafka, ZooKeeper, clocks and certificates, as each dispatcher sees it: written when it changes, so nothing at rest';

-- Elections without ZooKeeper: the members, and the shards that they lead.
CREATE TABLE IF NOT EXISTS election_members (
  id BIGINT NOT NULL PRIMARY KEY COMMENT 'a random number that the dispatcher gave itself when it joined',
  name VARBINARY(100) NOT NULL COMMENT 'host:pid',
  timeout_ms BIGINT NOT NULL COMMENT 'zookeeper.session_timeout of the dispatcher: so long after renewed_at the member may be ended',
  joined_at BIGINT NOT NULL COMMENT 'who joined first leads one shard more when shards do not divide evenly',
  renewed_at BIGINT NOT NULL COMMENT 'written by the dispatcher every 0.3 timeouts: this one statement renews all of its leases',
  renewals BIGINT NOT NULL DEFAULT 0 COMMENT 'how often; others watch whether it stands still',
  leaving BOOLEAN NOT NULL DEFAULT FALSE COMMENT 'it takes no more shards, and gives back what it has',
  ended BOOLEAN NOT NULL DEFAULT FALSE COMMENT 'it left, or another one ended it after its timeout; never false again: a dispatcher that comes back joins anew'
) ENGINE=InnoDB COMMENT='dispatchers that elect leaders by leases (zookeeper.servers is empty). Rows that ended are removed by who joins a minute later';

CREATE TABLE IF NOT EXISTS leases (
  shard INT NOT NULL PRIMARY KEY,
  member BIGINT NOT NULL COMMENT 'whose lease it is, as long as that member has not ended',
  KEY by_member (member)
) ENGINE=InnoDB COMMENT='one row a shard that is led: who should lead it. What is written is guarded by shards.epoch, not by this';

-- ---- Ways out: Kafka, callbacks, pops ----

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

-- A leader offers what is due; an API claims it for its client. A row of jobs that is offered has `near` at -1, so due_band -1: scans of what is due
-- do not meet it.
CREATE TABLE IF NOT EXISTS pop_queue (
  topic VARBINARY(200) NOT NULL,
  due_at BIGINT NOT NULL COMMENT 'next_at of the job when it was offered; 1 where that was zero or less',
  job_id BIGINT NOT NULL,
  PRIMARY KEY (topic, due_at, job_id)
) ENGINE=InnoDB COMMENT='due jobs of topics whose delivery is pull, in the order in which they are popped. A row is a hint: the claim decides by the job''s row, and takes both away together';

CREATE TABLE IF NOT EXISTS hands (
  job_id BIGINT NOT NULL PRIMARY KEY COMMENT 'its latest attempt, claimed for a callback whose outcome is not recorded',
  attempt INT NOT NULL,
  shard SMALLINT NOT NULL COMMENT 'whose leader claimed it',
  owner BIGINT NOT NULL COMMENT 'the process that alone may put it on the wire: hand_owners.owner; 0 = nobody, the attempt is lost'
) ENGINE=InnoDB COMMENT='attempts in the hands of a process: written with the claim, deleted with the outcome, or by a leader that ends the attempt as lost';

CREATE TABLE IF NOT EXISTS hand_owners (
  owner BIGINT NOT NULL PRIMARY KEY COMMENT 'a random number that the dispatcher gave itself',
  name VARBINARY(100) NOT NULL COMMENT 'host:pid',
  timeout_ms BIGINT NOT NULL COMMENT 'so long after renewed_at the owner is gone, and what it has in its hands is lost',
  renewed_at BIGINT NOT NULL,
  renewals BIGINT NOT NULL DEFAULT 0 COMMENT 'how often'
) ENGINE=InnoDB COMMENT='dispatchers that have callbacks in their hands. A number that was not renewed in time is never used again';

-- ---- Ways in: commands, rows of an application's own transaction ----

CREATE TABLE IF NOT EXISTS command_ids (
  id VARBINARY(255) NOT NULL PRIMARY KEY,
  job_id BIGINT NOT NULL COMMENT 'the job that was added with it, whose key it is'
) ENGINE=InnoDB COMMENT='ids of jobs that were added by a command; free again when the job''s key is';

CREATE TABLE IF NOT EXISTS command_offsets (
  kafka_partition INT NOT NULL PRIMARY KEY,
  next_offset BIGINT NOT NULL COMMENT 'of the first message that is not done; changed in the transaction that does those before it',
  last_offset BIGINT NULL COMMENT 'of the last message that was done; NULL: there was none, or it is not to be compared',
  last_digest VARBINARY(16) NULL COMMENT 'of that message, by which a topic that was made anew is told from the one that was read',
  halted VARCHAR(500) CHARACTER SET utf8mb4 NULL COMMENT 'why the partition is not read, until somebody says where to go on; NULL: it is read',
  updated_at BIGINT NOT NULL COMMENT 'ms UTC'
) ENGINE=InnoDB COMMENT='where the messages of each partition of the commands topic are done up to';

-- An answer waits for its own Kafka topic alone, and owners take turns: a row has answers of one pair of topics.
CREATE TABLE IF NOT EXISTS command_answers (
  id BIGINT NOT NULL PRIMARY KEY AUTO_INCREMENT,
  kafka_partition INT NOT NULL COMMENT 'of a message that is answered; whoever reads it sends them',
  answers MEDIUMBLOB NOT NULL COMMENT 'JSON: [{"topic":…,"key":…,"value":…,"headers":[[name,value],…]},…]; bytes as base64, null = none',
  created_at BIGINT NOT NULL COMMENT 'ms UTC',
  of_topic VARBINARY(200) NOT NULL DEFAULT '' COMMENT 'the topic that the answered commands name; its owner is the owner of the answers; empty = none',
  topic VARBINARY(249) NOT NULL DEFAULT '' COMMENT 'the Kafka topic of the answers',
  KEY by_partition (kafka_partition, id),
  KEY waiting (kafka_partition, id, topic, of_topic)
) ENGINE=InnoDB COMMENT='answers to messages that were done, and messages that were refused, until they have left for Kafka';

CREATE TABLE IF NOT EXISTS job_inbox (
  id BIGINT NOT NULL PRIMARY KEY AUTO_INCREMENT COMMENT 'of the rows of a key that are committed the lowest goes first',
  action ENUM('create', 'replace', 'cancel', 'change', 'run_now') NOT NULL DEFAULT 'create',
  topic VARBINARY(1000) NULL,
  job_key VARBINARY(1000) NULL,
  job_id BIGINT NULL COMMENT 'names a job that has no key; not of create and replace',
  run_at BIGINT NULL COMMENT 'ms UTC; this or delay_ms',
  delay_ms BIGINT NULL COMMENT 'counts from created_at',
  payload MEDIUMBLOB NULL COMMENT 'JSON; any bytes when options has content_type',
  options MEDIUMBLOB NULL COMMENT 'a JSON object: retry, ack_timeout, headers, partition_key, content_type, callback_url',
  created_at BIGINT NOT NULL DEFAULT (TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000) COMMENT 'ms UTC, of the INSERT',
  error VARCHAR(2000) CHARACTER SET utf8mb4 NULL COMMENT 'why it could not be carried out; NULL: it is to be carried out, or once more',
  error_at BIGINT NULL COMMENT 'ms UTC',
  is_open TINYINT GENERATED ALWAYS AS (IF(error IS NULL, 1, NULL)) STORED COMMENT '1: it is to be carried out; else NULL',
  KEY open_rows (is_open, id),
  KEY by_error (error_at),
  CONSTRAINT created_at_is_a_time CHECK (created_at >= 0 AND created_at <= 253402300799999)
) ENGINE=InnoDB COMMENT='what applications ask for; dispatchers carry it out and remove the row, in one transaction';

-- ---- Schedules and operations ----

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
  callback_url VARBINARY(2000) NULL COMMENT 'of its jobs',
  KEY time_zone (time_zone),
  KEY topic (topic)
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
  owner BIGINT NOT NULL DEFAULT 0 COMMENT 'of its topic, as it was when the schedule was looked at last',
  waits_since BIGINT NULL COMMENT 'when fires began to wait because a quota of the owner was used up; fires that are due since then are made later; NULL = no fire waits',
  KEY look (look_at),
  KEY turns (owner, look_at)
) ENGINE=InnoDB COMMENT='how far each schedule is: who makes jobs for a schedule, or changes it, holds its row here';

CREATE TABLE IF NOT EXISTS operations (
  id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
  kind ENUM('cancel','reschedule','redrive','run_now','delete_topic') CHARACTER SET ascii NOT NULL,
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
  actor VARBINARY(100) NULL COMMENT 'who asked for it; NULL = nobody is noted',
  failed_from BIGINT NULL COMMENT 'the last failure of the jobs was no earlier; NULL = whenever, or never',
  failed_to BIGINT NULL COMMENT 'exclusive; NULL with failed_from',
  owner BIGINT NOT NULL DEFAULT 0 COMMENT 'owners take turns: topics.owner of its topic, or for several topics the owner of the token that asked; if a token for all topics asked: negated, or 0 for several topics',
  KEY look (look_at),
  KEY turns (owner, look_at)
) ENGINE=InnoDB COMMENT='changes of whole sets of jobs: what was asked, and how far each is. Who does a piece holds the row';

CREATE TABLE IF NOT EXISTS operation_jobs (
  operation BIGINT NOT NULL,
  run_at BIGINT NOT NULL COMMENT 'of the job when it was found',
  job_id BIGINT NOT NULL,
  PRIMARY KEY (operation, run_at, job_id)
) ENGINE=InnoDB COMMENT='the jobs of operations, in the order in which they are changed; removed when the operation has finished';

-- ---- Alerts ----

CREATE TABLE IF NOT EXISTS alerts (
  id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
  topic VARBINARY(200) NOT NULL DEFAULT '' COMMENT 'empty: of the installation',
  kind ENUM('overdue','backlog','dead','unreported','shard_halted','no_leader','kafka_unwritable','index_incomplete','inbox_errors','audit_corrected','no_dispatcher') CHARACTER SET ascii NOT NULL,
  value BIGINT NOT NULL COMMENT 'how bad it is: ms of overdue and unreported, else a number',
  bound BIGINT NOT NULL COMMENT 'from here on it stands',
  began_at BIGINT NOT NULL,
  told_at BIGINT NULL COMMENT 'when its latest message was made; NULL = none was, it is muted or silenced',
  silenced_until BIGINT NULL COMMENT 'nobody is told of it before; its end is told to who heard of its beginning',
  UNIQUE KEY what (topic, kind)
) ENGINE=InnoDB COMMENT='alerts that stand. A row is there from the beginning of an alert to its end';

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
  next_at BIGINT NOT NULL COMMENT 'when it is sent, or sent again',
  tries INT NOT NULL DEFAULT 0,
  error VARBINARY(500) NULL COMMENT 'of the latest try',
  KEY of_alert (alert, target, id)
) ENGINE=InnoDB COMMENT='messages about alerts that did not arrive yet: an outbox of at most 10,000 rows, each for a day';

-- The process that has the lease judges alerts: a dispatcher, or an API while no dispatcher lives.
CREATE TABLE IF NOT EXISTS alert_judge (
  only_row TINYINT NOT NULL PRIMARY KEY COMMENT '1',
  process BIGINT NOT NULL COMMENT 'processes.id of the process that judges alerts and sends their messages'
) ENGINE=InnoDB COMMENT='one row: a lease, which its process renews with its row in processes (seen_at) and which ends four seconds later';

-- ---- What happened ----

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

CREATE TABLE IF NOT EXISTS figures (
  step_ms INT NOT NULL COMMENT 'length of the step: 5000 (kept for two hours) or 300000 (for two weeks)',
  topic VARBINARY(200) NOT NULL COMMENT 'empty = all topics together',
  at BIGINT NOT NULL COMMENT 'beginning of the step',
  writer BIGINT NOT NULL COMMENT 'a random number of the process that counted',
  created INT NOT NULL COMMENT 'jobs made',
  dispatched INT NOT NULL COMMENT 'attempts claimed',
  succeeded INT NOT NULL COMMENT 'jobs that ended well',
  failed INT NOT NULL COMMENT 'attempts that ended badly, whether or not another followed',
  dead INT NOT NULL COMMENT 'jobs given up',
  cancelled INT NOT NULL COMMENT 'jobs cancelled',
  overdue INT NOT NULL COMMENT 'most jobs that were due and not dispatched in shards of the writer; of all topics together',
  PRIMARY KEY (step_ms, topic, at, writer),
  KEY by_time (step_ms, at)
) ENGINE=InnoDB COMMENT='what each process committed, by step of time and topic: the sum over writers counts. Nothing happened where there is no row';

CREATE TABLE IF NOT EXISTS figures_lateness (
  step_ms INT NOT NULL,
  at BIGINT NOT NULL,
  writer BIGINT NOT NULL,
  up_to_us BIGINT NOT NULL COMMENT 'upper bound of the bucket, in microseconds; a day for whatever is later than the last bound',
  attempts INT NOT NULL COMMENT 'that were sent so late and no earlier than the bound below',
  PRIMARY KEY (step_ms, at, writer, up_to_us)
) ENGINE=InnoDB COMMENT='a histogram of the time from when attempts were due until they were sent, for each row of figures with all topics';

-- ---- Tokens ----

CREATE TABLE IF NOT EXISTS api_tokens (
  name VARBINARY(100) NOT NULL PRIMARY KEY,
  hash BINARY(32) NOT NULL COMMENT 'SHA-256 of the token',
  scopes VARBINARY(100) NOT NULL COMMENT 'comma separated: write report read admin; anything else = none',
  topics VARBINARY(4000) NOT NULL DEFAULT '' COMMENT 'comma separated topic prefixes; * alone = all topics; empty = none',
  created_at BIGINT NOT NULL,
  requests_per_second BIGINT NULL COMMENT 'quota: requests in a second; NULL = the configuration''s, 0 = none',
  jobs_per_second BIGINT NULL COMMENT 'quota: new jobs in a second; NULL = the configuration''s, 0 = none',
  payload_bytes_per_second BIGINT NULL COMMENT 'quota: bytes of payloads of new jobs in a second; NULL = the configuration''s, 0 = none',
  pending_jobs BIGINT NULL COMMENT 'quota: jobs of its topics that are not finished; NULL = the configuration''s, 0 = none'
) ENGINE=InnoDB COMMENT='bearer tokens; the tokens themselves are nowhere';

CREATE TABLE IF NOT EXISTS token_usage (
  day BIGINT NOT NULL COMMENT 'its beginning, UTC',
  token VARBINARY(100) NOT NULL COMMENT 'name of the token',
  requests BIGINT NOT NULL DEFAULT 0 COMMENT 'let pass',
  requests_refused BIGINT NOT NULL DEFAULT 0 COMMENT 'over a quota',
  jobs BIGINT NOT NULL DEFAULT 0 COMMENT 'made',
  jobs_refused BIGINT NOT NULL DEFAULT 0 COMMENT 'over a quota',
  payload_bytes BIGINT NOT NULL DEFAULT 0 COMMENT 'of the jobs that were made',
  PRIMARY KEY (day, token)
) ENGINE=InnoDB COMMENT='what each token was used for on each day; kept for 400 days';

-- All makers of fires together have one row, of the process 2: fires spend the quotas of their owner's tokens.
CREATE TABLE IF NOT EXISTS quota_shares (
  token BIGINT NOT NULL COMMENT 'the first 63 bits of a hash of api_tokens.name',
  process BIGINT NOT NULL COMMENT 'an API process, by an odd random number; 2: all makers of fires; 0: a row to lock',
  until BIGINT NOT NULL COMMENT 'when the share ends that is not renewed',
  requests_demand BIGINT NOT NULL DEFAULT 0 COMMENT 'requests that came to the process in a second',
  requests_share INT NOT NULL DEFAULT 0 COMMENT 'millionths of the quota that the process lets pass',
  jobs_demand BIGINT NOT NULL DEFAULT 0,
  jobs_share INT NOT NULL DEFAULT 0,
  bytes_demand BIGINT NOT NULL DEFAULT 0,
  bytes_share INT NOT NULL DEFAULT 0,
  jobs_left BIGINT NOT NULL DEFAULT 0 COMMENT 'of the process 2: thousandths of jobs that could be made at left_at',
  left_at BIGINT NOT NULL DEFAULT 0,
  pending_left BIGINT NOT NULL DEFAULT 0 COMMENT 'process 2: how many more pending jobs the quota allowed at left_at',
  count_at BIGINT NOT NULL DEFAULT 0 COMMENT 'when they are counted again',
  PRIMARY KEY (token, process)
) ENGINE=InnoDB COMMENT='who lets pass which part of a quota; of one token all together at most the whole. Only of tokens that were in use a moment ago';

-- An account that may insert into all columns of job_inbox must not use up the numbers for all others: after a row with the last id no INSERT would
-- succeed. A CHECK cannot read an AUTO_INCREMENT column, and would refuse the errors that dispatchers write. (The server's own id is still 0 here.)
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

-- For people. Times are DATETIME(3) in UTC, whatever the session's time zone; topics and keys are bytes. A view shows whatever a column holds: a time
-- before the year 1000 as the beginning of that year, a time after the year 9999 as its end. A next_at of zero or less means now: such a job is due, and
-- overdue by 0 ms. v_jobs, v_overdue, v_shards and v_audit are cheap (v_jobs by id reads one row); v_backlog reads what is overdue; v_recount counts the
-- table of live jobs, v_dead reads it and history.

-- defines v_live 0c97dddf320c
-- defines v_history c63328a8e8bd
-- defines v_jobs 59772069203a
-- defines v_overdue 36dec630f2ab
-- defines v_backlog ac2a8f1666e9
-- defines v_shards 9171ffff3ec6
-- defines v_in_flight ec9a58d52d2f
-- defines v_dead bbe988f6a6dc
-- defines v_attempts afa1e2ea43aa
-- defines v_inbox_errors faef7b13eb0a
-- defines v_commands 845eea5f1fa9
-- defines v_audit 8e5355b5e162
-- defines v_recount a564df8cf1b2
-- defines v_history_audit 726f06940ddf

-- ---- Procedures ----

-- For operators, up to dt_mark_sent. They follow the rules of the API, each in a transaction of its own (an open transaction is committed first), and
-- answer with one row. outcome is one of
--   cancelled, rescheduled, redriven, cleared   done
--   too_late    not scheduled any more, or an earlier attempt is on its way to Kafka. (If that attempt has arrived, the shard's row may not say so yet:
--               dt_cancel looks again for 200 ms, and holds nothing meanwhile.)
--   not_dead, not_halted, not_found             nothing was changed
--
-- A job that is not in `jobs` is looked for in history, in the partitions that jobs of its home day (p_id DIV 2^40) have gone to. If it is not there
-- either, it was driven back in between, or never was: both are asked again.
--
-- READ COMMITTED matters: the in-flight list of the claiming shard must be read as it is committed now, after the job's row was locked. A transaction
-- that holds a job's row never locks the row of the shard itself.

-- defines dt_explain 4dfaa708b52a
-- defines dt_cancel c27419e376a7
-- defines dt_reschedule e167b03a4cc3
-- defines dt_redrive fe3c4408dd09
-- defines dt_begin_operation 2290e8f9f5d8
-- defines dt_redrive_all fd44974c08ef
-- defines dt_shift_all d36b63e138c5
-- defines dt_cancel_all f4d05aacd58e
-- defines dt_clear_halt 917a8692e1c1
-- defines dt_mark_sent 20c2688d3b2f
-- defines dt_renew_member b10819f30219
-- defines dt_watch_alerts 752b6828382a
