/* The attributes of an event: see cloud_event.h. */
#include "cloud_event.h"

#include "base/assert.h"
#include "base/text/timetext.h"

struct list {
    struct dt_cloud_event_attribute *v;
    size_t n;
    bool failed;
};

static void add(struct list *list, const char *name, struct dt_str value)
{
    dt_assert_cmp(list->n, <, DT_CLOUD_EVENT_ATTRIBUTES);
    list->failed |= !value.p;
    list->v[list->n++] = (struct dt_cloud_event_attribute){name, value};
}

static struct dt_str time_text(struct dt_arena *arena, int64_t ms)
{
    char text[25];
    dt_time_format(ms, text);
    return dt_arena_copy(arena, dt_str(text));
}

dt_status dt_cloud_event_attributes(const struct dt_cloud_event *event, struct dt_arena *arena,
                                    struct dt_cloud_event_attribute out[DT_CLOUD_EVENT_ATTRIBUTES], size_t *n)
{
    struct list list = {.v = out};
    const long long job = event->job;
    const long long attempt = event->attempt;
    struct dt_str id = dt_arena_printf(arena, "%lld", job);
    add(&list, "ce_specversion", DT_STR_LIT("1.0"));
    add(&list, "ce_id", dt_arena_printf(arena, "%lld/%lld%s", job, attempt, event->id_suffix));
    add(&list, "ce_source", dt_arena_printf(arena, "/duetime/%s", event->installation));
    add(&list, "ce_type", event->type);
    add(&list, "ce_subject", event->key.p ? event->key : id);
    add(&list, "ce_time", time_text(arena, event->time_ms));
    add(&list, "ce_jobid", id);
    if (event->key.p)
        add(&list, "ce_jobkey", event->key);
    add(&list, "ce_attempt", dt_arena_printf(arena, "%lld", attempt));
    if (event->scheduled_ms)
        add(&list, "ce_scheduledtime", time_text(arena, event->scheduled_ms));
    *n = list.n;
    return list.failed ? DT_NOMEM : DT_OK;
}
