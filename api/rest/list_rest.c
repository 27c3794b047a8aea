/* GET /v1/jobs. The HTTP thread reads the filter and reports every fault in it; a worker reads the page. A cursor holds
 * the position of the last job: its id; in a list by key, its key; in a list by time, the four numbers of struct
 * dt_list_place. */

#include "answer.h"
#include "explain_rest.h"
#include "handlers.h"
#include "job/job.h"
#include "job/list/list.h"
#include "job/results/results.h"

#define DAY_MS     INT64_C(86400000)
#define TEXT_MAX   200
#define HEAD_BYTES ((size_t)16 << 10) /* bytes reserved for a job's row, with its headers but without its payload */

/* The letter by which a cursor names its kind of list. */
static const char kinds[] = {[DT_LIST_BY_ID] = 'i', [DT_LIST_BY_KEY] = 'k', [DT_LIST_BY_TIME] = 't'};

struct job_page {
    struct dt_list_filter filter;
    struct dt_cursor_list cursor;
};

/* ---- on a worker ---- */

/* Adds jobs until the page has DT_PAGE_BYTES. If jobs are left out, the cursor continues after the last job that was
 * added. */
static void add_jobs(struct dt_request *req, const struct job_page *list, struct dt_waiting *waiting,
                     struct dt_job_list *page)
{
    const struct dt_job *jobs = page->v;
    struct dt_job_view view = {.payload = list->filter.payload, .check = dt_scratch_json()};
    for (size_t i = 0; i < page->n; i++) {
        if (i > 0 && req->out.n >= DT_PAGE_BYTES) {
            page->more = true;
            page->last_id = jobs[i - 1].id;
            page->last_key = jobs[i - 1].key;
            if (page->places)
                page->last_place = page->places[i - 1];
            return;
        }
        view.waiting_for = dt_waiting_for(waiting, &jobs[i]);
        dt_job_add(&req->out, &jobs[i], &view);
    }
}

/* Returns the position of the page's last job, for the cursor. Writes numbers into `text`. */
static struct dt_str format_page_position(const struct job_page *list, const struct dt_job_list *page, char *text,
                                          size_t room)
{
    const struct dt_list_place *at = &page->last_place;
    int n = 0;
    switch (dt_list_way(&list->filter)) {
    case DT_LIST_BY_KEY:
        return page->last_key;
    case DT_LIST_BY_TIME:
        n = snprintf(text, room, "%d %lld %lld %lld", at->part, (long long)at->split_ms, (long long)at->due_ms,
                     (long long)at->id);
        break;
    case DT_LIST_BY_ID:
    default:
        n = snprintf(text, room, "%lld", (long long)page->last_id);
    }
    return (struct dt_str){text, (size_t)n};
}

static dt_status write_jobs(struct dt_request *req, dt_store *store, struct dt_arena *rows, struct dt_error *err)
{
    const struct job_page *list = req->state;
    struct dt_job_list page;
    struct dt_waiting waiting;
    char text[100];
    dt_status status = dt_store_list(store, &list->filter, rows, &page, err);
    if (status != DT_OK)
        return status;
    dt_answer_begin_list(req, "jobs");
    dt_waiting_init(&waiting, req->api->topics, req->api->ref, store);
    add_jobs(req, list, &waiting, &page);
    dt_waiting_clear(&waiting);
    dt_answer_next_cursor(req, &list->cursor, page.more, format_page_position(list, &page, text, sizeof(text)));
    return DT_OK;
}

static enum dt_next list_jobs(struct dt_request *req, dt_store *store)
{
    const struct job_page *list = req->state;
    const size_t one = list->filter.payload ? dt_answer_job_room(req->api) : 0; /* room for a job larger than a page */
    return dt_answer_page(req, store, dt_page_room(list->filter.bytes) + one, "job", write_jobs);
}

/* ---- the filter ---- */

static void read_key_parameter(const struct dt_request *req, const char *name, struct dt_str *out,
                               struct dt_faults *faults)
{
    *out = dt_request_query(req, name);
    if (out->p && !dt_request_query(req, "topic").p)
        dt_faults_add_query(faults, dt_str(name), "requires topic");
    if (out->n > DT_KEY_MAX)
        dt_faults_add_query(faults, dt_str(name), "must have at most 255 bytes");
}

static void read_text_parameter(const struct dt_request *req, const char *name, struct dt_str *out,
                                struct dt_faults *faults)
{
    *out = dt_request_query(req, name);
    if (out->p && (out->n == 0 || out->n > TEXT_MAX))
        dt_faults_add_query(faults, dt_str(name), "must have 1 to 200 bytes");
}

static void read_name_filters(const struct dt_request *req, struct dt_list_filter *filter, struct dt_faults *faults)
{
    filter->topic = dt_answer_topic(req, faults);
    const struct dt_str id = dt_request_query(req, "id");
    if (id.p && !dt_job_id_parse(id, &filter->id))
        dt_faults_add_query(faults, DT_STR_LIT("id"), "must be the id of a job, a number");
    read_key_parameter(req, "key", &filter->key, faults);
    read_key_parameter(req, "key_prefix", &filter->key_prefix, faults);
    if (filter->key.p && filter->key_prefix.p)
        dt_faults_add_query(faults, DT_STR_LIT("key_prefix"), "cannot be combined with key");
    read_text_parameter(req, "error_code", &filter->error_code, faults);
    read_text_parameter(req, "error_text", &filter->error_text, faults);
    const struct dt_str state = dt_request_query(req, "state");
    const struct dt_str include = dt_request_query(req, "include");
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

static void read_range_filters(const struct dt_request *req, struct dt_list_filter *filter, struct dt_faults *faults)
{
    struct dt_list_times run = dt_answer_times(req, "run_from", "run_to", faults);
    filter->has_run_from = filter->has_run_to = run.given;
    filter->run_from_ms = run.from_ms;
    filter->run_to_ms = run.to_ms;
    filter->created = dt_answer_times(req, "created_from", "created_to", faults);
    filter->due = dt_answer_times(req, "due_from", "due_to", faults);
    filter->finished = dt_answer_times(req, "finished_from", "finished_to", faults);
    filter->failed = dt_answer_times(req, "failed_from", "failed_to", faults);
    if (filter->due.given && filter->finished.given)
        dt_faults_add_query(faults, dt_str(dt_request_query(req, "finished_from").p ? "finished_from" : "finished_to"),
                            "cannot be combined with due_from and due_to");
    if (!filter->error_text.p)
        return;
    /* MySQL searches the errors for a text row by row. So a list with error_text must be limited to one topic and one
     * day. */
    const struct dt_list_times all[] = {run, filter->created, filter->due, filter->finished, filter->failed};
    bool bounded = false;
    for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++)
        bounded |= all[i].given && all[i].from_ms > INT64_MIN && all[i].to_ms <= all[i].from_ms + DAY_MS;
    if (!filter->topic.p)
        dt_faults_add_query(faults, DT_STR_LIT("error_text"), "requires topic");
    if (!bounded)
        dt_faults_add_query(faults, DT_STR_LIT("error_text"),
                            "requires a range of at most one day, such as failed_from and failed_to");
}

/* Formats a time range as one field of the text that identifies a list for its cursor. */
static struct dt_str format_time_range(struct dt_arena *arena, struct dt_list_times times)
{
    return times.given ? dt_arena_printf(arena, "%lld %lld", (long long)times.from_ms, (long long)times.to_ms)
                       : DT_STR_NONE;
}

/* Identifies the list for its cursors by every parameter that decides which jobs are in the list (not limit, cursor,
 * include). False: the answer, 503, is filled in. */
static bool identify_list(struct dt_request *req, struct job_page *list)
{
    const struct dt_list_filter *f = &list->filter;
    const struct dt_list_times run = {f->has_run_from, f->run_from_ms, f->run_to_ms};
    const struct dt_str fields[] = {f->topic,
                                    f->key,
                                    f->key_prefix,
                                    f->error_code,
                                    f->error_text,
                                    dt_arena_printf(&req->arena, "%d %lld", f->state, (long long)f->id),
                                    format_time_range(&req->arena, run),
                                    format_time_range(&req->arena, f->created),
                                    format_time_range(&req->arena, f->due),
                                    format_time_range(&req->arena, f->finished),
                                    format_time_range(&req->arena, f->failed)};
    return dt_answer_list(req, kinds[dt_list_way(f)], fields, sizeof(fields) / sizeof(*fields), &list->cursor);
}

static void read_cursor(struct dt_request *req, struct job_page *list, struct dt_faults *faults)
{
    struct dt_list_filter *filter = &list->filter;
    struct dt_str position;
    int64_t n[4] = {0};
    char text[100];
    char *next = text;
    bool fine = true;
    filter->after.split_ms = dt_clock_real_ms(req->api->clock) + req->api->config->history_after;
    if (!dt_answer_cursor(req, &list->cursor, faults, &position) || !position.p)
        return;
    switch (dt_list_way(filter)) {
    case DT_LIST_BY_KEY:
        filter->after_key = position;
        break;
    case DT_LIST_BY_TIME:
        snprintf(text, sizeof(text), "%.*s", (int)position.n, position.p);
        for (size_t i = 0; fine && i < 4; i++) { /* the position in a list by time has four numbers */
            char *from = next;
            n[i] = strtoll(from, &next, 10);
            fine = next != from;
        }
        fine = fine && *next == '\0';
        if (fine)
            filter->after = (struct dt_list_place){(int)n[0], n[1], n[2], n[3]};
        break;
    case DT_LIST_BY_ID:
    default:
        fine = dt_job_id_parse(position, &filter->after_id);
    }
    if (!fine) /* another version of the API made this cursor */
        dt_faults_add_query(faults, DT_STR_LIT("cursor"), "is not a next_cursor of this list");
}

enum dt_next dt_handle_job_list(struct dt_request *req)
{
    struct job_page *list = dt_answer_state(req, sizeof(*list));
    if (!list)
        return DT_REPLY;
    *list = (struct job_page){.filter = {.bound = dt_wall_bound(req) != NULL,
                                         .prefixes = req->caller.topics.prefixes,
                                         .n_prefixes = req->caller.topics.n}};
    struct dt_faults faults = {.arena = &req->arena};
    read_name_filters(req, &list->filter, &faults);
    read_range_filters(req, &list->filter, &faults);
    dt_answer_limit(req, &faults, &list->filter.limit);
    list->filter.bytes = list->filter.payload ? DT_PAGE_BYTES : dt_page_end(list->filter.limit, HEAD_BYTES).bytes;
    if (!identify_list(req, list))
        return DT_REPLY;
    read_cursor(req, list, &faults);
    req->reads_much = dt_list_way(&list->filter) != DT_LIST_BY_KEY && !list->filter.id;
    return dt_answer_submit(req, &faults, list_jobs);
}
