DROP PROCEDURE IF EXISTS dt_reschedule;

DELIMITER $$
CREATE PROCEDURE dt_reschedule(IN p_id BIGINT, IN p_at DATETIME(6))
  MODIFIES SQL DATA
  SQL SECURITY INVOKER
  COMMENT 'moves a scheduled job to another time, given in UTC; a time in the past means now'
BEGIN
  DECLARE v_state, v_outcome VARCHAR(20) CHARACTER SET ascii DEFAULT NULL;
  DECLARE v_attempt INT DEFAULT NULL;
  DECLARE v_now, v_at BIGINT;
  DECLARE v_looks INT DEFAULT 0;
  DECLARE CONTINUE HANDLER FOR NOT FOUND BEGIN END;
  DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END;

  COMMIT;
  -- true for NULL, and for a date of zeros
  IF TIMESTAMPDIFF(MICROSECOND, '1970-01-01', p_at) IS NULL THEN
    SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'dt_reschedule needs a time, in UTC';
  END IF;
  SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
  START TRANSACTION;
  SET v_now = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000;
  -- a fraction of a millisecond is rounded up, so that no job runs early
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
      -- near: v_at is before the end of the UTC day that contains now + 48 h
      near = v_at < ((v_now + 172800000) DIV 86400000 + 1) * 86400000,
      version = LEAST(version + 1, 1999999999), -- at most what the constraint numbers_can_rise allows
      updated_at = v_now
    WHERE id = p_id AND state = 'scheduled';
    SET v_outcome = 'rescheduled';
  END IF;
  COMMIT;
  SELECT p_id AS id, v_outcome AS outcome, v_state AS state, v_attempt AS attempt,
    IF(v_outcome = 'rescheduled', CAST('1970-01-01' + INTERVAL (v_at * 1000) MICROSECOND AS DATETIME(3)), NULL) AS run_at;
END$$
DELIMITER ;
