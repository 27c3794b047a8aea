/*
 * POST /v1/jobs:batch. Lines (NDJSON) are cut out of the stream on the HTTP thread as they arrive; an array is
 * collected and taken apart by a worker, in two passes: one that finds whether all of it can be read (if not, nothing
 * is made), one that makes the jobs. Both feed a dt_batch, which commits in chunks and holds the feeder back. Knows
 * nothing of a job's members.
 */
#include "answer.h"
#include "batch.h"
#include "handlers.h"
#include "scratch.h"

/* ---- NDJSON ---- */

/*
 * A line's beginning that came with an earlier piece of the body waits in `partial`. A line longer than limits.body is
 * refused, and skipped to its end. A line feed ends a line; what follows the last one is a line too, unless it is
 * empty. An empty line is a line that cannot be read: results stay aligned with lines.
 */
struct lines {
    dt_batch *batch;
    struct dt_strbuf partial;
    size_t line_max;
    bool skipping;
};

static const char too_long[] = "the line is longer than limits.body; no job was made";

static void drop_lines(struct dt_request *req)
{
    struct lines *lines = req->state;
    dt_strbuf_clear(&lines->partial);
    dt_batch_release(lines->batch);
}

static enum dt_next begin(struct dt_request *req, bool *buffer)
{
    if (!dt_answer_clock(req))
        return DT_REPLY;
    if (req->media == DT_MEDIA_JSON) {
        *buffer = true;
        return DT_PENDING;
    }
    struct lines *lines = dt_arena_alloc(&req->arena, sizeof(*lines));
    dt_batch *batch = dt_batch_new(req, false);
    if (!lines || !batch) {
        dt_batch_release(batch);
        return dt_answer_status(req, DT_NOMEM, NULL, NULL);
    }
    *lines = (struct lines){.batch = batch, .line_max = (size_t)req->api->config->limits_body};
    dt_strbuf_init(&lines->partial);
    req->state = lines;
    req->cleanup = drop_lines;
    return DT_PENDING;
}

/* p[0..n): the rest of a line whose beginning may wait in partial. */
static void take_line(struct lines *lines, const char *p, size_t n)
{
    if (lines->skipping || lines->partial.n + n > lines->line_max) {
        dt_batch_refuse(lines->batch, DT_PROBLEM_TOO_LARGE, too_long);
    } else if (lines->partial.n > 0) {
        dt_strbuf_add(&lines->partial, p, n);
        if (lines->partial.failed)
            dt_batch_refuse(lines->batch, DT_PROBLEM_UNAVAILABLE, "memory is out");
        else
            dt_batch_add(lines->batch, dt_strbuf_str(&lines->partial), true);
    } else {
        dt_batch_add(lines->batch, (struct dt_str){p, n}, true);
    }
    lines->skipping = false;
    dt_strbuf_reset(&lines->partial);
}

static void keep_beginning(struct lines *lines, const char *p, size_t n)
{
    if (!lines->skipping && lines->partial.n + n <= lines->line_max) {
        dt_strbuf_add(&lines->partial, p, n);
        return;
    }
    lines->skipping = true;
    dt_strbuf_reset(&lines->partial);
}

static enum dt_feed feed(struct dt_request *req, const char *p, size_t n, size_t *taken)
{
    struct lines *lines = req->state;
    for (*taken = 0; *taken < n;) {
        const char *start = p + *taken, *end = memchr(start, '\n', n - *taken);
        if (!end) {
            keep_beginning(lines, start, n - *taken);
            *taken = n;
            return DT_FEED_MORE;
        }
        if (dt_batch_over(lines->batch)) {
            *taken = n;
            return DT_FEED_DROP;
        }
        if (!dt_batch_room(lines->batch)) {
            if (dt_batch_suspend(lines->batch, false))
                return DT_FEED_WAIT;
            continue;
        }
        take_line(lines, start, (size_t)(end - start));
        *taken += (size_t)(end - start) + 1;
    }
    return DT_FEED_MORE;
}

static enum dt_next answer_lines(struct dt_request *req)
{
    struct lines *lines = req->state;
    dt_batch_answer(lines->batch);
    return DT_REPLY;
}

/* Nothing more comes. A last line without its line feed is a line; one that a limit cut off is not. */
static enum dt_next finish_lines(struct dt_request *req)
{
    struct lines *lines = req->state;
    bool begun = lines->skipping || lines->partial.n > 0;
    req->then = finish_lines;
    if ((begun || req->truncated) && !dt_batch_over(lines->batch)) {
        if (!dt_batch_room(lines->batch) && dt_batch_suspend(lines->batch, false))
            return DT_PENDING;
        (void)dt_batch_room(lines->batch);
        if (req->truncated)
            dt_batch_refuse(lines->batch, DT_PROBLEM_TOO_LARGE,
                            "the body is longer than limits.batch_body; no job was made from here on");
        else
            take_line(lines, NULL, 0);
    }
    dt_batch_flush(lines->batch);
    req->then = answer_lines;
    return dt_batch_suspend(lines->batch, true) ? DT_PENDING : answer_lines(req);
}

/* ---- an array ---- */

static size_t skip_space(struct dt_str text, size_t i)
{
    while (i < text.n && (text.p[i] == ' ' || text.p[i] == '\t' || text.p[i] == '\n' || text.p[i] == '\r'))
        i++;
    return i;
}

/* Where the string that opens at i ends (after its quote). */
static size_t skip_string(struct dt_str text, size_t i)
{
    for (i++; i < text.n && text.p[i] != '"'; i++)
        if (text.p[i] == '\\')
            i++;
    return i < text.n ? i + 1 : text.n;
}

/* Where the element that begins at i ends: the comma or bracket after it, outside strings and containers. */
static size_t element_end(struct dt_str text, size_t i)
{
    size_t depth = 0;
    while (i < text.n) {
        char c = text.p[i];
        if (c == '"') {
            i = skip_string(text, i);
            continue;
        }
        if (depth == 0 && (c == ',' || c == ']'))
            return i;
        if (c == '{' || c == '[')
            depth++;
        else if ((c == '}' || c == ']') && depth > 0)
            depth--;
        i++;
    }
    return text.n;
}

/*
 * Walks over the elements of the array that the text is. at = 0 to begin with. 1: *element is the next one (which may
 * be no JSON); 0: the end was reached, and nothing but white space follows; -1: the text is no array.
 */
static int next_element(struct dt_str text, size_t *at, struct dt_str *element)
{
    size_t i = skip_space(text, *at);
    bool first = *at == 0;
    if (i >= text.n)
        return -1;
    if (first) {
        if (text.p[i] != '[')
            return -1;
        i = skip_space(text, i + 1);
    }
    if (i < text.n && text.p[i] == ']' && (first || text.p[*at] == ']'))
        return skip_space(text, i + 1) == text.n ? 0 : -1;
    if (!first && text.p[i] != ',')
        return -1;
    i += !first;
    size_t end = element_end(text, i);
    if (end >= text.n)
        return -1;
    *element = (struct dt_str){text.p + i, end - i};
    *at = end;
    return 1;
}

/* Is every element JSON? Fills in the problem when not. */
static bool check_array(struct dt_request *req, const struct dt_job_rules *rules)
{
    struct dt_json_limits limits = dt_job_json_limits(rules, 0);
    struct dt_error err = {0};
    struct dt_str element;
    size_t at = 0, n = 0;
    int more;
    while ((more = next_element(req->body, &at, &element)) > 0) {
        dt_json *json = dt_scratch_json();
        dt_status status = json ? dt_json_parse(json, element, &limits, &err) : DT_NOMEM;
        if (status == DT_MALFORMED) {
            dt_request_refuse(req, DT_PROBLEM_MALFORMED, "element %zu: %s; nothing was made", n, err.text);
            return false;
        }
        if (status != DT_OK) {
            dt_answer_status(req, status, NULL, &err);
            return false;
        }
        n++;
    }
    return more == 0;
}

/* Not an array: 422 when it is JSON, 400 when it is not even that. */
static enum dt_next refuse_text(struct dt_request *req, const struct dt_job_rules *rules)
{
    const struct dt_json_node *root;
    if (!dt_answer_parse(req, rules, &root))
        return DT_REPLY;
    if (root->type == DT_JSON_ARRAY) {
        dt_request_refuse(req, DT_PROBLEM_MALFORMED, "the array cannot be read");
        return DT_REPLY;
    }
    struct dt_faults faults;
    dt_faults_init(&faults, &req->arena);
    dt_faults_add(&faults, "", "must be an array of jobs, or one job a line as application/x-ndjson");
    return dt_answer_faults(req, DT_INVALID, &faults);
}

static void drop_array(struct dt_request *req)
{
    dt_batch_release(req->state);
}

static enum dt_next make_array(struct dt_request *req)
{
    dt_batch *batch = dt_batch_new(req, true);
    if (!batch)
        return dt_answer_status(req, DT_NOMEM, NULL, NULL);
    req->state = batch;
    req->cleanup = drop_array;
    struct dt_str element;
    size_t at = 0;
    while (!dt_batch_over(batch) && next_element(req->body, &at, &element) > 0) {
        while (!dt_batch_room(batch))
            dt_batch_wait(batch, false);
        dt_batch_add(batch, element, false);
    }
    dt_batch_flush(batch);
    dt_batch_wait(batch, true);
    dt_batch_answer(batch);
    return DT_REPLY;
}

static enum dt_next run_array(struct dt_request *req, dt_store *store)
{
    (void)store;
    struct dt_job_rules rules = dt_answer_rules(req->api, NULL);
    req->status = 0;
    if (check_array(req, &rules))
        return make_array(req);
    return req->status != 0 ? DT_REPLY : refuse_text(req, &rules);
}

enum dt_next dt_handle_batch(struct dt_request *req)
{
    if (req->media == DT_MEDIA_NDJSON)
        return finish_lines(req);
    return dt_workers_submit(req->api->workers, req, run_array);
}

const struct dt_stream dt_batch_stream = {.begin = begin, .feed = feed};
