/* The rows of processes: each process writes its own once a second, and reads those of all. */
#pragma once

#include "store.h"

/*
 * A process also writes its row at once if a change did not reach the index. If a live process has an endpoint in
 * index_down, leaders of shards at that endpoint read due jobs from MySQL. If dt_store_index_debts returns another
 * value, all leaders do so until the index was compared with MySQL.
 */
struct dt_process {
    int64_t id; /* random */
    bool dispatcher;
    const char *name;       /* host:pid */
    const char *index_down; /* endpoints, separated by commas; *: all; NULL or empty: none */
    int64_t index_losses;
    const char *leads; /* shards; NULL: an API */
    const char *waits; /* what its leaders wait for, separated by commas: "kafka", "redis"; NULL or empty: nothing */
    const char *elected_by; /* "zookeeper" or "mysql" if it is elected for a shard, even before it leads; else NULL */
};
DT_MUST_CHECK dt_status dt_store_beat(dt_store *store, const struct dt_process *process, struct dt_error *err);
#define DT_PROCESS_FRESH_MS 4000 /* if its row is older, a process counts as dead */
/* All live dispatchers together. */
struct dt_dispatchers {
    unsigned n;
    bool waits_kafka, waits_redis; /* a leader of at least one waits */
    int64_t seen_ms_ago;           /* age of the oldest row */
    int64_t now_ms;                /* MySQL's time when this was read */
};
struct dt_live_process {
    int64_t id;
    bool dispatcher; /* false: an API */
    struct dt_str name, version;
    int64_t started_at_ms, seen_ms_ago;
    struct dt_str leads, waits, index_down; /* comma-separated lists; absent: none */
};
/* Reads the live processes, sorted by kind and name. */
DT_MUST_CHECK dt_status dt_store_processes(dt_store *store, struct dt_arena *arena, struct dt_live_process **out,
                                           size_t *n, struct dt_error *err);
#define DT_INSERT_TABLES 3
/* Inserts no rows into one of the tables that a new job needs (0 … 2), or into all of them (DT_INSERT_TABLES). It
 * fails if an insert would be refused: on a read-only server, or if a right is missing. */
DT_MUST_CHECK dt_status dt_store_can_insert(dt_store *store, unsigned table, struct dt_error *err);
/* Changes that processes could not write to the index. */
struct dt_index_debts {
    char down[1024]; /* endpoints that some live process cannot write to, as in struct dt_process; empty: none */
    uint64_t losses; /* changes if a live process loses a change, or if a process that had lost one dies */
};
DT_MUST_CHECK dt_status dt_store_index_debts(dt_store *store, struct dt_index_debts *out, struct dt_error *err);
