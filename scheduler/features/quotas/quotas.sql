-- Quotas of tokens: the shares of the processes (features/quotas/quotas.h), and usage.

-- Inserts the row of process 0, which has no share. Every transaction on the shares of a token locks this row first.
-- name: insert_quota_lock
INSERT INTO quota_shares (token, process, until)
VALUES (?, 0, 0)
ON DUPLICATE KEY UPDATE until = VALUES(until);

-- name: lock_quota_shares
SELECT token, process, until, requests_demand, requests_share, jobs_demand, jobs_share, bytes_demand, bytes_share,
       jobs_left, left_at, pending_left, count_at
  FROM quota_shares FORCE INDEX (PRIMARY)
 WHERE token IN (?,...)
 ORDER BY token, process
   FOR UPDATE;

-- name: put_quota_shares
INSERT INTO quota_shares (token, process, until, requests_demand, requests_share, jobs_demand, jobs_share, bytes_demand,
     bytes_share)
VALUES (?,?,?,?,?,?,?,?,?)
ON DUPLICATE KEY UPDATE until = VALUES(until), requests_demand = VALUES(requests_demand),
       requests_share = VALUES(requests_share), jobs_demand = VALUES(jobs_demand), jobs_share = VALUES(jobs_share),
       bytes_demand = VALUES(bytes_demand), bytes_share = VALUES(bytes_share);

-- name: put_fire_quota
UPDATE quota_shares FORCE INDEX (PRIMARY)
   SET jobs_left = ?, left_at = ?, pending_left = ?, count_at = ?
 WHERE token = ?
   AND process = ?;

-- name: select_fire_quotas
SELECT name, topics, jobs_per_second, pending_jobs, scopes FROM api_tokens;

-- name: sum_pending
SELECT CAST(SUM(scheduled) + SUM(dispatched) AS SIGNED)
  FROM job_counts FORCE INDEX (PRIMARY)
 WHERE topic >= ?
   AND topic < ?;

-- Deletes the expired shares of a token.
-- name: delete_old_quota_shares
DELETE FROM quota_shares WHERE token = ? AND process <> 0 AND until < ?;

-- name: count_apis
SELECT COUNT(*)
  FROM processes
 WHERE kind = 'api'
   AND seen_at > CAST(UNIX_TIMESTAMP(SYSDATE(3))*1000 AS SIGNED) - ?;

-- Usage by token and day.

-- name: add_usage
INSERT INTO token_usage (day, token, requests, requests_refused, jobs, jobs_refused, payload_bytes)
VALUES (?,?,?,?,?,?,?)
ON DUPLICATE KEY UPDATE requests = requests + VALUES(requests),
       requests_refused = requests_refused + VALUES(requests_refused), jobs = jobs + VALUES(jobs),
       jobs_refused = jobs_refused + VALUES(jobs_refused), payload_bytes = payload_bytes + VALUES(payload_bytes);

-- name: delete_old_usage
DELETE FROM token_usage WHERE day < ? LIMIT 10000;

-- name: select_usage
SELECT token, CAST(SUM(requests) AS SIGNED), CAST(SUM(requests_refused) AS SIGNED), CAST(SUM(jobs) AS SIGNED),
       CAST(SUM(jobs_refused) AS SIGNED), CAST(SUM(payload_bytes) AS SIGNED)
  FROM token_usage FORCE INDEX (PRIMARY)
 WHERE day >= ?
 GROUP BY token;

-- name: select_pending_of_topics
SELECT c.topic, CAST(SUM(c.scheduled) + SUM(c.dispatched) AS SIGNED)
  FROM job_counts c
 GROUP BY c.topic;
