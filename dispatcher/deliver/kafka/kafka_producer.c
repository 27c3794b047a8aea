/*
 * Owns:            which of a shard's two transactional producers is used next; below, the producer of notices.
 * Refuses to know: what a transaction consists of (kafka_txn_producer.c).
 *
 * Kafka answers EndTxn before it has written the transaction's markers. A producer that continues with the same
 * transactional id before that gets CONCURRENT_TRANSACTIONS, and librdkafka then waits for 20 ms. With two ids used
 * alternately, Kafka writes the markers of one transaction while the next transaction is open.
 *
 * Invariants:
 *   - One transaction is open at a time, over both ids. It begins only after a clean commit of the transaction before,
 *     so that ledger offsets rise. In a partition to which both transactions wrote (always the ledger), a reader of
 *     committed messages sees nothing of the second before the marker of the first.
 *   - A producer exists only when both ids are fenced: then no earlier transaction, under either id, can be committed.
 *   - After a status other than OK neither producer is used again: the turn stays with the producer that failed.
 *
 * Each producer has its own metadata, refreshed every five minutes. So in the five minutes after a topic got more
 * partitions, the two producers may choose different partitions for a key.
 */
#include <pthread.h>

#include "base/assert.h"
#include "base/fail_point.h"
#include "kafka.h"
#include "kafka_common.h"

enum { LINES = 2 };
/* Suffixes of the transactional ids. A takeover fences the producers of all of them. A version that knows fewer
 * suffixes must not run beside this one, because it would not fence the others. */
static const char *const suffixes[LINES] = {"", "-b"};

struct dt_producer {
    dt_txn_producer *lines[LINES];
    uint32_t begun; /* number of transactions that were begun */
    unsigned turn;  /* index of the producer to use next; after a failure: the producer that failed */
    bool ready;     /* both producers know the topics of the next transaction's messages */
};

static dt_txn_producer *current_producer(const dt_producer *p)
{
    dt_assert_cmp(p->turn, <, LINES);
    return p->lines[p->turn];
}

static void switch_producer(dt_producer *p)
{
    p->turn = (p->turn + 1) % LINES;
}

void dt_producer_meet(dt_producer *p, const struct dt_str *topics, size_t n)
{
    for (unsigned i = 0; i < LINES; i++)
        dt_txn_producer_meet(p->lines[i], topics, n);
}

bool dt_producer_ready(dt_producer *p, const struct dt_kafka_message *messages, size_t n)
{
    p->ready = dt_txn_producer_ready(current_producer(p), messages, n);
    return p->ready;
}

dt_status dt_producer_begin(dt_producer *p, const struct dt_kafka_message *messages, size_t n, struct dt_str record_key,
                            struct dt_str record_value, struct dt_error *err)
{
    const struct dt_kafka_message record = {.key = record_key, .value = record_value};
    dt_status status = DT_OK;
    /* Both producers look up the topics; otherwise the next transaction would have to wait for a lookup as well. After
     * a failure, the producer that failed stays the current one. */
    for (unsigned i = 0; !p->ready && status == DT_OK && i < LINES; i++) {
        status = dt_txn_producer_learn(current_producer(p), messages, n, err);
        if (status == DT_OK)
            switch_producer(p);
    }
    p->ready = false;
    return status == DT_OK ? dt_txn_producer_begin(current_producer(p), p->begun++, messages, n, &record, err) : status;
}

dt_status dt_producer_commit(dt_producer *p, int64_t *ledger_offset, struct dt_error *err)
{
    dt_status status = dt_txn_producer_commit(current_producer(p), ledger_offset, err);
    if (status == DT_OK)
        switch_producer(p);
    return status;
}

dt_status dt_producer_send(dt_producer *p, const struct dt_kafka_message *messages, size_t n, struct dt_str record_key,
                           struct dt_str record_value, int64_t *ledger_offset, struct dt_error *err)
{
    dt_status status = dt_producer_begin(p, messages, n, record_key, record_value, err);
    return status == DT_OK ? dt_producer_commit(p, ledger_offset, err) : status;
}

struct dt_kafka_refusal dt_producer_refusal(const dt_producer *p)
{
    return dt_txn_producer_refusal(current_producer(p));
}

void dt_producer_free(dt_producer *p)
{
    if (!p)
        return;
    for (unsigned i = 0; i < LINES; i++, switch_producer(p))
        dt_txn_producer_free(
            current_producer(p)); /* first the current producer, because an open transaction of it blocks readers */
    free(p);
}

dt_status dt_producer_new(const struct dt_kafka_env *env, unsigned shard, const _Atomic bool *stop, dt_producer **out,
                          struct dt_error *err)
{
    const int64_t deadline_us = dt_kafka_now_us() + env->config->kafka_transaction_timeout * 1000;
    dt_producer *p = calloc(1, sizeof(*p));
    dt_status status = DT_OK;
    *out = p;
    if (!p)
        return dt_fail(err, DT_NOMEM, "kafka producer: out of memory");
    /* Both producers connect and wait for open transactions of older producers at the same time, so that the waits do
     * not add up. */
    for (unsigned i = 0; status == DT_OK && i < LINES; i++)
        status = dt_txn_producer_new(env, shard, suffixes[i], &p->lines[i], err);
    for (unsigned i = 0; status == DT_OK && i < LINES; i++)
        status = dt_txn_producer_start(p->lines[i], deadline_us, stop, err);
    for (unsigned i = 0; status == DT_OK && i < LINES; i++) {
        status = dt_txn_producer_await_fenced(p->lines[i], deadline_us, stop, err);
        if (i == 0)
            DT_FAIL_POINT_STATUS("takeover.fenced_one", status, err);
    }
    if (status != DT_OK) {
        dt_producer_free(p);
        *out = NULL;
    }
    return status;
}

/*
 * ---- an idempotent producer for notices (dead letters, rejected results): at least once ----
 *
 * Invariants: a batch exists until its last delivery report has arrived or librdkafka has dropped its messages, even if
 * the caller stopped waiting. One of the waiting callers serves the reports of all callers, under one lock.
 */

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
};

struct report {
    struct batch *batch;
    size_t i;
};

static void on_delivery_report(rd_kafka_t *, const rd_kafka_message_t *m, void *)
{
    struct report *r = m->_private;
    struct batch *b = r->batch;
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

static rd_kafka_resp_err_t produce_notice(struct dt_notice_producer *s, const struct dt_kafka_message *m,
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

static dt_status send_notice_batch(struct dt_notice_producer *s, const struct dt_kafka_message *messages, size_t n,
                                   bool *sent, int64_t deadline_us, struct dt_error *err)
{
    struct batch *b = calloc(1, sizeof(*b));
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
        struct report *r = malloc(sizeof(*r));
        rd_kafka_resp_err_t code = RD_KAFKA_RESP_ERR__CRIT_SYS_RESOURCE;
        if (r) {
            *r = (struct report){.batch = b, .i = i};
            b->outstanding++;
            code = produce_notice(s, &messages[i], r, deadline_us);
        }
        if (code == RD_KAFKA_RESP_ERR_NO_ERROR)
            continue;
        b->outstanding -= r != NULL;
        free(r);
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

static dt_status notices_conf(const struct dt_kafka_env *env, rd_kafka_conf_t **out, struct dt_error *err)
{
    char most[24];
    char batch[24];
    const struct dt_kafka_setting settings[] = {
        {"enable.idempotence", "true"},
        {"acks", "all"},
        {"partitioner", "murmur2_random"},
        {"linger.ms", "0"},
        {"message.timeout.ms", "30000"},
        {"message.max.bytes", most},
        {"batch.size", batch},
        {NULL, NULL},
    };
    snprintf(most, sizeof(most), "%d", DT_KAFKA_MESSAGE_MAX);
    snprintf(batch, sizeof(batch), "%d", DT_KAFKA_BATCH_BYTES);
    dt_status status = dt_kafka_conf_new(env, NULL, settings, out, err);
    if (status == DT_OK)
        rd_kafka_conf_set_dr_msg_cb(*out, on_delivery_report);
    return status;
}

/* Serves late reports of abandoned batches, so that their memory is freed. */
static void serve_late_reports(void *rk)
{
    const int64_t until_us = dt_kafka_now_us() + 1000000;
    rd_kafka_purge(rk, RD_KAFKA_PURGE_F_QUEUE | RD_KAFKA_PURGE_F_INFLIGHT);
    while (rd_kafka_outq_len(rk) > 0 && dt_kafka_now_us() < until_us)
        rd_kafka_poll(rk, 100);
}

static const struct dt_kafka_on_demand_ops on_demand_ops = {.conf = notices_conf, .closing = serve_late_reports};

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
