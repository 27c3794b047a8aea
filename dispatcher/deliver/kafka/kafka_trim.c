/*
 * Owns: deleting old records of a ledger partition: one request, a handle of its own, gone with the answer.
 * Refuses to know: which records are old enough, and what comes after.
 * Invariants: nobody waits here. The request is waited for on the thread that destroys the handle; whoever asked looks
 * now and then, or forgets it. One at a time a process: all shards become due on the same day, and the threads that
 * destroy handles are few.
 */
#include "kafka_ledger.h"

#include "kafka_common.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/assert.h"

static atomic_flag under_way = ATOMIC_FLAG_INIT;

enum { ANSWER_MS = 10000 };

struct dt_ledger_trim {
    pthread_mutex_t lock;
    unsigned users; /* the asker, and the thread that waits */
    bool done;
    dt_status status;
    struct dt_error error;

    /* the waiting thread's */
    rd_kafka_t *rk;
    rd_kafka_queue_t *queue;
    int32_t partition;
};

static void let_go(struct dt_ledger_trim *t)
{
    pthread_mutex_lock(&t->lock);
    dt_assert_cmp(t->users, >, 0);
    bool last = --t->users == 0;
    pthread_mutex_unlock(&t->lock);
    if (!last)
        return;
    pthread_mutex_destroy(&t->lock);
    free(t);
}

/* ---- the answer ---- */

static void await(void *arg)
{
    struct dt_ledger_trim *t = arg;
    struct dt_error error = {0};
    rd_kafka_event_t *event = rd_kafka_queue_poll(t->queue, ANSWER_MS + 1000);
    rd_kafka_resp_err_t code = RD_KAFKA_RESP_ERR__TIMED_OUT;
    if (event && rd_kafka_event_type(event) == RD_KAFKA_EVENT_DELETERECORDS_RESULT) {
        code = rd_kafka_event_error(event);
        const rd_kafka_DeleteRecords_result_t *result = rd_kafka_event_DeleteRecords_result(event);
        const rd_kafka_topic_partition_list_t *list = code ? NULL : rd_kafka_DeleteRecords_result_offsets(result);
        if (code == RD_KAFKA_RESP_ERR_NO_ERROR)
            code = RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART;
        for (int i = 0; list && i < list->cnt; i++)
            if (list->elems[i].partition == t->partition) {
                code = list->elems[i].err;
                break;
            }
    }
    dt_status status = code == RD_KAFKA_RESP_ERR_NO_ERROR ? DT_OK : dt_kafka_fail(&error, code, "trimming the ledger");
    if (event)
        rd_kafka_event_destroy(event);
    rd_kafka_queue_destroy(t->queue);
    pthread_mutex_lock(&t->lock);
    t->status = status;
    t->error = error;
    t->done = true;
    pthread_mutex_unlock(&t->lock);
}

static void waited(void *arg)
{
    atomic_flag_clear(&under_way);
    let_go(arg);
}

/* ---- the question ---- */

dt_status dt_ledger_trim_start(const struct dt_kafka_env *env, unsigned shard, int64_t before, dt_ledger_trim **out,
                               struct dt_error *err)
{
    char topic[DT_KAFKA_TOPIC_MAX + 1];
    char reason[128];
    rd_kafka_conf_t *conf;
    *out = NULL;
    if (atomic_flag_test_and_set(&under_way))
        return dt_fail(err, DT_FULL, "trimming the ledger: another shard's is under way");
    struct dt_ledger_trim *t = calloc(1, sizeof(*t));
    dt_status status = dt_kafka_topic_name(env, "ledger", topic, err);
    if (!t) {
        atomic_flag_clear(&under_way);
        return dt_fail(err, DT_NOMEM, "trimming the ledger");
    }
    pthread_mutex_init(&t->lock, NULL);
    t->partition = (int32_t)shard;
    t->users = 1;
    if (status == DT_OK)
        status = dt_kafka_conf_new(env, NULL, &conf, err);
    if (status == DT_OK)
        status = dt_kafka_handle_new(RD_KAFKA_PRODUCER, conf, &t->rk, err);
    if (status != DT_OK) {
        let_go(t);
        atomic_flag_clear(&under_way);
        return status;
    }
    t->queue = rd_kafka_queue_new(t->rk);
    rd_kafka_AdminOptions_t *options = rd_kafka_AdminOptions_new(t->rk, RD_KAFKA_ADMIN_OP_DELETERECORDS);
    rd_kafka_topic_partition_list_t *offsets = rd_kafka_topic_partition_list_new(1);
    (void)!rd_kafka_AdminOptions_set_request_timeout(options, ANSWER_MS, reason, sizeof(reason));
    rd_kafka_topic_partition_list_add(offsets, topic, t->partition)->offset = before;
    rd_kafka_DeleteRecords_t *request = rd_kafka_DeleteRecords_new(offsets);
    rd_kafka_DeleteRecords(t->rk, &request, 1, options, t->queue);
    rd_kafka_DeleteRecords_destroy(request);
    rd_kafka_topic_partition_list_destroy(offsets);
    rd_kafka_AdminOptions_destroy(options);
    t->users++;
    *out = t;
    dt_kafka_reap(t->rk, await, waited, t);
    return DT_OK;
}

bool dt_ledger_trim_done(dt_ledger_trim *t, dt_status *status, struct dt_error *err)
{
    pthread_mutex_lock(&t->lock);
    bool done = t->done;
    if (done) {
        *status = t->status;
        if (err)
            *err = t->error;
    }
    pthread_mutex_unlock(&t->lock);
    return done;
}

void dt_ledger_trim_free(dt_ledger_trim *t)
{
    if (t)
        let_go(t);
}
