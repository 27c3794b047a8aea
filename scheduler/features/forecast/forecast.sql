-- Forecasts of due jobs (forecast_store.c). In the due index, band 1 has exact times, and band 0 only days. All
-- statements on jobs read the index alone, except count_due_by_topic, which runs only if an estimate says that there
-- are few rows.

-- Estimates the number of rows by EXPLAIN: the optimizer reads a few pages of the index, however large the range is.
-- With ORDER BY, MySQL would not read these pages.
-- name: estimate_due
EXPLAIN SELECT id
  FROM jobs FORCE INDEX (due)
 WHERE due_band = ?
   AND due_key >= ?
   AND due_key < ?
 ORDER BY due_key, id;

-- name: count_due_by_step
SELECT (due_key - ?) DIV ? AS step, COUNT(*)
  FROM jobs FORCE INDEX (due)
 WHERE due_band = ?
   AND due_key >= ?
   AND due_key < ?
 GROUP BY step;

-- Reads the row of every job, because the index has no topics and, in band 0, no times.
-- name: count_due_by_topic
SELECT (GREATEST(next_at, 1) - ?) DIV ? AS step, topic, COUNT(*)
  FROM jobs FORCE INDEX (due)
 WHERE due_band = ?
   AND due_key >= ?
   AND due_key < ?
   AND state = 'scheduled'
   AND GREATEST(next_at, 1) >= ?
 GROUP BY step, topic;

-- Reads the jobs of the first n of 1024 slots. These are a random sample, because the slot of a job is a hash of its
-- id.
-- name: select_due_sample
SELECT id, due_key
  FROM jobs FORCE INDEX (due)
 WHERE due_band = 1
   AND due_key >= ?
   AND due_key < ?
   AND MOD(CRC32(id), 1024) < ?
 LIMIT ?;

-- Sums the measured rates of all shards of the map (features/forecast/forecast.h); a shard without a measurement has 0.
-- name: select_drains
SELECT CAST(SUM(t.drains) AS SIGNED)
  FROM installation i
  JOIN shard_stats t ON t.shard < i.shards;

-- Reads the schedules that have fires without a job before a given time. look_at, when a dispatcher checks the
-- schedule, is not after its next fire.
-- name: select_schedules_ahead
SELECT s.name, s.topic, s.cron, s.every_ms, s.anchor_at, s.time_zone, s.starts_at, s.ends_at, s.overlap + 0,
       s.catch_up_ms, s.catch_up_max, s.jitter_ms, s.paused, s.created_at, s.updated_at, s.version, s.digest,
       s.retry, s.ack_timeout_ms, s.partition_key, NULL, NULL, s.content_type, s.payload_binary, '',
       f.next_fire_at, f.last_fire_at, f.last_job_id, f.zone_stamp, f.error, f.error_at, f.look_at, f.owner, f.waits_since
  FROM schedule_fires f FORCE INDEX (look)
  JOIN schedules s ON s.name = f.name
 WHERE f.look_at < ?
 ORDER BY f.look_at LIMIT ?;
