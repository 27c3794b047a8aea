-- The test clock (clock_store.c). Every other statement of a session has its time by follow_test_clock, which stands in mysql/db_mysql.c.

-- An installation without one: zeroes.
-- name: select_test_clock
SELECT COALESCE(MAX(c.ahead_ms), 0), COALESCE(MAX(c.frozen_at), 0), COALESCE(MAX(c.version), 0),
       CAST(UNIX_TIMESTAMP(SYSDATE(3))*1000 AS SIGNED)
  FROM test_clock c;

-- An installation that nothing was made in yet becomes one for tests.
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

-- It goes on from an instant.
-- name: release_test_clock
UPDATE test_clock
   SET ahead_ms = ? - CAST(UNIX_TIMESTAMP(SYSDATE(3))*1000 AS SIGNED), frozen_at = NULL, version = version + 1,
       changed_at = CAST(UNIX_TIMESTAMP(SYSDATE(3))*1000 AS SIGNED)
 WHERE version = ?;

-- The next instant after one at which something is due, a report is missing, or a schedule is to be looked at; NULL: there is none.
-- name: find_next_instant
SELECT LEAST(COALESCE(n.due, n.look), COALESCE(n.look, n.due))
  FROM (SELECT (SELECT due_key FROM jobs FORCE INDEX (due) WHERE due_band = 1 AND due_key > ? ORDER BY due_key LIMIT 1) AS due,
               (SELECT look_at FROM schedule_fires FORCE INDEX (look) WHERE look_at > ? ORDER BY look_at LIMIT 1) AS look) n;

-- Whether anything that fell due in (from, to] has not been dealt with yet: schedules to be looked at, jobs that may go, and what was claimed and
-- is on its way to Kafka.
-- name: find_undone
SELECT EXISTS (SELECT 1 FROM schedule_fires FORCE INDEX (look) WHERE look_at <= ? LIMIT 1)
       OR EXISTS (SELECT 1
                    FROM jobs j FORCE INDEX (due)
                    JOIN topics t ON t.name = j.topic
                   WHERE j.due_band = 1 AND j.due_key > ? AND j.due_key <= ? AND NOT t.paused LIMIT 1)
       OR EXISTS (SELECT 1 FROM shards WHERE inflight <> '[]' LIMIT 1);

-- Attempts that have no report yet, and jobs that are offered and were not popped, a thousand of these at most.
-- name: count_under_way
SELECT CAST((SELECT COALESCE(SUM(c.dispatched), 0) FROM job_counts c) AS SIGNED)
       + (SELECT COUNT(*) FROM (SELECT 1 FROM jobs FORCE INDEX (due) WHERE due_band = -1 LIMIT 1000) o);
