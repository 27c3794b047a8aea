/* The audit log: GET /v1/events by topic, actor and time, and GET /v1/jobs/{id}/events. The latest event is first. A
 * token that is bound to topics sees only the events of these topics. */
#include "answer.h"
#include "base/assert.h"
#include "events/events.h"
#include "handlers.h"
#include "job/change/jobs.h"
#include "job/results/results.h"

#define BY_EVENT    'e'
#define EVENT_BYTES ((size_t)16 << 10)

struct event_page {
    struct dt_event_filter filter;
    struct dt_cursor_list cursor;
    bool first;
};

/* ---- on a worker ---- */

static void put_id_or_null(struct dt_strbuf *out, const char *name, int64_t id)
{
    if (id)
        dt_json_put_id(out, name, id);
    else
        dt_json_put_null(out, name);
}

static void put_json_or_null(struct dt_strbuf *out, const char *name, struct dt_str json)
{
    dt_json_put_raw(out, name, json.p ? json : DT_STR_LIT("null"));
}

static void add_events(struct dt_request *req, const struct event_page *page, struct dt_event_list *list)
{
    struct dt_strbuf *out = &req->out;
    dt_answer_begin_list(req, "events");
    for (size_t i = 0; i < list->n; i++) {
        const struct dt_job_event *e = &list->v[i];
        if (out->n >= DT_PAGE_BYTES) { /* the remaining events are on the next page */
            dt_assert_cmp(i, >, 0);    /* a page has at least one row */
            list->more = true;
            list->last_id = list->v[i - 1].id;
            break;
        }
        dt_json_begin_object(out, NULL);
        dt_json_put_id(out, "id", e->id);
        dt_json_put_time(out, "at", e->at_ms);
        dt_json_put_string(out, "actor", e->actor);
        dt_json_put_string(out, "action", e->action);
        dt_json_put_string(out, "topic", e->topic);
        put_id_or_null(out, "job_id", e->job_id);
        dt_json_put_string(out, "subject", e->subject);
        put_id_or_null(out, "operation_id", e->operation_id);
        put_json_or_null(out, "before", e->before);
        put_json_or_null(out, "after", e->after);
        dt_json_end_object(out);
    }
    dt_answer_next_id(req, &page->cursor, list->more, list->last_id);
}

static dt_status write_events(struct dt_request *req, dt_store *store, struct dt_arena *rows, struct dt_error *err)
{
    const struct event_page *page = req->state;
    struct dt_event_list list;
    struct dt_job job;
    dt_status status = dt_store_events(store, &page->filter, rows, &list, err);
    /* If there are no events, checks that the job exists. A purged job may have events left. */
    if (status == DT_OK && list.n == 0 && page->filter.job_id && page->first) {
        status = dt_store_get(store, page->filter.job_id, rows, &job, err);
        DT_THEN(status, dt_wall_found(req, job.topic));
    }
    if (status == DT_OK)
        add_events(req, page, &list);
    return status;
}

static enum dt_next list_events(struct dt_request *req, dt_store *store)
{
    const struct event_page *page = req->state;
    const size_t room = dt_page_room(page->filter.end.bytes) + dt_answer_job_room(req->api);
    return dt_answer_page(req, store, room, "job", write_events);
}

/* ---- on an HTTP thread ---- */

/* Reads limit and cursor. The cursor is bound to every parameter that decides which events the list has. False: the
 * answer is filled in. */
static bool read_cursor(struct dt_request *req, struct event_page *page, struct dt_faults *faults)
{
    struct dt_event_filter *f = &page->filter;
    unsigned limit = 0;
    const struct dt_str fields[] = {f->topic, f->actor, dt_arena_printf(&req->arena, "%lld", (long long)f->job_id),
                                    dt_arena_printf(&req->arena, "%lld", (long long)f->from_ms),
                                    dt_arena_printf(&req->arena, "%lld", (long long)f->to_ms)};
    dt_answer_limit(req, faults, &limit);
    f->end = dt_page_end(limit, EVENT_BYTES);
    if (!dt_answer_list(req, BY_EVENT, fields, sizeof(fields) / sizeof(*fields), &page->cursor))
        return false;
    dt_answer_cursor_id(req, &page->cursor, faults, &f->below_id);
    return true;
}

enum dt_next dt_handle_event_list(struct dt_request *req)
{
    int64_t job_id = 0;
    if (req->params[0].p && !dt_answer_id(req, &job_id))
        return DT_REPLY;
    struct event_page *page = dt_answer_state(req, sizeof(*page));
    if (!page)
        return DT_REPLY;
    *page = (struct event_page){.filter = {.job_id = job_id, .to_ms = INT64_MAX, .bound = dt_wall_bound(req)},
                                .first = !dt_request_query(req, "cursor").p};
    struct dt_event_filter *filter = &page->filter;
    struct dt_faults faults = {.arena = &req->arena};
    if (!job_id) {
        filter->topic = dt_answer_topic(req, &faults);
        filter->actor = dt_request_query(req, "actor");
        if (filter->actor.p && (filter->actor.n < 1 || filter->actor.n > DT_ACTOR_MAX))
            dt_faults_add_query(&faults, DT_STR_LIT("actor"), "must have 1 to 100 bytes");
        (void)dt_answer_time(req, "from", INT64_MIN, NULL, &filter->from_ms, &faults);
        (void)dt_answer_time(req, "to", INT64_MIN, NULL, &filter->to_ms, &faults);
    }
    if (!read_cursor(req, page, &faults))
        return DT_REPLY;
    return dt_answer_submit(req, &faults, list_events);
}
