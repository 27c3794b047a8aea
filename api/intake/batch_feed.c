/* Feeds batches (batch.h). Lines (NDJSON) are taken from the stream as they arrive, on the HTTP thread. If a piece
 * of the body has more lines than a slice, slicers (workers.h) take the remaining lines, so that other connections of
 * the HTTP thread do not wait. An array is first received completely; then a slicer parses it, and takes up to SLICE
 * elements at a time. If the array cannot be parsed, nothing is done. */
#include "batch.h"

#include "answer.h"

#define SLICE 128 /* elements of a slice, which take about half a millisecond */

static const struct dt_batch_kind *batch_kind_of(const struct dt_request *req)
{
    return (const struct dt_batch_kind *)req->route->stream;
}

/* ---- NDJSON ---- */

/* A stream of lines. `partial` keeps the beginning of a line until the next piece of the body arrives. A line longer
 * than limits.body is refused, and skipped to its end. A line feed ends a line; text after the last line feed is also a
 * line. An empty line is refused as an invalid element, so that each line has its result. */
struct lines {
    dt_batch *batch;
    struct dt_strbuf partial;
    struct dt_strbuf piece; /* copy of a piece of the body for the slicers, which read it from offset `at` */
    size_t at;
    size_t line_max;
    bool skipping;
    bool begun; /* the first line was read; only it may begin with a byte order mark */
    bool rests; /* the batch must pause before it begins */
    bool ended; /* the body has ended, and its last line was read */
};

static void release_lines(struct dt_request *req)
{
    struct lines *lines = req->state;
    dt_strbuf_clear(&lines->partial);
    dt_strbuf_clear(&lines->piece);
    dt_batch_release(lines->batch);
}

enum dt_next dt_batch_feed_begin(struct dt_request *req, bool *buffer)
{
    if (!dt_answer_clock(req))
        return DT_REPLY;
    if (req->media == DT_MEDIA_JSON) {
        *buffer = true;
        return DT_PENDING;
    }
    struct lines *lines = dt_arena_alloc(&req->arena, sizeof(*lines));
    dt_batch *batch = dt_batch_new(req, batch_kind_of(req), false);
    if (!lines || !batch) {
        dt_batch_release(batch);
        return dt_answer_status(req, DT_NOMEM, NULL, NULL);
    }
    const enum dt_batch_beginning beginning = dt_batch_begin(batch);
    if (beginning == DT_BATCH_NO_PLACE) {
        dt_batch_release(batch);
        dt_request_refuse(
            req, DT_PROBLEM_UNAVAILABLE,
            "too many batches of this token are waiting, because very many of its elements were refused or cut off");
        return DT_REPLY;
    }
    *lines = (struct lines){
        .batch = batch, .line_max = (size_t)req->api->config->limits_body, .rests = beginning == DT_BATCH_RESTS};
    req->state = lines;
    req->cleanup = release_lines;
    return DT_PENDING;
}

/* Reads a line that ends with p[0..n); `partial` may have its beginning. */
static void add_complete_line(struct lines *lines, const char *p, size_t n)
{
    struct dt_str line = {p, n};
    const bool too_long = lines->skipping || lines->partial.n + n > lines->line_max;
    const bool joined = !too_long && lines->partial.n > 0;
    if (joined) {
        dt_strbuf_add(&lines->partial, p, n);
        line = dt_strbuf_str(&lines->partial);
    }
    if (too_long)
        dt_batch_refuse(lines->batch, DT_PROBLEM_TOO_LARGE, "the line is longer than limits.body", false);
    else if (joined && lines->partial.failed)
        dt_batch_refuse(lines->batch, DT_PROBLEM_UNAVAILABLE, "out of memory", false);
    else
        dt_batch_add(lines->batch, lines->begun ? line : dt_str_without_bom(line), true);
    lines->begun = true;
    lines->skipping = false;
    dt_strbuf_reset(&lines->partial);
}

static void store_partial_line(struct dt_request *req, struct lines *lines, const char *p, size_t n)
{
    if (lines->skipping || lines->partial.n + n > lines->line_max) {
        lines->skipping = true;
        dt_strbuf_clear(&lines->partial);
        return;
    }
    if (dt_hold_bulk(&req->hold, dt_strbuf_growth(&lines->partial, n)))
        dt_strbuf_add(&lines->partial, p, n);
    else
        dt_batch_end(lines->batch, DT_BATCH_MEMORY);
}

/* Stops reading lines: all later lines get one answer together. */
static void skip_remaining_lines(struct lines *lines)
{
    dt_batch_remainder(lines->batch);
    dt_strbuf_clear(&lines->partial);
}

enum progress { TAKEN, SLICE_OVER, NO_ROOM, OVER };

/* Reads lines from p[*at..n), one slice at most. */
static enum progress read_lines_slice(struct dt_request *req, const char *p, size_t n, size_t *at)
{
    struct lines *lines = req->state;
    dt_batch_look(lines->batch);
    for (int i = 0; *at < n; i++) {
        const char *start = p + *at;
        const char *end = memchr(start, '\n', n - *at);
        if (dt_batch_over(lines->batch))
            return OVER;
        if (!end) {
            store_partial_line(req, lines, start, n - *at);
            *at = n;
            break;
        }
        if (!dt_batch_room(lines->batch))
            return NO_ROOM;
        if (i == SLICE)
            return SLICE_OVER;
        add_complete_line(lines, start, (size_t)(end - start));
        *at += (size_t)(end - start) + 1;
    }
    dt_batch_room(lines->batch); /* so that a full chunk is submitted now, not with the next line */
    return TAKEN;
}

/* Reads one slice of lines from the copied piece of the body. After the last slice the request is resumed on its HTTP
 * thread. */
static bool run_lines_slice(struct dt_request *req)
{
    struct lines *lines = req->state;
    bool rests = lines->rests;
    lines->rests = false;
    if (rests && dt_batch_rest(lines->batch, DT_BATCH_REST_FIRST))
        return false;
    dt_batch_rest_over(lines->batch);
    switch (read_lines_slice(req, lines->piece.p, lines->piece.n, &lines->at)) {
    case SLICE_OVER:
        return true;
    case NO_ROOM:
        return !dt_batch_wait(lines->batch, false);
    case OVER:
        skip_remaining_lines(lines);
        break;
    case TAKEN:
        break;
    }
    dt_strbuf_reset(&lines->piece);
    dt_batch_leave_slices(lines->batch);
    dt_request_resume(req);
    return false;
}

enum dt_feed dt_batch_feed(struct dt_request *req, const char *p, size_t n, size_t *taken)
{
    struct lines *lines = req->state;
    size_t at = 0;
    *taken = n;
    const enum progress progress = lines->rests ? NO_ROOM : read_lines_slice(req, p, n, &at);
    if (progress == TAKEN)
        return DT_FEED_MORE;
    if (progress == OVER) {
        skip_remaining_lines(lines);
        return DT_FEED_DROP;
    }
    /* The piece has more lines than a slice, or the batch has no room, or the batch must pause before it begins. Copies
     * the remaining bytes, because the connection reads its next bytes into the same buffer. */
    const size_t left = n - at;
    lines->at = 0;
    if (dt_hold_bulk(&req->hold, dt_strbuf_growth(&lines->piece, left)))
        dt_strbuf_add(&lines->piece, p + at, left);
    if (lines->piece.n != left) {
        dt_batch_end(lines->batch, DT_BATCH_MEMORY);
        skip_remaining_lines(lines);
        return DT_FEED_DROP;
    }
    dt_request_suspend(req);
    if (dt_batch_run_in_slices(lines->batch, run_lines_slice))
        return DT_FEED_WAIT;
    dt_batch_end(lines->batch, DT_BATCH_SHUTDOWN);
    skip_remaining_lines(lines);
    dt_request_resume(req);
    return DT_FEED_WAIT;
}

static enum dt_next answer_lines(struct dt_request *req)
{
    struct lines *lines = req->state;
    dt_batch_answer(lines->batch);
    return DT_REPLY;
}

static enum dt_next pause_then_answer_lines(struct dt_request *req)
{
    struct lines *lines = req->state;
    req->then = answer_lines;
    return dt_batch_rest(lines->batch, DT_BATCH_REST_LAST) ? DT_PENDING : answer_lines(req);
}

/* Takes the last line, after the last piece of the body, and submits the open chunk. Called again after each wait. */
static enum dt_next finish_lines(struct dt_request *req)
{
    struct lines *lines = req->state;
    req->then = finish_lines;
    dt_batch_look(lines->batch);
    while (!dt_batch_room(lines->batch))
        if (dt_batch_wait(lines->batch, false))
            return DT_PENDING;
    if (!lines->ended) {
        /* Text after the last line feed is a line, unless a limit has cut off the body. */
        const bool begun = lines->skipping || lines->partial.n > 0;
        lines->ended = true;
        if (dt_batch_over(lines->batch)) {
            if (begun || req->truncated)
                dt_batch_remainder(lines->batch);
        } else if (req->truncated) {
            dt_batch_refuse(lines->batch, DT_PROBLEM_TOO_LARGE, "the body is longer than limits.batch_body", true);
        } else if (begun) {
            add_complete_line(lines, NULL, 0);
        }
    }
    while (!dt_batch_flush(lines->batch))
        if (dt_batch_wait(lines->batch, false))
            return DT_PENDING;
    req->then = pause_then_answer_lines;
    return dt_batch_wait(lines->batch, true) ? DT_PENDING : pause_then_answer_lines(req);
}

/* Called if the body breaks off. The line that it breaks off in is dropped. */
void dt_batch_feed_cut(struct dt_request *req, enum dt_cut why)
{
    struct lines *lines = req->state;
    dt_batch_end(lines->batch, why == DT_CUT_LATE       ? DT_BATCH_LATE
                               : why == DT_CUT_SHUTDOWN ? DT_BATCH_SHUTDOWN
                                                        : DT_BATCH_CUT);
    dt_batch_detach(lines->batch);
}

/* ---- an array ---- */

#define NODES_AT_LEAST 1024
#define ELEMENT_BYTES  24 /* bytes of the shortest job or result */
#define NAMES_MAX      4000000

struct array {
    dt_batch *batch;
    dt_json *json; /* parser that holds the whole array; elements are parsed with the thread's parser */
    const struct dt_json_node *element;
    enum { READ, FEED, FLUSH, REST, FINISH } next;
};

static void release_array(struct dt_request *req)
{
    struct array *array = req->state;
    dt_json_free(array->json);
    dt_batch_release(array->batch);
}

/* A parsed node takes many times more memory than the shortest element. So parsing stops, and the body is refused, if
 * the body has more elements than it could have if all of them were valid. */
static size_t max_json_nodes(const struct dt_request *req)
{
    size_t most = 2 * (size_t)req->api->config->limits_batch_lines + 1;
    size_t fit = req->body.n / ELEMENT_BYTES + NODES_AT_LEAST;
    most = most > NODES_AT_LEAST ? most : NODES_AT_LEAST;
    return fit < most ? fit : most;
}

/* Parses the whole body. False: the body is no JSON array; the problem is filled in. */
static bool parse_array(struct dt_request *req, struct array *array)
{
    struct dt_error err = {0};
    const struct dt_json_limits limits = {.depth = (unsigned)req->api->config->limits_json_depth + 1,
                                          .elements = true,
                                          .nodes = (uint32_t)max_json_nodes(req),
                                          .names = NAMES_MAX};
    if (dt_batch_look(array->batch)) {
        dt_request_refuse(req, DT_PROBLEM_UNAVAILABLE, "the request waited too long, or the server is shutting down");
        return false;
    }
    dt_status status = dt_json_parse(array->json, req->body, &limits, &err);
    if (status != DT_OK) {
        dt_answer_status(req, status, NULL, &err);
        return false;
    }
    const struct dt_json_node *root = dt_json_root(array->json);
    if (root->type != DT_JSON_ARRAY) {
        struct dt_faults faults = {.arena = &req->arena};
        dt_faults_addf(&faults, "", "must be an array of %s, or application/x-ndjson with one per line",
                       batch_kind_of(req)->elements);
        dt_answer_faults(req, DT_INVALID, &faults);
        return false;
    }
    array->element = dt_json_first(array->json, root);
    array->next = FEED;
    return true;
}

/* Adds a slice of elements to the batch. False: the batch waits for room. */
static bool add_elements_slice(struct array *array)
{
    const struct dt_json_node *root = dt_json_root(array->json);
    dt_batch_look(array->batch);
    for (int i = 0; i < SLICE && array->element && !dt_batch_over(array->batch); i++) {
        while (!dt_batch_room(array->batch))
            if (dt_batch_wait(array->batch, false))
                return false;
        dt_batch_add(array->batch, array->element->raw, false);
        array->element = dt_json_sibling(array->json, root, array->element);
    }
    if (array->element && !dt_batch_over(array->batch))
        return true;
    if (array->element)
        dt_batch_remainder(array->batch);
    array->next = FLUSH;
    return true;
}

/* Does one slice of the array. False: the batch waits, or the answer is filled in. */
static bool run_array_slice(struct dt_request *req)
{
    struct array *array = req->state;
    switch (array->next) {
    case READ:
        if (parse_array(req, array))
            return true;
        break;
    case FEED:
        return add_elements_slice(array);
    case FLUSH:
        while (!dt_batch_flush(array->batch))
            if (dt_batch_wait(array->batch, false))
                return false;
        array->next = REST;
        return !dt_batch_wait(array->batch, true);
    case REST:
        array->next = FINISH;
        return !dt_batch_rest(array->batch, DT_BATCH_REST_LAST);
    case FINISH:
        dt_batch_answer(array->batch);
        break;
    }
    dt_request_resume(req);
    return false;
}

enum dt_next dt_batch_feed_handle(struct dt_request *req)
{
    if (req->media == DT_MEDIA_NDJSON)
        return finish_lines(req);
    struct array *array = dt_arena_alloc(&req->arena, sizeof(*array));
    if (!array)
        return dt_answer_status(req, DT_NOMEM, NULL, NULL);
    if (!dt_hold_bulk(&req->hold, 2 * max_json_nodes(req) *
                                      sizeof(struct dt_json_node))) /* twice, because the parser's table doubles */
        return dt_request_no_room(req);
    *array = (struct array){.batch = dt_batch_new(req, batch_kind_of(req), true)};
    req->state = array;
    req->cleanup = release_array;
    if (dt_json_new(&array->json) != DT_OK || !array->batch)
        return dt_answer_status(req, DT_NOMEM, NULL, NULL);
    dt_request_suspend(req);
    if (dt_batch_run_in_slices(array->batch, run_array_slice))
        return DT_PENDING;
    dt_request_refuse(req, DT_PROBLEM_UNAVAILABLE, "the server is shutting down");
    dt_request_resume(req);
    return DT_PENDING;
}
