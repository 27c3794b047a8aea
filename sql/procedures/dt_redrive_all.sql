-- Redrives the dead by when they failed last, which is when they died: one that was to run the day before, and died yesterday after its
-- retries, is one of yesterday's dead.
DROP PROCEDURE IF EXISTS dt_redrive_all;

DELIMITER $$
CREATE PROCEDURE dt_redrive_all(IN p_topic VARBINARY(200), IN p_from DATETIME(3), IN p_to DATETIME(3))
  MODIFIES SQL DATA
  SQL SECURITY INVOKER
  COMMENT 'dead jobs that failed last in a stretch of time get a new budget of attempts: an operation'
BEGIN
  CALL dt_begin_operation('redrive', p_topic, p_from, p_to, NULL);
END$$
DELIMITER ;
