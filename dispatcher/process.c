/* Index entries of what the parts of a process have committed. */
#include "process.h"

#include "base/log.h"

size_t dt_process_entries_of(const struct dt_process_env *env, const struct dt_shard_map *map,
                             const struct dt_apply *applied, struct dt_entry *out)
{
    const int64_t job = applied->result.job_id;
    if (applied->outcome != DT_OUTCOME_APPLIED)
        return 0;
    if (applied->outbox)
        env->outbox(env->arg, dt_shard_of(map, job));
    return dt_entries_of_move(job, applied->next_at_ms, applied->was_ms, DT_WAS_MAX, out);
}

void dt_process_tell_index(const struct dt_process_env *env, dt_index *index, const struct dt_shard_map *map,
                           const struct dt_entry *entries, size_t n, bool wakes)
{
    struct dt_error err = {0};
    const int64_t horizon_ms = dt_refclock_earliest_ms(env->ref) + env->config->index_horizon;
    if (!index || n == 0 || (entries && dt_index_put(index, map, entries, n, horizon_ms, wakes, &err) == DT_OK))
        return;
    DT_LOG(DEBUG, "dispatcher", "the index was not updated", DT_S("reason", err.text));
    env->index_entries_lost(env->arg, index);
}
