/*
 * An idempotent producer for notices (dead letters, rejected results): at least once.
 *
 * Invariants: a batch exists until its last delivery report has arrived or librdkafka has dropped its messages, even if
 * the caller stopped waiting. One of the waiting callers serves the reports of all callers, under one lock.
 */
#include <pthread.h>

#include "base/assert.h"
#include "kafka.h"
#include "kafka_common.h"

enum { KEEP_HANDLE_MS = 10000 };

struct dt_notice_producer {
    pthread_mutex_t lock; /* protects `busy`; the members below belong to the caller that set it */
    pthread_cond_t freed;
    bool busy; /* a caller is sending a batch */
    dt_kafka_on_demand *handle;
    rd_kafka_t *rk; /* handle that sends the batch */
};

/* State of one batch. If delivery reports are late, the batch outlives the call, and its last report frees it. */
struct batch {
    size_t outstanding;
    bool abandoned;
    rd_kafka_resp_err_t error;
    bool *sent; /* the caller's array; not used after the caller has abandoned the batch */
    struct report {
        struct batch *batch;
        size_t i;
    } reports[]; /* one for each message */
};

static void on_delivery_report(rd_kafka_t *, const rd_kafka_message_t *m, void *)
{
    const struct report *r = m->_private;
    struct batch *b = r->batch;
    dt_assert_cmp(b->outstanding, >, 0);
    b->outstanding--;
    if (m->err != RD_KAFKA_RESP_ERR_NO_ERROR && b->error == RD_KAFKA_RESP_ERR_NO_ERROR)
        b->error = m->err;
    if (!b->abandoned)
        b->sent[r->i] = m->err == RD_KAFKA_RESP_ERR_NO_ERROR;
    else if (b->outstanding == 0)
        free(b);
}

static rd_kafka_resp_err_t produce_notice(struct dt_notice_producer *s, const struct dt_kafka_message *m,
                                          struct report *report, int64_t deadline_us)
{
    char topic[DT_KAFKA_TOPIC_MAX + 1];
    const rd_kafka_vu_t where = {.vtype = RD_KAFKA_VTYPE_TOPIC, .u.cstr = topic};
    rd_kafka_error_t *error;
    snprintf(topic, sizeof(topic), "%.*s", (int)m->topic.n, m->topic.p);
    while ((error = dt_kafka_produce(s->rk, where, RD_KAFKA_PARTITION_UA, m, report))) {
        const rd_kafka_resp_err_t code = rd_kafka_error_code(error);
        rd_kafka_error_destroy(error);
        if (code != RD_KAFKA_RESP_ERR__QUEUE_FULL || dt_kafka_now_us() >= deadline_us)
            return code;
        rd_kafka_poll(s->rk, 10);
    }
    report->batch->outstanding++;
    return RD_KAFKA_RESP_ERR_NO_ERROR;
}

static dt_status send_notice_batch(struct dt_notice_producer *s, const struct dt_kafka_message *messages, size_t n,
                                   bool *sent, int64_t deadline_us, struct dt_error *err)
{
    struct batch *b = calloc(1, sizeof(*b) + n * sizeof(b->reports[0]));
    memset(sent, 0, n * sizeof(*sent));
    if (!b)
        return dt_fail(err, DT_NOMEM, "out of memory");
    b->sent = sent;
    dt_status status = dt_kafka_on_demand_hold(s->handle, &s->rk, err);
    if (status != DT_OK) {
        free(b);
        return status;
    }
    for (size_t i = 0; i < n; i++) {
        b->reports[i] = (struct report){b, i};
        const rd_kafka_resp_err_t code = produce_notice(s, &messages[i], &b->reports[i], deadline_us);
        if (b->error == RD_KAFKA_RESP_ERR_NO_ERROR)
            b->error = code;
    }
    int64_t left_us;
    while (b->outstanding > 0 && (left_us = deadline_us - dt_kafka_now_us()) > 0)
        rd_kafka_poll(s->rk, left_us > 100000 ? 100 : (int)(left_us / 1000) + 1);
    b->abandoned = b->outstanding > 0; /* the last report frees an abandoned batch */
    if (b->abandoned) {
        status = dt_fail(err, DT_UNAVAILABLE, "notices: no answer from Kafka in time");
    } else {
        status = b->error == RD_KAFKA_RESP_ERR_NO_ERROR ? DT_OK : dt_kafka_fail(err, b->error, "notice");
        free(b);
    }
    /* Messages without a report may still arrive, so a caller that sends these messages again may deliver them
     * twice. */
    if (status == DT_UNAVAILABLE || rd_kafka_fatal_error(s->rk, NULL, 0) != RD_KAFKA_RESP_ERR_NO_ERROR)
        dt_kafka_on_demand_discard(s->handle);
    else
        dt_kafka_on_demand_let_go(s->handle);
    return status;
}

dt_status dt_notice_producer_send(dt_notice_producer *s, const struct dt_kafka_message *messages, size_t n, bool *sent,
                                  int timeout_ms, struct dt_error *err)
{
    const int64_t deadline_us = dt_kafka_now_us() + timeout_ms * INT64_C(1000);
    if (n == 0)
        return DT_OK;
    memset(sent, 0, n * sizeof(*sent));
    pthread_mutex_lock(&s->lock);
    while (s->busy && dt_kafka_now_us() < deadline_us)
        (void)dt_clock_wait(&s->freed, &s->lock, deadline_us);
    const bool busy = s->busy;
    s->busy = true;
    pthread_mutex_unlock(&s->lock);
    if (busy)
        return dt_fail(err, DT_UNAVAILABLE, "notices: other messages of this process are waiting for Kafka");
    dt_status status = send_notice_batch(s, messages, n, sent, deadline_us, err);
    /* Kafka may have refused the whole batch because of one message, or because of the batch's size, so messages that
     * have not arrived are sent one by one. */
    bool singly = status == DT_REFUSED && n > 1, refused = false;
    for (size_t i = 0; singly && i < n && (status == DT_OK || status == DT_REFUSED); i++) {
        status = sent[i] ? DT_OK : send_notice_batch(s, &messages[i], 1, &sent[i], deadline_us, err);
        refused = refused || status == DT_REFUSED;
    }
    if (refused && status == DT_OK)
        status = DT_REFUSED;
    pthread_mutex_lock(&s->lock);
    s->busy = false;
    pthread_cond_signal(&s->freed);
    pthread_mutex_unlock(&s->lock);
    return status;
}

static const struct dt_kafka_setting settings[] = {
    {"enable.idempotence", "true"},
    {"acks", "all"},
    {"partitioner", "murmur2_random"},
    {"linger.ms", "0"},
    {"message.timeout.ms", "30000"},
    {"message.max.bytes", DT_KAFKA_TEXT(DT_KAFKA_MESSAGE_MAX)},
    {"batch.size", DT_KAFKA_TEXT(DT_KAFKA_BATCH_BYTES)},
    {NULL, NULL},
};

static dt_status add_callback(rd_kafka_conf_t *conf, void *, struct dt_error *)
{
    rd_kafka_conf_set_dr_msg_cb(conf, on_delivery_report);
    return DT_OK;
}

/* Serves late reports of abandoned batches, so that their memory is freed. */
static void serve_late_reports(void *rk)
{
    const int64_t until_us = dt_kafka_now_us() + 1000000;
    rd_kafka_purge(rk, RD_KAFKA_PURGE_F_QUEUE | RD_KAFKA_PURGE_F_INFLIGHT);
    while (rd_kafka_outq_len(rk) > 0 && dt_kafka_now_us() < until_us)
        rd_kafka_poll(rk, 100);
}

static const struct dt_kafka_on_demand_ops on_demand_ops = {.handle = {.settings = settings, .adds = add_callback},
                                                            .closing = serve_late_reports};

dt_status dt_notice_producer_new(const struct dt_kafka_env *env, dt_notice_producer **out, struct dt_error *err)
{
    struct dt_notice_producer *s = calloc(1, sizeof(*s));
    *out = NULL;
    if (!s)
        return dt_fail(err, DT_NOMEM, "out of memory");
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->freed, NULL);
    dt_status status = dt_kafka_on_demand_new(env, &on_demand_ops, KEEP_HANDLE_MS, &s->handle, err);
    if (status == DT_OK)
        *out = s;
    else
        dt_notice_producer_free(s);
    return status;
}

void dt_notice_producer_free(dt_notice_producer *s)
{
    if (!s)
        return;
    dt_kafka_on_demand_free(s->handle);
    pthread_cond_destroy(&s->freed);
    pthread_mutex_destroy(&s->lock);
    free(s);
}
