-- Waits until something is due, or is another than the caller knows it, for p_wait_ms at most (0: not at all), and then tells:
--
--   0  due_key, id, NULL, NULL                           of what is due from p_look_from on, a thousand rows at most
--   1  shard, epoch, token, version                      of the shards that p_owner leads
--   2  generation, topics_version, p_leads of now, the clock in ms
--
-- p_due_from: a row that is due from then on ends the wait. p_leads: a number for which shards p_owner leads, by which leaderships.
-- It locks nothing, and nothing is held while it sleeps; each look sees what is committed then. Due is what is due by the test clock where
-- there is one, else by the server's; that clock is told.
DROP PROCEDURE IF EXISTS dt_watch;

DELIMITER $$
CREATE PROCEDURE dt_watch(IN p_due_from BIGINT, IN p_look_from BIGINT, IN p_owner VARCHAR(100), IN p_generation BIGINT,
                          IN p_topics_version BIGINT, IN p_leads BIGINT, IN p_wait_ms BIGINT)
  READS SQL DATA
  SQL SECURITY INVOKER
  COMMENT 'for dispatchers without Redis: waits for what is due'
BEGIN
  DECLARE v_real, v_now, v_end, v_generation, v_topics_version, v_leads BIGINT;
  DECLARE v_ends BOOLEAN DEFAULT FALSE;

  SET v_end = CAST(UNIX_TIMESTAMP(SYSDATE(3)) * 1000 AS SIGNED) + p_wait_ms;
  waiting: LOOP
    SET v_real = CAST(UNIX_TIMESTAMP(SYSDATE(3)) * 1000 AS SIGNED);
    SELECT i.generation, i.topics_version,
           (SELECT COALESCE(SUM(CRC32(CONCAT_WS(':', s.shard, s.epoch, s.token, s.halted IS NULL))), 0)
              FROM shards s WHERE s.owner = p_owner),
           COALESCE((SELECT COALESCE(c.frozen_at, v_real + c.ahead_ms) FROM test_clock c), v_real)
      INTO v_generation, v_topics_version, v_leads, v_now
      FROM installation i;
    IF v_real >= v_end OR v_generation <> p_generation OR v_topics_version <> p_topics_version OR v_leads <> p_leads THEN
      LEAVE waiting;
    END IF;
    SELECT EXISTS (SELECT 1 FROM jobs FORCE INDEX (due) WHERE due_band = 1 AND due_key >= p_due_from AND due_key <= v_now)
      INTO v_ends;
    IF v_ends THEN
      LEAVE waiting;
    END IF;
    DO SLEEP(0.04);
  END LOOP;

  (SELECT 0 AS kind, due_key AS a, id AS b, NULL AS c, NULL AS d
     FROM jobs FORCE INDEX (due)
    WHERE due_band = 1 AND due_key >= p_look_from AND due_key <= v_now
    ORDER BY due_key, id LIMIT 1000)
  UNION ALL
  SELECT 1, shard, epoch, token, version FROM shards WHERE owner = p_owner
  UNION ALL
  SELECT 2, v_generation, v_topics_version, v_leads, v_now;
END$$
DELIMITER ;
