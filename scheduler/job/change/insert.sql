-- New jobs and their keys; blocks of ids.

-- name: insert_key
INSERT INTO job_keys (topic, job_key, job_id)
VALUES (?,?,?)
ON DUPLICATE KEY UPDATE job_id = job_id;

-- Finds the jobs that have the given keys, and the time until which each of them keeps its key. A finished job keeps it
-- for history.keys, but not longer than the job itself is kept. One statement reads `jobs` and history, so that a job
-- that is being archived is found once.
-- name: select_key_owners
SELECT j.n, k.job_id,
       IF(o.id IS NULL,
          (SELECT h.digest
             FROM history_days d FORCE INDEX (PRIMARY)
             STRAIGHT_JOIN history h FORCE INDEX (PRIMARY) ON h.part = d.part AND h.id = k.job_id
            WHERE d.home_day = k.job_id DIV 1099511627776 LIMIT 1),
          o.digest),
       IF(o.id IS NULL,
          (SELECT h.key_until
             FROM history_days d FORCE INDEX (PRIMARY)
             STRAIGHT_JOIN history h FORCE INDEX (PRIMARY) ON h.part = d.part AND h.id = k.job_id
            WHERE d.home_day = k.job_id DIV 1099511627776 LIMIT 1),
          IF(o.next_at IS NULL AND o.purge_at IS NOT NULL, LEAST(o.purge_at, o.updated_at + ?), NULL)),
       o.state + 0
  FROM JSON_TABLE(?, '$[*]' COLUMNS(n INT PATH '$[0]', t VARCHAR(400) PATH '$[1]',
      k VARCHAR(510) PATH '$[2]')) j
  STRAIGHT_JOIN job_keys k FORCE INDEX (PRIMARY) ON k.topic = UNHEX(j.t) AND k.job_key = UNHEX(j.k)
  LEFT JOIN jobs o ON o.id = k.job_id;

-- name: take_key
UPDATE job_keys
   SET job_id = ?
 WHERE topic = ?
   AND job_key = ?
   AND job_id = ?;

-- name: delete_key
DELETE FROM job_keys WHERE topic = ? AND job_key = ? AND job_id = ?;

-- Statements for the ids of commands. Such an id is unique in the installation, so no topic is compared.
-- name: insert_command_id
INSERT INTO command_ids (id, job_id)
VALUES (?,?)
ON DUPLICATE KEY UPDATE job_id = job_id;

-- name: select_command_id_owners
SELECT j.n, c.job_id,
       IF(o.id IS NULL,
          (SELECT h.digest
             FROM history_days d FORCE INDEX (PRIMARY)
             STRAIGHT_JOIN history h FORCE INDEX (PRIMARY) ON h.part = d.part AND h.id = c.job_id
            WHERE d.home_day = c.job_id DIV 1099511627776 LIMIT 1),
          o.digest),
       IF(o.id IS NULL,
          (SELECT h.key_until
             FROM history_days d FORCE INDEX (PRIMARY)
             STRAIGHT_JOIN history h FORCE INDEX (PRIMARY) ON h.part = d.part AND h.id = c.job_id
            WHERE d.home_day = c.job_id DIV 1099511627776 LIMIT 1),
          IF(o.next_at IS NULL AND o.purge_at IS NOT NULL, LEAST(o.purge_at, o.updated_at + ?), NULL)),
       o.state + 0
  FROM JSON_TABLE(?, '$[*]' COLUMNS(n INT PATH '$[0]', t VARCHAR(400) PATH '$[1]',
      k VARCHAR(510) PATH '$[2]')) j
  STRAIGHT_JOIN command_ids c FORCE INDEX (PRIMARY) ON c.id = UNHEX(j.k)
  LEFT JOIN jobs o ON o.id = c.job_id;

-- name: take_command_id
UPDATE command_ids
   SET job_id = ?
 WHERE id = ?
   AND job_id = ?;

-- name: delete_command_id
DELETE FROM command_ids WHERE id = ? AND job_id = ?;

-- name: select_maker
SELECT maker, digest FROM jobs WHERE id = ?;

-- The shared lock waits until a session that may have inserted the row has ended its transaction.
-- name: find_made
SELECT 1 FROM jobs WHERE id = ? AND maker = ? LOCK IN SHARE MODE;

-- name: lock_next_id
SELECT next_id FROM id_sequence FOR UPDATE;

-- name: set_next_id
UPDATE id_sequence
   SET next_id = ?;
