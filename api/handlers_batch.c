/*
 * POST /v1/jobs:batch. Lines (NDJSON) are cut out of the stream on the HTTP thread as they arrive; an array is
 * collected and taken apart by a worker: first all of it is read (if it cannot be, nothing is made), then job by job.
 * Both feed a dt_batch, which commits in chunks and holds the feeder back. Knows nothing of a job's members.
 */
#include "answer.h"
#include "batch.h"
#include "handlers.h"

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
    bool ended; /* the last line was taken */
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

/* A last line without its line feed is a line; one that a limit cut off is not. */
static void take_last_line(struct lines *lines, bool truncated)
{
    bool begun = lines->skipping || lines->partial.n > 0;
    lines->ended = true;
    if (dt_batch_over(lines->batch))
        return;
    if (truncated)
        dt_batch_refuse(lines->batch, DT_PROBLEM_TOO_LARGE,
                        "the body is longer than limits.batch_body; no job was made from here on");
    else if (begun)
        take_line(lines, NULL, 0);
}

/* Nothing more comes. Called again after each wait for room. */
static enum dt_next finish_lines(struct dt_request *req)
{
    struct lines *lines = req->state;
    req->then = finish_lines;
    while (!dt_batch_room(lines->batch))
        if (dt_batch_suspend(lines->batch, false))
            return DT_PENDING;
    if (!lines->ended)
        take_last_line(lines, req->truncated);
    while (!dt_batch_flush(lines->batch))
        if (dt_batch_suspend(lines->batch, false))
            return DT_PENDING;
    req->then = answer_lines;
    return dt_batch_suspend(lines->batch, true) ? DT_PENDING : answer_lines(req);
}

/* ---- an array ---- */

#define NODES_AT_LEAST 100000

struct array {
    dt_batch *batch;
    dt_json *json; /* of its own: a batch parses each element with the thread's parser */
};

static void drop_array(struct dt_request *req)
{
    struct array *array = req->state;
    dt_json_free(array->json);
    dt_batch_release(array->batch);
}

/* Is all of the text JSON, and an array? When not, nothing is made and the problem is filled in. */
static bool read_array(struct dt_request *req, dt_json *json)
{
    const struct dt_config *config = req->api->config;
    struct dt_error err = {0};
    int64_t nodes = 2 * config->limits_batch_lines + 1;
    struct dt_json_limits limits = {.depth = (unsigned)config->limits_json_depth + 1, .elements = true};
    limits.nodes = (uint32_t)(nodes > NODES_AT_LEAST ? nodes : NODES_AT_LEAST);
    dt_status status = dt_json_parse(json, req->body, &limits, &err);
    if (status != DT_OK) {
        dt_answer_status(req, status, NULL, &err);
        return false;
    }
    if (dt_json_root(json)->type == DT_JSON_ARRAY)
        return true;
    struct dt_faults faults;
    dt_faults_init(&faults, &req->arena);
    dt_faults_add(&faults, "", "must be an array of jobs, or one job a line as application/x-ndjson");
    dt_answer_faults(req, DT_INVALID, &faults);
    return false;
}

static enum dt_next make_array(dt_batch *batch, const dt_json *json)
{
    const struct dt_json_node *root = dt_json_root(json), *element = dt_json_first(json, root);
    for (; element && !dt_batch_over(batch); element = dt_json_sibling(json, root, element)) {
        while (!dt_batch_room(batch))
            dt_batch_wait(batch, false);
        dt_batch_add(batch, element->raw, false);
    }
    while (!dt_batch_flush(batch))
        dt_batch_wait(batch, false);
    dt_batch_wait(batch, true);
    dt_batch_answer(batch);
    return DT_REPLY;
}

static enum dt_next run_array(struct dt_request *req, dt_store *store)
{
    (void)store;
    struct array *array = dt_arena_alloc(&req->arena, sizeof(*array));
    if (!array)
        return dt_answer_status(req, DT_NOMEM, NULL, NULL);
    *array = (struct array){.batch = dt_batch_new(req, true)};
    req->state = array;
    req->cleanup = drop_array;
    if (dt_json_new(&array->json) != DT_OK || !array->batch)
        return dt_answer_status(req, DT_NOMEM, NULL, NULL);
    return read_array(req, array->json) ? make_array(array->batch, array->json) : DT_REPLY;
}

enum dt_next dt_handle_batch(struct dt_request *req)
{
    if (req->media == DT_MEDIA_NDJSON)
        return finish_lines(req);
    return dt_workers_submit(req->api->workers, req, run_array);
}

const struct dt_stream dt_batch_stream = {.begin = begin, .feed = feed};
