-- Limits of a topic: how many attempts may be in flight, and how many may begin in a second or a minute.

ALTER TABLE topics
  ADD COLUMN max_in_flight INT NULL COMMENT 'attempts that may be dispatched and not reported; NULL = any number',
  ADD CONSTRAINT max_in_flight_is_a_number CHECK (max_in_flight > 0);

ALTER TABLE topics
  ADD COLUMN rate_limit VARCHAR(20) CHARACTER SET ascii NULL COMMENT 'attempts that may begin, e.g. 100/s or 600/m; NULL = any number',
  ADD CONSTRAINT rate_limit_is_a_rate CHECK (rate_limit REGEXP '^[1-9][0-9]{0,6}/[sm]$');

CREATE TABLE IF NOT EXISTS topic_gates (
  topic VARBINARY(200) NOT NULL PRIMARY KEY,
  next_ns BIGINT NOT NULL DEFAULT 0 COMMENT 'nanoseconds since 1970: when the next attempt would begin if they came at the topic''s rate',
  interval_ns BIGINT NOT NULL DEFAULT 0 COMMENT 'nanoseconds between attempts at the rate that next_ns was counted with; 0 = none yet',
  opens_at BIGINT NOT NULL DEFAULT 0 COMMENT 'nothing is claimed before: set with a topic''s first limit, because claims that do not know it may be under way'
) ENGINE=InnoDB COMMENT='one row a topic that has, or had, a limit: whoever claims jobs of it holds the lock of the row until its commit, so claims come one after the other';

-- As before, with `limit` and `pop` in waiting_for. The table of live jobs, and of those that finished a short while ago (history.after).
CREATE OR REPLACE SQL SECURITY INVOKER VIEW v_live AS
SELECT
  j.id,
  j.topic,
  j.job_key,
  j.state,
  CASE
    WHEN j.state = 'dispatched' THEN IF(INSTR(s.inflight, CONCAT('[', j.id, ',')) > 0, 'kafka', 'ack')
    WHEN j.state <> 'scheduled' THEN NULL
    WHEN j.next_at > TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000 THEN 'time'
    WHEN t.paused THEN 'paused'
    WHEN t.name IS NULL THEN 'kafka' -- nobody can say where it goes
    WHEN t.max_in_flight <= (SELECT SUM(c.dispatched) FROM job_counts c FORCE INDEX (PRIMARY) WHERE c.topic = t.name) THEN 'limit'
    WHEN t.rate_limit IS NOT NULL AND EXISTS (
      SELECT 1 FROM topic_gates g FORCE INDEX (PRIMARY) WHERE g.topic = t.name -- the burst of nine tenths of a second is used up
        AND g.next_ns > TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000 * 1000000 + GREATEST(900000000 - g.interval_ns, 0))
      THEN 'limit'
    WHEN t.delivery = 'pull' THEN 'pop'
    ELSE 'leader'
  END AS waiting_for,
  CAST('1970-01-01' + INTERVAL (LEAST(GREATEST(j.run_at, -30610224000000), 253402300799999) * 1000) MICROSECOND AS DATETIME(3)) AS run_at,
  CAST('1970-01-01' + INTERVAL (LEAST(GREATEST(j.next_at, -30610224000000), 253402300799999) * 1000) MICROSECOND AS DATETIME(3)) AS next_at,
  IF(j.state IN ('scheduled','dispatched'),
     IF(j.next_at > 0, GREATEST(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000 - j.next_at, 0), 0), NULL) AS overdue_ms,
  j.attempt,
  IF(TRIM(j.retry) = '', 1, 2 + LENGTH(TRIM(j.retry)) - LENGTH(REPLACE(TRIM(j.retry), ' ', ''))) AS max_attempts,
  j.failures,
  NULLIF(CAST(j.attempt_status AS CHAR), 'none') AS attempt_status,
  CAST('1970-01-01' + INTERVAL (LEAST(GREATEST(NULLIF(j.due_at, 0), -30610224000000), 253402300799999) * 1000) MICROSECOND AS DATETIME(3)) AS due_at,
  CAST('1970-01-01' + INTERVAL (LEAST(GREATEST(NULLIF(j.dispatched_at, 0), -30610224000000), 253402300799999) * 1000) MICROSECOND AS DATETIME(3)) AS dispatched_at,
  LEAST(GREATEST(NULLIF(j.dispatched_at, 0), 0), 253402300799999) - LEAST(GREATEST(NULLIF(j.due_at, 0), 0), 253402300799999) AS lateness_ms,
  CAST('1970-01-01' + INTERVAL (LEAST(GREATEST(NULLIF(j.finished_at, 0), -30610224000000), 253402300799999) * 1000) MICROSECOND AS DATETIME(3)) AS finished_at,
  j.error_code,
  j.error_message,
  CAST('1970-01-01' + INTERVAL (LEAST(GREATEST(j.error_at, -30610224000000), 253402300799999) * 1000) MICROSECOND AS DATETIME(3)) AS error_at,
  j.retry,
  j.ack_timeout_ms,
  j.no_retries,
  j.partition_key,
  j.content_type,
  j.headers,
  j.payload,
  CRC32(j.id) % 1024 AS slot,
  NULLIF(j.claim_shard, -1) AS claim_shard,
  CAST('1970-01-01' + INTERVAL (LEAST(GREATEST(j.purge_at, -30610224000000), 253402300799999) * 1000) MICROSECOND AS DATETIME(3)) AS purge_at,
  CAST('1970-01-01' + INTERVAL (LEAST(GREATEST(j.created_at, -30610224000000), 253402300799999) * 1000) MICROSECOND AS DATETIME(3)) AS created_at,
  CAST('1970-01-01' + INTERVAL (LEAST(GREATEST(j.updated_at, -30610224000000), 253402300799999) * 1000) MICROSECOND AS DATETIME(3)) AS updated_at,
  j.version
FROM jobs j
LEFT JOIN topics t ON t.name = j.topic
LEFT JOIN shards s ON s.shard = j.claim_shard;
