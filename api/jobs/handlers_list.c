/*
 * GET /v1/jobs: the filter is read on the HTTP thread, with every fault in it, the page by a worker. A cursor's
 * position is an id, or with key_prefix a key.
 */
#include "answer.h"
#include "api.h"
#include "auth/auth.h"
#include "handlers.h"
#include "job/result_json.h"
#include "job/retry.h"
#include "waiting.h"
#include "work/scratch.h"
#include "work/workers.h"

#define BY_ID      'i'
#define BY_KEY     'k'
#define HEAD_BYTES ((size_t)16 << 10) /* a row without its payload; it has its headers */

struct list {
    struct dt_list_filter filter;
    struct dt_cursor_list cursor;
};

/* ---- on a worker ---- */

/* Writes the jobs, as many as the bytes of a page let be; the cursor then goes on behind the last of them. */
static void add_jobs(struct dt_request *req, const struct list *list, struct dt_waiting *waiting,
                     struct dt_job_list *page)
{
    const struct dt_job *jobs = page->v;
    struct dt_job_view view = {.payload = list->filter.payload, .check = dt_scratch_json()};
    for (size_t i = 0; i < page->n; i++) {
        if (i > 0 && req->out.n >= DT_PAGE_BYTES) {
            page->more = true;
            page->last_id = jobs[i - 1].id;
            page->last_key = jobs[i - 1].key;
            return;
        }
        if (i > 0)
            dt_strbuf_addc(&req->out, ',');
        view.waiting_for = dt_waiting_for(waiting, &jobs[i]);
        dt_job_add(&req->out, &jobs[i], &view);
    }
}

static void answer_page(struct dt_request *req, dt_store *store, const struct list *list, struct dt_job_list *page)
{
    struct dt_waiting waiting;
    char id[24];
    req->status = 200;
    dt_strbuf_reset(&req->out);
    dt_strbuf_adds(&req->out, "{\"jobs\":[");
    dt_waiting_init(&waiting, req->api->topics, req->api->ref, store);
    add_jobs(req, list, &waiting, page);
    dt_waiting_clear(&waiting);
    snprintf(id, sizeof(id), "%lld", (long long)page->last_id);
    dt_answer_next_cursor(req, &list->cursor, page->more, list->filter.key_prefix.p ? page->last_key : dt_str(id));
}

/* The rows are gone before the answer is read by its client: they have memory of their own. */
static enum dt_next list_jobs(struct dt_request *req, dt_store *store)
{
    const struct list *list = req->state;
    struct dt_job_list page;
    struct dt_error err = {0};
    struct dt_arena rows;
    size_t one = list->filter.payload ? dt_answer_job_room(req->api) : 0; /* comes alone when it is larger */
    if (!dt_request_hold(req, dt_page_room(list->filter.bytes) + one))
        return dt_request_no_room(req);
    dt_arena_init(&rows);
    dt_status status = dt_store_list(store, &list->filter, &rows, &page, &err);
    if (status == DT_OK)
        answer_page(req, store, list, &page);
    dt_arena_clear(&rows);
    return status == DT_OK ? DT_REPLY : dt_answer_status(req, status, NULL, &err);
}

/* ---- the filter ---- */

static void read_words(const struct dt_request *req, struct dt_list_filter *filter, struct dt_faults *faults)
{
    struct dt_str state = dt_request_query(req, "state");
    struct dt_str include = dt_request_query(req, "include");
    enum dt_job_state parsed;
    filter->state = -1;
    if (state.p && dt_job_state_parse(state, &parsed))
        filter->state = (int)parsed;
    else if (state.p)
        dt_faults_add_query(faults, DT_STR_LIT("state"),
                            "must be one of scheduled, dispatched, succeeded, dead, cancelled");
    filter->payload = include.p != NULL;
    if (include.p && !dt_str_is(include, "payload"))
        dt_faults_add_query(faults, DT_STR_LIT("include"), "must be payload");
}

static void read_names(const struct dt_request *req, struct dt_list_filter *filter, struct dt_faults *faults)
{
    filter->topic = dt_request_query(req, "topic");
    filter->key_prefix = dt_request_query(req, "key_prefix");
    const char *reason = filter->topic.p ? dt_topic_check(filter->topic, DT_STR_LIT("")) : NULL;
    if (reason)
        dt_faults_add_query(faults, DT_STR_LIT("topic"), reason);
    if (filter->key_prefix.p && !filter->topic.p)
        dt_faults_add_query(faults, DT_STR_LIT("key_prefix"), "needs topic");
    if (filter->key_prefix.n > DT_KEY_MAX)
        dt_faults_add_query(faults, DT_STR_LIT("key_prefix"), "must have at most 255 bytes");
}

static bool read_time(const struct dt_request *req, const char *name, int64_t *ms, struct dt_faults *faults)
{
    struct dt_str text = dt_request_query(req, name);
    if (!text.p)
        return false;
    if (dt_time_parse(text, ms) == DT_OK)
        return true;
    dt_faults_add_query(faults, dt_str(name),
                        "must be an RFC 3339 time with an offset, such as 2026-11-21T10:30:00Z (a + is sent as %2B)");
    return false;
}

static void read_times(const struct dt_request *req, struct dt_list_filter *filter, struct dt_faults *faults)
{
    filter->has_run_from = read_time(req, "run_from", &filter->run_from_ms, faults);
    filter->has_run_to = read_time(req, "run_to", &filter->run_to_ms, faults);
    if (filter->has_run_from && filter->has_run_to && filter->run_from_ms > filter->run_to_ms)
        dt_faults_add_query(faults, DT_STR_LIT("run_from"), "is after run_to");
}

static struct dt_str number(struct dt_arena *arena, bool given, int64_t n)
{
    char text[24];
    int length = snprintf(text, sizeof(text), "%lld", (long long)n);
    return given ? dt_arena_copy(arena, (struct dt_str){text, (size_t)length}) : DT_STR_NONE;
}

/* Everything that decides which jobs the list holds, but for limit, cursor and include. False: 503 is filled in. */
static bool name_list(struct dt_request *req, struct list *list)
{
    const struct dt_list_filter *f = &list->filter;
    const struct dt_str fields[] = {f->topic, f->key_prefix, number(&req->arena, true, f->state),
                                    number(&req->arena, f->has_run_from, f->run_from_ms),
                                    number(&req->arena, f->has_run_to, f->run_to_ms)};
    return dt_answer_list(req, f->key_prefix.p ? BY_KEY : BY_ID, fields, sizeof(fields) / sizeof(*fields),
                          &list->cursor);
}

static void read_cursor(struct dt_request *req, struct list *list, struct dt_faults *faults)
{
    struct dt_list_filter *filter = &list->filter;
    struct dt_str position;
    if (!dt_answer_cursor(req, &list->cursor, faults, &position) || !position.p)
        return;
    if (filter->key_prefix.p)
        filter->after_key = position;
    else if (!dt_job_id_parse(position, &filter->after_id)) /* sealed by us, and no number: not of this version */
        dt_faults_add_query(faults, DT_STR_LIT("cursor"), "is not a next_cursor of this list");
}

/* Rows without payloads are small, and so is what they need. */
static size_t page_bytes(const struct dt_list_filter *filter)
{
    size_t bytes = filter->limit * HEAD_BYTES;
    return filter->payload || bytes > DT_PAGE_BYTES ? DT_PAGE_BYTES : bytes;
}

enum dt_next dt_handle_job_list(struct dt_request *req)
{
    struct list *list = dt_arena_alloc(&req->arena, sizeof(*list));
    if (!list)
        return dt_answer_status(req, DT_NOMEM, NULL, NULL);
    *list = (struct list){.filter = {.bound = !dt_caller_sees_all(&req->caller),
                                     .prefixes = req->caller.topics.prefixes,
                                     .n_prefixes = req->caller.topics.n}};
    struct dt_faults faults;
    dt_faults_init(&faults, &req->arena);
    read_names(req, &list->filter, &faults);
    read_words(req, &list->filter, &faults);
    read_times(req, &list->filter, &faults);
    dt_answer_limit(req, &faults, &list->filter.limit);
    list->filter.bytes = page_bytes(&list->filter);
    if (!name_list(req, list))
        return DT_REPLY;
    read_cursor(req, list, &faults);
    if (faults.n > 0)
        return dt_answer_faults(req, DT_INVALID, &faults);
    if (list->filter.topic.p && !dt_caller_sees(&req->caller, list->filter.topic))
        return dt_answer_not_found(req, "topic");
    req->state = list;
    return dt_workers_submit(req->api->workers, req, list_jobs);
}
