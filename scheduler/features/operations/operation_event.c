/* The events of operations themselves; those of their jobs are written with each piece. */
#include <stdio.h>

#include "base/text/json_write.h"
#include "events/event_txn.h"
#include "operation_parts.h"

static const char *const kinds[] = {[DT_OPERATION_CANCEL] = "cancel",
                                    [DT_OPERATION_RESCHEDULE] = "reschedule",
                                    [DT_OPERATION_REDRIVE] = "redrive",
                                    [DT_OPERATION_RUN_NOW] = "run_now",
                                    [DT_OPERATION_DELETE_TOPIC] = "delete_topic"};

dt_status dt_operation_event(dt_db *db, const struct dt_operation *op, struct dt_str actor, int64_t now_ms,
                             const char *action, struct dt_error *err)
{
    char number[24];
    struct dt_strbuf asked;
    int n = snprintf(number, sizeof(number), "%lld", (long long)op->id);
    struct dt_job_event event = {
        .at_ms = now_ms, .actor = actor, .action = dt_str(action), .subject = {number, (size_t)n}};
    if (!actor.p)
        return DT_OK;
    dt_strbuf_init(&asked);
    if (op->request.p) {
        dt_json_begin_object(&asked, NULL);
        dt_json_put_word(&asked, "kind", kinds[op->kind]);
        dt_json_put_raw(&asked, "filter", op->request);
        dt_json_end_object(&asked);
        event.after = dt_strbuf_str(&asked);
        event.topic = dt_str_eq(op->topic_from, op->topic_to) && op->topic_from.n ? op->topic_from : DT_STR_NONE;
    }
    dt_status status = asked.failed ? dt_fail(err, DT_NOMEM, "out of memory") : dt_events_write(db, &event, 1, err);
    dt_strbuf_clear(&asked);
    return status;
}
