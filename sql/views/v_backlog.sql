-- Number of jobs per topic and state, from counts that each change keeps. Overdue jobs, and due jobs of paused topics
-- (`held`, which are not overdue), are counted by reading their rows. Their sums have names, because a dump of MySQL
-- names them by their text otherwise, and MySQL loads no name of more than 64 characters.
CREATE OR REPLACE SQL SECURITY INVOKER VIEW v_backlog AS
SELECT
  u.topic,
  u.state,
  CAST(LEAST(GREATEST(SUM(u.jobs), -9223372036854775808), 9223372036854775807) AS SIGNED) AS jobs,
  CAST(LEAST(GREATEST(SUM(u.overdue), -9223372036854775808), 9223372036854775807) AS SIGNED) AS overdue,
  CAST('1970-01-01' + INTERVAL (LEAST(GREATEST(MIN(u.first_at), -30610224000000), 253402300799999) * 1000) MICROSECOND AS DATETIME(3)) AS overdue_since,
  CAST(LEAST(GREATEST(SUM(u.held), -9223372036854775808), 9223372036854775807) AS SIGNED) AS held
FROM (
  SELECT c.topic AS topic, CAST('scheduled' AS CHAR CHARACTER SET utf8mb4) AS state, SUM(c.scheduled) AS jobs, 0 AS overdue, NULL AS first_at, 0 AS held FROM job_counts c GROUP BY c.topic
  UNION ALL
  SELECT c.topic, CAST('dispatched' AS CHAR CHARACTER SET utf8mb4), SUM(c.dispatched), 0, NULL, 0 FROM job_counts c GROUP BY c.topic
  UNION ALL
  SELECT c.topic, CAST('succeeded' AS CHAR CHARACTER SET utf8mb4), SUM(c.succeeded), 0, NULL, 0 FROM job_counts c GROUP BY c.topic
  UNION ALL
  SELECT c.topic, CAST('dead' AS CHAR CHARACTER SET utf8mb4), SUM(c.dead), 0, NULL, 0 FROM job_counts c GROUP BY c.topic
  UNION ALL
  SELECT c.topic, CAST('cancelled' AS CHAR CHARACTER SET utf8mb4), SUM(c.cancelled), 0, NULL, 0 FROM job_counts c GROUP BY c.topic
  UNION ALL
  SELECT h.topic, CAST(h.state AS CHAR CHARACTER SET utf8mb4), SUM(h.jobs), 0, NULL, 0 FROM history_counts h GROUP BY h.topic, h.state
  UNION ALL
  SELECT j.topic, CAST(j.state AS CHAR CHARACTER SET utf8mb4), 0,
    SUM(j.state = 'dispatched' OR t.paused IS NULL OR NOT t.paused) AS overdue,
    MIN(IF(j.next_at > 0 AND (j.state = 'dispatched' OR t.paused IS NULL OR NOT t.paused), j.next_at, NULL)) AS first_at,
    SUM(j.state = 'scheduled' AND t.paused IS NOT NULL AND t.paused) AS held
  FROM jobs j FORCE INDEX (due)
  LEFT JOIN topics t ON t.name = j.topic
  WHERE j.due_band IN (-1, 0, 1)
    AND j.due_key < TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000
    AND j.next_at < TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000
    AND j.state IN ('scheduled','dispatched')
  GROUP BY j.topic, j.state
) u
GROUP BY u.topic, u.state
HAVING SUM(u.jobs) <> 0 OR SUM(u.overdue) <> 0 OR SUM(u.held) <> 0;
