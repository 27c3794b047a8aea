-- Differences between history_counts and the rows of history; a sound database has none. Reads all of history. A
-- partition may appear for a moment after its counts were removed and before it is dropped.
CREATE OR REPLACE SQL SECURITY INVOKER VIEW v_history_audit AS
SELECT
  u.topic,
  u.state,
  u.part,
  CAST(LEAST(GREATEST(SUM(u.counted), -9223372036854775808), 9223372036854775807) AS SIGNED) AS counted,
  CAST(LEAST(GREATEST(SUM(u.found), -9223372036854775808), 9223372036854775807) AS SIGNED) AS found
FROM (
  SELECT h.topic, h.state, h.part, h.jobs AS counted, 0 AS found FROM history_counts h
  UNION ALL
  SELECT h.topic, h.state, h.part, 0, COUNT(*) FROM history h GROUP BY h.topic, h.state, h.part
) u
GROUP BY u.topic, u.state, u.part
HAVING SUM(u.counted) <> SUM(u.found);
