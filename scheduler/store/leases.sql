-- Elections by leases in MySQL: members, which renew themselves, and the shards that each member holds.

-- name: join_election
INSERT INTO election_members (id, name, timeout_ms, joined_at, renewed_at)
VALUES (?, ?, ?, CAST(UNIX_TIMESTAMP(SYSDATE(3))*1000 AS SIGNED), CAST(UNIX_TIMESTAMP(SYSDATE(3))*1000 AS SIGNED));

-- name: forget_ended_members
DELETE FROM election_members
 WHERE ended AND renewed_at < CAST(UNIX_TIMESTAMP(SYSDATE(3))*1000 AS SIGNED) - 60000;

-- name: renew_member
-- `renewals` changes the row even if a member renews itself twice in one millisecond.
UPDATE election_members
   SET renewed_at = CAST(UNIX_TIMESTAMP(SYSDATE(3))*1000 AS SIGNED), renewals = renewals + 1, leaving = ?
 WHERE id = ? AND NOT ended;

-- Renews the member and reads the election, in one round trip: sql/procedures/dt_renew_member.sql.
-- name: renew_and_look
CALL dt_renew_member(?, ?, ?);

-- name: end_member
UPDATE election_members
   SET ended = TRUE
 WHERE id = ?;

-- name: end_silent_member
-- Ends a member that was not renewed in time. The row is locked while the WHERE checks it: if a renewal comes first,
-- the member does not end; if it comes later, it finds that the member has ended. A renewed_at in the future means that
-- the clock was set back; then the member ends, too.
UPDATE election_members
   SET ended = TRUE
 WHERE id = ? AND renewals = ? AND NOT ended
   AND (CAST(UNIX_TIMESTAMP(SYSDATE(3))*1000 AS SIGNED) >= renewed_at + timeout_ms
    OR CAST(UNIX_TIMESTAMP(SYSDATE(3))*1000 AS SIGNED) < renewed_at);

-- name: free_leases
-- Frees the leases of members that have ended, and of members without a row (after a manual edit).
DELETE l
  FROM leases l
  LEFT JOIN election_members m ON m.id = l.member
 WHERE m.id IS NULL OR m.ended;

-- name: take_leases
INSERT INTO leases (shard, member)
SELECT s.shard, m.id
  FROM election_members m
  JOIN shards s FORCE INDEX (PRIMARY)
  LEFT JOIN leases l ON l.shard = s.shard
 WHERE m.id = ? AND NOT m.ended AND l.shard IS NULL AND s.shard IN (?,...);

-- name: release_leases
DELETE FROM leases
 WHERE member = ? AND shard IN (?,...);

-- name: select_election
-- Returns one row for each shard that a member holds, and one row for each member without shards. The last column is
-- the number of live dispatchers that use ZooKeeper for elections.
SELECT m.id, m.renewals, CAST(UNIX_TIMESTAMP(SYSDATE(3))*1000 AS SIGNED) - m.renewed_at, m.timeout_ms, m.leaving, l.shard,
       (SELECT COUNT(*)
          FROM processes p
         WHERE p.kind = 'dispatcher'
           AND p.seen_at > CAST(UNIX_TIMESTAMP(SYSDATE(3))*1000 AS SIGNED) - ?
           AND p.elected_by = 'zookeeper')
  FROM election_members m
  LEFT JOIN leases l ON l.member = m.id
 WHERE NOT m.ended
 ORDER BY m.joined_at, m.id, l.shard;
