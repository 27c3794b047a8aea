/* GET /v1/overview. */
#include "answer.h"
#include "handlers.h"
#include "overview/overview.h"
#include "work/workers.h"

#define ANSWER_BYTES ((size_t)512 << 10) /* a hundred topics, and shards and processes with their words */

static enum dt_next answer_overview(struct dt_request *req, dt_store *store)
{
    struct dt_error err = {0};
    if (!dt_request_hold(req, ANSWER_BYTES))
        return dt_request_no_room(req);
    dt_strbuf_reset(&req->out);
    dt_status status = dt_overview_answer(req->api->overview, store, &req->out, &err);
    if (status != DT_OK)
        return dt_answer_status(req, status, NULL, &err);
    req->status = 200;
    return DT_REPLY;
}

enum dt_next dt_handle_overview(struct dt_request *req)
{
    return dt_workers_submit(req->api->workers, req, answer_overview);
}
