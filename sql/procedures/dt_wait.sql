-- The one statement with which a process waits in the server. Returns when an event happens that the caller asks about,
-- or after p_wait_ms (0 = at once). Takes no locks; each poll reads what is committed at that time. Returns rows (kind,
-- a, b, c, d):
--
--   0  due_key, id, NULL, NULL                           near jobs with p_look_from <= due_key <= now, 1,000 at most
--   1  shard, epoch, token, version                      the shards that p_owner leads
--   2  generation, topics_version, p_leads of now, the clock in ms
--   3  bits of p_intake that were found, p_intake_at for the next call, the version of the test clock, NULL
--
-- p_owner: asks about due jobs; NULL = does not ask. The wait ends if a near job is due whose time is p_due_from or
-- later, or if generation, topics_version or the checksum of the shards that p_owner leads (p_leads) changes. The
-- server polls every 40 ms. If there is a test clock, it decides what is due.
--
-- p_intake: bit 1 asks about open rows of job_inbox, bit 2 about operations that are due, bit 4 about schedules that
-- are due. Dispatchers take turns of 200 ms, in the order of their ids in `processes`, so together they poll five times
-- a second. If a dispatcher dies, its turns are lost until its row is four seconds old; the other dispatchers keep
-- their turns.
--
-- p_clock: asks about the test clock, every 20 ms: the wait ends if the clock's version is not p_clock. NULL = does not
-- ask.
DROP PROCEDURE IF EXISTS dt_wait;

DELIMITER $$
CREATE PROCEDURE dt_wait(IN p_process BIGINT, IN p_wait_ms BIGINT, IN p_owner VARCHAR(100), IN p_due_from BIGINT, IN p_look_from BIGINT,
                         IN p_generation BIGINT, IN p_topics_version BIGINT, IN p_leads BIGINT, IN p_intake TINYINT, IN p_intake_at BIGINT,
                         IN p_clock BIGINT)
  READS SQL DATA
  SQL SECURITY INVOKER
  COMMENT 'for programs: waits for an event'
BEGIN
  DECLARE v_real, v_now, v_end, v_next, v_generation, v_topics_version, v_leads, v_turn, v_rank, v_clock BIGINT;
  DECLARE v_intake_at BIGINT DEFAULT p_intake_at;
  DECLARE v_look_from BIGINT DEFAULT IF(p_owner IS NULL, 9223372036854775807, p_look_from);
  DECLARE v_found TINYINT DEFAULT 0;
  DECLARE v_ends BOOLEAN DEFAULT FALSE;

  SET SESSION lock_wait_timeout = 1; -- if a table stays locked, this wait fails soon, and the process polls by itself
  SET v_end = CAST(UNIX_TIMESTAMP(SYSDATE(3)) * 1000 AS SIGNED) + p_wait_ms;
  waiting: LOOP
    SET v_real = CAST(UNIX_TIMESTAMP(SYSDATE(3)) * 1000 AS SIGNED);
    SET v_next = v_end;
    SELECT COALESCE(MAX(COALESCE(c.frozen_at, v_real + c.ahead_ms)), v_real), COALESCE(MAX(c.version), 0)
      INTO v_now, v_clock
      FROM test_clock c;
    IF p_clock IS NOT NULL THEN
      SET v_ends = v_clock <> p_clock, v_next = LEAST(v_next, v_real + 20);
    END IF;

    IF p_owner IS NOT NULL THEN
      SELECT i.generation, i.topics_version,
             (SELECT COALESCE(SUM(CRC32(CONCAT_WS(':', s.shard, s.epoch, s.token, s.halted IS NULL))), 0)
                FROM shards s WHERE s.owner = p_owner)
        INTO v_generation, v_topics_version, v_leads
        FROM installation i;
      SET v_ends = v_ends OR v_generation <> p_generation OR v_topics_version <> p_topics_version OR v_leads <> p_leads;
      IF NOT v_ends THEN
        SELECT EXISTS (SELECT 1 FROM jobs FORCE INDEX (due) WHERE due_band = 1 AND due_key >= p_due_from AND due_key <= v_now)
          INTO v_ends;
      END IF;
      SET v_next = LEAST(v_next, v_real + 40);
    END IF;

    IF p_intake <> 0 THEN
      IF v_real >= v_intake_at OR v_intake_at > v_real + 60000 THEN -- far ahead: the server's clock was set back
        SELECT 200 * GREATEST(COUNT(*), 1), COALESCE(SUM(p.id < p_process), 0)
          INTO v_turn, v_rank
          FROM processes p
         WHERE p.kind = 'dispatcher' AND p.seen_at > v_real - 4000;
        SELECT (p_intake & 1 AND EXISTS (SELECT 1 FROM job_inbox FORCE INDEX (open_rows) WHERE is_open = 1))
               | (p_intake & 2 AND EXISTS (SELECT 1 FROM operations FORCE INDEX (look) WHERE look_at <= v_now)) << 1
               | (p_intake & 4 AND EXISTS (SELECT 1 FROM schedule_fires FORCE INDEX (look) WHERE look_at <= v_now)) << 2
          INTO v_found;
        SET v_intake_at = v_real - v_real MOD v_turn + 200 * v_rank;
        IF v_intake_at <= v_real THEN
          SET v_intake_at = v_intake_at + v_turn;
        END IF;
      END IF;
      SET v_ends = v_ends OR v_found <> 0, v_next = LEAST(v_next, v_intake_at);
    END IF;

    IF v_ends OR v_real >= v_end THEN
      LEAVE waiting;
    END IF;
    DO SLEEP((v_next - v_real) / 1000);
  END LOOP;

  (SELECT 0 AS kind, due_key AS a, id AS b, NULL AS c, NULL AS d
     FROM jobs FORCE INDEX (due)
    WHERE due_band = 1 AND due_key >= v_look_from AND due_key <= v_now
    ORDER BY due_key, id LIMIT 1000)
  UNION ALL
  SELECT 1, shard, epoch, token, version FROM shards WHERE owner = p_owner
  UNION ALL
  SELECT 2, v_generation, v_topics_version, v_leads, v_now FROM DUAL WHERE p_owner IS NOT NULL
  UNION ALL
  SELECT 3, v_found, v_intake_at, v_clock, NULL;
END$$
DELIMITER ;
