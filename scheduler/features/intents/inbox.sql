-- Rows of job_inbox: finding rows to carry out, removing them, and storing errors in rows.

-- name: look_at_inbox
SELECT id, COALESCE(LENGTH(payload), 0) + COALESCE(LENGTH(options), 0)
  FROM job_inbox FORCE INDEX (open_rows)
 WHERE is_open = 1
   AND id > ?
 ORDER BY id LIMIT ?;

-- Locks open rows. Skips rows that another session has locked: uncommitted rows, rows that another process carries out,
-- and rows that an operator has locked.
-- name: lock_inbox
SELECT id, action+0, topic, job_key, job_id, run_at, delay_ms, LEFT(payload, ?), LENGTH(payload), LEFT(options, ?),
       LENGTH(options), created_at
  FROM job_inbox FORCE INDEX (open_rows)
 WHERE is_open = 1
   AND id > ?
   AND id <= ?
 ORDER BY id LIMIT ?
   FOR UPDATE SKIP LOCKED; -- guard: INBOX_LOCK

-- Lists all committed rows in a range of ids. Must run after lock_inbox: a row that this statement returns and
-- lock_inbox did not is locked by another session.
-- name: select_inbox_names
SELECT id, topic, job_key, job_id
  FROM job_inbox FORCE INDEX (open_rows)
 WHERE is_open = 1
   AND id <= ?
 ORDER BY id LIMIT ?;

-- Deletes by id, because a scan of the table would wait for rows that applications have not committed.
-- name: delete_inbox
DELETE i
  FROM JSON_TABLE(?, '$[*]' COLUMNS (id BIGINT PATH '$')) t
  STRAIGHT_JOIN job_inbox i FORCE INDEX (PRIMARY) ON i.id = t.id;

-- name: set_inbox_errors
UPDATE JSON_TABLE(?, '$[*]' COLUMNS (id BIGINT PATH '$[0]', error VARCHAR(2000) CHARACTER SET utf8mb4 PATH '$[1]')) r
  STRAIGHT_JOIN job_inbox i FORCE INDEX (PRIMARY) ON i.id = r.id
   SET i.error = r.error, i.error_at = ?;

-- name: delete_old_inbox_errors
DELETE FROM job_inbox
 WHERE error_at < ?
   AND is_open IS NULL
 ORDER BY error_at
 LIMIT 1000;

-- name: count_inbox_errors
SELECT COUNT(*) FROM (SELECT 1 FROM job_inbox FORCE INDEX (open_rows) WHERE is_open IS NULL LIMIT 100000) e;

-- Reads the settings of a topic that its jobs get as defaults, or must fit.
-- name: select_intent_topic
SELECT retry, ack_timeout_ms, delivery + 0, callback_url IS NOT NULL, callback_timeout_ms, deletion IS NOT NULL FROM topics WHERE name = ?;

-- name: select_topic_of_job
SELECT j.topic FROM jobs j FORCE INDEX (PRIMARY) WHERE j.id = ? AND j.state = 'scheduled';

-- name: select_topic_of_key
SELECT j.topic
  FROM job_keys k FORCE INDEX (PRIMARY)
  STRAIGHT_JOIN jobs j FORCE INDEX (PRIMARY) ON j.id = k.job_id
 WHERE k.topic = ?
   AND k.job_key = ?
   AND j.state = 'scheduled';
