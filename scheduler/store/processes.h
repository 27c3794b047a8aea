/*
 * The rows of processes: each writes its own once a second, and reads those of the others.
 */
#ifndef DT_STORE_PROCESSES_H
#define DT_STORE_PROCESSES_H

#include "store.h"

/*
 * Each process writes its row once a second, and at once when it could not tell the index of a change: leaders of
 * shards at an endpoint that is index_down for a process that lives read due jobs from MySQL, and all do so until the
 * index has been compared with MySQL after the last change of what dt_store_index_debts gives.
 */
struct dt_process {
    int64_t id; /* random */
    bool dispatcher;
    const char *name;       /* host:pid */
    const char *index_down; /* endpoints, separated by commas; * = all; NULL or empty: none */
    int64_t index_losses;
    const char *leads; /* NULL: an API */
    const char *waits; /* what its leaders wait for, separated by commas: "kafka", "redis"; NULL or empty: nothing */
    const char *elected_by; /* who elects it for a shard, led or not yet: "zookeeper", "mysql"; NULL: for none */
};
/* Writes the row of this process. */
DT_MUST_CHECK dt_status dt_store_beat(dt_store *store, const struct dt_process *process, struct dt_error *err);
#define DT_PROCESS_FRESH_MS 4000 /* a process that was not seen for longer is gone */
/* The dispatchers that live, taken together. */
struct dt_dispatchers {
    unsigned n;
    bool waits_kafka, waits_redis; /* a leader of one */
    int64_t seen_ms_ago;           /* of the one that was seen longest ago */
    int64_t now_ms;                /* MySQL's time of reading this */
};
/* A process that lives, as it says of itself. */
struct dt_live_process {
    int64_t id;
    bool dispatcher; /* otherwise an API */
    struct dt_str name, version;
    int64_t started_at_ms, seen_ms_ago;
    struct dt_str leads, waits, index_down; /* lists with commas; absent: nothing */
};
/* Reads the processes that live, by kind and name. */
DT_MUST_CHECK dt_status dt_store_processes(dt_store *store, struct dt_arena *arena, struct dt_live_process **out,
                                           size_t *n, struct dt_error *err);
#define DT_INSERT_TABLES 3
/* Inserts nothing into one of the tables that a new job needs (0 … 2), or DT_INSERT_TABLES: into all of them. Fails
 * where its insert would be refused (a server that is read-only, a right that is missing). */
DT_MUST_CHECK dt_status dt_store_can_insert(dt_store *store, unsigned table, struct dt_error *err);
/* The debts of all processes to the index. */
struct dt_index_debts {
    char down[1024]; /* endpoints that a process that lives cannot write to, as above; empty: none */
    uint64_t losses; /* another number whenever one of those that live has lost something, or one that had is gone */
};
/* Reads what processes could not tell the index. */
DT_MUST_CHECK dt_status dt_store_index_debts(dt_store *store, struct dt_index_debts *out, struct dt_error *err);

#endif
