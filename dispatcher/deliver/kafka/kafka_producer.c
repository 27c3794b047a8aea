/*
 * Owns:            whose turn it is of a shard's two transactional producers.
 * Refuses to know: what a transaction is made of (kafka_txn_producer.c).
 *
 * Kafka answers EndTxn before it has written the transaction's markers. Whoever goes on with the same transactional id
 * meanwhile is told CONCURRENT_TRANSACTIONS, whereupon librdkafka waits for 20 ms. With two ids the markers of one
 * transaction are written while the next one is under way.
 *
 * Invariants:
 *   - One transaction at a time, over both ids: the next begins after a clean commit of the one before, which is what
 *     makes ledger offsets rise. In a partition that both touch, the ledger above all, a reader of committed messages
 *     sees nothing of the second before the marker of the first is there.
 *   - A producer is there only when both ids are fenced: nothing that was begun before, under either, can be committed
 *     from then on.
 *   - After anything but OK neither is used again: the turn stays with the one that failed.
 *
 * Each id has metadata of its own, looked at every five minutes: for so long after a topic has grown, the two may
 * choose different partitions for a key.
 */
#include "kafka_producer.h"

#include <stdlib.h>

#include "base/assert.h"
#include "base/fail_point.h"
#include "kafka_common.h"

enum { LINES = 2 };
/* A takeover fences these: a version that knows fewer of them must not run beside this one. */
static const char *const suffixes[LINES] = {"", "-b"};

struct dt_producer {
    dt_txn_producer *lines[LINES];
    uint32_t begun; /* transactions */
    unsigned turn;  /* whose it is; once one has failed, that one's */
    bool ready;     /* the messages that begin next are known to have topics that both know */
};

static dt_txn_producer *line_at_turn(const dt_producer *p)
{
    dt_assert_cmp(p->turn, <, LINES);
    return p->lines[p->turn];
}

static void next_turn(dt_producer *p)
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
    p->ready = dt_txn_producer_ready(line_at_turn(p), messages, n);
    return p->ready;
}

dt_status dt_producer_begin(dt_producer *p, const struct dt_kafka_message *messages, size_t n, struct dt_str record_key,
                            struct dt_str record_value, struct dt_error *err)
{
    const struct dt_kafka_message record = {.key = record_key, .value = record_value};
    dt_status status = DT_OK;
    /* Both learn the topics, or the transaction after this one would have to wait for its topics, too. After a failure
     * the turn stays with the one that failed. */
    for (unsigned i = 0; !p->ready && status == DT_OK && i < LINES; i++) {
        status = dt_txn_producer_learn(line_at_turn(p), messages, n, err);
        if (status == DT_OK)
            next_turn(p);
    }
    p->ready = false;
    return status == DT_OK ? dt_txn_producer_begin(line_at_turn(p), p->begun++, messages, n, &record, err) : status;
}

dt_status dt_producer_commit(dt_producer *p, int64_t *ledger_offset, struct dt_error *err)
{
    dt_status status = dt_txn_producer_commit(line_at_turn(p), ledger_offset, err);
    if (status == DT_OK)
        next_turn(p);
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
    return dt_txn_producer_refusal(line_at_turn(p));
}

/* ---- life ---- */

void dt_producer_free(dt_producer *p)
{
    if (!p)
        return;
    for (unsigned i = 0; i < LINES; i++, next_turn(p))
        dt_txn_producer_free(line_at_turn(p)); /* first the one that may have something open, which readers wait for */
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
        return dt_fail(err, DT_NOMEM, "kafka producer");
    /* Both at the same time: connecting, and waiting for what older producers had open. */
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
