/*
 * Internals of the callbacks of a process (deliver/hands.h), shared by pool.c and pool_claims.c.
 *
 *   pool.c          start and end; two chores: one for the lease of the owner number, one for lost attempts and claims
 *                   in doubt; the recorder thread, which writes outcomes into MySQL and the index. Calls pool_claims.c
 *   pool_claims.c   attempts in the hands of this process: places that leaders take, requests for the client, and
 *                   the client's answers
 *
 * One lock protects everything that several threads change. A thread that holds the lock never waits for a server, and
 * calls neither the client nor a callback of the environment.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "base/hash.h"
#include "base/http/http_client.h"
#include "base/metrics.h"
#include "base/outage.h"
#include "base/text/json.h"
#include "base/thread.h"
#include "deliver/hands.h"
#include "dispatch/hands.h"
#include "election/elector_kind.h"
#include "http_places.h"

/* An attempt in the hands of this process: from the commit of its claim until its outcome is recorded, or until MySQL
 * has confirmed that it has no owner any more. */
struct dt_callback {
    struct dt_hand hand;   /* job id and attempt: the key in `all` */
    _Atomic int64_t owner; /* the owner number under which the attempt was claimed; changed under the lock */
    struct dt_place place;
    struct dt_arena arena; /* memory for texts of the receiver's answer */
    struct dt_hand_answer answer;
    struct dt_callback *next; /* next attempt in `answered` or `unwanted`; NULL: the last one, or in no list */
    UT_hash_handle hh;        /* entry in `all` */
};

struct dt_pool_meters {
    dt_metric *succeeded, *taken, *failed, *unknown, *seconds, *lateness, *in_hands, *recorded, *given_away;
};

struct dt_hands {
    const struct dt_process_env *env;
    bool enabled;
    dt_http_client *client; /* NULL if callbacks are not enabled */
    struct dt_pool_meters meters;

    /* The lease of the owner number, by dt_clock_boot_us, so that the lease also ends while the machine is suspended.
     * Only the renewer writes lease and number. A thread that needs both must read the lease first. */
    struct dt_lease lease;
    _Atomic int64_t owner; /* this process's owner number; 0: none */

    pthread_mutex_t lock;   /* protects all members from here to `leaving` */
    pthread_cond_t emptied; /* signalled when `all` is empty: every attempt was recorded or given away */
    dt_places *places;
    struct dt_callback *all;
    unsigned n_all;
    struct dt_callback *answered; /* attempts whose outcome waits for the recorder */
    struct dt_callback **answered_end;
    /* Attempts that were not sent, or whose outcome is unknown. The keeper removes this process as their owner, so that
     * leaders end them as lost. */
    struct dt_callback *unwanted;
    /* By shard: owner number of a claim of which it is unknown whether MySQL committed it; 0: none. */
    int64_t doubts[DT_SHARDS_MAX];
    bool some_doubt, wanted;     /* some_doubt: `doubts` has a new element; wanted: a leader needs an owner number */
    bool refused[DT_SHARDS_MAX]; /* by shard: the shard's leader was refused places, and was not woken since */
    unsigned told;               /* shard whose leader was woken last; the leaders of the shards after it are next */
    /* Number of places that were given back since the last time that a leader was woken. */
    unsigned came_back;
    bool told_lately; /* a leader was woken since the last dt_pool_told_lately */
    _Atomic bool leaving;

    /* used only by the recorder */
    dt_mailbox *recorder_mailbox;
    struct dt_thread recorder;
    dt_store *recorder_store;
    dt_index *index;
    struct dt_outage_part recorder_outage;

    struct dt_chore renewer, keeper;

    /* used only by the renewer */
    struct dt_renewals renewals; /* renewals of the owner number */
    int64_t renewed_us, used_us;

    /* used only by the keeper */
    dt_store *keeper_store; /* the store of the running tick */
    int64_t look_us;
    int64_t *lost; /* buffer for a page of lost attempts */
    struct dt_arena arena;

    dt_json *json; /* scratch of the client's thread, for reports */
};

struct dt_hands_claims {
    dt_hands *hands;
    unsigned shard;
    struct dt_place *places; /* places that the current transaction has taken */
    size_t n, cap;
    int64_t owner; /* the owner number under which the attempts are claimed */
    dt_json *json;
    struct dt_arena arena;
    struct dt_last_url last;
};

static inline int64_t dt_pool_now_us(const dt_hands *hands)
{
    return dt_clock_mono_us(hands->env->clock);
}

static inline bool dt_pool_lease_runs(const dt_hands *hands)
{
    return dt_lease_runs(&hands->lease, dt_clock_boot_us(hands->env->clock));
}

/* ---- pool_claims.c ---- */

/* Removes a callback from this process's list, and frees it. The caller holds the lock. */
void dt_pool_forget(dt_hands *hands, struct dt_callback *callback);
/* Wakes the leaders that were refused places. The caller does not hold the lock. */
void dt_pool_tell_room(dt_hands *hands);
/* Wakes up to `most` of the leaders that were refused places; they take turns. Returns whether further leaders wait. */
bool dt_pool_tell_some(dt_hands *hands, size_t most);
#define DT_POOL_PLACES_EACH 48 /* number of free places that is enough for a claim */
/* Counts a place that was given back. under_way: number of other running callbacks to the same host. The caller holds
 * the lock. When the count reaches DT_POOL_PLACES_EACH or under_way, it begins again at 0, and the call returns whether
 * a leader was refused places and should be woken. Otherwise returns false. */
bool dt_pool_came_back(dt_hands *hands, unsigned under_way);
/* Returns whether a leader was woken for returned places since the last call. If not, the count of returned places
 * begins again at 0. */
bool dt_pool_told_lately(dt_hands *hands);
/* Called by the client when a callback has ended: on the client's thread if a receiver answered, otherwise on any
 * thread. */
void dt_pool_on_answer(void *arg, void *tag, const struct dt_http_answer *answer);
/* Called by the client before it sends an attempt. Returns whether the attempt may be sent now. */
bool dt_pool_may_send(void *arg, void *tag);

/* ---- pool.c: its thread and its chores ---- */
