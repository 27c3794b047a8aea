/*
 * Owns: an idempotent producer for notices (dead letters, rejected results): at least once, each delivery report looked
 * at. Refuses to know: what the notices say, and whether they were sent before. Invariants: a batch lives until its
 * last report is in or its messages were given up by librdkafka, also when the caller has stopped waiting; one caller
 * at a time is busy, and serves the reports. The time that others wait for it is part of their own timeouts.
 */
#include "kafka_handle.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"

enum { KEEP_HANDLE_MS = 10000 };

struct dt_notice_producer {
    pthread_mutex_t lock; /* for the next two */
    pthread_cond_t freed;
    bool busy; /* with a batch; both below are its caller's */
    dt_kafka_on_demand *handle;
    rd_kafka_t *rk; /* of the batch */
};

/* Of one batch; outlives the call when reports are late, and goes with the last of them. */
struct batch {
    size_t outstanding;
    bool abandoned;
    rd_kafka_resp_err_t error;
    bool *sent; /* the caller's; not touched once abandoned */
};

struct report {
    struct batch *batch;
    size_t i;
};

static void on_report(rd_kafka_t *rk, const rd_kafka_message_t *m, void *opaque)
{
    struct report *r = m->_private;
    struct batch *b = r->batch;
    (void)rk, (void)opaque;
    dt_assert_cmp(b->outstanding, >, 0);
    b->outstanding--;
    if (m->err != RD_KAFKA_RESP_ERR_NO_ERROR && b->error == RD_KAFKA_RESP_ERR_NO_ERROR)
        b->error = m->err;
    if (!b->abandoned)
        b->sent[r->i] = m->err == RD_KAFKA_RESP_ERR_NO_ERROR;
    if (b->abandoned && b->outstanding == 0)
        free(b);
    free(r);
}

static rd_kafka_resp_err_t produce(struct dt_notice_producer *s, const struct dt_kafka_message *m,
                                   struct report *report, int64_t deadline_us)
{
    char topic[DT_KAFKA_TOPIC_MAX + 1];
    bool ok;
    rd_kafka_headers_t *headers = dt_kafka_headers(m, &ok);
    rd_kafka_resp_err_t code = ok ? RD_KAFKA_RESP_ERR__QUEUE_FULL : RD_KAFKA_RESP_ERR__CRIT_SYS_RESOURCE;
    rd_kafka_vu_t v[] = {
        {.vtype = RD_KAFKA_VTYPE_TOPIC, .u.cstr = topic},
        {.vtype = RD_KAFKA_VTYPE_KEY, .u.mem = {(void *)(uintptr_t)m->key.p, m->key.n}},
        {.vtype = RD_KAFKA_VTYPE_VALUE, .u.mem = {(void *)(uintptr_t)m->value.p, m->value.n}},
        {.vtype = RD_KAFKA_VTYPE_OPAQUE, .u.ptr = report},
        {.vtype = RD_KAFKA_VTYPE_MSGFLAGS, .u.i = RD_KAFKA_MSG_F_COPY},
        {.vtype = RD_KAFKA_VTYPE_HEADERS, .u.headers = headers},
    };
    const size_t n = sizeof(v) / sizeof(*v) - (headers ? 0 : 1);

    snprintf(topic, sizeof(topic), "%.*s", (int)m->topic.n, m->topic.p);
    while (code == RD_KAFKA_RESP_ERR__QUEUE_FULL) {
        rd_kafka_error_t *error = rd_kafka_produceva(s->rk, v, n);

        if (!error)
            return RD_KAFKA_RESP_ERR_NO_ERROR;
        code = rd_kafka_error_code(error);
        rd_kafka_error_destroy(error);
        if (dt_kafka_now_us() >= deadline_us)
            break;
        if (code == RD_KAFKA_RESP_ERR__QUEUE_FULL)
            rd_kafka_poll(s->rk, 10);
    }
    if (headers)
        rd_kafka_headers_destroy(headers);
    return code;
}

static void produce_all(struct dt_notice_producer *s, const struct dt_kafka_message *messages, size_t n,
                        struct batch *b, int64_t deadline_us)
{
    for (size_t i = 0; i < n; i++) {
        struct report *r = malloc(sizeof(*r));
        rd_kafka_resp_err_t code = RD_KAFKA_RESP_ERR__CRIT_SYS_RESOURCE;
        if (r) {
            *r = (struct report){.batch = b, .i = i};
            b->outstanding++;
            code = produce(s, &messages[i], r, deadline_us);
        }
        if (code == RD_KAFKA_RESP_ERR_NO_ERROR)
            continue;
        b->outstanding -= r != NULL;
        free(r);
        if (b->error == RD_KAFKA_RESP_ERR_NO_ERROR)
            b->error = code;
    }
}

static dt_status send_together(struct dt_notice_producer *s, const struct dt_kafka_message *messages, size_t n,
                               bool *sent, int64_t deadline_us, struct dt_error *err)
{
    struct batch *b = calloc(1, sizeof(*b));
    memset(sent, 0, n * sizeof(*sent));
    if (!b)
        return dt_fail(err, DT_NOMEM, "notices");
    b->sent = sent;
    dt_status status = dt_kafka_on_demand_hold(s->handle, &s->rk, err);
    if (status != DT_OK) {
        free(b);
        return status;
    }
    produce_all(s, messages, n, b, deadline_us);
    int64_t left_us;
    while (b->outstanding > 0 && (left_us = deadline_us - dt_kafka_now_us()) > 0)
        rd_kafka_poll(s->rk, left_us > 100000 ? 100 : (int)(left_us / 1000) + 1);
    b->abandoned = b->outstanding > 0; /* its last report frees it then */
    if (b->abandoned) {
        status = dt_fail(err, DT_UNAVAILABLE, "notices: no answer from Kafka in time");
    } else {
        status = b->error == RD_KAFKA_RESP_ERR_NO_ERROR ? DT_OK : dt_kafka_fail(err, b->error, "notice");
        free(b);
    }
    /* Messages that may still arrive may be repeated by the caller: at least once. */
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
        return dt_fail(err, DT_UNAVAILABLE, "notices: others of this process wait for Kafka");
    dt_status status = send_together(s, messages, n, sent, deadline_us, err);
    /* A batch is refused as a whole for one message, or for being large: what it left goes one by one. */
    bool singly = status == DT_REFUSED && n > 1, refused = false;
    for (size_t i = 0; singly && i < n && (status == DT_OK || status == DT_REFUSED); i++) {
        status = sent[i] ? DT_OK : send_together(s, &messages[i], 1, &sent[i], deadline_us, err);
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

/* ---- life ---- */

static dt_status notices_conf(const struct dt_kafka_env *env, rd_kafka_conf_t **out, struct dt_error *err)
{
    char most[24];
    char batch[24];
    const char *const pairs[] = {
        "enable.idempotence",
        "true",
        "acks",
        "all",
        "partitioner",
        "murmur2_random",
        "linger.ms",
        "0",
        "message.timeout.ms",
        "30000",
        "message.max.bytes",
        most,
        "batch.size",
        batch,
        NULL,
    };
    dt_status status = dt_kafka_conf_new(env, NULL, out, err);

    snprintf(most, sizeof(most), "%d", DT_KAFKA_MESSAGE_MAX);
    snprintf(batch, sizeof(batch), "%d", DT_KAFKA_BATCH_BYTES);
    if (status == DT_OK)
        status = dt_kafka_conf_set(*out, pairs, err);
    if (status == DT_OK)
        rd_kafka_conf_set_dr_msg_cb(*out, on_report);
    else if (*out)
        rd_kafka_conf_destroy(*out);
    return status;
}

/* Reports of a batch that was given up are served once more, so that its memory goes. */
static void notices_closing(void *rk)
{
    const int64_t until_us = dt_kafka_now_us() + 1000000;

    rd_kafka_purge(rk, RD_KAFKA_PURGE_F_QUEUE | RD_KAFKA_PURGE_F_INFLIGHT);
    while (rd_kafka_outq_len(rk) > 0 && dt_kafka_now_us() < until_us)
        rd_kafka_poll(rk, 100);
}

static const struct dt_kafka_on_demand_ops on_demand_ops = {.conf = notices_conf, .closing = notices_closing};

dt_status dt_notice_producer_new(const struct dt_kafka_env *env, dt_notice_producer **out, struct dt_error *err)
{
    struct dt_notice_producer *s = calloc(1, sizeof(*s));
    *out = NULL;
    if (!s)
        return dt_fail(err, DT_NOMEM, "notices");
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->freed, NULL);
    dt_status status = dt_kafka_on_demand_new(env, &on_demand_ops, KEEP_HANDLE_MS, &s->handle, err);
    if (status != DT_OK) {
        dt_notice_producer_free(s);
        return status;
    }
    *out = s;
    return DT_OK;
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
