/*
 * Many jobs of one request: order, refusals, chunks, and the gate that all batches pass. The committer and the HTTP
 * server are stood in for here: units gather until a test gives them back, in any order.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "auth/auth.h"
#include "intake/batch.h"
#include "intake/batch_gate.h"
#include "intake/committer.h"
#include "request/budget.h"
#include "topics/topic_cache.h"
#include "work/slices.h"

#define ROWS  10u /* of a unit */
#define QUEUE 80  /* of the committer: batches may have half of it, four units */

/* ---- stand-ins ---- */

static struct dt_unit *units[64];
static size_t n_units, most_under_way, under_way;
static int64_t next_id;
static unsigned suspended, resumed;
static enum dt_insert_outcome outcome;

size_t dt_committer_unit_rows(const dt_committer *committer)
{
    (void)committer;
    return ROWS;
}
void dt_committer_submit(dt_committer *committer, struct dt_unit *unit)
{
    (void)committer;
    assert_true(n_units < sizeof(units) / sizeof(*units));
    assert_true(unit->n >= 1 && unit->n <= ROWS);
    units[n_units++] = unit;
    if (++under_way > most_under_way)
        most_under_way = under_way;
}
void dt_unit_clear(struct dt_unit *unit)
{
    unit->view = NULL;
}
struct dt_view *dt_topic_cache_view(dt_topic_cache *cache)
{
    (void)cache;
    return NULL;
}
void dt_view_release(struct dt_view *view)
{
    assert_null(view);
}
void dt_caller_copy(const struct dt_caller *caller, struct dt_caller *out)
{
    *out = *caller;
}
void dt_caller_clear(struct dt_caller *caller)
{
    (void)caller;
}
bool dt_caller_sees(const struct dt_caller *caller, struct dt_str topic)
{
    (void)caller;
    return !dt_str_is(topic, "hidden");
}
void dt_request_suspend(struct dt_request *req)
{
    (void)req;
    suspended++;
}
void dt_request_resume(struct dt_request *req)
{
    (void)req;
    resumed++;
}

static struct dt_strbuf detached_text; /* what was answered past the HTTP server */
static int detached_status;
struct dt_detached {
    int unused;
};
dt_detached *dt_request_detach(struct dt_request *req)
{
    static dt_detached detached;
    (void)req;
    return &detached;
}
void dt_detached_answer(dt_detached *detached, int status, const char *type, struct dt_strbuf *body,
                        struct dt_hold *hold)
{
    (void)detached;
    assert_string_equal(type, "application/x-ndjson");
    detached_status = status;
    detached_text = *body;
    dt_strbuf_init(body);
    dt_hold_end(hold);
}
static struct dt_slice *queued;
bool dt_slices_add(dt_slices *slices, struct dt_slice *slice)
{
    (void)slices;
    queued = slice;
    return true;
}

/* Under no lock, as the threads of the slices do it. */
static void run_slice(void)
{
    struct dt_slice *slice = queued;
    queued = NULL;
    while (slice && slice->run(slice))
        ;
}

/* The unit comes back, its rows made (ids in the order of coming back) or with `outcome`. */
static void give_back(size_t i, dt_status status)
{
    struct dt_unit *unit = units[i];
    for (size_t r = 0; r < unit->n; r++) {
        unit->rows[r].row.outcome = outcome;
        unit->rows[r].row.job.id = ++next_id;
        unit->rows[r].row.existing_id = 77;
    }
    unit->status = status;
    units[i] = NULL;
    under_way--;
    unit->done(unit);
}

/* ---- fixture ---- */

#define MEMORY ((size_t)64 << 20)
#define NEVER  (INT64_MAX / 2)

static struct dt_config config;
static dt_refclock ref;
static struct dt_budget memory;
static struct dt_api api;

static int make(void **state)
{
    (void)state;
    memset(&config, 0, sizeof(config));
    config.api_queue_jobs = QUEUE;
    config.limits_batch_lines = 1000;
    config.limits_body = 10000;
    config.limits_payload = 5000;
    config.limits_headers = 100;
    config.limits_json_depth = 16;
    config.limits_max_delay = DT_DAY_MS;
    config.installation_name = (char *)"duetime";
    dt_refclock_init(&ref, dt_clock_system());
    dt_budget_init(&memory, MEMORY);
    dt_gate *gate = NULL;
    if (dt_gate_new("jobs", ROWS, QUEUE / 2, &gate) != DT_OK)
        return -1;
    api = (struct dt_api){
        .config = &config, .ref = &ref, .clock = dt_clock_system(), .memory = &memory, .job_gate = gate};
    dt_strbuf_init(&detached_text);
    detached_status = 0;
    memset(units, 0, sizeof(units));
    n_units = most_under_way = under_way = 0;
    suspended = resumed = 0;
    next_id = 100;
    outcome = DT_INSERT_CREATED;
    return 0;
}

static double gauge(const char *name)
{
    return dt_metric_value(dt_gauge(name, "", "of=\"jobs\""));
}

/* However a batch ended: nothing of it is left. */
static int everything_is_back(void **state)
{
    (void)state;
    bool back = gauge("duetime_api_batch_rows") == 0 && gauge("duetime_api_batches_waiting") == 0 &&
                gauge("duetime_api_batches") == 0 && dt_budget_held(&memory) == 0;
    dt_gate_free(api.job_gate);
    dt_strbuf_clear(&detached_text);
    return back ? 0 : -1;
}

static void request_init(struct dt_request *req)
{
    *req = (struct dt_request){.api = &api, .deadline_us = NEVER};
    dt_hold_init(&req->hold, &memory);
    dt_strbuf_init(&req->out);
    dt_arena_init(&req->arena);
}

static void request_clear(struct dt_request *req)
{
    dt_hold_end(&req->hold);
    dt_strbuf_clear(&req->out);
    dt_arena_clear(&req->arena);
}

static const char fine[] = "{\"topic\":\"t\",\"delay\":5}";

static void add(dt_batch *batch, const char *text)
{
    assert_true(dt_batch_room(batch));
    dt_batch_add(batch, dt_str(text), true);
}

/* Fills the batch until there is no more room; how many elements that took. */
static unsigned fill(dt_batch *batch)
{
    unsigned n = 0;
    for (; dt_batch_room(batch); n++)
        dt_batch_add(batch, dt_str(fine), true);
    return n;
}

static unsigned count(const char *text, const char *word)
{
    unsigned n = 0;
    for (const char *p = text; (p = strstr(p, word)) != NULL; p++)
        n++;
    return n;
}

/* ---- tests ---- */

static void results_stand_in_the_order_of_elements(void **state)
{
    (void)state;
    struct dt_request req;
    request_init(&req);
    dt_batch *batch = dt_batch_new(&req, &dt_batch_of_jobs, false);
    for (unsigned i = 0; i < 2 * ROWS; i++)
        add(batch, fine);
    assert_true(dt_batch_flush(batch));
    assert_int_equal(n_units, 2);
    give_back(1, DT_OK); /* the second chunk is faster */
    give_back(0, DT_OK);
    dt_batch_answer(batch);
    assert_int_equal(req.status, 200);
    assert_string_equal(req.reply_type, "application/x-ndjson");
    const char *p = req.out.p;
    for (unsigned i = 0; i < 2 * ROWS; i++) {
        char line[64];
        snprintf(line, sizeof(line), "{\"status\":201,\"id\":\"%u\"}\n", i < ROWS ? 111 + i : 101 + i - ROWS);
        assert_memory_equal(p, line, strlen(line));
        p += strlen(line);
    }
    assert_int_equal(*p, '\0');
    dt_batch_release(batch);
    request_clear(&req);
}

static void refused_elements_keep_their_place_and_make_no_job(void **state)
{
    (void)state;
    struct dt_request req;
    request_init(&req);
    dt_batch *batch = dt_batch_new(&req, &dt_batch_of_jobs, true);
    add(batch, "{\"topic\":");
    add(batch, fine);
    add(batch, "{\"topic\":\"t\"}");
    add(batch, "{\"topic\":\"hidden\",\"delay\":1}");
    add(batch, "");
    dt_batch_refuse(batch, DT_PROBLEM_TOO_LARGE, "too long");
    assert_true(dt_batch_flush(batch));
    assert_int_equal(n_units, 1);
    assert_int_equal(units[0]->n, 1);
    give_back(0, DT_OK);
    dt_batch_answer(batch);
    dt_json *json;
    assert_int_equal(dt_json_new(&json), DT_OK);
    assert_int_equal(dt_json_parse(json, dt_strbuf_str(&req.out), &(struct dt_json_limits){0}, NULL), DT_OK);
    static const int statuses[] = {400, 201, 422, 404, 400, 413};
    const struct dt_json_node *root = dt_json_root(json), *e = dt_json_first(json, root);
    assert_int_equal(root->n, 6);
    for (int i = 0; i < 6; i++, e = dt_json_sibling(json, root, e))
        assert_int_equal(dt_json_member(json, e, "status")->i, statuses[i]);
    dt_json_free(json);
    dt_batch_release(batch);
    request_clear(&req);
}

static void a_refusal_says_what_is_wrong_and_in_which_line(void **state)
{
    (void)state;
    struct dt_request req;
    request_init(&req);
    dt_batch *batch = dt_batch_new(&req, &dt_batch_of_jobs, false);
    add(batch, "{");
    dt_batch_refuse(batch, DT_PROBLEM_TOO_LARGE, "too long");
    add(batch, "{\"topic\":\"t\"}");
    add(batch, "[");
    assert_true(dt_batch_flush(batch));
    dt_batch_answer(batch);
    assert_int_equal(count(req.out.p, "\n"), 4);
    assert_int_equal(count(req.out.p, "\"detail\":\"line 1: "), 1);
    assert_int_equal(count(req.out.p, "\"detail\":\"too long; no job was made\""), 1);
    assert_int_equal(count(req.out.p, "\"detail\":\"see errors for each member that is wrong\""), 1);
    assert_int_equal(count(req.out.p, "\"detail\":\"line 4: "), 1);
    dt_batch_release(batch);
    request_clear(&req);
}

static void a_batch_of_refusals_needs_no_committer(void **state)
{
    (void)state;
    struct dt_request req;
    request_init(&req);
    dt_batch *batch = dt_batch_new(&req, &dt_batch_of_jobs, true);
    for (unsigned i = 0; i < 3 * ROWS; i++)
        add(batch, "no");
    assert_true(dt_batch_flush(batch));
    assert_false(dt_batch_suspend(batch, true));
    dt_batch_answer(batch);
    assert_int_equal(n_units, 0);
    assert_int_equal(count(req.out.p, "\"status\":400"), 3 * ROWS);
    dt_batch_release(batch);
    request_clear(&req);
}

static void an_empty_batch_is_an_empty_answer(void **state)
{
    (void)state;
    for (int array = 0; array < 2; array++) {
        struct dt_request req;
        request_init(&req);
        dt_batch *batch = dt_batch_new(&req, &dt_batch_of_jobs, array == 1);
        assert_true(dt_batch_flush(batch));
        dt_batch_answer(batch);
        assert_string_equal(req.out.p ? req.out.p : "", array ? "[]" : "");
        dt_batch_release(batch);
        request_clear(&req);
    }
}

static void outcomes_become_results(void **state)
{
    (void)state;
    static const struct {
        dt_status status;
        enum dt_insert_outcome outcome;
        const char *result;
    } cases[] = {{DT_OK, DT_INSERT_SAME, "{\"status\":200,\"id\":\"77\"}"},
                 {DT_OK, DT_INSERT_CONFLICT, "\"status\":409"},
                 {DT_OK, DT_INSERT_NO_TOPIC, "\"status\":422"},
                 {DT_FULL, DT_INSERT_CREATED, "/problems/unavailable"},
                 {DT_UNKNOWN, DT_INSERT_CREATED, "/problems/outcome-unknown"},
                 {DT_CORRUPT, DT_INSERT_CREATED, "/problems/internal"}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct dt_request req;
        assert_int_equal(everything_is_back(NULL), 0);
        make(NULL);
        request_init(&req);
        dt_batch *batch = dt_batch_new(&req, &dt_batch_of_jobs, false);
        add(batch, fine);
        assert_true(dt_batch_flush(batch));
        outcome = cases[i].outcome;
        give_back(0, cases[i].status);
        dt_batch_answer(batch);
        if (!strstr(req.out.p, cases[i].result))
            fail_msg("%s is not in %s", cases[i].result, req.out.p);
        assert_int_equal(count(req.out.p, "\n"), 1);
        dt_batch_release(batch);
        request_clear(&req);
    }
}

static void at_most_four_chunks_of_a_batch_are_under_way(void **state)
{
    (void)state;
    struct dt_request req;
    request_init(&req);
    config.api_queue_jobs = 1000;
    dt_batch *batch = dt_batch_new(&req, &dt_batch_of_jobs, false);
    assert_int_equal(fill(batch), (DT_BATCH_UNDER_WAY + 1) * ROWS); /* and one that waits, full */
    assert_int_equal(n_units, DT_BATCH_UNDER_WAY);
    assert_true(dt_batch_suspend(batch, false));
    assert_int_equal(suspended, 1);
    assert_int_equal(resumed, 0);
    give_back(2, DT_OK);
    assert_int_equal(resumed, 1);
    assert_int_equal(fill(batch), ROWS);
    for (size_t i = 0; i < n_units; i++)
        if (units[i])
            give_back(i, DT_OK);
    assert_true(dt_batch_flush(batch));
    assert_true(dt_batch_suspend(batch, true));
    give_back(n_units - 1, DT_OK);
    assert_int_equal(resumed, 2);
    dt_batch_answer(batch);
    assert_int_equal(count(req.out.p, "\"status\":201"), (DT_BATCH_UNDER_WAY + 2) * ROWS);
    dt_batch_release(batch);
    request_clear(&req);
}

static void batches_share_half_of_the_queue_and_wait_in_line(void **state)
{
    (void)state;
    struct dt_request req[3];
    dt_batch *batch[3];
    for (int i = 0; i < 3; i++) {
        request_init(&req[i]);
        batch[i] = dt_batch_new(&req[i], &dt_batch_of_jobs, false);
    }
    fill(batch[0]); /* four chunks: all that batches may have */
    assert_int_equal(n_units, 4);
    for (int i = 0; i < 3; i++) {
        fill(batch[i]);
        assert_true(dt_batch_suspend(batch[i], false));
    }
    give_back(0, DT_OK); /* room for one: the first in the queue, and no other */
    assert_int_equal(resumed, 1);
    assert_true(dt_batch_flush(batch[0]));
    give_back(1, DT_OK);
    assert_int_equal(resumed, 2);
    assert_true(dt_batch_flush(batch[1]));
    assert_int_equal(most_under_way, 4);
    for (size_t i = 0; i < n_units; i++)
        if (units[i])
            give_back(i, DT_OK);
    assert_int_equal(resumed, 3);
    assert_true(dt_batch_flush(batch[2]));
    give_back(n_units - 1, DT_OK);
    for (int i = 0; i < 3; i++) {
        dt_batch_answer(batch[i]);
        dt_batch_release(batch[i]);
        request_clear(&req[i]);
    }
}

static void a_batch_outlives_a_client_that_left_until_its_chunks_are_back(void **state)
{
    (void)state;
    struct dt_request req;
    request_init(&req);
    dt_batch *batch = dt_batch_new(&req, &dt_batch_of_jobs, false);
    fill(batch);
    assert_int_equal(n_units, 4);
    dt_batch_release(batch); /* the client left: nobody asks for the results */
    request_clear(&req);
    for (size_t i = 0; i < 4; i++)
        give_back(i, DT_OK);
    assert_int_equal(resumed, 0);
    /* the gate is open again */
    request_init(&req);
    batch = dt_batch_new(&req, &dt_batch_of_jobs, false);
    add(batch, fine);
    assert_true(dt_batch_flush(batch));
    give_back(4, DT_OK);
    dt_batch_release(batch);
    request_clear(&req);
}

static void elements_beyond_the_limit_are_refused_and_then_not_answered(void **state)
{
    (void)state;
    struct dt_request req;
    request_init(&req);
    config.limits_batch_lines = 3;
    dt_batch *batch = dt_batch_new(&req, &dt_batch_of_jobs, false);
    unsigned n = 0;
    for (; !dt_batch_over(batch); n++)
        add(batch, fine);
    assert_int_equal(n, 6);
    assert_true(dt_batch_flush(batch));
    assert_int_equal(units[0]->n, 3);
    give_back(0, DT_OK);
    dt_batch_answer(batch);
    assert_int_equal(count(req.out.p, "\"status\":201"), 3);
    assert_int_equal(count(req.out.p, "\"status\":413"), 3);
    dt_batch_release(batch);
    request_clear(&req);
}

static void chunks_that_share_a_key_are_committed_one_after_the_other(void **state)
{
    (void)state;
    struct dt_request req;
    request_init(&req);
    dt_batch *batch = dt_batch_new(&req, &dt_batch_of_jobs, false);
    for (unsigned i = 0; i < 2 * ROWS; i++) {
        char text[80];
        snprintf(text, sizeof(text), "{\"topic\":\"t\",\"delay\":5,\"key\":\"%u\"}", i);
        add(batch, text);
    }
    add(batch, "{\"topic\":\"t\",\"delay\":6,\"key\":\"3\"}");
    assert_int_equal(n_units, 2); /* no key is shared: both are under way */
    assert_false(dt_batch_flush(batch));
    assert_true(dt_batch_suspend(batch, false));
    give_back(1, DT_OK);
    assert_int_equal(resumed, 0);
    give_back(0, DT_OK);
    assert_int_equal(resumed, 1);
    assert_true(dt_batch_flush(batch));
    assert_int_equal(n_units, 3);
    give_back(2, DT_OK);
    dt_batch_answer(batch);
    assert_int_equal(count(req.out.p, "\"status\":201"), 2 * ROWS + 1);
    dt_batch_release(batch);
    request_clear(&req);
}

static void kept_elements_do_not_need_their_text_any_more(void **state)
{
    (void)state;
    struct dt_request req;
    char text[] = "{\"topic\":\"t\",\"key\":\"k\",\"delay\":5,\"payload\":[1,2,3],\"headers\":{\"a\":\"b\"}}";
    request_init(&req);
    dt_batch *batch = dt_batch_new(&req, &dt_batch_of_jobs, false);
    add(batch, text);
    memset(text, 'x', sizeof(text) - 1);
    assert_true(dt_batch_flush(batch));
    const struct dt_new_job *job = &units[0]->rows[0].row.job;
    assert_memory_equal(job->payload.p, "[1,2,3]", 7);
    assert_memory_equal(job->key.p, "k", 1);
    assert_memory_equal(job->headers.p, "{\"a\":\"b\"}", 9);
    give_back(0, DT_OK);
    dt_batch_release(batch);
    request_clear(&req);
}

/* ---- leaving ---- */

/* The first takes all the room there is, the others wait for it. */
static void make_line(struct dt_request *req, dt_batch **batch, int n)
{
    for (int i = 0; i < n; i++) {
        request_init(&req[i]);
        batch[i] = dt_batch_new(&req[i], &dt_batch_of_jobs, false);
        fill(batch[i]);
        assert_true(dt_batch_suspend(batch[i], false));
    }
    assert_int_equal(n_units, 4);
    assert_int_equal(resumed, 0);
}

static void give_all_back(void)
{
    for (size_t i = 0; i < n_units; i++)
        if (units[i])
            give_back(i, DT_OK);
}

static void answer_all(struct dt_request *req, dt_batch **batch, int n)
{
    for (int i = 0; i < n; i++) {
        if (!batch[i])
            continue;
        assert_true(dt_batch_flush(batch[i]));
        give_all_back();
        dt_batch_answer(batch[i]);
        assert_int_equal(req[i].status, 200);
        dt_batch_release(batch[i]);
        request_clear(&req[i]);
    }
}

static void a_batch_that_was_called_and_leaves_hands_its_place_on(void **state)
{
    (void)state;
    struct dt_request req[4];
    dt_batch *batch[4];
    make_line(req, batch, 4);
    give_back(0, DT_OK);
    assert_int_equal(resumed, 1); /* the first in the queue, which is batch 0 again */
    dt_batch_release(batch[0]);   /* and its client has gone */
    request_clear(&req[0]);
    batch[0] = NULL;
    assert_int_equal(resumed, 2);
    dt_batch_release(batch[1]);
    request_clear(&req[1]);
    batch[1] = NULL;
    assert_int_equal(resumed, 3);
    answer_all(req, batch, 4);
    assert_int_equal(resumed, 4);
}

static void a_batch_whose_time_is_up_leaves_the_line_and_answers_for_what_it_made(void **state)
{
    (void)state;
    struct dt_request req[3];
    dt_batch *batch[3];
    make_line(req, batch, 3);
    give_back(0, DT_OK);
    give_back(1, DT_OK);
    assert_int_equal(resumed, 2);
    assert_true(dt_batch_flush(batch[1]));
    fill(batch[1]);
    assert_true(dt_batch_suspend(batch[1], false));
    dt_gate_expire(api.job_gate, NEVER - 1);
    assert_int_equal(resumed, 2);
    dt_gate_expire(api.job_gate, NEVER); /* everybody's time is up */
    assert_int_equal(resumed, 4);
    for (int i = 0; i < 3; i++)
        dt_batch_end(batch[i], DT_BATCH_LATE); /* as dt_batch_look does by the clock */
    assert_true(dt_batch_room(batch[2]));
    dt_batch_add(batch[2], dt_str(fine), true);
    assert_int_equal(count(req[2].out.p ? req[2].out.p : "", "201"), 0);
    size_t made = n_units;
    answer_all(req, batch, 1);
    batch[0] = NULL;
    answer_all(req, batch, 2);
    batch[1] = NULL;
    assert_int_equal(n_units, made); /* nothing was begun after the end */
    assert_true(dt_batch_flush(batch[2]));
    dt_batch_answer(batch[2]);
    assert_int_equal(req[2].status, 200);
    assert_int_equal(count(req[2].out.p, "\n"), ROWS + 1);
    assert_int_equal(count(req[2].out.p, "\"status\":408"), ROWS + 1);
    assert_int_equal(count(req[2].out.p, "no job was made"), ROWS + 1);
    dt_batch_release(batch[2]);
    request_clear(&req[2]);
}

static void the_end_of_the_server_calls_everybody_in_line(void **state)
{
    (void)state;
    struct dt_request req[3];
    dt_batch *batch[3];
    make_line(req, batch, 3);
    dt_gate_close(api.job_gate);
    assert_int_equal(resumed, 3);
    for (int i = 0; i < 3; i++) {
        assert_true(dt_batch_look(batch[i]));
        assert_false(dt_batch_suspend(batch[i], false));
    }
    give_all_back();
    for (int i = 0; i < 3; i++) {
        assert_true(dt_batch_flush(batch[i]));
        dt_batch_answer(batch[i]);
        assert_int_equal(count(req[i].out.p, "\"status\":201"), i == 0 ? 4 * ROWS : 0);
        assert_int_equal(count(req[i].out.p, "\"status\":503"), ROWS);
        dt_batch_release(batch[i]);
        request_clear(&req[i]);
    }
    assert_int_equal(n_units, 4);
}

static void chunks_that_never_come_back_are_told_as_unknown(void **state)
{
    (void)state;
    struct dt_request req;
    request_init(&req);
    dt_batch *batch = dt_batch_new(&req, &dt_batch_of_jobs, false);
    add(batch, "no");
    for (unsigned i = 0; i < 2 * ROWS; i++)
        add(batch, fine);
    assert_true(dt_batch_flush(batch));
    assert_int_equal(n_units, 3);
    give_back(1, DT_OK);
    assert_true(dt_batch_suspend(batch, true));
    dt_gate_expire(api.job_gate, NEVER + DT_GATE_GRACE_US - 1);
    assert_int_equal(resumed, 0);
    dt_gate_expire(api.job_gate, NEVER + DT_GATE_GRACE_US);
    assert_int_equal(resumed, 1);
    dt_batch_answer(batch);
    assert_int_equal(req.status, 200);
    assert_int_equal(count(req.out.p, "\n"), 2 * ROWS + 1);
    assert_int_equal(count(req.out.p, "\"status\":201"), ROWS);
    assert_int_equal(count(req.out.p, "\"status\":400"), 1);
    assert_int_equal(count(req.out.p, "/problems/outcome-unknown"), ROWS);
    dt_batch_release(batch);
    request_clear(&req);
    give_all_back();
}

static void a_body_that_breaks_off_is_answered_when_all_chunks_are_back(void **state)
{
    (void)state;
    struct dt_request req;
    request_init(&req);
    dt_batch *batch = dt_batch_new(&req, &dt_batch_of_jobs, false);
    for (unsigned i = 0; i < ROWS + 3; i++)
        add(batch, fine);
    assert_int_equal(n_units, 1);
    dt_batch_end(batch, DT_BATCH_LATE);
    dt_batch_detach(batch);
    dt_batch_release(batch); /* the request is over */
    request_clear(&req);
    assert_int_equal(detached_status, 0);
    give_back(0, DT_OK);
    run_slice();
    assert_int_equal(detached_status, 200);
    assert_int_equal(count(detached_text.p, "\"status\":201"), ROWS);
    assert_int_equal(count(detached_text.p, "\"status\":408"), 3 + 1);
    assert_int_equal(count(detached_text.p, "no job was made from here on"), 1);
    assert_int_equal(count(detached_text.p, "\n"), ROWS + 4);
    assert_int_equal(resumed, 0);
}

static void a_batch_ends_early_when_memory_is_scarce_and_says_so(void **state)
{
    (void)state;
    struct dt_request req;
    struct dt_hold others;
    dt_hold_init(&others, &memory);
    assert_true(dt_hold_more(&others, MEMORY - ((size_t)64 << 10)));
    request_init(&req);
    config.api_queue_jobs = 100000;
    dt_batch *batch = dt_batch_new(&req, &dt_batch_of_jobs, false);
    char text[4100];
    snprintf(text, sizeof(text), "{\"topic\":\"t\",\"delay\":5,\"payload\":\"%04000d\"}", 0);
    for (unsigned n = 0; n < 4 * ROWS && !dt_batch_over(batch); n++) /* they are not given back */
        add(batch, text);
    assert_true(dt_batch_over(batch));
    dt_batch_remainder(batch);
    assert_true(dt_batch_flush(batch));
    give_all_back();
    dt_batch_answer(batch);
    assert_int_equal(req.status, 200);
    assert_true(count(req.out.p, "\"status\":201") > 0);
    assert_int_equal(count(req.out.p, "no job was made from here on"), 1);
    assert_true(dt_budget_held(&memory) <= MEMORY);
    dt_batch_release(batch);
    request_clear(&req);
    dt_hold_end(&others);
}

static void two_hundred_kilobytes_of_line_feeds_make_no_answer_of_many_megabytes(void **state)
{
    (void)state;
    struct dt_request req;
    request_init(&req);
    config.limits_batch_lines = 100000;
    dt_batch *batch = dt_batch_new(&req, &dt_batch_of_jobs, false);
    unsigned n = 0;
    for (; n < 200000 && !dt_batch_over(batch); n++)
        add(batch, "");
    assert_true(n < 20000);
    dt_batch_remainder(batch);
    assert_true(dt_batch_flush(batch));
    dt_batch_answer(batch);
    assert_true(req.out.n < 2000000);
    assert_int_equal(count(req.out.p, "\n"), n + 1);
    assert_int_equal(count(req.out.p, "\"status\":413"), 1);
    dt_batch_release(batch);
    request_clear(&req);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make, everything_is_back)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(results_stand_in_the_order_of_elements),
        TEST(refused_elements_keep_their_place_and_make_no_job),
        TEST(a_refusal_says_what_is_wrong_and_in_which_line),
        TEST(a_batch_of_refusals_needs_no_committer),
        TEST(an_empty_batch_is_an_empty_answer),
        TEST(outcomes_become_results),
        TEST(at_most_four_chunks_of_a_batch_are_under_way),
        TEST(batches_share_half_of_the_queue_and_wait_in_line),
        TEST(a_batch_outlives_a_client_that_left_until_its_chunks_are_back),
        TEST(elements_beyond_the_limit_are_refused_and_then_not_answered),
        TEST(chunks_that_share_a_key_are_committed_one_after_the_other),
        TEST(kept_elements_do_not_need_their_text_any_more),
        TEST(a_batch_that_was_called_and_leaves_hands_its_place_on),
        TEST(a_batch_whose_time_is_up_leaves_the_line_and_answers_for_what_it_made),
        TEST(the_end_of_the_server_calls_everybody_in_line),
        TEST(chunks_that_never_come_back_are_told_as_unknown),
        TEST(a_body_that_breaks_off_is_answered_when_all_chunks_are_back),
        TEST(a_batch_ends_early_when_memory_is_scarce_and_says_so),
        TEST(two_hundred_kilobytes_of_line_feeds_make_no_answer_of_many_megabytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
