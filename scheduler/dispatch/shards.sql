-- The number of shards, and what their leaders report.

-- What a leader reports about its current state (waiting, detail, callbacks) is returned only if the leader is live.
-- name: select_shards
SELECT s.shard, s.epoch, l.leader, s.halted, JSON_LENGTH(s.inflight), t.seen_at, IF(l.leader IS NULL, NULL, t.waiting),
       IF(l.leader IS NULL, NULL, t.detail), t.overdue, t.oldest_due_at, t.drift_missing, t.drift_extra, t.drift_wrong, t.generation,
       IF(l.leader IS NULL, NULL, t.callbacks), CAST(UNIX_TIMESTAMP(SYSDATE(3))*1000 AS SIGNED), d.n, d.seen_ms_ago, d.waits_kafka, d.waits_redis, t.held
  FROM installation i
  JOIN (SELECT COUNT(*) AS n,
               COALESCE(MAX(CAST(UNIX_TIMESTAMP(SYSDATE(3))*1000 AS SIGNED) - seen_at), 0) AS seen_ms_ago,
               COALESCE(MAX(waits LIKE '%kafka%'), 0) AS waits_kafka,
               COALESCE(MAX(waits LIKE '%redis%'), 0) AS waits_redis
          FROM processes
         WHERE kind = 'dispatcher'
           AND seen_at > CAST(UNIX_TIMESTAMP(SYSDATE(3))*1000 AS SIGNED) - ?) d
  JOIN shards s
  JOIN (SELECT o.shard,
               (SELECT MAX(p.name)
                  FROM processes p
                 WHERE p.name = o.owner
                   AND p.kind = 'dispatcher'
                   AND p.seen_at > CAST(UNIX_TIMESTAMP(SYSDATE(3))*1000 AS SIGNED) - ?
                   AND FIND_IN_SET(o.shard, p.leads)) AS leader
          FROM shards o) l ON l.shard = s.shard
  LEFT JOIN shard_stats t ON t.shard = s.shard
 WHERE s.shard < i.shards OR s.owner IS NOT NULL OR s.inflight <> '[]'
 ORDER BY s.shard;

-- name: lock_shards_number
SELECT shards, generation FROM installation FOR UPDATE;

-- name: find_last_shard
SELECT shard FROM shards ORDER BY shard DESC LIMIT 1;

-- name: find_halted_shard
SELECT shard FROM shards WHERE halted IS NOT NULL ORDER BY shard LIMIT 1;

-- name: add_shard
INSERT INTO shards (shard, inflight) VALUES (?, '[]');

-- name: set_shards_number
UPDATE installation
   SET shards = ?, generation = generation + 1;

-- name: select_shards_from
SELECT shard, inflight <> '[]', owner, token
  FROM shards
 WHERE shard >= ?
 ORDER BY shard;

-- name: put_shard_stats
INSERT INTO shard_stats (seen_at, shard, epoch, waiting, detail, overdue, oldest_due_at, drift_missing,
     drift_extra, drift_wrong, generation, callbacks, drains, held)
VALUES (CAST(UNIX_TIMESTAMP(SYSDATE(3))*1000 AS SIGNED), ?, ?, ?, LEFT(?, 500), ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON DUPLICATE KEY UPDATE seen_at = VALUES(seen_at),
       epoch = VALUES(epoch), waiting = VALUES(waiting), detail = VALUES(detail), overdue = VALUES(overdue),
       oldest_due_at = VALUES(oldest_due_at), drift_missing = VALUES(drift_missing),
       drift_extra = VALUES(drift_extra), drift_wrong = VALUES(drift_wrong), generation = VALUES(generation), callbacks = VALUES(callbacks),
       drains = IF(VALUES(drains) > 0, VALUES(drains), drains), held = VALUES(held);
