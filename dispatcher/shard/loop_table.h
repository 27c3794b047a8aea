/*
 * The loops of the shards that this process was told to lead. Any thread gives orders; one thread, the supervisor's,
 * carries them out:
 *
 *   LEAD     starts a loop (after an earlier one of the shard has ended)
 *   RELEASE  the loop settles, steps down and ends; it is freed, and `released` says that others may have the shard
 *   NOTHING  the shard is lost: the loop stops at once, and is freed when it has ended
 */
#ifndef DT_DISPATCHER_LOOP_TABLE_H
#define DT_DISPATCHER_LOOP_TABLE_H

#include <stdbool.h>

#include "base/status.h"
#include "shard_loop.h"

typedef struct dt_loop_table dt_loop_table;

/* Copied; what the members point at outlives the table. */
struct dt_loop_table_env {
    const struct dt_loop_env *loops; /* what each loop is given; complete when the first order is carried out */
    void *arg;
    void (*news)(void *arg);                     /* something is to be carried out. Any thread */
    void (*released)(void *arg, unsigned shard); /* on the supervisor's thread */
};

DT_MUST_CHECK dt_status dt_loop_table_new(const struct dt_loop_table_env *env, dt_loop_table **out);
void dt_loop_table_free(dt_loop_table *table); /* no loop is left; accepts NULL */

/* ---- orders: the last one of a shard counts. The elector's thread ---- */

enum dt_loop_want { DT_WANT_NOTHING, DT_WANT_LEAD, DT_WANT_RELEASE };
void dt_loop_table_want(dt_loop_table *table, unsigned shard, enum dt_loop_want what);

/* ---- any thread ---- */

/* A loop's thread has ended. */
void dt_loop_table_ended(dt_loop_table *table, unsigned shard);
/* Calls fn for a shard's loop, if there is one; the loop stays until fn returns. */
void dt_loop_table_tell(dt_loop_table *table, unsigned shard, void (*what)(dt_shard_loop *loop));
void dt_loop_table_tell_all(dt_loop_table *table, void (*what)(dt_shard_loop *loop));
/* Passes on a number as well. */
void dt_loop_table_tell_number(dt_loop_table *table, unsigned shard, void (*what)(dt_shard_loop *loop, uint64_t number),
                               uint64_t number);
/* Notifies the loops of these jobs' shards that attempts were lost. */
void dt_loop_table_tell_lost(dt_loop_table *table, const struct dt_shard_map *map, const int64_t *ids, size_t n);
bool dt_loop_table_state(dt_loop_table *table, unsigned shard, struct dt_loop_state *out);

/* ---- the supervisor's thread ---- */

/* Carries out all orders. Also leads shards below `forced` for which there is no order (a test uses this to have two
 * leaders). True: a loop could not be started; call again after a while. */
bool dt_loop_table_carry_out(dt_loop_table *table, unsigned forced);
/* Stops all loops, and waits for them. */
void dt_loop_table_end(dt_loop_table *table);

#endif
