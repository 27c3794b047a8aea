/* Implements answer.h: the steps that several handlers share. */
#include "answer.h"

#include <stdatomic.h>

#include "base/http/webhook.h"
#include "base/outage.h"
#include "base/text/timetext.h"
#include "intake/index_writer.h"
#include "job/results/results.h"
#include "request/topic_cache.h"

void *dt_answer_state(struct dt_request *req, size_t n)
{
    req->state = dt_arena_alloc(&req->arena, n);
    if (req->state)
        memset(req->state, 0, n);
    else
        dt_answer_status(req, DT_NOMEM, NULL, NULL);
    return req->state;
}

struct dt_job_rules dt_answer_rules(const struct dt_api *api, const struct dt_view *view)
{
    return dt_store_job_rules(api->config, view ? view->installation.name : api->config->installation_name);
}

dt_json *dt_answer_parse(struct dt_request *req, struct dt_faults *faults)
{
    struct dt_error err = {0};
    struct dt_json_limits limits = dt_job_json_limits((unsigned)req->api->config->limits_json_depth);
    dt_json *json = dt_scratch_json();
    dt_status status = json ? dt_json_parse(json, req->body, &limits, &err) : DT_NOMEM;
    if (status != DT_OK) {
        dt_answer_status(req, status, NULL, &err);
        return NULL;
    }
    *faults = (struct dt_faults){.arena = &req->arena};
    return json;
}

bool dt_answer_decode(struct dt_request *req, dt_decode_fn *decode)
{
    struct dt_faults faults;
    const dt_json *json = dt_answer_parse(req, &faults);
    if (!json)
        return false;
    struct dt_view *view = dt_topic_cache_view(req->api->topics); /* the rules borrow from it */
    const struct dt_job_rules rules = dt_answer_rules(req->api, view);
    dt_status status = decode(req, json, &rules, &faults);
    dt_view_release(view);
    DT_THEN(status, dt_faults_status(&faults));
    if (status != DT_OK)
        dt_answer_faults(req, status, &faults);
    return status == DT_OK;
}

static bool refuse_query(struct dt_request *req, const char *name, const char *reason)
{
    struct dt_faults faults = {.arena = &req->arena};
    dt_faults_add_query(&faults, dt_str(name), reason);
    dt_answer_faults(req, DT_INVALID, &faults);
    return false;
}

bool dt_answer_flag(struct dt_request *req, const char *name, bool *out)
{
    struct dt_str text = dt_request_query(req, name);
    *out = text.p && dt_str_is(text, "true");
    if (!text.p || *out || dt_str_is(text, "false"))
        return true;
    return refuse_query(req, name, "must be true or false");
}

bool dt_answer_time(const struct dt_request *req, const char *name, int64_t least_ms, const char *reason, int64_t *ms,
                    struct dt_faults *faults)
{
    static const char usual[] =
        "must be an RFC 3339 time with an offset, such as 2026-11-21T10:30:00Z (a + is sent as %2B)";
    struct dt_str text = dt_request_query(req, name);
    if (!text.p)
        return false;
    if (dt_time_parse(text, ms) == DT_OK && *ms >= least_ms)
        return true;
    dt_faults_add_query(faults, dt_str(name), reason ? reason : usual);
    return false;
}

struct dt_list_times dt_answer_times(const struct dt_request *req, const char *from, const char *to,
                                     struct dt_faults *faults)
{
    struct dt_list_times times = {.from_ms = INT64_MIN, .to_ms = INT64_MAX};
    bool has_from = dt_answer_time(req, from, INT64_MIN, NULL, &times.from_ms, faults);
    bool has_to = dt_answer_time(req, to, INT64_MIN, NULL, &times.to_ms, faults);
    times.given = has_from || has_to;
    if (has_from && has_to && times.from_ms > times.to_ms)
        dt_faults_add_query(faults, dt_str(from), "is after the end of its range");
    return times;
}

bool dt_answer_duration(struct dt_request *req, const char *name, int64_t max_ms, int64_t *out_ms)
{
    int64_t ms = 0;
    struct dt_str text = dt_request_query(req, name);
    if (!text.p)
        return true;
    if (dt_duration_parse(text, &ms) == DT_OK && ms <= max_ms) {
        *out_ms = ms;
        return true;
    }
    return refuse_query(req, name,
                        max_ms == INT64_MAX ? "must be a duration, such as PT5S"
                                            : "must be a duration of 60 s at most, such as PT5S");
}

struct dt_str dt_answer_topic(const struct dt_request *req, struct dt_faults *faults)
{
    const struct dt_str topic = dt_request_query(req, "topic");
    const char *reason = topic.p ? dt_topic_check(topic, DT_STR_LIT("")) : NULL;
    if (reason)
        dt_faults_add_query(faults, DT_STR_LIT("topic"), reason);
    return topic;
}

bool dt_answer_id(struct dt_request *req, int64_t *id)
{
    if (dt_job_id_parse(req->params[0], id))
        return true;
    dt_answer_not_found(req, "job");
    return false;
}

bool dt_answer_clock(struct dt_request *req)
{
    if (atomic_load_explicit(&req->api->ref->taken_us, memory_order_relaxed) != 0)
        return true;
    dt_request_refuse(req, DT_PROBLEM_UNAVAILABLE, "MySQL has not been reached yet");
    return false;
}

enum dt_next dt_answer_fault(struct dt_request *req, const char *pointer, const char *reason)
{
    struct dt_faults faults = {.arena = &req->arena};
    dt_faults_add(&faults, pointer, reason);
    return dt_answer_faults(req, DT_INVALID, &faults);
}

enum dt_next dt_answer_faults(struct dt_request *req, dt_status status, const struct dt_faults *faults)
{
    struct dt_problem problem = {.type = dt_problem_of_status(status), .faults = faults};
    if (status == DT_INVALID)
        problem.detail = DT_STR_LIT("see errors for each invalid member");
    dt_request_problem(req, &problem);
    return DT_REPLY;
}

enum dt_next dt_answer_submit(struct dt_request *req, const struct dt_faults *faults, dt_worker_fn work)
{
    const dt_status status = dt_faults_status(faults);
    return status == DT_OK ? dt_workers_submit(req->api->workers, req, work) : dt_answer_faults(req, status, faults);
}

enum dt_next dt_answer_status(struct dt_request *req, dt_status status, const struct dt_job *job,
                              const struct dt_error *err)
{
    static _Thread_local struct dt_outage_part outage;
    const char *text = err && err->text[0] ? err->text : NULL;
    /* A text of the MySQL library may name hosts and users, so a caller sees the text only if it is about the request
     * itself. */
    const bool about_the_request = (status == DT_MALFORMED || status == DT_INVALID || status == DT_TOO_LARGE) && text &&
                                   strncmp(text, "MySQL ", 6) != 0;
    struct dt_problem problem = {.type = dt_problem_of_status(status),
                                 .detail = dt_str(about_the_request ? text : dt_status_text(status))};
    /* A server's error is not the caller's fault, so it is logged for the operator. */
    if (text && (status == DT_UNAVAILABLE || status == DT_UNKNOWN || status == DT_FORBIDDEN || status == DT_SCHEMA ||
                 status == DT_CORRUPT || status == DT_INTERNAL))
        dt_outage_failed(&outage, DT_OUTAGE_MYSQL, "api", "a request was not served", status, err);
    if (status == DT_TOO_LATE || status == DT_NOT_DEAD || status == DT_VERSION)
        problem.job = job;
    if (job)
        problem.id = job->id;
    dt_request_problem(req, &problem);
    return DT_REPLY;
}

enum dt_next dt_answer_not_found(struct dt_request *req, const char *what)
{
    dt_request_refuse(req, DT_PROBLEM_NOT_FOUND, "no such %s", what);
    return DT_REPLY;
}

enum dt_next dt_answer_failed(struct dt_request *req, dt_status status, const char *what, const struct dt_error *err)
{
    return status == DT_NOT_FOUND ? dt_answer_not_found(req, what) : dt_answer_status(req, status, NULL, err);
}

static void add_number_header(struct dt_request *req, const char *name, const char *before, int64_t n,
                              const char *after)
{
    char text[64];
    int length = snprintf(text, sizeof(text), "%s%lld%s", before, (long long)n, after);
    dt_request_header(req, name, (struct dt_str){text, (size_t)length});
}

enum dt_next dt_answer_job(struct dt_request *req, int status, const struct dt_job *job, const struct dt_job_view *view)
{
    req->status = status;
    dt_strbuf_reset(&req->out);
    dt_job_add(&req->out, job, view);
    add_number_header(req, "ETag", "\"", job->version, "\"");
    if (status == 201)
        add_number_header(req, "Location", "/v1/jobs/", job->id, "");
    return DT_REPLY;
}

/* ---- lists ---- */

size_t dt_answer_job_room(const struct dt_api *api)
{
    return 6 * (size_t)api->config->limits_payload;
}

bool dt_answer_hold_job(struct dt_request *req)
{
    dt_request_trim(req);
    bool held = dt_hold_more(&req->hold, dt_answer_job_room(req->api));
    if (!held)
        dt_request_no_room(req);
    return held;
}

bool dt_answer_list(struct dt_request *req, char kind, const struct dt_str *fields, size_t n,
                    struct dt_cursor_list *list)
{
    struct dt_view *view = dt_topic_cache_view(req->api->topics);
    dt_status status =
        view ? dt_cursor_list_init(list, view->cursor_key, kind, &req->caller, fields, n) : DT_UNAVAILABLE;
    dt_view_release(view);
    if (status != DT_OK)
        dt_answer_status(req, status, NULL, NULL);
    return status == DT_OK;
}

enum dt_next dt_answer_page(struct dt_request *req, dt_store *store, size_t room, const char *what, dt_page_fn *page)
{
    struct dt_error err = {0};
    struct dt_arena rows = {0};
    if (!dt_hold_bulk(&req->hold, room))
        return dt_request_no_room(req);
    dt_status status = page(req, store, &rows, &err);
    dt_arena_clear(&rows);
    return status == DT_OK ? DT_REPLY : dt_answer_failed(req, status, what, &err);
}

void dt_answer_begin_list(struct dt_request *req, const char *name)
{
    req->status = 200;
    dt_strbuf_reset(&req->out);
    dt_json_begin_object(&req->out, NULL);
    dt_json_begin_array(&req->out, name);
}

void dt_answer_next_cursor(struct dt_request *req, const struct dt_cursor_list *list, bool more, struct dt_str position)
{
    struct dt_strbuf *out = &req->out;
    dt_json_end_array(out);
    if (more) {
        dt_json_name(out, "next_cursor");
        dt_strbuf_addc(out, '"');
        dt_cursor_add(out, list, position);
        dt_strbuf_addc(out, '"');
    } else {
        dt_json_put_null(out, "next_cursor");
    }
    dt_json_end_object(out);
}

bool dt_answer_cursor(struct dt_request *req, const struct dt_cursor_list *list, struct dt_faults *faults,
                      struct dt_str *position)
{
    struct dt_str text = dt_request_query(req, "cursor");
    *position = DT_STR_NONE;
    if (!text.p || dt_cursor_parse(&req->arena, list, text, position))
        return true;
    dt_faults_add_query(faults, DT_STR_LIT("cursor"),
                        "is not a next_cursor of this list with this filter and token: start without a cursor");
    return false;
}

void dt_answer_cursor_id(struct dt_request *req, const struct dt_cursor_list *list, struct dt_faults *faults,
                         int64_t *id)
{
    struct dt_str position;
    if (dt_answer_cursor(req, list, faults, &position) && position.p && !dt_job_id_parse(position, id))
        dt_faults_add_query(faults, DT_STR_LIT("cursor"), "is not a next_cursor of this list");
}

bool dt_answer_count(const struct dt_request *req, const char *name, unsigned most, unsigned *count)
{
    struct dt_str text = dt_request_query(req, name);
    unsigned n = 0;
    if (!text.p)
        return true;
    for (size_t i = 0; i < text.n && n <= most; i++)
        n = text.p[i] >= '0' && text.p[i] <= '9' ? n * 10 + (unsigned)(text.p[i] - '0') : most + 1;
    if (n < 1 || n > most)
        return false;
    *count = n;
    return true;
}

bool dt_answer_limit(const struct dt_request *req, struct dt_faults *faults, unsigned *limit)
{
    *limit = 100;
    if (dt_answer_count(req, "limit", 1000, limit))
        return true;
    dt_faults_add_query(faults, DT_STR_LIT("limit"), "must be a whole number from 1 to 1000");
    return false;
}

static enum dt_next answer_list_page(struct dt_request *req, dt_store *store)
{
    const struct dt_list *list = req->route->list;
    const struct dt_page *page = req->state;
    return dt_answer_page(req, store, dt_page_room(page->end.bytes), list->row, list->write);
}

enum dt_next dt_handle_list(struct dt_request *req)
{
    const struct dt_list *list = req->route->list;
    struct dt_page *page = dt_answer_state(req, sizeof(*page));
    struct dt_faults faults = {.arena = &req->arena};
    unsigned limit;
    if (!page)
        return DT_REPLY;
    dt_answer_limit(req, &faults, &limit);
    page->end = dt_page_end(limit, list->row_bytes);
    page->id = list->first;
    if (!dt_answer_list(req, list->letter, NULL, 0, &page->cursor))
        return DT_REPLY;
    if (list->by_name)
        dt_answer_cursor(req, &page->cursor, &faults, &page->after);
    else
        dt_answer_cursor_id(req, &page->cursor, &faults, &page->id);
    return dt_answer_submit(req, &faults, answer_list_page);
}

void dt_answer_next_id(struct dt_request *req, const struct dt_cursor_list *list, bool more, int64_t last)
{
    char text[24];
    snprintf(text, sizeof(text), "%lld", (long long)last);
    dt_answer_next_cursor(req, list, more, dt_str(text));
}

/* ---- secrets in bodies ---- */

/* Reads a secret that may begin with "***". Sets *out to the secret that follows "*** "; absent if nothing follows.
 * False: the text does not begin with "***", and *out is unchanged. */
static bool read_hidden_secret(struct dt_str text, struct dt_str *out)
{
    size_t n = sizeof(DT_TOPIC_HIDDEN) - 1;
    if (text.n < n || memcmp(text.p, DT_TOPIC_HIDDEN, n) != 0 || (text.n > n && text.p[n] != ' '))
        return false;
    *out = text.n > n ? (struct dt_str){text.p + n + 1, text.n - n - 1} : DT_STR_NONE;
    return true;
}

const char *dt_topic_secret_check(struct dt_str text, bool *keeps)
{
    struct dt_str added = DT_STR_NONE;
    const bool kept = read_hidden_secret(text, &added);
    *keeps |= kept;
    if (kept && !added.p)
        return NULL;
    struct dt_callback_secret secret;
    const char *reason = dt_callback_secret_read(kept ? added : text, &secret);
    dt_callback_secret_wipe(&secret);
    return reason;
}

struct dt_str dt_topic_secret_keep(struct dt_str wanted, struct dt_str had, bool widen, const char *pointer,
                                   struct dt_faults *faults)
{
    struct dt_str added;
    struct dt_strbuf text = {0};
    if (!wanted.p || !read_hidden_secret(wanted, &added))
        return wanted;
    if (had.p && widen) {
        dt_faults_add(faults, pointer, DT_TOPIC_SECRET_WIDENED);
        return wanted;
    }
    if (!had.p || (added.p && memchr(had.p, ' ', had.n))) {
        dt_faults_add(faults, pointer,
                      had.p ? "has two secrets already: list the ones to keep"
                            : "there is no secret yet for \"***\" to keep");
        return wanted;
    }
    dt_strbuf_add(&text, had.p, had.n);
    if (added.p) {
        dt_strbuf_addc(&text, ' ');
        dt_strbuf_add(&text, added.p, added.n);
    }
    faults->failed = faults->failed || text.failed;
    struct dt_str out = text.failed ? DT_STR_NONE : dt_json_keep(faults, dt_strbuf_str(&text));
    dt_strbuf_clear(&text);
    return out;
}

/* ---- topics ---- */

enum dt_next dt_answer_topic_in_use(struct dt_request *req, const struct dt_topic_deletion *deletion)
{
    if (deletion->keeper == DT_TOPIC_HAS_SCHEDULE)
        dt_request_refuse(req, DT_PROBLEM_TOPIC_IN_USE, "the schedule %.*s creates jobs in the topic",
                          (int)deletion->schedule.n, deletion->schedule.p);
    else
        dt_request_refuse(req, DT_PROBLEM_TOPIC_IN_USE, "%lld jobs of the topic are not finished",
                          (long long)deletion->jobs);
    return DT_REPLY;
}

void dt_topics_announce(struct dt_request *req)
{
    dt_topic_cache_invalidate(req->api->topics);
    dt_index_writer_topics(req->api->index);
}
