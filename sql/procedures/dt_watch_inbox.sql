-- Waits until the inbox has an open row, for p_wait_ms at most, and tells id and size of those behind p_after, a thousand at most. One
-- session looks, under GET_LOCK, five times a second; the others wait for the lock, and tell of nothing. When the session that looks
-- ends, the next one looks at once.
--
-- p_also says what else ends the wait: 1 for operations that are due (by the test clock, where there is one), 2 for schedules that are to
-- be looked at, 3 for both. They are told as rows with the ids 0 and -1. So an operation that an API has left is taken up within a fifth
-- of a second, by no statement more, and a schedule that was made just now has its first fire.
DROP PROCEDURE IF EXISTS dt_watch_inbox;

DELIMITER $$
CREATE PROCEDURE dt_watch_inbox(IN p_after BIGINT, IN p_also TINYINT, IN p_wait_ms BIGINT)
  READS SQL DATA
  SQL SECURITY INVOKER
  COMMENT 'for dispatchers: waits for rows of job_inbox, for operations and for schedules'
BEGIN
  DECLARE v_name VARCHAR(64) DEFAULT CONCAT('duetime.inbox.', LEFT(SHA2(DATABASE(), 256), 40));
  DECLARE v_now BIGINT DEFAULT CAST(UNIX_TIMESTAMP(SYSDATE(3)) * 1000 AS SIGNED);
  DECLARE v_clock BIGINT DEFAULT v_now;
  DECLARE v_end BIGINT DEFAULT v_now + p_wait_ms;
  DECLARE v_ours, v_rows, v_operations, v_schedules BOOLEAN DEFAULT FALSE;

  SET v_ours = COALESCE(IS_USED_LOCK(v_name) = CONNECTION_ID(), FALSE);
  IF NOT v_ours THEN
    SET v_ours = COALESCE(GET_LOCK(v_name, CEIL(p_wait_ms / 1000)), 0);
  END IF;
  waiting: WHILE v_ours DO
    SET v_now = CAST(UNIX_TIMESTAMP(SYSDATE(3)) * 1000 AS SIGNED);
    SELECT EXISTS (SELECT 1 FROM job_inbox FORCE INDEX (open_rows) WHERE is_open = 1) INTO v_rows;
    IF p_also <> 0 THEN
      SET v_clock = COALESCE((SELECT COALESCE(c.frozen_at, v_now + c.ahead_ms) FROM test_clock c), v_now);
      SELECT p_also & 1 AND EXISTS (SELECT 1 FROM operations FORCE INDEX (look) WHERE look_at <= v_clock),
             p_also & 2 AND EXISTS (SELECT 1 FROM schedule_fires FORCE INDEX (look) WHERE look_at <= v_clock)
        INTO v_operations, v_schedules;
    END IF;
    IF v_rows OR v_operations OR v_schedules OR v_now >= v_end THEN
      LEAVE waiting;
    END IF;
    DO SLEEP(0.2);
  END WHILE;

  (SELECT id, COALESCE(LENGTH(payload), 0) + COALESCE(LENGTH(options), 0)
     FROM job_inbox FORCE INDEX (open_rows)
    WHERE is_open = 1 AND id > p_after AND v_rows
    ORDER BY id LIMIT 1000)
  UNION ALL
  SELECT 0, 0 FROM DUAL WHERE v_operations
  UNION ALL
  SELECT -1, 0 FROM DUAL WHERE v_schedules;
END$$
DELIMITER ;
