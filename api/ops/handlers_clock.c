/*
 * The test clock over REST: how it stands, and its changes (scheduler/store/clock/test_clock.h carries them out).
 * An installation that was made without one refuses both. An advance keeps one worker for as long as it takes, some
 * fifteen seconds at most: what is left then is for another request.
 */
#include "answer.h"
#include "api.h"
#include "base/json.h"
#include "base/text/timetext.h"
#include "handlers.h"
#include "store/clock/test_clock.h"
#include "work/workers.h"

#define WAIT_MS      500
#define WAIT_MOST_MS 10000

enum change { NONE, ADVANCE, FREEZE, RELEASE };

struct ask {
    enum change change;
    bool waits; /* how long was given */
    struct dt_clock_walk walk;
};

/* ---- on a worker ---- */

static void add_time(struct dt_strbuf *out, const char *name, int64_t ms)
{
    char text[25];
    dt_time_format(ms, text);
    dt_strbuf_addf(out, "\"%s\":\"%s\",", name, text);
}

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
    return dt_store_test_clock(store, 0, 0, clock, err);
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
    dt_strbuf_addc(&req->out, '{');
    add_time(&req->out, "now", dt_test_clock_now_ms(&clock));
    add_time(&req->out, "real", clock.real_ms);
    dt_strbuf_addf(&req->out, "\"frozen\":%s", clock.time.frozen_ms ? "true" : "false");
    if (ask->change == ADVANCE) {
        dt_strbuf_addf(&req->out, ",\"steps\":%u,\"dispatched\":%s,\"left\":\"", ask->walk.steps,
                       ask->walk.whole ? "true" : "false");
        dt_duration_add_iso(&req->out, ask->walk.left_ms);
        dt_strbuf_addc(&req->out, '"');
    }
    dt_strbuf_addc(&req->out, '}');
    return DT_REPLY;
}

/* ---- on an HTTP thread ---- */

static void choose(struct ask *ask, enum change change, struct dt_faults *faults)
{
    if (ask->change != NONE)
        dt_faults_add(faults, "", "has either advance or freeze");
    ask->change = change;
}

static void read_member(const struct dt_json_node *m, struct dt_faults *faults, struct ask *ask)
{
    const char *reason = NULL;
    if (dt_str_is(m->name, "advance")) {
        reason = dt_duration_decode(m, &ask->walk.by_ms);
        if (!reason && ask->walk.by_ms == 0)
            reason = "must be longer than 0";
        if (reason)
            dt_faults_add(faults, "/advance", reason);
        choose(ask, ADVANCE, faults);
    } else if (dt_str_is(m->name, "freeze")) {
        if (m->type != DT_JSON_BOOL)
            dt_faults_add(faults, "/freeze", "must be true or false");
        choose(ask, m->type == DT_JSON_BOOL && m->b ? FREEZE : RELEASE, faults);
    } else if (dt_str_is(m->name, "wait")) {
        reason = dt_duration_decode(m, &ask->walk.wait_ms);
        if (!reason && ask->walk.wait_ms > WAIT_MOST_MS)
            reason = "must be at most ten seconds";
        if (reason)
            dt_faults_add(faults, "/wait", reason);
        ask->waits = true;
    } else {
        dt_faults_add_member(faults, "", m->name, "is not known");
    }
}

static struct ask *new_ask(struct dt_request *req)
{
    struct ask *ask = dt_arena_alloc(&req->arena, sizeof(*ask));
    if (ask)
        *ask = (struct ask){.walk = {.wait_ms = WAIT_MS}};
    req->state = ask;
    return ask;
}

enum dt_next dt_handle_clock(struct dt_request *req)
{
    if (!req->api->config->installation_test_clock)
        return refuse(req);
    if (!new_ask(req))
        return dt_answer_status(req, DT_NOMEM, NULL, NULL);
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
        return dt_answer_status(req, DT_NOMEM, NULL, NULL);
    dt_json *json = dt_answer_parse(req, &rules, &faults);
    if (!json)
        return DT_REPLY;
    const struct dt_json_node *body = dt_json_root(json);
    const bool object = body->type == DT_JSON_OBJECT;
    if (!object)
        dt_faults_add(&faults, "", "must be an object");
    for (const struct dt_json_node *m = object ? dt_json_first(json, body) : NULL; m;
         m = dt_json_sibling(json, body, m))
        read_member(m, &faults, ask);
    if (object && ask->change == NONE)
        dt_faults_add(&faults, "", "needs advance, or freeze");
    if (ask->waits && ask->change != ADVANCE)
        dt_faults_add(&faults, "/wait", "goes with advance");
    if (faults.n > 0)
        return dt_answer_faults(req, faults.failed ? DT_NOMEM : DT_INVALID, &faults);
    return dt_workers_submit(req->api->workers, req, work);
}
