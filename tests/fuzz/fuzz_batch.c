/* POST /v1/jobs:batch and /v1/results. Lines arrive in pieces that the first bytes of the input choose, chunks come back from the
 * committer at once or only when the request waits for them; and whatever the pieces, the answer is the same as for
 * the body in one piece: one result for each line, in order. The same text as the array of a JSON body: one result for
 * each element, or none at all. The committer, workers and the HTTP server are stood in for here. */
#include "api.h"
#include "fuzz.h"
#include "intake/batch.h"
#include "intake/batch_gate.h"
#include "intake/committer.h"
#include "job/change/jobs.h"
#include "request/auth.h"
#include "request/request.h"
#include "request/topic_cache.h"
#include "request/workers.h"
#include "support/stub.h"

#define ROWS      4u
#define LINES_MAX 500

/* ---- stand-ins ---- */

static struct dt_unit *units[64];
static size_t n_units;
static bool at_once, suspended;

/* An id that tells what was asked for, so that answers can be compared. */
static int64_t id_of(const struct dt_new_job *job)
{
    int64_t id;
    memcpy(&id, job->digest, sizeof id);
    return (id & INT64_C(0xffffffffffff)) + 1;
}

static void give_back(struct dt_unit *unit)
{
    for (size_t i = 0; i < unit->n; i++) {
        MUST(unit->rows[i].row.job.topic.p && unit->rows[i].row.job.run_at_ms > 0);
        unit->rows[i].row.outcome = DT_INSERT_CREATED;
        unit->rows[i].row.job.id = id_of(&unit->rows[i].row.job);
    }
    unit->status = DT_OK;
    unit->done(unit);
}

void dt_committer_submit(dt_committer *, struct dt_unit *unit)
{
    MUST(unit->n >= 1 && unit->n <= ROWS);
    if (at_once) {
        give_back(unit);
        return;
    }
    MUST(n_units < sizeof units / sizeof *units);
    units[n_units++] = unit;
}
STUB(size_t, dt_results_batcher_unit, (const dt_results_batcher *results), ROWS)
void dt_results_batcher_submit(dt_results_batcher *results, struct dt_reports *reports)
{
    (void)results;
    MUST(reports->n >= 1 && reports->n <= ROWS && reports->of_batch);
    for (size_t i = 0; i < reports->n; i++) {
        MUST(reports->v[i].result.job_id > 0 && reports->v[i].result.attempt > 0);
        reports->v[i].outcome = (enum dt_outcome)(reports->v[i].result.job_id % (DT_OUTCOME_BUSY + 1));
    }
    reports->status = DT_OK;
    reports->done(reports);
}
void dt_unit_clear(struct dt_unit *unit)
{
    unit->view = NULL;
}
STUB(struct dt_view *, dt_topic_cache_view, (dt_topic_cache * cache), NULL)
void dt_view_release(struct dt_view *view)
{
    MUST(!view);
}
void dt_caller_copy(const struct dt_caller *caller, struct dt_caller *out)
{
    *out = *caller;
}
STUB(void, dt_caller_clear, (struct dt_caller * caller), )
void dt_request_suspend(struct dt_request *)
{
    MUST(!suspended);
    suspended = true;
}
void dt_request_resume(struct dt_request *)
{
    MUST(suspended);
    suspended = false;
}
static struct dt_slice *slice_queued;
bool dt_workers_slice(dt_workers *, struct dt_slice *slice)
{
    slice_queued = slice;
    return true;
}
STUB(void, dt_request_trim, (struct dt_request * req), )
STUB(dt_detached *, dt_request_detach, (struct dt_request * req), NULL)
STUB(void, dt_detached_answer,
     (dt_detached * detached, int status, const char *type, struct dt_strbuf *body, struct dt_hold *hold), )

/* ---- a request ---- */

static struct dt_route route = {.wall = DT_WALL_IN_BODY}; /* of jobs, or of results */

static struct dt_config config = {.api_queue_jobs = 64,
                                  .limits_batch_lines = LINES_MAX,
                                  .limits_body = 300,
                                  .limits_payload = 200,
                                  .limits_headers = 100,
                                  .limits_json_depth = 8,
                                  .limits_max_delay = DT_DAY_MS};
static dt_refclock ref;
static struct dt_budget memory;
static struct dt_api api;

/* Until the request needs not wait any more. */
static void resume(void)
{
    do {
        while (n_units > 0)
            give_back(units[--n_units]); /* the last one first: order is the batch's business */
        while (slice_queued) {
            struct dt_slice *slice = slice_queued;
            slice_queued = NULL;
            while (slice->run(slice))
                ;
        }
    } while (n_units > 0 || slice_queued);
    MUST(!suspended);
}

static void feed_piece(struct dt_request *req, struct dt_str piece)
{
    size_t done = 0;
    while (done < piece.n) {
        size_t taken = 0;
        enum dt_feed next = route.stream->feed(req, piece.p + done, piece.n - done, &taken);
        MUST(taken <= piece.n - done);
        done += taken;
        if (next == DT_FEED_DROP)
            return;
        if (next == DT_FEED_WAIT)
            resume();
        else
            MUST(done == piece.n);
    }
}

/* Each piece in memory of its own, which is gone afterwards. seed 0: one piece. */
static void feed(struct dt_request *req, struct dt_str body, unsigned seed)
{
    while (body.n > 0) {
        size_t n = body.n;
        if (seed) {
            seed = seed * 1103515245 + 12345;
            n = 1 + (seed >> 16) % (seed & 4 ? 7 : 90);
            n = n < body.n ? n : body.n;
        }
        struct dt_str piece = exact_copy((struct dt_str){body.p, n});
        feed_piece(req, piece);
        free_copy(piece);
        body.p += n;
        body.n -= n;
    }
}

static void finish(struct dt_request *req)
{
    enum dt_next next = dt_batch_feed_handle(req);
    while (next == DT_PENDING) {
        resume();
        next = req->then ? req->then(req) : DT_REPLY;
    }
    MUST(req->status != 0 && !suspended && n_units == 0);
}

/* Its caller sees the topic "t", and no topic "hidden". */
static void request_init(struct dt_request *req, enum dt_media media)
{
    static const struct dt_str seen = DT_STR_LIT("t");
    *req = (struct dt_request){
        .api = &api, .route = &route, .media = media, .deadline_us = INT64_MAX / 2, .caller.topics = {&seen, 1}};
    dt_hold_init(&req->hold, &memory);
}

static void request_clear(struct dt_request *req)
{
    if (req->cleanup)
        req->cleanup(req);
    dt_strbuf_clear(&req->out);
    dt_strbuf_clear(&req->headers);
    dt_arena_clear(&req->arena);
    dt_hold_less(&req->hold, DT_HOLD_ALL);
}

static void post_lines(struct dt_request *req, struct dt_str body, unsigned seed)
{
    bool buffer = false;
    request_init(req, DT_MEDIA_NDJSON);
    MUST(route.stream->begin(req, &buffer) == DT_PENDING && !buffer);
    feed(req, body, seed);
    finish(req);
}

/* ---- properties ---- */

static size_t lines_of(struct dt_str text)
{
    size_t n = 0;
    for (size_t i = 0; i < text.n; i++)
        n += text.p[i] == '\n';
    return n + (text.n > 0 && text.p[text.n - 1] != '\n');
}

static void check_lines(struct dt_str body, unsigned seed, bool now)
{
    struct dt_request whole, pieces;
    at_once = true;
    post_lines(&whole, body, 0);
    at_once = now;
    post_lines(&pieces, body, seed | 1);
    MUST(whole.status == 200 && pieces.status == 200);
    MUST(dt_str_eq(dt_strbuf_str(&whole.out), dt_strbuf_str(&pieces.out)));
    if (lines_of(body) <= LINES_MAX)
        MUST(lines_of(dt_strbuf_str(&whole.out)) == lines_of(body));
    request_clear(&whole);
    request_clear(&pieces);
}

static void check_array(struct dt_str body)
{
    static dt_json *json, *answer;
    struct dt_request req;
    struct dt_json_limits limits = {.depth = 9, .elements = true};
    if (!json)
        MUST(dt_json_new(&json) == DT_OK && dt_json_new(&answer) == DT_OK);
    at_once = true;
    request_init(&req, DT_MEDIA_JSON);
    req.body = body;
    finish(&req);
    bool array = dt_json_parse(json, body, &limits, NULL) == DT_OK && dt_json_root(json)->type == DT_JSON_ARRAY;
    MUST((req.status == 200) == array);
    MUST(dt_json_parse(answer, dt_strbuf_str(&req.out), &(struct dt_json_limits){0}, NULL) == DT_OK);
    if (array && dt_json_root(json)->n <= LINES_MAX)
        MUST(dt_json_root(answer)->type == DT_JSON_ARRAY && dt_json_root(answer)->n == dt_json_root(json)->n);
    request_clear(&req);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct input in = {(const char *)data, n};
    unsigned seed = input_byte(&in), now = input_byte(&in);
    if (!api.config) {
        config.installation_name = (char *)(uintptr_t) "duetime";
        dt_refclock_init(&ref, dt_clock_system());
        ref.taken_us = 1;
        dt_budget_init(&memory, (size_t)256 << 20);
        dt_gate *gate = NULL;
        const struct dt_gate_bounds bounds = {.chunk_rows = ROWS, .rows = (size_t)config.api_queue_jobs / 2};
        MUST(dt_gate_new("jobs", &bounds, &gate) == DT_OK);
        api = (struct dt_api){.config = &config,
                              .clock = dt_clock_system(),
                              .ref = &ref,
                              .memory = &memory,
                              .job_gate = gate,
                              .result_gate = gate};
    }
    route.stream = now & 2 ? &dt_batch_of_results.stream : &dt_batch_of_jobs.stream;
    struct dt_str body = exact_copy(input_rest(&in));
    check_lines(body, seed, now & 1);
    check_array(body);
    free_copy(body);
    MUST(dt_budget_held(&memory) == 0); /* by now all requests have ended */
    return 0;
}
