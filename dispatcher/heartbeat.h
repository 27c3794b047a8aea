/*
 * The heartbeat: an urgent chore that writes once a second, in MySQL, that the process lives, what it is
 * elected for and what it leads.
 * From the same table it learns whether every process that changes jobs can write to the index. A leader may believe
 * the index only then. An entry that was lost in this process is known at once, and so is one that its writer can still
 * announce on any Redis; every other loss is known within a second.
 */
#ifndef DT_DISPATCHER_HEARTBEAT_H
#define DT_DISPATCHER_HEARTBEAT_H

#include "base/chores.h"
#include "base/config.h"
#include "shard/shard_loop.h"

typedef struct dt_heartbeat dt_heartbeat;

struct dt_heartbeat_env {
    dt_chores *urgent;
    dt_chores *chores; /* whose ticks are watched; NULL: none are */
    const struct dt_config *config;
    const dt_clock *clock;
    const char *name;   /* host:pid */
    int64_t id;         /* random */
    const char *elects; /* dt_elector_name */
    const _Atomic bool *kafka_away;
    void *arg;
    /* NULL, and then all below: the process has not started, and leads nothing. */
    unsigned (*shards)(void *arg);                                       /* shards below it may be led here */
    bool (*state)(void *arg, unsigned shard, struct dt_loop_state *out); /* false: no loop here */
    /* Both in its ticks. Entries of any shard may be missing in the index: leaders must not believe it. */
    void (*doubt)(void *arg);
    /* An entry was lost here, or dt_heartbeat_announce was called: the processes that hear it should look at the
     * table now. */
    void (*announce)(void *arg);
};

DT_MUST_CHECK dt_status dt_heartbeat_start(const struct dt_heartbeat_env *env, dt_heartbeat **out);
/* Says in the row that the process is elected for nothing any more, if the row said that it was and MySQL has answered
 * lately; frees. NULL is accepted. */
void dt_heartbeat_stop(dt_heartbeat *heartbeat);

/* ---- any thread; none of them waits; NULL is accepted ---- */
/* The index could not be told of a change; down: the endpoints that failed (dt_index_failing). */
void dt_heartbeat_lost(dt_heartbeat *heartbeat, const char *down);
/* A leadership began or ended, or a process announced something: looks now. */
void dt_heartbeat_news(dt_heartbeat *heartbeat);
/* Has other processes look at what they look at now and then. The announcement may wait for Redis. */
void dt_heartbeat_announce(dt_heartbeat *heartbeat);
/* Whether some process that changes jobs cannot write to the index at that endpoint ("host:port") now. */
bool dt_heartbeat_owed(dt_heartbeat *heartbeat, const char *endpoint);

#endif
