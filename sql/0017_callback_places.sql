-- Callbacks that wait for a place say so.
ALTER TABLE shard_stats
  ADD COLUMN callbacks VARBINARY(20) NULL COMMENT 'why due callbacks wait here: full (all places of the dispatcher are taken), off (callbacks.enabled is false), or NULL';

-- defines v_live 3bd6923db513
-- defines v_jobs 59772069203a
-- defines dt_explain
