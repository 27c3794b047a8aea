/*
 * Owns the messages that are published on their own: wake-ups, and what waits for pops. Refuses to know who subscribes
 * (redis/redis_subscriber.c). A wake-up that belongs to a change of entries is published by lua/change.lua.
 */
#include <stdio.h>
#include <string.h>

#include "index_internal.h"

#define MESSAGE_CAP 32

dt_status dt_index_wake(dt_index *index, unsigned shard, bool outbox, struct dt_error *err)
{
    dt_link *link = dt_index_link(index, shard);
    char text[MESSAGE_CAP];
    int n = snprintf(text, sizeof(text), outbox ? "%u outbox" : "%u", shard);
    dt_status status = dt_link_ready(link, err);

    if (status != DT_OK)
        return status;
    dt_link_command(link, 3);
    dt_link_arg(link, DT_STR_LIT("PUBLISH"));
    dt_arg_common(index, link, "wake");
    dt_link_arg(link, (struct dt_str){text, (size_t)n});
    return dt_index_round_trip(link, NULL, NULL, err);
}

static void build_wake_all(dt_index *index, unsigned i)
{
    dt_link *link = index->links[i];

    dt_link_command(link, 3);
    dt_link_arg(link, DT_STR_LIT("PUBLISH"));
    dt_arg_common(index, link, "wake");
    dt_link_arg(link, DT_STR_LIT("topic"));
    dt_link_command(link, 3);
    dt_link_arg(link, DT_STR_LIT("PUBLISH"));
    dt_arg_common(index, link, "pops");
    dt_link_arg(link, DT_STR_LIT(""));
}

dt_status dt_index_wake_all(dt_index *index, struct dt_error *err)
{
    memset(index->wanted, 1, index->n_links * sizeof(*index->wanted));
    return dt_index_ask_wanted(index, build_wake_all, err);
}

dt_status dt_index_tell_offers(dt_index *index, unsigned shard, const struct dt_str *topics, size_t n,
                               struct dt_error *err)
{
    dt_link *link = dt_index_link(index, shard);
    struct dt_strbuf names;
    dt_status status = dt_link_ready(link, err);

    if (status != DT_OK)
        return status;
    dt_strbuf_init(&names);
    for (size_t i = 0; i < n; i++) {
        dt_strbuf_adds(&names, i ? " " : "");
        dt_strbuf_add(&names, topics[i].p, topics[i].n);
    }
    if (names.failed) {
        dt_strbuf_clear(&names);
        return dt_fail(err, DT_NOMEM, "offers");
    }
    dt_link_command(link, 3);
    dt_link_arg(link, DT_STR_LIT("PUBLISH"));
    dt_arg_common(index, link, "pops");
    dt_link_arg(link, dt_strbuf_str(&names));
    dt_strbuf_clear(&names);
    return dt_index_round_trip(link, NULL, NULL, err);
}
