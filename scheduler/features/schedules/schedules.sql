-- Schedules and their fires. A transaction on a schedule locks its row of schedule_fires before any other row.

-- name: enter_schedule
INSERT INTO schedule_fires (name)
VALUES (?)
ON DUPLICATE KEY UPDATE name = name;

-- name: lock_schedule
SELECT name FROM schedule_fires WHERE name = ? FOR UPDATE;

-- Locks schedules of an owner that are due for a check. Skips schedules that another process has locked. If another
-- session has locked the settings, or they are missing, all of their columns are NULL.
-- name: lock_due_schedules
SELECT f.name, s.topic, s.cron, s.every_ms, s.anchor_at, s.time_zone, s.starts_at, s.ends_at, s.overlap + 0,
       s.catch_up_ms, s.catch_up_max, s.jitter_ms, s.paused, s.created_at, s.updated_at, s.version, s.digest,
       s.retry, s.ack_timeout_ms, s.partition_key, s.headers, s.callback_url, s.content_type, s.payload_binary, s.payload,
       f.next_fire_at, f.last_fire_at, f.last_job_id, f.zone_stamp, f.error, f.error_at, f.look_at, f.owner, f.waits_since
  FROM schedule_fires f FORCE INDEX (turns)
  LEFT JOIN schedules s FORCE INDEX (PRIMARY) ON s.name = f.name
 WHERE f.owner = ?
   AND f.look_at <= ?
 ORDER BY f.look_at LIMIT ?
   FOR UPDATE SKIP LOCKED;

-- Returns for each owner when the next schedule is due for a check. Reads one entry of the index for each owner.
-- name: select_schedule_turns
SELECT owner, MIN(look_at), CAST(UNIX_TIMESTAMP(NOW(3))*1000 AS SIGNED)
  FROM schedule_fires FORCE INDEX (turns)
 GROUP BY owner;

-- name: count_schedules
SELECT COUNT(*) FROM schedules FORCE INDEX (topic) WHERE topic >= ? AND topic < ?;

-- name: select_schedule
SELECT s.name, s.topic, s.cron, s.every_ms, s.anchor_at, s.time_zone, s.starts_at, s.ends_at, s.overlap + 0,
       s.catch_up_ms, s.catch_up_max, s.jitter_ms, s.paused, s.created_at, s.updated_at, s.version, s.digest,
       s.retry, s.ack_timeout_ms, s.partition_key, s.headers, s.callback_url, s.content_type, s.payload_binary, s.payload,
       f.next_fire_at, f.last_fire_at, f.last_job_id, f.zone_stamp, f.error, f.error_at, f.look_at, f.owner, f.waits_since
  FROM schedules s
  JOIN schedule_fires f ON f.name = s.name
 WHERE s.name = ?;

-- name: select_schedules
SELECT s.name, s.topic, s.cron, s.every_ms, s.anchor_at, s.time_zone, s.starts_at, s.ends_at, s.overlap + 0,
       s.catch_up_ms, s.catch_up_max, s.jitter_ms, s.paused, s.created_at, s.updated_at, s.version, s.digest,
       s.retry, s.ack_timeout_ms, s.partition_key, s.headers, s.callback_url, s.content_type, s.payload_binary, '',
       f.next_fire_at, f.last_fire_at, f.last_job_id, f.zone_stamp, f.error, f.error_at, f.look_at, f.owner, f.waits_since
  FROM schedules s FORCE INDEX (PRIMARY)
  JOIN schedule_fires f ON f.name = s.name
 WHERE s.name > ?
 ORDER BY s.name LIMIT ?;

-- name: put_schedule
REPLACE INTO schedules (name, topic, cron, every_ms, anchor_at, time_zone, starts_at, ends_at, overlap, catch_up_ms,
                        catch_up_max, jitter_ms, paused, created_at, updated_at, version, digest, retry,
                        ack_timeout_ms, partition_key, headers, callback_url, content_type, payload_binary, payload)
VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?);

-- name: delete_schedule
DELETE FROM schedules WHERE name = ?;

-- name: delete_schedule_fires
DELETE FROM schedule_fires WHERE name = ?;

-- name: put_schedule_fires
INSERT INTO schedule_fires (name, next_fire_at, look_at, last_fire_at, last_job_id, zone_stamp, error, error_at,
     owner, waits_since)
VALUES (?,?,?,?,?,?,?,?,?,?)
ON DUPLICATE KEY UPDATE next_fire_at = VALUES(next_fire_at), look_at = VALUES(look_at),
       last_fire_at = VALUES(last_fire_at), last_job_id = VALUES(last_job_id), zone_stamp = VALUES(zone_stamp),
       error = VALUES(error), error_at = VALUES(error_at), owner = VALUES(owner), waits_since = VALUES(waits_since);

-- Finds the schedule to which a key of a fire belongs, by the name in the key.
-- name: find_schedule_of_key
SELECT 1 FROM schedules WHERE name = ? AND topic = ?;

-- Reads the unfinished fires in a range of keys, and the fire that was made last: if its time has more digits than the
-- others, its key is not in the range.
-- name: select_pending_fires
SELECT j.id, GREATEST(j.next_at, 1), k.job_key
  FROM job_keys k FORCE INDEX (PRIMARY)
  STRAIGHT_JOIN jobs j FORCE INDEX (PRIMARY) ON j.id = k.job_id
 WHERE k.topic = ?
   AND (k.job_key > ? AND k.job_key < ? OR k.job_key = ?)
   AND j.state = 'scheduled'
   AND j.attempt = 0
 ORDER BY k.job_key;

-- name: find_unfinished
SELECT no_retries FROM jobs WHERE id = ? AND state IN ('scheduled','dispatched');

-- Cancels the job of a fire that will not run. The last error of the job is the reason. Until the fire's time has
-- passed, return_fire can schedule the job again.
-- name: end_fire
UPDATE jobs
   SET state = 'cancelled', next_at = NULL, finished_at = ?, error_code = ?, error_message = ?, error_at = ?,
       leave_at = ?,
       purge_at = GREATEST(? + LEAST(COALESCE((SELECT t.retention_ms FROM topics t WHERE t.name = jobs.topic), ?),
                                     7223372036854775807), leave_at),
       version = LEAST(version + 1, 1999999999), updated_at = ?
 WHERE id = ?
   AND state = 'scheduled'
   AND attempt = 0;

-- Schedules the job of a withdrawn fire again, with the current settings of the schedule.
-- name: return_fire
UPDATE jobs
   SET state = 'scheduled', run_at = ?, next_at = ?, near = ?, finished_at = 0, error_code = NULL,
       error_message = NULL, error_at = NULL, purge_at = NULL, leave_at = 0, version = LEAST(version + 1, 1999999999), updated_at = ?,
       digest = ?, retry = ?, ack_timeout_ms = ?, partition_key = ?, headers = ?, callback_url = ?,
       content_type = ?, payload_binary = ?, payload = ?
 WHERE id = ?
   AND state = 'cancelled'
   AND error_code = 'withdrawn';

-- name: select_schedule_zones
SELECT DISTINCT time_zone FROM schedules FORCE INDEX (time_zone);

-- Makes schedules due for a check if their fires were computed with another version of tzdata.
-- name: look_at_zone
UPDATE schedules s FORCE INDEX (time_zone)
  STRAIGHT_JOIN schedule_fires f ON f.name = s.name
   SET f.look_at = 0
 WHERE s.time_zone = ?
   AND f.zone_stamp <> ?
   AND f.look_at IS NOT NULL;
