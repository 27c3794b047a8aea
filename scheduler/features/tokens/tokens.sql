-- Bearer tokens, and the rule that applies while there are none.

-- name: lock_token_rule
SELECT token_rule + 0 FROM installation FOR UPDATE;

-- name: set_token_rule
UPDATE installation
   SET token_rule = ?;

-- name: insert_token
INSERT INTO api_tokens (name, hash, scopes, topics, created_at, requests_per_second, jobs_per_second,
     payload_bytes_per_second, pending_jobs)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: delete_token
DELETE FROM api_tokens WHERE name = ?;

-- name: count_tokens
SELECT COUNT(*) FROM api_tokens;

-- name: select_prefixes
SELECT scopes, topics FROM api_tokens;

-- name: select_tokens
-- If there are no tokens, returns one row, which has only the rule.
SELECT t.name, t.hash, t.scopes, t.topics, t.created_at, t.requests_per_second, t.jobs_per_second,
       t.payload_bytes_per_second, t.pending_jobs, i.token_rule + 0
  FROM installation i
       LEFT JOIN api_tokens t ON TRUE
 WHERE i.one = 1
 ORDER BY t.name;

-- name: lock_token
SELECT scopes, topics, requests_per_second, jobs_per_second, payload_bytes_per_second, pending_jobs
  FROM api_tokens
 WHERE name = ?
   FOR UPDATE;

-- name: set_token_quotas
UPDATE api_tokens
   SET requests_per_second = ?, jobs_per_second = ?, payload_bytes_per_second = ?, pending_jobs = ?
 WHERE name = ?;
