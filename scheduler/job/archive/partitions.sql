-- The partitions of history and history_attempts.

-- name: select_partitions
SELECT CAST(SUBSTRING(PARTITION_NAME, 2) AS SIGNED)
  FROM information_schema.PARTITIONS
 WHERE TABLE_SCHEMA = DATABASE()
   AND TABLE_NAME = 'history'
   AND PARTITION_NAME LIKE 'p%';

-- name: select_attempt_partitions
SELECT CAST(SUBSTRING(PARTITION_NAME, 2) AS SIGNED)
  FROM information_schema.PARTITIONS
 WHERE TABLE_SCHEMA = DATABASE()
   AND TABLE_NAME = 'history_attempts'
   AND PARTITION_NAME LIKE 'p%';

-- name: select_counted_partitions
SELECT DISTINCT part FROM history_counts FORCE INDEX (by_part) WHERE part > 0;

-- name: count_dropped
INSERT INTO removed_jobs (topic, removed)
SELECT c.topic, CAST(SUM(c.jobs) AS SIGNED)
  FROM history_counts c FORCE INDEX (by_part)
 WHERE c.part = ?
 GROUP BY c.topic
ON DUPLICATE KEY UPDATE removed = removed + VALUES(removed);

-- name: delete_dropped_counts
DELETE FROM history_counts WHERE part = ?;

-- name: delete_dropped_days
DELETE FROM history_days WHERE part = ?;

-- name: limit_lock_wait
SET SESSION lock_wait_timeout = 1;

-- name: reset_lock_wait
SET SESSION lock_wait_timeout = DEFAULT;

-- name: select_retentions
SELECT DISTINCT COALESCE(retention_ms, ?)
  FROM topics
 WHERE COALESCE(retention_ms, ?) > 0;
