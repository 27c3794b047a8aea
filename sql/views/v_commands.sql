-- How far each partition of the commands topic is processed.
CREATE OR REPLACE SQL SECURITY INVOKER VIEW v_commands AS
SELECT o.kafka_partition, o.next_offset, o.halted,
       (SELECT COUNT(*) FROM messages m WHERE m.kind = 'answers' AND m.sender = o.kafka_partition) AS answers_waiting,
       CAST('1970-01-01' + INTERVAL (LEAST(GREATEST(o.updated_at, -30610224000000), 253402300799999) * 1000) MICROSECOND AS DATETIME(3)) AS updated_at
  FROM command_offsets o;
