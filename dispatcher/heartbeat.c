/*
 * Owns the process's row in `processes`, and what the rows of other processes mean for the leaders of this process. A
 * loss is an index entry that could not be written.
 *
 * Invariants: a process commits a job before the job's index entry can be lost. So if the index is compared with MySQL
 * after the loss is known, the job is added. Leaders stop trusting the index before they request the compare. A process
 * that cannot write to the index loses further entries, so leaders do not trust the index meanwhile. A process without
 * an index counts as one that cannot write to it.
 */
#include "heartbeat.h"

#include <pthread.h>
#include <stdatomic.h>

#include "base/assert.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/text/strbuf.h"
#include "election/elector.h"
#include "features/doctor/process_findings.h"
#include "shard/shard_loop.h"
#include "store/processes.h"
#include "store/store.h"

#define EVERY_US INT64_C(1000000) /* time between two writes of the row */
#define PLAIN_US INT64_C(2000000) /* time between two writes if there is no index; half of DT_PROCESS_FRESH_MS */
/* Time between two reads of the rows of other processes; without Redis, only these reads show their changes. */
#define DEBTS_US INT64_C(150000)
#define DOWN_US  INT64_C(3000000)  /* for this time after a loss, the process counts as unable to write to the index */
#define STUCK_US INT64_C(60000000) /* a tick that takes longer than this is reported */
#define APART_US INT64_C(20000)    /* shortest pause between two ticks */

struct dt_heartbeat {
    const struct dt_process_env *env;
    bool has_index;
    struct dt_chore chore;
    _Atomic bool asked;   /* the row's contents have changed: the next tick writes the row */
    _Atomic bool owes;    /* `owed` is not empty */
    _Atomic bool news;    /* other processes should be notified of a change in the row */
    pthread_mutex_t lock; /* protects losses, lost_us, down and owed */
    int64_t losses;       /* number of index entries that this process could not write so far */
    int64_t lost_us;      /* mono: when this process last lost an index entry */
    char down[256];       /* endpoints that this process could not write to lately; "*": all */
    char owed[1024];      /* endpoints to which some process cannot write */
    int64_t told;         /* value of `losses` that the leaders of this process know */
    uint64_t seen;        /* hash of the other processes' rows as last read */
    struct dt_strbuf leads;
    bool elected;      /* this process has the loop of at least one shard */
    bool said_elected; /* the row in MySQL may say that the process is elected */
    bool waits_kafka, waits_redis;
    int64_t beat_us;   /* mono: when the row was written last; 0 = never */
    bool failed;       /* the last tick failed */
    const char *stuck; /* name of a chore whose tick takes too long, as reported; NULL: none */
    dt_metric *longest;
};

static bool names_endpoint(const char *list, const char *endpoint)
{
    size_t n = strlen(endpoint);
    for (const char *p = list; *p; p += strcspn(p, ","), p += *p == ',')
        if (*p == '*' || (strncmp(p, endpoint, n) == 0 && (p[n] == ',' || p[n] == '\0')))
            return true;
    return false;
}

/* Returns this process's losses, and its endpoints that are down, for the row. If there was no loss for DOWN_US, no
 * endpoint counts as down. */
static int64_t copy_own_losses(dt_heartbeat *h, char down[static sizeof(h->down)])
{
    pthread_mutex_lock(&h->lock);
    if (dt_clock_mono_us(h->env->clock) - h->lost_us >= DOWN_US)
        strcpy(h->down, h->has_index ? "" : "*");
    memcpy(down, h->down, sizeof(h->down));
    int64_t losses = h->losses;
    pthread_mutex_unlock(&h->lock);
    return losses;
}

static dt_status write_process_row(dt_heartbeat *h, dt_store *store, struct dt_error *err)
{
    char down[sizeof(h->down)];
    int64_t losses = copy_own_losses(h, down);
    struct dt_loop_state state;
    dt_strbuf_reset(&h->leads);
    h->elected = h->waits_redis = false;
    h->waits_kafka = *h->env->kafka_away;
    for (unsigned shard = 0, all = h->env->shards(h->env->arg); shard < all; shard++)
        if (h->env->state(h->env->arg, shard, &state)) {
            h->elected = true;
            if (state.leading)
                dt_strbuf_addf(&h->leads, "%s%u", h->leads.n ? "," : "", shard);
            h->waits_kafka |= state.waiting && strcmp(state.waiting, "kafka") == 0;
            h->waits_redis |= state.waiting && strcmp(state.waiting, "redis") == 0;
        }
    dt_strbuf_addc(&h->leads, '\0');
    if (h->leads.failed)
        return DT_NOMEM;
    struct dt_process row = {.id = h->env->process,
                             .dispatcher = true,
                             .name = h->env->owner,
                             .index_down = down[0] ? down : NULL,
                             .index_losses = losses,
                             .leads = h->leads.p,
                             .waits = h->waits_kafka && h->waits_redis ? "kafka,redis"
                                      : h->waits_kafka                 ? "kafka"
                                      : h->waits_redis                 ? "redis"
                                                                       : NULL,
                             .elected_by = h->elected ? dt_elector_name(h->env->config) : NULL};
    dt_status status = dt_store_beat(store, &row, err);
    if (status == DT_OK && h->said_elected != h->elected) /* other processes wait for this change of the row */
        h->news = true;
    if (status == DT_OK || h->elected)
        h->said_elected = h->elected;
    return status;
}

static dt_status read_processes(dt_heartbeat *h, dt_store *store, bool beats, struct dt_error *err)
{
    struct dt_index_debts debts;
    char down[sizeof(h->down)];
    int64_t losses = copy_own_losses(h, down);
    bool lost = losses != h->told;
    dt_assert_cmp(losses, >=, h->told);
    h->told = losses;
    if (lost) /* the process knows its own losses without reading them */
        h->env->doubt(h->env->arg);
    dt_status status = beats || lost ? write_process_row(h, store, err) : DT_OK;
    if (status == DT_OK && h->has_index)
        status = dt_store_index_debts(store, &debts, err);
    if (status == DT_OK && h->has_index) {
        const bool owed = h->owes;
        pthread_mutex_lock(&h->lock);
        bool other = strcmp(h->owed, debts.down) != 0;
        snprintf(h->owed, sizeof(h->owed), "%s", debts.down);
        h->owes = debts.down[0] != '\0';
        pthread_mutex_unlock(&h->lock);
        if (!owed && h->owes)
            DT_LOG(WARN, "heartbeat", "a process cannot write to the index: due jobs are read from MySQL",
                   DT_S("endpoints", debts.down));
        if (owed && !h->owes)
            DT_LOG(INFO, "heartbeat", "all processes can write to the index again");
        if (other || debts.losses != h->seen)
            h->env->doubt(h->env->arg);
        h->seen = debts.losses;
    }
    if (atomic_exchange(&h->news, false) || lost)
        h->env->announce(h->env->arg);
    return status;
}

/* Reports a tick of another chore that takes too long, and later that it has returned. */
static dt_status check_chores(dt_heartbeat *h, dt_store *store, struct dt_error *err)
{
    const char *name = NULL;
    const int64_t us = dt_chores_longest_us(h->env->chores, &name);
    dt_metric_set(h->longest, (double)us / 1e6);
    if (us < STUCK_US)
        name = NULL;
    if (name == h->stuck)
        return DT_OK;
    if (name)
        DT_LOG(WARN, "heartbeat", "a chore's tick has not returned", DT_S("chore", name),
               DT_I("seconds", us / 1000000));
    const dt_status status = dt_store_put_stuck(store, h->env->process, name, us / 1000000, err);
    if (status == DT_OK)
        h->stuck = name;
    return status;
}

static int64_t tick_heartbeat(void *arg, void *store)
{
    dt_heartbeat *h = arg;
    struct dt_error err = {0};
    /* Other processes must not wait for this one: its row must not say that it is elected. */
    if (dt_chore_stopping(&h->chore)) {
        if (h->said_elected && !h->failed)
            /* If the write fails, other processes wait until the row expires (DT_PROCESS_FRESH_MS). */
            (void)write_process_row(h, store, &err);
        return INT64_MAX;
    }
    const int64_t every_us = h->has_index ? EVERY_US : PLAIN_US;
    const bool beats = atomic_exchange(&h->asked, false) || dt_clock_mono_us(h->env->clock) - h->beat_us >= every_us;
    dt_status status = read_processes(h, store, beats, &err);
    DT_THEN(status, check_chores(h, store, &err));
    if (beats)
        h->beat_us = dt_clock_mono_us(h->env->clock);
    dt_outage_look(dt_clock_mono_us(dt_clock_system()));
    h->failed = status != DT_OK;
    if (h->failed && beats)
        atomic_store(&h->asked, true);
    if (h->failed)
        return dt_chore_failed(&h->chore, DT_OUTAGE_MYSQL, "the heartbeat is not written", status, &err, DEBTS_US);
    const int64_t now_us = dt_clock_mono_us(h->env->clock);
    h->chore.not_before_us = now_us + APART_US;
    return h->has_index ? now_us + DEBTS_US : h->beat_us + PLAIN_US;
}

dt_status dt_heartbeat_start(const struct dt_process_env *env, dt_heartbeat **out)
{
    dt_heartbeat *h = *out = calloc(1, sizeof(*h));
    if (!h)
        return DT_NOMEM;
    h->env = env;
    h->has_index = dt_index_configured(env->config);
    h->asked = true;
    strcpy(h->down, h->has_index ? "" : "*");
    pthread_mutex_init(&h->lock, NULL);
    h->longest =
        dt_gauge("duetime_chore_longest_seconds", "Age of the oldest running tick of a chore; 0: none runs.", "");
    h->chore = (struct dt_chore){.name = "heartbeat", .tick = tick_heartbeat, .arg = h, .last = true};
    dt_chores_add(env->urgent, &h->chore);
    return DT_OK;
}

void dt_heartbeat_stop(dt_heartbeat *h)
{
    if (!h)
        return;
    dt_chore_remove(&h->chore);
    pthread_mutex_destroy(&h->lock);
    dt_strbuf_clear(&h->leads);
    free(h);
}

void dt_heartbeat_news(dt_heartbeat *h)
{
    if (!h)
        return;
    h->asked = true;
    dt_chore_wake(&h->chore);
}

void dt_heartbeat_lost(dt_heartbeat *h, const char *down)
{
    if (!h)
        return;
    pthread_mutex_lock(&h->lock);
    h->lost_us = dt_clock_mono_us(h->env->clock);
    h->losses++;
    down = down[0] ? down : "*";
    if (!h->down[0])
        snprintf(h->down, sizeof(h->down), "%s", down);
    else if (strcmp(h->down, down) != 0 && !names_endpoint(h->down, down))
        snprintf(h->down, sizeof(h->down), "*"); /* several endpoints failed */
    pthread_mutex_unlock(&h->lock);
    dt_heartbeat_news(h);
}

void dt_heartbeat_announce(dt_heartbeat *h)
{
    if (h)
        h->news = true;
    dt_heartbeat_news(h);
}

bool dt_heartbeat_owed(dt_heartbeat *h, const char *endpoint)
{
    if (!h || !h->owes)
        return false;
    pthread_mutex_lock(&h->lock);
    dt_assert(h->owes == (h->owed[0] != '\0'));
    bool owed = names_endpoint(h->owed, endpoint);
    pthread_mutex_unlock(&h->lock);
    return owed;
}
