-- Records that an attempt was sent, so that no other message gets its number. If the job's latest attempt has a lower
-- number, the job becomes dispatched with this attempt and waits for its result. deploy/disaster/mysql-restored.md
-- explains how to use it.
DROP PROCEDURE IF EXISTS dt_mark_sent;

DELIMITER $$
CREATE PROCEDURE dt_mark_sent(IN p_id BIGINT, IN p_attempt INT)
  MODIFIES SQL DATA
  SQL SECURITY INVOKER
  COMMENT 'for a restored job whose attempt is known to have been sent: the job is dispatched with it, and never sends it again'
BEGIN
  DECLARE v_state, v_outcome VARCHAR(20) CHARACTER SET ascii DEFAULT NULL;
  DECLARE v_attempt INT DEFAULT NULL;
  DECLARE v_topic VARBINARY(200) DEFAULT NULL;
  DECLARE v_now BIGINT;
  DECLARE CONTINUE HANDLER FOR NOT FOUND BEGIN END;
  DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END;

  COMMIT;
  IF p_attempt IS NULL OR p_attempt < 1 THEN
    SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'dt_mark_sent: the second argument is the number of an attempt, from 1';
  END IF;
  SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
  START TRANSACTION;
  SELECT j.state, j.attempt, j.topic INTO v_state, v_attempt, v_topic FROM jobs j WHERE j.id = p_id FOR UPDATE;
  SET v_now = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000;
  IF v_state IS NULL THEN
    SET v_outcome = 'not_found';
  ELSEIF v_attempt >= p_attempt THEN
    SET v_outcome = 'known';
  ELSEIF v_state NOT IN ('scheduled', 'dispatched') THEN
    -- the job ended before the restored copy of the database was made, and was redriven after that
    SET v_outcome = 'finished';
  ELSE
    IF v_attempt > 0 THEN
      INSERT INTO attempts (job_id, attempt, status, due_at, dispatched_at, finished_at, error_code, error_message)
        SELECT j.id, j.attempt, IF(j.attempt_status IN ('none', 'dispatched'), 'timed_out', j.attempt_status), j.due_at, j.dispatched_at,
          COALESCE(NULLIF(j.finished_at, 0), v_now), 'restored', 'what became of it was lost with the database' FROM jobs j WHERE j.id = p_id
        ON DUPLICATE KEY UPDATE status = VALUES(status);
    END IF;
    UPDATE jobs SET
      state = 'dispatched',
      attempt = p_attempt,
      attempt_status = 'dispatched',
      due_at = IF(v_state = 'scheduled', GREATEST(next_at, 1), due_at),
      dispatched_at = v_now,
      finished_at = 0,
      claim_shard = -1,
      near = v_now + LEAST(ack_timeout_ms, 3155760000000) < ((v_now + 172800000) DIV 86400000 + 1) * 86400000,
      next_at = v_now + LEAST(ack_timeout_ms, 3155760000000),
      version = LEAST(version + 1, 1999999999), -- at most what the constraint numbers_can_rise allows
      updated_at = v_now
    WHERE id = p_id;
    INSERT INTO job_counts (topic, piece, writer, scheduled, dispatched)
      VALUES (v_topic, (p_id DIV 1099511627776) MOD 32, CONNECTION_ID() MOD 32, IF(v_state = 'scheduled', -1, 0), IF(v_state = 'scheduled', 1, 0))
      ON DUPLICATE KEY UPDATE scheduled = GREATEST(scheduled, -9223372036854775807) + VALUES(scheduled), dispatched = LEAST(dispatched, 9223372036854775806) + VALUES(dispatched);
    SET v_outcome = 'marked', v_state = 'dispatched', v_attempt = p_attempt;
  END IF;
  COMMIT;
  SELECT p_id AS id, v_outcome AS outcome, v_state AS state, v_attempt AS attempt;
END$$
DELIMITER ;
