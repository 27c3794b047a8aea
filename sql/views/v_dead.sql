-- Dead jobs, with their last error. CALL dt_redrive(id) schedules a dead job again.
CREATE OR REPLACE SQL SECURITY INVOKER VIEW v_dead AS
SELECT
  j.id,
  j.topic,
  j.job_key,
  j.attempt,
  j.failures,
  NULLIF(CAST(j.attempt_status AS CHAR), 'none') AS attempt_status,
  j.error_code,
  j.error_message,
  CAST('1970-01-01' + INTERVAL (LEAST(GREATEST(j.error_at, -30610224000000), 253402300799999) * 1000) MICROSECOND AS DATETIME(3)) AS error_at,
  CAST('1970-01-01' + INTERVAL (LEAST(GREATEST(NULLIF(j.finished_at, 0), -30610224000000), 253402300799999) * 1000) MICROSECOND AS DATETIME(3)) AS finished_at,
  CAST('1970-01-01' + INTERVAL (LEAST(GREATEST(j.purge_at, -30610224000000), 253402300799999) * 1000) MICROSECOND AS DATETIME(3)) AS purge_at
FROM jobs j FORCE INDEX (PRIMARY, due)
WHERE j.due_band = 2 AND j.state = 'dead'
UNION ALL
SELECT
  j.id,
  j.topic,
  j.job_key,
  j.attempt,
  j.failures,
  NULLIF(CAST(j.attempt_status AS CHAR), 'none') AS attempt_status,
  j.error_code,
  j.error_message,
  CAST('1970-01-01' + INTERVAL (LEAST(GREATEST(j.error_at, -30610224000000), 253402300799999) * 1000) MICROSECOND AS DATETIME(3)) AS error_at,
  CAST('1970-01-01' + INTERVAL (LEAST(GREATEST(NULLIF(j.finished_at, 0), -30610224000000), 253402300799999) * 1000) MICROSECOND AS DATETIME(3)) AS finished_at,
  CAST('1970-01-01' + INTERVAL (LEAST(GREATEST(j.purge_at, -30610224000000), 253402300799999) * 1000) MICROSECOND AS DATETIME(3)) AS purge_at
FROM history j FORCE INDEX (PRIMARY, dead)
WHERE j.died_at IS NOT NULL AND j.state = 'dead' AND j.purge_at > TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000;
