DROP PROCEDURE IF EXISTS dt_redrive;

DELIMITER $$
CREATE PROCEDURE dt_redrive(IN p_id BIGINT)
  MODIFIES SQL DATA
  SQL SECURITY INVOKER
  COMMENT 'dead -> scheduled, due now; failures are reset, attempt numbers continue'
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
      -- the partition is found without a lock; then the row is locked in this partition
      SELECT h.part INTO v_part FROM history_days d STRAIGHT_JOIN history h
        ON h.id = p_id AND h.part = d.part WHERE d.home_day = p_id DIV 1099511627776 AND h.purge_at > v_now;
      SELECT h.state, h.attempt, h.topic, h.job_key, h.key_until
        INTO v_state, v_attempt, v_topic, v_key, v_key_until
        FROM history h WHERE h.id = p_id AND h.part = v_part FOR UPDATE;
    END IF;
    SET v_looks = v_looks + 1;
  UNTIL v_state IS NOT NULL OR v_looks = 3 END REPEAT;
  IF v_state = 'dead' AND v_part IS NOT NULL THEN
    -- The job moves back from history with its attempts. It gets its key back, unless another job has the key now. Its
    -- numbers are clamped, because jobs has CHECKs that history does not have.
    INSERT INTO jobs (id, leave_at, topic, job_key, state, run_at, attempt, failures, attempt_status, due_at, dispatched_at, finished_at,
      claim_shard, no_retries, retry, ack_timeout_ms, version, created_at, updated_at, purge_at, maker, digest,
      partition_key, content_type, payload_binary, error_at, error_code, error_message, headers, payload)
      SELECT h.id, h.purge_at, topic, job_key, state, run_at, LEAST(GREATEST(attempt, 0), 1999999999), 0, attempt_status, due_at, dispatched_at, finished_at,
      claim_shard, no_retries, retry, GREATEST(ack_timeout_ms, 1), LEAST(version, 1999999999), created_at, updated_at, purge_at, maker, digest,
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
    UPDATE history_counts SET jobs = GREATEST(jobs, -9223372036854775807) - 1 WHERE topic = v_topic AND state = 'dead' AND part = v_part;
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
      version = LEAST(version + 1, 1999999999), -- at most what the constraint numbers_can_rise allows
      updated_at = v_now
    WHERE id = p_id AND state = 'dead';
    -- a job that was in history is not counted as dead in job_counts
    INSERT INTO job_counts (topic, piece, writer, scheduled, dead)
      VALUES (v_topic, (p_id DIV 1099511627776) MOD 32, CONNECTION_ID() MOD 32, 1, IF(v_part IS NULL, -1, 0))
      ON DUPLICATE KEY UPDATE scheduled = LEAST(scheduled, 9223372036854775806) + 1, dead = GREATEST(dead, -9223372036854775807) + VALUES(dead);
    SET v_outcome = 'redriven', v_state = 'scheduled';
  END IF;
  COMMIT;
  SELECT p_id AS id, v_outcome AS outcome, v_state AS state, v_attempt AS attempt;
END$$
DELIMITER ;
