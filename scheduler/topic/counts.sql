-- job_counts, and the audit that compares it with `jobs` (counts.h).

-- Returns the number of jobs in each state from the counters, then that of archived jobs. One statement reads both, so
-- that a job that is being archived is counted once.
-- name: select_topic_counts
SELECT 0, CAST(SUM(scheduled) AS SIGNED), CAST(SUM(dispatched) AS SIGNED), CAST(SUM(succeeded) AS SIGNED),
       CAST(SUM(dead) AS SIGNED), CAST(SUM(cancelled) AS SIGNED)
  FROM job_counts FORCE INDEX (PRIMARY)
 WHERE topic = ?
UNION ALL
SELECT state + 0, CAST(SUM(jobs) AS SIGNED), 0, 0, 0, 0
  FROM history_counts FORCE INDEX (PRIMARY)
 WHERE topic = ?
 GROUP BY state + 0;

-- name: select_audit
SELECT version, corrected FROM count_audits WHERE piece = ?;

-- name: select_counters
SELECT topic, CAST(SUM(scheduled) AS SIGNED), CAST(SUM(dispatched) AS SIGNED), CAST(SUM(succeeded) AS SIGNED),
       CAST(SUM(dead) AS SIGNED), CAST(SUM(cancelled) AS SIGNED)
  FROM job_counts FORCE INDEX (by_piece)
 WHERE piece = ?
 GROUP BY topic;

-- name: find_next_row
SELECT id FROM jobs FORCE INDEX (PRIMARY) WHERE id >= ? ORDER BY id LIMIT 1;

-- If a manual edit ended a job or its attempt (band 2, key 0), the row counts in its state before the edit, until
-- end_edited has counted it.
-- name: count_rows
SELECT s.topic, s.state, COUNT(*), MAX(s.id)
  FROM (SELECT id, topic, IF(due_band < 2 OR due_key > 0, state+0, IF(attempt_status = 'dispatched', 2, IF(leave_at = 0, 1, state+0))) AS state
          FROM jobs FORCE INDEX (PRIMARY)
         WHERE id >= ?
           AND id <= ?
         ORDER BY id LIMIT ?) s
 GROUP BY s.topic, s.state;

-- name: raise_audit
UPDATE count_audits
   SET version = version + 1, audited_at = CAST(UNIX_TIMESTAMP(SYSDATE(3))*1000 AS SIGNED), jobs = ?, corrected = ?, found = ?
 WHERE piece = ?
   AND version = ?;

-- name: insert_audit
INSERT INTO count_audits (audited_at, jobs, corrected, found, piece, version)
VALUES (CAST(UNIX_TIMESTAMP(SYSDATE(3))*1000 AS SIGNED),?,?,?,?,? + 1);

-- name: correct_counts
INSERT INTO job_counts (topic, piece, writer, scheduled, dispatched, succeeded, dead, cancelled, edited,
     corrected)
VALUES (?,?,?,?,?,?,?,?,?,?)
ON DUPLICATE KEY UPDATE scheduled = scheduled + VALUES(scheduled),
       dispatched = dispatched + VALUES(dispatched), succeeded = succeeded + VALUES(succeeded),
       dead = dead + VALUES(dead), cancelled = cancelled + VALUES(cancelled),
       edited = edited + VALUES(edited), corrected = corrected + VALUES(corrected);

-- name: add_counts
INSERT INTO job_counts (topic, piece, writer, scheduled, dispatched, succeeded, dead, cancelled, created)
VALUES (?,?,?,?,?,?,?,?,?)
ON DUPLICATE KEY UPDATE scheduled = scheduled + VALUES(scheduled),
       dispatched = dispatched + VALUES(dispatched), succeeded = succeeded + VALUES(succeeded),
       dead = dead + VALUES(dead), cancelled = cancelled + VALUES(cancelled),
       created = created + VALUES(created);
