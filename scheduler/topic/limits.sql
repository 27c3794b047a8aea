-- Gates of topics that have limits (topic/limits.h). Eight topics at a time; a list is filled up with its last one.

-- Locks the gates that nobody else holds.
-- name: lock_gates
SELECT topic
  FROM topic_gates FORCE INDEX (PRIMARY)
 WHERE topic IN (?,?,?,?,?,?,?,?)
   FOR UPDATE SKIP LOCKED; -- guard: LIMIT_GATE

-- Limits, and how far they are used. Read after the gate was locked: it has all claims of those who held the gate before.
-- An attempt that a manual edit ended has no place from then on, though it is still counted (end_edited). Of more than 1,000 such
-- rows the others keep their places for a moment, so that a claim does not read them all.
-- name: select_limits
SELECT t.name, t.max_in_flight, t.rate_limit, g.topic IS NOT NULL, g.next_ns, g.interval_ns, g.opens_at,
       (SELECT CAST(SUM(c.dispatched) AS SIGNED) FROM job_counts c FORCE INDEX (PRIMARY) WHERE c.topic = t.name)
         - (SELECT COUNT(*)
              FROM (SELECT topic, attempt_status FROM jobs FORCE INDEX (due) WHERE due_band = 2 AND due_key = 0 LIMIT 1000) e
             WHERE e.topic = t.name AND e.attempt_status = 'dispatched'),
       CAST(UNIX_TIMESTAMP(NOW(3))*1000 AS SIGNED)
  FROM topics t FORCE INDEX (PRIMARY)
  LEFT JOIN topic_gates g ON g.topic = t.name
 WHERE t.name IN (?,?,?,?,?,?,?,?);

-- The inserted row is locked as well.
-- name: make_gate
INSERT INTO topic_gates (topic)
VALUES (?)
ON DUPLICATE KEY UPDATE topic = VALUES(topic);

-- name: write_gate
UPDATE topic_gates
   SET next_ns = ?, interval_ns = ?
 WHERE topic = ?;

-- A topic's first limit: whoever claims without knowing it ends before the gate opens.
-- name: close_gate
UPDATE topic_gates
   SET opens_at = ?
 WHERE topic = ?
   AND EXISTS (SELECT 1 FROM topics t WHERE t.name = ? AND t.max_in_flight IS NULL AND t.rate_limit IS NULL);
