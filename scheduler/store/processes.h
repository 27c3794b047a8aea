/* The rows of processes: each process writes its own row once a second, and reads the rows of all processes. */
#pragma once

#include "store.h"

/* What a process writes into its row. It also writes the row at once if a change did not reach the index. If a live
 * process has an endpoint in index_down, leaders of shards at that endpoint read due jobs from MySQL. If the value of
 * dt_store_index_debts changes, all leaders read due jobs from MySQL until the index was compared with MySQL. */
struct dt_process {
    int64_t id; /* random number that identifies the process */
    bool dispatcher;
    const char *name;       /* "host:pid" */
    const char *index_down; /* comma-separated endpoints that it cannot write to; "*": all; NULL or empty: none */
    int64_t index_losses;
    const char *leads;      /* shards that this process leads, as a comma-separated list; NULL: it is an API */
    const char *waits;      /* what its leaders wait for, comma-separated: "kafka", "redis"; NULL or empty: nothing */
    const char *elected_by; /* "zookeeper" or "mysql" once elected for a shard, even before leading it; else NULL */
};
dt_status dt_store_beat(dt_store *store, const struct dt_process *process, struct dt_error *err);
#define DT_PROCESS_FRESH_MS 4000 /* age from which a row's process counts as dead */
/* What the rows of all live dispatchers say together. */
struct dt_dispatchers {
    unsigned n;
    bool waits_kafka, waits_redis; /* whether at least one leader waits for Kafka, for Redis */
    int64_t seen_ms_ago;           /* age of the oldest row of a live dispatcher */
    int64_t now_ms;                /* MySQL's time when the rows were read */
};
struct dt_live_process {
    int64_t id;
    bool dispatcher; /* true: a dispatcher; false: an API */
    struct dt_str name, version;
    int64_t started_at_ms, seen_ms_ago;
    struct dt_str leads, waits, index_down; /* comma-separated lists as in struct dt_process; absent: none */
};
/* Reads the live processes, sorted by kind and name. */
dt_status dt_store_processes(dt_store *store, struct dt_arena *arena, struct dt_live_process **out, size_t *n,
                             struct dt_error *err);
#define DT_INSERT_TABLES 3
/* Checks whether this process may insert into a table that a new job needs (0 … 2), or into all of these tables
 * (DT_INSERT_TABLES), with an INSERT that selects no rows. Fails if the server is read-only or a privilege is
 * missing. */
dt_status dt_store_can_insert(dt_store *store, unsigned table, struct dt_error *err);
/* Changes that processes could not write to the index. */
struct dt_index_debts {
    char down[1024]; /* endpoints that some live process cannot write to, as in dt_process.index_down; empty: none */
    uint64_t losses; /* sum that changes if a live process loses a change, or if a process that had lost one dies */
};
dt_status dt_store_index_debts(dt_store *store, struct dt_index_debts *out, struct dt_error *err);
