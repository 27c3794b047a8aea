-- Renews a member of the election, unless its membership has ended. Returns the same rows as the statement
-- select_election; if the membership has ended, no row is about this member.
DROP PROCEDURE IF EXISTS dt_renew_member;

DELIMITER $$
CREATE PROCEDURE dt_renew_member(IN p_leaving BOOLEAN, IN p_id BIGINT, IN p_fresh_ms BIGINT)
  MODIFIES SQL DATA
  SQL SECURITY INVOKER
  COMMENT 'for dispatchers without ZooKeeper: renews their leases'
BEGIN
  UPDATE election_members
     SET renewed_at = CAST(UNIX_TIMESTAMP(SYSDATE(3)) * 1000 AS SIGNED), renewals = IF(renewals < 9223372036854775807, renewals + 1, 0), leaving = p_leaving
   WHERE id = p_id AND NOT ended;
  SELECT m.id, m.renewals, CAST(UNIX_TIMESTAMP(SYSDATE(3)) * 1000 AS SIGNED) - GREATEST(m.renewed_at, 0), m.timeout_ms, m.leaving, l.shard,
         (SELECT COUNT(*)
            FROM processes p
           WHERE p.kind = 'dispatcher'
             AND p.seen_at > CAST(UNIX_TIMESTAMP(SYSDATE(3)) * 1000 AS SIGNED) - p_fresh_ms
             AND p.elected_by = 'zookeeper')
    FROM election_members m
    LEFT JOIN leases l ON l.member = m.id
   WHERE NOT m.ended
   ORDER BY m.joined_at, m.id, l.shard;
END$$
DELIMITER ;
