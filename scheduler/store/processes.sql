-- Rows of processes, findings of processes, and checks whether this account may insert jobs.

-- name: delete_old_processes
DELETE FROM processes
 WHERE seen_at < CAST(UNIX_TIMESTAMP(SYSDATE(3))*1000 AS SIGNED) - ?;

-- name: put_process
INSERT INTO processes (id, kind, name, version, started_at, seen_at, index_down, index_losses, leads, waits, elected_by)
VALUES (?, ?, ?, ?, CAST(UNIX_TIMESTAMP(SYSDATE(3))*1000 AS SIGNED), CAST(UNIX_TIMESTAMP(SYSDATE(3))*1000 AS SIGNED), ?,
    ?, ?, ?, ?)
ON DUPLICATE KEY UPDATE seen_at = VALUES(seen_at),
       index_down = VALUES(index_down), index_losses = VALUES(index_losses), leads = VALUES(leads),
       waits = VALUES(waits), elected_by = VALUES(elected_by);

-- name: select_index_debts
SELECT id, index_losses, index_down
  FROM processes
 WHERE seen_at > CAST(UNIX_TIMESTAMP(SYSDATE(3))*1000 AS SIGNED) - ?;

-- name: select_processes
SELECT id, kind, name, version, started_at, CAST(UNIX_TIMESTAMP(SYSDATE(3))*1000 AS SIGNED) - seen_at, leads, waits,
       index_down
  FROM processes
 WHERE seen_at > CAST(UNIX_TIMESTAMP(SYSDATE(3))*1000 AS SIGNED) - ?
 ORDER BY kind, name;

-- ---- findings that only the process itself can see (process_findings.h) ----

-- name: delete_process_findings
DELETE FROM process_findings WHERE process = ? AND finding <> 'chore-stuck';

-- name: delete_stuck_chores
DELETE FROM process_findings WHERE process = ? AND finding = 'chore-stuck';

-- name: put_stuck_chore
INSERT INTO process_findings (process, finding, subject, detail, found_at)
VALUES (?, 'chore-stuck', ?, ?, CAST(UNIX_TIMESTAMP(SYSDATE(3))*1000 AS SIGNED));

-- name: delete_old_process_findings
DELETE FROM process_findings
 WHERE found_at < ?
   AND process NOT IN (SELECT id FROM processes);

-- name: put_process_finding
INSERT INTO process_findings (process, finding, subject, detail, found_at)
VALUES (?,?,?,?,?);

-- name: select_process_findings
SELECT f.finding, f.subject, MIN(f.detail), MIN(p.name), MIN(f.found_at)
  FROM process_findings f
  JOIN processes p ON p.id = ABS(f.process)
 WHERE p.seen_at > CAST(UNIX_TIMESTAMP(SYSDATE(3))*1000 AS SIGNED) - ?
    OR (f.finding = 'assertion' AND f.found_at > CAST(UNIX_TIMESTAMP(SYSDATE(3))*1000 AS SIGNED) - ?)
 GROUP BY f.finding, f.subject
 ORDER BY f.finding, f.subject LIMIT ?;

-- name: put_death
INSERT INTO process_findings (process, finding, subject, detail, found_at)
VALUES (?, 'assertion', ?, LEFT(?, 400), CAST(UNIX_TIMESTAMP(SYSDATE(3))*1000 AS SIGNED));

-- name: select_deaths
SELECT subject, CAST(UNIX_TIMESTAMP(SYSDATE(3))*1000 AS SIGNED) - found_at
  FROM process_findings
 WHERE finding = 'assertion'
   AND found_at > CAST(UNIX_TIMESTAMP(SYSDATE(3))*1000 AS SIGNED) - ?
 ORDER BY found_at DESC LIMIT ?;

-- name: try_insert_job
INSERT INTO jobs (id, topic, run_at, retry, ack_timeout_ms, created_at, updated_at, maker, digest, payload)
SELECT id, topic, run_at, retry, ack_timeout_ms, created_at, updated_at, maker, digest, payload
  FROM jobs
 WHERE FALSE;

-- name: try_insert_key
INSERT INTO job_keys (topic, job_key, job_id)
SELECT topic, job_key, job_id
  FROM job_keys
 WHERE FALSE;

-- name: try_insert_counts
INSERT INTO job_counts (topic, piece, writer)
SELECT topic, piece, writer
  FROM job_counts
 WHERE FALSE;
