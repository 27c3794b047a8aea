-- Every attempt, with the answer to its callback: earlier attempts from the tables of attempts, and each job's latest
-- attempt from the job's row.
CREATE OR REPLACE SQL SECURITY INVOKER VIEW v_attempts AS
SELECT
  a.job_id,
  a.attempt,
  a.status,
  CAST('1970-01-01' + INTERVAL (LEAST(GREATEST(NULLIF(a.due_at, 0), -30610224000000), 253402300799999) * 1000) MICROSECOND AS DATETIME(3)) AS due_at,
  CAST('1970-01-01' + INTERVAL (LEAST(GREATEST(NULLIF(a.dispatched_at, 0), -30610224000000), 253402300799999) * 1000) MICROSECOND AS DATETIME(3)) AS dispatched_at,
  LEAST(GREATEST(NULLIF(a.dispatched_at, 0), 0), 253402300799999) - LEAST(GREATEST(NULLIF(a.due_at, 0), 0), 253402300799999) AS lateness_ms,
  CAST('1970-01-01' + INTERVAL (LEAST(GREATEST(NULLIF(a.finished_at, 0), -30610224000000), 253402300799999) * 1000) MICROSECOND AS DATETIME(3)) AS finished_at,
  a.error_code,
  a.error_message,
  NULLIF(a.http_status, 0) AS http_status,
  NULLIF(a.duration_ms, -1) AS duration_ms
FROM attempts a
UNION ALL
SELECT
  j.id,
  j.attempt,
  IF(j.attempt_status = 'none', 'dispatched', CAST(j.attempt_status AS CHAR)),
  CAST('1970-01-01' + INTERVAL (LEAST(GREATEST(NULLIF(j.due_at, 0), -30610224000000), 253402300799999) * 1000) MICROSECOND AS DATETIME(3)),
  CAST('1970-01-01' + INTERVAL (LEAST(GREATEST(NULLIF(j.dispatched_at, 0), -30610224000000), 253402300799999) * 1000) MICROSECOND AS DATETIME(3)),
  LEAST(GREATEST(NULLIF(j.dispatched_at, 0), 0), 253402300799999) - LEAST(GREATEST(NULLIF(j.due_at, 0), 0), 253402300799999),
  CAST('1970-01-01' + INTERVAL (LEAST(GREATEST(IF(j.attempt_status = 'dispatched', NULL, NULLIF(j.finished_at, 0)), -30610224000000), 253402300799999) * 1000) MICROSECOND AS DATETIME(3)),
  IF(j.attempt_status IN ('failed','timed_out','gave_up','undeliverable'), j.error_code, NULL),
  IF(j.attempt_status IN ('failed','timed_out','gave_up','undeliverable'), j.error_message, NULL),
  NULLIF(j.http_status, 0),
  NULLIF(j.duration_ms, -1)
FROM jobs j
WHERE j.attempt > 0
UNION ALL
SELECT
  a.job_id,
  a.attempt,
  a.status,
  CAST('1970-01-01' + INTERVAL (LEAST(GREATEST(NULLIF(a.due_at, 0), -30610224000000), 253402300799999) * 1000) MICROSECOND AS DATETIME(3)) AS due_at,
  CAST('1970-01-01' + INTERVAL (LEAST(GREATEST(NULLIF(a.dispatched_at, 0), -30610224000000), 253402300799999) * 1000) MICROSECOND AS DATETIME(3)) AS dispatched_at,
  LEAST(GREATEST(NULLIF(a.dispatched_at, 0), 0), 253402300799999) - LEAST(GREATEST(NULLIF(a.due_at, 0), 0), 253402300799999) AS lateness_ms,
  CAST('1970-01-01' + INTERVAL (LEAST(GREATEST(NULLIF(a.finished_at, 0), -30610224000000), 253402300799999) * 1000) MICROSECOND AS DATETIME(3)) AS finished_at,
  a.error_code,
  a.error_message,
  NULLIF(a.http_status, 0) AS http_status,
  NULLIF(a.duration_ms, -1) AS duration_ms
FROM history_attempts a
WHERE a.purge_at > TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000
UNION ALL
SELECT
  j.id,
  j.attempt,
  IF(j.attempt_status = 'none', 'dispatched', CAST(j.attempt_status AS CHAR)),
  CAST('1970-01-01' + INTERVAL (LEAST(GREATEST(NULLIF(j.due_at, 0), -30610224000000), 253402300799999) * 1000) MICROSECOND AS DATETIME(3)),
  CAST('1970-01-01' + INTERVAL (LEAST(GREATEST(NULLIF(j.dispatched_at, 0), -30610224000000), 253402300799999) * 1000) MICROSECOND AS DATETIME(3)),
  LEAST(GREATEST(NULLIF(j.dispatched_at, 0), 0), 253402300799999) - LEAST(GREATEST(NULLIF(j.due_at, 0), 0), 253402300799999),
  CAST('1970-01-01' + INTERVAL (LEAST(GREATEST(IF(j.attempt_status = 'dispatched', NULL, NULLIF(j.finished_at, 0)), -30610224000000), 253402300799999) * 1000) MICROSECOND AS DATETIME(3)),
  IF(j.attempt_status IN ('failed','timed_out','gave_up','undeliverable'), j.error_code, NULL),
  IF(j.attempt_status IN ('failed','timed_out','gave_up','undeliverable'), j.error_message, NULL),
  NULLIF(j.http_status, 0),
  NULLIF(j.duration_ms, -1)
FROM history j
WHERE j.attempt > 0 AND j.purge_at > TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000;
