-- The test clock (clock_store.c). The statement follow_clock, which gives a session the time of the clock, is in
-- mysql/db_mysql.c.

-- Reads the clock. If the installation has no test clock, the row has zeros.
-- name: select_test_clock
SELECT COALESCE(MAX(c.ahead_ms), 0), COALESCE(MAX(c.frozen_at), 0), COALESCE(MAX(c.version), 0),
       CAST(UNIX_TIMESTAMP(SYSDATE(3))*1000 AS SIGNED)
  FROM test_clock c;

-- Makes the row of the test clock in an installation that has no topics and never had a job.
-- name: insert_test_clock
INSERT INTO test_clock (one, changed_at)
SELECT 1, CAST(UNIX_TIMESTAMP(SYSDATE(3))*1000 AS SIGNED)
  FROM id_sequence s
 WHERE s.next_id = 1
   AND NOT EXISTS (SELECT 1 FROM topics)
ON DUPLICATE KEY UPDATE one = test_clock.one;

-- name: count_test_clocks
SELECT COUNT(*) FROM test_clock;

-- name: freeze_test_clock
UPDATE test_clock
   SET frozen_at = COALESCE(frozen_at, CAST(UNIX_TIMESTAMP(SYSDATE(3))*1000 AS SIGNED) + ahead_ms), version = version + 1,
       changed_at = CAST(UNIX_TIMESTAMP(SYSDATE(3))*1000 AS SIGNED)
 WHERE version = ?;

-- name: freeze_test_clock_at
UPDATE test_clock
   SET frozen_at = ?, version = version + 1, changed_at = CAST(UNIX_TIMESTAMP(SYSDATE(3))*1000 AS SIGNED)
 WHERE version = ?;

-- Lets the clock run again, from a given instant on.
-- name: release_test_clock
UPDATE test_clock
   SET ahead_ms = ? - CAST(UNIX_TIMESTAMP(SYSDATE(3))*1000 AS SIGNED), frozen_at = NULL, version = version + 1,
       changed_at = CAST(UNIX_TIMESTAMP(SYSDATE(3))*1000 AS SIGNED)
 WHERE version = ?;

-- Finds the first instant after a given one at which a job is due, an attempt's deadline passes, or a schedule is
-- checked. NULL: there is none.
-- name: find_next_instant
SELECT LEAST(COALESCE(n.due, n.look), COALESCE(n.look, n.due))
  FROM (SELECT (SELECT due_key FROM jobs FORCE INDEX (due) WHERE due_band = 1 AND due_key > ? ORDER BY due_key LIMIT 1) AS due,
               (SELECT look_at FROM schedule_fires FORCE INDEX (look) WHERE look_at > ? ORDER BY look_at LIMIT 1) AS look) n;

-- Returns whether some work that fell due in (from, to] is left: schedules to check, jobs that may be dispatched,
-- claimed jobs that were not sent yet.
-- name: find_undone
SELECT EXISTS (SELECT 1 FROM schedule_fires FORCE INDEX (look) WHERE look_at <= ? LIMIT 1)
       OR EXISTS (SELECT 1
                    FROM jobs j FORCE INDEX (due)
                    JOIN topics t ON t.name = j.topic
                   WHERE j.due_band = 1 AND j.due_key > ? AND j.due_key <= ? AND NOT t.paused LIMIT 1)
       OR EXISTS (SELECT 1 FROM shards WHERE inflight <> '[]' LIMIT 1);

-- Counts attempts without a report and, at most a thousand, jobs that are offered to clients but not popped yet.
-- name: count_under_way
SELECT CAST((SELECT COALESCE(SUM(c.dispatched), 0) FROM job_counts c) AS SIGNED)
       + (SELECT COUNT(*) FROM (SELECT 1 FROM jobs FORCE INDEX (due) WHERE due_band = -1 LIMIT 1000) o);
