-- Reads the server's settings that durability depends on (store.h).

-- name: select_server_settings
SELECT @@GLOBAL.innodb_flush_log_at_trx_commit, @@GLOBAL.log_bin, @@GLOBAL.sync_binlog,
       CAST(UNIX_TIMESTAMP(SYSDATE(3))*1000 AS SIGNED), @@GLOBAL.max_allowed_packet;

-- Finds tables whose AUTO_INCREMENT is near its maximum. Without SET_VAR, MySQL would return statistics that are up to
-- a day old.
-- name: select_ending_numbers
SELECT /*+ SET_VAR(information_schema_stats_expiry = 0) */ TABLE_NAME, CAST(AUTO_INCREMENT AS CHAR)
  FROM information_schema.TABLES
 WHERE TABLE_SCHEMA = DATABASE()
   AND AUTO_INCREMENT > 9000000000000000000;

-- Reads whether a commit waits for a replica, and at which point. MariaDB (master) and MySQL (source) have different
-- names for these variables. A server without semi-synchronous replication returns no rows.
-- name: select_semi_sync_settings
SHOW GLOBAL VARIABLES WHERE Variable_name IN ('rpl_semi_sync_master_wait_point', 'rpl_semi_sync_source_wait_point',
       'rpl_semi_sync_master_timeout', 'rpl_semi_sync_source_timeout');

-- name: select_semi_sync_status
SHOW GLOBAL STATUS WHERE Variable_name IN ('Rpl_semi_sync_master_status', 'Rpl_semi_sync_source_status');
