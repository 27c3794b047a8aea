-- Statements on three kinds of rows: jobs of the far band that fall due soon, jobs that a manual edit ended, and
-- notices of dead letters that no process sends.

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
SELECT id FROM messages FORCE INDEX (due) WHERE kind = 'dead' AND made_at < ? LIMIT ?;

-- Finds rows in which a manual edit ended the attempt or the job. Skips rows with an invalid state.
-- name: select_edited
SELECT id FROM jobs FORCE INDEX (due) WHERE due_band = 2 AND due_key = 0 AND state+0 >= 1 LIMIT ?;

-- Until end_edited has changed them, these rows are counted in their state before the edit.
-- name: lock_edited
SELECT j.id, j.topic, j.state+0, j.attempt_status+0, j.leave_at
  FROM JSON_TABLE(?, '$[*]' COLUMNS(id BIGINT PATH '$')) t
  STRAIGHT_JOIN jobs j FORCE INDEX (PRIMARY) ON j.id = t.id
 WHERE j.due_band = 2
   AND j.due_key = 0
   AND j.state+0 >= 1
 ORDER BY t.id
   FOR UPDATE /*!80001 OF j */ SKIP LOCKED;

-- A result that was decided before this statement is not written, because the version is raised. A subquery finds the
-- topic, because a join would lock the topic's row. purge_at gets a number even if the topic keeps jobs for ever. 9 is
-- the status `none`: no result of the attempt was reported.
-- name: end_edited
UPDATE JSON_TABLE(?, '$[*]' COLUMNS(id BIGINT PATH '$')) t
  STRAIGHT_JOIN jobs j FORCE INDEX (PRIMARY) ON j.id = t.id
   SET j.purge_at = IF(j.state = 'scheduled', NULL, CAST(UNIX_TIMESTAMP(NOW(3))*1000 AS SIGNED) +
         LEAST(COALESCE((SELECT p.retention_ms FROM topics p WHERE p.name = j.topic), 2592000000),
               7223372036854775807)),
       j.leave_at = IF(j.state = 'scheduled', 0, CAST(UNIX_TIMESTAMP(NOW(3))*1000 AS SIGNED) +
         LEAST(COALESCE((SELECT p.retention_ms FROM topics p WHERE p.name = j.topic), 2592000000),
               IF(j.state = 'dead', ?, ?))),
       j.attempt_status = IF(j.attempt_status = 'dispatched', 9, j.attempt_status+0),
       j.finished_at = COALESCE(NULLIF(j.finished_at, 0), CAST(UNIX_TIMESTAMP(NOW(3))*1000 AS SIGNED)),
       j.version = LEAST(j.version + 1, 1999999999),
       j.updated_at = CAST(UNIX_TIMESTAMP(NOW(3))*1000 AS SIGNED), j.next_at = IF(j.state = 'scheduled', j.next_at, NULL);
