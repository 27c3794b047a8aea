-- Everything that affects one job, as rows (what, value). The first row says what the job waits for.
DROP PROCEDURE IF EXISTS dt_explain;

DELIMITER $$
CREATE PROCEDURE dt_explain(IN p_id BIGINT)
  READS SQL DATA
  SQL SECURITY INVOKER
  COMMENT 'why a job is where it is'
BEGIN
  DECLARE v_found, v_shards, v_bucket, v_next, v_hash, v_now BIGINT DEFAULT 0;
  DECLARE v_key DECIMAL(60, 0) DEFAULT 0;

  -- Computes the job's shard: jump consistent hash of the job's slot over the number of shards, in 64 bits.
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
    -- each value is converted, so that all rows of the UNION have the same collation
    SELECT w.what, w.value FROM (
      SELECT 1 AS n, 'state' AS what, CONVERT(CONCAT(v.state, CASE
          WHEN v.waiting_for = 'time' THEN CONCAT(': due in ', -TIMESTAMPDIFF(SECOND, v.next_at, UTC_TIMESTAMP(3)), ' s')
          WHEN v.waiting_for = 'paused' THEN ': due, but its topic is paused'
          WHEN v.state = 'scheduled' AND v.waiting_for = 'kafka' AND p.name IS NULL THEN ': due, but its topic has no row in `topics`'
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
          WHEN v.state = 'scheduled' AND v.waiting_for IN ('leader', 'kafka')
            THEN CASE IF(h.name IS NOT NULL AND s.waiting = 'kafka', 'ok', s.health) -- callbacks do not wait for Kafka
              WHEN 'halted' THEN ': due, but its shard is halted (dt_clear_halt)'
              WHEN 'no-dispatcher' THEN ': due, but no dispatcher runs, so its shard has no leader'
              WHEN 'no-leader' THEN ': due, but its shard has no leader, though dispatchers run'
              WHEN 'silent' THEN ': due, but its shard''s leader has not been heard of for 15 s'
              WHEN 'waiting' THEN CONCAT(': due; its shard waits for ', COALESCE(s.waiting, 'kafka'), COALESCE(CONCAT(' (', s.detail, ')'), ''))
              ELSE ': due; its shard''s leader picks it up next, or has a backlog before it' END
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
                            (SELECT SUM(n.dispatched) FROM job_counts n FORCE INDEX (PRIMARY) WHERE n.topic = t.name)
                              - (SELECT COUNT(*) -- attempts that a manual edit ended, and that are still counted
                                   FROM (SELECT topic, attempt_status FROM jobs FORCE INDEX (due)
                                          WHERE due_band = 2 AND due_key = 0 LIMIT 1000) e
                                  WHERE e.topic = t.name AND e.attempt_status = 'dispatched') AS in_flight
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
      UNION ALL SELECT 15, 'inbox', CONVERT(CONCAT(COUNT(*), ' rows of job_inbox wait for this job or its key; the first: ',
          TRIM(MIN(CONCAT(LPAD(i.id, 20, ' '), ' ', i.action)))) USING utf8mb4)
        FROM v_jobs v JOIN job_inbox i FORCE INDEX (open_rows)
          ON i.is_open = 1 AND (i.job_id = p_id OR (i.topic = v.topic AND i.job_key = v.job_key))
        WHERE v.id = p_id HAVING COUNT(*) > 0
      UNION ALL SELECT 16, 'inbox errors', CONVERT(CONCAT(COUNT(*), ' rows of job_inbox for this job or its key could not be carried out; the last: ',
          TRIM(MAX(CONCAT(LPAD(i.id, 20, ' '), ' ', i.action, ': ', i.error)))) USING utf8mb4)
        FROM v_jobs v JOIN v_inbox_errors i ON i.job_id = p_id OR (i.topic = v.topic AND i.job_key = v.job_key)
        WHERE v.id = p_id HAVING COUNT(*) > 0
    ) w WHERE w.value IS NOT NULL ORDER BY w.n;
  END IF;
END$$
DELIMITER ;
