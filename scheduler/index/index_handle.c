/* The handle dt_index: its connections, its scratch memory, the choice of a shard's endpoint, and messages that are
 * published without a change of entries. */
#include <errno.h>
#include <sys/random.h>

#include "index_internal.h"
#include "redis/redis_connect.h"

static const char *const SCRIPT_TEXTS[DT_SCRIPTS] = {
    [DT_SCRIPT_CHANGE] = dt_lua_change, [DT_SCRIPT_HOLD] = dt_lua_hold,     [DT_SCRIPT_UNHOLD] = dt_lua_unhold,
    [DT_SCRIPT_MARK] = dt_lua_mark,     [DT_SCRIPT_DUE] = dt_lua_due,       [DT_SCRIPT_RANGE] = dt_lua_range,
    [DT_SCRIPT_COUNT] = dt_lua_count,   [DT_SCRIPT_SCORES] = dt_lua_scores, [DT_SCRIPT_FILL] = dt_lua_fill,
    [DT_SCRIPT_FILLED] = dt_lua_filled, [DT_SCRIPT_TIDY] = dt_lua_tidy,     [DT_SCRIPT_DROP] = dt_lua_drop,
    [DT_SCRIPT_PROBE] = dt_lua_probe,
};

_Static_assert(DT_SCRIPTS <= DT_LINK_SCRIPTS, "a link has no room for so many scripts");

static dt_status make_links(dt_index *index, const struct dt_config *config, const dt_clock *clock)
{
    index->names = calloc(index->n_links, sizeof(*index->names));
    index->links = calloc(index->n_links, sizeof(dt_link *));
    index->wanted = calloc(index->n_links, sizeof(*index->wanted));
    index->sent = calloc(index->n_links, sizeof(*index->sent));
    index->known = malloc(DT_KNOWN_SLOTS * sizeof(*index->known));
    index->batch = dt_index_batch_new();
    if (!index->names || !index->links || !index->wanted || !index->sent || !index->known || !index->batch)
        return DT_NOMEM;
    dt_status status = DT_OK;
    for (unsigned i = 0; status == DT_OK && i < index->n_links; i++) {
        status = dt_link_new(config, &index->endpoints[i], clock, SCRIPT_TEXTS, DT_SCRIPTS, &index->links[i]);
        index->names[i] = dt_str(index->endpoints[i].name);
    }
    for (unsigned shard = 0; status == DT_OK && shard < DT_SHARDS_MAX; shard++)
        index->link_of[shard] = (uint16_t)dt_rendezvous(shard, index->names, index->n_links);
    return status;
}

dt_status dt_index_check(const struct dt_config *config, struct dt_error *err)
{
    struct dt_endpoint *endpoints;
    unsigned n;
    if (!dt_index_configured(config))
        return DT_OK;
    dt_status status = dt_endpoints_parse(config->redis_endpoints, &endpoints, &n, err);
    DT_THEN(status, dt_redis_check(config, endpoints, n, err));
    dt_endpoints_free(endpoints, n);
    return status;
}

dt_status dt_index_new(const struct dt_config *config, const char *installation, const dt_clock *clock, dt_index **out,
                       struct dt_error *err)
{
    dt_index *index;
    dt_status status;
    int64_t self;
    *out = NULL;
    if (!dt_index_configured(config))
        return DT_OK;
    if (getrandom(&self, sizeof(self), 0) != (ssize_t)sizeof(self))
        return dt_fail(err, DT_SYSTEM, "getrandom: %s", strerror(errno));
    if (!installation[0] || strlen(installation) >= sizeof(index->installation))
        return dt_fail(err, DT_INVALID, "the installation's name must have 1-100 bytes");
    index = calloc(1, sizeof(*index));
    if (!index)
        return dt_fail(err, DT_NOMEM, "out of memory");
    index->self = self;
    snprintf(index->installation, sizeof(index->installation), "%s", installation);
    status = dt_endpoints_parse(config->redis_endpoints, &index->endpoints, &index->n_links, err);
    DT_THEN(status, dt_redis_check(config, index->endpoints, index->n_links, err));
    if (status == DT_OK) {
        status = make_links(index, config, clock);
        if (status != DT_OK)
            status = dt_fail(err, status, "the connections to Redis could not be created");
    }
    if (status == DT_OK)
        *out = index;
    else
        dt_index_free(index);
    return status;
}

void dt_index_free(dt_index *index)
{
    if (!index)
        return;
    for (unsigned i = 0; index->links && i < index->n_links; i++)
        dt_link_free(index->links[i]);
    dt_endpoints_free(index->endpoints, index->n_links);
    free(index->names);
    free(index->links);
    free(index->wanted);
    free(index->sent);
    free(index->known);
    free(index->batch);
    dt_strbuf_clear(&index->page);
    free(index);
}

const char *dt_index_home(const dt_index *index, unsigned shard)
{
    return index ? index->endpoints[index->link_of[shard]].name : "";
}

void dt_index_failing(const dt_index *index, char *out, size_t cap)
{
    size_t n = 0;
    unsigned failing = 0;
    out[0] = '\0';
    for (unsigned i = 0; index && i < index->n_links && n < cap; i++) {
        if (!dt_link_failing(index->links[i]))
            continue;
        n += (size_t)snprintf(out + n, cap - n, "%s%s", n ? "," : "", index->endpoints[i].name);
        failing++;
    }
    if (!index || n >= cap || failing == index->n_links)
        snprintf(out, cap, "*");
}

static void build_ping(dt_index *index, unsigned i)
{
    dt_link_command(index->links[i], 1);
    dt_link_arg(index->links[i], DT_STR_LIT("PING"));
}

dt_status dt_index_ping(dt_index *index, struct dt_error *err)
{
    memset(index->wanted, 1, index->n_links * sizeof(*index->wanted));
    return dt_index_ask_wanted(index, build_ping, err);
}

static void build_probe(dt_index *index, unsigned i)
{
    dt_link_script(index->links[i], DT_SCRIPT_PROBE, 1, 1);
    dt_arg_common(index, index->links[i], "probe");
}

dt_status dt_index_probe(dt_index *index, struct dt_error *err)
{
    memset(index->wanted, 1, index->n_links * sizeof(*index->wanted));
    return dt_index_ask_wanted(index, build_probe, err);
}

static void on_memory(void *arg, size_t, const dt_reply *reply)
{
    static const char name[] = "maxmemory_policy:";
    struct dt_index_memory *memory = arg;
    struct dt_str text = dt_reply_text(reply);
    const char *at = text.p ? strstr(text.p, name) : NULL;
    if (at)
        snprintf(memory->policy, sizeof(memory->policy), "%.*s", (int)strcspn(at + strlen(name), "\r\n"),
                 at + strlen(name));
}

dt_status dt_index_memory(dt_index *index, unsigned i, struct dt_index_memory *out, struct dt_error *err)
{
    *out = (struct dt_index_memory){0};
    if (!index || i >= index->n_links)
        return DT_NOT_FOUND;
    out->endpoint = index->endpoints[i].name;
    dt_status status = dt_link_ready(index->links[i], err);
    if (status != DT_OK)
        return status;
    dt_link_command(index->links[i], 2);
    dt_link_arg(index->links[i], DT_STR_LIT("INFO"));
    dt_link_arg(index->links[i], DT_STR_LIT("memory"));
    return dt_index_round_trip(index->links[i], on_memory, out, err);
}

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
    struct dt_strbuf names = {0};
    dt_status status = dt_link_ready(link, err);
    if (status != DT_OK)
        return status;
    for (size_t i = 0; i < n; i++) {
        dt_strbuf_adds(&names, i ? " " : "");
        dt_strbuf_add(&names, topics[i].p, topics[i].n);
    }
    if (names.failed) {
        dt_strbuf_clear(&names);
        return dt_fail(err, DT_NOMEM, "out of memory");
    }
    dt_link_command(link, 3);
    dt_link_arg(link, DT_STR_LIT("PUBLISH"));
    dt_arg_common(index, link, "pops");
    dt_link_arg(link, dt_strbuf_str(&names));
    dt_strbuf_clear(&names);
    return dt_index_round_trip(link, NULL, NULL, err);
}
