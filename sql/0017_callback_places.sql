-- Callbacks that wait for a place say so.

ALTER TABLE shard_stats
  ADD COLUMN callbacks VARBINARY(20) NULL COMMENT 'why due callbacks wait here: full (all places of the dispatcher are taken), off (callbacks.enabled is false), or NULL';

-- As before, with the callbacks that wait. v_jobs is made of it.
CREATE OR REPLACE SQL SECURITY INVOKER VIEW v_live AS
SELECT
  j.id,
  j.topic,
  j.job_key,
  j.state,
  CASE
    WHEN j.state = 'dispatched' THEN IF(INSTR(s.inflight, CONCAT('[', j.id, ',')) > 0, 'kafka', 'ack')
    WHEN j.state <> 'scheduled' THEN NULL
    WHEN j.next_at > TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000 THEN 'time'
    WHEN t.paused THEN 'paused'
    WHEN t.name IS NULL THEN 'kafka' -- nobody can say where it goes
    WHEN t.max_in_flight <= (SELECT SUM(c.dispatched) FROM job_counts c FORCE INDEX (PRIMARY) WHERE c.topic = t.name) THEN 'limit'
    WHEN t.rate_limit IS NOT NULL AND EXISTS (
      SELECT 1 FROM topic_gates g FORCE INDEX (PRIMARY) WHERE g.topic = t.name -- the burst of nine tenths of a second is used up
        AND g.next_ns > TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000 * 1000000 + GREATEST(900000000 - g.interval_ns, 0))
      THEN 'limit'
    WHEN t.delivery = 'pull' THEN 'pop'
    WHEN t.delivery = 'http' AND EXISTS ( -- which shard the job is of only the programs know, and dt_explain
      SELECT 1 FROM shard_stats x WHERE x.callbacks IS NOT NULL
        AND x.seen_at > TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000 - 5000)
      THEN 'limit'
    ELSE 'leader'
  END AS waiting_for,
  CAST('1970-01-01' + INTERVAL (LEAST(GREATEST(j.run_at, -30610224000000), 253402300799999) * 1000) MICROSECOND AS DATETIME(3)) AS run_at,
  CAST('1970-01-01' + INTERVAL (LEAST(GREATEST(j.next_at, -30610224000000), 253402300799999) * 1000) MICROSECOND AS DATETIME(3)) AS next_at,
  IF(j.state IN ('scheduled','dispatched'),
     IF(j.next_at > 0, GREATEST(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000 - j.next_at, 0), 0), NULL) AS overdue_ms,
  j.attempt,
  IF(TRIM(j.retry) = '', 1, 2 + LENGTH(TRIM(j.retry)) - LENGTH(REPLACE(TRIM(j.retry), ' ', ''))) AS max_attempts,
  j.failures,
  NULLIF(CAST(j.attempt_status AS CHAR), 'none') AS attempt_status,
  CAST('1970-01-01' + INTERVAL (LEAST(GREATEST(NULLIF(j.due_at, 0), -30610224000000), 253402300799999) * 1000) MICROSECOND AS DATETIME(3)) AS due_at,
  CAST('1970-01-01' + INTERVAL (LEAST(GREATEST(NULLIF(j.dispatched_at, 0), -30610224000000), 253402300799999) * 1000) MICROSECOND AS DATETIME(3)) AS dispatched_at,
  LEAST(GREATEST(NULLIF(j.dispatched_at, 0), 0), 253402300799999) - LEAST(GREATEST(NULLIF(j.due_at, 0), 0), 253402300799999) AS lateness_ms,
  CAST('1970-01-01' + INTERVAL (LEAST(GREATEST(NULLIF(j.finished_at, 0), -30610224000000), 253402300799999) * 1000) MICROSECOND AS DATETIME(3)) AS finished_at,
  j.error_code,
  j.error_message,
  CAST('1970-01-01' + INTERVAL (LEAST(GREATEST(j.error_at, -30610224000000), 253402300799999) * 1000) MICROSECOND AS DATETIME(3)) AS error_at,
  j.retry,
  j.ack_timeout_ms,
  j.no_retries,
  j.partition_key,
  j.content_type,
  j.headers,
  j.callback_url,
  j.payload,
  CRC32(j.id) % 1024 AS slot,
  NULLIF(j.claim_shard, -1) AS claim_shard,
  CAST('1970-01-01' + INTERVAL (LEAST(GREATEST(j.purge_at, -30610224000000), 253402300799999) * 1000) MICROSECOND AS DATETIME(3)) AS purge_at,
  CAST('1970-01-01' + INTERVAL (LEAST(GREATEST(j.created_at, -30610224000000), 253402300799999) * 1000) MICROSECOND AS DATETIME(3)) AS created_at,
  CAST('1970-01-01' + INTERVAL (LEAST(GREATEST(j.updated_at, -30610224000000), 253402300799999) * 1000) MICROSECOND AS DATETIME(3)) AS updated_at,
  j.version
FROM jobs j
LEFT JOIN topics t ON t.name = j.topic
LEFT JOIN shards s ON s.shard = j.claim_shard;

DELIMITER $$

-- As before, with callbacks that wait.
DROP PROCEDURE IF EXISTS dt_explain$$
CREATE PROCEDURE dt_explain(IN p_id BIGINT)
  READS SQL DATA
  SQL SECURITY INVOKER
  COMMENT 'why a job is where it is'
BEGIN
  DECLARE v_found, v_shards, v_bucket, v_next, v_hash, v_now BIGINT DEFAULT 0;
  DECLARE v_key DECIMAL(60, 0) DEFAULT 0;

  -- the job's shard: jump consistent hash of its slot over the number of shards, in 64 bits
  SELECT COALESCE(MAX(i.shards), 0) INTO v_shards FROM installation i;
  SET v_key = CRC32(p_id) % 1024;
  WHILE v_next < v_shards DO
    SET v_bucket = v_next;
    SET v_key = (v_key * 2862933555777941757 + 1) % 18446744073709551616;
    SET v_hash = FLOOR(v_key / 8589934592);
    SET v_next = FLOOR((v_bucket + 1) * (2147483648e0 / (v_hash + 1e0)));
  END WHILE;

  SET v_now = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000;
  SELECT COUNT(*) INTO v_found FROM jobs j WHERE j.id = p_id;
  IF v_found = 0 THEN
    SELECT COUNT(*) INTO v_found FROM history h WHERE h.id = p_id AND h.purge_at > v_now;
  END IF;
  IF v_found = 0 THEN
    SELECT 'state' AS what, CONCAT('no job ', p_id, ': never made, or removed after its retention') AS value;
  ELSE
    -- every value is converted, so that all of the UNION has one collation
    SELECT w.what, w.value FROM (
      SELECT 1 AS n, 'state' AS what, CONVERT(CONCAT(v.state, CASE
          WHEN v.waiting_for = 'time' THEN CONCAT(': due in ', -TIMESTAMPDIFF(SECOND, v.next_at, UTC_TIMESTAMP(3)), ' s')
          WHEN v.waiting_for = 'paused' THEN ': due, but its topic is paused'
          WHEN v.state = 'scheduled' AND v.waiting_for = 'kafka' THEN ': due, but its topic has no row in `topics`'
          WHEN v.waiting_for = 'limit' AND p.max_in_flight <= p.in_flight
            THEN CONCAT(': due, but ', p.in_flight, ' attempts of its topic are in flight, of at most ', p.max_in_flight, ' (max_in_flight)')
          WHEN v.waiting_for = 'limit' AND h.name IS NOT NULL AND x.callbacks = 'off'
            THEN ': due, but callbacks are not enabled in its shard''s dispatcher (callbacks.enabled)'
          WHEN v.waiting_for = 'limit' AND h.name IS NOT NULL AND x.callbacks = 'full'
            THEN ': due; the places for callbacks are taken (callbacks.max_in_flight, per_host, max_bytes)'
          WHEN v.waiting_for = 'limit' AND p.rate_limit IS NULL
            THEN ': due; its shard''s leader picks it up next, or has a backlog before it'
          WHEN v.waiting_for = 'limit' THEN CONCAT(': due, but its topic''s rate_limit of ', p.rate_limit, ' is used up')
          WHEN v.waiting_for = 'pop' THEN ': due, and nobody has popped it yet'
          WHEN v.waiting_for = 'leader' AND s.halted IS NOT NULL THEN ': due, but its shard is halted (dt_clear_halt)'
          WHEN v.waiting_for = 'leader' AND s.owner IS NULL THEN ': due, but nobody leads its shard'
          WHEN v.waiting_for = 'leader' AND (x.seen_at IS NULL OR x.seen_at < v_now - 15000)
            THEN ': due, but its shard''s leader has not been heard of for 15 s'
          WHEN v.waiting_for = 'leader' AND x.waiting IS NOT NULL
            THEN CONCAT(': due; its shard''s leader waits for ', x.waiting, COALESCE(CONCAT(' (', x.detail, ')'), ''))
          WHEN v.waiting_for = 'leader' THEN ': due; its shard''s leader picks it up next, or has a backlog before it'
          WHEN v.waiting_for = 'kafka' AND c.halted IS NOT NULL
            THEN CONCAT(': attempt ', v.attempt, ' is claimed, but shard ', v.claim_shard, ' is halted (dt_clear_halt)')
          WHEN v.waiting_for = 'kafka' THEN CONCAT(': attempt ', v.attempt, ' is claimed and on its way to Kafka')
          WHEN v.waiting_for = 'ack' AND v.no_retries THEN CONCAT(': attempt ', v.attempt,
            ' waits for its result; no attempt follows, it was cancelled')
          WHEN v.waiting_for = 'ack' THEN CONCAT(': attempt ', v.attempt, ' waits for its result')
          ELSE '' END) USING utf8mb4) AS value
        FROM v_jobs v LEFT JOIN v_shards s ON s.shard = v_bucket LEFT JOIN shard_stats x ON x.shard = v_bucket
          LEFT JOIN shards c ON c.shard = v.claim_shard
          LEFT JOIN (SELECT t.name, t.max_in_flight, t.rate_limit,
                            (SELECT SUM(n.dispatched) FROM job_counts n FORCE INDEX (PRIMARY) WHERE n.topic = t.name) AS in_flight
                       FROM topics t) p ON p.name = v.topic
          LEFT JOIN topics h ON h.name = v.topic AND h.delivery = 'http'
        WHERE v.id = p_id
      UNION ALL SELECT 2, 'topic', CONVERT(v.topic USING utf8mb4) FROM v_jobs v WHERE v.id = p_id
      UNION ALL SELECT 3, 'key', CONVERT(CASE
          WHEN v.job_key IS NULL THEN NULL
          WHEN k.job_id = v.id THEN v.job_key
          WHEN k.job_id IS NULL AND v.next_at IS NULL THEN CONCAT(v.job_key, ' (free again)')
          WHEN k.job_id IS NULL THEN CONCAT(v.job_key, ' (not in job_keys)')
          ELSE CONCAT(v.job_key, ' (moved on to job ', k.job_id, ')') END USING utf8mb4)
        FROM v_jobs v LEFT JOIN job_keys k ON k.topic = v.topic AND k.job_key = v.job_key WHERE v.id = p_id
      UNION ALL SELECT 4, 'run_at', CONVERT(v.run_at USING utf8mb4) FROM v_jobs v WHERE v.id = p_id
      UNION ALL SELECT 5, 'next_at',
          CONVERT(CONCAT(v.next_at, IF(v.state = 'dispatched', ' (deadline of its result)', '')) USING utf8mb4)
        FROM v_jobs v WHERE v.id = p_id
      UNION ALL SELECT 6, 'attempts',
          CONVERT(CONCAT(v.attempt, ' so far; ', v.failures, ' failures of at most ', v.max_attempts) USING utf8mb4)
        FROM v_jobs v WHERE v.id = p_id
      UNION ALL SELECT 7, 'latest attempt', CONVERT(CONCAT(v.attempt_status, ', dispatched at ', v.dispatched_at,
          ', late by ', v.lateness_ms, ' ms') USING utf8mb4) FROM v_jobs v WHERE v.id = p_id
      UNION ALL SELECT 8, 'last error', CONVERT(CONCAT(v.error_at, ' ', COALESCE(v.error_code, '(no code)'),
          COALESCE(CONCAT(': ', v.error_message), '')) USING utf8mb4) FROM v_jobs v WHERE v.id = p_id
      UNION ALL SELECT 9, 'retry',
          CONVERT(CONCAT(IF(v.retry = '', 'none', v.retry), '; result expected within ', v.ack_timeout_ms, ' ms') USING utf8mb4)
        FROM v_jobs v WHERE v.id = p_id
      UNION ALL SELECT 10, 'callback',
          CONVERT(COALESCE(v.callback_url, CONCAT(t.callback_url, ' (its topic''s)'), 'no URL: its attempts fail') USING utf8mb4)
        FROM v_jobs v JOIN topics t ON t.name = v.topic AND t.delivery = 'http' WHERE v.id = p_id
      UNION ALL SELECT 11, 'shard', CONVERT(CONCAT(v_bucket, ' (slot ', v.slot, '), led by ',
          COALESCE((SELECT s.owner FROM v_shards s WHERE s.shard = v_bucket), 'nobody'),
          COALESCE(CONCAT('; latest attempt claimed by shard ', v.claim_shard), '')) USING utf8mb4)
        FROM v_jobs v WHERE v.id = p_id
      UNION ALL SELECT 12, 'removed at', CONVERT(v.purge_at USING utf8mb4)
        FROM v_jobs v WHERE v.id = p_id AND v.next_at IS NULL
      UNION ALL SELECT 13, 'kept in', CONVERT(CONCAT('history, partition ', h.part) USING utf8mb4)
        FROM history h WHERE h.id = p_id
      UNION ALL SELECT 14, 'created, changed',
          CONVERT(CONCAT(v.created_at, ', ', v.updated_at, ', version ', v.version) USING utf8mb4)
        FROM v_jobs v WHERE v.id = p_id
    ) w WHERE w.value IS NOT NULL ORDER BY w.n;
  END IF;
END$$

DELIMITER ;
