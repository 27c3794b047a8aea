-- Moves finished jobs from `jobs` to `history`, with their attempts and the time until which they keep their key.
-- history.part: number of the partition, a day or a month (archive_days.c); 0 is the default partition, `rest`.
-- due_band, due_key: generated columns for the index `due`. Finished jobs have due_band 2, and leave_at as due_key.

-- name: select_to_archive
SELECT id, due_key
  FROM jobs FORCE INDEX (due)
 WHERE due_band = 2
   AND due_key >= ?
   AND due_key <= ?
   AND (due_key > ? OR id > ?)
 ORDER BY due_key, id LIMIT ?;

-- name: lock_to_archive
SELECT j.id, j.topic, j.state+0, j.job_key IS NOT NULL, j.attempt, j.purge_at, j.updated_at
  FROM JSON_TABLE(?, '$[*]' COLUMNS(id BIGINT PATH '$')) t
  STRAIGHT_JOIN jobs j FORCE INDEX (PRIMARY) ON j.id = t.id
 WHERE j.next_at IS NULL
   AND j.leave_at <= ?
   AND j.leave_at > 0
   AND j.purge_at IS NOT NULL
   AND j.created_at <= ?
   AND j.state IN ('succeeded','dead','cancelled')
   AND NOT EXISTS (SELECT 1 FROM messages o WHERE o.job_id = j.id)
 ORDER BY t.id
   FOR UPDATE /*!80001 OF j */ SKIP LOCKED;

-- name: select_lists_in_flight
SELECT inflight FROM shards WHERE LENGTH(inflight) > 2;

-- name: archive_attempts
INSERT INTO history_attempts (part, purge_at, job_id, attempt, status, due_at, dispatched_at, finished_at,
     error_code, error_message, http_status, duration_ms)
SELECT t.part, t.until, job_id, attempt, status, due_at, dispatched_at, finished_at, error_code, error_message, http_status,
       duration_ms
  FROM JSON_TABLE(?, '$[*]' COLUMNS(id BIGINT PATH '$[0]', part INT PATH '$[1]', key_until BIGINT PATH '$[2]',
      until BIGINT PATH '$[3]')) t
  STRAIGHT_JOIN attempts a FORCE INDEX (PRIMARY) ON a.job_id = t.id;

-- name: archive_keys
INSERT INTO key_ends (free_at, job_id, topic, job_key)
SELECT t.key_until, t.id, j.topic, j.job_key
  FROM JSON_TABLE(?, '$[*]' COLUMNS(id BIGINT PATH '$[0]', part INT PATH '$[1]', key_until BIGINT PATH '$[2]',
      until BIGINT PATH '$[3]')) t
  STRAIGHT_JOIN jobs j FORCE INDEX (PRIMARY) ON j.id = t.id
 WHERE j.job_key IS NOT NULL;

-- name: delete_attempts
DELETE a
  FROM JSON_TABLE(?, '$[*]' COLUMNS(id BIGINT PATH '$')) t
  STRAIGHT_JOIN attempts a FORCE INDEX (PRIMARY) ON a.job_id = t.id;

-- name: delete_removed_keys
DELETE k
  FROM JSON_TABLE(?, '$[*]' COLUMNS(id BIGINT PATH '$')) t
  STRAIGHT_JOIN jobs j FORCE INDEX (PRIMARY) ON j.id = t.id
  STRAIGHT_JOIN job_keys k FORCE INDEX (PRIMARY) ON k.topic = j.topic AND k.job_key = j.job_key AND k.job_id = j.id;

-- name: delete_removed_command_ids
DELETE c
  FROM JSON_TABLE(?, '$[*]' COLUMNS(id BIGINT PATH '$')) t
  STRAIGHT_JOIN jobs j FORCE INDEX (PRIMARY) ON j.id = t.id
  STRAIGHT_JOIN command_ids c FORCE INDEX (PRIMARY) ON c.id = j.job_key AND c.job_id = j.id;

-- name: delete_jobs
DELETE j
  FROM JSON_TABLE(?, '$[*]' COLUMNS(id BIGINT PATH '$')) t
  STRAIGHT_JOIN jobs j FORCE INDEX (PRIMARY) ON j.id = t.id;

-- name: count_archived
INSERT INTO history_counts (topic, state, part, jobs)
VALUES (?,?,?,?)
ON DUPLICATE KEY UPDATE jobs = jobs + VALUES(jobs);

-- name: count_removed
INSERT INTO removed_jobs (topic, removed)
VALUES (?, ?)
ON DUPLICATE KEY UPDATE removed = removed + VALUES(removed);

-- name: note_day
INSERT INTO history_days (home_day, part)
VALUES (?,?)
ON DUPLICATE KEY UPDATE part = VALUES(part);

-- name: is_any_key_ended
SELECT EXISTS (SELECT 1 FROM key_ends FORCE INDEX (PRIMARY) WHERE free_at <= ?);

-- name: lock_ended_keys
SELECT free_at, job_id
  FROM key_ends FORCE INDEX (PRIMARY)
 WHERE free_at <= ?
 ORDER BY free_at, job_id LIMIT ?
   FOR UPDATE SKIP LOCKED;

-- name: delete_ended_keys
DELETE k
  FROM JSON_TABLE(?, '$[*]' COLUMNS(free_at BIGINT PATH '$[0]', id BIGINT PATH '$[1]')) t
  STRAIGHT_JOIN key_ends e FORCE INDEX (PRIMARY) ON e.free_at = t.free_at AND e.job_id = t.id
  STRAIGHT_JOIN job_keys k FORCE INDEX (PRIMARY) ON k.topic = e.topic AND k.job_key = e.job_key
   AND k.job_id = e.job_id;

-- name: delete_ended_command_ids
DELETE c
  FROM JSON_TABLE(?, '$[*]' COLUMNS(free_at BIGINT PATH '$[0]', id BIGINT PATH '$[1]')) t
  STRAIGHT_JOIN key_ends e FORCE INDEX (PRIMARY) ON e.free_at = t.free_at AND e.job_id = t.id
  STRAIGHT_JOIN command_ids c FORCE INDEX (PRIMARY) ON c.id = e.job_key AND c.job_id = e.job_id;

-- name: delete_key_ends
DELETE e
  FROM JSON_TABLE(?, '$[*]' COLUMNS(free_at BIGINT PATH '$[0]', id BIGINT PATH '$[1]')) t
  STRAIGHT_JOIN key_ends e FORCE INDEX (PRIMARY) ON e.free_at = t.free_at AND e.job_id = t.id;

-- name: select_default_partition
SELECT h.id, h.topic, h.state+0, h.purge_at
  FROM history h FORCE INDEX (PRIMARY)
 WHERE h.part = 0
   AND h.id > ?
 ORDER BY h.id LIMIT ?;

-- name: delete_from_default
DELETE FROM history WHERE id = ? AND part = 0;

-- name: move_from_default
UPDATE history
   SET part = ?
 WHERE id = ?
   AND part = 0;

-- name: delete_attempts_from_default
DELETE FROM history_attempts WHERE job_id = ? AND part = 0;

-- name: move_attempts_from_default
UPDATE history_attempts
   SET part = ?
 WHERE job_id = ?
   AND part = 0;

-- name: uncount_in_default
UPDATE history_counts
   SET jobs = jobs - 1
 WHERE topic = ?
   AND state = ?
   AND part = 0;

-- Returns the partitions that may have jobs of a home day.
-- name: select_archive_partitions
SELECT part
  FROM history_days FORCE INDEX (PRIMARY)
 WHERE home_day = ?
   AND part > ?
 ORDER BY part LIMIT ?;
