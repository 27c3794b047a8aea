-- Every statement that names all columns of a job, or all columns that a caller sets. A new column must be added to
-- each of them, in the order of job/job.h; tests/unit/job/test_job_columns.c compares the order. Statements return a
-- next_at below 1 as 1: a manual edit may write zero or less to make the job due, but 0 means "no time" to programs.
-- The column due_key does the same.

-- name: select_job
SELECT j.id, j.topic, j.job_key, j.state+0, j.run_at, GREATEST(j.next_at, 1), j.attempt, j.failures,
       j.attempt_status+0, j.due_at, j.dispatched_at, j.finished_at, j.claim_shard, j.no_retries, j.retry,
       j.ack_timeout_ms, j.partition_key, j.headers, j.callback_url, j.content_type, j.payload_binary, j.error_code,
       j.error_message, j.error_at, j.created_at, j.updated_at, j.version, j.payload
  FROM jobs j
 WHERE j.id = ?;

-- name: lock_job
SELECT j.id, j.topic, j.job_key, j.state+0, j.run_at, GREATEST(j.next_at, 1), j.attempt, j.failures,
       j.attempt_status+0, j.due_at, j.dispatched_at, j.finished_at, j.claim_shard, j.no_retries, j.retry,
       j.ack_timeout_ms, j.partition_key, j.headers, j.callback_url, j.content_type, j.payload_binary, j.error_code,
       j.error_message, j.error_at, j.created_at, j.updated_at, j.version, j.payload
  FROM jobs j
 WHERE j.id = ?
   FOR UPDATE; -- guard: CANCEL

-- name: lock_free_job
SELECT j.id, j.topic, j.job_key, j.state+0, j.run_at, GREATEST(j.next_at, 1), j.attempt, j.failures,
       j.attempt_status+0, j.due_at, j.dispatched_at, j.finished_at, j.claim_shard, j.no_retries, j.retry,
       j.ack_timeout_ms, j.partition_key, j.headers, j.callback_url, j.content_type, j.payload_binary, j.error_code,
       j.error_message, j.error_at, j.created_at, j.updated_at, j.version, j.payload
  FROM jobs j
 WHERE j.id = ?
   FOR UPDATE SKIP LOCKED;

-- name: select_archived_job
SELECT j.id, j.topic, j.job_key, j.state+0, j.run_at, 0, j.attempt, j.failures, j.attempt_status+0, j.due_at,
       j.dispatched_at, j.finished_at, j.claim_shard, j.no_retries, j.retry, j.ack_timeout_ms,
       j.partition_key, j.headers, j.callback_url, j.content_type, j.payload_binary, j.error_code, j.error_message,
       j.error_at, j.created_at, j.updated_at, j.version, j.payload
  FROM history j FORCE INDEX (PRIMARY)
 WHERE j.id = ?
   AND j.part IN (?,?,?,?,?,?,?,?)
   AND j.purge_at > CAST(UNIX_TIMESTAMP(NOW(3))*1000 AS SIGNED);

-- Reads dead letters from the outbox, with their jobs.
-- name: select_notices
SELECT o.id, o.attempt, o.made_at, j.id, j.topic, j.job_key, j.state+0, j.run_at, GREATEST(j.next_at, 1), j.attempt,
       j.failures, j.attempt_status+0, j.due_at, j.dispatched_at, j.finished_at, j.claim_shard, j.no_retries,
       j.retry, j.ack_timeout_ms, j.partition_key, j.headers, j.callback_url, j.content_type, j.payload_binary, j.error_code,
       j.error_message, j.error_at, j.created_at, j.updated_at, j.version, j.payload
  FROM messages o FORCE INDEX (PRIMARY)
  STRAIGHT_JOIN jobs j FORCE INDEX (PRIMARY) ON j.id = o.job_id
 WHERE o.id IN (?,...)
 ORDER BY o.id;

-- Locks jobs that may be due, and reads the messages of those that may be claimed and are small: a payload of up to 2
-- KiB, headers of up to 1 KiB. For a larger message the payload is NULL, and select_messages reads it after the job was
-- chosen. If another shard has the job's attempt in its in-flight list (because the job's slot was moved to this shard
-- after the claim), the row is not locked: the other shard will extend the attempt's deadline, and skips locked rows.
-- The seventh column is the largest possible size of the message: two headers contain the key, and 900 bytes are for
-- headers that we add.
-- name: lock_hinted
SELECT j.id, j.state+0, j.attempt, GREATEST(j.next_at, 1), j.claim_shard,
       LEAST(j.ack_timeout_ms, 3155760000000),
       LENGTH(j.payload) + COALESCE(LENGTH(j.headers), 0) + LENGTH(j.topic) + 2 * COALESCE(LENGTH(j.job_key), 0)
       + COALESCE(LENGTH(j.partition_key), 0) + COALESCE(LENGTH(j.content_type), 0) + 900,
       j.topic, j.job_key, j.partition_key,
       IF(j.state = 'scheduled' AND LENGTH(j.payload) <= 2048 AND COALESCE(LENGTH(j.headers), 0) <= 1024, j.headers, NULL),
       j.callback_url, j.content_type, j.payload_binary,
       IF(j.state = 'scheduled' AND LENGTH(j.payload) <= 2048 AND COALESCE(LENGTH(j.headers), 0) <= 1024, j.payload, NULL)
  FROM jobs j FORCE INDEX (PRIMARY)
 WHERE (j.claim_shard IN (-1, ?)                                          -- guard: LIST_ELSEWHERE or: WHERE ? IS NOT NULL
        OR NOT EXISTS (SELECT 1 FROM shards s WHERE s.shard = j.claim_shard   -- guard: LIST_ELSEWHERE
                       AND INSTR(s.inflight, CONCAT('[', j.id, ',')) > 0))    -- guard: LIST_ELSEWHERE
   AND (j.due_band < 2 OR j.state <> 'scheduled') -- an attempt that a manual edit ended must be counted before a claim
   AND j.id IN (?,...)
 ORDER BY j.id
   FOR UPDATE SKIP LOCKED; -- guard: CLAIM

-- Reads the messages of claimed attempts. The topic's name in Kafka is read, too.
-- name: select_messages
SELECT j.id, j.topic, COALESCE(p.kafka_name, j.topic), j.job_key, j.partition_key, j.headers, j.callback_url, j.content_type,
       j.payload_binary, j.payload
  FROM JSON_TABLE(?, '$[*]' COLUMNS(id BIGINT PATH '$[0]')) t
  STRAIGHT_JOIN jobs j FORCE INDEX (PRIMARY) ON j.id = t.id
  LEFT JOIN topics p ON p.name = j.topic;

-- name: select_popped
SELECT j.id, j.topic, j.job_key, j.state+0, j.run_at, GREATEST(j.next_at, 1), j.attempt, j.failures,
       j.attempt_status+0, j.due_at, j.dispatched_at, j.finished_at, j.claim_shard, j.no_retries, j.retry,
       j.ack_timeout_ms, j.partition_key, j.headers, j.callback_url, j.content_type, j.payload_binary, j.error_code,
       j.error_message, j.error_at, j.created_at, j.updated_at, j.version, j.payload
  FROM jobs j FORCE INDEX (PRIMARY)
 WHERE j.id IN (?,...);

-- Inserts have a statement for each set of columns: columns that no job of the batch sets are not sent, because their
-- defaults cost the server less than NULLs or zeros.
-- name: insert_job
INSERT INTO jobs (id, topic, run_at, next_at, retry, ack_timeout_ms, created_at, updated_at, maker, digest,
     payload)
VALUES (?,?,?,?,?,?,?,?,?,?,?);

-- name: insert_job_near
INSERT INTO jobs (id, topic, run_at, next_at, retry, ack_timeout_ms, created_at, updated_at, maker, digest,
     payload, near)
VALUES (?,?,?,?,?,?,?,?,?,?,?,?);

-- name: insert_job_key
INSERT INTO jobs (id, topic, run_at, next_at, retry, ack_timeout_ms, created_at, updated_at, maker, digest,
     payload, job_key)
VALUES (?,?,?,?,?,?,?,?,?,?,?,?);

-- name: insert_job_near_key
INSERT INTO jobs (id, topic, run_at, next_at, retry, ack_timeout_ms, created_at, updated_at, maker, digest,
     payload, near, job_key)
VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?);

-- name: insert_job_extras
INSERT INTO jobs (id, topic, run_at, next_at, retry, ack_timeout_ms, created_at, updated_at, maker, digest,
     payload, partition_key, headers, callback_url, content_type, payload_binary)
VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?);

-- name: insert_job_near_extras
INSERT INTO jobs (id, topic, run_at, next_at, retry, ack_timeout_ms, created_at, updated_at, maker, digest,
     payload, near, partition_key, headers, callback_url, content_type, payload_binary)
VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?);

-- name: insert_job_key_extras
INSERT INTO jobs (id, topic, run_at, next_at, retry, ack_timeout_ms, created_at, updated_at, maker, digest,
     payload, job_key, partition_key, headers, callback_url, content_type, payload_binary)
VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?);

-- name: insert_job_near_key_extras
INSERT INTO jobs (id, topic, run_at, next_at, retry, ack_timeout_ms, created_at, updated_at, maker, digest,
     payload, near, job_key, partition_key, headers, callback_url, content_type, payload_binary)
VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?);

-- name: patch_job
UPDATE jobs
   SET run_at = ?, next_at = ?, near = ?, retry = ?, ack_timeout_ms = ?, partition_key = ?, headers = ?, callback_url = ?,
       version = LEAST(version + 1, 1999999999), updated_at = ?
 WHERE id = ?
   AND state = 'scheduled'
   AND version = ?;

-- name: patch_content
UPDATE jobs
   SET payload = ?, content_type = ?, payload_binary = ?
 WHERE id = ?;

-- name: archive_jobs
INSERT INTO history (id, part, key_until, topic, job_key, state, run_at, attempt, failures, attempt_status,
     due_at, dispatched_at, finished_at, claim_shard, no_retries, retry, ack_timeout_ms, version, created_at,
     updated_at, purge_at, maker, digest, partition_key, content_type, payload_binary, error_at, error_code,
     error_message, headers, callback_url, payload, http_status, duration_ms)
SELECT t.id, t.part, t.key_until, topic, job_key, state, run_at, attempt, failures, attempt_status, due_at,
       dispatched_at, finished_at, claim_shard, no_retries, retry, ack_timeout_ms, version, created_at,
       updated_at, purge_at, maker, digest, partition_key, content_type, payload_binary, error_at, error_code,
       error_message, headers, callback_url, payload, http_status, duration_ms
  FROM JSON_TABLE(?, '$[*]' COLUMNS(id BIGINT PATH '$[0]', part INT PATH '$[1]', key_until BIGINT PATH '$[2]',
      until BIGINT PATH '$[3]')) t
  STRAIGHT_JOIN jobs j FORCE INDEX (PRIMARY) ON j.id = t.id;

-- name: bring_back_job
INSERT INTO jobs (id, leave_at, topic, job_key, state, run_at, attempt, failures, attempt_status, due_at,
     dispatched_at, finished_at, claim_shard, no_retries, retry, ack_timeout_ms, version, created_at,
     updated_at, purge_at, maker, digest, partition_key, content_type, payload_binary, error_at, error_code,
     error_message, headers, callback_url, payload, http_status, duration_ms)
SELECT h.id, h.purge_at, topic, job_key, state, run_at, attempt, failures, attempt_status, due_at,
       dispatched_at, finished_at, claim_shard, no_retries, retry, ack_timeout_ms, version, created_at,
       updated_at, purge_at, maker, digest, partition_key, content_type, payload_binary, error_at, error_code,
       error_message, headers, callback_url, payload, http_status, duration_ms
  FROM history h FORCE INDEX (PRIMARY)
 WHERE h.id = ?
   AND h.part = ?;

-- name: list_live_by_id
SELECT j.id, j.topic, j.job_key, j.state+0, j.run_at, GREATEST(j.next_at, 1), j.attempt, j.failures,
       j.attempt_status+0, j.due_at, j.dispatched_at, j.finished_at, j.claim_shard, j.no_retries, j.retry,
       j.ack_timeout_ms, j.partition_key, j.headers, j.callback_url, j.content_type, j.payload_binary, j.error_code,
       j.error_message, j.error_at, j.created_at, j.updated_at, j.version
  FROM jobs j FORCE INDEX (PRIMARY)
 WHERE j.id > ?
   AND j.id <= ?
   AND (? IS NULL OR j.topic = ?)
   AND (? = 0 OR j.state = ?)
   AND j.run_at >= ?
   AND j.run_at < ?
   AND (? IS NULL OR CONVERT(j.topic USING utf8mb4) COLLATE utf8mb4_bin REGEXP CONVERT(? USING utf8mb4))
   AND j.created_at >= ?
   AND j.created_at < ?
   AND (? IS NULL OR j.error_code = ?)
   AND (? IS NULL OR INSTR(j.error_message, ?) > 0 OR INSTR(j.error_code, ?) > 0)
   AND (? = 0 OR j.error_at >= ? AND j.error_at < ?)
   AND (? = 0 OR j.state IN ('succeeded','dead','cancelled') AND j.finished_at >= ? AND j.finished_at < ?)
   AND (? = 0 OR j.next_at >= ? AND j.next_at < ?)
 ORDER BY j.id LIMIT ?;

-- name: list_all_by_id
(SELECT j.id, j.topic, j.job_key, j.state+0, j.run_at, GREATEST(j.next_at, 1), j.attempt, j.failures,
        j.attempt_status+0, j.due_at, j.dispatched_at, j.finished_at, j.claim_shard, j.no_retries, j.retry,
        j.ack_timeout_ms, j.partition_key, j.headers, j.callback_url, j.content_type, j.payload_binary, j.error_code,
        j.error_message, j.error_at, j.created_at, j.updated_at, j.version
   FROM jobs j FORCE INDEX (PRIMARY)
  WHERE j.id > ?
    AND j.id <= ?
    AND (? IS NULL OR j.topic = ?)
    AND (? = 0 OR j.state = ?)
    AND j.run_at >= ?
    AND j.run_at < ?
    AND (? IS NULL OR CONVERT(j.topic USING utf8mb4) COLLATE utf8mb4_bin REGEXP CONVERT(? USING utf8mb4))
    AND j.created_at >= ?
    AND j.created_at < ?
    AND (? IS NULL OR j.error_code = ?)
    AND (? IS NULL OR INSTR(j.error_message, ?) > 0 OR INSTR(j.error_code, ?) > 0)
    AND (? = 0 OR j.error_at >= ? AND j.error_at < ?)
    AND (? = 0 OR j.state IN ('succeeded','dead','cancelled') AND j.finished_at >= ? AND j.finished_at < ?)
    AND (? = 0 OR j.next_at >= ? AND j.next_at < ?)
  ORDER BY j.id LIMIT ?)
UNION ALL
(SELECT j.id, j.topic, j.job_key, j.state+0, j.run_at, 0, j.attempt, j.failures, j.attempt_status+0, j.due_at,
        j.dispatched_at, j.finished_at, j.claim_shard, j.no_retries, j.retry, j.ack_timeout_ms,
        j.partition_key, j.headers, j.callback_url, j.content_type, j.payload_binary, j.error_code, j.error_message,
        j.error_at, j.created_at, j.updated_at, j.version
   FROM history j FORCE INDEX (PRIMARY)
  WHERE j.id > ?
    AND j.id <= ?
    AND (? IS NULL OR j.topic = ?)
    AND (? = 0 OR j.state = ?)
    AND j.run_at >= ?
    AND j.run_at < ?
    AND (? IS NULL OR CONVERT(j.topic USING utf8mb4) COLLATE utf8mb4_bin REGEXP CONVERT(? USING utf8mb4))
    AND j.created_at >= ?
    AND j.created_at < ?
    AND (? IS NULL OR j.error_code = ?)
    AND (? IS NULL OR INSTR(j.error_message, ?) > 0 OR INSTR(j.error_code, ?) > 0)
    AND (? = 0 OR j.error_at >= ? AND j.error_at < ?)
    AND (? = 0 OR j.state IN ('succeeded','dead','cancelled') AND j.finished_at >= ? AND j.finished_at < ?)
    AND j.purge_at > CAST(UNIX_TIMESTAMP(NOW(3))*1000 AS SIGNED)
  ORDER BY j.id LIMIT ?)
ORDER BY 1 LIMIT ?;

-- name: list_live_payloads_by_id
SELECT j.id, j.topic, j.job_key, j.state+0, j.run_at, GREATEST(j.next_at, 1), j.attempt, j.failures,
       j.attempt_status+0, j.due_at, j.dispatched_at, j.finished_at, j.claim_shard, j.no_retries, j.retry,
       j.ack_timeout_ms, j.partition_key, j.headers, j.callback_url, j.content_type, j.payload_binary, j.error_code,
       j.error_message, j.error_at, j.created_at, j.updated_at, j.version, j.payload
  FROM jobs j FORCE INDEX (PRIMARY)
 WHERE j.id > ?
   AND j.id <= ?
   AND (? IS NULL OR j.topic = ?)
   AND (? = 0 OR j.state = ?)
   AND j.run_at >= ?
   AND j.run_at < ?
   AND (? IS NULL OR CONVERT(j.topic USING utf8mb4) COLLATE utf8mb4_bin REGEXP CONVERT(? USING utf8mb4))
   AND j.created_at >= ?
   AND j.created_at < ?
   AND (? IS NULL OR j.error_code = ?)
   AND (? IS NULL OR INSTR(j.error_message, ?) > 0 OR INSTR(j.error_code, ?) > 0)
   AND (? = 0 OR j.error_at >= ? AND j.error_at < ?)
   AND (? = 0 OR j.state IN ('succeeded','dead','cancelled') AND j.finished_at >= ? AND j.finished_at < ?)
   AND (? = 0 OR j.next_at >= ? AND j.next_at < ?)
 ORDER BY j.id LIMIT ?;

-- name: list_all_payloads_by_id
(SELECT j.id, j.topic, j.job_key, j.state+0, j.run_at, GREATEST(j.next_at, 1), j.attempt, j.failures,
        j.attempt_status+0, j.due_at, j.dispatched_at, j.finished_at, j.claim_shard, j.no_retries, j.retry,
        j.ack_timeout_ms, j.partition_key, j.headers, j.callback_url, j.content_type, j.payload_binary, j.error_code,
        j.error_message, j.error_at, j.created_at, j.updated_at, j.version, j.payload
   FROM jobs j FORCE INDEX (PRIMARY)
  WHERE j.id > ?
    AND j.id <= ?
    AND (? IS NULL OR j.topic = ?)
    AND (? = 0 OR j.state = ?)
    AND j.run_at >= ?
    AND j.run_at < ?
    AND (? IS NULL OR CONVERT(j.topic USING utf8mb4) COLLATE utf8mb4_bin REGEXP CONVERT(? USING utf8mb4))
    AND j.created_at >= ?
    AND j.created_at < ?
    AND (? IS NULL OR j.error_code = ?)
    AND (? IS NULL OR INSTR(j.error_message, ?) > 0 OR INSTR(j.error_code, ?) > 0)
    AND (? = 0 OR j.error_at >= ? AND j.error_at < ?)
    AND (? = 0 OR j.state IN ('succeeded','dead','cancelled') AND j.finished_at >= ? AND j.finished_at < ?)
    AND (? = 0 OR j.next_at >= ? AND j.next_at < ?)
  ORDER BY j.id LIMIT ?)
UNION ALL
(SELECT j.id, j.topic, j.job_key, j.state+0, j.run_at, 0, j.attempt, j.failures, j.attempt_status+0, j.due_at,
        j.dispatched_at, j.finished_at, j.claim_shard, j.no_retries, j.retry, j.ack_timeout_ms,
        j.partition_key, j.headers, j.callback_url, j.content_type, j.payload_binary, j.error_code, j.error_message,
        j.error_at, j.created_at, j.updated_at, j.version, j.payload
   FROM history j FORCE INDEX (PRIMARY)
  WHERE j.id > ?
    AND j.id <= ?
    AND (? IS NULL OR j.topic = ?)
    AND (? = 0 OR j.state = ?)
    AND j.run_at >= ?
    AND j.run_at < ?
    AND (? IS NULL OR CONVERT(j.topic USING utf8mb4) COLLATE utf8mb4_bin REGEXP CONVERT(? USING utf8mb4))
    AND j.created_at >= ?
    AND j.created_at < ?
    AND (? IS NULL OR j.error_code = ?)
    AND (? IS NULL OR INSTR(j.error_message, ?) > 0 OR INSTR(j.error_code, ?) > 0)
    AND (? = 0 OR j.error_at >= ? AND j.error_at < ?)
    AND (? = 0 OR j.state IN ('succeeded','dead','cancelled') AND j.finished_at >= ? AND j.finished_at < ?)
    AND j.purge_at > CAST(UNIX_TIMESTAMP(NOW(3))*1000 AS SIGNED)
  ORDER BY j.id LIMIT ?)
ORDER BY 1 LIMIT ?;

-- name: list_live_by_key
SELECT j.id, j.topic, j.job_key, j.state+0, j.run_at, GREATEST(j.next_at, 1), j.attempt, j.failures,
       j.attempt_status+0, j.due_at, j.dispatched_at, j.finished_at, j.claim_shard, j.no_retries, j.retry,
       j.ack_timeout_ms, j.partition_key, j.headers, j.callback_url, j.content_type, j.payload_binary, j.error_code,
       j.error_message, j.error_at, j.created_at, j.updated_at, j.version
  FROM job_keys k FORCE INDEX (PRIMARY)
  STRAIGHT_JOIN jobs j FORCE INDEX (PRIMARY) ON j.id = k.job_id
 WHERE k.topic = ?
   AND k.job_key >= ?
   AND k.job_key < UNHEX(?)
   AND (? OR k.job_key <> ?)
   AND k.job_key <= COALESCE(?, UNHEX(?))
   AND (? IS NULL OR j.topic = ?)
   AND (? = 0 OR j.state = ?)
   AND j.run_at >= ?
   AND j.run_at < ?
   AND (? IS NULL OR CONVERT(j.topic USING utf8mb4) COLLATE utf8mb4_bin REGEXP CONVERT(? USING utf8mb4))
   AND j.created_at >= ?
   AND j.created_at < ?
   AND (? IS NULL OR j.error_code = ?)
   AND (? IS NULL OR INSTR(j.error_message, ?) > 0 OR INSTR(j.error_code, ?) > 0)
   AND (? = 0 OR j.error_at >= ? AND j.error_at < ?)
   AND (? = 0 OR j.state IN ('succeeded','dead','cancelled') AND j.finished_at >= ? AND j.finished_at < ?)
   AND (? = 0 OR j.next_at >= ? AND j.next_at < ?)
 ORDER BY k.job_key LIMIT ?;

-- name: list_all_by_key
(SELECT j.id, j.topic, j.job_key, j.state+0, j.run_at, GREATEST(j.next_at, 1), j.attempt, j.failures,
        j.attempt_status+0, j.due_at, j.dispatched_at, j.finished_at, j.claim_shard, j.no_retries, j.retry,
        j.ack_timeout_ms, j.partition_key, j.headers, j.callback_url, j.content_type, j.payload_binary, j.error_code,
        j.error_message, j.error_at, j.created_at, j.updated_at, j.version
   FROM job_keys k FORCE INDEX (PRIMARY)
   STRAIGHT_JOIN jobs j FORCE INDEX (PRIMARY) ON j.id = k.job_id
  WHERE k.topic = ?
    AND k.job_key >= ?
    AND k.job_key < UNHEX(?)
    AND (? OR k.job_key <> ?)
    AND k.job_key <= COALESCE(?, UNHEX(?))
    AND (? IS NULL OR j.topic = ?)
    AND (? = 0 OR j.state = ?)
    AND j.run_at >= ?
    AND j.run_at < ?
    AND (? IS NULL OR CONVERT(j.topic USING utf8mb4) COLLATE utf8mb4_bin REGEXP CONVERT(? USING utf8mb4))
    AND j.created_at >= ?
    AND j.created_at < ?
    AND (? IS NULL OR j.error_code = ?)
    AND (? IS NULL OR INSTR(j.error_message, ?) > 0 OR INSTR(j.error_code, ?) > 0)
    AND (? = 0 OR j.error_at >= ? AND j.error_at < ?)
    AND (? = 0 OR j.state IN ('succeeded','dead','cancelled') AND j.finished_at >= ? AND j.finished_at < ?)
    AND (? = 0 OR j.next_at >= ? AND j.next_at < ?)
  ORDER BY k.job_key LIMIT ?)
UNION ALL
(SELECT j.id, j.topic, j.job_key, j.state+0, j.run_at, 0, j.attempt, j.failures, j.attempt_status+0, j.due_at,
        j.dispatched_at, j.finished_at, j.claim_shard, j.no_retries, j.retry, j.ack_timeout_ms,
        j.partition_key, j.headers, j.callback_url, j.content_type, j.payload_binary, j.error_code, j.error_message,
        j.error_at, j.created_at, j.updated_at, j.version
   FROM job_keys k FORCE INDEX (PRIMARY)
   STRAIGHT_JOIN history_days d FORCE INDEX (PRIMARY) ON d.home_day = k.job_id DIV 1099511627776
   STRAIGHT_JOIN history j FORCE INDEX (PRIMARY) ON j.id = k.job_id
  WHERE k.topic = ?
    AND k.job_key >= ?
    AND k.job_key < UNHEX(?)
    AND (? OR k.job_key <> ?)
    AND k.job_key <= COALESCE(?, UNHEX(?))
    AND (? IS NULL OR j.topic = ?)
    AND (? = 0 OR j.state = ?)
    AND j.run_at >= ?
    AND j.run_at < ?
    AND (? IS NULL OR CONVERT(j.topic USING utf8mb4) COLLATE utf8mb4_bin REGEXP CONVERT(? USING utf8mb4))
    AND j.created_at >= ?
    AND j.created_at < ?
    AND (? IS NULL OR j.error_code = ?)
    AND (? IS NULL OR INSTR(j.error_message, ?) > 0 OR INSTR(j.error_code, ?) > 0)
    AND (? = 0 OR j.error_at >= ? AND j.error_at < ?)
    AND (? = 0 OR j.state IN ('succeeded','dead','cancelled') AND j.finished_at >= ? AND j.finished_at < ?)
    AND j.part = d.part
    AND j.purge_at > CAST(UNIX_TIMESTAMP(NOW(3))*1000 AS SIGNED)
    AND (SELECT COUNT(*) FROM jobs x WHERE x.id = k.job_id) = 0
  ORDER BY k.job_key LIMIT ?)
ORDER BY 3 LIMIT ?;

-- name: list_live_payloads_by_key
SELECT j.id, j.topic, j.job_key, j.state+0, j.run_at, GREATEST(j.next_at, 1), j.attempt, j.failures,
       j.attempt_status+0, j.due_at, j.dispatched_at, j.finished_at, j.claim_shard, j.no_retries, j.retry,
       j.ack_timeout_ms, j.partition_key, j.headers, j.callback_url, j.content_type, j.payload_binary, j.error_code,
       j.error_message, j.error_at, j.created_at, j.updated_at, j.version, j.payload
  FROM job_keys k FORCE INDEX (PRIMARY)
  STRAIGHT_JOIN jobs j FORCE INDEX (PRIMARY) ON j.id = k.job_id
 WHERE k.topic = ?
   AND k.job_key >= ?
   AND k.job_key < UNHEX(?)
   AND (? OR k.job_key <> ?)
   AND k.job_key <= COALESCE(?, UNHEX(?))
   AND (? IS NULL OR j.topic = ?)
   AND (? = 0 OR j.state = ?)
   AND j.run_at >= ?
   AND j.run_at < ?
   AND (? IS NULL OR CONVERT(j.topic USING utf8mb4) COLLATE utf8mb4_bin REGEXP CONVERT(? USING utf8mb4))
   AND j.created_at >= ?
   AND j.created_at < ?
   AND (? IS NULL OR j.error_code = ?)
   AND (? IS NULL OR INSTR(j.error_message, ?) > 0 OR INSTR(j.error_code, ?) > 0)
   AND (? = 0 OR j.error_at >= ? AND j.error_at < ?)
   AND (? = 0 OR j.state IN ('succeeded','dead','cancelled') AND j.finished_at >= ? AND j.finished_at < ?)
   AND (? = 0 OR j.next_at >= ? AND j.next_at < ?)
 ORDER BY k.job_key LIMIT ?;

-- name: list_all_payloads_by_key
(SELECT j.id, j.topic, j.job_key, j.state+0, j.run_at, GREATEST(j.next_at, 1), j.attempt, j.failures,
        j.attempt_status+0, j.due_at, j.dispatched_at, j.finished_at, j.claim_shard, j.no_retries, j.retry,
        j.ack_timeout_ms, j.partition_key, j.headers, j.callback_url, j.content_type, j.payload_binary, j.error_code,
        j.error_message, j.error_at, j.created_at, j.updated_at, j.version, j.payload
   FROM job_keys k FORCE INDEX (PRIMARY)
   STRAIGHT_JOIN jobs j FORCE INDEX (PRIMARY) ON j.id = k.job_id
  WHERE k.topic = ?
    AND k.job_key >= ?
    AND k.job_key < UNHEX(?)
    AND (? OR k.job_key <> ?)
    AND k.job_key <= COALESCE(?, UNHEX(?))
    AND (? IS NULL OR j.topic = ?)
    AND (? = 0 OR j.state = ?)
    AND j.run_at >= ?
    AND j.run_at < ?
    AND (? IS NULL OR CONVERT(j.topic USING utf8mb4) COLLATE utf8mb4_bin REGEXP CONVERT(? USING utf8mb4))
    AND j.created_at >= ?
    AND j.created_at < ?
    AND (? IS NULL OR j.error_code = ?)
    AND (? IS NULL OR INSTR(j.error_message, ?) > 0 OR INSTR(j.error_code, ?) > 0)
    AND (? = 0 OR j.error_at >= ? AND j.error_at < ?)
    AND (? = 0 OR j.state IN ('succeeded','dead','cancelled') AND j.finished_at >= ? AND j.finished_at < ?)
    AND (? = 0 OR j.next_at >= ? AND j.next_at < ?)
  ORDER BY k.job_key LIMIT ?)
UNION ALL
(SELECT j.id, j.topic, j.job_key, j.state+0, j.run_at, 0, j.attempt, j.failures, j.attempt_status+0, j.due_at,
        j.dispatched_at, j.finished_at, j.claim_shard, j.no_retries, j.retry, j.ack_timeout_ms,
        j.partition_key, j.headers, j.callback_url, j.content_type, j.payload_binary, j.error_code, j.error_message,
        j.error_at, j.created_at, j.updated_at, j.version, j.payload
   FROM job_keys k FORCE INDEX (PRIMARY)
   STRAIGHT_JOIN history_days d FORCE INDEX (PRIMARY) ON d.home_day = k.job_id DIV 1099511627776
   STRAIGHT_JOIN history j FORCE INDEX (PRIMARY) ON j.id = k.job_id
  WHERE k.topic = ?
    AND k.job_key >= ?
    AND k.job_key < UNHEX(?)
    AND (? OR k.job_key <> ?)
    AND k.job_key <= COALESCE(?, UNHEX(?))
    AND (? IS NULL OR j.topic = ?)
    AND (? = 0 OR j.state = ?)
    AND j.run_at >= ?
    AND j.run_at < ?
    AND (? IS NULL OR CONVERT(j.topic USING utf8mb4) COLLATE utf8mb4_bin REGEXP CONVERT(? USING utf8mb4))
    AND j.created_at >= ?
    AND j.created_at < ?
    AND (? IS NULL OR j.error_code = ?)
    AND (? IS NULL OR INSTR(j.error_message, ?) > 0 OR INSTR(j.error_code, ?) > 0)
    AND (? = 0 OR j.error_at >= ? AND j.error_at < ?)
    AND (? = 0 OR j.state IN ('succeeded','dead','cancelled') AND j.finished_at >= ? AND j.finished_at < ?)
    AND j.part = d.part
    AND j.purge_at > CAST(UNIX_TIMESTAMP(NOW(3))*1000 AS SIGNED)
    AND (SELECT COUNT(*) FROM jobs x WHERE x.id = k.job_id) = 0
  ORDER BY k.job_key LIMIT ?)
ORDER BY 3 LIMIT ?;

-- Lists the jobs that have the given due_key and an id above the cursor's, in order of ids, from two bands of the due
-- index. To read only one band, the caller passes it twice. due_key is the last column; the next cursor stores it.
-- name: list_behind_by_due
SELECT j.id, j.topic, j.job_key, j.state+0, j.run_at, GREATEST(j.next_at, 1), j.attempt, j.failures,
       j.attempt_status+0, j.due_at, j.dispatched_at, j.finished_at, j.claim_shard, j.no_retries, j.retry,
       j.ack_timeout_ms, j.partition_key, j.headers, j.callback_url, j.content_type, j.payload_binary, j.error_code,
       j.error_message, j.error_at, j.created_at, j.updated_at, j.version, j.due_key
  FROM jobs j FORCE INDEX (due)
 WHERE j.due_band IN (?,?)
   AND j.due_key = ?
   AND j.id > ?
   AND j.id <= ?
   AND (? IS NULL OR j.topic = ?)
   AND (? = 0 OR j.state = ?)
   AND j.run_at >= ?
   AND j.run_at < ?
   AND (? IS NULL OR CONVERT(j.topic USING utf8mb4) COLLATE utf8mb4_bin REGEXP CONVERT(? USING utf8mb4))
   AND j.created_at >= ?
   AND j.created_at < ?
   AND (? IS NULL OR j.error_code = ?)
   AND (? IS NULL OR INSTR(j.error_message, ?) > 0 OR INSTR(j.error_code, ?) > 0)
   AND (? = 0 OR j.error_at >= ? AND j.error_at < ?)
   AND (? = 0 OR j.state IN ('succeeded','dead','cancelled') AND j.finished_at >= ? AND j.finished_at < ?)
   AND (? = 0 OR j.next_at >= ? AND j.next_at < ?)
 ORDER BY j.id LIMIT ?;

-- name: list_between_by_due
SELECT j.id, j.topic, j.job_key, j.state+0, j.run_at, GREATEST(j.next_at, 1), j.attempt, j.failures,
       j.attempt_status+0, j.due_at, j.dispatched_at, j.finished_at, j.claim_shard, j.no_retries, j.retry,
       j.ack_timeout_ms, j.partition_key, j.headers, j.callback_url, j.content_type, j.payload_binary, j.error_code,
       j.error_message, j.error_at, j.created_at, j.updated_at, j.version, j.due_key
  FROM jobs j FORCE INDEX (due)
 WHERE j.due_band IN (?,?)
   AND j.due_key > ?
   AND j.due_key < ?
   AND (? IS NULL OR j.topic = ?)
   AND (? = 0 OR j.state = ?)
   AND j.run_at >= ?
   AND j.run_at < ?
   AND (? IS NULL OR CONVERT(j.topic USING utf8mb4) COLLATE utf8mb4_bin REGEXP CONVERT(? USING utf8mb4))
   AND j.created_at >= ?
   AND j.created_at < ?
   AND (? IS NULL OR j.error_code = ?)
   AND (? IS NULL OR INSTR(j.error_message, ?) > 0 OR INSTR(j.error_code, ?) > 0)
   AND (? = 0 OR j.error_at >= ? AND j.error_at < ?)
   AND (? = 0 OR j.state IN ('succeeded','dead','cancelled') AND j.finished_at >= ? AND j.finished_at < ?)
   AND (? = 0 OR j.next_at >= ? AND j.next_at < ?)
 ORDER BY j.due_key, j.id LIMIT ?;

-- name: list_archived_by_id
SELECT j.id, j.topic, j.job_key, j.state+0, j.run_at, 0, j.attempt, j.failures,
       j.attempt_status+0, j.due_at, j.dispatched_at, j.finished_at, j.claim_shard, j.no_retries, j.retry,
       j.ack_timeout_ms, j.partition_key, j.headers, j.callback_url, j.content_type, j.payload_binary, j.error_code,
       j.error_message, j.error_at, j.created_at, j.updated_at, j.version, 0
  FROM history j FORCE INDEX (PRIMARY)
 WHERE j.id > ?
   AND j.id <= ?
   AND (? IS NULL OR j.topic = ?)
   AND (? = 0 OR j.state = ?)
   AND j.run_at >= ?
   AND j.run_at < ?
   AND (? IS NULL OR CONVERT(j.topic USING utf8mb4) COLLATE utf8mb4_bin REGEXP CONVERT(? USING utf8mb4))
   AND j.created_at >= ?
   AND j.created_at < ?
   AND (? IS NULL OR j.error_code = ?)
   AND (? IS NULL OR INSTR(j.error_message, ?) > 0 OR INSTR(j.error_code, ?) > 0)
   AND (? = 0 OR j.error_at >= ? AND j.error_at < ?)
   AND (? = 0 OR j.state IN ('succeeded','dead','cancelled') AND j.finished_at >= ? AND j.finished_at < ?)
   AND j.purge_at > CAST(UNIX_TIMESTAMP(NOW(3))*1000 AS SIGNED)
 ORDER BY j.id LIMIT ?;

-- Lists dead jobs in history by time of death. The last column is that time, which the next cursor stores.
-- name: list_archived_dead
SELECT j.id, j.topic, j.job_key, j.state+0, j.run_at, 0, j.attempt, j.failures,
       j.attempt_status+0, j.due_at, j.dispatched_at, j.finished_at, j.claim_shard, j.no_retries, j.retry,
       j.ack_timeout_ms, j.partition_key, j.headers, j.callback_url, j.content_type, j.payload_binary, j.error_code,
       j.error_message, j.error_at, j.created_at, j.updated_at, j.version, j.died_at
  FROM history j FORCE INDEX (dead)
 WHERE (j.died_at > ? OR j.died_at = ? AND j.id > ?)
   AND (j.died_at < ? OR j.died_at = ? AND j.id <= ?)
   AND (? IS NULL OR j.topic = ?)
   AND (? = 0 OR j.state = ?)
   AND j.run_at >= ?
   AND j.run_at < ?
   AND (? IS NULL OR CONVERT(j.topic USING utf8mb4) COLLATE utf8mb4_bin REGEXP CONVERT(? USING utf8mb4))
   AND j.created_at >= ?
   AND j.created_at < ?
   AND (? IS NULL OR j.error_code = ?)
   AND (? IS NULL OR INSTR(j.error_message, ?) > 0 OR INSTR(j.error_code, ?) > 0)
   AND (? = 0 OR j.error_at >= ? AND j.error_at < ?)
   AND (? = 0 OR j.state IN ('succeeded','dead','cancelled') AND j.finished_at >= ? AND j.finished_at < ?)
   AND j.purge_at > CAST(UNIX_TIMESTAMP(NOW(3))*1000 AS SIGNED)
 ORDER BY j.died_at, j.id LIMIT ?;

-- Lists the jobs of list_behind_by_due, with payloads: jobs with the given due_key and an id above the cursor's.
-- name: list_payloads_behind_by_due
SELECT j.id, j.topic, j.job_key, j.state+0, j.run_at, GREATEST(j.next_at, 1), j.attempt, j.failures,
       j.attempt_status+0, j.due_at, j.dispatched_at, j.finished_at, j.claim_shard, j.no_retries, j.retry,
       j.ack_timeout_ms, j.partition_key, j.headers, j.callback_url, j.content_type, j.payload_binary, j.error_code,
       j.error_message, j.error_at, j.created_at, j.updated_at, j.version, j.payload, j.due_key
  FROM jobs j FORCE INDEX (due)
 WHERE j.due_band IN (?,?)
   AND j.due_key = ?
   AND j.id > ?
   AND j.id <= ?
   AND (? IS NULL OR j.topic = ?)
   AND (? = 0 OR j.state = ?)
   AND j.run_at >= ?
   AND j.run_at < ?
   AND (? IS NULL OR CONVERT(j.topic USING utf8mb4) COLLATE utf8mb4_bin REGEXP CONVERT(? USING utf8mb4))
   AND j.created_at >= ?
   AND j.created_at < ?
   AND (? IS NULL OR j.error_code = ?)
   AND (? IS NULL OR INSTR(j.error_message, ?) > 0 OR INSTR(j.error_code, ?) > 0)
   AND (? = 0 OR j.error_at >= ? AND j.error_at < ?)
   AND (? = 0 OR j.state IN ('succeeded','dead','cancelled') AND j.finished_at >= ? AND j.finished_at < ?)
   AND (? = 0 OR j.next_at >= ? AND j.next_at < ?)
 ORDER BY j.id LIMIT ?;

-- name: list_payloads_between_by_due
SELECT j.id, j.topic, j.job_key, j.state+0, j.run_at, GREATEST(j.next_at, 1), j.attempt, j.failures,
       j.attempt_status+0, j.due_at, j.dispatched_at, j.finished_at, j.claim_shard, j.no_retries, j.retry,
       j.ack_timeout_ms, j.partition_key, j.headers, j.callback_url, j.content_type, j.payload_binary, j.error_code,
       j.error_message, j.error_at, j.created_at, j.updated_at, j.version, j.payload, j.due_key
  FROM jobs j FORCE INDEX (due)
 WHERE j.due_band IN (?,?)
   AND j.due_key > ?
   AND j.due_key < ?
   AND (? IS NULL OR j.topic = ?)
   AND (? = 0 OR j.state = ?)
   AND j.run_at >= ?
   AND j.run_at < ?
   AND (? IS NULL OR CONVERT(j.topic USING utf8mb4) COLLATE utf8mb4_bin REGEXP CONVERT(? USING utf8mb4))
   AND j.created_at >= ?
   AND j.created_at < ?
   AND (? IS NULL OR j.error_code = ?)
   AND (? IS NULL OR INSTR(j.error_message, ?) > 0 OR INSTR(j.error_code, ?) > 0)
   AND (? = 0 OR j.error_at >= ? AND j.error_at < ?)
   AND (? = 0 OR j.state IN ('succeeded','dead','cancelled') AND j.finished_at >= ? AND j.finished_at < ?)
   AND (? = 0 OR j.next_at >= ? AND j.next_at < ?)
 ORDER BY j.due_key, j.id LIMIT ?;

-- name: list_payloads_archived_by_id
SELECT j.id, j.topic, j.job_key, j.state+0, j.run_at, 0, j.attempt, j.failures,
       j.attempt_status+0, j.due_at, j.dispatched_at, j.finished_at, j.claim_shard, j.no_retries, j.retry,
       j.ack_timeout_ms, j.partition_key, j.headers, j.callback_url, j.content_type, j.payload_binary, j.error_code,
       j.error_message, j.error_at, j.created_at, j.updated_at, j.version, j.payload, 0
  FROM history j FORCE INDEX (PRIMARY)
 WHERE j.id > ?
   AND j.id <= ?
   AND (? IS NULL OR j.topic = ?)
   AND (? = 0 OR j.state = ?)
   AND j.run_at >= ?
   AND j.run_at < ?
   AND (? IS NULL OR CONVERT(j.topic USING utf8mb4) COLLATE utf8mb4_bin REGEXP CONVERT(? USING utf8mb4))
   AND j.created_at >= ?
   AND j.created_at < ?
   AND (? IS NULL OR j.error_code = ?)
   AND (? IS NULL OR INSTR(j.error_message, ?) > 0 OR INSTR(j.error_code, ?) > 0)
   AND (? = 0 OR j.error_at >= ? AND j.error_at < ?)
   AND (? = 0 OR j.state IN ('succeeded','dead','cancelled') AND j.finished_at >= ? AND j.finished_at < ?)
   AND j.purge_at > CAST(UNIX_TIMESTAMP(NOW(3))*1000 AS SIGNED)
 ORDER BY j.id LIMIT ?;

-- name: list_payloads_archived_dead
SELECT j.id, j.topic, j.job_key, j.state+0, j.run_at, 0, j.attempt, j.failures,
       j.attempt_status+0, j.due_at, j.dispatched_at, j.finished_at, j.claim_shard, j.no_retries, j.retry,
       j.ack_timeout_ms, j.partition_key, j.headers, j.callback_url, j.content_type, j.payload_binary, j.error_code,
       j.error_message, j.error_at, j.created_at, j.updated_at, j.version, j.payload, j.died_at
  FROM history j FORCE INDEX (dead)
 WHERE (j.died_at > ? OR j.died_at = ? AND j.id > ?)
   AND (j.died_at < ? OR j.died_at = ? AND j.id <= ?)
   AND (? IS NULL OR j.topic = ?)
   AND (? = 0 OR j.state = ?)
   AND j.run_at >= ?
   AND j.run_at < ?
   AND (? IS NULL OR CONVERT(j.topic USING utf8mb4) COLLATE utf8mb4_bin REGEXP CONVERT(? USING utf8mb4))
   AND j.created_at >= ?
   AND j.created_at < ?
   AND (? IS NULL OR j.error_code = ?)
   AND (? IS NULL OR INSTR(j.error_message, ?) > 0 OR INSTR(j.error_code, ?) > 0)
   AND (? = 0 OR j.error_at >= ? AND j.error_at < ?)
   AND (? = 0 OR j.state IN ('succeeded','dead','cancelled') AND j.finished_at >= ? AND j.finished_at < ?)
   AND j.purge_at > CAST(UNIX_TIMESTAMP(NOW(3))*1000 AS SIGNED)
 ORDER BY j.died_at, j.id LIMIT ?;
