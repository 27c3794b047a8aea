UPDATE schema_migrations SET needs = 37 WHERE applied_at = 0;

-- Jobs of paused topics are held, not late: leaders count them apart. Why a shard does not dispatch is decided in one place of the schema, v_shards.

ALTER TABLE shard_stats
  ADD COLUMN held BIGINT NOT NULL DEFAULT 0 COMMENT 'due jobs of paused topics, which are not overdue';

-- defines v_backlog ac2a8f1666e9
-- defines v_shards 9171ffff3ec6
