-- Statements for the migrations, the installation's row and the server's time.

-- name: lock_migrations
SELECT GET_LOCK(CONCAT('duetime.', LEFT(SHA2(DATABASE(), 256), 40)), ?);

-- name: set_migration_collation
SET NAMES utf8mb4 COLLATE utf8mb4_bin;

-- name: set_migration_step
UPDATE schema_migrations
   SET step = ?
 WHERE version = ?;

-- name: insert_shard
INSERT INTO shards (shard, inflight)
VALUES (?, '[]')
ON DUPLICATE KEY UPDATE shard = shard;

-- name: insert_installation
INSERT INTO installation (one, name, uuid, shards, created_at)
VALUES (1, ?, UUID(), ?, CAST(UNIX_TIMESTAMP(NOW(3))*1000 AS SIGNED))
ON DUPLICATE KEY UPDATE one = one;

-- name: insert_id_sequence
INSERT INTO id_sequence (one, next_id)
VALUES (1, 1)
ON DUPLICATE KEY UPDATE one = one;

-- name: select_shards_number
SELECT shards FROM installation;

-- name: select_migration
SELECT IF(applied_at > 0, -1, step) FROM schema_migrations WHERE version = ?;

-- name: insert_migration
INSERT INTO schema_migrations (version, name, applied_at, step)
VALUES (?, ?, 0, 0);

-- name: end_migration
UPDATE schema_migrations
   SET applied_at = CAST(UNIX_TIMESTAMP(NOW(3))*1000 AS SIGNED)
 WHERE version = ?;

-- name: create_migrations
CREATE TABLE IF NOT EXISTS schema_migrations (
  version INT NOT NULL PRIMARY KEY,
  name VARBINARY(100) NOT NULL,
  applied_at BIGINT NOT NULL COMMENT '0 = running, or interrupted',
  step INT NOT NULL COMMENT 'number of statements of the file that are done',
  needs INT NULL COMMENT 'programs whose newest migration is this one or later may run on a schema with that migration; NULL = only programs that have the migration itself'
) ENGINE=InnoDB COMMENT='which files of sql/ have been applied';

-- name: count_chain
-- Returns the number of applied migrations of the old chain, before the baseline. Returns no row if there is no
-- migration, or if the first one is the baseline.
SELECT COUNT(NULLIF(applied_at, 0))
  FROM schema_migrations
HAVING COUNT(*) > 0 AND SUM(version = ? AND name = ?) = 0;

-- name: delete_chain
DELETE FROM schema_migrations;

-- name: count_migrations
-- Returns the number of applied migrations. The first one counts only if it is the baseline.
SELECT COUNT(*) FROM schema_migrations WHERE applied_at > 0 AND version <= ? AND (version > 1 OR name = ?);

-- name: select_newest_migration
SELECT MAX(version) FROM schema_migrations;

-- name: select_needed_migration
SELECT MAX(COALESCE(needs, version)) FROM schema_migrations WHERE version > ?;

-- name: count_installations
SELECT COUNT(*) FROM installation;

-- name: select_installation
SELECT name, uuid, shards, generation, topics_version FROM installation;

-- name: select_cursor_key
SELECT cursor_key FROM installation;

-- name: set_cursor_key
UPDATE installation
   SET cursor_key = ?
 WHERE LENGTH(cursor_key) <> ?;

-- name: select_now
SELECT CAST(UNIX_TIMESTAMP(NOW(3))*1000 AS SIGNED);
