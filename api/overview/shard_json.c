/* See shard_json.h. Pure. */
#include "overview/shard_json.h"

#include "job/job_encode.h"
#include "jobs/waiting.h"

const char *dt_shard_health(const struct dt_shard_info *shard, int64_t now_ms)
{
    if (shard->halted.p)
        return "halted";
    if (!shard->owner.p)
        return "no-leader";
    if (now_ms - shard->seen_at_ms > DT_LEADER_SILENT_MS)
        return "silent";
    return shard->waiting.p ? "waiting" : "ok";
}

int64_t dt_shard_oldest_ms(const struct dt_shard_info *shard, int64_t now_ms)
{
    int64_t oldest_ms = shard->overdue > 0 && shard->oldest_due_at_ms > 0 ? now_ms - shard->oldest_due_at_ms : 0;
    return oldest_ms > 0 ? oldest_ms : 0;
}

bool dt_shard_has_index(const struct dt_shard_info *shard)
{
    return shard->owner.p && shard->generation > 0 && !dt_str_is(shard->waiting, "redis");
}

static void add_text(struct dt_strbuf *out, const char *name, struct dt_str value)
{
    dt_strbuf_addf(out, ",\"%s\":", name);
    dt_json_add_string_or_null(out, value.n ? value : DT_STR_NONE);
}

void dt_shard_add_json(struct dt_strbuf *out, const struct dt_shard_info *shard, int64_t now_ms)
{
    dt_strbuf_addf(out, "{\"shard\":%u,\"epoch\":%lld,\"health\":\"%s\"", shard->shard, (long long)shard->epoch,
                   dt_shard_health(shard, now_ms));
    add_text(out, "leader", shard->owner);
    add_text(out, "halted", shard->halted);
    add_text(out, "waiting_for", shard->waiting);
    add_text(out, "detail", shard->detail);
    dt_strbuf_addf(out, ",\"in_flight\":%lld,\"overdue\":%lld,\"oldest_overdue_ms\":%lld", (long long)shard->inflight,
                   (long long)shard->overdue, (long long)dt_shard_oldest_ms(shard, now_ms));
    dt_strbuf_addf(out, ",\"index_whole\":%s,\"drift\":{\"missing\":%lld,\"extra\":%lld,\"wrong\":%lld}}",
                   dt_shard_has_index(shard) ? "true" : "false", (long long)shard->drift_missing,
                   (long long)shard->drift_extra, (long long)shard->drift_wrong);
}
