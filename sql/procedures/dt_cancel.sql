DROP PROCEDURE IF EXISTS dt_cancel;

DELIMITER $$
CREATE PROCEDURE dt_cancel(IN p_id BIGINT)
  MODIFIES SQL DATA
  SQL SECURITY INVOKER
  COMMENT 'scheduled -> cancelled: the job will never be dispatched'
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
      -- the job stays in `jobs` for ten minutes, whatever history.after is
      leave_at = v_now + LEAST(COALESCE((SELECT t.retention_ms FROM topics t WHERE t.name = jobs.topic), 2592000000), 600000),
      version = LEAST(version + 1, 1999999999), -- at most what the constraint numbers_can_rise allows
      updated_at = v_now
    WHERE id = p_id AND state = 'scheduled';
    -- jobs are counted last, as in all transactions, and in the piece of their home day
    INSERT INTO job_counts (topic, piece, writer, scheduled, cancelled)
      VALUES (v_topic, (p_id DIV 1099511627776) MOD 32, CONNECTION_ID() MOD 32, -1, 1)
      ON DUPLICATE KEY UPDATE scheduled = GREATEST(scheduled, -9223372036854775807) - 1, cancelled = LEAST(cancelled, 9223372036854775806) + 1;
    SET v_outcome = 'cancelled', v_state = 'cancelled';
  END IF;
  COMMIT;
  SELECT p_id AS id, v_outcome AS outcome, v_state AS state, v_attempt AS attempt;
END$$
DELIMITER ;
