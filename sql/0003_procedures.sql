-- duetime: procedures for operators. They follow the same rules as the API, each in a transaction of its own (a
-- transaction that is open when one is called is committed first), and answer with one row: what became of it.
--
-- outcome is one of
--   cancelled, rescheduled, redriven, cleared   done
--   too_late    not scheduled any more, or an earlier attempt is on its way to Kafka. (Of one that has arrived the shard's
--               row may not say so yet: dt_cancel looks again for 200 ms, without holding anything meanwhile.)
--   not_dead, not_halted, not_found             nothing was changed
--
-- A job that is not in `jobs` is looked for in history, in those partitions that jobs of its home day (p_id DIV 2^40) have
-- gone to; one that is not there either was driven back in between, or never was: all is asked again.
--
-- READ COMMITTED matters: the in-flight list of the claiming shard must be read as it is committed now, after the job's
-- row was locked. The shard's row itself is never locked by one who holds a job's row.

DELIMITER $$

DROP PROCEDURE IF EXISTS dt_cancel$$
CREATE PROCEDURE dt_cancel(IN p_id BIGINT)
  MODIFIES SQL DATA
  SQL SECURITY INVOKER
  COMMENT 'scheduled -> cancelled: it will never be dispatched'
BEGIN
  DECLARE v_state, v_outcome VARCHAR(20) CHARACTER SET ascii DEFAULT NULL;
  DECLARE v_attempt INT DEFAULT NULL;
  DECLARE v_shard SMALLINT DEFAULT NULL;
  DECLARE v_topic VARBINARY(200) DEFAULT NULL;
  DECLARE v_in_flight BOOLEAN DEFAULT FALSE;
  DECLARE v_now BIGINT;
  DECLARE v_looks, v_waits INT DEFAULT 0;
  DECLARE CONTINUE HANDLER FOR NOT FOUND BEGIN END;
  DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END;

  settling: LOOP
    COMMIT;
    SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
    START TRANSACTION;
    SET v_now = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000, v_looks = 0;
    REPEAT
      SET v_state = NULL;
      SELECT j.state, j.attempt, j.claim_shard, j.topic INTO v_state, v_attempt, v_shard, v_topic FROM jobs j WHERE j.id = p_id FOR UPDATE;
      IF v_state IS NULL THEN
        SELECT h.state, h.attempt INTO v_state, v_attempt FROM history_days d STRAIGHT_JOIN history h
          ON h.id = p_id AND h.part = d.part WHERE d.home_day = p_id DIV 1099511627776 AND h.purge_at > v_now;
      END IF;
      SET v_looks = v_looks + 1;
    UNTIL v_state IS NOT NULL OR v_looks = 3 END REPEAT;
    SET v_in_flight = FALSE;
    IF v_attempt > 0 AND v_shard IS NOT NULL THEN
      SELECT COALESCE(MAX(INSTR(s.inflight, CONCAT('[', p_id, ',')) > 0), FALSE) INTO v_in_flight
        FROM shards s WHERE s.shard = v_shard;
    END IF;
    IF v_state NOT IN ('scheduled', 'cancelled') OR NOT v_in_flight OR v_waits = 50 THEN
      LEAVE settling;
    END IF;
    ROLLBACK;
    DO SLEEP(0.004);
    SET v_waits = v_waits + 1;
  END LOOP;
  IF v_state IS NULL THEN
    SET v_outcome = 'not_found';
  ELSEIF v_state NOT IN ('scheduled', 'cancelled') OR v_in_flight THEN
    SET v_outcome = 'too_late';
  ELSEIF v_state = 'cancelled' THEN
    SET v_outcome = 'cancelled';
  ELSE
    UPDATE jobs SET
      state = 'cancelled',
      next_at = NULL,
      finished_at = COALESCE(IF(attempt > 0, NULLIF(finished_at, 0), NULL), v_now),
      purge_at = v_now + LEAST(COALESCE((SELECT t.retention_ms FROM topics t WHERE t.name = jobs.topic), 2592000000), 7223372036854775807),
      -- ten minutes among the live ones, whatever history.after says
      leave_at = v_now + LEAST(COALESCE((SELECT t.retention_ms FROM topics t WHERE t.name = jobs.topic), 2592000000), 600000),
      version = version + 1,
      updated_at = v_now
    WHERE id = p_id AND state = 'scheduled';
    -- counted as everybody does: last, in the piece of its home day
    INSERT INTO job_counts (topic, piece, writer, scheduled, cancelled)
      VALUES (v_topic, (p_id DIV 1099511627776) MOD 32, CONNECTION_ID() MOD 32, -1, 1)
      ON DUPLICATE KEY UPDATE scheduled = scheduled - 1, cancelled = cancelled + 1;
    SET v_outcome = 'cancelled', v_state = 'cancelled';
  END IF;
  COMMIT;
  SELECT p_id AS id, v_outcome AS outcome, v_state AS state, v_attempt AS attempt;
END$$

DROP PROCEDURE IF EXISTS dt_reschedule$$
CREATE PROCEDURE dt_reschedule(IN p_id BIGINT, IN p_at DATETIME(6))
  MODIFIES SQL DATA
  SQL SECURITY INVOKER
  COMMENT 'moves a scheduled job to another time, given in UTC; a time in the past is now'
BEGIN
  DECLARE v_state, v_outcome VARCHAR(20) CHARACTER SET ascii DEFAULT NULL;
  DECLARE v_attempt INT DEFAULT NULL;
  DECLARE v_now, v_at BIGINT;
  DECLARE v_looks INT DEFAULT 0;
  DECLARE CONTINUE HANDLER FOR NOT FOUND BEGIN END;
  DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END;

  COMMIT;
  -- NULL, or a date of zeros
  IF TIMESTAMPDIFF(MICROSECOND, '1970-01-01', p_at) IS NULL THEN
    SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'dt_reschedule needs a time, in UTC';
  END IF;
  SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
  START TRANSACTION;
  SET v_now = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000;
  -- finer than a millisecond rounds up, so that nothing is early
  SET v_at = LEAST(GREATEST((TIMESTAMPDIFF(MICROSECOND, '1970-01-01', p_at) + 999) DIV 1000, v_now), 253402300799999);
  REPEAT
    SELECT j.state, j.attempt INTO v_state, v_attempt FROM jobs j WHERE j.id = p_id FOR UPDATE;
    IF v_state IS NULL THEN
      SELECT h.state, h.attempt INTO v_state, v_attempt FROM history_days d STRAIGHT_JOIN history h
        ON h.id = p_id AND h.part = d.part WHERE d.home_day = p_id DIV 1099511627776 AND h.purge_at > v_now;
    END IF;
    SET v_looks = v_looks + 1;
  UNTIL v_state IS NOT NULL OR v_looks = 3 END REPEAT;
  IF v_state IS NULL THEN
    SET v_outcome = 'not_found';
  ELSEIF v_state <> 'scheduled' THEN
    SET v_outcome = 'too_late';
  ELSE
    UPDATE jobs SET
      run_at = v_at,
      next_at = v_at,
      -- before the end of the UTC day that contains now + 48 h: indexed exactly
      near = v_at < ((v_now + 172800000) DIV 86400000 + 1) * 86400000,
      version = version + 1,
      updated_at = v_now
    WHERE id = p_id AND state = 'scheduled';
    SET v_outcome = 'rescheduled';
  END IF;
  COMMIT;
  SELECT p_id AS id, v_outcome AS outcome, v_state AS state, v_attempt AS attempt,
    IF(v_outcome = 'rescheduled', CAST('1970-01-01' + INTERVAL (v_at * 1000) MICROSECOND AS DATETIME(3)), NULL) AS run_at;
END$$

DROP PROCEDURE IF EXISTS dt_redrive$$
CREATE PROCEDURE dt_redrive(IN p_id BIGINT)
  MODIFIES SQL DATA
  SQL SECURITY INVOKER
  COMMENT 'dead -> scheduled, due now, with a new budget of failures; attempt numbers go on upward'
BEGIN
  DECLARE v_state, v_outcome VARCHAR(20) CHARACTER SET ascii DEFAULT NULL;
  DECLARE v_attempt INT DEFAULT NULL;
  DECLARE v_part INT DEFAULT NULL;
  DECLARE v_topic VARBINARY(200) DEFAULT NULL;
  DECLARE v_key VARBINARY(255) DEFAULT NULL;
  DECLARE v_now, v_key_until BIGINT;
  DECLARE v_looks INT DEFAULT 0;
  DECLARE CONTINUE HANDLER FOR NOT FOUND BEGIN END;
  DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END;

  COMMIT;
  SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
  START TRANSACTION;
  SET v_now = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000;
  REPEAT
    SET v_part = NULL;
    SELECT j.state, j.attempt, j.topic INTO v_state, v_attempt, v_topic FROM jobs j WHERE j.id = p_id FOR UPDATE;
    IF v_state IS NULL THEN
      -- found without a lock, then locked where it lies
      SELECT h.part INTO v_part FROM history_days d STRAIGHT_JOIN history h
        ON h.id = p_id AND h.part = d.part WHERE d.home_day = p_id DIV 1099511627776 AND h.purge_at > v_now;
      SELECT h.state, h.attempt, h.topic, h.job_key, h.key_until
        INTO v_state, v_attempt, v_topic, v_key, v_key_until
        FROM history h WHERE h.id = p_id AND h.part = v_part FOR UPDATE;
    END IF;
    SET v_looks = v_looks + 1;
  UNTIL v_state IS NOT NULL OR v_looks = 3 END REPEAT;
  IF v_state = 'dead' AND v_part IS NOT NULL THEN
    -- back from history, with its attempts and, unless another job took it, its key
    INSERT INTO jobs (id, leave_at, topic, job_key, state, run_at, attempt, failures, attempt_status, due_at, dispatched_at, finished_at,
      claim_shard, no_retries, retry, ack_timeout_ms, version, created_at, updated_at, purge_at, maker, digest,
      partition_key, content_type, payload_binary, error_at, error_code, error_message, headers, payload)
      SELECT h.id, h.purge_at, topic, job_key, state, run_at, attempt, failures, attempt_status, due_at, dispatched_at, finished_at,
      claim_shard, no_retries, retry, ack_timeout_ms, version, created_at, updated_at, purge_at, maker, digest,
      partition_key, content_type, payload_binary, error_at, error_code, error_message, headers, payload
      FROM history h WHERE h.id = p_id AND h.part = v_part;
    INSERT INTO attempts (job_id, attempt, status, due_at, dispatched_at, finished_at, error_code, error_message)
      SELECT a.job_id, a.attempt, a.status, a.due_at, a.dispatched_at, a.finished_at, a.error_code, a.error_message
      FROM history_attempts a WHERE a.job_id = p_id AND a.part = v_part;
    DELETE FROM history WHERE id = p_id AND part = v_part;
    DELETE FROM history_attempts WHERE job_id = p_id AND part = v_part;
    IF v_key IS NOT NULL THEN
      DELETE FROM key_ends WHERE free_at = v_key_until AND job_id = p_id;
      INSERT INTO job_keys (topic, job_key, job_id) VALUES (v_topic, v_key, p_id) ON DUPLICATE KEY UPDATE job_id = job_id;
    END IF;
    UPDATE history_counts SET jobs = jobs - 1 WHERE topic = v_topic AND state = 'dead' AND part = v_part;
  END IF;
  IF v_state IS NULL THEN
    SET v_outcome = 'not_found';
  ELSEIF v_state <> 'dead' THEN
    SET v_outcome = 'not_dead';
  ELSE
    UPDATE jobs SET
      state = 'scheduled',
      next_at = v_now,
      near = TRUE,
      failures = 0,
      no_retries = FALSE,
      purge_at = NULL,
      leave_at = 0,
      version = version + 1,
      updated_at = v_now
    WHERE id = p_id AND state = 'dead';
    -- one that came from history was not counted as dead in jobs
    INSERT INTO job_counts (topic, piece, writer, scheduled, dead)
      VALUES (v_topic, (p_id DIV 1099511627776) MOD 32, CONNECTION_ID() MOD 32, 1, IF(v_part IS NULL, -1, 0))
      ON DUPLICATE KEY UPDATE scheduled = scheduled + 1, dead = dead + VALUES(dead);
    SET v_outcome = 'redriven', v_state = 'scheduled';
  END IF;
  COMMIT;
  SELECT p_id AS id, v_outcome AS outcome, v_state AS state, v_attempt AS attempt;
END$$

-- A shard is halted when its row and its ledger in Kafka disagree: after a restore of MySQL, or a ledger that was
-- trimmed or made anew. Its leader waits; nothing is dispatched from it. Read `halted`, look at both, then choose;
-- sql/README.md tells how.
--
-- p_list: what becomes of the attempts that are claimed and not settled (v_shards.in_flight)
--   'resend'  they are sent first. Right when they are not in their Kafka topics. A consumer that did get one gets it
--             twice, under the same attempt number
--   'drop'    they count as sent, just now: their results are waited for from now on. Right when the topics have them.
--             One that was never sent is found by its missing result: it times out and the retry policy goes on
-- p_ledger_offset: where the next takeover starts to read the shard's ledger partition
--   NULL      as before. Right when what was wrong with the ledger was put right
--   >= 0      that offset: everything below it counts as settled
--   -1        its end at the next takeover: whatever the ledger has counts as settled
-- Nothing of the ledger is deleted until ledger.trim_after has passed once more.
DROP PROCEDURE IF EXISTS dt_clear_halt$$
CREATE PROCEDURE dt_clear_halt(IN p_shard INT, IN p_list VARCHAR(10), IN p_ledger_offset BIGINT)
  MODIFIES SQL DATA
  SQL SECURITY INVOKER
  COMMENT 'lets a halted shard go on: (shard, ''resend'' or ''drop'', ledger offset, -1 for its end or NULL to keep it)'
BEGIN
  DECLARE v_outcome VARCHAR(20) CHARACTER SET ascii DEFAULT NULL;
  DECLARE v_found, v_was_in_flight, v_now BIGINT DEFAULT 0;
  DECLARE v_halted VARBINARY(500) DEFAULT NULL;
  DECLARE v_list MEDIUMTEXT CHARACTER SET ascii DEFAULT NULL;
  DECLARE CONTINUE HANDLER FOR NOT FOUND BEGIN END;
  DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END;

  COMMIT;
  IF p_list IS NULL OR p_list NOT IN ('resend', 'drop') THEN
    SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'dt_clear_halt: the second argument is ''resend'' or ''drop''';
  END IF;
  IF p_ledger_offset < -1 THEN
    SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'dt_clear_halt: the third argument is an offset, -1 (the end) or NULL (as it is)';
  END IF;
  SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
  START TRANSACTION;
  SELECT 1, s.halted, IF(JSON_VALID(s.inflight), JSON_LENGTH(s.inflight), NULL), s.inflight
    INTO v_found, v_halted, v_was_in_flight, v_list FROM shards s WHERE s.shard = p_shard FOR UPDATE;
  SET v_now = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000;
  IF v_found = 0 THEN
    SET v_outcome = 'not_found';
  ELSEIF v_halted IS NULL THEN
    SET v_outcome = 'not_halted';
  ELSE
    -- the version notices a leader that still believes in what it wrote last
    UPDATE shards SET
      halted = NULL,
      send_n = IF(p_list = 'drop', 0, send_n),
      inflight = IF(p_list = 'drop', '[]', inflight),
      ledger_offset = COALESCE(p_ledger_offset, ledger_offset),
      trim_offset = NULL,
      trim_at = NULL,
      version = version + 1
    WHERE shard = p_shard;
    IF p_list = 'drop' AND JSON_VALID(v_list) THEN
      -- `near` is right whether next_at was assigned before it or not
      UPDATE JSON_TABLE(v_list, '$[*]' COLUMNS(id BIGINT PATH '$[0]', attempt INT PATH '$[1]')) f
        JOIN jobs j ON j.id = f.id
      SET
        j.near = (j.next_at < ((v_now + 172800000) DIV 86400000 + 1) * 86400000
          AND v_now + LEAST(j.ack_timeout_ms, 3155760000000) < ((v_now + 172800000) DIV 86400000 + 1) * 86400000),
        j.next_at = GREATEST(j.next_at, v_now + LEAST(j.ack_timeout_ms, 3155760000000))
      WHERE j.state = 'dispatched' AND j.attempt = f.attempt;
    END IF;
    SET v_outcome = 'cleared';
  END IF;
  COMMIT;
  SELECT p_shard AS shard, v_outcome AS outcome, v_halted AS was_halted, v_was_in_flight AS was_in_flight,
    (SELECT s.ledger_offset FROM shards s WHERE s.shard = p_shard) AS ledger_offset, v_list AS was_list;
END$$

-- Everything that bears on one job, as (what, value): what it waits for first.
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
      UNION ALL SELECT 10, 'shard', CONVERT(CONCAT(v_bucket, ' (slot ', v.slot, '), led by ',
          COALESCE((SELECT s.owner FROM v_shards s WHERE s.shard = v_bucket), 'nobody'),
          COALESCE(CONCAT('; latest attempt claimed by shard ', v.claim_shard), '')) USING utf8mb4)
        FROM v_jobs v WHERE v.id = p_id
      UNION ALL SELECT 11, 'removed at', CONVERT(v.purge_at USING utf8mb4)
        FROM v_jobs v WHERE v.id = p_id AND v.next_at IS NULL
      UNION ALL SELECT 12, 'kept in', CONVERT(CONCAT('history, partition ', h.part) USING utf8mb4)
        FROM history h WHERE h.id = p_id
      UNION ALL SELECT 13, 'created, changed',
          CONVERT(CONCAT(v.created_at, ', ', v.updated_at, ', version ', v.version) USING utf8mb4)
        FROM v_jobs v WHERE v.id = p_id
    ) w WHERE w.value IS NOT NULL ORDER BY w.n;
  END IF;
END$$

DELIMITER ;
