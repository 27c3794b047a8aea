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

-- defines dt_watch_alerts 3f55a465c6b3
