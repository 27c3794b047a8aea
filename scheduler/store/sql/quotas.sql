-- Quotas of tokens: shares of the API processes (quotas/quotas.h).

-- The row of process 0 holds nothing; it is there to be locked first.
-- name: insert_quota_lock
INSERT INTO quota_shares (token, process, until)
VALUES (?, 0, 0)
ON DUPLICATE KEY UPDATE until = VALUES(until);

-- name: lock_quota_shares
SELECT token, process, until, requests_demand, requests_share, jobs_demand, jobs_share, bytes_demand, bytes_share
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

-- Of processes that are gone.
-- name: delete_old_quota_shares
DELETE FROM quota_shares WHERE token = ? AND process <> 0 AND until < ?;

-- name: count_apis
SELECT COUNT(*)
  FROM processes
 WHERE kind = 'api'
   AND seen_at > CAST(UNIX_TIMESTAMP(NOW(3))*1000 AS SIGNED) - ?;
