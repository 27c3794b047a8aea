/* Settings of MySQL on which the promise rests that a commit which was answered survives the loss of the server's
 * machine. Read for GET /v1/doctor. */
#ifndef DT_STORE_SERVER_SETTINGS_H
#define DT_STORE_SERVER_SETTINGS_H

#include "store.h"

struct dt_server_settings {
    int64_t flush; /* innodb_flush_log_at_trx_commit: 1 = each commit is flushed */
    bool has_binlog;
    int64_t sync_binlog; /* 1 = so is the binary log */
    int64_t now_ms;      /* the server's clock */
    int64_t packet;      /* max_allowed_packet */
};
/* A table that soon has no number left for another row. */
struct dt_ending_numbers {
    struct dt_str table, next;
};
/* Semi-synchronous replication, as the primary has it. */
struct dt_semi_sync {
    bool waits;       /* commits wait for a replica just now */
    bool before_seen; /* before others can see what they wrote: AFTER_SYNC */
    int64_t alone_ms; /* without a replica the server goes on alone after so long; 0: it has no such setting */
};
DT_MUST_CHECK dt_status dt_store_semi_sync(dt_store *store, struct dt_semi_sync *out, struct dt_error *err);
/* Looks at the tables that the account may see. */
DT_MUST_CHECK dt_status dt_store_ending_numbers(dt_store *store, struct dt_arena *arena, struct dt_ending_numbers **v,
                                                size_t *n, struct dt_error *err);
DT_MUST_CHECK dt_status dt_store_server_settings(dt_store *store, struct dt_server_settings *out, struct dt_error *err);

#endif
