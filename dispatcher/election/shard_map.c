/*
 * An urgent chore that reads the installation's row every EVERY_US (without an index: every TOLD_US), when it is
 * woken, and more often while shards are being removed.
 *
 *   named     the shards of the map. Loops, results and reconciler use it
 *   led       named, and beyond that up to the last shard whose in-flight list is not empty. For GRACE_US after the
 *             number of shards fell, also all shards that were led before: an API that does not know the new number yet
 *             puts index entries of new jobs into their sets, and their leaders move these to the new shards
 *   orphans   other shards whose rows name a leadership that did not end, because its process died, or restarted and
 *             has no grace period. They get a last leader, which steps down
 *
 * Invariants: maps of the same generation are equal. If MySQL is restored from an older copy, a generation may occur
 * again with another number of shards, so both are compared. The map decides which process tries, never which write is
 * valid: an old map only costs time.
 */
#include "shard_map.h"

#include <pthread.h>

#include "base/assert.h"
#include "base/guard.h"
#include "base/log.h"
#include "index/index.h"
#include "shard/shard_loop.h"

#define EVERY_US   INT64_C(3000000)
#define TOLD_US    INT64_C(15000000) /* time between two reads if the watch of MySQL reports each change */
#define LEAVING_US INT64_C(500000)
#define GRACE_US   INT64_C(3000000)
#define ORPHAN_US                                                                                                      \
    INT64_C(                                                                                                           \
        10000000) /* longer than other processes take to read the new map, wait for their grace period and step down */
#define RETRY_US INT64_C(500000)

struct leaving {
    /* token: the leadership that the shard's row names; since_us: when it was first seen, or last was ours. */
    int64_t token, since_us;
    bool orphan; /* the leadership did not end, so the shard gets a last leader; reset when the row changes */
};

struct dt_shard_map_source {
    const struct dt_process_env *env;
    struct dt_chore chore;
    pthread_mutex_t lock; /* protects map */
    struct dt_shard_map map;
    _Atomic unsigned named, rows;
    unsigned led;
    int64_t grace_us; /* mono: before this time, no shard that was led is given up */
    struct leaving leaving[DT_SHARDS_MAX];
};

static void apply_shard_range(dt_shard_map_source *s, const struct dt_shard_range *range)
{
    const int64_t now_us = dt_clock_mono_us(s->env->clock);
    const unsigned kept = now_us < s->grace_us && range->led < s->led ? s->led : range->led;
    unsigned led = kept;
    for (unsigned shard = 0; shard < DT_SHARDS_MAX; shard++) {
        struct leaving *leaving = &s->leaving[shard];
        int64_t token = shard < kept ? 0 : range->standing[shard];
        /* A shard that this process may lead gets no last leader (orphans, above), because the row may name this
         * process's own leadership. */
        if (token == 0 || token != leaving->token)
            *leaving = (struct leaving){token, now_us, false};
        else if (shard < s->led && !leaving->orphan)
            leaving->since_us = now_us;
        else if (now_us - leaving->since_us >= ORPHAN_US)
            leaving->orphan = true;
        if (leaving->orphan && !DT_UNGUARDED(ORPHANS))
            led = shard + 1;
    }
    s->rows = range->rows;
    if (led == s->led)
        return;
    s->led = led;
    s->env->led_changed(s->env->arg, led);
}

static dt_status read_shard_map(dt_shard_map_source *s, dt_store *store, struct dt_error *err)
{
    struct dt_installation inst;
    struct dt_shard_range range;
    dt_status status = dt_store_installation(store, &inst, err);
    if (status == DT_OK && (inst.shards < 1 || inst.shards > DT_SHARDS_MAX))
        status = dt_fail(err, DT_CORRUPT, "installation.shards is %u, but must be 1 to %d", inst.shards, DT_SHARDS_MAX);
    DT_THEN(status, dt_store_shard_range(store, &inst, &range, err));
    if (status != DT_OK)
        return status;
    if (inst.generation != s->map.generation || inst.shards != s->map.shards) {
        if (inst.shards < s->map.shards)
            s->grace_us = dt_clock_mono_us(s->env->clock) + GRACE_US;
        DT_LOG(INFO, "dispatcher", "the number of shards changed", DT_I("from", s->map.shards), DT_I("to", inst.shards),
               DT_I("generation", inst.generation));
        pthread_mutex_lock(&s->lock);
        dt_shard_map_init(&s->map, inst.generation, inst.shards);
        s->named = inst.shards;
        pthread_mutex_unlock(&s->lock);
        if (!DT_UNGUARDED(MAP_WAKE))
            dt_loop_table_tell_all(s->env->loops, DT_LOOP_DUE); /* sleeping loops must read the map */
    }
    apply_shard_range(s, &range);
    return DT_OK;
}

static int64_t tick_shard_map(void *arg, void *store)
{
    dt_shard_map_source *s = arg;
    struct dt_error err = {0};
    const int64_t every_us = dt_index_configured(s->env->config) ? EVERY_US : TOLD_US;
    const dt_status status = read_shard_map(s, store, &err);
    if (status != DT_OK)
        return dt_chore_failed(&s->chore, DT_OUTAGE_MYSQL, "the number of shards cannot be read", status, &err,
                               RETRY_US);
    return dt_clock_mono_us(s->env->clock) + (s->led > s->named ? LEAVING_US : every_us);
}

void dt_shard_map_source_free(dt_shard_map_source *s)
{
    if (!s)
        return;
    pthread_mutex_destroy(&s->lock);
    free(s);
}

dt_status dt_shard_map_source_start(const struct dt_process_env *env, const struct dt_installation *inst,
                                    const struct dt_shard_range *range, dt_shard_map_source **out)
{
    dt_shard_map_source *s = *out = calloc(1, sizeof(*s));
    if (!s)
        return DT_NOMEM;
    s->env = env;
    pthread_mutex_init(&s->lock, NULL);
    dt_shard_map_init(&s->map, inst->generation, inst->shards);
    s->named = inst->shards;
    s->rows = range->rows;
    s->led = range->led;
    /* When the process starts, the leadership of a shard that the map no longer names gets a last leader at once,
     * without a grace period: it cannot be this process's own. If its leader is alive, that leader steps down by
     * itself. */
    for (unsigned shard = 0; shard < DT_SHARDS_MAX; shard++)
        s->leaving[shard] = (struct leaving){range->standing[shard], 0, range->standing[shard] != 0};
    s->chore = (struct dt_chore){.name = "shard-map", .tick = tick_shard_map, .arg = s};
    dt_chores_add(env->urgent, &s->chore);
    return DT_OK;
}

void dt_shard_map_source_stop(dt_shard_map_source *s)
{
    if (s)
        dt_chore_remove(&s->chore);
}

void dt_shard_map_source_get(dt_shard_map_source *s, struct dt_shard_map *out)
{
    pthread_mutex_lock(&s->lock);
    dt_assert_cmp(s->map.shards, ==, s->named);
    *out = s->map;
    pthread_mutex_unlock(&s->lock);
}

void dt_shard_map_source_stale(dt_shard_map_source *s)
{
    dt_chore_wake(&s->chore);
}

unsigned dt_shard_map_source_named(const dt_shard_map_source *s)
{
    return s->named;
}

unsigned dt_shard_map_source_rows(const dt_shard_map_source *s)
{
    return s->rows;
}
