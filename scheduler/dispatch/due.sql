-- Finds due jobs in the index `due` alone, which has all columns that are needed. Near jobs have due_band 1, and are
-- ordered by due_key and id. A statement reads one range of the index, without other conditions, because with one
-- MariaDB sometimes reads the rows, too.

-- Reads the jobs that have the given due_key and an id above the given one.
-- name: select_due_behind
SELECT id, due_key
  FROM jobs FORCE INDEX (due)
 WHERE due_band = 1
   AND due_key = ?
   AND id > ?
 ORDER BY id LIMIT ?;

-- name: select_due_between
SELECT id, due_key
  FROM jobs FORCE INDEX (due)
 WHERE due_band = 1
   AND due_key >= ?
   AND due_key < ?
 ORDER BY due_key, id LIMIT ?;

-- Reads at most a given number of jobs that are after (due_key, id) and were due before a given time; also whether the
-- job is held because its topic is paused. Reads two ranges of the index, and the rows of the jobs.
-- name: select_late_slice
SELECT d.id, d.due_key, IF(d.state = 'scheduled', COALESCE(t.paused, FALSE), FALSE)
  FROM (SELECT id, due_key, topic, state
          FROM jobs FORCE INDEX (due)
         WHERE due_band = 1
           AND (due_key = ? AND id > ? OR due_key > ? AND due_key < ?)
         ORDER BY due_key, id LIMIT ?) d
  LEFT JOIN topics t ON t.name = d.topic;

-- Returns 0 if no job was due before a given time, 1 if a job was, and 2 if a job was and some topic is paused.
-- name: is_anything_late
SELECT IF(EXISTS (SELECT 1 FROM jobs FORCE INDEX (due) WHERE due_band = 1 AND due_key >= 0 AND due_key < ?),
          1 + EXISTS (SELECT 1 FROM topics WHERE paused), 0);

-- name: select_nth_due
SELECT due_key
  FROM jobs FORCE INDEX (due)
 WHERE due_band = 1
   AND due_key >= ?
   AND due_key < ?
 ORDER BY due_key LIMIT 1 OFFSET ?;

-- name: count_due_by_slot
SELECT CRC32(id) % 1024 AS slot, COUNT(*)
  FROM jobs FORCE INDEX (due)
 WHERE due_band = 1
   AND due_key >= ?
   AND due_key < ?
 GROUP BY slot;

-- Calls sql/procedures/dt_wait.sql, which polls in the server while the caller waits.
-- name: wait
CALL dt_wait(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- Reads the current state of the given jobs. For a finished job, next_at is returned as 0.
-- name: select_truth
SELECT j.id, IF(j.state IN ('scheduled','dispatched'), GREATEST(j.next_at, 1), 0), j.state+0, j.topic,
       COALESCE(p.paused, 0), j.updated_at, (SELECT generation FROM installation), j.callback_url
  FROM JSON_TABLE(?, '$[*]' COLUMNS(id BIGINT PATH '$')) t
  STRAIGHT_JOIN jobs j FORCE INDEX (PRIMARY) ON j.id = t.id
  LEFT JOIN topics p ON p.name = j.topic
 ORDER BY j.id;

-- name: select_queues_of_jobs
SELECT j.id, j.state+0, j.topic, j.callback_url FROM jobs j FORCE INDEX (PRIMARY) WHERE j.id IN (?,...);
