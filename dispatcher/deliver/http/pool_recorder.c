/*
 * The recorder: a thread that writes the outcomes of callbacks into MySQL, all that there are at a time, tells the
 * index, and tells leaders that there is room again.
 *
 * Leaders are told before the outcomes are recorded: the places came back with the answers, and the next jobs are
 * claimed while these outcomes are written. In a stream the client's thread tells one of them, in turn, whenever so
 * many places came back that they are worth a claim (pool.c); where they are fewer between two transactions, it is done
 * here. If all were told, all would look for jobs, lock their rows and find that one of them has taken the places. Who
 * was not told is told with what is answered next, or after FEW_US, or OTHERS_US.
 *
 * While many outcomes come, GATHER_US at least lie between the beginnings of two transactions, so that there are fewer
 * of them: each costs MySQL as much as ten outcomes do.
 *
 * Killed after the COMMIT, before the index was told: the reconciler. Killed before: the attempt is lost.
 */
#include <stdlib.h>

#include "base/fail_point.h"
#include "base/log.h"
#include "job/results/results.h"
#include "pool_parts.h"

#define BATCH     500
#define PAUSE_US  INT64_C(200000)
#define MANY      16 /* outcomes in a transaction: there is a stream of them */
#define GATHER_US INT64_C(20000)
#define OTHERS_US INT64_C(100000)
#define FEW_US    INT64_C(20000)

struct batch {
    struct dt_hand_answer answers[BATCH];
    size_t n;
    struct dt_shard_map map;
    int64_t others_us; /* mono: when leaders are told that were not told yet; INT64_MAX: there are none */
};

static void tell_index(dt_hands *hands, const struct batch *batch)
{
    struct dt_error err = {0};
    struct dt_entry entries[DT_WAS_MAX * BATCH];
    size_t n = 0;
    for (size_t i = 0; i < batch->n; i++) {
        const struct dt_apply *a = &batch->answers[i].apply;
        if (!batch->answers[i].held || batch->answers[i].taken || a->outcome != DT_OUTCOME_APPLIED)
            continue;
        n += dt_entries_of_move(a->result.job_id, a->next_at_ms, a->was_ms, DT_WAS_MAX, &entries[n]);
        if (a->outbox)
            hands->env.outbox(hands->env.arg, dt_shard_of(&batch->map, a->result.job_id));
    }
    int64_t horizon_ms = dt_refclock_earliest_ms(hands->env.ref) + hands->env.config->index_horizon;
    if (n == 0 || !hands->index || dt_index_put(hands->index, &batch->map, entries, n, horizon_ms, true, &err) == DT_OK)
        return;
    DT_LOG(DEBUG, "callbacks", "the index was not told", DT_S("reason", err.text));
    hands->env.index_untold(hands->env.arg, hands->index);
}

/* What is recorded leaves our hands; what is not goes back into the queue. True: all was recorded. Answers stand in
 * the order of their jobs by now. */
static bool let_go(dt_hands *hands, const struct batch *batch, bool recorded)
{
    bool all = recorded;
    pthread_mutex_lock(&hands->lock);
    for (size_t i = 0; i < batch->n; i++) {
        struct dt_callback *callback = NULL;
        const struct dt_hand_answer *answer = &batch->answers[i];
        const struct dt_hand hand = {answer->apply.result.job_id, answer->apply.result.attempt};
        bool busy = answer->held && answer->apply.outcome == DT_OUTCOME_BUSY;
        HASH_FIND(hh, hands->all, &hand, sizeof(hand), callback);
        if (callback && recorded && !busy) {
            dt_pool_forget(hands, callback);
        } else if (callback) {
            callback->next = hands->answered;
            hands->answered_end = hands->answered ? hands->answered_end : &callback->next;
            hands->answered = callback;
            all = false;
        }
    }
    pthread_mutex_unlock(&hands->lock);
    return all;
}

/* False: something is left that is tried again later. */
static bool record(dt_hands *hands, struct batch *batch)
{
    struct dt_error err = {0};
    hands->env.map(hands->env.arg, &batch->map);
    DT_FAIL_POINT("callbacks.answered");
    dt_status status = dt_store_hands_record(hands->recorder_store, &batch->map, batch->answers, batch->n, &err);
    DT_FAIL_POINT_STATUS("callbacks.recorded", status, &err);
    if (status != DT_OK) {
        dt_outage_failed(&hands->recorder_outage, DT_OUTAGE_MYSQL, "callbacks", "outcomes wait", status, &err);
        return let_go(hands, batch, false);
    }
    dt_outage_over(&hands->recorder_outage);
    dt_metric_observe(hands->meters.recorded, (double)batch->n);
    tell_index(hands, batch);
    hands->env.ended(hands->env.arg);
    return let_go(hands, batch, true);
}

void dt_pool_record(void *arg)
{
    dt_hands *hands = arg;
    struct batch *batch = calloc(1, sizeof(*batch));
    if (batch)
        batch->others_us = INT64_MAX;
    while (batch && !dt_thread_stopping(&hands->recorder)) {
        if (dt_pool_now_us(hands) >= batch->others_us) { /* nothing was answered since that others would be told with */
            batch->others_us = INT64_MAX;
            dt_pool_tell_room(hands);
        }
        batch->n = 0;
        pthread_mutex_lock(&hands->lock);
        for (; hands->answered && batch->n < BATCH; hands->answered = hands->answered->next)
            batch->answers[batch->n++] = hands->answered->answer;
        if (!hands->answered)
            hands->answered_end = &hands->answered;
        pthread_mutex_unlock(&hands->lock);
        if (batch->n == 0) {
            (void)dt_mailbox_wait(hands->recorder_mailbox, batch->others_us);
            continue;
        }
        int64_t begun_us = dt_pool_now_us(hands);
        /* Leaders are told of the places that the answers gave back. */
        const bool told = dt_pool_told_lately(hands);
        bool others = told || dt_pool_tell_some(hands, 1 + batch->n / DT_POOL_PLACES_EACH);
        batch->others_us = others ? dt_pool_now_us(hands) + (told ? FEW_US : OTHERS_US) : INT64_MAX;
        if (!record(hands, batch))
            (void)dt_mailbox_pause(hands->recorder_mailbox, dt_pool_now_us(hands) + PAUSE_US, DT_THREAD_STOP);
        else if (batch->n >= MANY && batch->n < BATCH)
            (void)dt_mailbox_pause(hands->recorder_mailbox, begun_us + GATHER_US, DT_THREAD_STOP);
    }
    free(batch);
}
