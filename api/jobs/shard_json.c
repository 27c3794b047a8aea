/* See shard_json.h. Pure. */
#include "jobs/shard_json.h"

#include "job/job_encode.h"

#define SILENT_MS 15000

struct dt_shard_cause dt_shard_judge(const struct dt_shard_info *shard, const struct dt_dispatchers *dispatchers,
                                     int64_t now_ms)
{
    if (shard && shard->halted.p)
        return (struct dt_shard_cause){.why = DT_SHARD_HALTED, .detail = shard->halted};
    if (!shard || !shard->owner.p) {
        if (dispatchers->n && dispatchers->waits_kafka)
            return (struct dt_shard_cause){.why = DT_SHARD_WAITS, .waits = DT_STR_LIT("kafka")};
        return (struct dt_shard_cause){.why = dispatchers->n ? DT_SHARD_NO_LEADER : DT_SHARD_NO_DISPATCHER};
    }
    if (now_ms - shard->seen_at_ms > SILENT_MS)
        return (struct dt_shard_cause){.why = DT_SHARD_SILENT};
    return (struct dt_shard_cause){
        .why = shard->waiting.p ? DT_SHARD_WAITS : DT_SHARD_OK, .waits = shard->waiting, .detail = shard->detail};
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
    dt_json_add_string_or_null(out, value);
}

void dt_shard_add_json(struct dt_strbuf *out, const struct dt_shard_info *shard,
                       const struct dt_dispatchers *dispatchers, int64_t now_ms)
{
    static const char *const words[] = {[DT_SHARD_HALTED] = "halted",       [DT_SHARD_NO_DISPATCHER] = "no-dispatcher",
                                        [DT_SHARD_NO_LEADER] = "no-leader", [DT_SHARD_SILENT] = "silent",
                                        [DT_SHARD_WAITS] = "waiting",       [DT_SHARD_OK] = "ok"};
    const struct dt_shard_cause cause = dt_shard_judge(shard, dispatchers, now_ms);
    dt_strbuf_addf(out, "{\"shard\":%u,\"epoch\":%lld,\"health\":\"%s\"", shard->shard, (long long)shard->epoch,
                   words[cause.why]);
    add_text(out, "leader", shard->owner);
    add_text(out, "halted", shard->halted);
    add_text(out, "waiting_for", cause.waits);
    add_text(out, "detail", shard->detail);
    dt_strbuf_addf(out, ",\"in_flight\":%lld,\"overdue\":%lld,\"oldest_overdue_ms\":%lld,\"held\":%lld",
                   (long long)shard->inflight, (long long)shard->overdue, (long long)dt_shard_oldest_ms(shard, now_ms),
                   (long long)shard->held);
    dt_strbuf_addf(out, ",\"index_whole\":%s,\"drift\":{\"missing\":%lld,\"extra\":%lld,\"wrong\":%lld},\"seen_at\":",
                   dt_shard_has_index(shard) ? "true" : "false", (long long)shard->drift_missing,
                   (long long)shard->drift_extra, (long long)shard->drift_wrong);
    if (shard->seen_at_ms)
        dt_json_add_time(out, shard->seen_at_ms);
    else
        dt_strbuf_adds(out, "null");
    dt_strbuf_addc(out, '}');
}
