-- Figures over time (figures/figures.h). Each process has its own rows (`writer`); reads sum them.

-- name: add_figures
INSERT INTO figures (step_ms, at, writer, topic, created, dispatched, succeeded, failed, dead, cancelled, overdue)
VALUES (?,?,?,?,?,?,?,?,?,?,?)
ON DUPLICATE KEY UPDATE created = created + VALUES(created), dispatched = dispatched + VALUES(dispatched),
       succeeded = succeeded + VALUES(succeeded), failed = failed + VALUES(failed), dead = dead + VALUES(dead),
       cancelled = cancelled + VALUES(cancelled), overdue = GREATEST(overdue, VALUES(overdue));

-- name: add_lateness
INSERT INTO figures_lateness (step_ms, at, writer, up_to_us, attempts)
VALUES (?,?,?,?,?)
ON DUPLICATE KEY UPDATE attempts = attempts + VALUES(attempts);

-- `overdue` is a level, not a count of events: at each time, it is summed over the writers. A slot of several steps has
-- the maximum of these sums.
-- name: select_figures
SELECT CAST(f.at DIV ? AS SIGNED), CAST(SUM(f.created) AS SIGNED), CAST(SUM(f.dispatched) AS SIGNED), CAST(SUM(f.succeeded) AS SIGNED),
       CAST(SUM(f.failed) AS SIGNED), CAST(SUM(f.dead) AS SIGNED), CAST(SUM(f.cancelled) AS SIGNED), CAST(MAX(f.overdue) AS SIGNED)
  FROM (SELECT at, SUM(created) AS created, SUM(dispatched) AS dispatched, SUM(succeeded) AS succeeded, SUM(failed) AS failed,
               SUM(dead) AS dead, SUM(cancelled) AS cancelled, SUM(overdue) AS overdue
          FROM figures FORCE INDEX (PRIMARY)
         WHERE step_ms = ?
           AND topic = ?
           AND at >= ?
           AND at < ?
         GROUP BY at) f
 GROUP BY 1
 ORDER BY 1;

-- name: select_figures_of_topics
SELECT topic, CAST(SUM(created) AS SIGNED), CAST(SUM(dispatched) AS SIGNED), CAST(SUM(succeeded) AS SIGNED),
       CAST(SUM(failed) AS SIGNED), CAST(SUM(dead) AS SIGNED), CAST(SUM(cancelled) AS SIGNED)
  FROM figures FORCE INDEX (by_time)
 WHERE step_ms = ?
   AND at >= ?
   AND at < ?
 GROUP BY topic;

-- name: select_lateness
SELECT CAST(at DIV ? AS SIGNED), up_to_us, CAST(SUM(attempts) AS SIGNED)
  FROM figures_lateness FORCE INDEX (PRIMARY)
 WHERE step_ms = ?
   AND at >= ?
   AND at < ?
 GROUP BY 1, 2
 ORDER BY 1, 2;

-- name: delete_old_figures
DELETE FROM figures WHERE step_ms = ? AND at < ? LIMIT ?;

-- name: delete_old_lateness
DELETE FROM figures_lateness WHERE step_ms = ? AND at < ? LIMIT ?;

-- Reads the numbers of jobs by topic and state, from the counters of both tables. One statement reads both, so that a
-- job that is being archived is counted once.
-- name: select_counts_of_topics
SELECT c.topic, CAST(SUM(c.scheduled) AS SIGNED), CAST(SUM(c.dispatched) AS SIGNED), CAST(SUM(c.succeeded) AS SIGNED),
       CAST(SUM(c.dead) AS SIGNED), CAST(SUM(c.cancelled) AS SIGNED)
  FROM job_counts c
 GROUP BY c.topic
UNION ALL
SELECT h.topic, 0, 0, CAST(SUM(IF(h.state = 'succeeded', h.jobs, 0)) AS SIGNED), CAST(SUM(IF(h.state = 'dead', h.jobs, 0)) AS SIGNED),
       CAST(SUM(IF(h.state = 'cancelled', h.jobs, 0)) AS SIGNED)
  FROM history_counts h
 GROUP BY h.topic;

-- Reads a slice of due jobs that begins after (due_key, id), and the jobs offered to pops; the number of rows is
-- limited. A next_at of zero or less means "due now". The last four columns are about the slice: number of rows, number
-- of scheduled jobs among them, due_key and id of the last row.
-- name: select_overdue_of_topics
SELECT topic, CAST(SUM(counts) AS SIGNED), MIN(IF(counts AND next_at > 0, next_at, NULL)),
       CAST(SUBSTR(MIN(IF(counts, CONCAT(LPAD(GREATEST(next_at, 0), 20, '0'), id), NULL)), 21) AS SIGNED),
       COALESCE((SELECT t.paused FROM topics t WHERE t.name = d.topic), FALSE), COUNT(due_key),
       CAST(SUM(IF(due_key IS NULL, 0, counts)) AS SIGNED),
       CAST(SUBSTR(MAX(CONCAT(LPAD(due_key, 20, '0'), LPAD(id, 20, '0'))), 1, 20) AS SIGNED),
       CAST(SUBSTR(MAX(CONCAT(LPAD(due_key, 20, '0'), LPAD(id, 20, '0'))), 21) AS SIGNED)
  FROM (SELECT due.topic, due.next_at, due.id, due.due_key, IF(due.state = 'scheduled', 1, 0) AS counts
          FROM (SELECT topic, next_at, state, id, due_key
                  FROM jobs FORCE INDEX (due)
                 WHERE due_band = 1
                   AND (due_key = ? AND id > ? OR due_key > ? AND due_key < ?)
                 ORDER BY due_key, id LIMIT ?) due
         UNION ALL
        SELECT topic, due_at, job_id, NULL, 1 FROM (SELECT topic, due_at, job_id FROM pop_queue LIMIT ?) offered) d
 GROUP BY topic;
