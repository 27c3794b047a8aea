-- duetime: views for people. Times are DATETIME(3) in UTC whatever the session's time zone; topics and keys are bytes.
-- Whatever a column holds is shown: times before the year 1000 as its beginning, those after the year 9999 as its end. A next_at of
-- zero or less means now: such a job is due, and overdue by 0 ms.
-- v_jobs, v_overdue, v_shards and v_audit are cheap (v_jobs by id reads one row), v_backlog reads what is overdue; v_recount
-- counts the live table, v_dead reads it and history.

-- The table of live jobs, and of those that finished a short while ago (history.after).
CREATE OR REPLACE SQL SECURITY INVOKER VIEW v_live AS
SELECT
  j.id,
  j.topic,
  j.job_key,
  j.state,
  CASE
    WHEN j.state = 'dispatched' THEN IF(INSTR(s.inflight, CONCAT('[', j.id, ',')) > 0, 'kafka', 'ack')
    WHEN j.state <> 'scheduled' THEN NULL
    WHEN j.next_at > TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000 THEN 'time'
    WHEN t.paused THEN 'paused'
    WHEN t.name IS NULL THEN 'kafka' -- nobody can say where it goes
    ELSE 'leader'
  END AS waiting_for,
  CAST('1970-01-01' + INTERVAL (LEAST(GREATEST(j.run_at, -30610224000000), 253402300799999) * 1000) MICROSECOND AS DATETIME(3)) AS run_at,
  CAST('1970-01-01' + INTERVAL (LEAST(GREATEST(j.next_at, -30610224000000), 253402300799999) * 1000) MICROSECOND AS DATETIME(3)) AS next_at,
  IF(j.state IN ('scheduled','dispatched'),
     IF(j.next_at > 0, GREATEST(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000 - j.next_at, 0), 0), NULL) AS overdue_ms,
  j.attempt,
  IF(TRIM(j.retry) = '', 1, 2 + LENGTH(TRIM(j.retry)) - LENGTH(REPLACE(TRIM(j.retry), ' ', ''))) AS max_attempts,
  j.failures,
  NULLIF(CAST(j.attempt_status AS CHAR), 'none') AS attempt_status,
  CAST('1970-01-01' + INTERVAL (LEAST(GREATEST(NULLIF(j.due_at, 0), -30610224000000), 253402300799999) * 1000) MICROSECOND AS DATETIME(3)) AS due_at,
  CAST('1970-01-01' + INTERVAL (LEAST(GREATEST(NULLIF(j.dispatched_at, 0), -30610224000000), 253402300799999) * 1000) MICROSECOND AS DATETIME(3)) AS dispatched_at,
  LEAST(GREATEST(NULLIF(j.dispatched_at, 0), 0), 253402300799999) - LEAST(GREATEST(NULLIF(j.due_at, 0), 0), 253402300799999) AS lateness_ms,
  CAST('1970-01-01' + INTERVAL (LEAST(GREATEST(NULLIF(j.finished_at, 0), -30610224000000), 253402300799999) * 1000) MICROSECOND AS DATETIME(3)) AS finished_at,
  j.error_code,
  j.error_message,
  CAST('1970-01-01' + INTERVAL (LEAST(GREATEST(j.error_at, -30610224000000), 253402300799999) * 1000) MICROSECOND AS DATETIME(3)) AS error_at,
  j.retry,
  j.ack_timeout_ms,
  j.no_retries,
  j.partition_key,
  j.content_type,
  j.headers,
  j.payload,
  CRC32(j.id) % 1024 AS slot,
  NULLIF(j.claim_shard, -1) AS claim_shard,
  CAST('1970-01-01' + INTERVAL (LEAST(GREATEST(j.purge_at, -30610224000000), 253402300799999) * 1000) MICROSECOND AS DATETIME(3)) AS purge_at,
  CAST('1970-01-01' + INTERVAL (LEAST(GREATEST(j.created_at, -30610224000000), 253402300799999) * 1000) MICROSECOND AS DATETIME(3)) AS created_at,
  CAST('1970-01-01' + INTERVAL (LEAST(GREATEST(j.updated_at, -30610224000000), 253402300799999) * 1000) MICROSECOND AS DATETIME(3)) AS updated_at,
  j.version
FROM jobs j
LEFT JOIN topics t ON t.name = j.topic
LEFT JOIN shards s ON s.shard = j.claim_shard;

-- Finished jobs that have left the table of live ones, and whose retention is not over.
CREATE OR REPLACE SQL SECURITY INVOKER VIEW v_history AS
SELECT
  j.id,
  j.topic,
  j.job_key,
  j.state,
  NULL AS waiting_for,
  CAST('1970-01-01' + INTERVAL (LEAST(GREATEST(j.run_at, -30610224000000), 253402300799999) * 1000) MICROSECOND AS DATETIME(3)) AS run_at,
  CAST(NULL AS DATETIME(3)) AS next_at,
  NULL AS overdue_ms,
  j.attempt,
  IF(TRIM(j.retry) = '', 1, 2 + LENGTH(TRIM(j.retry)) - LENGTH(REPLACE(TRIM(j.retry), ' ', ''))) AS max_attempts,
  j.failures,
  NULLIF(CAST(j.attempt_status AS CHAR), 'none') AS attempt_status,
  CAST('1970-01-01' + INTERVAL (LEAST(GREATEST(NULLIF(j.due_at, 0), -30610224000000), 253402300799999) * 1000) MICROSECOND AS DATETIME(3)) AS due_at,
  CAST('1970-01-01' + INTERVAL (LEAST(GREATEST(NULLIF(j.dispatched_at, 0), -30610224000000), 253402300799999) * 1000) MICROSECOND AS DATETIME(3)) AS dispatched_at,
  LEAST(GREATEST(NULLIF(j.dispatched_at, 0), 0), 253402300799999) - LEAST(GREATEST(NULLIF(j.due_at, 0), 0), 253402300799999) AS lateness_ms,
  CAST('1970-01-01' + INTERVAL (LEAST(GREATEST(NULLIF(j.finished_at, 0), -30610224000000), 253402300799999) * 1000) MICROSECOND AS DATETIME(3)) AS finished_at,
  j.error_code,
  j.error_message,
  CAST('1970-01-01' + INTERVAL (LEAST(GREATEST(j.error_at, -30610224000000), 253402300799999) * 1000) MICROSECOND AS DATETIME(3)) AS error_at,
  j.retry,
  j.ack_timeout_ms,
  j.no_retries,
  j.partition_key,
  j.content_type,
  j.headers,
  j.payload,
  CRC32(j.id) % 1024 AS slot,
  NULLIF(j.claim_shard, -1) AS claim_shard,
  CAST('1970-01-01' + INTERVAL (LEAST(GREATEST(j.purge_at, -30610224000000), 253402300799999) * 1000) MICROSECOND AS DATETIME(3)) AS purge_at,
  CAST('1970-01-01' + INTERVAL (LEAST(GREATEST(j.created_at, -30610224000000), 253402300799999) * 1000) MICROSECOND AS DATETIME(3)) AS created_at,
  CAST('1970-01-01' + INTERVAL (LEAST(GREATEST(j.updated_at, -30610224000000), 253402300799999) * 1000) MICROSECOND AS DATETIME(3)) AS updated_at,
  j.version
FROM history j
WHERE j.purge_at > TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000;

-- Every job, wherever its row stands. By id: one row, and a look into each partition of history. For joins take v_live or
-- v_history: servers read a UNION as a whole before they join it.
CREATE OR REPLACE SQL SECURITY INVOKER VIEW v_jobs AS
SELECT * FROM v_live
UNION ALL
SELECT * FROM v_history;

-- What should have happened already: scheduled jobs that were not dispatched, dispatched ones whose result is missing.
CREATE OR REPLACE SQL SECURITY INVOKER VIEW v_overdue AS
SELECT
  j.id,
  j.topic,
  j.job_key,
  j.state,
  IF(j.state = 'dispatched', 'result', IF(t.paused, 'paused', 'dispatch')) AS missing,
  CAST('1970-01-01' + INTERVAL (LEAST(GREATEST(j.next_at, -30610224000000), 253402300799999) * 1000) MICROSECOND AS DATETIME(3)) AS next_at,
  IF(j.next_at > 0, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000 - j.next_at, 0) AS overdue_ms,
  j.attempt,
  CRC32(j.id) % 1024 AS slot,
  NULLIF(j.claim_shard, -1) AS claim_shard
FROM jobs j FORCE INDEX (due)
LEFT JOIN topics t ON t.name = j.topic
WHERE j.due_band IN (0, 1)
  AND j.due_key < TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000
  AND j.next_at < TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000
  AND j.state IN ('scheduled','dispatched');

-- How many jobs there are, per topic and state. Jobs and history are counted as they change; what is overdue is read.
CREATE OR REPLACE SQL SECURITY INVOKER VIEW v_backlog AS
SELECT
  u.topic,
  u.state,
  CAST(SUM(u.jobs) AS SIGNED) AS jobs,
  CAST(SUM(u.overdue) AS SIGNED) AS overdue,
  CAST('1970-01-01' + INTERVAL (LEAST(GREATEST(MIN(u.first_at), -30610224000000), 253402300799999) * 1000) MICROSECOND AS DATETIME(3)) AS overdue_since
FROM (
  SELECT c.topic AS topic, CAST('scheduled' AS CHAR CHARACTER SET utf8mb4) AS state, SUM(c.scheduled) AS jobs, 0 AS overdue, NULL AS first_at FROM job_counts c GROUP BY c.topic
  UNION ALL
  SELECT c.topic, CAST('dispatched' AS CHAR CHARACTER SET utf8mb4), SUM(c.dispatched), 0, NULL FROM job_counts c GROUP BY c.topic
  UNION ALL
  SELECT c.topic, CAST('succeeded' AS CHAR CHARACTER SET utf8mb4), SUM(c.succeeded), 0, NULL FROM job_counts c GROUP BY c.topic
  UNION ALL
  SELECT c.topic, CAST('dead' AS CHAR CHARACTER SET utf8mb4), SUM(c.dead), 0, NULL FROM job_counts c GROUP BY c.topic
  UNION ALL
  SELECT c.topic, CAST('cancelled' AS CHAR CHARACTER SET utf8mb4), SUM(c.cancelled), 0, NULL FROM job_counts c GROUP BY c.topic
  UNION ALL
  SELECT h.topic, CAST(h.state AS CHAR CHARACTER SET utf8mb4), SUM(h.jobs), 0, NULL FROM history_counts h GROUP BY h.topic, h.state
  UNION ALL
  SELECT j.topic, CAST(j.state AS CHAR CHARACTER SET utf8mb4), 0, COUNT(*), MIN(IF(j.next_at > 0, j.next_at, NULL))
  FROM jobs j FORCE INDEX (due)
  WHERE j.due_band IN (0, 1)
    AND j.due_key < TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000
    AND j.next_at < TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000
    AND j.state IN ('scheduled','dispatched')
  GROUP BY j.topic, j.state
) u
GROUP BY u.topic, u.state
HAVING SUM(u.jobs) <> 0 OR SUM(u.overdue) <> 0;

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

-- What is claimed and not settled, in the order of sending: what an operator looks at when a shard is halted.
CREATE OR REPLACE SQL SECURITY INVOKER VIEW v_in_flight AS
SELECT
  s.shard,
  f.place,
  f.place <= s.send_n AS goes_next,
  f.job_id,
  f.attempt,
  CONCAT(f.job_id, '/', f.attempt) AS ce_id,
  COALESCE(t.kafka_name, j.topic) AS kafka_topic,
  j.state,
  j.attempt AS latest_attempt,
  CAST('1970-01-01' + INTERVAL (LEAST(GREATEST(f.due_at, -30610224000000), 253402300799999) * 1000) MICROSECOND AS DATETIME(3)) AS due_at
FROM shards s
JOIN JSON_TABLE(IF(JSON_VALID(s.inflight), s.inflight, '[]'), '$[*]' COLUMNS(
  place FOR ORDINALITY,
  job_id BIGINT PATH '$[0]',
  attempt INT PATH '$[1]',
  due_at BIGINT PATH '$[2]')) f
LEFT JOIN jobs j ON j.id = f.job_id
LEFT JOIN topics t ON t.name = j.topic;

-- What was given up, with the last error; CALL dt_redrive(id) gives one a new budget.
CREATE OR REPLACE SQL SECURITY INVOKER VIEW v_dead AS
SELECT
  j.id,
  j.topic,
  j.job_key,
  j.attempt,
  j.failures,
  NULLIF(CAST(j.attempt_status AS CHAR), 'none') AS attempt_status,
  j.error_code,
  j.error_message,
  CAST('1970-01-01' + INTERVAL (LEAST(GREATEST(j.error_at, -30610224000000), 253402300799999) * 1000) MICROSECOND AS DATETIME(3)) AS error_at,
  CAST('1970-01-01' + INTERVAL (LEAST(GREATEST(NULLIF(j.finished_at, 0), -30610224000000), 253402300799999) * 1000) MICROSECOND AS DATETIME(3)) AS finished_at,
  CAST('1970-01-01' + INTERVAL (LEAST(GREATEST(j.purge_at, -30610224000000), 253402300799999) * 1000) MICROSECOND AS DATETIME(3)) AS purge_at
FROM jobs j
WHERE j.state = 'dead'
UNION ALL
SELECT
  j.id,
  j.topic,
  j.job_key,
  j.attempt,
  j.failures,
  NULLIF(CAST(j.attempt_status AS CHAR), 'none') AS attempt_status,
  j.error_code,
  j.error_message,
  CAST('1970-01-01' + INTERVAL (LEAST(GREATEST(j.error_at, -30610224000000), 253402300799999) * 1000) MICROSECOND AS DATETIME(3)) AS error_at,
  CAST('1970-01-01' + INTERVAL (LEAST(GREATEST(NULLIF(j.finished_at, 0), -30610224000000), 253402300799999) * 1000) MICROSECOND AS DATETIME(3)) AS finished_at,
  CAST('1970-01-01' + INTERVAL (LEAST(GREATEST(j.purge_at, -30610224000000), 253402300799999) * 1000) MICROSECOND AS DATETIME(3)) AS purge_at
FROM history j
WHERE j.state = 'dead' AND j.purge_at > TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000;

-- Every attempt: the archived ones, and each job's latest, which stands in its row.
CREATE OR REPLACE SQL SECURITY INVOKER VIEW v_attempts AS
SELECT
  a.job_id,
  a.attempt,
  a.status,
  CAST('1970-01-01' + INTERVAL (LEAST(GREATEST(NULLIF(a.due_at, 0), -30610224000000), 253402300799999) * 1000) MICROSECOND AS DATETIME(3)) AS due_at,
  CAST('1970-01-01' + INTERVAL (LEAST(GREATEST(NULLIF(a.dispatched_at, 0), -30610224000000), 253402300799999) * 1000) MICROSECOND AS DATETIME(3)) AS dispatched_at,
  LEAST(GREATEST(NULLIF(a.dispatched_at, 0), 0), 253402300799999) - LEAST(GREATEST(NULLIF(a.due_at, 0), 0), 253402300799999) AS lateness_ms,
  CAST('1970-01-01' + INTERVAL (LEAST(GREATEST(NULLIF(a.finished_at, 0), -30610224000000), 253402300799999) * 1000) MICROSECOND AS DATETIME(3)) AS finished_at,
  a.error_code,
  a.error_message
FROM attempts a
UNION ALL
SELECT
  j.id,
  j.attempt,
  IF(j.attempt_status = 'none', 'dispatched', CAST(j.attempt_status AS CHAR)),
  CAST('1970-01-01' + INTERVAL (LEAST(GREATEST(NULLIF(j.due_at, 0), -30610224000000), 253402300799999) * 1000) MICROSECOND AS DATETIME(3)),
  CAST('1970-01-01' + INTERVAL (LEAST(GREATEST(NULLIF(j.dispatched_at, 0), -30610224000000), 253402300799999) * 1000) MICROSECOND AS DATETIME(3)),
  LEAST(GREATEST(NULLIF(j.dispatched_at, 0), 0), 253402300799999) - LEAST(GREATEST(NULLIF(j.due_at, 0), 0), 253402300799999),
  CAST('1970-01-01' + INTERVAL (LEAST(GREATEST(IF(j.attempt_status = 'dispatched', NULL, NULLIF(j.finished_at, 0)), -30610224000000), 253402300799999) * 1000) MICROSECOND AS DATETIME(3)),
  IF(j.attempt_status IN ('failed','timed_out','gave_up','undeliverable'), j.error_code, NULL),
  IF(j.attempt_status IN ('failed','timed_out','gave_up','undeliverable'), j.error_message, NULL)
FROM jobs j
WHERE j.attempt > 0
UNION ALL
SELECT
  a.job_id,
  a.attempt,
  a.status,
  CAST('1970-01-01' + INTERVAL (LEAST(GREATEST(NULLIF(a.due_at, 0), -30610224000000), 253402300799999) * 1000) MICROSECOND AS DATETIME(3)) AS due_at,
  CAST('1970-01-01' + INTERVAL (LEAST(GREATEST(NULLIF(a.dispatched_at, 0), -30610224000000), 253402300799999) * 1000) MICROSECOND AS DATETIME(3)) AS dispatched_at,
  LEAST(GREATEST(NULLIF(a.dispatched_at, 0), 0), 253402300799999) - LEAST(GREATEST(NULLIF(a.due_at, 0), 0), 253402300799999) AS lateness_ms,
  CAST('1970-01-01' + INTERVAL (LEAST(GREATEST(NULLIF(a.finished_at, 0), -30610224000000), 253402300799999) * 1000) MICROSECOND AS DATETIME(3)) AS finished_at,
  a.error_code,
  a.error_message
FROM history_attempts a
WHERE a.purge_at > TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000
UNION ALL
SELECT
  j.id,
  j.attempt,
  IF(j.attempt_status = 'none', 'dispatched', CAST(j.attempt_status AS CHAR)),
  CAST('1970-01-01' + INTERVAL (LEAST(GREATEST(NULLIF(j.due_at, 0), -30610224000000), 253402300799999) * 1000) MICROSECOND AS DATETIME(3)),
  CAST('1970-01-01' + INTERVAL (LEAST(GREATEST(NULLIF(j.dispatched_at, 0), -30610224000000), 253402300799999) * 1000) MICROSECOND AS DATETIME(3)),
  LEAST(GREATEST(NULLIF(j.dispatched_at, 0), 0), 253402300799999) - LEAST(GREATEST(NULLIF(j.due_at, 0), 0), 253402300799999),
  CAST('1970-01-01' + INTERVAL (LEAST(GREATEST(IF(j.attempt_status = 'dispatched', NULL, NULLIF(j.finished_at, 0)), -30610224000000), 253402300799999) * 1000) MICROSECOND AS DATETIME(3)),
  IF(j.attempt_status IN ('failed','timed_out','gave_up','undeliverable'), j.error_code, NULL),
  IF(j.attempt_status IN ('failed','timed_out','gave_up','undeliverable'), j.error_message, NULL)
FROM history j
WHERE j.attempt > 0 AND j.purge_at > TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000;

-- Conservation: every job that was ever created in a topic is in one of the states, or was removed after its retention, or
-- was put in or taken away by hand (`edited`, as the audit found). All of it is counted as it changes: job_counts for jobs,
-- history_counts for history, removed_jobs; v_recount and v_history_audit count row by row. Compare `created` with the 2xx
-- answers that you have. `missing` is 0 in a sound database.
CREATE OR REPLACE SQL SECURITY INVOKER VIEW v_audit AS
SELECT
  u.topic,
  CAST(SUM(u.created) AS SIGNED) AS created,
  CAST(SUM(u.scheduled) AS SIGNED) AS scheduled,
  CAST(SUM(u.dispatched) AS SIGNED) AS dispatched,
  CAST(SUM(u.succeeded) AS SIGNED) AS succeeded,
  CAST(SUM(u.dead) AS SIGNED) AS dead,
  CAST(SUM(u.cancelled) AS SIGNED) AS cancelled,
  CAST(SUM(u.removed) AS SIGNED) AS removed,
  CAST(SUM(u.edited) AS SIGNED) AS edited,
  CAST(SUM(u.corrected) AS SIGNED) AS corrected,
  CAST(SUM(u.created + u.edited - u.scheduled - u.dispatched - u.succeeded - u.dead - u.cancelled - u.removed) AS SIGNED) AS missing,
  (SELECT IF(COUNT(*) = 32, CAST('1970-01-01' + INTERVAL (LEAST(GREATEST(MIN(a.audited_at), -30610224000000), 253402300799999) * 1000) MICROSECOND AS DATETIME(3)), NULL)
    FROM count_audits a) AS audited_since
FROM (
  SELECT
    c.topic,
    SUM(c.created) AS created,
    SUM(c.scheduled) AS scheduled,
    SUM(c.dispatched) AS dispatched,
    SUM(c.succeeded) AS succeeded,
    SUM(c.dead) AS dead,
    SUM(c.cancelled) AS cancelled,
    0 AS removed,
    SUM(c.edited) AS edited,
    SUM(c.corrected) AS corrected
  FROM job_counts c
  GROUP BY c.topic
  UNION ALL
  SELECT
    h.topic,
    0,
    0,
    0,
    SUM(IF(h.state = 'succeeded', h.jobs, 0)),
    SUM(IF(h.state = 'dead', h.jobs, 0)),
    SUM(IF(h.state = 'cancelled', h.jobs, 0)),
    0,
    0,
    0
  FROM history_counts h
  GROUP BY h.topic
  UNION ALL
  SELECT r.topic, 0, 0, 0, 0, 0, 0, r.removed, 0, 0 FROM removed_jobs r
) u
GROUP BY u.topic;

-- The rows of jobs and job_keys themselves, counted as a whole. `miscounted`: jobs that stand in another state than
-- job_counts says; hand edits, until the audit comes by. The three last columns are 0 in a sound database, but for moments.
CREATE OR REPLACE SQL SECURITY INVOKER VIEW v_recount AS
SELECT
  u.topic,
  CAST(SUM(u.scheduled) AS SIGNED) AS scheduled,
  CAST(SUM(u.dispatched) AS SIGNED) AS dispatched,
  CAST(SUM(u.succeeded) AS SIGNED) AS succeeded,
  CAST(SUM(u.dead) AS SIGNED) AS dead,
  CAST(SUM(u.cancelled) AS SIGNED) AS cancelled,
  CAST(GREATEST(
    GREATEST(SUM(u.scheduled - u.counted_scheduled), 0) + GREATEST(SUM(u.dispatched - u.counted_dispatched), 0)
      + GREATEST(SUM(u.succeeded - u.counted_succeeded), 0) + GREATEST(SUM(u.dead - u.counted_dead), 0)
      + GREATEST(SUM(u.cancelled - u.counted_cancelled), 0),
    GREATEST(SUM(u.counted_scheduled - u.scheduled), 0) + GREATEST(SUM(u.counted_dispatched - u.dispatched), 0)
      + GREATEST(SUM(u.counted_succeeded - u.succeeded), 0) + GREATEST(SUM(u.counted_dead - u.dead), 0)
      + GREATEST(SUM(u.counted_cancelled - u.cancelled), 0)) AS SIGNED) AS miscounted,
  CAST(SUM(u.unfinished_without_time) AS SIGNED) AS live_without_next_at,
  CAST(SUM(u.finished_with_time) AS SIGNED) AS finished_with_next_at,
  CAST(SUM(u.keys_without_job) AS SIGNED) AS keys_without_job
FROM (
  SELECT
    j.topic,
    SUM(j.state = 'scheduled') AS scheduled,
    SUM(j.state = 'dispatched') AS dispatched,
    SUM(j.state = 'succeeded') AS succeeded,
    SUM(j.state = 'dead') AS dead,
    SUM(j.state = 'cancelled') AS cancelled,
    0 AS counted_scheduled,
    0 AS counted_dispatched,
    0 AS counted_succeeded,
    0 AS counted_dead,
    0 AS counted_cancelled,
    SUM(j.state IN ('scheduled','dispatched') AND j.next_at IS NULL) AS unfinished_without_time,
    SUM(j.state NOT IN ('scheduled','dispatched') AND j.next_at IS NOT NULL) AS finished_with_time,
    0 AS keys_without_job
  FROM jobs j
  GROUP BY j.topic
  UNION ALL
  SELECT c.topic, 0, 0, 0, 0, 0, SUM(c.scheduled), SUM(c.dispatched), SUM(c.succeeded), SUM(c.dead), SUM(c.cancelled), 0, 0, 0
  FROM job_counts c GROUP BY c.topic
  UNION ALL
  SELECT k.topic, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, COUNT(*)
  FROM job_keys k LEFT JOIN jobs j ON j.id = k.job_id WHERE j.id IS NULL GROUP BY k.topic
  UNION ALL -- but for the keys of jobs in history
  SELECT e.topic, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, -COUNT(*)
  FROM key_ends e JOIN job_keys k ON k.topic = e.topic AND k.job_key = e.job_key AND k.job_id = e.job_id GROUP BY e.topic
) u
GROUP BY u.topic;

-- Where history_counts and the rows of history disagree: nowhere, in a sound database. Reads history as a whole; a
-- partition that was counted out and not dropped yet may stand here for a moment.
CREATE OR REPLACE SQL SECURITY INVOKER VIEW v_history_audit AS
SELECT
  u.topic,
  u.state,
  u.part,
  CAST(SUM(u.counted) AS SIGNED) AS counted,
  CAST(SUM(u.found) AS SIGNED) AS found
FROM (
  SELECT h.topic, h.state, h.part, h.jobs AS counted, 0 AS found FROM history_counts h
  UNION ALL
  SELECT h.topic, h.state, h.part, 0, COUNT(*) FROM history h GROUP BY h.topic, h.state, h.part
) u
GROUP BY u.topic, u.state, u.part
HAVING SUM(u.counted) <> SUM(u.found);
