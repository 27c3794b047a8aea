-- Rows of job_inbox that dispatchers could not carry out, with their errors.
CREATE OR REPLACE SQL SECURITY INVOKER VIEW v_inbox_errors AS
SELECT i.id, i.action, i.topic, i.job_key, i.job_id,
       CAST('1970-01-01' + INTERVAL (LEAST(GREATEST(i.created_at, -30610224000000), 253402300799999) * 1000) MICROSECOND AS DATETIME(3)) AS created_at,
       CAST('1970-01-01' + INTERVAL (LEAST(GREATEST(i.error_at, -30610224000000), 253402300799999) * 1000) MICROSECOND AS DATETIME(3)) AS error_at,
       i.error
  FROM job_inbox i
 WHERE i.error IS NOT NULL;
