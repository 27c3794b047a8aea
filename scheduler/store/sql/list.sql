-- Pages of jobs, by id or by key. `all`: history, too; `payloads`: with the payload. Indexes are named, because the optimizer was
-- seen to choose others.

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

-- name: list_live_by_id
SELECT j.id, j.topic, j.job_key, j.state+0, j.run_at, GREATEST(j.next_at, 1), j.attempt, j.failures,
       j.attempt_status+0, j.due_at, j.dispatched_at, j.finished_at, j.claim_shard, j.no_retries, j.retry,
       j.ack_timeout_ms, j.partition_key, j.headers, j.content_type, j.payload_binary, j.error_code,
       j.error_message, j.error_at, j.created_at, j.updated_at, j.version
  FROM jobs j FORCE INDEX (PRIMARY)
 WHERE j.id > ?
   AND j.id <= ?
   AND (? IS NULL OR j.topic = ?)
   AND (? = 0 OR j.state = ?)
   AND j.run_at >= ?
   AND j.run_at < ?
   AND (? IS NULL OR CONVERT(j.topic USING utf8mb4) COLLATE utf8mb4_bin REGEXP CONVERT(? USING utf8mb4))
 ORDER BY j.id LIMIT ?;

-- name: list_all_by_id
(SELECT j.id, j.topic, j.job_key, j.state+0, j.run_at, GREATEST(j.next_at, 1), j.attempt, j.failures,
        j.attempt_status+0, j.due_at, j.dispatched_at, j.finished_at, j.claim_shard, j.no_retries, j.retry,
        j.ack_timeout_ms, j.partition_key, j.headers, j.content_type, j.payload_binary, j.error_code,
        j.error_message, j.error_at, j.created_at, j.updated_at, j.version
   FROM jobs j FORCE INDEX (PRIMARY)
  WHERE j.id > ?
    AND j.id <= ?
    AND (? IS NULL OR j.topic = ?)
    AND (? = 0 OR j.state = ?)
    AND j.run_at >= ?
    AND j.run_at < ?
    AND (? IS NULL OR CONVERT(j.topic USING utf8mb4) COLLATE utf8mb4_bin REGEXP CONVERT(? USING utf8mb4))
  ORDER BY j.id LIMIT ?)
UNION ALL
(SELECT j.id, j.topic, j.job_key, j.state+0, j.run_at, 0, j.attempt, j.failures, j.attempt_status+0, j.due_at,
        j.dispatched_at, j.finished_at, j.claim_shard, j.no_retries, j.retry, j.ack_timeout_ms,
        j.partition_key, j.headers, j.content_type, j.payload_binary, j.error_code, j.error_message,
        j.error_at, j.created_at, j.updated_at, j.version
   FROM history j FORCE INDEX (PRIMARY)
  WHERE j.id > ?
    AND j.id <= ?
    AND (? IS NULL OR j.topic = ?)
    AND (? = 0 OR j.state = ?)
    AND j.run_at >= ?
    AND j.run_at < ?
    AND (? IS NULL OR CONVERT(j.topic USING utf8mb4) COLLATE utf8mb4_bin REGEXP CONVERT(? USING utf8mb4))
    AND j.purge_at > CAST(UNIX_TIMESTAMP(NOW(3))*1000 AS SIGNED)
  ORDER BY j.id LIMIT ?)
ORDER BY 1 LIMIT ?;

-- name: list_live_payloads_by_id
SELECT j.id, j.topic, j.job_key, j.state+0, j.run_at, GREATEST(j.next_at, 1), j.attempt, j.failures,
       j.attempt_status+0, j.due_at, j.dispatched_at, j.finished_at, j.claim_shard, j.no_retries, j.retry,
       j.ack_timeout_ms, j.partition_key, j.headers, j.content_type, j.payload_binary, j.error_code,
       j.error_message, j.error_at, j.created_at, j.updated_at, j.version, j.payload
  FROM jobs j FORCE INDEX (PRIMARY)
 WHERE j.id > ?
   AND j.id <= ?
   AND (? IS NULL OR j.topic = ?)
   AND (? = 0 OR j.state = ?)
   AND j.run_at >= ?
   AND j.run_at < ?
   AND (? IS NULL OR CONVERT(j.topic USING utf8mb4) COLLATE utf8mb4_bin REGEXP CONVERT(? USING utf8mb4))
 ORDER BY j.id LIMIT ?;

-- name: list_all_payloads_by_id
(SELECT j.id, j.topic, j.job_key, j.state+0, j.run_at, GREATEST(j.next_at, 1), j.attempt, j.failures,
        j.attempt_status+0, j.due_at, j.dispatched_at, j.finished_at, j.claim_shard, j.no_retries, j.retry,
        j.ack_timeout_ms, j.partition_key, j.headers, j.content_type, j.payload_binary, j.error_code,
        j.error_message, j.error_at, j.created_at, j.updated_at, j.version, j.payload
   FROM jobs j FORCE INDEX (PRIMARY)
  WHERE j.id > ?
    AND j.id <= ?
    AND (? IS NULL OR j.topic = ?)
    AND (? = 0 OR j.state = ?)
    AND j.run_at >= ?
    AND j.run_at < ?
    AND (? IS NULL OR CONVERT(j.topic USING utf8mb4) COLLATE utf8mb4_bin REGEXP CONVERT(? USING utf8mb4))
  ORDER BY j.id LIMIT ?)
UNION ALL
(SELECT j.id, j.topic, j.job_key, j.state+0, j.run_at, 0, j.attempt, j.failures, j.attempt_status+0, j.due_at,
        j.dispatched_at, j.finished_at, j.claim_shard, j.no_retries, j.retry, j.ack_timeout_ms,
        j.partition_key, j.headers, j.content_type, j.payload_binary, j.error_code, j.error_message,
        j.error_at, j.created_at, j.updated_at, j.version, j.payload
   FROM history j FORCE INDEX (PRIMARY)
  WHERE j.id > ?
    AND j.id <= ?
    AND (? IS NULL OR j.topic = ?)
    AND (? = 0 OR j.state = ?)
    AND j.run_at >= ?
    AND j.run_at < ?
    AND (? IS NULL OR CONVERT(j.topic USING utf8mb4) COLLATE utf8mb4_bin REGEXP CONVERT(? USING utf8mb4))
    AND j.purge_at > CAST(UNIX_TIMESTAMP(NOW(3))*1000 AS SIGNED)
  ORDER BY j.id LIMIT ?)
ORDER BY 1 LIMIT ?;

-- name: list_live_by_key
SELECT j.id, j.topic, j.job_key, j.state+0, j.run_at, GREATEST(j.next_at, 1), j.attempt, j.failures,
       j.attempt_status+0, j.due_at, j.dispatched_at, j.finished_at, j.claim_shard, j.no_retries, j.retry,
       j.ack_timeout_ms, j.partition_key, j.headers, j.content_type, j.payload_binary, j.error_code,
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
 ORDER BY k.job_key LIMIT ?;

-- name: list_all_by_key
(SELECT j.id, j.topic, j.job_key, j.state+0, j.run_at, GREATEST(j.next_at, 1), j.attempt, j.failures,
        j.attempt_status+0, j.due_at, j.dispatched_at, j.finished_at, j.claim_shard, j.no_retries, j.retry,
        j.ack_timeout_ms, j.partition_key, j.headers, j.content_type, j.payload_binary, j.error_code,
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
  ORDER BY k.job_key LIMIT ?)
UNION ALL
(SELECT j.id, j.topic, j.job_key, j.state+0, j.run_at, 0, j.attempt, j.failures, j.attempt_status+0, j.due_at,
        j.dispatched_at, j.finished_at, j.claim_shard, j.no_retries, j.retry, j.ack_timeout_ms,
        j.partition_key, j.headers, j.content_type, j.payload_binary, j.error_code, j.error_message,
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
    AND j.part = d.part
    AND j.purge_at > CAST(UNIX_TIMESTAMP(NOW(3))*1000 AS SIGNED)
    AND (SELECT COUNT(*) FROM jobs x WHERE x.id = k.job_id) = 0
  ORDER BY k.job_key LIMIT ?)
ORDER BY 3 LIMIT ?;

-- name: list_live_payloads_by_key
SELECT j.id, j.topic, j.job_key, j.state+0, j.run_at, GREATEST(j.next_at, 1), j.attempt, j.failures,
       j.attempt_status+0, j.due_at, j.dispatched_at, j.finished_at, j.claim_shard, j.no_retries, j.retry,
       j.ack_timeout_ms, j.partition_key, j.headers, j.content_type, j.payload_binary, j.error_code,
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
 ORDER BY k.job_key LIMIT ?;

-- name: list_all_payloads_by_key
(SELECT j.id, j.topic, j.job_key, j.state+0, j.run_at, GREATEST(j.next_at, 1), j.attempt, j.failures,
        j.attempt_status+0, j.due_at, j.dispatched_at, j.finished_at, j.claim_shard, j.no_retries, j.retry,
        j.ack_timeout_ms, j.partition_key, j.headers, j.content_type, j.payload_binary, j.error_code,
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
  ORDER BY k.job_key LIMIT ?)
UNION ALL
(SELECT j.id, j.topic, j.job_key, j.state+0, j.run_at, 0, j.attempt, j.failures, j.attempt_status+0, j.due_at,
        j.dispatched_at, j.finished_at, j.claim_shard, j.no_retries, j.retry, j.ack_timeout_ms,
        j.partition_key, j.headers, j.content_type, j.payload_binary, j.error_code, j.error_message,
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
    AND j.part = d.part
    AND j.purge_at > CAST(UNIX_TIMESTAMP(NOW(3))*1000 AS SIGNED)
    AND (SELECT COUNT(*) FROM jobs x WHERE x.id = k.job_id) = 0
  ORDER BY k.job_key LIMIT ?)
ORDER BY 3 LIMIT ?;
