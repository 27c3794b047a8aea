-- Operations, which change many jobs at once (features/operations/operations.h).

-- name: insert_operation
INSERT INTO operations (kind, request, topic_from, topic_to, key_prefix, run_from, run_to, created_from, created_to, error_code,
     at_ms, shift_ms, spread_ms, rate, walk, look_at, started_at, actor, failed_from, failed_to, owner)
VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?);

-- name: select_last_operation
SELECT LAST_INSERT_ID();

-- name: select_operation
SELECT id, kind + 0, state + 0, request, topic_from, topic_to, key_prefix, run_from, run_to, created_from, created_to,
       error_code, at_ms, shift_ms, spread_ms, rate, walk + 0, after_id, after_key, after_at, matched, changed, refused,
       sample, error, look_at, started_at, finished_at, actor, failed_from, failed_to
  FROM operations
 WHERE id = ?;

-- name: select_operations
SELECT id, kind + 0, state + 0, request, topic_from, topic_to, key_prefix, run_from, run_to, created_from, created_to,
       error_code, at_ms, shift_ms, spread_ms, rate, walk + 0, after_id, after_key, after_at, matched, changed, refused,
       sample, error, look_at, started_at, finished_at, actor, failed_from, failed_to
  FROM operations
 WHERE id < ?
 ORDER BY id DESC LIMIT ?;

-- The process that locks the row of the operation does the next piece. Other processes skip the row.
-- name: lock_operation
SELECT id, kind + 0, state + 0, request, topic_from, topic_to, key_prefix, run_from, run_to, created_from, created_to,
       error_code, at_ms, shift_ms, spread_ms, rate, walk + 0, after_id, after_key, after_at, matched, changed, refused,
       sample, error, look_at, started_at, finished_at, actor, failed_from, failed_to
  FROM operations
 WHERE id = ?
   FOR UPDATE SKIP LOCKED; -- guard: OPERATION_LOCK

-- name: lock_due_operation
SELECT id, kind + 0, state + 0, request, topic_from, topic_to, key_prefix, run_from, run_to, created_from, created_to,
       error_code, at_ms, shift_ms, spread_ms, rate, walk + 0, after_id, after_key, after_at, matched, changed, refused,
       sample, error, look_at, started_at, finished_at, actor, failed_from, failed_to
  FROM operations FORCE INDEX (turns)
 WHERE owner = ?
   AND look_at <= ?
 ORDER BY look_at LIMIT 1
   FOR UPDATE SKIP LOCKED; -- guard: OPERATION_LOCK

-- Returns when the next piece of each owner's operations is due. Reads one entry of the index for each owner.
-- name: select_operation_turns
SELECT owner, MIN(look_at) FROM operations FORCE INDEX (turns) GROUP BY owner;

-- Counts the running operations of an owner. The look_at of a running operation is at most an hour ahead, that of a
-- finished one up to a month; so the first parameter bounds the number of rows that are read.
-- name: count_running_operations
SELECT COUNT(*)
  FROM operations FORCE INDEX (turns)
 WHERE owner = ?
   AND look_at < ?
   AND state = 'running';

-- name: write_operation
UPDATE operations
   SET state = ?, walk = ?, after_id = ?, after_key = ?, after_at = ?, matched = ?, changed = ?, refused = ?, sample = ?,
       look_at = ?, finished_at = ?
 WHERE id = ?;

-- name: fail_operation
UPDATE operations
   SET state = 'failed', error = ?, finished_at = ?, look_at = ?
 WHERE id = ?
   AND state = 'running';

-- name: stop_operation
UPDATE operations
   SET state = 'stopped', finished_at = ?, look_at = ?
 WHERE id = ?
   AND state = 'running';

-- name: hand_over_operation
UPDATE operations
   SET look_at = ?
 WHERE id = ?
   AND state = 'running';

-- name: delete_operation
DELETE FROM operations WHERE id = ?;

-- name: insert_operation_job
INSERT INTO operation_jobs (operation, run_at, job_id)
VALUES (?,?,?)
ON DUPLICATE KEY UPDATE job_id = job_id;

-- name: delete_operation_jobs
DELETE FROM operation_jobs WHERE operation = ? ORDER BY run_at, job_id LIMIT ?;

-- Reads the next found jobs to change, in order of time and id, after those that were changed last.
-- name: select_operation_jobs
(SELECT run_at, job_id
   FROM operation_jobs FORCE INDEX (PRIMARY)
  WHERE operation = ?
    AND run_at = ?
    AND job_id > ?
  ORDER BY job_id LIMIT ?)
UNION ALL
(SELECT run_at, job_id
   FROM operation_jobs FORCE INDEX (PRIMARY)
  WHERE operation = ?
    AND run_at > ?
  ORDER BY run_at, job_id LIMIT ?)
ORDER BY 1, 2 LIMIT ?;

-- Finds unfinished jobs of a topic in a range of the primary key.
-- name: match_live_jobs
SELECT j.run_at, j.id
  FROM jobs j FORCE INDEX (PRIMARY)
 WHERE j.topic = ?
   AND (j.state = 'scheduled' OR j.state = 'dispatched' AND NOT j.no_retries)
   AND j.id > ?
   AND j.id <= ?
 ORDER BY j.id LIMIT ?;

-- name: find_deleted_topic
SELECT topic_from FROM operations WHERE id = ? AND kind = 'delete_topic';

-- Returns the number of jobs of topics, in all states, for each piece (home day MOD 32) and writer. If a topic has no
-- jobs in a piece, the sum over the writers is 0.
-- name: select_topic_pieces
SELECT topic, piece, scheduled + dispatched + succeeded + dead + cancelled
  FROM job_counts FORCE INDEX (PRIMARY)
 WHERE topic >= ?
   AND topic <= ?
 ORDER BY topic, piece, writer LIMIT ?;

-- Returns the number of rows in a range of ids, up to a maximum, and the id of the last of these rows.
-- name: find_rows_by_id
SELECT COUNT(*), MAX(w.id)
  FROM (SELECT j.id FROM jobs j FORCE INDEX (PRIMARY) WHERE j.id > ? AND j.id <= ? ORDER BY j.id LIMIT ?) w;

-- Finds the end of a window of finished jobs in `jobs`, in the order in which they will be archived; or of dead jobs in
-- history, in the order in which they died.
-- name: find_finished_window
SELECT j.due_key, j.id
  FROM jobs j FORCE INDEX (due)
 WHERE j.due_band = 2
   AND (j.due_key > ? OR j.due_key = ? AND j.id > ?)
 ORDER BY j.due_key, j.id LIMIT 1 OFFSET ?;

-- name: find_dead_window
SELECT j.died_at, j.id
  FROM history j FORCE INDEX (dead)
 WHERE (j.died_at > ? OR j.died_at = ? AND j.id > ?)
 ORDER BY j.died_at, j.id LIMIT 1 OFFSET ?;

-- Finds the jobs that match the filter in a range of ids.
-- name: match_jobs
SELECT j.run_at, j.id, j.topic
  FROM jobs j FORCE INDEX (PRIMARY)
 WHERE j.state = ?
   AND j.topic >= ?
   AND j.topic <= ?
   AND (? IS NULL OR LEFT(j.job_key, ?) = ?)
   AND j.run_at >= ?
   AND j.run_at < ?
   AND j.created_at >= ?
   AND j.created_at <= ?
   AND (? IS NULL OR j.error_code = ?)
   AND (? = 0 OR j.error_at >= ? AND j.error_at < ?)
   AND j.id > ?
   AND j.id <= ?
 ORDER BY j.id;

-- Finds the jobs that match the filter in a window: of the due index of `jobs` (match_finished_jobs), of the index
-- `dead` of history (match_dead_jobs), or of the keys (match_keyed_jobs).
-- name: match_finished_jobs
SELECT j.run_at, j.id, j.topic
  FROM jobs j FORCE INDEX (due)
 WHERE j.state = ?
   AND j.topic >= ?
   AND j.topic <= ?
   AND (? IS NULL OR LEFT(j.job_key, ?) = ?)
   AND j.run_at >= ?
   AND j.run_at < ?
   AND j.created_at >= ?
   AND j.created_at <= ?
   AND (? IS NULL OR j.error_code = ?)
   AND (? = 0 OR j.error_at >= ? AND j.error_at < ?)
   AND j.due_band = 2
   AND (j.due_key > ? OR j.due_key = ? AND j.id > ?)
   AND (j.due_key < ? OR j.due_key = ? AND j.id <= ?)
 ORDER BY j.due_key, j.id;

-- name: match_dead_jobs
SELECT j.run_at, j.id, j.topic
  FROM history j FORCE INDEX (dead)
 WHERE j.state = ?
   AND j.topic >= ?
   AND j.topic <= ?
   AND (? IS NULL OR LEFT(j.job_key, ?) = ?)
   AND j.run_at >= ?
   AND j.run_at < ?
   AND j.created_at >= ?
   AND j.created_at <= ?
   AND (? IS NULL OR j.error_code = ?)
   AND (? = 0 OR j.error_at >= ? AND j.error_at < ?)
   AND (j.died_at > ? OR j.died_at = ? AND j.id > ?)
   AND (j.died_at < ? OR j.died_at = ? AND j.id <= ?)
   AND j.purge_at > CAST(UNIX_TIMESTAMP(NOW(3))*1000 AS SIGNED)
 ORDER BY j.died_at, j.id;

-- name: match_keyed_jobs
SELECT j.run_at, j.id, j.topic
  FROM job_keys k FORCE INDEX (PRIMARY)
  STRAIGHT_JOIN jobs j FORCE INDEX (PRIMARY) ON j.id = k.job_id
 WHERE j.state = ?
   AND j.topic >= ?
   AND j.topic <= ?
   AND (? IS NULL OR LEFT(j.job_key, ?) = ?)
   AND j.run_at >= ?
   AND j.run_at < ?
   AND j.created_at >= ?
   AND j.created_at <= ?
   AND (? IS NULL OR j.error_code = ?)
   AND (? = 0 OR j.error_at >= ? AND j.error_at < ?)
   AND k.topic = ?
   AND k.job_key >= ?
   AND k.job_key < UNHEX(?)
   AND (? OR k.job_key <> ?)
   AND (? IS NULL OR k.job_key <= ?);

-- name: match_listed_jobs
SELECT j.run_at, j.id, j.topic
  FROM jobs j FORCE INDEX (PRIMARY)
 WHERE j.state = ?
   AND j.topic >= ?
   AND j.topic <= ?
   AND (? IS NULL OR LEFT(j.job_key, ?) = ?)
   AND j.run_at >= ?
   AND j.run_at < ?
   AND j.created_at >= ?
   AND j.created_at <= ?
   AND (? IS NULL OR j.error_code = ?)
   AND (? = 0 OR j.error_at >= ? AND j.error_at < ?)
   AND j.id IN (?,...);

-- name: match_listed_archived_jobs
SELECT j.run_at, j.id, j.topic
  FROM history j FORCE INDEX (PRIMARY)
 WHERE j.state = ?
   AND j.topic >= ?
   AND j.topic <= ?
   AND (? IS NULL OR LEFT(j.job_key, ?) = ?)
   AND j.run_at >= ?
   AND j.run_at < ?
   AND j.created_at >= ?
   AND j.created_at <= ?
   AND (? IS NULL OR j.error_code = ?)
   AND (? = 0 OR j.error_at >= ? AND j.error_at < ?)
   AND j.purge_at > CAST(UNIX_TIMESTAMP(NOW(3))*1000 AS SIGNED)
   AND j.id IN (?,...);

-- Locks the jobs of a piece, in the order of their ids.
-- name: lock_operation_jobs
SELECT j.id, j.state + 0, j.topic, GREATEST(j.next_at, 1), j.attempt
  FROM jobs j FORCE INDEX (PRIMARY)
 WHERE j.id IN (?,...)
 ORDER BY j.id
   FOR UPDATE;

-- Returns which of the locked jobs have an attempt in flight: in a shard's in-flight list, or claimed by a process for
-- callbacks (the table hands, job/delivery.h).
-- name: find_listed_in_flight
SELECT j.id
  FROM jobs j FORCE INDEX (PRIMARY)
  STRAIGHT_JOIN shards s FORCE INDEX (PRIMARY) ON s.shard = j.claim_shard
 WHERE INSTR(s.inflight, CONCAT('[', j.id, ',')) > 0
   AND j.id IN (?,...);

-- name: find_listed_hands
SELECT h.job_id FROM hands h FORCE INDEX (PRIMARY) WHERE h.job_id IN (?,...);

-- Cancels scheduled jobs, as cancel_job does for one job.
-- name: cancel_jobs
UPDATE jobs FORCE INDEX (PRIMARY)
   SET state = 'cancelled', next_at = NULL,
       finished_at = COALESCE(IF(attempt > 0, NULLIF(finished_at, 0), NULL), ?),
       purge_at = ? + LEAST(COALESCE((SELECT t.retention_ms FROM topics t WHERE t.name = jobs.topic), ?),
                            7223372036854775807),
       leave_at = ? + LEAST(COALESCE((SELECT t.retention_ms FROM topics t WHERE t.name = jobs.topic), ?), ?),
       version = LEAST(version + 1, 1999999999), updated_at = ?
 WHERE state = 'scheduled' -- guard: OPERATION_STATE or: WHERE TRUE
   AND id IN (?,...);

-- Cancels the further attempts of dispatched jobs, as cancel_retries does for one job.
-- name: cancel_retries_of_jobs
UPDATE jobs FORCE INDEX (PRIMARY)
   SET no_retries = TRUE, version = LEAST(version + 1, 1999999999), updated_at = ?
 WHERE state = 'dispatched'
   AND id IN (?,...);

-- name: redrive_jobs
UPDATE jobs FORCE INDEX (PRIMARY)
   SET state = 'scheduled', next_at = ?, near = TRUE, failures = 0, no_retries = FALSE, purge_at = NULL,
       leave_at = 0, version = LEAST(version + 1, 1999999999), updated_at = ?
 WHERE state = 'dead'
   AND id IN (?,...);

-- Moves all jobs to the same time.
-- name: move_jobs
UPDATE jobs FORCE INDEX (PRIMARY)
   SET run_at = ?, next_at = ?, near = ?, version = LEAST(version + 1, 1999999999), updated_at = ?
 WHERE state = 'scheduled'
   AND id IN (?,...);

-- Moves each job to its own time.
-- name: move_jobs_each
UPDATE JSON_TABLE(?, '$[*]' COLUMNS (id BIGINT PATH '$[0]', run_then BIGINT PATH '$[1]')) r
  STRAIGHT_JOIN jobs j FORCE INDEX (PRIMARY) ON j.id = r.id
   SET j.run_at = r.run_then, j.next_at = r.run_then, j.near = r.run_then < ?, j.version = LEAST(j.version + 1, 1999999999), j.updated_at = ?
 WHERE j.state = 'scheduled';
