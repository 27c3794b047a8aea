-- Waits until the test clock is another than of p_version, for p_wait_ms at most (0: not at all), and tells how it stands, with the
-- server's own clock in ms. An installation without one: version 0, at once.
DROP PROCEDURE IF EXISTS dt_watch_clock;

DELIMITER $$
CREATE PROCEDURE dt_watch_clock(IN p_version BIGINT, IN p_wait_ms BIGINT)
  READS SQL DATA
  SQL SECURITY INVOKER
  COMMENT 'for programs with installation.test_clock: waits until the clock is changed'
BEGIN
  DECLARE v_end BIGINT DEFAULT CAST(UNIX_TIMESTAMP(SYSDATE(3)) * 1000 AS SIGNED) + p_wait_ms;
  DECLARE v_ahead, v_frozen, v_version BIGINT DEFAULT 0;

  waiting: LOOP
    SELECT COALESCE(MAX(c.ahead_ms), 0), COALESCE(MAX(c.frozen_at), 0), COALESCE(MAX(c.version), 0)
      INTO v_ahead, v_frozen, v_version
      FROM test_clock c;
    IF v_version <> p_version OR v_version = 0 OR CAST(UNIX_TIMESTAMP(SYSDATE(3)) * 1000 AS SIGNED) >= v_end THEN
      LEAVE waiting;
    END IF;
    DO SLEEP(0.02);
  END LOOP;

  SELECT v_ahead, v_frozen, v_version, CAST(UNIX_TIMESTAMP(SYSDATE(3)) * 1000 AS SIGNED);
END$$
DELIMITER ;
