-- Statements on jobs in a leader's transaction. The time to report is limited to DT_ACK_MAX_MS, so that now +
-- ack_timeout_ms is a valid time even after a manual edit. The statement that locks due jobs is in job_rows.sql,
-- because it also reads their messages.

-- Reads the in-flight lists of the given shards.
-- name: select_lists_of_shards
SELECT s.inflight
  FROM JSON_TABLE(?, '$[*]' COLUMNS(shard INT PATH '$')) t
  STRAIGHT_JOIN shards s FORCE INDEX (PRIMARY) ON s.shard = t.shard;

-- Returns which of the given jobs have a deferred result (job/results/results_deferred.c).
-- name: find_deferred
SELECT d.job_id FROM deferred_results d FORCE INDEX (by_job) WHERE d.job_id IN (?,...);

-- Copies the latest attempt of jobs that are about to be claimed again into `attempts`.
-- name: keep_latest_attempts
INSERT INTO attempts (job_id, attempt, status, due_at, dispatched_at, finished_at, error_code, error_message, http_status, duration_ms)
SELECT j.id, j.attempt, COALESCE(NULLIF(j.attempt_status, 'none'), 'dispatched'), j.due_at, j.dispatched_at, j.finished_at,
       IF(j.attempt_status IN ('failed','timed_out','gave_up','undeliverable'), j.error_code, NULL),
       IF(j.attempt_status IN ('failed','timed_out','gave_up','undeliverable'), j.error_message, NULL),
       NULLIF(j.http_status, 0), NULLIF(j.duration_ms, -1)
  FROM JSON_TABLE(?, '$[*]' COLUMNS(id BIGINT PATH '$[0]')) t
  STRAIGHT_JOIN jobs j FORCE INDEX (PRIMARY) ON j.id = t.id
 WHERE j.attempt > 0
ON DUPLICATE KEY UPDATE status = VALUES(status);

-- Claims the jobs. Columns are computed from the row itself, which has not changed since the transaction locked it.
-- name: claim_jobs
UPDATE jobs j FORCE INDEX (PRIMARY)
   SET j.state = 'dispatched', j.attempt = LEAST(j.attempt + 1, 1999999999), j.attempt_status = 'dispatched',
       j.due_at = IF(j.next_at > 1, j.next_at, ?), j.dispatched_at = ?, j.finished_at = 0, j.claim_shard = ?,
       j.ttr_ms = 0, j.http_status = 0, j.duration_ms = -1,
       j.next_at = ? + LEAST(j.ack_timeout_ms, 3155760000000),
       j.near = (? + LEAST(j.ack_timeout_ms, 3155760000000) < ?), j.updated_at = ?, j.version = LEAST(j.version + 1, 1999999999)
 WHERE j.state = 'scheduled' AND j.next_at <= ? -- guard: CLAIM or: WHERE ? > 0
   AND j.id IN (?,...);

-- Locks the jobs whose attempts were sent, in the order of their ids. A row that another session has locked is skipped;
-- its deadline is not extended.
-- name: lock_sent
SELECT j.id, GREATEST(j.next_at, 1), LEAST(j.ack_timeout_ms, 3155760000000)
  FROM JSON_TABLE(?, '$[*]' COLUMNS(id BIGINT PATH '$[0]', attempt INT PATH '$[1]')) t
  STRAIGHT_JOIN jobs j FORCE INDEX (PRIMARY) ON j.id = t.id
 WHERE j.state = 'dispatched'
   AND j.attempt = t.attempt
 ORDER BY t.id
   FOR UPDATE /*!80001 OF j */ SKIP LOCKED;

-- The server may assign next_at before it computes `near`, or after it; the expression gives the same result.
-- name: extend_sent
UPDATE JSON_TABLE(?, '$[*]' COLUMNS(id BIGINT PATH '$')) t
  STRAIGHT_JOIN jobs j FORCE INDEX (PRIMARY) ON j.id = t.id
   SET j.near = (j.next_at < ? AND ? + LEAST(j.ack_timeout_ms, 3155760000000) < ?),
       j.next_at = GREATEST(j.next_at, ? + LEAST(j.ack_timeout_ms, 3155760000000)) -- guard: DEADLINE_GREATEST or: j.next_at = ? + LEAST(j.ack_timeout_ms, 3155760000000)
 WHERE j.state = 'dispatched';

-- Records that Kafka refused the attempt. The state of the job is not changed, because a manual edit or a forged result
-- may have ended the attempt before.
-- name: record_undeliverable
UPDATE jobs
   SET attempt_status = 'undeliverable', error_at = ?, error_code = 'undeliverable', error_message = LEFT(?, 1000),
       updated_at = ?, version = LEAST(version + 1, 1999999999)
 WHERE id = ?
   AND attempt = ?;
