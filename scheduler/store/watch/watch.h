/*
 * The wait of a dispatcher that has no index, and so nobody to wake it: one statement in which the server waits for the
 * dispatcher, and looks every 40 ms (procedure dt_watch in sql/). What it finds are hints; a claim decides. It locks
 * nothing. A dispatcher at rest costs the server a statement in a few seconds this way, and still hears in time.
 */
#ifndef DT_STORE_WATCH_WATCH_H
#define DT_STORE_WATCH_WATCH_H

#include "store/dispatch/scan.h"

#define DT_WATCH_DUE 1000 /* as dt_watch has it */

/* Events that end the wait before its time is over. */
struct dt_watch {
    int64_t wait_ms;     /* 0: not at all */
    int64_t due_from_ms; /* a near row that is due from then on */
    /* Whose leaderships: shards.owner. The next three are what the caller knows; another one ends it. */
    const char *owner;
    int64_t generation, topics_version, leads;
    int64_t look_from_ms; /* what is due from then on is told */
};
/* A shard's row as it is: its fence. */
struct dt_watched_row {
    unsigned shard;
    int64_t epoch, token, version;
};
struct dt_watched {
    int64_t generation, topics_version;
    int64_t leads;  /* stands for the owner's leaderships: another number when one begins, ends, or is halted */
    int64_t now_ms; /* by the server's clock */
    size_t n_due;   /* DT_WATCH_DUE: perhaps more */
    size_t n_rows;
    struct dt_due due[DT_WATCH_DUE];           /* of any shard, in order of time */
    struct dt_watched_row rows[DT_SHARDS_MAX]; /* the owner's */
};
/* Waits, and tells. It takes wait_ms at most, beside what the server takes for a look. */
DT_MUST_CHECK dt_status dt_store_watch(dt_store *store, const struct dt_watch *watch, struct dt_watched *out,
                                       struct dt_error *err);

#endif
