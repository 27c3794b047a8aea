/* Invariants: a shard has at most one loop. Only the supervisor's thread frees a loop, after it took the loop out of
 * the table under the lock. Every thread that calls a loop holds that lock. */
#include "shard_loop.h"

#include <pthread.h>
#include <stdatomic.h>

#include "base/assert.h"
#include "base/log.h"
#include "job/shard.h"

struct slot {
    dt_shard_loop *loop; /* protected by table->lock; changed only by the supervisor */
    /* The last order. Only the elector's thread sets it, except that a finished RELEASE becomes NOTHING. */
    _Atomic int want;
    _Atomic bool ended; /* the loop's thread has ended */
    bool told;          /* the order to release or stop was passed to the loop */
};

struct dt_loop_table {
    const struct dt_process_env *env;
    pthread_mutex_t lock;
    struct slot slots[DT_SHARDS_MAX];
};

/* ---- orders ---- */

void dt_loop_table_want(dt_loop_table *table, unsigned shard, enum dt_loop_want what)
{
    table->slots[shard].want = (int)what;
    table->env->ordered(table->env->arg);
}

void dt_loop_table_ended(dt_loop_table *table, unsigned shard)
{
    table->slots[shard].ended = true;
    table->env->ordered(table->env->arg);
}

void dt_loop_table_tell(dt_loop_table *table, unsigned shard, enum dt_loop_news news)
{
    pthread_mutex_lock(&table->lock);
    if (table->slots[shard].loop)
        dt_shard_loop_tell(table->slots[shard].loop, news);
    pthread_mutex_unlock(&table->lock);
}

void dt_loop_table_tell_all(dt_loop_table *table, enum dt_loop_news news)
{
    for (unsigned shard = 0; shard < DT_SHARDS_MAX; shard++)
        dt_loop_table_tell(table, shard, news);
}

void dt_loop_table_doubt_all(dt_loop_table *table)
{
    pthread_mutex_lock(&table->lock);
    for (unsigned shard = 0; shard < DT_SHARDS_MAX; shard++)
        if (table->slots[shard].loop)
            dt_shard_loop_index_doubted(table->slots[shard].loop);
    pthread_mutex_unlock(&table->lock);
}

void dt_loop_table_tell_number(dt_loop_table *table, unsigned shard, void (*what)(dt_shard_loop *loop, uint64_t number),
                               uint64_t number)
{
    pthread_mutex_lock(&table->lock);
    if (table->slots[shard].loop)
        what(table->slots[shard].loop, number);
    pthread_mutex_unlock(&table->lock);
}

void dt_loop_table_tell_lost(dt_loop_table *table, const struct dt_shard_map *map, const int64_t *ids, size_t n)
{
    pthread_mutex_lock(&table->lock);
    for (size_t i = 0; i < n; i++)
        dt_shard_loop_lost(table->slots[dt_shard_of(map, ids[i])].loop, ids[i]);
    pthread_mutex_unlock(&table->lock);
}

bool dt_loop_table_state(dt_loop_table *table, unsigned shard, struct dt_loop_state *out)
{
    pthread_mutex_lock(&table->lock);
    bool there = table->slots[shard].loop != NULL;
    if (there)
        dt_shard_loop_state(table->slots[shard].loop, out);
    pthread_mutex_unlock(&table->lock);
    return there;
}

/* ---- carrying orders out ---- */

static void end_loop(dt_loop_table *table, struct slot *slot)
{
    pthread_mutex_lock(&table->lock);
    dt_shard_loop *loop = slot->loop;
    dt_assert(loop);
    slot->loop = NULL;
    pthread_mutex_unlock(&table->lock);
    dt_shard_loop_free(loop);
    slot->ended = slot->told = false;
}

/* Starts a loop. If false is returned, try again: the election names this process, so no other process will lead the
 * shard. */
static bool start_loop(dt_loop_table *table, unsigned shard)
{
    dt_shard_loop *loop = NULL;
    dt_status status = dt_shard_loop_start(table->env, shard, &loop);
    if (status != DT_OK) {
        DT_LOG(ERROR, "dispatcher", "a shard loop did not start", DT_I("shard", shard),
               DT_S("status", dt_status_name(status)));
        return false;
    }
    pthread_mutex_lock(&table->lock);
    dt_assert(!table->slots[shard].loop); /* a shard has at most one loop */
    table->slots[shard].loop = loop;
    pthread_mutex_unlock(&table->lock);
    return true;
}

bool dt_loop_table_carry_out(dt_loop_table *table, unsigned forced)
{
    bool again = false;
    for (unsigned shard = 0; shard < DT_SHARDS_MAX; shard++) {
        struct slot *slot = &table->slots[shard];
        if (slot->ended)
            end_loop(table, slot);
        enum dt_loop_want what = (enum dt_loop_want)slot->want;
        if (what == DT_WANT_NOTHING && shard < forced)
            what = DT_WANT_LEAD;
        if (slot->loop && what != DT_WANT_LEAD) {
            if (!slot->told && what == DT_WANT_RELEASE)
                dt_shard_loop_release(slot->loop);
            else if (what == DT_WANT_NOTHING) /* the election may take the shard away while the loop is finishing */
                dt_shard_loop_stop(slot->loop);
            slot->told = true;
        } else if (!slot->loop && what == DT_WANT_LEAD) {
            again |= !start_loop(table, shard);
        } else if (!slot->loop && what == DT_WANT_RELEASE) {
            /* No loop works on the shard any more: another process may lead it. */
            int release = DT_WANT_RELEASE;
            if (atomic_compare_exchange_strong(&slot->want, &release, DT_WANT_NOTHING))
                table->env->released(table->env->arg, shard);
        }
    }
    return again;
}

void dt_loop_table_end(dt_loop_table *table)
{
    for (unsigned shard = 0; shard < DT_SHARDS_MAX; shard++)
        if (table->slots[shard].loop) {
            dt_shard_loop_stop(table->slots[shard].loop);
            end_loop(table, &table->slots[shard]);
        }
}

dt_status dt_loop_table_new(const struct dt_process_env *env, dt_loop_table **out)
{
    dt_loop_table *table = calloc(1, sizeof(*table));
    if (!table)
        return DT_NOMEM;
    table->env = env;
    pthread_mutex_init(&table->lock, NULL);
    *out = table;
    return DT_OK;
}

void dt_loop_table_free(dt_loop_table *table)
{
    if (!table)
        return;
    pthread_mutex_destroy(&table->lock);
    free(table);
}
