-- Redrives dead jobs by the time of their last failure, at which they died. So a job that had to run the day before
-- yesterday, was retried, and died yesterday is redriven if the range has yesterday.
DROP PROCEDURE IF EXISTS dt_redrive_all;

DELIMITER $$
CREATE PROCEDURE dt_redrive_all(IN p_topic VARBINARY(200), IN p_from DATETIME(3), IN p_to DATETIME(3))
  MODIFIES SQL DATA
  SQL SECURITY INVOKER
  COMMENT 'redrives dead jobs whose last failure is in a range of time: an operation'
BEGIN
  CALL dt_begin_operation('redrive', p_topic, p_from, p_to, NULL);
END$$
DELIMITER ;
