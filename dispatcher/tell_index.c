/* See tell_index.h. */
#include "tell_index.h"

#include "base/log.h"

void dt_intake_tell_index(const struct dt_intake_env *env, dt_index *index, struct dt_arena *arena,
                          const struct dt_job_move *moves, size_t n)
{
    struct dt_shard_map map;
    struct dt_error err = {0};
    if (!index || n == 0)
        return;
    struct dt_entry *entries = dt_arena_alloc(arena, n * sizeof(*entries));
    int64_t horizon_ms = dt_refclock_earliest_ms(env->ref) + env->config->index_horizon;
    for (size_t i = 0; entries && i < n; i++)
        entries[i] = (struct dt_entry){moves[i].id, moves[i].due_ms, moves[i].was_ms};
    env->map(env->arg, &map);
    if (entries && dt_index_put(index, &map, entries, n, horizon_ms, true, &err) == DT_OK)
        return;
    DT_LOG(DEBUG, "intake", "the index was not told", DT_S("reason", err.text));
    env->index_untold(env->arg, index);
}
