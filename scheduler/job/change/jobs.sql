-- One job: reading, changing, cancelling, running now, redriving; its attempts.

-- Returns which of the given ids are in `jobs`, with their topics.
-- name: find_jobs
SELECT j.id, j.topic FROM jobs j FORCE INDEX (PRIMARY) WHERE j.id IN (?,...);

-- Finds jobs in `jobs` or history by the ids that commands gave them; returns topic and latest attempt. The topic is
-- NULL if the job was removed.
-- name: select_command_jobs
SELECT r.n, c.job_id,
       IF(o.id IS NULL,
          (SELECT h.topic
             FROM history_days d FORCE INDEX (PRIMARY)
             STRAIGHT_JOIN history h FORCE INDEX (PRIMARY) ON h.part = d.part AND h.id = c.job_id
            WHERE d.home_day = c.job_id DIV 1099511627776 LIMIT 1),
          o.topic),
       IF(o.id IS NULL,
          (SELECT h.attempt
             FROM history_days d FORCE INDEX (PRIMARY)
             STRAIGHT_JOIN history h FORCE INDEX (PRIMARY) ON h.part = d.part AND h.id = c.job_id
            WHERE d.home_day = c.job_id DIV 1099511627776 LIMIT 1),
          o.attempt)
  FROM JSON_TABLE(?, '$[*]' COLUMNS(n INT PATH '$[0]', k VARCHAR(510) PATH '$[1]')) r
  STRAIGHT_JOIN command_ids c FORCE INDEX (PRIMARY) ON c.id = UNHEX(r.k)
  LEFT JOIN jobs o ON o.id = c.job_id;

-- name: select_numbered_jobs
SELECT j.id, j.topic, j.attempt FROM jobs j FORCE INDEX (PRIMARY) WHERE j.id IN (?,...);

-- name: select_key
SELECT job_id FROM job_keys WHERE topic = ? AND job_key = ?;

-- name: lock_key
SELECT job_id FROM job_keys WHERE topic = ? AND job_key = ? FOR UPDATE;

-- Replaces the columns of a job that its body sets, and resets its count of failures.
-- name: renew_job
UPDATE jobs
   SET digest = ?, failures = 0, no_retries = FALSE
 WHERE id = ?;

-- name: find_in_flight
SELECT INSTR(inflight, CONCAT('[', ?, ',')) > 0 FROM shards WHERE shard = ?;

-- name: select_archived_part
SELECT j.part FROM history j FORCE INDEX (PRIMARY) WHERE j.id = ? AND j.part IN (?,?,?,?,?,?,?,?);

-- name: lock_archived_job
SELECT j.key_until
  FROM history j FORCE INDEX (PRIMARY)
 WHERE j.id = ?
   AND j.part = ?
   AND j.state = 'dead'
   AND j.purge_at > ?
   FOR UPDATE;

-- name: bring_back_attempts
INSERT INTO attempts (job_id, attempt, status, due_at, dispatched_at, finished_at, error_code, error_message, http_status, duration_ms)
SELECT job_id, attempt, status, due_at, dispatched_at, finished_at, error_code, error_message, http_status, duration_ms
  FROM history_attempts FORCE INDEX (PRIMARY)
 WHERE job_id = ?
   AND part = ?;

-- name: delete_archived_job
DELETE FROM history WHERE id = ? AND part = ?;

-- name: delete_archived_attempts
DELETE FROM history_attempts WHERE job_id = ? AND part = ?;

-- name: count_archived_out
UPDATE history_counts
   SET jobs = jobs - 1
 WHERE topic = ?
   AND state = 'dead'
   AND part = ?;

-- name: delete_key_end
DELETE FROM key_ends WHERE free_at = ? AND job_id = ?;

-- name: bring_back_key
INSERT INTO job_keys (topic, job_key, job_id)
VALUES (?,?,?)
ON DUPLICATE KEY UPDATE job_id = job_id;

-- If the job had an attempt, finished_at keeps the end of that attempt; otherwise it is the time of the cancel.
-- purge_at gets a number even if the topic keeps jobs for ever.
-- name: cancel_job
UPDATE jobs
   SET state = 'cancelled', next_at = NULL,
       finished_at = COALESCE(IF(attempt > 0, NULLIF(finished_at, 0), NULL), ?),
       purge_at = ? + LEAST(COALESCE((SELECT t.retention_ms FROM topics t WHERE t.name = jobs.topic), ?),
                            7223372036854775807),
       leave_at = ? + LEAST(COALESCE((SELECT t.retention_ms FROM topics t WHERE t.name = jobs.topic), ?), ?),
       version = LEAST(version + 1, 1999999999), updated_at = ?
 WHERE id = ?
   AND state = 'scheduled'; -- guard: CANCEL

-- name: cancel_retries
UPDATE jobs
   SET no_retries = TRUE, version = LEAST(version + 1, 1999999999), updated_at = ?
 WHERE id = ?
   AND state = 'dispatched';

-- name: run_job_now
UPDATE jobs
   SET run_at = ?, next_at = ?, near = TRUE, version = LEAST(version + 1, 1999999999), updated_at = ?
 WHERE id = ?
   AND state = 'scheduled';

-- Resets the count of failures, but not the number of the latest attempt.
-- name: redrive_job
UPDATE jobs
   SET state = 'scheduled', next_at = ?, near = TRUE, failures = 0, no_retries = FALSE, purge_at = NULL,
       leave_at = 0, version = LEAST(version + 1, 1999999999), updated_at = ?
 WHERE id = ?
   AND state = 'dead';

-- name: select_topic_defaults
SELECT retry, ack_timeout_ms, owner FROM topics WHERE name = ?;

-- One statement reads both tables, so that an attempt that is being archived is found once. The latest attempt, which
-- is in the job's row, is always returned, even if its number is 0 (no attempt yet). So if no row is returned, there is
-- no such job.
-- name: select_attempts
(SELECT attempt, CAST(status+0 AS SIGNED), due_at, dispatched_at, finished_at, error_code, error_message, http_status, duration_ms
   FROM attempts FORCE INDEX (PRIMARY)
  WHERE job_id = ?
    AND attempt > ?
  ORDER BY attempt LIMIT ?)
UNION ALL
(SELECT attempt, CAST(attempt_status+0 AS SIGNED), due_at, dispatched_at,
        IF(attempt_status='dispatched', NULL, finished_at),
        IF(attempt_status IN ('failed','timed_out','gave_up','undeliverable'), error_code, NULL),
        IF(attempt_status IN ('failed','timed_out','gave_up','undeliverable'), error_message, NULL), http_status, duration_ms
   FROM jobs
  WHERE id = ?)
ORDER BY 1 LIMIT ?;

-- name: select_archived_attempts
(SELECT attempt, CAST(status+0 AS SIGNED), due_at, dispatched_at, finished_at, error_code, error_message, http_status, duration_ms
   FROM history_attempts FORCE INDEX (PRIMARY)
  WHERE job_id = ?
    AND part IN (?,?,?,?,?,?,?,?)
    AND purge_at > CAST(UNIX_TIMESTAMP(NOW(3))*1000 AS SIGNED)
    AND attempt > ?
  ORDER BY attempt LIMIT ?)
UNION ALL
(SELECT attempt, CAST(attempt_status+0 AS SIGNED), due_at, dispatched_at,
        IF(attempt_status='dispatched', NULL, finished_at),
        IF(attempt_status IN ('failed','timed_out','gave_up','undeliverable'), error_code, NULL),
        IF(attempt_status IN ('failed','timed_out','gave_up','undeliverable'), error_message, NULL), http_status, duration_ms
   FROM history FORCE INDEX (PRIMARY)
  WHERE id = ?
    AND part IN (?,?,?,?,?,?,?,?)
    AND purge_at > CAST(UNIX_TIMESTAMP(NOW(3))*1000 AS SIGNED))
ORDER BY 1 LIMIT ?;
