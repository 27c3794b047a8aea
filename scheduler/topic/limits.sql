-- Rows of topic_gates, one for each topic with limits (topic/limits.h). Each statement takes eight topics; if there are
-- fewer, the last topic is repeated.

-- Locks the gates (rows) of the topics, except those that another session has locked. ("-- guard:" marks what the
-- mutation tests remove.)
-- name: lock_gates
SELECT topic
  FROM topic_gates FORCE INDEX (PRIMARY)
 WHERE topic IN (?,?,?,?,?,?,?,?)
   FOR UPDATE SKIP LOCKED; -- guard: LIMIT_GATE

-- Reads limits and their current use. Must run after the gate was locked, so that the claims of all earlier holders of
-- the gate are included. If a manual edit ended an attempt, the attempt is not counted, although end_edited has not
-- changed the counters yet. Only 1,000 such attempts are read; further ones stay counted for a while.
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

-- Makes the gate of a topic if there is none, and locks it in any case.
-- name: make_gate
INSERT INTO topic_gates (topic)
VALUES (?)
ON DUPLICATE KEY UPDATE topic = VALUES(topic);

-- name: write_gate
UPDATE topic_gates
   SET next_ns = ?, interval_ns = ?
 WHERE topic = ?;

-- Allows no claims of a topic that gets its first limit, until claims that do not know the limit have ended.
-- name: close_gate
UPDATE topic_gates
   SET opens_at = ?
 WHERE topic = ?
   AND EXISTS (SELECT 1 FROM topics t WHERE t.name = ? AND t.max_in_flight IS NULL AND t.rate_limit IS NULL);
