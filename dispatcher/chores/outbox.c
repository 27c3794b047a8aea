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
#include "base/metrics.h"
#include "delivery/kafka/message.h"
#include "store/results/outbox.h"

#define BATCH       500
#define LOOK_US     INT64_C(10000000)
#define RETRY_US    INT64_C(500000)
#define TICK_US     INT64_C(1000000) /* after it the remaining shards wait for the next tick */
#define SEND_MS     10000 /* after a timeout the retry needs a new connection: a busy broker must finish one */
#define SHARD_WORDS (DT_SHARDS_MAX / 32)

struct dt_outbox {
    struct dt_outbox_env env;
    struct dt_chore chore;
    _Atomic uint32_t told[SHARD_WORDS];
    int64_t all_us; /* mono: all shards are looked at then */
    struct dt_arena arena;
    dt_metric *sent;
};

static dt_status send_notices(dt_outbox *o, dt_store *store, const struct dt_notice *notices, size_t n,
                              struct dt_error *err)
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
    dt_status removed = n_ids ? dt_store_outbox_sent(store, ids, n_ids, err) : DT_OK;
    return status == DT_OK ? removed : status;
}

/* All that waits in one shard's outbox. Those that Kafka refuses stay, and are passed by. */
static dt_status empty(dt_outbox *o, dt_store *store, unsigned shard, struct dt_error *err)
{
    struct dt_outbox_page page = {.shard = shard, .limit = BATCH};
    struct dt_notices notices = {.n = BATCH};
    dt_status status = DT_OK;
    dt_status refused = DT_OK;
    while (status == DT_OK && notices.n == BATCH && !dt_chore_stopping(&o->chore)) {
        dt_arena_reset(&o->arena);
        status = dt_store_outbox(store, &page, &o->arena, &notices, err);
        DT_FAIL_POINT_STATUS("outbox.read", status, err);
        if (status != DT_OK || notices.n == 0)
            break;
        page.after_id = notices.v[notices.n - 1].outbox_id;
        status = send_notices(o, store, notices.v, notices.n, err);
        if (status == DT_REFUSED) {
            refused = status;
            status = DT_OK;
        }
    }
    return status == DT_OK ? refused : status;
}

/* The shard has notices. */
static void note(dt_outbox *o, unsigned shard)
{
    atomic_fetch_or(&o->told[shard / 32], UINT32_C(1) << (shard % 32));
}

static int64_t tick(void *arg, void *store)
{
    dt_outbox *o = arg;
    const int64_t began_us = dt_clock_mono_us(o->env.clock);
    const unsigned shards = o->env.shards(o->env.arg);
    struct dt_error err = {0};
    int64_t next_us = INT64_MAX;
    if (began_us >= o->all_us) {
        o->all_us = began_us + LOOK_US;
        /* As a rule no shard has notices, and then none is read. A failure is met again when one is. */
        bool waits = true;
        waits = dt_store_outbox_waits(store, &waits, NULL) != DT_OK || waits;
        for (unsigned shard = 0; shard < shards && waits; shard++)
            note(o, shard);
    }
    for (unsigned shard = 0; shard < shards && !dt_chore_stopping(&o->chore); shard++) {
        const uint32_t bit = UINT32_C(1) << (shard % 32);
        if (!(atomic_load(&o->told[shard / 32]) & bit))
            continue;
        if (dt_clock_mono_us(o->env.clock) - began_us > TICK_US)
            return o->chore.not_before_us;
        atomic_fetch_and(&o->told[shard / 32], ~bit);
        const dt_status status = o->env.sends(o->env.arg, shard) ? empty(o, store, shard, &err) : DT_OK;
        if (status == DT_OK)
            continue;
        const bool refused = status == DT_REFUSED; /* such notices wait until all shards are looked at */
        if (!refused)
            note(o, shard);
        const int64_t again_us = dt_chore_failed(&o->chore, dt_store_lost(store) ? DT_OUTAGE_MYSQL : DT_OUTAGE_KAFKA,
                                                 "notices wait", status, &err, refused ? 0 : RETRY_US);
        next_us = refused ? next_us : again_us;
    }
    return dt_earlier(next_us, o->all_us);
}

dt_status dt_outbox_start(const struct dt_outbox_env *env, dt_outbox **out)
{
    dt_outbox *o = *out = calloc(1, sizeof(*o));
    if (!o)
        return DT_NOMEM;
    o->env = *env;
    dt_arena_init(&o->arena);
    o->sent = dt_counter("duetime_notices_sent_total", "Dead letters sent to Kafka.", "");
    o->chore = (struct dt_chore){.name = "outbox", .tick = tick, .arg = o, .waits = true};
    dt_chores_add(env->chores, &o->chore);
    return DT_OK;
}

void dt_outbox_post(dt_outbox *o, unsigned shard)
{
    dt_assert_cmp(shard, <, DT_SHARDS_MAX);
    note(o, shard);
    dt_chore_wake(&o->chore);
}

void dt_outbox_stop(dt_outbox *o)
{
    if (!o)
        return;
    dt_chore_remove(&o->chore);
    dt_arena_clear(&o->arena);
    free(o);
}
