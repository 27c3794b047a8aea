/* Lists the CloudEvents attributes of an attempt, and reads the headers that a caller gave to a job or a topic. */
#include "cloud_event.h"

#include "base/assert.h"
#include "base/text/timetext.h"

struct dt_cloud_event dt_cloud_event_of(const struct dt_outgoing *from, const char *installation, int64_t now_ms)
{
    return (struct dt_cloud_event){.job = from->claim.id,
                                   .attempt = from->claim.attempt,
                                   .id_suffix = "",
                                   .installation = installation,
                                   .type = from->topic,
                                   .key = from->key,
                                   .time_ms = now_ms,
                                   .scheduled_ms = from->claim.due_ms};
}

struct list {
    struct dt_cloud_event_attribute *v;
    size_t n;
    bool failed;
};

static void add_attribute(struct list *list, const char *name, struct dt_str value)
{
    dt_assert_cmp(list->n, <, DT_CLOUD_EVENT_ATTRIBUTES);
    list->failed |= !value.p;
    list->v[list->n++] = (struct dt_cloud_event_attribute){name, value};
}

/* Returns the event's id, "<job>/<attempt>" and its suffix. *job and *attempt are parts of the id. Other attributes use
 * these, because formatting each number with printf took half of the time of a message. */
static struct dt_str format_event_id(struct dt_arena *arena, const struct dt_cloud_event *event, struct dt_str *job,
                                     struct dt_str *attempt)
{
    struct dt_strbuf text = {0};
    dt_strbuf_add_i64(&text, event->job);
    const size_t slash = text.n;
    dt_strbuf_addc(&text, '/');
    dt_strbuf_add_i64(&text, event->attempt);
    const size_t end = text.n;
    dt_strbuf_adds(&text, event->id_suffix);
    const struct dt_str id = text.failed ? DT_STR_NONE : dt_arena_copy(arena, dt_strbuf_str(&text));
    dt_strbuf_clear(&text);
    *job = *attempt = DT_STR_NONE;
    if (id.p) {
        *job = (struct dt_str){id.p, slash};
        *attempt = (struct dt_str){id.p + slash + 1, end - slash - 1};
    }
    return id;
}

static struct dt_str format_event_time(struct dt_arena *arena, int64_t ms)
{
    char text[25];
    dt_time_format(ms, text);
    return dt_arena_copy(arena, dt_str(text));
}

dt_status dt_cloud_event_attributes(const struct dt_cloud_event *event, struct dt_arena *arena,
                                    struct dt_cloud_event_attribute out[DT_CLOUD_EVENT_ATTRIBUTES], size_t *n)
{
    struct list list = {.v = out};
    struct dt_str job;
    struct dt_str attempt;
    add_attribute(&list, "ce_specversion", DT_STR_LIT("1.0"));
    add_attribute(&list, "ce_id", format_event_id(arena, event, &job, &attempt));
    add_attribute(&list, "ce_source", dt_arena_join(arena, DT_STR_LIT("/duetime/"), dt_str(event->installation)));
    add_attribute(&list, "ce_type", event->type);
    add_attribute(&list, "ce_subject", event->key.p ? event->key : job);
    add_attribute(&list, "ce_time", format_event_time(arena, event->time_ms));
    add_attribute(&list, "ce_jobid", job);
    if (event->key.p)
        add_attribute(&list, "ce_jobkey", event->key);
    add_attribute(&list, "ce_attempt", attempt);
    if (event->scheduled_ms)
        add_attribute(&list, "ce_scheduledtime", format_event_time(arena, event->scheduled_ms));
    *n = list.n;
    return list.failed ? DT_NOMEM : DT_OK;
}

/* Reads the headers that a caller gave: the members of one flat JSON object. Does not validate the texts. */

#define DEPTH 2

dt_status dt_caller_headers_open(struct dt_caller_headers *headers, struct dt_str text, dt_json *json)
{
    struct dt_json_limits limits = {.depth = DEPTH};
    *headers = (struct dt_caller_headers){.json = json};
    dt_status status = text.p ? dt_json_parse(json, text, &limits, NULL) : DT_INVALID;
    if (status != DT_OK)
        return status == DT_NOMEM ? DT_NOMEM : DT_OK;
    const struct dt_json_node *root = dt_json_root(json);
    if (root->type != DT_JSON_OBJECT)
        return DT_OK;
    headers->max = root->n;
    headers->object = root;
    headers->member = dt_json_first(json, root);
    return DT_OK;
}

bool dt_caller_headers_next(struct dt_caller_headers *headers, struct dt_str *name, struct dt_str *value)
{
    const struct dt_json_node *member = headers->member;
    while (member && member->type != DT_JSON_STRING)
        member = dt_json_sibling(headers->json, headers->object, member);
    if (!member)
        return false;
    *name = member->name;
    *value = member->str;
    headers->member = dt_json_sibling(headers->json, headers->object, member);
    return true;
}
