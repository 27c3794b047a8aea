-- Finds the first and last row of a page of jobs. The statements that read the page are in job_rows.sql. All statements
-- name their index, because the optimizer sometimes chose another one.

-- name: find_window_by_id
SELECT j.id
  FROM jobs j FORCE INDEX (PRIMARY)
 WHERE j.id > ?
 ORDER BY j.id LIMIT 1 OFFSET ?;

-- name: find_archived_window_by_id
SELECT j.id
  FROM history j FORCE INDEX (PRIMARY)
 WHERE j.id > ?
 ORDER BY j.id LIMIT 1 OFFSET ?;

-- name: find_window_by_key
SELECT k.job_key
  FROM job_keys k FORCE INDEX (PRIMARY)
 WHERE k.topic = ?
   AND k.job_key >= ?
   AND k.job_key < UNHEX(?)
   AND (? OR k.job_key <> ?)
 ORDER BY k.job_key LIMIT 1 OFFSET ?;

-- name: find_window_behind_due
SELECT j.id
  FROM jobs j FORCE INDEX (due)
 WHERE j.due_band = ?
   AND j.due_key = ?
   AND j.id > ?
 ORDER BY j.id LIMIT 1 OFFSET ?;

-- name: find_window_between_due
SELECT j.due_key
  FROM jobs j FORCE INDEX (due)
 WHERE j.due_band = ?
   AND j.due_key > ?
   AND j.due_key < ?
 ORDER BY j.due_key LIMIT 1 OFFSET ?;
