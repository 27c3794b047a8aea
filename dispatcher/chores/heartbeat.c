/*
 * Owns the process's row in `processes`, and what the rows of the others mean for the leaders here.
 *
 * Invariants: whoever loses an entry has committed its job before, so an index that is compared with MySQL after its
 * loss is known has it. Leaders stop believing the index before the compare is asked for; while a writer is down they
 * go on so, since it loses more. A process without an index is such a writer for as long as it lives, and asks nobody.
 */
#include "heartbeat.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/log.h"
#include "base/mailbox.h"
#include "base/outage.h"
#include "base/strbuf.h"
#include "base/thread.h"
#include "store/store.h"

#define EVERY_US INT64_C(1000000) /* the row is written */
#define PLAIN_US INT64_C(2000000) /* likewise, by a process that has no index to tell of; half of DT_PROCESS_FRESH_MS */
#define DEBTS_US                                                                                                       \
    INT64_C(150000)               /* and those of the others are looked at: who is cut off from Redis has no other way \
                                   */
#define DOWN_US  INT64_C(3000000) /* a writer here that lost something so short a time ago may lose more */
#define APART_US INT64_C(20000)   /* looks, however much there is to tell */

enum { LOOK = 1 }; /* a signal */

struct dt_heartbeat {
    struct dt_heartbeat_env env;
    bool has_index;
    dt_store *store;
    dt_mailbox *mailbox;
    struct dt_thread thread;
    _Atomic bool owes;    /* owes: owed is not empty */
    _Atomic bool news;    /* to be announced */
    pthread_mutex_t lock; /* of the next four */
    int64_t losses;       /* of this process */
    int64_t lost_us;      /* mono */
    char down[256];       /* where: all that failed since it was well the last time */
    char owed[1024];      /* endpoints that somebody cannot write to */
    int64_t told;         /* losses that the leaders here know of */
    uint64_t seen;        /* of the table, as it was read last */
    struct dt_strbuf leads;
    bool elected;      /* for a shard: it has a loop */
    bool said_elected; /* in the row, perhaps */
    bool waits_kafka, waits_redis;
};

/* A list of endpoints has this one. */
static bool names(const char *list, const char *endpoint)
{
    size_t n = strlen(endpoint);
    for (const char *p = list; *p; p += strcspn(p, ","), p += *p == ',')
        if (*p == '*' || (strncmp(p, endpoint, n) == 0 && (p[n] == ',' || p[n] == '\0')))
            return true;
    return false;
}

/* The row's word on this process; well again after a while without a loss. */
static int64_t own_losses(dt_heartbeat *h, char down[static sizeof(h->down)])
{
    pthread_mutex_lock(&h->lock);
    if (dt_clock_mono_us(h->env.clock) - h->lost_us >= DOWN_US)
        strcpy(h->down, h->has_index ? "" : "*");
    memcpy(down, h->down, sizeof(h->down));
    int64_t losses = h->losses;
    pthread_mutex_unlock(&h->lock);
    return losses;
}

static dt_status beat(dt_heartbeat *h, struct dt_error *err)
{
    char down[sizeof(h->down)];
    int64_t losses = own_losses(h, down);
    struct dt_loop_state state;
    dt_strbuf_reset(&h->leads);
    h->elected = h->waits_redis = false;
    h->waits_kafka = *h->env.kafka_away;
    for (unsigned shard = 0, all = h->env.shards ? h->env.shards(h->env.arg) : 0; shard < all; shard++)
        if (h->env.state(h->env.arg, shard, &state)) {
            h->elected = true;
            if (state.leading)
                dt_strbuf_addf(&h->leads, "%s%u", h->leads.n ? "," : "", shard);
            h->waits_kafka |= state.waiting && strcmp(state.waiting, "kafka") == 0;
            h->waits_redis |= state.waiting && strcmp(state.waiting, "redis") == 0;
        }
    dt_strbuf_addc(&h->leads, '\0');
    if (h->leads.failed)
        return DT_NOMEM;
    struct dt_process row = {.id = h->env.id,
                             .dispatcher = true,
                             .name = h->env.name,
                             .index_down = down[0] ? down : NULL,
                             .index_losses = losses,
                             .leads = h->leads.p,
                             .waits = h->waits_kafka && h->waits_redis ? "kafka,redis"
                                      : h->waits_kafka                 ? "kafka"
                                      : h->waits_redis                 ? "redis"
                                                                       : NULL,
                             .elected_by = h->elected ? h->env.elects : NULL};
    dt_status status = dt_store_beat(h->store, &row, err);
    if (status == DT_OK && h->said_elected != h->elected) /* others wait for it */
        h->news = true;
    if (status == DT_OK || h->elected)
        h->said_elected = h->elected;
    return status;
}

static dt_status look(dt_heartbeat *h, bool beats, struct dt_error *err)
{
    struct dt_index_debts debts;
    char down[sizeof(h->down)];
    int64_t losses = own_losses(h, down);
    bool lost = losses != h->told;
    dt_assert_cmp(losses, >=, h->told);
    h->told = losses;
    if (lost) /* losses of this process's own need not be read first */
        h->env.doubt(h->env.arg);
    dt_status status = beats || lost ? beat(h, err) : DT_OK;
    if (status == DT_OK && h->has_index)
        status = dt_store_index_debts(h->store, &debts, err);
    if (status == DT_OK && h->has_index && h->env.doubt) {
        const bool owed = h->owes;
        pthread_mutex_lock(&h->lock);
        bool other = strcmp(h->owed, debts.down) != 0;
        snprintf(h->owed, sizeof(h->owed), "%s", debts.down);
        h->owes = debts.down[0] != '\0';
        pthread_mutex_unlock(&h->lock);
        if (!owed && h->owes)
            DT_LOG(WARN, "heartbeat", "somebody cannot tell the index: due jobs are read from MySQL",
                   DT_S("endpoints", debts.down));
        if (owed && !h->owes)
            DT_LOG(INFO, "heartbeat", "everybody can tell the index again");
        if (other || debts.losses != h->seen)
            h->env.doubt(h->env.arg);
        h->seen = debts.losses;
    }
    if ((atomic_exchange(&h->news, false) || lost) && h->env.announce)
        h->env.announce(h->env.arg);
    return status;
}

static void run(void *arg)
{
    dt_heartbeat *h = arg;
    int64_t beat_us = 0;
    const int64_t every_us = h->has_index ? EVERY_US : PLAIN_US;
    bool told = false, asked = true;
    while (!dt_thread_stopping(&h->thread)) {
        struct dt_error err = {0};
        bool beats = asked || dt_clock_mono_us(h->env.clock) - beat_us >= every_us;
        dt_status status = look(h, beats, &err);
        if (beats)
            beat_us = dt_clock_mono_us(h->env.clock);
        if (status != DT_OK && !told)
            DT_LOG(WARN, "heartbeat", "nobody is told that this process lives", DT_S("reason", err.text));
        told = status != DT_OK;
        dt_outage_look(dt_clock_mono_us(dt_clock_system()));
        int64_t now_us = dt_clock_mono_us(h->env.clock);
        uint32_t came = dt_thread_stopping(&h->thread)
                            ? DT_THREAD_STOP
                            : dt_mailbox_pause(h->mailbox, now_us + APART_US, DT_THREAD_STOP);
        if (!came)
            came = dt_mailbox_wait(h->mailbox, h->has_index ? now_us + DEBTS_US : beat_us + PLAIN_US);
        asked = came != 0;
    }
    if (h->said_elected && !told) { /* others wait for whom ZooKeeper elects, as long as its last word holds */
        struct dt_error err = {0};
        (void)beat(h, &err); /* if it fails, it is believed for DT_PROCESS_FRESH_MS */
    }
}

dt_status dt_heartbeat_start(const struct dt_heartbeat_env *env, dt_heartbeat **out, struct dt_error *err)
{
    dt_heartbeat *h = calloc(1, sizeof(*h));
    if (!h)
        return DT_NOMEM;
    h->env = *env;
    h->has_index = dt_index_configured(env->config);
    strcpy(h->down, h->has_index ? "" : "*");
    pthread_mutex_init(&h->lock, NULL);
    dt_strbuf_init(&h->leads);
    dt_status status = dt_mailbox_new(&h->mailbox);
    if (status == DT_OK)
        status = dt_store_new(env->config, NULL, &h->store);
    if (status == DT_OK)
        status = dt_thread_start(&h->thread, "heartbeat", run, h, err);
    if (status != DT_OK) {
        dt_heartbeat_stop(h);
        return status;
    }
    *out = h;
    return DT_OK;
}

void dt_heartbeat_stop(dt_heartbeat *h)
{
    if (!h)
        return;
    dt_thread_stop(&h->thread, h->mailbox);
    pthread_mutex_destroy(&h->lock);
    dt_store_free(h->store);
    dt_mailbox_free(h->mailbox);
    dt_strbuf_clear(&h->leads);
    free(h);
}

void dt_heartbeat_lost(dt_heartbeat *h, const char *down)
{
    if (!h)
        return;
    pthread_mutex_lock(&h->lock);
    h->lost_us = dt_clock_mono_us(h->env.clock);
    h->losses++;
    down = down[0] ? down : "*";
    if (!h->down[0])
        snprintf(h->down, sizeof(h->down), "%s", down);
    else if (strcmp(h->down, down) != 0 && !names(h->down, down))
        snprintf(h->down, sizeof(h->down), "*"); /* several */
    pthread_mutex_unlock(&h->lock);
    dt_mailbox_signal(h->mailbox, LOOK);
}

void dt_heartbeat_news(dt_heartbeat *h)
{
    if (h)
        dt_mailbox_signal(h->mailbox, LOOK);
}

void dt_heartbeat_announce(dt_heartbeat *h)
{
    if (!h)
        return;
    h->news = true;
    dt_mailbox_signal(h->mailbox, LOOK);
}

bool dt_heartbeat_owed(dt_heartbeat *h, const char *endpoint)
{
    if (!h || !h->owes)
        return false;
    pthread_mutex_lock(&h->lock);
    dt_assert(h->owes == (h->owed[0] != '\0'));
    bool owed = names(h->owed, endpoint);
    pthread_mutex_unlock(&h->lock);
    return owed;
}
