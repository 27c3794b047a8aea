-- Live jobs, and jobs that finished a short while ago (history.after): the part of v_jobs that is not in history.
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
    WHEN t.name IS NULL THEN 'kafka' -- the topic has no row, so the destination is unknown
    WHEN t.max_in_flight <= (SELECT SUM(c.dispatched) FROM job_counts c FORCE INDEX (PRIMARY) WHERE c.topic = t.name)
      - (SELECT COUNT(*) -- attempts that a manual edit ended, and that are still counted
           FROM (SELECT topic, attempt_status FROM jobs FORCE INDEX (due) WHERE due_band = 2 AND due_key = 0 LIMIT 1000) e
          WHERE e.topic = t.name AND e.attempt_status = 'dispatched') THEN 'limit'
    WHEN t.rate_limit IS NOT NULL AND EXISTS (
      SELECT 1 FROM topic_gates g FORCE INDEX (PRIMARY) WHERE g.topic = t.name -- the burst of 0.9 s is used up
        AND g.next_ns > TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000 * 1000000 + GREATEST(900000000 - GREATEST(g.interval_ns, 0), 0))
      THEN 'limit'
    WHEN t.delivery = 'pull' THEN 'pop'
    WHEN t.delivery = 'http' AND EXISTS ( -- in any shard, because a view cannot compute the job's shard
      SELECT 1 FROM shard_stats x WHERE x.callbacks IS NOT NULL
        AND x.seen_at > TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000 - 5000)
      THEN 'limit'
    WHEN t.delivery = 'kafka' AND EXISTS ( -- in any dispatcher, because a view cannot compute the job's shard
      SELECT 1 FROM processes p WHERE p.kind = 'dispatcher' AND FIND_IN_SET('kafka', p.waits)
        AND p.seen_at > TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000 - 4000)
      THEN 'kafka'
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
  j.callback_url,
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
