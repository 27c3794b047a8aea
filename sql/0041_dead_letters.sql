-- Dead jobs are found by when they died, in history as among the finished ones of `jobs`: who lists, groups or redrives them pays for what is dead, and
-- not for what is kept.

UPDATE schema_migrations SET needs = 37 WHERE applied_at = 0;

ALTER TABLE history
  ADD COLUMN died_at BIGINT AS (IF(state = 'dead', COALESCE(error_at, finished_at, updated_at), NULL)) STORED COMMENT 'of a dead job: when it failed last; NULL of any other';

ALTER TABLE history
  ADD KEY dead (died_at, id);

-- defines v_dead bbe988f6a6dc
