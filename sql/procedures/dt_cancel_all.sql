DROP PROCEDURE IF EXISTS dt_cancel_all;

DELIMITER $$
CREATE PROCEDURE dt_cancel_all(IN p_topic VARBINARY(200), IN p_from DATETIME(3), IN p_to DATETIME(3))
  MODIFIES SQL DATA
  SQL SECURITY INVOKER
  COMMENT 'cancels scheduled jobs: an operation'
BEGIN
  CALL dt_begin_operation('cancel', p_topic, p_from, p_to, NULL);
END$$
DELIMITER ;
