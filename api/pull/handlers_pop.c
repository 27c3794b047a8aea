/*
 * POST /v1/topics/{topic}/pop and POST /v1/pop: decoded on the HTTP thread, carried out by a worker. A pop that finds
 * nothing, and may wait, goes to the waiting room with its connection; so does one for which others wait already,
 * without looking: they come first.
 */
#include "answer.h"
#include "api.h"
#include "handlers.h"
#include "pop_room.h"
#include "pop_take.h"
#include "pop_wish.h"
#include "request/request.h"
#include "request/workers.h"

struct popping {
    struct dt_pop_wish wish;
    uint64_t heard; /* of offers, before it was looked for them */
};

static enum dt_next answer(struct dt_request *req, const struct dt_job *jobs, size_t n)
{
    req->status = 200;
    dt_strbuf_reset(&req->out);
    dt_pop_add(&req->out, jobs, n);
    return DT_REPLY;
}

/* On the HTTP thread: to the waiting room; where that takes nobody, the answer is that there is nothing. */
static enum dt_next go_and_wait(struct dt_request *req)
{
    const struct popping *p = req->state;
    return dt_pop_room_enter(req->api->pops, req, &p->wish, p->heard) ? DT_AWAY : answer(req, NULL, 0);
}

/* ---- on a worker ---- */

static enum dt_next pop_now(struct dt_request *req, dt_store *store)
{
    struct popping *p = req->state;
    const struct dt_pop_wish *wish = &p->wish;
    struct dt_pop_taker taker = {.max = (size_t)wish->max, .ttr_ms = wish->ttr_ms};
    struct dt_popped popped;
    struct dt_error err = {0};
    const size_t bytes = dt_pop_hold(req, (size_t)wish->max, DT_POP_BYTES);
    if (bytes == 0)
        return dt_request_no_room(req);
    p->heard = dt_pop_room_heard(req->api->pops, wish);
    dt_status status = dt_pop_take(req->api, store, wish, &taker, 1, bytes, &req->arena, &popped, &err);
    if (status != DT_OK && popped.n == 0)
        return dt_answer_status(req, status, NULL, &err);
    if (popped.refused.p && popped.why == DT_POP_TOPIC_UNKNOWN)
        return dt_answer_not_found(req, "topic");
    if (popped.refused.p) {
        dt_request_refuse(req, DT_PROBLEM_NOT_PULL, "the delivery of %.*s is another one: nothing is popped from it",
                          (int)popped.refused.n, popped.refused.p);
        return DT_REPLY;
    }
    if (popped.n || wish->wait_ms == 0)
        return answer(req, popped.jobs, popped.n);
    req->then = go_and_wait;
    return DT_REPLY;
}

/* ---- on an HTTP thread ---- */

enum dt_next dt_handle_pop(struct dt_request *req)
{
    struct dt_job_rules rules = dt_answer_rules(req->api, NULL);
    struct dt_faults faults;
    struct popping *p = dt_answer_state(req, sizeof(*p));
    if (!p)
        return DT_REPLY;
    dt_faults_init(&faults, &req->arena);
    dt_json *json = req->body.n ? dt_answer_parse(req, &rules, &faults) : NULL;
    if (req->body.n && !json)
        return DT_REPLY;
    dt_status status = dt_pop_wish_decode(json, req->params[0], &faults, &p->wish);
    if (status != DT_OK)
        return dt_answer_faults(req, status, &faults);
    /* Topics that the token does not reach are answered as if they did not exist. */
    for (size_t i = 0; i < p->wish.n_topics; i++)
        if (dt_wall_found(req, p->wish.topics[i]) != DT_OK)
            return dt_answer_not_found(req, "topic");
    p->heard = dt_pop_room_heard(req->api->pops, &p->wish);
    if (p->wish.wait_ms && dt_pop_room_awaits(req->api->pops, &p->wish))
        return go_and_wait(req);
    return dt_workers_submit(req->api->workers, req, pop_now);
}
