UPDATE schema_migrations SET needs = 37 WHERE applied_at = 0;

-- What a receiver answered stands in a row of `jobs` from the start, as 0 and -1, so that a row does not grow when the outcome of a callback is
-- recorded: it keeps its place in its page, which otherwise is made anew for every second outcome. NULL means the same. (Programs
-- before it show the two as they stand.)

ALTER TABLE jobs
  MODIFY COLUMN http_status SMALLINT NULL DEFAULT 0 COMMENT 'that a receiver answered to the latest attempt; 0 (or NULL) = no callback, or no answer',
  MODIFY COLUMN duration_ms INT NULL DEFAULT -1 COMMENT 'from the sending of that callback to its answer, or its failure; -1 (or NULL) = no callback';

-- defines v_attempts afa1e2ea43aa
