/* See shard_json.h. Pure. */
#include "shard_json.h"

#include "base/text/json_write.h"
#include "dispatch/shards.h"
#include "store/processes.h"

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

void dt_shard_put_drift(struct dt_strbuf *out, const struct dt_shard_info *shard)
{
    dt_json_put_bool(out, "index_whole", dt_shard_has_index(shard));
    dt_json_begin_object(out, "drift");
    dt_json_put_int(out, "missing", shard->drift_missing);
    dt_json_put_int(out, "extra", shard->drift_extra);
    dt_json_put_int(out, "wrong", shard->drift_wrong);
    dt_json_end_object(out);
    dt_json_put_time(out, "seen_at", shard->seen_at_ms);
}

void dt_shard_put(struct dt_strbuf *out, const char *name, const struct dt_shard_info *shard,
                  const struct dt_dispatchers *dispatchers, int64_t now_ms)
{
    static const char *const words[] = {[DT_SHARD_HALTED] = "halted",       [DT_SHARD_NO_DISPATCHER] = "no-dispatcher",
                                        [DT_SHARD_NO_LEADER] = "no-leader", [DT_SHARD_SILENT] = "silent",
                                        [DT_SHARD_WAITS] = "waiting",       [DT_SHARD_OK] = "ok"};
    const struct dt_shard_cause cause = dt_shard_judge(shard, dispatchers, now_ms);
    dt_json_begin_object(out, name);
    dt_json_put_int(out, "shard", shard->shard);
    dt_json_put_int(out, "epoch", shard->epoch);
    dt_json_put_word(out, "health", words[cause.why]);
    dt_json_put_string(out, "leader", shard->owner);
    dt_json_put_string(out, "halted", shard->halted);
    dt_json_put_string(out, "waiting_for", cause.waits);
    dt_json_put_string(out, "detail", shard->detail);
    dt_json_put_int(out, "in_flight", shard->inflight);
    dt_json_put_int(out, "overdue", shard->overdue);
    dt_json_put_int(out, "oldest_overdue_ms", dt_shard_oldest_ms(shard, now_ms));
    dt_json_put_int(out, "held", shard->held);
    dt_shard_put_drift(out, shard);
    dt_json_end_object(out);
}
