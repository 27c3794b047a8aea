/* The set-up of the suites of batches. The committer and the HTTP server are stood in for: units gather until a test
 * gives them back, in any order. Everything is static, or in the place of a function of the product: a suite includes
 * this once. */
#pragma once

#include "support/suite.h"

#include "intake/batch.h"
#include "intake/batch_gate.h"
#include "intake/committer.h"
#include "job/change/jobs.h"
#include "request/auth.h"
#include "request/request.h"
#include "request/topic_cache.h"
#include "request/workers.h"

#define ROWS  10u /* of a unit */
#define QUEUE 80  /* of the committer: batches may have half of it, four units */

static struct dt_unit *units[64];
static size_t n_units, most_under_way, under_way;
static int64_t next_id;
static unsigned suspended, resumed;
static enum dt_insert_outcome outcome;

void dt_committer_submit(dt_committer *, struct dt_unit *unit)
{
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

STUB(struct dt_view *, dt_topic_cache_view, (dt_topic_cache * cache), NULL)

void dt_view_release(struct dt_view *view)
{
    assert_null(view);
}

void dt_caller_copy(const struct dt_caller *caller, struct dt_caller *out)
{
    *out = *caller;
}

STUB(void, dt_caller_clear, (struct dt_caller * caller), )

void dt_request_suspend(struct dt_request *)
{
    suspended++;
}

STUB(void, dt_request_trim, (struct dt_request * req), )

void dt_request_resume(struct dt_request *)
{
    resumed++;
}

static int64_t rest_us, refused_elements; /* of a token: for how long its next batch rests, and what was told of */

int64_t dt_tenant_refused_elements(dt_tenant *tenant, size_t elements)
{
    if (!tenant || elements == 0)
        return 0;
    refused_elements += (int64_t)elements;
    return rest_us ? dt_clock_mono_us(dt_clock_system()) + rest_us : 0;
}

int64_t dt_tenant_rests_until(dt_tenant *tenant)
{
    return tenant && rest_us ? dt_clock_mono_us(dt_clock_system()) + rest_us : 0;
}

static int places_left; /* of a token */

bool dt_tenant_take_place(dt_tenant *)
{
    return places_left > 0 && places_left--;
}

void dt_tenant_give_place(dt_tenant *)
{
    places_left++;
}

static struct dt_strbuf detached_text; /* what was answered past the HTTP server */
static int detached_status;

struct dt_detached {
    int unused;
};

dt_detached *dt_request_detach(struct dt_request *)
{
    static dt_detached detached;
    return &detached;
}

void dt_detached_answer(dt_detached *, int status, const char *type, struct dt_strbuf *body, struct dt_hold *hold)
{
    assert_string_equal(type, "application/x-ndjson");
    detached_status = status;
    detached_text = *body;
    *body = (struct dt_strbuf){0};
    dt_hold_less(hold, DT_HOLD_ALL);
}

static struct dt_slice *queued;

bool dt_workers_slice(dt_workers *, struct dt_slice *slice)
{
    queued = slice;
    return true;
}

/* The unit comes back, its rows made (ids in the order of coming back) or with `outcome`. */
static inline void give_back(size_t i, dt_status status)
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

#define MEMORY ((size_t)64 << 20)
#define NEVER  (INT64_MAX / 2)

static struct dt_config config;
static dt_refclock ref;
static struct dt_budget memory;
static struct dt_api api;

/* One with that much room, instead of the one that is there. */
static inline void use_gate(const struct dt_gate_bounds *bounds)
{
    dt_gate_free(api.job_gate);
    assert_int_equal(dt_gate_new("jobs", bounds, &api.job_gate), DT_OK);
}

static inline void make(void)
{
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
    api = (struct dt_api){.config = &config, .ref = &ref, .clock = dt_clock_system(), .memory = &memory};
    use_gate(&(struct dt_gate_bounds){.chunk_rows = ROWS, .rows = QUEUE / 2});
    detached_status = 0;
    detached_text = (struct dt_strbuf){0};
    memset(units, 0, sizeof(units));
    n_units = most_under_way = under_way = 0;
    suspended = resumed = 0;
    rest_us = refused_elements = 0;
    places_left = 1;
    next_id = 100;
    outcome = DT_INSERT_CREATED;
}

static inline double gauge(const char *name)
{
    return dt_metric_value(dt_gauge(name, "", "of=\"jobs\""));
}

/* However a batch ended: nothing of it is left. */
static inline void everything_is_back(void)
{
    bool back = gauge("duetime_api_batch_rows") == 0 && gauge("duetime_api_batches_waiting") == 0 &&
                gauge("duetime_api_batches") == 0 && dt_budget_held(&memory) == 0;
    dt_gate_free(api.job_gate);
    dt_strbuf_clear(&detached_text);
    assert_true(back);
}

/* Its caller sees the topic "t", and no topic "hidden". */
static inline void request_init(struct dt_request *req)
{
    static const struct dt_str seen = DT_STR_LIT("t");
    static const struct dt_route route = {.wall = DT_WALL_IN_BODY};
    *req = (struct dt_request){.api = &api, .route = &route, .deadline_us = NEVER, .caller.topics = {&seen, 1}};
    dt_hold_init(&req->hold, &memory);
}

static inline void request_clear(struct dt_request *req)
{
    dt_hold_less(&req->hold, DT_HOLD_ALL);
    dt_strbuf_clear(&req->out);
    dt_strbuf_clear(&req->headers);
    dt_arena_clear(&req->arena);
}

static const char fine[] = "{\"topic\":\"t\",\"delay\":5}";

static inline void add(dt_batch *batch, const char *text)
{
    assert_true(dt_batch_room(batch));
    dt_batch_add(batch, dt_str(text), true);
}

/* Fills the batch until there is no more room; how many elements that took. */
static inline unsigned fill(dt_batch *batch)
{
    unsigned n = 0;
    for (; dt_batch_room(batch); n++)
        dt_batch_add(batch, dt_str(fine), true);
    return n;
}

static inline unsigned count(const char *text, const char *word)
{
    unsigned n = 0;
    for (const char *p = text; (p = strstr(p, word)) != NULL; p++)
        n++;
    return n;
}

#define RIG_TEST(name) TEST_WITH(name, make, everything_is_back)
