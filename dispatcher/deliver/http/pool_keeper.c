/*
 * Two chores. The renewer, which is urgent, holds the lease under which this process has attempts in its hands. The
 * keeper finds what is in nobody's hands any more, this process's and others'.
 *
 * Invariants: a number whose lease was over once is never renewed; nothing of it goes out after that. Nor is one whose
 * renewals MySQL has forgotten: it went back, and what is in hands there is not what is in ours. A claim in doubt is
 * looked for when no transaction of its leader can be under way; what MySQL has of it, and this process does not know,
 * is given away. What is given away was forgotten first by nobody: it is known until MySQL says that it is nobody's.
 */
#include <stdlib.h>

#include "base/fail_point.h"
#include "base/guard.h"
#include "base/log.h"
#include "job/job_id.h"
#include "pool_parts.h"

#define LOOK_US       INT64_C(1000000)
#define LOOK_IDLE_US  INT64_C(10000000) /* where callbacks are not enabled */
#define PAUSE_US      INT64_C(200000)
#define UNUSED_US     INT64_C(30000000) /* a number that nobody used for so long is given up */
#define GIVEN_AT_ONCE 500

static int64_t renew_every_us(const dt_hands *hands)
{
    return dt_earlier(hands->env.config->zookeeper_session_timeout * 300, 1000000);
}

/* ---- the number ---- */

/* The end of writing first: what is let through under the new end must not be shut at the old one. */
static void extend(dt_hands *hands, int64_t sent_us)
{
    dt_http_client_write_until(hands->client, sent_us + hands->lease.length_us);
    dt_lease_extend(&hands->lease, sent_us);
}

static dt_status take_number(dt_hands *hands, dt_store *store, struct dt_error *err)
{
    int64_t number = (int64_t)(hands->env.random(hands->env.arg) >> 1) | 1;
    int64_t now_us = dt_pool_now_us(hands);
    int64_t sent_us = dt_clock_boot_us(hands->env.clock);
    dt_status status =
        dt_store_hands_own(store, number, hands->env.name, hands->env.config->zookeeper_session_timeout, err);
    if (status != DT_OK)
        return status == DT_EXISTS ? DT_OK : status;
    extend(hands, sent_us);
    hands->owner = number;
    hands->renewals = (struct dt_renewals){0};
    hands->renewed_us = now_us;
    dt_pool_tell_room(hands);
    return DT_OK;
}

static void drop_number(dt_hands *hands)
{
    hands->owner = 0;
    dt_lease_end(&hands->lease);
    dt_http_client_write_over(hands->client);
}

static dt_status renew(dt_hands *hands, dt_store *store, struct dt_error *err)
{
    bool there;
    int64_t now_us = dt_pool_now_us(hands);
    int64_t sent_us = dt_clock_boot_us(hands->env.clock);
    if (!DT_GUARD(CALL_NEVER_AGAIN, dt_lease_runs(&hands->lease, sent_us))) {
        DT_LOG(WARN, "callbacks", "the lease is over: what is not on the wire is given away");
        drop_number(hands);
        return DT_OK;
    }
    if (now_us - hands->renewed_us < renew_every_us(hands))
        return DT_OK;
    DT_FAIL_POINT("callbacks.renew");
    dt_status status = dt_store_hands_renew(store, hands->owner, &hands->renewals, &there, err);
    if (status == DT_OK && there && DT_GUARD(CALL_NEVER_AGAIN, dt_pool_lease_runs(hands)))
        extend(hands, sent_us);
    else if (status == DT_OK)
        drop_number(hands);
    hands->renewed_us = now_us;
    return status;
}

/* What came into our hands meanwhile may be just being written: the number ends by its lease then. At the end of the
 * process nobody writes any more. */
static dt_status give_up(dt_hands *hands, dt_store *store, struct dt_error *err)
{
    int64_t number = hands->owner;
    drop_number(hands);
    pthread_mutex_lock(&hands->lock);
    bool any = hands->n_all > 0;
    pthread_mutex_unlock(&hands->lock);
    if (any && !hands->leaving)
        return DT_OK;
    return dt_store_hands_disown(store, number, err);
}

/* A number is kept while anything is in hands, since what is given up is lost. */
static dt_status keep_number(dt_hands *hands, dt_store *store, struct dt_error *err)
{
    pthread_mutex_lock(&hands->lock);
    if (hands->wanted || hands->n_all > 0) /* somebody needs a number, or has something in hands */
        hands->used_us = dt_pool_now_us(hands);
    hands->wanted = false;
    pthread_mutex_unlock(&hands->lock);
    bool used =
        hands->client && !hands->leaving && hands->used_us && dt_pool_now_us(hands) - hands->used_us < UNUSED_US;
    dt_status status = hands->owner ? renew(hands, store, err) : DT_OK;
    if (status != DT_OK)
        return status;
    if (used && !hands->owner)
        return take_number(hands, store, err);
    return !used && hands->owner && !hands->leaving ? give_up(hands, store, err) : DT_OK;
}

/* ---- what is given away ---- */

struct given {
    struct dt_callback *list;
    int64_t ids[GIVEN_AT_ONCE];
    size_t n;
};

/* Takes what carries one number out of the list. */
static void take_unwanted(dt_hands *hands, struct given *given)
{
    given->list = NULL;
    given->n = 0;
    pthread_mutex_lock(&hands->lock);
    int64_t owner = hands->unwanted ? hands->unwanted->owner : 0;
    while (hands->unwanted && hands->unwanted->owner == owner && given->n < GIVEN_AT_ONCE) {
        struct dt_callback *callback = hands->unwanted;
        hands->unwanted = callback->next;
        callback->next = given->list;
        given->list = callback;
        given->ids[given->n++] = callback->hand.job_id;
    }
    pthread_mutex_unlock(&hands->lock);
}

static dt_status give_away(dt_hands *hands, struct dt_error *err)
{
    struct given given;
    for (take_unwanted(hands, &given); given.n; take_unwanted(hands, &given)) {
        int64_t owner = given.list->owner;
        qsort(given.ids, given.n, sizeof(*given.ids), dt_by_job_id);
        dt_status status = dt_store_hands_give_away(hands->keeper_store, owner, given.ids, given.n, err);
        pthread_mutex_lock(&hands->lock);
        while (given.list) {
            struct dt_callback *callback = given.list;
            given.list = callback->next;
            if (status == DT_OK) {
                dt_pool_forget(hands, callback);
            } else {
                callback->next = hands->unwanted;
                hands->unwanted = callback;
            }
        }
        pthread_mutex_unlock(&hands->lock);
        if (status != DT_OK)
            return status;
        dt_metric_add(hands->meters.given_away, (int64_t)given.n);
        hands->env.lost(hands->env.arg, given.ids, given.n);
        dt_pool_tell_room(hands);
    }
    return DT_OK;
}

/* ---- claims in doubt ---- */

static dt_status find_out(dt_hands *hands, unsigned shard, int64_t owner, struct dt_error *err)
{
    struct dt_hand *v;
    size_t of_shard = 0;
    size_t n = 0;
    dt_arena_reset(&hands->arena);
    dt_status status = dt_store_hands_of_shard(hands->keeper_store, owner, shard, &hands->arena, &v, &of_shard, err);
    if (status != DT_OK)
        return status;
    int64_t *ids = dt_arena_alloc(&hands->arena, (of_shard ? of_shard : 1) * sizeof(*ids));
    if (!ids)
        return DT_NOMEM;
    /* The jobs of the attempts that are not known here. */
    pthread_mutex_lock(&hands->lock);
    for (size_t i = 0; i < of_shard; i++) {
        struct dt_callback *callback = NULL;
        HASH_FIND(hh, hands->all, &v[i], sizeof(v[i]), callback);
        if (!callback)
            ids[n++] = v[i].job_id;
    }
    pthread_mutex_unlock(&hands->lock);
    status = dt_store_hands_give_away(hands->keeper_store, owner, ids, n, err);
    if (status != DT_OK)
        return status;
    DT_LOG(INFO, "callbacks", "claims that were in doubt are found out", DT_I("shard", shard), DT_I("given_away", n));
    pthread_mutex_lock(&hands->lock);
    hands->doubts[shard] = 0;
    pthread_mutex_unlock(&hands->lock);
    if (n)
        hands->env.lost(hands->env.arg, ids, n);
    return DT_OK;
}

static dt_status find_all_out(dt_hands *hands, struct dt_error *err)
{
    pthread_mutex_lock(&hands->lock);
    bool some = hands->some_doubt;
    hands->some_doubt = false;
    pthread_mutex_unlock(&hands->lock);
    dt_status status = DT_OK;
    for (unsigned shard = 0; some && status == DT_OK && shard < DT_SHARDS_MAX; shard++) {
        pthread_mutex_lock(&hands->lock);
        int64_t owner = hands->doubts[shard];
        pthread_mutex_unlock(&hands->lock);
        status = owner ? find_out(hands, shard, owner, err) : DT_OK;
    }
    if (status == DT_OK) {
        if (some)
            dt_pool_tell_room(hands);
        return DT_OK;
    }
    pthread_mutex_lock(&hands->lock);
    hands->some_doubt = true;
    pthread_mutex_unlock(&hands->lock);
    return status;
}

/* ---- what others have lost ---- */

/* All pages: those whose shard ends none of its own (it is halted) stand in nobody's way. */
static dt_status look_for_lost(dt_hands *hands, struct dt_error *err)
{
    struct dt_lost lost = {.v = hands->lost, .limit = (size_t)hands->env.config->dispatch_batch_jobs};
    if (dt_pool_now_us(hands) < hands->look_us)
        return DT_OK;
    dt_status status = DT_OK;
    do {
        status = dt_store_hands_lost(hands->keeper_store, &lost, err);
        if (status == DT_OK && lost.n)
            hands->env.lost(hands->env.arg, lost.v, lost.n);
    } while (status == DT_OK && lost.n == lost.limit);
    /* While no process has a number, the next one loses nothing before its lease has run out. */
    int64_t lease_us = lost.owners || lost.n ? 0 : hands->env.config->zookeeper_session_timeout * 1000;
    hands->look_us = dt_pool_now_us(hands) + (hands->client ? lease_us + LOOK_US : LOOK_IDLE_US);
    dt_pool_tell_room(hands); /* that comes about with time alone */
    return status;
}

/* ---- ticks ---- */

int64_t dt_pool_renew(void *arg, void *store)
{
    dt_hands *hands = arg;
    struct dt_error err = {0};
    if (dt_chore_stopping(&hands->renewer)) { /* what is left in hands is lost at once */
        if (hands->owner && give_up(hands, store, &err) != DT_OK)
            DT_LOG(INFO, "callbacks", "what is left in hands is lost when the lease is over", DT_S("reason", err.text));
        return INT64_MAX;
    }
    const dt_status status = keep_number(hands, store, &err);
    if (status != DT_OK)
        return dt_chore_failed(&hands->renewer, DT_OUTAGE_MYSQL, "the lease is not renewed", status, &err, PAUSE_US);
    if (hands->owner)
        return hands->renewed_us + renew_every_us(hands);
    return hands->client ? dt_pool_now_us(hands) + LOOK_US : INT64_MAX;
}

int64_t dt_pool_keep(void *arg, void *store)
{
    dt_hands *hands = arg;
    struct dt_error err = {0};
    hands->keeper_store = store;
    dt_status status = find_all_out(hands, &err);
    if (status == DT_OK)
        status = give_away(hands, &err);
    if (status == DT_OK)
        status = look_for_lost(hands, &err);
    if (status != DT_OK)
        return dt_chore_failed(&hands->keeper, DT_OUTAGE_MYSQL, "lost callbacks are not found", status, &err, PAUSE_US);
    return hands->look_us;
}
