-- Jobs whose day comes near, jobs that a manual edit finished, and notices that nobody sends.

-- name: select_coming_near
SELECT id
  FROM jobs FORCE INDEX (due)
 WHERE due_band = 0
   AND due_key < ?
 ORDER BY due_key, id LIMIT ?;

-- name: promote_jobs
UPDATE JSON_TABLE(?, '$[*]' COLUMNS(id BIGINT PATH '$')) t
  STRAIGHT_JOIN jobs j FORCE INDEX (PRIMARY) ON j.id = t.id
   SET j.near = 1
 WHERE j.near = 0
   AND j.next_at < ?;

-- name: select_old_notices
SELECT id FROM outbox FORCE INDEX (PRIMARY) WHERE made_at < ? ORDER BY id LIMIT ?;

-- Rows that a manual edit finished, with next_at set to NULL and leave_at (the due_key of such rows) at 0: nobody said when they may go.
-- name: select_without_leave_at
SELECT id FROM jobs FORCE INDEX (due) WHERE due_band = 2 AND due_key = 0 LIMIT ?;

-- The topic is looked up by a subquery: a join would lock its row. A job that is kept for ever has a number as well.
-- name: tidy_jobs
UPDATE JSON_TABLE(?, '$[*]' COLUMNS(id BIGINT PATH '$')) t
  STRAIGHT_JOIN jobs j FORCE INDEX (PRIMARY) ON j.id = t.id
   SET j.purge_at = CAST(UNIX_TIMESTAMP(NOW(3))*1000 AS SIGNED) +
         LEAST(COALESCE((SELECT p.retention_ms FROM topics p WHERE p.name = j.topic), 2592000000),
               7223372036854775807),
       j.leave_at = CAST(UNIX_TIMESTAMP(NOW(3))*1000 AS SIGNED) +
         LEAST(LEAST(COALESCE((SELECT p.retention_ms FROM topics p WHERE p.name = j.topic), 2592000000),
                     7223372036854775807), IF(j.state = 'dead', ?, ?)),
       j.finished_at = COALESCE(NULLIF(j.finished_at, 0), CAST(UNIX_TIMESTAMP(NOW(3))*1000 AS SIGNED)),
       j.updated_at = CAST(UNIX_TIMESTAMP(NOW(3))*1000 AS SIGNED), j.next_at = NULL
 WHERE j.state IN ('succeeded','dead','cancelled')
   AND (j.next_at IS NOT NULL OR j.purge_at IS NULL OR j.leave_at = 0);
