-- duetime: what shards drain. See sql/README.md.

ALTER TABLE shard_stats
  ADD COLUMN drains BIGINT NOT NULL DEFAULT 0 COMMENT 'jobs a second that its leader claimed while more were due, when that last lasted; 0 = never measured';
