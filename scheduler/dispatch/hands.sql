-- Attempts in the hands of a process: the process has claimed them for a callback, and their outcome is not recorded
-- yet. tests/model/callbacks.pml models the protocol.

-- name: own_hands
INSERT INTO hand_owners (owner, name, timeout_ms, renewed_at)
VALUES (?, ?, ?, CAST(UNIX_TIMESTAMP(SYSDATE(3))*1000 AS SIGNED));

-- If MySQL was restored from an older copy, the row has fewer renewals than its owner remembers, and the statement
-- changes no row.
-- name: renew_hands
UPDATE hand_owners
   SET renewed_at = CAST(UNIX_TIMESTAMP(SYSDATE(3))*1000 AS SIGNED), renewals = renewals + 1
 WHERE owner = ?
   AND renewals >= ? -- guard: CALL_RENEWALS or: AND ? IS NOT NULL
   AND renewals <= ?;

-- name: disown_hands
DELETE FROM hand_owners WHERE owner = ?;

-- Deletes owners that expired more than a minute ago.
-- name: forget_hand_owners
DELETE FROM hand_owners
 WHERE renewed_at + timeout_ms < CAST(UNIX_TIMESTAMP(SYSDATE(3))*1000 AS SIGNED) - 60000;

-- Reads the jobs above a given id that have an attempt in the hands of an owner that has expired or has no row. If any
-- owner has a row, one more row is returned, with the id -1: attempts may be lost later.
-- name: select_lost
(SELECT h.job_id
   FROM hands h FORCE INDEX (PRIMARY)
   LEFT JOIN hand_owners o FORCE INDEX (PRIMARY) ON o.owner = h.owner
  WHERE h.job_id > ?
    AND (o.owner IS NULL OR o.renewed_at + o.timeout_ms <= CAST(UNIX_TIMESTAMP(SYSDATE(3))*1000 AS SIGNED))
  ORDER BY h.job_id LIMIT ?)
UNION ALL
(SELECT -1 FROM hand_owners LIMIT 1);

-- Deletes attempts whose owner has expired or has no row, and whose job is not in `jobs` any more: there is nothing to
-- end.
-- name: delete_hands_of_no_job
DELETE h
  FROM hands h
  LEFT JOIN hand_owners o ON o.owner = h.owner
 WHERE (o.owner IS NULL OR o.renewed_at + o.timeout_ms <= CAST(UNIX_TIMESTAMP(SYSDATE(3))*1000 AS SIGNED))
   AND NOT EXISTS (SELECT 1 FROM jobs j WHERE j.id = h.job_id);

-- Returns which of the locked jobs have an attempt in the hands of a process, and whether that process is live.
-- name: find_in_hands
SELECT h.job_id, h.attempt, COALESCE(o.renewed_at + o.timeout_ms, 0) > CAST(UNIX_TIMESTAMP(SYSDATE(3))*1000 AS SIGNED)
  FROM hands h FORCE INDEX (PRIMARY)
  LEFT JOIN hand_owners o FORCE INDEX (PRIMARY) ON o.owner = h.owner
 WHERE h.job_id IN (?,...)
 ORDER BY h.job_id;

-- name: find_hand
SELECT 1 FROM hands WHERE job_id = ?;

-- name: insert_hands
INSERT INTO hands (job_id, attempt, shard, owner)
VALUES (?,?,?,?);

-- name: delete_hands
DELETE h
  FROM JSON_TABLE(?, '$[*]' COLUMNS (id BIGINT PATH '$')) t
  STRAIGHT_JOIN hands h FORCE INDEX (PRIMARY) ON h.job_id = t.id;

-- Waits until another transaction that has locked the shard's row has ended.
-- name: lock_shard_of_hands
SELECT shard FROM shards WHERE shard = ?
   FOR UPDATE; -- guard: CALL_DOUBT_HAS_ENDED

-- name: select_hands_of_shard
SELECT job_id, attempt FROM hands WHERE owner = ? AND shard = ? ORDER BY job_id;

-- name: give_hands_away
UPDATE hands h FORCE INDEX (PRIMARY) SET h.owner = 0 WHERE h.owner = ? AND h.job_id IN (?,...);

-- Returns the owner of each attempt. The caller thereby learns which attempts it still owns.
-- name: select_hands
SELECT h.job_id, h.attempt, h.owner
  FROM hands h FORCE INDEX (PRIMARY)
 WHERE h.job_id IN (?,...)
 ORDER BY h.job_id;

-- Stores the status and duration of HTTP answers that do not end their attempt: the result changed nothing, or the
-- answer announces a later report. While the attempt has a row in `hands`, no later attempt of the job begins.
-- name: write_answers
UPDATE JSON_TABLE(?, '$[*]' COLUMNS (id BIGINT PATH '$[0]', attempt BIGINT PATH '$[1]', http_status INT PATH '$[2]',
       duration_ms INT PATH '$[3]')) r
  STRAIGHT_JOIN jobs j FORCE INDEX (PRIMARY) ON j.id = r.id
   SET j.http_status = COALESCE(r.http_status, 0), j.duration_ms = COALESCE(r.duration_ms, -1)
 WHERE j.attempt = r.attempt;

-- name: delete_answered_hands
DELETE h
  FROM JSON_TABLE(?, '$[*]' COLUMNS (id BIGINT PATH '$[0]', attempt BIGINT PATH '$[1]', owner BIGINT PATH '$[2]')) t
  STRAIGHT_JOIN hands h FORCE INDEX (PRIMARY) ON h.job_id = t.id
 WHERE h.attempt = t.attempt AND h.owner = t.owner; -- guard: CALL_OUTCOME
