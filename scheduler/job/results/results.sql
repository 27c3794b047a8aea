-- Results: reading the jobs of results, writing the decisions, deferring results whose job is locked, and writing dead
-- letters.

-- Reads the jobs of results without locks: the columns that dt_job_decide needs, the times at which the index may have
-- an entry, the version, the topic and the topic's retention. For a popped job, the pop's time to report replaces the
-- job's acknowledgement timeout. Consecutive jobs are often of one topic, whose row a join reads only once.
-- name: select_judged
SELECT j.id, j.state+0, GREATEST(j.next_at, 1), j.attempt, j.attempt_status+0, j.failures, j.no_retries, j.retry,
       COALESCE(NULLIF(j.ttr_ms, 0), j.ack_timeout_ms), j.due_at, j.dispatched_at, j.version, t.retention_ms, j.topic
  FROM jobs j FORCE INDEX (PRIMARY)
  LEFT JOIN topics t FORCE INDEX (PRIMARY) ON t.name = j.topic
 WHERE j.id IN (?,...)
 ORDER BY j.id;

-- Reads the columns of select_judged with row locks. A join would also lock the topic's row, so a subquery reads it.
-- name: lock_judged
SELECT j.id, j.state+0, GREATEST(j.next_at, 1), j.attempt, j.attempt_status+0, j.failures, j.no_retries, j.retry,
       COALESCE(NULLIF(j.ttr_ms, 0), j.ack_timeout_ms), j.due_at, j.dispatched_at, j.version,
       (SELECT t.retention_ms FROM topics t WHERE t.name = j.topic), j.topic
  FROM jobs j FORCE INDEX (PRIMARY)
 WHERE j.id IN (?,...)
 ORDER BY j.id
   FOR UPDATE;

-- name: lock_free_judged
SELECT j.id, j.state+0, GREATEST(j.next_at, 1), j.attempt, j.attempt_status+0, j.failures, j.no_retries, j.retry,
       COALESCE(NULLIF(j.ttr_ms, 0), j.ack_timeout_ms), j.due_at, j.dispatched_at, j.version,
       (SELECT t.retention_ms FROM topics t WHERE t.name = j.topic), j.topic
  FROM jobs j FORCE INDEX (PRIMARY)
 WHERE j.id IN (?,...)
 ORDER BY j.id
   FOR UPDATE SKIP LOCKED;

-- Reads jobs that are not in `jobs` from history: the columns of select_judged up to dispatched_at, and the topic. A
-- job is archived in one transaction, so one of the two statements finds it. A join with history_days restricts this
-- statement to the partitions that may have the job, because opening all partitions costs the server about 2 ms.
-- name: select_archived_judged
SELECT j.id, j.state+0, 0, j.attempt, j.attempt_status+0, j.failures, j.no_retries, j.retry, j.ack_timeout_ms,
       j.due_at, j.dispatched_at, j.topic
  FROM JSON_TABLE(?, '$[*]' COLUMNS (id BIGINT PATH '$')) r
  STRAIGHT_JOIN history_days d FORCE INDEX (PRIMARY) ON d.home_day = r.id DIV 1099511627776
  STRAIGHT_JOIN history j FORCE INDEX (PRIMARY) ON j.id = r.id AND j.part = d.part
 WHERE j.purge_at > ?;

-- Reads earlier attempts of jobs in `jobs`.
-- name: select_reported_attempts
SELECT a.job_id, a.attempt, CAST(a.status+0 AS SIGNED)
  FROM JSON_TABLE(?, '$[*]' COLUMNS (id BIGINT PATH '$[0]', attempt BIGINT PATH '$[1]')) r
  STRAIGHT_JOIN attempts a FORCE INDEX (PRIMARY) ON a.job_id = r.id AND a.attempt = r.attempt;

-- Reads earlier attempts of archived jobs.
-- name: select_reported_archived_attempts
SELECT a.job_id, a.attempt, CAST(a.status+0 AS SIGNED)
  FROM JSON_TABLE(?, '$[*]' COLUMNS (id BIGINT PATH '$[0]', attempt BIGINT PATH '$[1]')) r
  STRAIGHT_JOIN history_days d FORCE INDEX (PRIMARY) ON d.home_day = r.id DIV 1099511627776
  STRAIGHT_JOIN history_attempts a FORCE INDEX (PRIMARY) ON a.job_id = r.id AND a.attempt = r.attempt
   AND a.part = d.part;

-- Writes successful jobs, each with its own values.
-- name: write_successes
UPDATE JSON_TABLE(?, '$[*]' COLUMNS (id BIGINT PATH '$[0]', attempt BIGINT PATH '$[1]', was INT PATH '$[2]',
       version BIGINT PATH '$[3]', purge_then BIGINT PATH '$[4]', leave_then BIGINT PATH '$[5]',
       http_status INT PATH '$[6]', duration_ms INT PATH '$[7]')) r
  STRAIGHT_JOIN jobs j FORCE INDEX (PRIMARY) ON j.id = r.id
   SET j.state = 'succeeded', j.attempt_status = 'succeeded', j.next_at = NULL, j.finished_at = ?,
       j.purge_at = r.purge_then, j.leave_at = r.leave_then, j.http_status = COALESCE(r.http_status, j.http_status),
       j.duration_ms = COALESCE(r.duration_ms, j.duration_ms), j.version = LEAST(j.version + 1, 1999999999), j.updated_at = ?
 WHERE j.attempt = r.attempt AND j.version = r.version AND j.state = r.was; -- guard: RESULT or: WHERE TRUE

-- Writes successful jobs that get equal values (nearly all jobs of a batch): one list of values for all ids.
-- name: write_alike_successes
UPDATE jobs j FORCE INDEX (PRIMARY)
   SET j.state = 'succeeded', j.attempt_status = 'succeeded', j.next_at = NULL, j.finished_at = ?, j.purge_at = ?,
       j.leave_at = ?, j.version = LEAST(j.version + 1, 1999999999), j.updated_at = ?
 WHERE j.attempt = ? AND j.version = ? AND j.state = ? -- guard: RESULT or: WHERE ? IS NOT NULL AND ? IS NOT NULL AND ? IS NOT NULL
   AND j.id IN (?,...);

-- Writes successful callbacks that get equal values except for the duration. The durations are one text, passed twice:
-- " id:duration id:duration", with ids relative to the first id. The server searches the text for each row, so the text
-- must be short, and INSTR, which is cheap, searches it.
-- name: write_answered_successes
UPDATE jobs j FORCE INDEX (PRIMARY)
   SET j.http_status = ?,
       j.duration_ms = CAST(SUBSTRING_INDEX(SUBSTRING_INDEX(SUBSTR(?, INSTR(?, CONCAT(' ', j.id - ?, ':'))), ' ', 2), ':', -1) AS SIGNED),
       j.state = 'succeeded', j.attempt_status = 'succeeded', j.next_at = NULL, j.finished_at = ?, j.purge_at = ?,
       j.leave_at = ?, j.version = LEAST(j.version + 1, 1999999999), j.updated_at = ?
 WHERE j.attempt = ? AND j.version = ? AND j.state = ? -- guard: RESULT or: WHERE ? IS NOT NULL AND ? IS NOT NULL AND ? IS NOT NULL
   AND j.id IN (?,...);

-- Writes all results except successes, each with its own values.
-- name: write_outcomes
UPDATE JSON_TABLE(?, '$[*]' COLUMNS (id BIGINT PATH '$[0]', attempt BIGINT PATH '$[1]', was INT PATH '$[2]',
       state INT PATH '$[3]', attempt_status INT PATH '$[4]', next_at BIGINT PATH '$[5]', near INT PATH '$[6]',
       failures BIGINT PATH '$[7]', changes INT PATH '$[8]', finished INT PATH '$[9]', purge_then BIGINT PATH '$[10]',
       failed INT PATH '$[11]', code VARCHAR(100) CHARACTER SET utf8mb4 PATH '$[12]',
       message VARCHAR(1000) CHARACTER SET utf8mb4 PATH '$[13]', version BIGINT PATH '$[14]',
       leave_then BIGINT PATH '$[15]', http_status INT PATH '$[16]', duration_ms INT PATH '$[17]')) r
  STRAIGHT_JOIN jobs j FORCE INDEX (PRIMARY) ON j.id = r.id
   SET j.state = r.state, j.attempt_status = r.attempt_status, j.next_at = r.next_at,
       j.near = IF(r.next_at IS NULL, j.near, r.near), j.failures = r.failures,
       j.finished_at = IF(r.finished, ?, j.finished_at), j.purge_at = r.purge_then, j.leave_at = r.leave_then,
       j.error_at = IF(r.failed, ?, j.error_at), j.error_code = IF(r.failed, r.code, j.error_code),
       j.error_message = IF(r.failed, r.message, j.error_message),
       j.http_status = COALESCE(r.http_status, j.http_status), j.duration_ms = COALESCE(r.duration_ms, j.duration_ms),
       j.version = LEAST(j.version + r.changes, 1999999999),
       j.updated_at = ?
 WHERE j.attempt = r.attempt AND j.version = r.version AND j.state = r.was; -- guard: RESULT or: WHERE TRUE

-- name: insert_dead_letters
INSERT INTO messages (sender, kind, job_id, attempt, made_at)
VALUES (?, 'dead', ?, ?, ?);

-- Returns which of the given jobs have a deferred result up to a given id.
-- name: find_waiting_results
SELECT d.job_id FROM deferred_results d FORCE INDEX (by_job) WHERE d.id <= ? AND d.job_id IN (?,...);

-- name: insert_deferred
INSERT INTO deferred_results (job_id, attempt, status, retry_after_ms, error_code, error_message, deferred_at)
VALUES (?, ?, ?, ?, ?, ?, ?);

-- name: is_any_deferred
SELECT EXISTS (SELECT 1 FROM deferred_results FORCE INDEX (PRIMARY) WHERE id > ?);

-- name: select_deferred
SELECT d.id, d.job_id, d.attempt, d.status+0, d.retry_after_ms, d.error_code, d.error_message
  FROM deferred_results d FORCE INDEX (PRIMARY)
 WHERE d.id > ?
 ORDER BY d.id LIMIT ?;

-- name: delete_deferred
DELETE d
  FROM JSON_TABLE(?, '$[*]' COLUMNS(id BIGINT PATH '$')) t
  STRAIGHT_JOIN deferred_results d FORCE INDEX (PRIMARY) ON d.id = t.id;
