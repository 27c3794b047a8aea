-- A shard is halted when its row and its ledger in Kafka disagree: MySQL was restored, or the ledger was trimmed or
-- created again. The shard's leader then waits and dispatches nothing. Read `halted`, compare the row with the ledger,
-- then choose; sql/README.md explains how.
--
-- p_list: what to do with the attempts that are claimed and not settled (v_shards.in_flight):
--
--   'resend'  They are sent, before other attempts. Right if they are not in their Kafka topics. If a consumer got such
--             an attempt before, it gets the attempt twice, with the same number.
--   'drop'    They count as sent just now, and the wait for their results begins. Right if they are in their Kafka
--             topics. If an attempt was never sent, its result is missing: it times out, and the retry policy applies.
--
-- p_ledger_offset: the offset from which the next takeover reads the shard's partition of the ledger:
--
--   NULL      The offset is unchanged. Right if the ledger itself was repaired.
--   >= 0      This offset: records below it count as settled.
--   -1        The end of the partition at the next takeover: all records that the ledger has now count as settled.
--
-- Records of the ledger are deleted at the earliest after another ledger.trim_after.
DROP PROCEDURE IF EXISTS dt_clear_halt;

DELIMITER $$
CREATE PROCEDURE dt_clear_halt(IN p_shard INT, IN p_list VARCHAR(10), IN p_ledger_offset BIGINT)
  MODIFIES SQL DATA
  SQL SECURITY INVOKER
  COMMENT 'lets a halted shard continue: (shard, ''resend'' or ''drop'', ledger offset, -1 for its end or NULL to keep it)'
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
    -- the new version stops a leader that still relies on the version that it wrote last
    UPDATE shards SET
      halted = NULL,
      send_n = IF(p_list = 'drop', 0, send_n),
      inflight = IF(p_list = 'drop', '[]', inflight),
      ledger_offset = COALESCE(p_ledger_offset, ledger_offset),
      trim_offset = NULL,
      trim_at = NULL,
      version = IF(version < 9223372036854775807, version + 1, 0)
    WHERE shard = p_shard;
    IF p_list = 'drop' AND JSON_VALID(v_list) THEN
      -- MySQL may assign next_at and `near` in any order: both orders give the same result
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
DELIMITER ;
