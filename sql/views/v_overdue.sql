-- Overdue work: scheduled jobs that were not dispatched, or not popped, and dispatched jobs whose result is missing.
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
