-- What the promise rests on in the server (server_settings.h).

-- name: select_server_settings
SELECT @@GLOBAL.innodb_flush_log_at_trx_commit, @@GLOBAL.log_bin, @@GLOBAL.sync_binlog,
       CAST(UNIX_TIMESTAMP(NOW(3))*1000 AS SIGNED);
