/*
 * What this process has in its hands: from a committed claim to an outcome that is recorded.
 *
 *   committed ─▶ all, client ──answer──▶ answered ─▶ recorder ─▶ gone
 *                   │   └── withheld, unknown ─▶ unwanted ─▶ keeper: given away ─▶ gone
 *                   └── the client does not take it ─▶ unwanted
 *
 * A place is given back when the receiver has answered; an attempt whose outcome cannot be recorded yet is bounded by
 * UNRECORDED_MAX.
 */
#include <stdlib.h>

#include "base/assert.h"
#include "base/guard.h"
#include "base/log.h"
#include "http_outcome.h"
#include "pool_parts.h"

/* ---- lists, under the lock ---- */

void dt_pool_forget(dt_hands *hands, struct dt_callback *callback)
{
    dt_assert_cmp(hands->n_all, >, 0);
    HASH_DEL(hands->all, callback);
    if (--hands->n_all == 0)
        pthread_cond_broadcast(&hands->emptied);
    dt_metric_set(hands->meters.in_hands, hands->n_all);
    dt_arena_clear(&callback->arena);
    free(callback);
}

void dt_pool_answered(dt_hands *hands, struct dt_callback *callback)
{
    pthread_mutex_lock(&hands->lock);
    callback->next = NULL;
    *hands->answered_end = callback;
    hands->answered_end = &callback->next;
    pthread_mutex_unlock(&hands->lock);
    dt_mailbox_signal(hands->recorder_mailbox, 1);
}

void dt_pool_unwanted(dt_hands *hands, struct dt_callback *callback)
{
    pthread_mutex_lock(&hands->lock);
    callback->next = hands->unwanted;
    hands->unwanted = callback;
    pthread_mutex_unlock(&hands->lock);
    dt_chore_wake(&hands->keeper);
}

void dt_pool_tell_room(dt_hands *hands)
{
    bool refused[DT_SHARDS_MAX];
    pthread_mutex_lock(&hands->lock);
    memcpy(refused, hands->refused, sizeof(hands->refused));
    memset(hands->refused, 0, sizeof(hands->refused));
    pthread_mutex_unlock(&hands->lock);
    for (unsigned shard = 0; shard < DT_SHARDS_MAX; shard++)
        if (refused[shard])
            hands->env.room(hands->env.arg, shard);
}

/* The next shard that asked in vain, behind the one that was told last; DT_SHARDS_MAX: there is none. */
static unsigned next_refused(dt_hands *hands)
{
    for (unsigned i = 1; i <= DT_SHARDS_MAX; i++) {
        unsigned shard = (hands->told + i) % DT_SHARDS_MAX;
        if (hands->refused[shard])
            return shard;
    }
    return DT_SHARDS_MAX;
}

bool dt_pool_tell_some(dt_hands *hands, size_t most)
{
    bool others = true;
    for (size_t i = 0; i < most && others; i++) {
        pthread_mutex_lock(&hands->lock);
        unsigned shard = next_refused(hands);
        if (shard < DT_SHARDS_MAX) {
            hands->refused[shard] = false;
            hands->told = shard;
        }
        others = next_refused(hands) < DT_SHARDS_MAX;
        pthread_mutex_unlock(&hands->lock);
        if (shard < DT_SHARDS_MAX)
            hands->env.room(hands->env.arg, shard);
    }
    return others;
}

bool dt_pool_told_lately(dt_hands *hands)
{
    pthread_mutex_lock(&hands->lock);
    bool told = hands->told_lately;
    hands->told_lately = false;
    hands->came_back = told ? hands->came_back : 0;
    pthread_mutex_unlock(&hands->lock);
    return told;
}

bool dt_pool_came_back(dt_hands *hands, unsigned under_way)
{
    hands->came_back++;
    if (hands->came_back < DT_POOL_PLACES_EACH && hands->came_back < under_way)
        return false;
    hands->came_back = 0;
    const bool asked = memchr(hands->refused, true, sizeof(hands->refused));
    hands->told_lately = hands->told_lately || asked;
    return asked;
}

/* ---- the client's thread ---- */

/* The lease is looked at before the number: a lease that was begun anew belongs to another number. */
bool dt_pool_may_send(void *arg, void *tag)
{
    const dt_hands *hands = arg;
    const struct dt_callback *callback = tag;
    return DT_GUARD(CALL_LEASE, dt_pool_lease_runs(hands) && callback->owner == hands->owner);
}

static enum dt_place_end place_end_of(const struct dt_http_answer *answer)
{
    if (answer->end == DT_HTTP_CONNECT || answer->status == 429 || answer->status == 503)
        return DT_PLACE_PUSHED_BACK;
    if (answer->end == DT_HTTP_WITHHELD || answer->end == DT_HTTP_UNKNOWN || answer->end == DT_HTTP_NO_URL ||
        answer->end == DT_HTTP_NO_SECRET)
        return DT_PLACE_UNUSED;
    return answer->end == DT_HTTP_ANSWERED ? DT_PLACE_ANSWERED : DT_PLACE_SILENT;
}

/* hands->json, which is the client's thread's, is used for answers of receivers only. */
void dt_pool_on_answer(void *arg, void *tag, const struct dt_http_answer *answer)
{
    dt_hands *hands = arg;
    struct dt_callback *callback = tag;
    const struct dt_pool_meters *meters = &hands->meters;
    const struct dt_callback_attempt attempt = {.job_id = callback->hand.job_id,
                                                .attempt = callback->hand.attempt,
                                                .now_ms = dt_refclock_real_earliest_ms(hands->env.ref),
                                                .max_delay_ms = hands->env.config->limits_max_delay};
    struct dt_callback_outcome outcome;
    char topic[DT_TOPIC_MAX + 1];
    pthread_mutex_lock(&hands->lock);
    const unsigned under_way = dt_place_beside(&callback->place);
    snprintf(topic, sizeof(topic), "%s", dt_place_topic(&callback->place));
    dt_places_give_back(hands->places, &callback->place, place_end_of(answer), dt_pool_now_us(hands));
    const bool enough = dt_pool_came_back(hands, under_way);
    pthread_mutex_unlock(&hands->lock);
    if (enough)
        (void)dt_pool_tell_some(hands, 1);
    if (dt_callback_outcome(answer, &attempt, hands->json, &callback->arena, &outcome) != DT_OK)
        outcome = (struct dt_callback_outcome){.kind = DT_CALLBACK_UNKNOWN}; /* memory is out */
    bool succeeded = outcome.kind == DT_CALLBACK_RESULT && outcome.result.status == DT_RESULT_SUCCEEDED;
    dt_metric_add(succeeded                            ? meters->succeeded
                  : outcome.kind == DT_CALLBACK_RESULT ? meters->failed
                  : outcome.kind == DT_CALLBACK_TAKEN  ? meters->taken
                                                       : meters->unknown,
                  1);
    dt_metric_observe(meters->seconds, (double)answer->duration_ms / 1000);
    callback->answer = (struct dt_hand_answer){.apply.result = outcome.result,
                                               .owner = callback->owner,
                                               .answer = {outcome.http_status, outcome.duration_ms},
                                               .taken = outcome.kind == DT_CALLBACK_TAKEN};
    if (outcome.fault)
        DT_LOG_PER_TOPIC(WARN, "callbacks", "a receiver's report cannot be read", dt_str(topic),
                         DT_I("job", callback->hand.job_id), DT_I("attempt", callback->hand.attempt),
                         DT_S("reason", outcome.fault));
    if (outcome.kind == DT_CALLBACK_UNKNOWN)
        dt_pool_unwanted(hands, callback);
    else
        dt_pool_answered(hands, callback);
}
