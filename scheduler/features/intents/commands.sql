-- The commands topic: the offset up to which each partition was carried out, and the answers to commands.

-- name: select_command_offsets
SELECT kafka_partition, next_offset, last_offset, last_digest, halted
  FROM command_offsets FORCE INDEX (PRIMARY)
 WHERE kafka_partition IN (?,...)
 ORDER BY kafka_partition;

-- name: lock_command_offsets
SELECT kafka_partition, next_offset
  FROM command_offsets FORCE INDEX (PRIMARY)
 WHERE kafka_partition IN (?,...)
 ORDER BY kafka_partition
   FOR UPDATE;

-- name: insert_command_offset
INSERT IGNORE INTO command_offsets (kafka_partition, next_offset, updated_at) VALUES (?,?,?);

-- If fewer rows change than were requested, another reader has advanced the offset of a partition.
-- name: set_command_offsets
UPDATE JSON_TABLE(?, '$[*]' COLUMNS (kafka_partition INT PATH '$[0]', was BIGINT PATH '$[1]', next_offset BIGINT PATH '$[2]',
       last_offset BIGINT PATH '$[3]', last_digest VARCHAR(32) PATH '$[4]')) r
  STRAIGHT_JOIN command_offsets o FORCE INDEX (PRIMARY) ON o.kafka_partition = r.kafka_partition
   AND o.next_offset = r.was -- guard: COMMAND_PLACE
   SET o.next_offset = r.next_offset, o.last_offset = r.last_offset, o.last_digest = UNHEX(r.last_digest), o.halted = NULL,
       o.updated_at = ?;

-- Halts a partition. Changes nothing if its offset is not the one that the reader expects.
-- name: halt_commands
UPDATE command_offsets
   SET halted = ?, updated_at = ?
 WHERE kafka_partition = ?
   AND next_offset = ?;

-- name: insert_command_answers
INSERT INTO messages (kind, sender, topic, kafka_topic, answers, made_at)
SELECT 'answers', ?, r.of_topic, r.topic, r.answers, ?
  FROM JSON_TABLE(?, '$[*]' COLUMNS (of_topic VARCHAR(200) PATH '$[0]', topic VARCHAR(249) PATH '$[1]',
       answers MEDIUMTEXT CHARACTER SET utf8mb4 PATH '$[2]')) r;

-- name: select_command_answers
SELECT id, answers
  FROM messages FORCE INDEX (PRIMARY)
 WHERE id IN (?,...)
 ORDER BY id;
