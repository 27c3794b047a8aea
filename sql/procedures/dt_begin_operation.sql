-- Begins an operation on a set of jobs. dt_cancel_all, dt_redrive_all and dt_shift_all call it.
--
-- p_topic: a topic, or the beginning of a topic's name and an asterisk. p_from and p_to (exclusive), in UTC: bounds of
-- the last failure for a redrive, otherwise of run_at; NULL = no bound. A date of zeros is refused, because as a bound
-- it would match all jobs. The operation, and the events of its jobs, name the caller as sql:<account>.
DROP PROCEDURE IF EXISTS dt_begin_operation;

DELIMITER $$
CREATE PROCEDURE dt_begin_operation(IN p_kind VARCHAR(20), IN p_topic VARBINARY(200), IN p_from DATETIME(3), IN p_to DATETIME(3), IN p_seconds BIGINT)
  MODIFIES SQL DATA
  SQL SECURITY INVOKER
  COMMENT 'part of dt_redrive_all, dt_shift_all and dt_cancel_all'
BEGIN
  DECLARE v_now BIGINT DEFAULT CAST(UNIX_TIMESTAMP(SYSDATE(3)) * 1000 AS SIGNED);
  DECLARE v_from BIGINT DEFAULT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', p_from) DIV 1000;
  DECLARE v_to BIGINT DEFAULT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', p_to) DIV 1000;
  DECLARE v_least BIGINT DEFAULT -9223372036854775807;
  DECLARE v_most BIGINT DEFAULT 9223372036854775807;
  DECLARE v_failed BOOLEAN DEFAULT p_kind = 'redrive';
  DECLARE v_bounds VARCHAR(10) DEFAULT IF(p_kind = 'redrive', 'failed', 'run');
  DECLARE v_prefix BOOLEAN DEFAULT RIGHT(p_topic, 1) = '*';
  DECLARE v_name VARBINARY(200) DEFAULT IF(v_prefix, LEFT(p_topic, LENGTH(p_topic) - 1), p_topic);

  COMMIT;
  IF COALESCE(p_topic, '') = '' THEN
    SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'a set needs a topic; * alone is all of them';
  END IF;
  IF (p_from IS NOT NULL AND v_from IS NULL) OR (p_to IS NOT NULL AND v_to IS NULL) THEN
    SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'a date of zeros is no time; NULL is any';
  END IF;
  INSERT INTO operations (kind, request, topic_from, topic_to, run_from, run_to, failed_from, failed_to, created_from, created_to, shift_ms, walk,
                          look_at, started_at, actor)
  VALUES (p_kind,
          CONCAT('{"topic":', JSON_QUOTE(CONVERT(p_topic USING utf8mb4)),
                 IF(p_from IS NULL, '', CONCAT(',"', v_bounds, '_from":"', DATE_FORMAT(p_from, '%Y-%m-%dT%H:%i:%s'), 'Z"')),
                 IF(p_to IS NULL, '', CONCAT(',"', v_bounds, '_to":"', DATE_FORMAT(p_to, '%Y-%m-%dT%H:%i:%s'), 'Z"')), '}'),
          v_name, IF(v_prefix, CONCAT(v_name, X'7F'), v_name),
          IF(v_failed, v_least, COALESCE(v_from, v_least)), IF(v_failed, v_most, COALESCE(v_to, v_most)),
          IF(v_failed AND COALESCE(v_from, v_to) IS NOT NULL, COALESCE(v_from, v_least), NULL),
          IF(v_failed AND COALESCE(v_from, v_to) IS NOT NULL, COALESCE(v_to, v_most), NULL),
          v_least, v_now + 1000, LEAST(GREATEST(COALESCE(p_seconds, 0), -253402300799), 253402300799) * 1000, 'jobs', v_now, v_now,
          LEFT(CONCAT('sql:', SUBSTRING_INDEX(CURRENT_USER(), '@', 1)), 100));
  SELECT 'begun' AS outcome, LAST_INSERT_ID() AS operation;
END$$
DELIMITER ;
