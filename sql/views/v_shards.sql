-- Who leads which shard, and what it says about it.
CREATE OR REPLACE SQL SECURITY INVOKER VIEW v_shards AS
SELECT
  s.shard,
  -- who leads it now: a process that lives (it was seen within four seconds) and says that it does
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
  TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000 - LEAST(GREATEST(x.seen_at, 0), 253402300799999) AS seen_ms_ago
FROM installation i
JOIN shards s
LEFT JOIN shard_stats x ON x.shard = s.shard
WHERE s.shard < i.shards OR s.owner IS NOT NULL OR s.inflight <> '[]';
