-- The session that waits for rows of the inbox sees operations that are due, too.

DELIMITER $$

-- As before; with p_operations an operation whose look is due ends the wait, too, and is told as (0, 0). An operation that an API has
-- left is taken up so within a fifth of a second, by no statement more.
DROP PROCEDURE IF EXISTS dt_watch_inbox$$
CREATE PROCEDURE dt_watch_inbox(IN p_after BIGINT, IN p_operations BOOLEAN, IN p_wait_ms BIGINT)
  READS SQL DATA
  SQL SECURITY INVOKER
  COMMENT 'for dispatchers: waits for rows of job_inbox, and for operations'
BEGIN
  DECLARE v_name VARCHAR(64) DEFAULT CONCAT('duetime.inbox.', LEFT(SHA2(DATABASE(), 256), 40));
  DECLARE v_now BIGINT DEFAULT CAST(UNIX_TIMESTAMP(SYSDATE(3)) * 1000 AS SIGNED);
  DECLARE v_end BIGINT DEFAULT v_now + p_wait_ms;
  DECLARE v_ours, v_rows, v_operations BOOLEAN DEFAULT FALSE;

  SET v_ours = COALESCE(IS_USED_LOCK(v_name) = CONNECTION_ID(), FALSE);
  IF NOT v_ours THEN
    SET v_ours = COALESCE(GET_LOCK(v_name, CEIL(p_wait_ms / 1000)), 0);
  END IF;
  waiting: WHILE v_ours DO
    SET v_now = CAST(UNIX_TIMESTAMP(SYSDATE(3)) * 1000 AS SIGNED);
    SELECT EXISTS (SELECT 1 FROM job_inbox FORCE INDEX (open_rows) WHERE is_open = 1) INTO v_rows;
    IF p_operations THEN
      SELECT EXISTS (SELECT 1 FROM operations FORCE INDEX (look) WHERE look_at <= v_now) INTO v_operations;
    END IF;
    IF v_rows OR v_operations OR v_now >= v_end THEN
      LEAVE waiting;
    END IF;
    DO SLEEP(0.2);
  END WHILE;

  (SELECT id, COALESCE(LENGTH(payload), 0) + COALESCE(LENGTH(options), 0)
     FROM job_inbox FORCE INDEX (open_rows)
    WHERE is_open = 1 AND id > p_after AND v_rows
    ORDER BY id LIMIT 1000)
  UNION ALL
  SELECT 0, 0 FROM DUAL WHERE v_operations;
END$$

DELIMITER ;
