-- Counts dead jobs by topic and error (dead.c). A subquery reads the ids of the newest jobs, up to a maximum, from the
-- index alone; then the rows of these jobs are read.

-- name: count_finished
SELECT COUNT(*)
  FROM (SELECT id
          FROM jobs FORCE INDEX (due)
         WHERE due_band = 2
           AND due_key >= ?
           AND due_key < ?
         ORDER BY due_key DESC, id DESC LIMIT ?) newest;

-- name: group_dead_jobs
SELECT j.topic, j.error_code, COUNT(*), MAX(j.error_at), MAX(j.id), MAX(j.error_message)
  FROM (SELECT id
          FROM jobs FORCE INDEX (due)
         WHERE due_band = 2
           AND due_key >= ?
           AND due_key < ?
         ORDER BY due_key DESC, id DESC LIMIT ?) newest
  STRAIGHT_JOIN jobs j FORCE INDEX (PRIMARY) ON j.id = newest.id
 WHERE j.state = 'dead'
   AND (? IS NULL OR j.topic = ?)
   AND (? = 0 OR j.error_at >= ? AND j.error_at < ?)
 GROUP BY j.topic, j.error_code
 ORDER BY COUNT(*) DESC;

-- name: count_archived_dead
SELECT COUNT(*)
  FROM (SELECT id
          FROM history FORCE INDEX (dead)
         WHERE died_at >= ?
           AND died_at < ?
         ORDER BY died_at DESC, id DESC LIMIT ?) newest;

-- name: group_archived_dead
SELECT j.topic, j.error_code, COUNT(*), MAX(j.error_at), MAX(j.id), MAX(j.error_message)
  FROM (SELECT id, part
          FROM history FORCE INDEX (dead)
         WHERE died_at >= ?
           AND died_at < ?
         ORDER BY died_at DESC, id DESC LIMIT ?) newest
  STRAIGHT_JOIN history j FORCE INDEX (PRIMARY) ON j.id = newest.id AND j.part = newest.part
 WHERE j.state = 'dead'
   AND (? IS NULL OR j.topic = ?)
   AND (? = 0 OR j.error_at >= ? AND j.error_at < ?)
   AND j.purge_at > ?
 GROUP BY j.topic, j.error_code
 ORDER BY COUNT(*) DESC;
