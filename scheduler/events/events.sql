-- The audit log: who changed what (events/events.h).

-- name: insert_event
INSERT INTO job_events (at, actor, action, topic, job_id, subject, operation_id, was, became)
VALUES (?,?,?,?,?,?,?,?,?);

-- Reads a page of events, the newest first. Each of the four statements reads one index in order. The bounds of `at`
-- exclude partitions.
-- name: select_events
SELECT id, at, actor, action, topic, job_id, subject, operation_id, was, became
  FROM job_events FORCE INDEX (PRIMARY)
 WHERE id < ?
   AND at >= ?
   AND at < ?
 ORDER BY id DESC LIMIT ?;

-- name: select_events_of_job
SELECT id, at, actor, action, topic, job_id, subject, operation_id, was, became
  FROM job_events FORCE INDEX (by_job)
 WHERE job_id = ?
   AND id < ?
   AND at >= ?
   AND at < ?
 ORDER BY id DESC LIMIT ?;

-- name: select_events_of_topic
SELECT id, at, actor, action, topic, job_id, subject, operation_id, was, became
  FROM job_events FORCE INDEX (by_topic)
 WHERE topic = ?
   AND id < ?
   AND at >= ?
   AND at < ?
 ORDER BY id DESC LIMIT ?;

-- name: select_events_of_actor
SELECT id, at, actor, action, topic, job_id, subject, operation_id, was, became
  FROM job_events FORCE INDEX (by_actor)
 WHERE actor = ?
   AND id < ?
   AND at >= ?
   AND at < ?
 ORDER BY id DESC LIMIT ?;

-- Reads the days that have a partition, as numbers of days since 1970.
-- name: select_event_days
SELECT CAST(SUBSTR(partition_name, 2) AS SIGNED)
  FROM information_schema.partitions
 WHERE table_schema = DATABASE()
   AND table_name = 'job_events'
   AND partition_name LIKE 'd%'
 ORDER BY partition_ordinal_position;
