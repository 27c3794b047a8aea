-- No program before it: a dispatcher before it would not find a job that a manual edit set back to scheduled.

-- A manual edit that ends an attempt, or a job, puts the row before all others of the finished ones in the due index (band 2, key 0), also if the job
-- is scheduled again or next_at is still set. So dispatchers find such rows without a search, count them, and give their place of max_in_flight back.
-- The generated columns of all rows are made again: the table is copied, and nothing is created or dispatched meanwhile.

UPDATE jobs SET attempt_status = 'none' WHERE attempt_status = 'dispatched' AND state <> 'dispatched';

ALTER TABLE jobs
  MODIFY COLUMN due_band TINYINT AS (IF(next_at IS NULL OR state + 0 > 2 OR (state + 0 = 1 AND attempt_status + 0 = 1), 2, near)) STORED COMMENT '-1 offered, 0 far, 1 near, 2 finished, or its attempt ended by hand',
  MODIFY COLUMN due_key BIGINT AS (IF(state + 0 <> 2 AND (attempt_status + 0 = 1 OR (state + 0 > 2 AND next_at IS NOT NULL)), 0, IF(next_at IS NULL, leave_at, IF(near, GREATEST(next_at, 1), GREATEST(next_at, 1) - GREATEST(next_at, 1) MOD 86400000)))) STORED COMMENT 'graded due time: exact when near, its day when far; 1 for what is due whenever it was (next_at zero or less); leave_at when finished; 0 in band 2: ended by a manual edit, and not counted yet';

-- defines v_live 0c97dddf320c
-- defines v_jobs 59772069203a
-- defines dt_explain 4dfaa708b52a
