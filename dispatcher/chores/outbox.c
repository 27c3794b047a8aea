/*
 * read up to BATCH notices ─▶ send, wait for every delivery report ─▶ delete what arrived
 *
 * Killed between sending and deleting, a notice goes twice with the same ce_id. Being told is the usual way; every
 * LOOK_US the outboxes of all led shards are looked at anyway, for what was told to somebody who died, and for what
 * Kafka refused: that stays and is offered again, and keeps nothing else from leaving.
 */
#include "outbox.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "base/assert.h"
#include "base/hooks/fail_point.h"
#include "base/hooks/guard.h"
#include "base/log.h"
#include "base/mailbox.h"
#include "base/metrics.h"
#include "base/outage.h"
#include "base/thread.h"
#include "delivery/kafka/message.h"
#include "store/results/outbox.h"

#define BATCH       500
#define LOOK_US     INT64_C(10000000)
#define RETRY_US    INT64_C(500000)
#define SEND_MS     10000 /* after a timeout the retry needs a new connection: a busy broker must finish one */
#define SHARD_WORDS (DT_SHARDS_MAX / 32)

enum { NOTICES = 1 }; /* a signal */

struct dt_outbox {
    struct dt_outbox_env env;
    struct dt_thread thread;
    dt_mailbox *mailbox;
    _Atomic uint32_t told[SHARD_WORDS];
    dt_store *store;
    struct dt_arena arena;
    struct dt_outage_part outage;
    dt_metric *sent;
};

static dt_status send_notices(dt_outbox *o, const struct dt_notice *notices, size_t n, struct dt_error *err)
{
    struct dt_kafka_message *messages = dt_arena_alloc(&o->arena, n * sizeof(*messages));
    bool *sent = dt_arena_alloc(&o->arena, n * sizeof(*sent));
    int64_t *ids = dt_arena_alloc(&o->arena, n * sizeof(*ids));
    size_t n_ids = 0;
    if (!messages || !sent || !ids)
        return DT_NOMEM;
    for (size_t i = 0; i < n; i++) {
        dt_status status = dt_message_of_notice(&notices[i], o->env.kafka->installation, &o->arena, &messages[i]);
        if (status != DT_OK)
            return status;
    }
    dt_status status = dt_notice_producer_send(o->env.notices, messages, n, sent, SEND_MS, err);
    for (size_t i = 0; i < n; i++)
        if (DT_GUARD(LETTER_SENT, sent[i]))
            ids[n_ids++] = notices[i].outbox_id;
    dt_metric_add(o->sent, (int64_t)n_ids);
    DT_FAIL_POINT("outbox.sent");
    dt_status removed = n_ids ? dt_store_outbox_sent(o->store, ids, n_ids, err) : DT_OK;
    return status == DT_OK ? removed : status;
}

/* All that waits in one shard's outbox. Those that Kafka refuses stay, and are passed by. */
static dt_status empty(dt_outbox *o, unsigned shard, struct dt_error *err)
{
    struct dt_outbox_page page = {.shard = shard, .limit = BATCH};
    struct dt_notices notices = {.n = BATCH};
    dt_status status = DT_OK;
    dt_status refused = DT_OK;
    while (status == DT_OK && notices.n == BATCH && !dt_thread_stopping(&o->thread)) {
        dt_arena_reset(&o->arena);
        status = dt_store_outbox(o->store, &page, &o->arena, &notices, err);
        DT_FAIL_POINT_STATUS("outbox.read", status, err);
        if (status != DT_OK || notices.n == 0)
            break;
        page.after_id = notices.v[notices.n - 1].outbox_id;
        status = send_notices(o, notices.v, notices.n, err);
        if (status == DT_REFUSED) {
            refused = status;
            status = DT_OK;
        }
    }
    return status == DT_OK ? refused : status;
}

/* Looks at the shards that were told, or at all. */
static dt_status look(dt_outbox *o, bool all)
{
    struct dt_error err = {0};
    dt_status status = DT_OK;
    bool failed = false, waits = true;
    /* Nothing for anybody, as nearly always: then no shard's outbox need be read. A failure is met again there. */
    all = all && (dt_store_outbox_waits(o->store, &waits, NULL) != DT_OK || waits);
    for (unsigned shard = 0, shards = o->env.shards(o->env.arg); shard < shards && !dt_thread_stopping(&o->thread);
         shard++) {
        const uint32_t bit = UINT32_C(1) << (shard % 32);
        bool told = (atomic_fetch_and(&o->told[shard / 32], ~bit) & bit) != 0;
        if (!(told || all) || !o->env.sends(o->env.arg, shard))
            continue;
        dt_status emptied = empty(o, shard, &err);
        if (emptied == DT_OK)
            continue;
        if (emptied != DT_REFUSED) { /* what is refused can wait for the next look */
            status = emptied;
            dt_outbox_post(o, shard);
        }
        dt_outage_failed(&o->outage, dt_store_lost(o->store) ? DT_OUTAGE_MYSQL : DT_OUTAGE_KAFKA, "outbox",
                         "notices wait", emptied, &err);
        failed = true;
    }
    if (all && !failed)
        dt_outage_over(&o->outage);
    return status;
}

static void run(void *arg)
{
    dt_outbox *o = arg;
    int64_t all_us = 0;
    while (!dt_thread_stopping(&o->thread)) {
        int64_t now_us = dt_clock_mono_us(o->env.clock);
        bool all = now_us >= all_us;
        if (all)
            all_us = now_us + LOOK_US;
        if (look(o, all) != DT_OK)
            dt_mailbox_pause(o->mailbox, dt_clock_mono_us(o->env.clock) + RETRY_US, DT_THREAD_STOP);
        else if (!dt_thread_stopping(&o->thread))
            dt_mailbox_wait(o->mailbox, all_us);
    }
}

dt_status dt_outbox_start(const struct dt_outbox_env *env, dt_outbox **out, struct dt_error *err)
{
    dt_outbox *o = calloc(1, sizeof(*o));
    if (!o)
        return DT_NOMEM;
    o->env = *env;
    dt_arena_init(&o->arena);
    o->sent = dt_counter("duetime_notices_sent_total", "Dead letters sent to Kafka.", "");
    dt_status status = dt_mailbox_new(&o->mailbox);
    if (status == DT_OK)
        status = dt_store_new(env->config, NULL, &o->store);
    if (status == DT_OK)
        status = dt_thread_start(&o->thread, "outbox", run, o, err);
    if (status != DT_OK) {
        dt_outbox_stop(o);
        return status;
    }
    *out = o;
    return DT_OK;
}

void dt_outbox_post(dt_outbox *o, unsigned shard)
{
    dt_assert_cmp(shard, <, DT_SHARDS_MAX);
    atomic_fetch_or(&o->told[shard / 32], UINT32_C(1) << (shard % 32));
    dt_mailbox_signal(o->mailbox, NOTICES);
}

void dt_outbox_stop(dt_outbox *o)
{
    if (!o)
        return;
    dt_thread_stop(&o->thread, o->mailbox);
    dt_store_free(o->store);
    dt_mailbox_free(o->mailbox);
    dt_arena_clear(&o->arena);
    free(o);
}
