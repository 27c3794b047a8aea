-- Alerts: what stands, and the messages about it. See sql/README.md.

ALTER TABLE topics
  ADD COLUMN alerts BLOB NULL COMMENT 'JSON object: overdue, unreported (ms), backlog, dead (jobs); 0 = never, absent = the default; url, secret, mute_until (ms UTC). NULL = defaults';

ALTER TABLE count_audits
  ADD COLUMN found BIGINT NOT NULL DEFAULT 0 COMMENT 'jobs that the latest recount corrected';

CREATE TABLE IF NOT EXISTS alerts (
  id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
  topic VARBINARY(200) NOT NULL DEFAULT '' COMMENT 'empty: of the installation',
  kind ENUM('overdue','backlog','dead','unreported','shard_halted','no_leader','kafka_unwritable','index_incomplete','inbox_errors','audit_corrected') CHARACTER SET ascii NOT NULL,
  value BIGINT NOT NULL COMMENT 'how bad it is: ms of overdue and unreported, else a number',
  bound BIGINT NOT NULL COMMENT 'from here on it stands',
  began_at BIGINT NOT NULL,
  told_at BIGINT NULL COMMENT 'when its latest message was made; NULL = none was, it is muted or silenced',
  silenced_until BIGINT NULL COMMENT 'nobody is told of it before; its end is told to who heard of its beginning',
  UNIQUE KEY what (topic, kind)
) ENGINE=InnoDB COMMENT='alerts that stand. A row is there from the beginning of an alert to its end';

CREATE TABLE IF NOT EXISTS alert_messages (
  id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
  alert BIGINT NOT NULL COMMENT 'alerts.id, which may have ended',
  type ENUM('began','reminded','ended') CHARACTER SET ascii NOT NULL,
  target ENUM('topic','installation','kafka') CHARACTER SET ascii NOT NULL COMMENT 'the topic''s alerts.url, the configuration''s, or the Kafka topic',
  topic VARBINARY(200) NOT NULL,
  kind ENUM('overdue','backlog','dead','unreported','shard_halted','no_leader','kafka_unwritable','index_incomplete','inbox_errors','audit_corrected') CHARACTER SET ascii NOT NULL,
  value BIGINT NOT NULL,
  bound BIGINT NOT NULL,
  began_at BIGINT NOT NULL,
  made_at BIGINT NOT NULL,
  next_at BIGINT NOT NULL COMMENT 'when it is sent, or sent again',
  tries INT NOT NULL DEFAULT 0,
  error VARBINARY(500) NULL COMMENT 'of the latest try',
  KEY of_alert (alert, target, id)
) ENGINE=InnoDB COMMENT='messages about alerts that did not arrive yet: an outbox of at most 10,000 rows, each for a day';

DELIMITER $$

-- Waits until something of the installation is another than the caller knows (p_known, p_topics_version), for p_wait_ms at most, and
-- tells how it is. One session looks, under GET_LOCK, once a second; the others wait for the lock, and are told that it is not theirs.
-- When the session that looks ends, the next one looks at once. It reads small tables alone.
DROP PROCEDURE IF EXISTS dt_watch_alerts$$
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
    SELECT COALESCE(SUM(a.found), 0) INTO v_corrected FROM count_audits a;
    IF v_now >= v_end OR v_version <> p_topics_version
       OR CONCAT_WS(',', v_halted, v_leaderless, v_kafka, v_index + v_sets, v_inbox, v_corrected) <> p_known THEN
      LEAVE waiting;
    END IF;
    DO SLEEP(1);
  END WHILE;

  SELECT v_ours, v_now, v_version, v_halted, v_leaderless, v_kafka, v_index + v_sets, v_inbox, v_corrected;
END$$

DELIMITER ;
