-- A job's own URL for callbacks.
ALTER TABLE jobs
  ADD COLUMN callback_url VARBINARY(2000) NULL COMMENT 'where its callbacks go; NULL = its topic''s callback_url, at the time of each attempt';

ALTER TABLE history
  ADD COLUMN callback_url VARBINARY(2000) NULL;

ALTER TABLE schedules
  ADD COLUMN callback_url VARBINARY(2000) NULL COMMENT 'of its jobs';

-- defines v_live
-- defines v_history c63328a8e8bd
-- defines v_jobs
-- defines dt_explain
