-- The outbox: messages that have not arrived yet (features/outbox/outbox_store.h).

-- Returns the senders that have messages of a kind, the time at which the first message of each is due, and the current
-- time.
-- name: select_senders
SELECT m.sender, MIN(m.next_at), CAST(UNIX_TIMESTAMP(SYSDATE(3))*1000 AS SIGNED)
  FROM messages m FORCE INDEX (due)
 WHERE m.kind = ?
 GROUP BY m.sender;

-- Reads a page of a sender's messages, due or not. If several messages are for the same alert and target, only the
-- first is read, until it is deleted. The column after `alerts` says until when another answer for the same Kafka
-- topic, of any sender, is put off. The owner is the current owner of the message's topic. The texts of messages are
-- read when they are sent.
-- name: select_due_messages
SELECT m.id, m.next_at, m.tries, m.made_at, m.topic, t.owner, m.kafka_topic, m.alert, m.target + 0, m.type + 0, m.alert_kind + 0,
       m.value, m.bound, m.began_at, IF(m.target = 'topic', t.alerts, NULL),
       (SELECT MAX(e.next_at) FROM messages e FORCE INDEX (of_topic) WHERE e.kafka_topic = m.kafka_topic AND e.next_at > ?)
  FROM messages m FORCE INDEX (due)
  LEFT JOIN topics t FORCE INDEX (PRIMARY) ON t.name = m.topic
 WHERE m.kind = ?
   AND m.sender = ?
   AND (m.next_at > ? OR (m.next_at = ? AND m.id > ?))
   AND (? OR m.target IS NULL OR m.target <> 'kafka')
   AND NOT EXISTS (SELECT 1 FROM messages e FORCE INDEX (of_alert) WHERE e.alert = m.alert AND e.target = m.target AND e.id < m.id)
 ORDER BY m.next_at, m.id LIMIT 1024;

-- Postpones messages, so that no other process sends them meanwhile. A message that is only taken, not failed, keeps
-- its error.
-- name: put_off_messages
UPDATE JSON_TABLE(?, '$[*]' COLUMNS (id BIGINT PATH '$[0]', tries INT PATH '$[1]', pause BIGINT PATH '$[2]', more INT PATH '$[3]',
       error VARCHAR(500) CHARACTER SET utf8mb4 PATH '$[4]')) r
  STRAIGHT_JOIN messages m FORCE INDEX (PRIMARY) ON m.id = r.id
   AND m.tries = r.tries
   SET m.next_at = CAST(UNIX_TIMESTAMP(SYSDATE(3))*1000 AS SIGNED) + r.pause, m.tries = r.tries + r.more, m.error = COALESCE(r.error, m.error);

-- name: delete_messages
DELETE m
  FROM JSON_TABLE(?, '$[*]' COLUMNS (id BIGINT PATH '$')) r
  STRAIGHT_JOIN messages m FORCE INDEX (PRIMARY) ON m.id = r.id;
