-- One table for all undelivered messages: dead letters, answers to commands, and messages about alerts.
-- No program before it: older programs read and write tables that this migration drops.

CREATE TABLE IF NOT EXISTS messages (
  id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
  kind ENUM('dead','answers','alert') CHARACTER SET ascii NOT NULL COMMENT 'dead: a dead letter; answers: to commands; alert: about an alert',
  sender INT NOT NULL COMMENT 'who sends it. dead: the shard, whose leader does; answers: the partition of the commands, whose reader does; alert: 0, the judge of alerts does',
  made_at BIGINT NOT NULL COMMENT 'ms UTC',
  next_at BIGINT NOT NULL DEFAULT 0 COMMENT 'ms UTC: when it is tried again; 0 = at once, it was never tried',
  tries INT NOT NULL DEFAULT 0,
  error VARBINARY(500) NULL COMMENT 'of the latest try',
  topic VARBINARY(200) NOT NULL DEFAULT '' COMMENT 'its owner is the owner of the message. answers: the topic that the commands name; alert: its topic; empty = none',
  job_id BIGINT NULL COMMENT 'dead: the job, with attempt',
  attempt INT NULL,
  kafka_topic VARBINARY(249) NULL COMMENT 'answers: the Kafka topic that they are sent to',
  answers MEDIUMBLOB NULL COMMENT 'JSON: [{"topic":…,"key":…,"value":…,"headers":[[name,value],…]},…]; bytes as base64, null = none',
  alert BIGINT NULL COMMENT 'alert: alerts.id, even if that has ended; the columns after it are for alerts, too',
  target ENUM('topic','installation','kafka') CHARACTER SET ascii NULL COMMENT 'the topic''s alerts.url, the configuration''s, or the Kafka topic',
  type ENUM('began','reminded','ended') CHARACTER SET ascii NULL,
  alert_kind ENUM('overdue','backlog','dead','unreported','shard_halted','no_leader','kafka_unwritable','index_incomplete','inbox_errors','audit_corrected','no_dispatcher') CHARACTER SET ascii NULL,
  value BIGINT NULL,
  bound BIGINT NULL,
  began_at BIGINT NULL,
  KEY due (kind, sender, next_at, id),
  KEY by_job (job_id),
  KEY of_alert (alert, target, id),
  KEY of_topic (kafka_topic, next_at)
) ENGINE=InnoDB COMMENT='the outbox: messages that are sent to Kafka and webhooks at least once, written in the transaction of the change';

-- For each old table, one statement moves its rows and the next statement drops it. If this file runs again, it first
-- creates the dropped tables again, empty.
CREATE TABLE IF NOT EXISTS outbox (shard SMALLINT NOT NULL, job_id BIGINT NOT NULL, attempt INT NOT NULL, made_at BIGINT NOT NULL, id BIGINT NOT NULL PRIMARY KEY);
INSERT INTO messages (kind, sender, made_at, job_id, attempt)
SELECT 'dead', o.shard, o.made_at, o.job_id, o.attempt
  FROM outbox o
 WHERE NOT EXISTS (SELECT 1 FROM messages m WHERE m.job_id = o.job_id AND m.attempt = o.attempt)
 ORDER BY o.id;
DROP TABLE IF EXISTS outbox;

CREATE TABLE IF NOT EXISTS command_answers (kafka_partition INT NOT NULL, answers MEDIUMBLOB NOT NULL, created_at BIGINT NOT NULL, of_topic VARBINARY(200) NOT NULL, topic VARBINARY(249) NOT NULL, id BIGINT NOT NULL PRIMARY KEY);
INSERT INTO messages (kind, sender, made_at, topic, kafka_topic, answers)
SELECT 'answers', a.kafka_partition, a.created_at, a.of_topic, a.topic, a.answers
  FROM command_answers a
 WHERE NOT EXISTS (SELECT 1 FROM messages m WHERE m.kind = 'answers' AND m.sender = a.kafka_partition AND m.made_at = a.created_at AND m.topic = a.of_topic AND m.kafka_topic = a.topic AND m.answers = a.answers)
 ORDER BY a.id;
DROP TABLE IF EXISTS command_answers;

CREATE TABLE IF NOT EXISTS alert_messages (alert BIGINT NOT NULL, type VARCHAR(20) NOT NULL, target VARCHAR(20) NOT NULL, topic VARBINARY(200) NOT NULL, kind VARCHAR(30) NOT NULL, value BIGINT NOT NULL, bound BIGINT NOT NULL, began_at BIGINT NOT NULL, made_at BIGINT NOT NULL, next_at BIGINT NOT NULL, tries INT NOT NULL, error VARBINARY(500) NULL, id BIGINT NOT NULL PRIMARY KEY);
INSERT INTO messages (kind, sender, made_at, next_at, tries, error, topic, alert, target, type, alert_kind, value, bound, began_at)
SELECT 'alert', 0, a.made_at, IF(a.tries > 0, a.next_at, 0), a.tries, a.error, a.topic, a.alert, a.target, a.type, a.kind, a.value, a.bound, a.began_at
  FROM alert_messages a
 WHERE NOT EXISTS (SELECT 1 FROM messages m WHERE m.alert = a.alert AND m.target = CAST(a.target AS CHAR) AND m.type = CAST(a.type AS CHAR) AND m.made_at = a.made_at)
 ORDER BY a.id;
DROP TABLE IF EXISTS alert_messages;

-- defines v_commands 0fb636a52596
