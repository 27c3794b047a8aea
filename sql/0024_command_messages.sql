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

-- defines v_commands 845eea5f1fa9
