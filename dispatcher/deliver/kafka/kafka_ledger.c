/*
 * Owns: reading one shard's ledger partition, committed records only, at a takeover; deleting old records (second
 * part).
 *
 * Refuses to know: what the records mean; the caller looks for its barrier among them.
 *
 * Invariants: reaching the end of the partition proves nothing (the partition's leader may be new, or may lag), so
 * reading succeeds only when the caller's function returns false. Without a function it succeeds when the offset is
 * found to exist. If the partition does not have the offset, reading fails; it never continues at another offset.
 */
#include <pthread.h>
#include <stdatomic.h>

#include "base/assert.h"
#include "kafka.h"
#include "kafka_common.h"

struct reader {
    rd_kafka_t *rk;
    rd_kafka_topic_t *topic;
    rd_kafka_queue_t *queue;
    int32_t partition;
    bool started;
};

static dt_status open_ledger_reader(const struct dt_kafka_env *env, struct reader *r, struct dt_error *err)
{
    const struct dt_kafka_setting settings[] = {
        {"isolation.level", "read_committed"},
        {"auto.offset.reset", "error"},
        {"enable.auto.commit", "false"},
        {"fetch.wait.max.ms", "5"}, /* with the default, each check of the partition's end takes 500 ms */
        {"fetch.error.backoff.ms", "10"},
        {"enable.partition.eof", "true"},
        {"check.crcs", "true"},
        {NULL, NULL},
    };
    const struct dt_kafka_handle how = {.type = RD_KAFKA_CONSUMER, .settings = settings};
    char name[DT_KAFKA_TOPIC_MAX + 1];
    dt_status status = dt_kafka_topic_name(env, "ledger", name, err);
    DT_THEN(status, dt_kafka_handle_new(env, &how, NULL, &r->rk, err));
    if (status != DT_OK)
        return status;
    r->topic = rd_kafka_topic_new(r->rk, name, NULL);
    r->queue = rd_kafka_queue_new(r->rk);
    return r->topic ? DT_OK : dt_kafka_fail(err, rd_kafka_last_error(), name);
}

/* Stops and destroys a consumer. Runs on the thread that destroys handles, because stopping waits for a broker's
 * thread. */
static void stop_ledger_reader(void *arg)
{
    struct reader *r = arg;
    if (r->started)
        rd_kafka_consume_stop(r->topic, r->partition);
    if (r->queue)
        rd_kafka_queue_destroy(r->queue);
    if (r->topic)
        rd_kafka_topic_destroy(r->topic);
}

/* Reads records. Each record extends the deadline: if a busy broker sends a long ledger slowly, a fixed deadline would
 * make the caller start again from the beginning each time, and never reach the end. */
static dt_status read_ledger_records(struct reader *r, struct dt_ledger_reading *reading, int64_t patience_us,
                                     struct dt_error *err)
{
    int64_t deadline_us = dt_clock_mono_us(reading->clock) + patience_us;
    dt_status status = DT_OK;
    bool done = false; /* the caller's function has returned false */
    while (status == DT_OK && !done) {
        if (reading->stop && *reading->stop)
            return dt_fail(err, DT_SHUTDOWN, "ledger: stopped while reading");
        if (dt_clock_mono_us(reading->clock) >= deadline_us)
            return dt_fail(err, DT_UNAVAILABLE, "ledger: no further record arrived in time");
        rd_kafka_message_t *m = rd_kafka_consume_queue(r->queue, 20);
        if (!m)
            continue;
        switch ((int)m->err) {
        case RD_KAFKA_RESP_ERR_NO_ERROR:
            reading->next = m->offset + 1;
            done = !reading->fn || !reading->fn(reading->arg, m->offset, (struct dt_str){m->key, m->key_len},
                                                (struct dt_str){m->payload, m->len});
            deadline_us = dt_clock_mono_us(reading->clock) + patience_us;
            break;
        case RD_KAFKA_RESP_ERR__PARTITION_EOF:
            done = !reading->fn;
            break;
        case RD_KAFKA_RESP_ERR__AUTO_OFFSET_RESET:
        case RD_KAFKA_RESP_ERR_OFFSET_OUT_OF_RANGE:
            status = dt_fail(err, DT_INVALID, "ledger: %s", rd_kafka_message_errstr(m));
            break;
        default: /* other failures: librdkafka retries until the deadline */
            if (dt_kafka_error_status(m->err) == DT_REFUSED)
                status = dt_fail(err, DT_REFUSED, "ledger: %s", rd_kafka_message_errstr(m));
        }
        rd_kafka_message_destroy(m);
    }
    return status;
}

dt_status dt_ledger_read(const struct dt_kafka_env *env, unsigned shard, struct dt_ledger_reading *reading,
                         struct dt_error *err)
{
    const int64_t left_us = reading->deadline_us - dt_clock_mono_us(reading->clock);
    struct reader *r = calloc(1, sizeof(*r));
    reading->next = reading->from;
    if (!r)
        return dt_fail(err, DT_NOMEM, "out of memory");
    r->partition = (int32_t)shard;
    dt_status status = open_ledger_reader(env, r, err);
    DT_THEN(status, dt_kafka_await_topic(r->rk, r->topic, dt_kafka_now_us() + left_us, reading->stop, NULL, err));
    if (status == DT_OK) {
        r->started = rd_kafka_consume_start_queue(r->topic, r->partition, reading->from, r->queue) == 0;
        status = r->started ? read_ledger_records(r, reading, left_us, err)
                            : dt_kafka_fail(err, rd_kafka_last_error(), "ledger");
    }
    if (r->rk)
        dt_kafka_reap(r->rk, stop_ledger_reader, free, r);
    else
        free(r);
    return status;
}

/*
 * ---- deleting old records of a ledger partition: one request; its handle is destroyed when the answer arrives ----
 *
 * Invariants: only the thread that destroys the handle waits for the answer. The caller polls for the result, or
 * abandons the request. A process has at most one such request at a time, because all shards may need trimming on the
 * same day, and few threads destroy handles.
 */

static atomic_flag under_way = ATOMIC_FLAG_INIT;

enum { ANSWER_MS = 10000 };

struct dt_ledger_trim {
    pthread_mutex_t lock;
    unsigned users; /* number of users: the caller, and the thread that waits for the answer */
    bool done;
    dt_status status;
    struct dt_error error;

    /* used only by the thread that waits for the answer */
    rd_kafka_t *rk;
    rd_kafka_queue_t *queue;
    int32_t partition;
};

static void release_trim(struct dt_ledger_trim *t)
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

static void await_trim_answer(void *arg)
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

static void end_trim(void *arg)
{
    atomic_flag_clear(&under_way);
    release_trim(arg);
}

/* ---- the request ---- */

dt_status dt_ledger_trim_start(const struct dt_kafka_env *env, unsigned shard, int64_t before, dt_ledger_trim **out,
                               struct dt_error *err)
{
    char topic[DT_KAFKA_TOPIC_MAX + 1];
    char reason[128];
    *out = NULL;
    if (atomic_flag_test_and_set(&under_way))
        return dt_fail(err, DT_FULL, "trimming the ledger: another shard is being trimmed");
    struct dt_ledger_trim *t = calloc(1, sizeof(*t));
    dt_status status = dt_kafka_topic_name(env, "ledger", topic, err);
    if (!t) {
        atomic_flag_clear(&under_way);
        return dt_fail(err, DT_NOMEM, "trimming the ledger: out of memory");
    }
    pthread_mutex_init(&t->lock, NULL);
    t->partition = (int32_t)shard;
    t->users = 1;
    DT_THEN(status, dt_kafka_handle_new(env, &(struct dt_kafka_handle){.type = RD_KAFKA_PRODUCER}, NULL, &t->rk, err));
    if (status != DT_OK) {
        release_trim(t);
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
    dt_kafka_reap(t->rk, await_trim_answer, end_trim, t);
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
        release_trim(t);
}
