-- Jobs that wait to be popped: a leader offers what is due, an API claims it for its client.

CREATE TABLE IF NOT EXISTS pop_queue (
  topic VARBINARY(200) NOT NULL,
  due_at BIGINT NOT NULL COMMENT 'next_at of the job when it was offered; 1 where that was zero or less',
  job_id BIGINT NOT NULL,
  PRIMARY KEY (topic, due_at, job_id)
) ENGINE=InnoDB COMMENT='due jobs of topics whose delivery is pull, in the order in which they are popped. A row is a hint: the claim decides by the job''s row, and takes both away together';

-- A row that is offered has `near` at -1, so due_band -1: scans of what is due do not meet it.
ALTER TABLE jobs
  ADD COLUMN ttr_ms BIGINT NOT NULL DEFAULT 0 COMMENT 'time to report that a pop asked for, in place of ack_timeout_ms, of the latest attempt; 0 = it asked for none';

-- What should have happened already: scheduled jobs that were not dispatched, or not popped, dispatched ones whose result is missing.
CREATE OR REPLACE SQL SECURITY INVOKER VIEW v_overdue AS
SELECT
  j.id,
  j.topic,
  j.job_key,
  j.state,
  IF(j.state = 'dispatched', 'result', IF(t.paused, 'paused', IF(t.delivery = 'pull', 'pop', 'dispatch'))) AS missing,
  CAST('1970-01-01' + INTERVAL (LEAST(GREATEST(j.next_at, -30610224000000), 253402300799999) * 1000) MICROSECOND AS DATETIME(3)) AS next_at,
  IF(j.next_at > 0, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000 - j.next_at, 0) AS overdue_ms,
  j.attempt,
  CRC32(j.id) % 1024 AS slot,
  NULLIF(j.claim_shard, -1) AS claim_shard
FROM jobs j FORCE INDEX (due)
LEFT JOIN topics t ON t.name = j.topic
WHERE j.due_band IN (-1, 0, 1)
  AND j.due_key < TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000
  AND j.next_at < TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000
  AND j.state IN ('scheduled','dispatched');

-- How many jobs there are, per topic and state. Jobs and history are counted as they change; what is overdue is read.
CREATE OR REPLACE SQL SECURITY INVOKER VIEW v_backlog AS
SELECT
  u.topic,
  u.state,
  CAST(SUM(u.jobs) AS SIGNED) AS jobs,
  CAST(SUM(u.overdue) AS SIGNED) AS overdue,
  CAST('1970-01-01' + INTERVAL (LEAST(GREATEST(MIN(u.first_at), -30610224000000), 253402300799999) * 1000) MICROSECOND AS DATETIME(3)) AS overdue_since
FROM (
  SELECT c.topic AS topic, CAST('scheduled' AS CHAR CHARACTER SET utf8mb4) AS state, SUM(c.scheduled) AS jobs, 0 AS overdue, NULL AS first_at FROM job_counts c GROUP BY c.topic
  UNION ALL
  SELECT c.topic, CAST('dispatched' AS CHAR CHARACTER SET utf8mb4), SUM(c.dispatched), 0, NULL FROM job_counts c GROUP BY c.topic
  UNION ALL
  SELECT c.topic, CAST('succeeded' AS CHAR CHARACTER SET utf8mb4), SUM(c.succeeded), 0, NULL FROM job_counts c GROUP BY c.topic
  UNION ALL
  SELECT c.topic, CAST('dead' AS CHAR CHARACTER SET utf8mb4), SUM(c.dead), 0, NULL FROM job_counts c GROUP BY c.topic
  UNION ALL
  SELECT c.topic, CAST('cancelled' AS CHAR CHARACTER SET utf8mb4), SUM(c.cancelled), 0, NULL FROM job_counts c GROUP BY c.topic
  UNION ALL
  SELECT h.topic, CAST(h.state AS CHAR CHARACTER SET utf8mb4), SUM(h.jobs), 0, NULL FROM history_counts h GROUP BY h.topic, h.state
  UNION ALL
  SELECT j.topic, CAST(j.state AS CHAR CHARACTER SET utf8mb4), 0, COUNT(*), MIN(IF(j.next_at > 0, j.next_at, NULL))
  FROM jobs j FORCE INDEX (due)
  WHERE j.due_band IN (-1, 0, 1)
    AND j.due_key < TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000
    AND j.next_at < TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000
    AND j.state IN ('scheduled','dispatched')
  GROUP BY j.topic, j.state
) u
GROUP BY u.topic, u.state
HAVING SUM(u.jobs) <> 0 OR SUM(u.overdue) <> 0;
