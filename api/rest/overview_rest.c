/* GET /v1/overview, and /v1/dead-letters: which dead jobs are counted is read on the HTTP thread, with every fault. */
#include "answer.h"
#include "handlers.h"
#include "overview.h"
#include "request/request.h"
#include "request/workers.h"

#define ANSWER_BYTES ((size_t)512 << 10) /* a hundred topics, and shards and processes with their words */
#define DEAD_BYTES   ((size_t)1 << 20)   /* of groups that are read, and of groups that are answered */

enum dt_next dt_handle_overview(struct dt_request *req, dt_store *store)
{
    struct dt_error err = {0};
    if (!dt_hold_more(&req->hold, ANSWER_BYTES))
        return dt_request_no_room(req);
    dt_strbuf_reset(&req->out);
    dt_status status = dt_overview_answer(req->api->overview, store, &req->out, &err);
    if (status != DT_OK)
        return dt_answer_status(req, status, NULL, &err);
    req->status = 200;
    return DT_REPLY;
}

static enum dt_next answer_dead(struct dt_request *req, dt_store *store)
{
    struct dt_error err = {0};
    if (!dt_hold_more(&req->hold, DEAD_BYTES))
        return dt_request_no_room(req);
    dt_strbuf_reset(&req->out);
    dt_status status = dt_dead_answer(req->api->overview, store, req->state, &req->out, &err);
    if (status != DT_OK)
        return dt_answer_status(req, status, NULL, &err);
    req->status = 200;
    return DT_REPLY;
}

enum dt_next dt_handle_dead_letters(struct dt_request *req)
{
    struct dt_faults faults;
    struct dt_dead_ask *ask = dt_answer_state(req, sizeof(*ask));
    if (!ask || !dt_answer_clock(req))
        return DT_REPLY;
    dt_faults_init(&faults, &req->arena);
    *ask = (struct dt_dead_ask){.topic = dt_request_query(req, "topic"),
                                .failed = dt_answer_times(req, "failed_from", "failed_to", &faults),
                                .bound = dt_wall_bound(req)};
    const char *reason = ask->topic.p ? dt_topic_check(ask->topic, DT_STR_LIT("")) : NULL;
    if (reason)
        dt_faults_add_query(&faults, DT_STR_LIT("topic"), reason);
    if (faults.n > 0)
        return dt_answer_faults(req, DT_INVALID, &faults);
    return dt_workers_submit(req->api->workers, req, answer_dead);
}
