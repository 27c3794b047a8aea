-- Checks that no job was lost: every job that was ever created in a topic is in one of the states, or was deleted after
-- its retention, or was added or deleted by a manual edit (`edited`, as the audit found). Reads counts that each change
-- keeps: job_counts for jobs, history_counts for history, removed_jobs for deleted jobs; v_recount and v_history_audit
-- count the rows themselves. Compare `created` with the 2xx answers that your clients got. `missing` is 0 in a sound
-- database.
CREATE OR REPLACE SQL SECURITY INVOKER VIEW v_audit AS
SELECT
  u.topic,
  CAST(LEAST(GREATEST(SUM(u.created), -9223372036854775808), 9223372036854775807) AS SIGNED) AS created,
  CAST(LEAST(GREATEST(SUM(u.scheduled), -9223372036854775808), 9223372036854775807) AS SIGNED) AS scheduled,
  CAST(LEAST(GREATEST(SUM(u.dispatched), -9223372036854775808), 9223372036854775807) AS SIGNED) AS dispatched,
  CAST(LEAST(GREATEST(SUM(u.succeeded), -9223372036854775808), 9223372036854775807) AS SIGNED) AS succeeded,
  CAST(LEAST(GREATEST(SUM(u.dead), -9223372036854775808), 9223372036854775807) AS SIGNED) AS dead,
  CAST(LEAST(GREATEST(SUM(u.cancelled), -9223372036854775808), 9223372036854775807) AS SIGNED) AS cancelled,
  CAST(LEAST(GREATEST(SUM(u.removed), -9223372036854775808), 9223372036854775807) AS SIGNED) AS removed,
  CAST(LEAST(GREATEST(SUM(u.edited), -9223372036854775808), 9223372036854775807) AS SIGNED) AS edited,
  CAST(LEAST(GREATEST(SUM(u.corrected), -9223372036854775808), 9223372036854775807) AS SIGNED) AS corrected,
  CAST(LEAST(GREATEST(SUM(u.created + u.edited - u.scheduled - u.dispatched - u.succeeded - u.dead - u.cancelled - u.removed), -9223372036854775808), 9223372036854775807) AS SIGNED) AS missing,
  (SELECT IF(COUNT(*) = 32, CAST('1970-01-01' + INTERVAL (LEAST(GREATEST(MIN(a.audited_at), -30610224000000), 253402300799999) * 1000) MICROSECOND AS DATETIME(3)), NULL)
    FROM count_audits a) AS audited_since
FROM (
  SELECT
    c.topic,
    SUM(c.created) AS created,
    SUM(c.scheduled) AS scheduled,
    SUM(c.dispatched) AS dispatched,
    SUM(c.succeeded) AS succeeded,
    SUM(c.dead) AS dead,
    SUM(c.cancelled) AS cancelled,
    0 AS removed,
    SUM(c.edited) AS edited,
    SUM(c.corrected) AS corrected
  FROM job_counts c
  GROUP BY c.topic
  UNION ALL
  SELECT
    h.topic,
    0,
    0,
    0,
    SUM(IF(h.state = 'succeeded', h.jobs, 0)),
    SUM(IF(h.state = 'dead', h.jobs, 0)),
    SUM(IF(h.state = 'cancelled', h.jobs, 0)),
    0,
    0,
    0
  FROM history_counts h
  GROUP BY h.topic
  UNION ALL
  SELECT r.topic, 0, 0, 0, 0, 0, 0, r.removed, 0, 0 FROM removed_jobs r
) u
GROUP BY u.topic;
