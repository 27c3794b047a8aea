-- Offers of due jobs to clients that pop, and claims of offers.

-- ---- offers; written by leaders ----

-- name: insert_offers
INSERT INTO pop_queue (topic, due_at, job_id)
VALUES (?,?,?)
ON DUPLICATE KEY UPDATE job_id = VALUES(job_id);

-- Marks locked rows as offered. Scans for due jobs skip these rows until the job is claimed or its time changes.
-- name: mark_offered
UPDATE jobs j FORCE INDEX (PRIMARY) SET j.near = -1 WHERE j.id IN (?,...);

-- ---- looking ----

-- Reads the delivery of topics, whether they are paused, and whether any of their jobs is offered.
-- name: look_at_offers
SELECT t.place, p.delivery + 0, p.paused,
       EXISTS (SELECT 1 FROM pop_queue q FORCE INDEX (PRIMARY) WHERE q.topic = p.name)
  FROM JSON_TABLE(?, '$[*]' COLUMNS(place FOR ORDINALITY, name VARCHAR(200) CHARACTER SET utf8mb4 PATH '$')) t
  STRAIGHT_JOIN topics p FORCE INDEX (PRIMARY) ON p.name = CAST(t.name AS BINARY);

-- ---- the claim ----

-- name: select_pop_topic
SELECT delivery + 0, paused, max_in_flight IS NOT NULL OR rate_limit IS NOT NULL FROM topics WHERE name = ?;

-- name: lock_offers
SELECT q.due_at, q.job_id
  FROM pop_queue q FORCE INDEX (PRIMARY)
 WHERE q.topic = ?
   AND q.due_at >= ?
   AND q.due_at <= ?
   AND (q.due_at > ? OR q.job_id > ?)
 ORDER BY q.due_at, q.job_id LIMIT ?
   FOR UPDATE SKIP LOCKED; -- guard: POP_LOCK

-- Returns whether a topic has a due offer. Locks nothing, so it also finds offers that other sessions have locked.
-- name: find_due_offer
SELECT 1 FROM pop_queue q FORCE INDEX (PRIMARY) WHERE q.topic = ? AND q.due_at <= ? LIMIT 1;

-- Locks the jobs of offers. Skips jobs that other sessions have locked. The last column but one is the size of the
-- payload.
-- name: lock_offered
SELECT j.id, j.state+0, j.attempt, GREATEST(j.next_at, 1), j.claim_shard,
       LEAST(j.ack_timeout_ms, 3155760000000), LENGTH(j.payload), j.topic
  FROM jobs j FORCE INDEX (PRIMARY)
 WHERE j.id IN (?,...)
 ORDER BY j.id
   FOR UPDATE SKIP LOCKED; -- guard: POP_LOCK

-- Claims the jobs. Columns are computed from the row itself, which has not changed since the transaction locked it. No
-- shard has claimed a popped attempt, so claim_shard is -1.
-- name: pop_jobs
UPDATE jobs j FORCE INDEX (PRIMARY)
   SET j.state = 'dispatched', j.attempt = LEAST(j.attempt + 1, 1999999999), j.attempt_status = 'dispatched',
       j.due_at = IF(j.next_at > 1, j.next_at, ?), j.dispatched_at = ?, j.finished_at = 0, j.claim_shard = -1,
       j.ttr_ms = ?, j.http_status = 0, j.duration_ms = -1, j.next_at = ? + COALESCE(?, LEAST(j.ack_timeout_ms, 3155760000000)),
       j.near = (? + COALESCE(?, LEAST(j.ack_timeout_ms, 3155760000000)) < ?), j.updated_at = ?,
       j.version = LEAST(j.version + 1, 1999999999)
 WHERE j.state = 'scheduled' -- guard: POP_STATE, POP_LOCK or: WHERE TRUE
   AND j.next_at <= ?        -- guard: POP_DUE, POP_LOCK or: AND ? IS NOT NULL
   AND j.id IN (?,...);

-- name: delete_offers
DELETE q
  FROM JSON_TABLE(?, '$[*]' COLUMNS(due_at BIGINT PATH '$[0]', id BIGINT PATH '$[1]')) t
  STRAIGHT_JOIN pop_queue q FORCE INDEX (PRIMARY) ON q.topic = ? AND q.due_at = t.due_at AND q.job_id = t.id;

-- Removes the mark `offered` from jobs whose offer is missing or stale, so that scans find these jobs again.
-- name: mark_not_offered
UPDATE jobs j FORCE INDEX (PRIMARY)
   SET j.near = (j.next_at < ?)
 WHERE j.near = -1
   AND j.next_at IS NOT NULL
   AND j.id IN (?,...);

-- ---- housekeeping ----

-- Reads jobs marked as offered, in the order of their times; also whether the offer exists, and the delivery of the
-- topic.
-- name: select_offered
SELECT j.id, j.due_key, j.topic, p.delivery + 0,
       EXISTS (SELECT 1 FROM pop_queue q FORCE INDEX (PRIMARY)
                WHERE q.topic = j.topic AND q.due_at = GREATEST(j.next_at, 1) AND q.job_id = j.id)
  FROM jobs j FORCE INDEX (due)
  LEFT JOIN topics p ON p.name = j.topic
 WHERE j.due_band = -1
   AND j.due_key >= ?
   AND (j.due_key > ? OR j.id > ?)
 ORDER BY j.due_key, j.id LIMIT ?;

-- Finds the next topic that has offers.
-- name: select_next_offering
SELECT q.topic FROM pop_queue q FORCE INDEX (PRIMARY) WHERE q.topic > ? ORDER BY q.topic LIMIT 1;

-- Reads the offers of a topic, and whether the job of each still waits for a pop.
-- name: select_offers
SELECT q.due_at, q.job_id, COALESCE(j.near = -1 AND GREATEST(j.next_at, 1) = q.due_at, 0)
  FROM pop_queue q FORCE INDEX (PRIMARY)
  LEFT JOIN jobs j ON j.id = q.job_id
 WHERE q.topic = ?
   AND q.due_at >= ?
   AND (q.due_at > ? OR q.job_id > ?)
 ORDER BY q.due_at, q.job_id LIMIT ?;
