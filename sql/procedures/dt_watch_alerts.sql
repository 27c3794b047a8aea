-- Returns whether the caller is the judge of alerts; to the judge, also returns the state of the installation that
-- alerts are about. The judge is the process in alert_judge, as long as it writes its row in processes. If the judge
-- dies, the next live process that calls this procedure becomes the judge; a dispatcher replaces an API at once.
--
-- The last two columns: whether this call made the caller the judge because the judge before is dead; and, if the
-- caller is not the judge, for how many ms the judge's lease still holds unless it is renewed. This procedure renews no
-- lease. It reads only small tables.
DROP PROCEDURE IF EXISTS dt_watch_alerts;

DELIMITER $$
CREATE PROCEDURE dt_watch_alerts(IN p_process BIGINT)
  MODIFIES SQL DATA
  SQL SECURITY INVOKER
  COMMENT 'for programs: who judges alerts, and what they are about'
BEGIN
  DECLARE v_now BIGINT DEFAULT CAST(UNIX_TIMESTAMP(SYSDATE(3)) * 1000 AS SIGNED);
  DECLARE v_ours, v_lives, v_dispatcher, v_from_dead BOOLEAN DEFAULT FALSE;
  DECLARE v_version, v_shards, v_halted, v_leaderless, v_kafka, v_index, v_sets, v_inbox, v_corrected, v_alone, v_lease BIGINT DEFAULT 0;

  SELECT COUNT(*) > 0, COALESCE(MAX(p.kind = 'dispatcher'), FALSE) INTO v_lives, v_dispatcher
    FROM processes p WHERE p.id = p_process AND p.seen_at > v_now - 4000;
  SELECT COALESCE(MAX(LEAST(p.seen_at - v_now, 0) + 4000), 0) INTO v_lease
    FROM alert_judge j JOIN processes p ON p.id = j.process
   WHERE j.only_row = 1 AND p.seen_at > v_now - 4000 AND (p.kind = 'dispatcher') >= v_dispatcher;
  IF v_lives AND v_lease = 0 THEN
    SET v_from_dead = NOT EXISTS (SELECT 1 FROM alert_judge j JOIN processes p ON p.id = j.process
                                   WHERE j.only_row = 1 AND p.seen_at > v_now - 4000);
    INSERT INTO alert_judge (only_row, process) VALUES (1, p_process) ON DUPLICATE KEY UPDATE process = p_process;
  END IF;
  SET v_ours = v_lives AND COALESCE((SELECT j.process = p_process FROM alert_judge j WHERE j.only_row = 1), FALSE);
  IF v_ours THEN
    SELECT i.topics_version, i.shards INTO v_version, v_shards FROM installation i;
    SELECT COUNT(s.halted),
           COUNT(IF(s.shard < v_shards AND s.halted IS NULL
                    AND NOT EXISTS (SELECT 1 FROM processes p WHERE p.name = s.owner AND p.kind = 'dispatcher'
                                       AND p.seen_at > v_now - 4000 AND FIND_IN_SET(s.shard, p.leads)), 1, NULL))
      INTO v_halted, v_leaderless
      FROM shards s;
    SELECT COUNT(IF(FIND_IN_SET('kafka', p.waits), 1, NULL)), COUNT(p.index_down), COUNT(IF(p.kind = 'dispatcher', 1, NULL)) = 0
      INTO v_kafka, v_index, v_alone
      FROM processes p WHERE p.seen_at > v_now - 4000;
    SELECT COUNT(*) INTO v_sets FROM shard_stats x WHERE x.shard < v_shards AND x.seen_at > v_now - 15000 AND x.generation = 0;
    SELECT COUNT(*) INTO v_inbox FROM (SELECT 1 FROM job_inbox FORCE INDEX (open_rows) WHERE is_open IS NULL LIMIT 1000) e;
    SELECT LEAST(GREATEST(COALESCE(SUM(a.found), 0), 0), 9223372036854775807) INTO v_corrected FROM count_audits a;
  END IF;

  SELECT v_ours, v_now, v_version, v_halted, v_leaderless, v_kafka, v_index + v_sets, v_inbox, v_corrected, v_alone, v_from_dead AND v_ours,
         IF(v_lives AND NOT v_ours, v_lease, 0);
END$$
DELIMITER ;
