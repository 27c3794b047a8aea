/*
 * The test clock over REST: how it stands, and its changes (scheduler/features/clock/clock.h carries them out).
 * An installation that was made without one refuses both. An advance keeps one worker for as long as it takes, some
 * fifteen seconds at most: what is left then is for another request.
 */
#include "answer.h"
#include "api.h"
#include "base/text/json.h"
#include "base/text/json_table.h"
#include "base/text/timetext.h"
#include "features/clock/clock.h"
#include "handlers.h"
#include "request/workers.h"

#define WAIT_MS      500
#define WAIT_MOST_MS 10000

enum change { NONE, ADVANCE, FREEZE, RELEASE };

struct ask {
    enum change change;
    bool waits; /* how long was given */
    struct dt_clock_walk walk;
};

/* ---- on a worker ---- */

static dt_status carry_out(struct ask *ask, dt_store *store, struct dt_test_clock *clock, struct dt_error *err)
{
    switch (ask->change) {
    case ADVANCE:
        return dt_store_test_clock_advance(store, &ask->walk, clock, err);
    case FREEZE:
        return dt_store_test_clock_freeze(store, clock, err);
    case RELEASE:
        return dt_store_test_clock_release(store, clock, err);
    case NONE:
        break;
    }
    return dt_store_test_clock(store, clock, err);
}

static enum dt_next refuse(struct dt_request *req)
{
    dt_request_refuse(req, DT_PROBLEM_NO_TEST_CLOCK,
                      "this installation was not made with installation.test_clock: its jobs have real time");
    return DT_REPLY;
}

static enum dt_next work(struct dt_request *req, dt_store *store)
{
    struct ask *ask = req->state;
    struct dt_strbuf *out = &req->out;
    struct dt_test_clock clock;
    struct dt_error err = {0};
    dt_status status = carry_out(ask, store, &clock, &err);
    if (status == DT_UNSUPPORTED || (status == DT_OK && clock.version == 0))
        return refuse(req);
    if (status == DT_INVALID || status == DT_BUSY) {
        dt_request_refuse(req, status == DT_BUSY ? DT_PROBLEM_UNAVAILABLE : DT_PROBLEM_INVALID, "%s", err.text);
        return DT_REPLY;
    }
    if (status != DT_OK)
        return dt_answer_status(req, status, NULL, &err);
    /* What is asked of this process next has the new time; the others hear of it in a moment. */
    dt_refclock_follow(req->api->ref, clock.time, clock.real_ms, clock.asked_us, clock.heard_us);
    req->status = 200;
    dt_json_begin_object(out, NULL);
    dt_json_put_time(out, "now", dt_test_clock_now_ms(&clock));
    dt_json_put_time(out, "real", clock.real_ms);
    dt_json_put_bool(out, "frozen", clock.time.frozen_ms);
    if (ask->change == ADVANCE) {
        dt_json_put_int(out, "steps", ask->walk.steps);
        dt_json_put_bool(out, "dispatched", ask->walk.whole);
        dt_json_put_duration(out, "left", ask->walk.left_ms);
    }
    dt_json_end_object(out);
    return DT_REPLY;
}

/* ---- on an HTTP thread ---- */

static void choose(struct dt_json_reader *r, enum change change)
{
    struct ask *ask = r->out;
    if (ask->change != NONE)
        dt_faults_add(r->faults, "", "has either advance or freeze");
    ask->change = change;
}

static void read_advance(struct dt_json_reader *r, const struct dt_json_field *field, const struct dt_json_node *node)
{
    dt_json_read_value(r, field, node);
    choose(r, ADVANCE);
}

static void read_freeze(struct dt_json_reader *r, const struct dt_json_field *field, const struct dt_json_node *node)
{
    if (node->type != DT_JSON_BOOL)
        dt_json_fault(r, field, "must be true or false");
    choose(r, node->type == DT_JSON_BOOL && node->b ? FREEZE : RELEASE);
}

static const struct dt_json_field fields[] = {
    DT_FIELD("advance", DURATION, struct ask, walk.by_ms, .read = read_advance, .min = 1, .reason = DT_REASON_NOT_ZERO),
    DT_FIELD_BY("freeze", read_freeze),
    DT_FIELD("wait", DURATION, struct ask, walk.wait_ms, .has = offsetof(struct ask, waits), .max = WAIT_MOST_MS,
             .reason = "must be at most ten seconds"),
};
static const struct dt_json_table table = DT_TABLE(fields, .unknown = DT_REASON_UNKNOWN);

static struct ask *new_ask(struct dt_request *req)
{
    struct ask *ask = dt_answer_state(req, sizeof(*ask));
    if (ask)
        ask->walk.wait_ms = WAIT_MS;
    return ask;
}

enum dt_next dt_handle_clock(struct dt_request *req)
{
    if (!req->api->config->installation_test_clock)
        return refuse(req);
    if (!new_ask(req))
        return DT_REPLY;
    return dt_workers_submit(req->api->workers, req, work);
}

enum dt_next dt_handle_clock_set(struct dt_request *req)
{
    const struct dt_job_rules rules = dt_answer_rules(req->api, NULL);
    struct dt_faults faults;
    if (!req->api->config->installation_test_clock)
        return refuse(req);
    struct ask *ask = new_ask(req);
    if (!ask)
        return DT_REPLY;
    dt_json *json = dt_answer_parse(req, &rules, &faults);
    if (!json)
        return DT_REPLY;
    struct dt_json_reader r = {.json = json, .faults = &faults, .out = ask};
    if (dt_json_read(&r, &table, dt_json_root(json)) && ask->change == NONE)
        dt_faults_add(&faults, "", "needs advance, or freeze");
    if (ask->waits && ask->change != ADVANCE)
        dt_faults_add(&faults, "/wait", "goes with advance");
    if (dt_faults_status(&faults) != DT_OK)
        return dt_answer_faults(req, dt_faults_status(&faults), &faults);
    return dt_workers_submit(req->api->workers, req, work);
}
