-- Bearer tokens, and the rule while there is none.

-- name: lock_token_rule
SELECT token_rule + 0 FROM installation FOR UPDATE;

-- name: set_token_rule
UPDATE installation
   SET token_rule = ?;

-- name: insert_token
INSERT INTO api_tokens (name, hash, scopes, topics, created_at)
VALUES (?, ?, ?, ?, ?);

-- name: delete_token
DELETE FROM api_tokens WHERE name = ?;

-- name: count_tokens
SELECT COUNT(*) FROM api_tokens;

-- name: select_token_rule
SELECT token_rule + 0 FROM installation;

-- name: select_tokens
SELECT name, hash, scopes, topics, created_at FROM api_tokens ORDER BY name;
