UPDATE schema_migrations SET needs = 37 WHERE applied_at = 0;

-- The owner of a topic: what is shared out is shared by owner. It is decided when a topic is made, and again for all topics when a token is made or
-- revoked; dispatchers decide again each minute, also for rows that were edited by hand or were there before this column. They need the right to read
-- api_tokens (scopes, topics): print the grants again.

ALTER TABLE topics
  ADD COLUMN owner BIGINT NOT NULL DEFAULT 0 COMMENT 'hash of the prefixes of the token with the longest prefix that covers the name; without one, of the part before the first dot; 0 = not decided yet';
