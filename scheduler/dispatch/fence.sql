-- Statements on the row of a shard. epoch, token and version are the fence: the shard's leader locks the row, compares
-- these columns and writes them. "-- guard: NAME" marks a condition that the mutation tests remove.

-- Locks the shard's row. The caller compares the first four columns with its fence.
-- name: lock_fence
SELECT s.epoch, s.token, s.version, s.halted, CAST(UNIX_TIMESTAMP(NOW(3))*1000 AS SIGNED),
       (SELECT generation FROM installation), (SELECT topics_version FROM installation)
  FROM shards s
 WHERE s.shard = ?
   FOR UPDATE;

-- Reads the columns of the fence without a lock.
-- name: check_fence
SELECT s.epoch, s.token, s.version, s.halted, i.generation, i.topics_version, i.shards
  FROM shards s
  JOIN installation i
 WHERE s.shard = ?;

-- The WHERE compares the fence of the locked row again.
-- name: write_fence
UPDATE shards
   SET version = version + 1, inflight = ?, send_n = ?, ledger_offset = ?, batch_no = ?
 WHERE shard = ?
   AND epoch = ?    -- guard: EPOCH, FENCE_IN_TAKEOVER, FENCE_IN_LEADER_TXN or: AND ? IS NOT NULL
   AND token = ?    -- guard: TOKEN, FENCE_IN_TAKEOVER, FENCE_IN_LEADER_TXN or: AND ? IS NOT NULL
   AND version = ?; -- guard: VERSION, FENCE_IN_TAKEOVER, FENCE_IN_LEADER_TXN or: AND ? IS NOT NULL

-- name: write_trim_offset
UPDATE shards
   SET version = version + 1, trim_offset = ledger_offset, trim_at = ?
 WHERE shard = ?
   AND epoch = ?
   AND token = ?
   AND version = ?;

-- name: remove_owner
UPDATE shards
   SET owner = NULL, owner_since = NULL
 WHERE shard = ?
   AND epoch = ?
   AND token = ?;

-- name: lock_for_takeover
SELECT epoch, version, ledger_offset, batch_no, inflight, send_n, trim_offset, trim_at, halted, index_at, index_epoch
  FROM shards
 WHERE shard = ?
   FOR UPDATE;

-- name: write_leadership
UPDATE shards
   SET epoch = ?, token = ?, version = ?, owner = ?, index_at = ?, index_epoch = ?,
       owner_since = CAST(UNIX_TIMESTAMP(SYSDATE(3))*1000 AS SIGNED)
 WHERE shard = ?;

-- name: halt_shard
UPDATE shards
   SET halted = LEFT(?, 500), version = version + 1
 WHERE shard = ?;
