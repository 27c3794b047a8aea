/* Dead letters by topic and error as JSON. Pure. */
#include "base/json.h"
#include "job/job_encode.h"
#include "overview/overview_parts.h"

static void add_text(struct dt_strbuf *out, const char *name, struct dt_str text)
{
    dt_strbuf_addf(out, ",\"%s\":", name);
    dt_json_add_string_or_null(out, text);
}

static void add_group(struct dt_strbuf *out, const struct dt_dead_group *group)
{
    dt_strbuf_adds(out, "{\"topic\":");
    dt_json_add_string(out, group->topic);
    add_text(out, "error_code", group->error_code);
    add_text(out, "message", group->message);
    dt_strbuf_addf(out, ",\"jobs\":%lld,\"job_id\":\"%lld\",\"last_at\":", (long long)group->jobs,
                   (long long)group->job_id);
    if (group->last_ms)
        dt_json_add_time(out, group->last_ms);
    else
        dt_strbuf_adds(out, "null");
    dt_strbuf_addc(out, '}');
}

void dt_dead_add_json(struct dt_strbuf *out, const struct dt_dead_groups *groups)
{
    dt_strbuf_addf(out, "{\"jobs\":%lld,\"newest\":%s,\"groups\":[", (long long)groups->jobs,
                   groups->newest ? "true" : "false");
    for (size_t i = 0; i < groups->n; i++) {
        if (i > 0)
            dt_strbuf_addc(out, ',');
        add_group(out, &groups->v[i]);
    }
    dt_strbuf_addf(out, "],\"groups_more\":%zu}", groups->more);
}
