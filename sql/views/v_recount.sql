-- Counts all rows of jobs and job_keys. `miscounted`: number of jobs whose state differs from job_counts, for example
-- after a manual edit until the audit runs. The last three columns are 0 in a sound database, except for moments.
CREATE OR REPLACE SQL SECURITY INVOKER VIEW v_recount AS
SELECT
  u.topic,
  CAST(LEAST(GREATEST(SUM(u.scheduled), -9223372036854775808), 9223372036854775807) AS SIGNED) AS scheduled,
  CAST(LEAST(GREATEST(SUM(u.dispatched), -9223372036854775808), 9223372036854775807) AS SIGNED) AS dispatched,
  CAST(LEAST(GREATEST(SUM(u.succeeded), -9223372036854775808), 9223372036854775807) AS SIGNED) AS succeeded,
  CAST(LEAST(GREATEST(SUM(u.dead), -9223372036854775808), 9223372036854775807) AS SIGNED) AS dead,
  CAST(LEAST(GREATEST(SUM(u.cancelled), -9223372036854775808), 9223372036854775807) AS SIGNED) AS cancelled,
  CAST(LEAST(GREATEST(
    GREATEST(SUM(u.scheduled - u.counted_scheduled), 0) + GREATEST(SUM(u.dispatched - u.counted_dispatched), 0)
      + GREATEST(SUM(u.succeeded - u.counted_succeeded), 0) + GREATEST(SUM(u.dead - u.counted_dead), 0)
      + GREATEST(SUM(u.cancelled - u.counted_cancelled), 0),
    GREATEST(SUM(u.counted_scheduled - u.scheduled), 0) + GREATEST(SUM(u.counted_dispatched - u.dispatched), 0)
      + GREATEST(SUM(u.counted_succeeded - u.succeeded), 0) + GREATEST(SUM(u.counted_dead - u.dead), 0)
      + GREATEST(SUM(u.counted_cancelled - u.cancelled), 0)), 9223372036854775807) AS SIGNED) AS miscounted,
  CAST(LEAST(GREATEST(SUM(u.unfinished_without_time), -9223372036854775808), 9223372036854775807) AS SIGNED) AS live_without_next_at,
  CAST(LEAST(GREATEST(SUM(u.finished_with_time), -9223372036854775808), 9223372036854775807) AS SIGNED) AS finished_with_next_at,
  CAST(LEAST(GREATEST(SUM(u.keys_without_job), -9223372036854775808), 9223372036854775807) AS SIGNED) AS keys_without_job
FROM (
  SELECT
    j.topic,
    SUM(j.state = 'scheduled') AS scheduled,
    SUM(j.state = 'dispatched') AS dispatched,
    SUM(j.state = 'succeeded') AS succeeded,
    SUM(j.state = 'dead') AS dead,
    SUM(j.state = 'cancelled') AS cancelled,
    0 AS counted_scheduled,
    0 AS counted_dispatched,
    0 AS counted_succeeded,
    0 AS counted_dead,
    0 AS counted_cancelled,
    SUM(j.state IN ('scheduled','dispatched') AND j.next_at IS NULL) AS unfinished_without_time,
    SUM(j.state NOT IN ('scheduled','dispatched') AND j.next_at IS NOT NULL) AS finished_with_time,
    0 AS keys_without_job
  FROM jobs j
  GROUP BY j.topic
  UNION ALL
  SELECT c.topic, 0, 0, 0, 0, 0, SUM(c.scheduled), SUM(c.dispatched), SUM(c.succeeded), SUM(c.dead), SUM(c.cancelled), 0, 0, 0
  FROM job_counts c GROUP BY c.topic
  UNION ALL
  SELECT k.topic, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, COUNT(*)
  FROM job_keys k LEFT JOIN jobs j ON j.id = k.job_id WHERE j.id IS NULL GROUP BY k.topic
  UNION ALL -- minus the keys whose job is in history
  SELECT e.topic, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, -COUNT(*)
  FROM key_ends e JOIN job_keys k ON k.topic = e.topic AND k.job_key = e.job_key AND k.job_id = e.job_id GROUP BY e.topic
) u
GROUP BY u.topic;
