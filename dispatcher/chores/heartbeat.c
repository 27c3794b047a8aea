/*
 * Owns the process's row in `processes`, and what the rows of the others mean for the leaders here.
 *
 * Invariants: whoever loses an entry has committed its job before, so an index that is compared with MySQL after its
 * loss is known has it. Leaders stop believing the index before the compare is asked for; while a writer is down they
 * go on so, since it loses more.
 */
#include "heartbeat.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mailbox.h"
#include "base/strbuf.h"
#include "base/thread.h"
#include "store/store.h"

#define EVERY_US INT64_C(1000000) /* the row is written */
#define DEBTS_US                                                                                                       \
    INT64_C(150000)               /* and those of the others are looked at: who is cut off from Redis has no other way \
                                   */
#define DOWN_US  INT64_C(3000000) /* a writer here that lost something so short a time ago may lose more */
#define APART_US INT64_C(20000)   /* looks, however much there is to tell */

enum { LOOK = 1 }; /* a signal */

struct dt_heartbeat {
    struct dt_heartbeat_env env;
    dt_store *store;
    dt_mailbox *mailbox;
    struct dt_thread thread;
    _Atomic bool owes;    /* owes: owed is not empty */
    pthread_mutex_t lock; /* of the next four */
    int64_t losses;       /* of this process */
    int64_t lost_us;      /* mono */
    char down[256];       /* where: all that failed since it was well the last time */
    char owed[1024];      /* endpoints that somebody cannot write to */
    int64_t told;         /* losses that the leaders here know of */
    uint64_t seen;        /* of the table, as it was read last */
    struct dt_strbuf leads;
    bool waits_kafka, waits_redis;
};

static void list_led(dt_heartbeat *p)
{
    struct dt_loop_state state;
    dt_strbuf_reset(&p->leads);
    p->waits_kafka = p->waits_redis = false;
    for (unsigned shard = 0, all = p->env.shards(p->env.arg); shard < all; shard++)
        if (p->env.state(p->env.arg, shard, &state)) {
            if (state.leading)
                dt_strbuf_addf(&p->leads, "%s%u", p->leads.n ? "," : "", shard);
            p->waits_kafka |= state.waiting && strcmp(state.waiting, "kafka") == 0;
            p->waits_redis |= state.waiting && strcmp(state.waiting, "redis") == 0;
        }
    dt_strbuf_addc(&p->leads, '\0');
}

/* A list of endpoints has this one. */
static bool names(const char *list, const char *endpoint)
{
    size_t n = strlen(endpoint);
    for (const char *p = list; *p; p += strcspn(p, ","), p += *p == ',')
        if (*p == '*' || (strncmp(p, endpoint, n) == 0 && (p[n] == ',' || p[n] == '\0')))
            return true;
    return false;
}

/* What the row says of this process; well again after a while without a loss. */
static int64_t own_losses(dt_heartbeat *p, char down[static sizeof(p->down)])
{
    pthread_mutex_lock(&p->lock);
    if (dt_clock_mono_us(p->env.clock) - p->lost_us >= DOWN_US)
        p->down[0] = '\0';
    memcpy(down, p->down, sizeof(p->down));
    int64_t losses = p->losses;
    pthread_mutex_unlock(&p->lock);
    return losses;
}

static dt_status beat(dt_heartbeat *p, struct dt_error *err)
{
    char down[sizeof(p->down)];
    int64_t losses = own_losses(p, down);
    list_led(p);
    if (p->leads.failed)
        return DT_NOMEM;
    struct dt_process row = {.id = p->env.id,
                             .dispatcher = true,
                             .name = p->env.name,
                             .index_down = down[0] ? down : NULL,
                             .index_losses = losses,
                             .leads = p->leads.p,
                             .waits = p->waits_kafka && p->waits_redis ? "kafka,redis"
                                      : p->waits_kafka                 ? "kafka"
                                      : p->waits_redis                 ? "redis"
                                                                       : NULL};
    return dt_store_beat(p->store, &row, err);
}

/* True: another list than before. */
static bool owe(dt_heartbeat *p, const char *down)
{
    pthread_mutex_lock(&p->lock);
    bool news = strcmp(p->owed, down) != 0;
    snprintf(p->owed, sizeof(p->owed), "%s", down);
    p->owes = down[0] != '\0';
    pthread_mutex_unlock(&p->lock);
    return news;
}

/* What happened here need not be read first. */
static bool tell_own_losses(dt_heartbeat *p)
{
    char down[sizeof(p->down)];
    int64_t losses = own_losses(p, down);
    if (losses == p->told)
        return false;
    p->told = losses;
    p->env.doubt(p->env.arg);
    return true;
}

static void take_debts(dt_heartbeat *p, const struct dt_index_debts *debts)
{
    bool owed = p->owes, news = owe(p, debts->down);
    if (!owed && debts->down[0])
        DT_LOG(WARN, "heartbeat", "somebody cannot tell the index: due jobs are read from MySQL",
               DT_S("endpoints", debts->down));
    if (owed && !debts->down[0])
        DT_LOG(INFO, "heartbeat", "everybody can tell the index again");
    if (news || debts->losses != p->seen)
        p->env.doubt(p->env.arg);
    p->seen = debts->losses;
}

static dt_status look(dt_heartbeat *p, bool beats, struct dt_error *err)
{
    struct dt_index_debts debts;
    bool lost = tell_own_losses(p);
    dt_status status = beats || lost ? beat(p, err) : DT_OK;
    if (status == DT_OK)
        status = dt_store_index_debts(p->store, &debts, err);
    if (status == DT_OK)
        take_debts(p, &debts);
    if (lost)
        p->env.announce(p->env.arg);
    return status;
}

static void run(void *arg)
{
    dt_heartbeat *p = arg;
    int64_t beat_us = 0;
    bool told = false, asked = true;
    while (!dt_thread_stopping(&p->thread)) {
        struct dt_error err = {0};
        bool beats = asked || dt_clock_mono_us(p->env.clock) - beat_us >= EVERY_US;
        dt_status status = look(p, beats, &err);
        if (beats)
            beat_us = dt_clock_mono_us(p->env.clock);
        if (status != DT_OK && !told)
            DT_LOG(WARN, "heartbeat", "nobody is told that this process lives", DT_S("reason", err.text));
        told = status != DT_OK;
        int64_t now_us = dt_clock_mono_us(p->env.clock);
        uint32_t came = dt_thread_stopping(&p->thread)
                            ? DT_THREAD_STOP
                            : dt_mailbox_pause(p->mailbox, now_us + APART_US, DT_THREAD_STOP);
        if (!came)
            came = dt_mailbox_wait(p->mailbox, now_us + DEBTS_US);
        asked = came != 0;
    }
}

static void free_parts(dt_heartbeat *p)
{
    pthread_mutex_destroy(&p->lock);
    dt_store_free(p->store);
    dt_mailbox_free(p->mailbox);
    dt_strbuf_clear(&p->leads);
    free(p);
}

dt_status dt_heartbeat_start(const struct dt_heartbeat_env *env, dt_heartbeat **out, struct dt_error *err)
{
    dt_heartbeat *p = calloc(1, sizeof(*p));
    if (!p)
        return DT_NOMEM;
    p->env = *env;
    pthread_mutex_init(&p->lock, NULL);
    dt_strbuf_init(&p->leads);
    dt_status status = dt_mailbox_new(&p->mailbox);
    if (status == DT_OK)
        status = dt_store_new(env->config, NULL, &p->store);
    if (status == DT_OK)
        status = dt_thread_start(&p->thread, "heartbeat", run, p, err);
    if (status != DT_OK) {
        free_parts(p);
        return status;
    }
    *out = p;
    return DT_OK;
}

void dt_heartbeat_stop(dt_heartbeat *p)
{
    if (!p)
        return;
    dt_thread_stop(&p->thread, p->mailbox);
    free_parts(p);
}

static void add_down(dt_heartbeat *p, const char *down)
{
    if (!p->down[0])
        snprintf(p->down, sizeof(p->down), "%s", down);
    else if (strcmp(p->down, down) != 0 && !names(p->down, down))
        snprintf(p->down, sizeof(p->down), "*"); /* several */
}

void dt_heartbeat_lost(dt_heartbeat *p, const char *down)
{
    if (!p)
        return;
    pthread_mutex_lock(&p->lock);
    p->lost_us = dt_clock_mono_us(p->env.clock);
    p->losses++;
    add_down(p, down[0] ? down : "*");
    pthread_mutex_unlock(&p->lock);
    dt_mailbox_signal(p->mailbox, LOOK);
}

void dt_heartbeat_news(dt_heartbeat *p)
{
    if (p)
        dt_mailbox_signal(p->mailbox, LOOK);
}

bool dt_heartbeat_owed(dt_heartbeat *p, const char *endpoint)
{
    if (!p || !p->owes)
        return false;
    pthread_mutex_lock(&p->lock);
    bool owed = names(p->owed, endpoint);
    pthread_mutex_unlock(&p->lock);
    return owed;
}
