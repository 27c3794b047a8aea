-- duetime: what shards drain. See sql/README.md.

ALTER TABLE shard_stats
  ADD COLUMN drains BIGINT NULL COMMENT 'jobs a second that its leader claimed while more were due, when that last lasted; NULL = never measured';
