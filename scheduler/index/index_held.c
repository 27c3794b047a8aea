/*
 * Owns the held sets of a shard: which there are, and giving their entries back to the due set. Refuses to know why a
 * topic is held. Entries are put into held sets by dt_index_hold (index_chunks.c).
 */
#include "index_internal.h"

dt_status dt_index_unhold(dt_index *index, unsigned shard, struct dt_str topic, size_t limit, int64_t *next_ms,
                          struct dt_error *err)
{
    dt_link *link = dt_index_link(index, shard);
    dt_status status;

    *next_ms = 0;
    do {
        size_t some = dt_at_most(limit, DT_CHUNK);

        status = dt_link_ready(link, err);
        if (status != DT_OK)
            return status;
        dt_link_script(link, DT_SCRIPT_UNHOLD, 3, 5);
        dt_arg_set(index, link, shard);
        dt_arg_held(index, link, shard, topic);
        dt_arg_registry(index, link, shard);
        dt_link_arg(link, topic);
        dt_link_arg_i64(link, (int64_t)some);
        status = dt_index_round_trip(link, dt_on_integer, next_ms, err);
        limit -= some;
    } while (status == DT_OK && *next_ms > 0 && limit > 0);
    return status;
}

struct held_reply {
    struct dt_arena *arena;
    struct dt_str *topics;
    size_t n;
    bool failed; /* no memory */
};

static void on_held(void *arg, size_t i, const dt_reply *reply)
{
    struct held_reply *held = arg;
    size_t n = dt_reply_count(reply);

    (void)i;
    held->n = 0;
    if (n == 0)
        return;
    held->topics = dt_arena_alloc(held->arena, n * sizeof(*held->topics));
    for (size_t k = 0; held->topics && k < n; k++) {
        const struct dt_str name = dt_reply_text(dt_reply_element(reply, k));
        if (name.n >= DT_HELD_NAME_SIZE) /* put there by hand */
            continue;
        held->topics[held->n] = dt_arena_copy(held->arena, name);
        held->failed |= held->topics[held->n].p == NULL;
        held->n++;
    }
    held->failed |= held->topics == NULL;
}

dt_status dt_index_held(dt_index *index, unsigned shard, struct dt_arena *arena, struct dt_str **topics, size_t *n,
                        struct dt_error *err)
{
    dt_link *link = dt_index_link(index, shard);
    struct held_reply held = {.arena = arena};
    dt_status status = dt_link_ready(link, err);

    *topics = NULL;
    *n = 0;
    if (status != DT_OK)
        return status;
    dt_link_command(link, 2);
    dt_link_arg(link, DT_STR_LIT("SMEMBERS"));
    dt_arg_registry(index, link, shard);
    status = dt_index_round_trip(link, on_held, &held, err);
    if (status == DT_OK && held.failed)
        status = dt_fail(err, DT_NOMEM, "dt_index_held");
    if (status != DT_OK)
        return status;
    *topics = held.topics;
    *n = held.n;
    return DT_OK;
}
