-- Settings of topics. Every change is made under the lock of the row of `installation`.

-- name: select_topic
SELECT name, kafka_topic, retry, ack_timeout_ms, retention_ms, paused, created_at, updated_at, version, delivery + 0,
       callback_url, callback_hosts, callback_headers, callback_secret, callback_timeout_ms, max_in_flight, rate_limit, deletion,
       alerts, owner
  FROM topics
 WHERE name = ?;

-- name: select_topics
SELECT name, kafka_topic, retry, ack_timeout_ms, retention_ms, paused, created_at, updated_at, version, delivery + 0,
       callback_url, callback_hosts, callback_headers, callback_secret, callback_timeout_ms, max_in_flight, rate_limit, deletion,
       alerts, owner
  FROM topics
 WHERE name > ?
 ORDER BY name LIMIT ?;

-- name: select_topics_between
SELECT name, kafka_topic, retry, ack_timeout_ms, retention_ms, paused, created_at, updated_at, version, delivery + 0,
       callback_url, callback_hosts, callback_headers, callback_secret, callback_timeout_ms, max_in_flight, rate_limit, deletion,
       alerts, owner
  FROM topics
 WHERE name > ?
   AND name >= ?
   AND name < ?
 ORDER BY name LIMIT ?;

-- name: lock_topics
SELECT name FROM installation FOR UPDATE;

-- The step is random. So if MySQL is restored from an older copy, it does not repeat a version that processes have read
-- before.
-- name: raise_topics_version
UPDATE installation
   SET topics_version = topics_version + ?;

-- name: find_kafka_clash
SELECT 1
  FROM topics FORCE INDEX (kafka_fold)
 WHERE kafka_fold = REPLACE(?, '.', '_')
   AND kafka_name <> ?
   AND name <> ?
 LIMIT 1;

-- name: find_topic
SELECT delivery + 0 FROM topics WHERE name = ?;

-- name: select_owner
SELECT owner FROM topics WHERE name = ?;

-- name: find_topic_as_named
SELECT 1 FROM topics WHERE name = ? AND kafka_name = ?;

-- name: count_topics
SELECT COUNT(*) FROM topics WHERE name >= ? AND name < ?;

-- name: insert_topic
INSERT INTO topics (name, delivery, kafka_topic, retry, ack_timeout_ms, retention_ms, paused, callback_url, callback_hosts, callback_headers,
     callback_secret, callback_timeout_ms, max_in_flight, rate_limit, alerts, owner, created_at, updated_at)
VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?);

-- name: set_owner
UPDATE topics
   SET owner = ?
 WHERE name >= ?
   AND name <= ?;

-- name: select_owners
SELECT name, owner FROM topics WHERE name > ? ORDER BY name LIMIT ?;

-- name: select_topic_version
SELECT version FROM topics WHERE name = ?;

-- Writes the row only if a value changes.
-- name: update_topic
UPDATE topics
   SET delivery = COALESCE(?, delivery), kafka_topic = ?, retry = ?, ack_timeout_ms = ?, retention_ms = ?, paused = IF(?, paused, ?),
       callback_url = ?, callback_hosts = ?, callback_headers = ?, callback_secret = ?, callback_timeout_ms = ?,
       max_in_flight = ?, rate_limit = ?, alerts = ?, updated_at = ?, version = LEAST(version, 9223372036854775806) + 1
 WHERE name = ?
   AND NOT (delivery = COALESCE(?, delivery) AND kafka_topic <=> ? AND retry <=> ? AND ack_timeout_ms <=> ? AND retention_ms <=> ?
            AND (? OR paused = ?) AND callback_url <=> ? AND callback_hosts <=> ? AND callback_headers <=> ? AND callback_secret <=> ?
            AND callback_timeout_ms <=> ? AND max_in_flight <=> ? AND rate_limit <=> ? AND alerts <=> ?);

-- name: pause_topic
UPDATE topics
   SET paused = ?, updated_at = ?, version = LEAST(version, 9223372036854775806) + 1
 WHERE name = ?
   AND paused <> ?;

-- name: select_overdue
SELECT CAST(UNIX_TIMESTAMP(NOW(3))*1000 AS SIGNED)
       - MIN(IF(topic = ? AND state = 'scheduled' AND due_key > 1, due_key, NULL))
  FROM (SELECT topic, state, due_key
          FROM jobs FORCE INDEX (due)
         WHERE due_band = 1
           AND due_key < CAST(UNIX_TIMESTAMP(NOW(3))*1000 AS SIGNED)
         ORDER BY due_key LIMIT ?) due;

-- Reads the settings of topics that leaders keep in memory.
-- name: select_topic_snapshot
SELECT name, kafka_name, paused, delivery + 0, callback_url, callback_hosts, callback_headers, callback_secret,
       callback_timeout_ms, ack_timeout_ms, max_in_flight IS NOT NULL OR rate_limit IS NOT NULL, owner
  FROM topics
 ORDER BY name;

-- Counts the unfinished jobs of a topic that is being deleted (features/operations/topic_deletion.c).
-- name: count_live_jobs
SELECT CAST(SUM(scheduled) AS SIGNED), CAST(SUM(dispatched) AS SIGNED) FROM job_counts FORCE INDEX (PRIMARY) WHERE topic = ?;

-- Finds the running operation that deletes a topic.
-- name: find_deletion
SELECT o.id
  FROM topics t
  STRAIGHT_JOIN operations o FORCE INDEX (PRIMARY) ON o.id = t.deletion
 WHERE t.name = ?
   AND o.state = 'running';

-- name: mark_topic
UPDATE topics
   SET deletion = ?, updated_at = ?, version = LEAST(version, 9223372036854775806) + 1
 WHERE name = ?;

-- name: unmark_topic
UPDATE topics
   SET deletion = NULL, updated_at = ?, version = LEAST(version, 9223372036854775806) + 1
 WHERE name = ?
   AND deletion = ?;

-- name: find_schedule_of_topic
SELECT name FROM schedules FORCE INDEX (topic) WHERE topic = ? LIMIT 1;

-- name: delete_gate
DELETE FROM topic_gates WHERE topic = ?;

-- name: delete_topic
DELETE FROM topics WHERE name = ?;

-- name: remember_deleted_topic
REPLACE INTO deleted_topics (name, deleted_at)
VALUES (?,?);

-- name: find_wanted_topics
SELECT d.name
  FROM deleted_topics d
 WHERE NOT EXISTS (SELECT 1 FROM topics t WHERE t.name = d.name)
   AND (SELECT SUM(c.scheduled + c.dispatched) FROM job_counts c FORCE INDEX (PRIMARY) WHERE c.topic = d.name) > 0
 LIMIT ?;

-- name: forget_deleted_topics
DELETE FROM deleted_topics WHERE deleted_at < ? ORDER BY deleted_at LIMIT 1000;
