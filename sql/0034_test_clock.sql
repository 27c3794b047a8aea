-- duetime: the clock of an installation for tests (installation.test_clock). See sql/README.md, "The test clock".

UPDATE schema_migrations SET needs = 33 WHERE applied_at = 0;

CREATE TABLE IF NOT EXISTS test_clock (
  one TINYINT NOT NULL PRIMARY KEY DEFAULT 1 CHECK (one = 1),
  ahead_ms BIGINT NOT NULL DEFAULT 0 COMMENT 'so far ahead of the server''s clock it is while it goes on',
  frozen_at BIGINT NULL COMMENT 'the instant at which it stands still; NULL = it goes on',
  version BIGINT NOT NULL DEFAULT 1 COMMENT 'raised by every change',
  changed_at BIGINT NOT NULL COMMENT 'by the server''s clock'
) ENGINE=InnoDB COMMENT='one row in an installation that was made with installation.test_clock, none in any other';

DELIMITER $$

-- Waits until the test clock is another than of p_version, for p_wait_ms at most (0: not at all), and tells how it stands, with the
-- server's own clock in ms. An installation without one: version 0, at once.
DROP PROCEDURE IF EXISTS dt_watch_clock$$
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

-- As before; due is what is due by the test clock, where there is one, and that is the clock which is told.
DROP PROCEDURE IF EXISTS dt_watch$$
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

-- As before; operations are due by the test clock, where there is one.
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
      SELECT EXISTS (SELECT 1
                       FROM operations FORCE INDEX (look)
                      WHERE look_at <= COALESCE((SELECT COALESCE(c.frozen_at, v_now + c.ahead_ms) FROM test_clock c), v_now))
        INTO v_operations;
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
