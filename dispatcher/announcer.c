/* Owns the dispatcher's own connection to Redis for announcements to other processes. Does not know why something is
 * announced. */
#include "intake.h"

#include <pthread.h>

#include "base/log.h"

struct dt_announcer {
    pthread_mutex_t lock;
    dt_index *index; /* protected by `lock`; NULL: the installation has no index */
};

void dt_announcer_tell(dt_announcer *a, int shard)
{
    struct dt_error err = {0};
    pthread_mutex_lock(&a->lock);
    dt_status status = !a->index    ? DT_OK
                       : shard >= 0 ? dt_index_wake(a->index, (unsigned)shard, true, &err)
                                    : dt_index_wake_all(a->index, &err);
    pthread_mutex_unlock(&a->lock);
    if (status != DT_OK)
        DT_LOG(DEBUG, "dispatcher", "a notification was not sent", DT_I("shard", shard), DT_S("reason", err.text));
}

dt_status dt_announcer_new(const struct dt_process_env *env, dt_announcer **out, struct dt_error *err)
{
    dt_announcer *a = calloc(1, sizeof(*a));
    *out = NULL;
    if (!a)
        return dt_fail(err, DT_NOMEM, "out of memory");
    pthread_mutex_init(&a->lock, NULL);
    dt_status status = dt_index_new(env->config, env->installation, env->clock, &a->index, err);
    if (status == DT_OK)
        *out = a;
    else
        dt_announcer_free(a);
    return status;
}

void dt_announcer_free(dt_announcer *a)
{
    if (!a)
        return;
    dt_index_free(a->index);
    pthread_mutex_destroy(&a->lock);
    free(a);
}

void dt_intake_tell_index(const struct dt_process_env *env, dt_index *index, struct dt_arena *arena,
                          const struct dt_job_move *moves, size_t n)
{
    struct dt_shard_map map;
    struct dt_entry *entries = index && n ? dt_arena_alloc(arena, n * sizeof(*entries)) : NULL;
    for (size_t i = 0; entries && i < n; i++)
        entries[i] = (struct dt_entry){moves[i].id, moves[i].due_ms, moves[i].was_ms};
    env->map(env->arg, &map);
    dt_process_tell_index(env, index, &map, entries, n, true);
}
