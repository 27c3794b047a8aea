DROP PROCEDURE IF EXISTS dt_shift_all;

DELIMITER $$
CREATE PROCEDURE dt_shift_all(IN p_topic VARBINARY(200), IN p_from DATETIME(3), IN p_to DATETIME(3), IN p_seconds BIGINT)
  MODIFIES SQL DATA
  SQL SECURITY INVOKER
  COMMENT 'moves scheduled jobs by the same time, later or earlier: an operation'
BEGIN
  CALL dt_begin_operation('reschedule', p_topic, p_from, p_to, p_seconds);
END$$
DELIMITER ;
