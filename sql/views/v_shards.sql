-- The leader of each shard, and what it reports. `health` says why a shard does not dispatch, in the words of the API.
-- If the leader is dead, its reports about the present (waiting, detail) are not shown.
CREATE OR REPLACE SQL SECURITY INVOKER VIEW v_shards AS
SELECT
  v.shard, v.owner, v.last_owner, v.halted, v.epoch, v.owner_since, v.in_flight, v.send_n, v.batch_no, v.ledger_offset, v.trim_offset, v.named,
  v.generation, v.index_at,
  IF(v.owner IS NULL, NULL, v.waiting) AS waiting,
  IF(v.owner IS NULL, NULL, v.detail) AS detail,
  v.overdue, v.oldest_due_at, v.drift_missing, v.drift_extra, v.drift_wrong, v.seen_at, v.seen_ms_ago, v.held,
  CASE
    WHEN v.halted IS NOT NULL THEN 'halted'
    WHEN v.owner IS NULL AND v.dispatchers = 0 THEN 'no-dispatcher'
    WHEN v.owner IS NULL AND v.dispatchers_wait > 0 THEN 'waiting' -- for Kafka, before they elect leaders
    WHEN v.owner IS NULL THEN 'no-leader'
    WHEN v.seen_ms_ago IS NULL OR v.seen_ms_ago > 15000 THEN 'silent'
    WHEN v.waiting IS NOT NULL THEN 'waiting'
    ELSE 'ok'
  END AS health
FROM (
SELECT
  s.shard,
  -- the current leader: a live process (seen within four seconds) that reports the shard in `leads`
  (SELECT MAX(p.name) FROM processes p WHERE p.name = s.owner AND p.kind = 'dispatcher'
    AND p.seen_at > TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000 - 4000
    AND FIND_IN_SET(s.shard, p.leads)) AS owner,
  s.owner AS last_owner,
  s.halted,
  s.epoch,
  CAST('1970-01-01' + INTERVAL (LEAST(GREATEST(s.owner_since, -30610224000000), 253402300799999) * 1000) MICROSECOND AS DATETIME(3)) AS owner_since,
  IF(JSON_VALID(s.inflight), JSON_LENGTH(s.inflight), NULL) AS in_flight,
  s.send_n,
  s.batch_no,
  s.ledger_offset,
  s.trim_offset,
  s.shard < i.shards AS named,
  x.generation,
  s.index_at,
  x.waiting,
  x.detail,
  x.overdue,
  CAST('1970-01-01' + INTERVAL (LEAST(GREATEST(x.oldest_due_at, -30610224000000), 253402300799999) * 1000) MICROSECOND AS DATETIME(3)) AS oldest_due_at,
  x.drift_missing,
  x.drift_extra,
  x.drift_wrong,
  CAST('1970-01-01' + INTERVAL (LEAST(GREATEST(x.seen_at, -30610224000000), 253402300799999) * 1000) MICROSECOND AS DATETIME(3)) AS seen_at,
  TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000 - LEAST(GREATEST(x.seen_at, 0), 253402300799999) AS seen_ms_ago,
  x.held,
  d.dispatchers,
  d.dispatchers_wait
FROM installation i
JOIN (SELECT COUNT(*) AS dispatchers, COUNT(IF(FIND_IN_SET('kafka', p.waits), 1, NULL)) AS dispatchers_wait FROM processes p
  WHERE p.kind = 'dispatcher' AND p.seen_at > TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000 - 4000) d
JOIN shards s
LEFT JOIN shard_stats x ON x.shard = s.shard
WHERE s.shard < i.shards OR s.owner IS NOT NULL OR s.inflight <> '[]'
) v;
