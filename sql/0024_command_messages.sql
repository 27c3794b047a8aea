-- Messages of <installation>.commands: how far they are done, and what is to be answered.

CREATE TABLE IF NOT EXISTS command_offsets (
  kafka_partition INT NOT NULL PRIMARY KEY,
  next_offset BIGINT NOT NULL COMMENT 'of the first message that is not done; changed in the transaction that does those before it',
  last_offset BIGINT NULL COMMENT 'of the last message that was done; NULL: there was none, or it is not to be compared',
  last_digest VARBINARY(16) NULL COMMENT 'of that message, by which a topic that was made anew is told from the one that was read',
  halted VARCHAR(500) CHARACTER SET utf8mb4 NULL COMMENT 'why the partition is not read, until somebody says where to go on; NULL: it is read',
  updated_at BIGINT NOT NULL COMMENT 'ms UTC'
) ENGINE=InnoDB COMMENT='where the messages of each partition of the commands topic are done up to';

CREATE TABLE IF NOT EXISTS command_answers (
  id BIGINT NOT NULL PRIMARY KEY AUTO_INCREMENT,
  kafka_partition INT NOT NULL COMMENT 'of a message that is answered; whoever reads it sends them',
  answers MEDIUMBLOB NOT NULL COMMENT 'JSON: [{"topic":…,"key":…,"value":…,"headers":[[name,value],…]},…]; bytes as base64, null = none',
  created_at BIGINT NOT NULL COMMENT 'ms UTC',
  KEY by_partition (kafka_partition, id)
) ENGINE=InnoDB COMMENT='answers to messages that were done, and messages that were refused, until they have left for Kafka';

CREATE OR REPLACE SQL SECURITY INVOKER VIEW v_commands AS
SELECT o.kafka_partition, o.next_offset, o.halted,
       (SELECT COUNT(*) FROM command_answers a WHERE a.kafka_partition = o.kafka_partition) AS answers_waiting,
       CAST('1970-01-01' + INTERVAL (LEAST(GREATEST(o.updated_at, -30610224000000), 253402300799999) * 1000) MICROSECOND AS DATETIME(3)) AS updated_at
  FROM command_offsets o;
