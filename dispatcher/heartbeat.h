/* The heartbeat: an urgent chore that writes once a second into MySQL that the process lives, what it is elected for
 * and what it leads. In the same table it reads whether every process that changes jobs can write to the index; only
 * then may a leader trust the index. A lost entry is known at once if this process lost it, or if the process that lost
 * it can announce the loss through any Redis; otherwise within a second. */
#pragma once

#include "base/chores.h"
#include "base/config.h"
#include "shard/shard_loop.h"

typedef struct dt_heartbeat dt_heartbeat;

struct dt_heartbeat_env {
    dt_chores *urgent;
    dt_chores *chores; /* chores whose ticks are watched; NULL: none */
    const struct dt_config *config;
    const dt_clock *clock;
    const char *name;   /* host:pid */
    int64_t id;         /* id of the process's row; random */
    const char *elects; /* kind of election: dt_elector_name */
    const _Atomic bool *kafka_away;
    void *arg;
    /* The callbacks are NULL in a process that has not started and leads nothing. */
    unsigned (*shards)(void *arg); /* returns the number of shards: only shards with lower numbers may be led here */
    bool (*state)(void *arg, unsigned shard, struct dt_loop_state *out); /* false: no loop of the shard */
    /* Entries of any shard may be missing in the index, so leaders must not trust it. Called in ticks. */
    void (*doubt)(void *arg);
    /* An entry was lost here, or dt_heartbeat_announce was called: other processes must be notified, so that they read
     * the table now. */
    void (*announce)(void *arg);
};

DT_MUST_CHECK dt_status dt_heartbeat_start(const struct dt_heartbeat_env *env, dt_heartbeat **out);
/* Stops the heartbeat, frees. If the row said that the process is elected, and MySQL has answered lately, first writes
 * that it is not. Accepts NULL. */
void dt_heartbeat_stop(dt_heartbeat *heartbeat);

/* ---- any thread; none of them waits; NULL is accepted ---- */
/* Records that a change could not be written to the index. down: the endpoints that failed (dt_index_failing). */
void dt_heartbeat_lost(dt_heartbeat *heartbeat, const char *down);
/* Runs the tick now, because a leadership began or ended, or another process sent an announcement. */
void dt_heartbeat_news(dt_heartbeat *heartbeat);
/* Makes other processes do their periodic checks now. The call may wait for Redis. */
void dt_heartbeat_announce(dt_heartbeat *heartbeat);
/* Whether some process that changes jobs cannot write to the index at this endpoint ("host:port"). */
bool dt_heartbeat_owed(dt_heartbeat *heartbeat, const char *endpoint);
