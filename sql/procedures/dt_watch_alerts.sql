-- Waits until something of the installation is another than the caller knows (p_known, p_topics_version), for p_wait_ms at most, and
-- tells how it is. One session looks, under GET_LOCK, once a second; the others wait for the lock, and are told that it is not theirs.
-- When the session that looks ends, the next one looks at once. It reads small tables alone.
DROP PROCEDURE IF EXISTS dt_watch_alerts;

DELIMITER $$
CREATE PROCEDURE dt_watch_alerts(IN p_topics_version BIGINT, IN p_known VARCHAR(200), IN p_wait_ms BIGINT)
  READS SQL DATA
  SQL SECURITY INVOKER
  COMMENT 'for dispatchers: waits for what alerts are about'
BEGIN
  DECLARE v_name VARCHAR(64) DEFAULT CONCAT('duetime.alerts.', LEFT(SHA2(DATABASE(), 256), 40));
  DECLARE v_now BIGINT DEFAULT CAST(UNIX_TIMESTAMP(SYSDATE(3)) * 1000 AS SIGNED);
  DECLARE v_end BIGINT DEFAULT v_now + p_wait_ms;
  DECLARE v_ours BOOLEAN DEFAULT FALSE;
  DECLARE v_version, v_shards, v_halted, v_leaderless, v_kafka, v_index, v_sets, v_inbox, v_corrected BIGINT DEFAULT 0;

  SET v_ours = COALESCE(IS_USED_LOCK(v_name) = CONNECTION_ID(), FALSE);
  IF NOT v_ours THEN
    SET v_ours = COALESCE(GET_LOCK(v_name, CEIL(p_wait_ms / 1000)), 0);
  END IF;
  waiting: WHILE v_ours DO
    SET v_now = CAST(UNIX_TIMESTAMP(SYSDATE(3)) * 1000 AS SIGNED);
    SELECT i.topics_version, i.shards INTO v_version, v_shards FROM installation i;
    SELECT COUNT(s.halted),
           COUNT(IF(s.shard < v_shards AND s.halted IS NULL
                    AND NOT EXISTS (SELECT 1 FROM processes p WHERE p.name = s.owner AND p.kind = 'dispatcher'
                                       AND p.seen_at > v_now - 4000 AND FIND_IN_SET(s.shard, p.leads)), 1, NULL))
      INTO v_halted, v_leaderless
      FROM shards s;
    SELECT COUNT(IF(FIND_IN_SET('kafka', p.waits), 1, NULL)), COUNT(p.index_down) INTO v_kafka, v_index
      FROM processes p WHERE p.seen_at > v_now - 4000;
    SELECT COUNT(*) INTO v_sets FROM shard_stats x WHERE x.shard < v_shards AND x.seen_at > v_now - 15000 AND x.generation = 0;
    SELECT COUNT(*) INTO v_inbox FROM (SELECT 1 FROM job_inbox FORCE INDEX (open_rows) WHERE is_open IS NULL LIMIT 1000) e;
    SELECT LEAST(GREATEST(COALESCE(SUM(a.found), 0), 0), 9223372036854775807) INTO v_corrected FROM count_audits a;
    IF v_now >= v_end OR v_version <> p_topics_version
       OR CONCAT_WS(',', v_halted, v_leaderless, v_kafka, v_index + v_sets, v_inbox, v_corrected) <> p_known THEN
      LEAVE waiting;
    END IF;
    DO SLEEP(1);
  END WHILE;

  SELECT v_ours, v_now, v_version, v_halted, v_leaderless, v_kafka, v_index + v_sets, v_inbox, v_corrected;
END$$
DELIMITER ;
