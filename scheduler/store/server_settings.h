/* Settings of MySQL that the promise rests on: that a commit which was answered survives the server's machine. */
#ifndef DT_STORE_SERVER_SETTINGS_H
#define DT_STORE_SERVER_SETTINGS_H

#include "store/store.h"

struct dt_server_settings {
    int64_t flush; /* innodb_flush_log_at_trx_commit: 1 = each commit is flushed */
    bool has_binlog;
    int64_t sync_binlog; /* 1 = so is the binary log */
    int64_t now_ms;      /* the server's clock */
};
DT_MUST_CHECK dt_status dt_store_server_settings(dt_store *store, struct dt_server_settings *out, struct dt_error *err);

#endif
