/*
 * The attempts in this process's hands, from the committed claim to the recorded outcome. all, client, answered and
 * unwanted are members of struct dt_hands (pool_parts.h):
 *
 *   committed ─▶ all, client ──answer──▶ answered ─▶ recorder ─▶ gone
 *                   │   └── withheld, unknown ─▶ unwanted ─▶ keeper: given away ─▶ gone
 *                   └── the client does not take it ─▶ unwanted
 *
 * A place is given back when the receiver has answered. UNRECORDED_MAX limits the attempts whose outcome is not
 * recorded yet.
 */

#include "base/assert.h"
#include "base/guard.h"
#include "base/log.h"
#include "callback.h"
#include "pool_parts.h"
#include "topic/topics.h"

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

/* Passes a callback that will not be sent, or whose outcome is unknown, to the keeper. Any thread. */
static void queue_unwanted_callback(dt_hands *hands, struct dt_callback *callback)
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
            hands->env->tell(hands->env->arg, shard, DT_LOOP_PLACES);
}

/* Returns the next shard that was refused places, beginning after the shard whose leader was woken last. DT_SHARDS_MAX:
 * no shard was refused places. */
static unsigned next_refused_shard(dt_hands *hands)
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
        unsigned shard = next_refused_shard(hands);
        if (shard < DT_SHARDS_MAX) {
            hands->refused[shard] = false;
            hands->told = shard;
        }
        others = next_refused_shard(hands) < DT_SHARDS_MAX;
        pthread_mutex_unlock(&hands->lock);
        if (shard < DT_SHARDS_MAX)
            hands->env->tell(hands->env->arg, shard, DT_LOOP_PLACES);
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

/* Returns whether the callback may be sent now. Reads the lease before the owner number: if a new lease began in
 * between, the number has changed too, and does not equal the callback's. */
bool dt_pool_may_send(void *arg, void *tag)
{
    const dt_hands *hands = arg;
    const struct dt_callback *callback = tag;
    return DT_GUARD(CALL_LEASE, dt_pool_lease_runs(hands) && callback->owner == hands->owner);
}

static enum dt_place_end place_end_for_answer(const struct dt_http_answer *answer)
{
    if (answer->end == DT_HTTP_CONNECT || answer->status == 429 || answer->status == 503)
        return DT_PLACE_PUSHED_BACK;
    if (answer->end == DT_HTTP_WITHHELD || answer->end == DT_HTTP_UNKNOWN || answer->end == DT_HTTP_NO_URL ||
        answer->end == DT_HTTP_NO_SECRET)
        return DT_PLACE_UNUSED;
    return answer->end == DT_HTTP_ANSWERED ? DT_PLACE_ANSWERED : DT_PLACE_SILENT;
}

/* Receives the answer to a callback. Only answers of receivers use hands->json; they arrive on the client's thread. */
void dt_pool_on_answer(void *arg, void *tag, const struct dt_http_answer *answer)
{
    dt_hands *hands = arg;
    struct dt_callback *callback = tag;
    const struct dt_pool_meters *meters = &hands->meters;
    const struct dt_callback_attempt attempt = {.job_id = callback->hand.job_id,
                                                .attempt = callback->hand.attempt,
                                                .now_ms = dt_refclock_real_earliest_ms(hands->env->ref),
                                                .max_delay_ms = hands->env->config->limits_max_delay};
    struct dt_callback_outcome outcome;
    char topic[DT_TOPIC_MAX + 1];
    pthread_mutex_lock(&hands->lock);
    const unsigned under_way = dt_place_beside(&callback->place);
    snprintf(topic, sizeof(topic), "%s", dt_place_topic(&callback->place));
    dt_places_give_back(hands->places, &callback->place, place_end_for_answer(answer), dt_pool_now_us(hands));
    const bool enough = dt_pool_came_back(hands, under_way);
    pthread_mutex_unlock(&hands->lock);
    if (enough)
        (void)dt_pool_tell_some(hands, 1);
    if (dt_callback_outcome(answer, &attempt, hands->json, &callback->arena, &outcome) != DT_OK)
        outcome = (struct dt_callback_outcome){.kind = DT_CALLBACK_UNKNOWN}; /* memory ran out */
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
    if (outcome.kind == DT_CALLBACK_UNKNOWN) {
        queue_unwanted_callback(hands, callback);
        return;
    }
    pthread_mutex_lock(&hands->lock);
    callback->next = NULL;
    *hands->answered_end = callback;
    hands->answered_end = &callback->next;
    pthread_mutex_unlock(&hands->lock);
    dt_mailbox_signal(hands->recorder_mailbox, 1);
}

/* The places that a leader transaction takes for callbacks, and the requests for the claims of that transaction. */

/* Limit of the attempts that wait for an answer or for the recorder, as a multiple of callbacks.max_in_flight. */
#define UNRECORDED_MAX 2

/* ---- places ---- */

/* Returns whether the shard may claim attempts: not without an owner number, nor while it is unknown whether MySQL
 * committed an earlier claim of the shard. The caller holds the lock. */
static bool may_claim(dt_hands *hands, unsigned shard)
{
    if (!hands->client || hands->leaving)
        return false;
    bool number = hands->owner && dt_pool_lease_runs(hands);
    bool room = hands->n_all < UNRECORDED_MAX * (uint64_t)hands->env->config->callbacks_max_in_flight;
    bool may = number && room && DT_GUARD(CALL_DOUBT_FIRST, !hands->doubts[shard]);
    hands->wanted = true;
    hands->refused[shard] = hands->refused[shard] || !may;
    return may;
}

/* Returns the key of the URL's host. Jobs without a valid URL share an empty key; their callbacks fail later. */
static struct dt_str host_key_of(dt_hands_claims *claims, struct dt_str text)
{
    return !text.p || dt_last_url_read(&claims->last, text) ? DT_STR_LIT("") : dt_str(claims->last.url.key);
}

/* Requests an owner number. The renewer takes one, and then wakes the leaders. */
static void request_owner_number(dt_hands *hands)
{
    if (hands->client && !hands->owner)
        dt_chore_wake(&hands->renewer);
}

size_t dt_hands_claims_room(dt_hands_claims *claims, int64_t owner, struct dt_str topic,
                            const struct dt_topic_callback *callback, uint32_t host)
{
    dt_hands *hands = claims->hands;
    const struct dt_place_for who = {owner, topic};
    const struct dt_str text = callback->places.url;
    size_t room = 0;
    pthread_mutex_lock(&hands->lock);
    const int64_t now_us = dt_pool_now_us(hands);
    if (may_claim(hands, claims->shard))
        room = host     ? dt_places_room_at(hands->places, host, &who, now_us)
               : text.p ? dt_places_room(hands->places, host_key_of(claims, text), &who, now_us)
                        : dt_places_room_anywhere(hands->places, &who, now_us);
    hands->refused[claims->shard] = hands->refused[claims->shard] || room == 0;
    pthread_mutex_unlock(&hands->lock);
    request_owner_number(hands);
    return room;
}

bool dt_hands_claims_open(const dt_hands_claims *claims)
{
    return claims->hands->enabled;
}

void dt_hands_claims_begin(dt_hands_claims *claims)
{
    claims->n = 0;
    claims->owner = 0;
}

enum dt_hand_place dt_hands_claims_take(void *arg, const struct dt_hand_wanted *wanted, int64_t *owner)
{
    dt_hands_claims *claims = arg;
    dt_hands *hands = claims->hands;
    const struct dt_place_for who = {wanted->topic_owner, wanted->topic};
    enum dt_hand_place taken = DT_HAND_FULL;
    struct dt_str key = host_key_of(claims, wanted->url);
    if (claims->n == claims->cap) {
        size_t cap = claims->cap ? claims->cap * 2 : 64;
        struct dt_place *places = realloc(claims->places, cap * sizeof(*places));
        if (!places)
            return DT_HAND_FULL;
        claims->places = places;
        claims->cap = cap;
    }
    pthread_mutex_lock(&hands->lock);
    const int64_t now_us = dt_pool_now_us(hands);
    /* If the owner number has changed since the transaction's first claim, the transaction gets no more places. */
    if (may_claim(hands, claims->shard) && (!claims->owner || claims->owner == hands->owner)) {
        dt_assert_cmp(claims->n, <, claims->cap);
        struct dt_place *place = &claims->places[claims->n];
        if (dt_places_take(hands->places, key, &who, wanted->bytes, now_us, place) == DT_OK) {
            claims->owner = hands->owner;
            claims->n++;
            taken = DT_HAND_TAKEN;
        } else {
            bool others = wanted->own_url && dt_places_room_anywhere(hands->places, &who, now_us);
            taken = others ? DT_HAND_FULL_THERE : DT_HAND_FULL;
        }
    }
    hands->refused[claims->shard] = hands->refused[claims->shard] || taken != DT_HAND_TAKEN;
    pthread_mutex_unlock(&hands->lock);
    if (taken == DT_HAND_TAKEN)
        *owner = claims->owner;
    else
        request_owner_number(hands);
    return taken;
}

/* Called when the transaction failed. MySQL may have committed it all the same, so the keeper looks for its claims. */
void dt_hands_claims_failed(dt_hands_claims *claims)
{
    dt_hands *hands = claims->hands;
    if (claims->n == 0 || DT_UNGUARDED(CALL_ORPHANS))
        return;
    pthread_mutex_lock(&hands->lock);
    hands->doubts[claims->shard] = claims->owner;
    hands->some_doubt = true;
    for (size_t i = 0; i < claims->n; i++)
        dt_places_give_back(hands->places, &claims->places[i], DT_PLACE_UNUSED, dt_pool_now_us(hands));
    pthread_mutex_unlock(&hands->lock);
    claims->n = 0;
    dt_chore_wake(&hands->keeper);
}

/* ---- sending ---- */

/* All that is needed to send one callback. Borrowed. */
struct sending {
    dt_hands_claims *claims;
    const struct dt_outgoing *job;
    struct dt_callback *callback;
    const struct dt_topic_callback *topic;
    struct dt_str url; /* absent if neither the job nor its topic has a URL */
    bool trusted;      /* the topic's headers and signature may be sent to this URL */
};

static dt_status send_request(const struct sending *s, const struct dt_callback_secret *secret)
{
    dt_hands_claims *claims = s->claims;
    dt_hands *hands = claims->hands;
    const int64_t now_ms = dt_refclock_latest_ms(hands->env->ref);
    const struct dt_callback_setting setting = {.installation = hands->env->installation,
                                                .headers = s->trusted ? s->topic->headers : DT_STR_NONE,
                                                .secret = secret,
                                                .ahead_ms = now_ms - dt_refclock_real_latest_ms(hands->env->ref)};
    struct dt_http_request request = {.owner = dt_place_owner(&s->callback->place),
                                      .url = s->url,
                                      .body = s->job->payload,
                                      .timeout_ms = s->topic->timeout_ms,
                                      .tag = s->callback};
    dt_arena_reset(&claims->arena);
    dt_status status = dt_request_head(s->job, &setting, now_ms, claims->json, &claims->arena, &request);
    DT_THEN(status, dt_http_client_send(hands->client, &request));
    if (status == DT_OK)
        dt_metric_observe(hands->meters.lateness, (double)(now_ms - s->job->claim.due_ms) / 1000);
    return status;
}

/* Ends a callback that can never be sent: it has failed with the reason `why`. The job may be retried. */
static void fail_callback(const struct sending *s, enum dt_http_end end, const char *why)
{
    const struct dt_http_answer answer = {.end = end, .detail = why};
    dt_pool_on_answer(s->claims->hands, s->callback, &answer);
}

static void send_signed(const struct sending *s, const struct dt_callback_secret *secret)
{
    dt_hands *hands = s->claims->hands;
    dt_status status = send_request(s, secret);
    if (status == DT_OK)
        return;
    if (status == DT_INVALID) {
        fail_callback(s, DT_HTTP_NO_URL, "no request can be made of the job");
        return;
    }
    DT_LOG(WARN, "callbacks", "a callback could not be sent; another attempt follows",
           DT_I("job", s->callback->hand.job_id), DT_I("attempt", s->callback->hand.attempt),
           DT_S("status", dt_status_name(status)));
    pthread_mutex_lock(&hands->lock);
    dt_places_give_back(hands->places, &s->callback->place, DT_PLACE_UNUSED, dt_pool_now_us(hands));
    pthread_mutex_unlock(&hands->lock);
    queue_unwanted_callback(hands, s->callback);
}

/* Records that this process has the attempt, from the commit of its claim until its outcome is recorded. NULL: memory
 * ran out, and the attempt is not recorded. */
static struct dt_callback *record_callback(dt_hands_claims *claims, const struct dt_outgoing *job,
                                           const struct dt_place *place)
{
    dt_hands *hands = claims->hands;
    struct dt_callback *callback = calloc(1, sizeof(*callback));
    if (!callback)
        return NULL;
    callback->hand.job_id = job->claim.id;
    callback->hand.attempt = job->claim.attempt;
    callback->owner = claims->owner;
    callback->place = *place;
    pthread_mutex_lock(&hands->lock);
    HASH_ADD(hh, hands->all, hand, sizeof(callback->hand), callback);
    bool added = callback->hh.tbl;
    if (added) {
        hands->n_all++;
        dt_metric_set(hands->meters.in_hands, hands->n_all);
    }
    pthread_mutex_unlock(&hands->lock);
    if (added)
        return callback;
    free(callback);
    return NULL;
}

/* Returns whether this process has the claimed attempt already. This happens if MySQL was restored to a time before the
 * attempt's first claim, and a leader claimed it again. The attempt is sent once, and its outcome counts for the new
 * claim. */
static bool is_attempt_ours_already(dt_hands_claims *claims, const struct dt_outgoing *job,
                                    const struct dt_place *place)
{
    dt_hands *hands = claims->hands;
    const struct dt_hand hand = {job->claim.id, job->claim.attempt};
    struct dt_place unused = *place;
    struct dt_callback *callback = NULL;
    pthread_mutex_lock(&hands->lock);
    HASH_FIND(hh, hands->all, &hand, sizeof(hand), callback);
    if (callback) {
        callback->owner = callback->answer.owner = claims->owner;
        dt_places_give_back(hands->places, &unused, DT_PLACE_UNUSED, dt_pool_now_us(hands));
    }
    pthread_mutex_unlock(&hands->lock);
    return callback != NULL;
}

static bool send_callback(dt_hands_claims *claims, const struct dt_outgoing *job, const struct dt_place *place,
                          const struct dt_topic_callback *topic)
{
    static const struct dt_topic_callback none = {0}; /* for a topic whose row has just been deleted */
    struct sending sending = {.claims = claims, .job = job, .topic = topic ? topic : &none};
    if (!DT_UNGUARDED(CALL_ALREADY) && is_attempt_ours_already(claims, job, place))
        return true;
    sending.callback = record_callback(claims, job, place);
    if (!sending.callback)
        return false;
    const struct dt_callback_places *places = &sending.topic->places;
    sending.url = job->callback_url.p ? job->callback_url : places->url;
    const char *why = sending.url.p ? dt_last_url_read(&claims->last, sending.url)
                                    : "neither the job nor its topic has a callback_url";
    const bool own = sending.url.p && dt_str_eq(sending.url, places->url); /* the URL is that of the topic */
    sending.trusted = !why && (own || dt_callback_place_is_listed(places, sending.url));
    if (why) {
        fail_callback(&sending, DT_HTTP_NO_URL, why);
    } else if (!sending.trusted || !sending.topic->secret.p) {
        send_signed(&sending, NULL);
    } else {
        struct dt_callback_secret secret;
        why = dt_callback_secret_read(sending.topic->secret, &secret);
        if (why) /* a manual edit has damaged the secret: the callback cannot be signed, and is not sent */
            fail_callback(&sending, DT_HTTP_NO_SECRET, why);
        else
            send_signed(&sending, &secret);
        dt_callback_secret_wipe(&secret);
    }
    return true;
}

/* Sends the claimed attempts. jobs[i] belongs to the i-th place that the transaction took. */
void dt_hands_claims_committed(dt_hands_claims *claims, const struct dt_leader_batch *claimed,
                               const dt_topic_snapshot *topics)
{
    size_t n = 0;
    while (n < claimed->n && n < claims->n &&
           send_callback(claims, &claimed->jobs[n], &claims->places[n],
                         dt_topic_snapshot_callback(topics, claimed->jobs[n].topic)))
        n++;
    if (n == claims->n) {
        claims->n = 0;
        return;
    }
    memmove(claims->places, claims->places + n, (claims->n - n) * sizeof(*claims->places));
    claims->n -= n;
    /* The keeper removes the owner from the attempts that were not passed to the client; leaders then end them as
     * lost. */
    dt_hands_claims_failed(claims);
}

dt_status dt_hands_claims_new(dt_hands *hands, unsigned shard, dt_hands_claims **out)
{
    dt_hands_claims *claims = calloc(1, sizeof(*claims));
    if (!claims)
        return DT_NOMEM;
    claims->hands = hands;
    claims->shard = shard;
    dt_status status = dt_json_new(&claims->json);
    if (status == DT_OK)
        *out = claims;
    else
        dt_hands_claims_free(claims);
    return status;
}

void dt_hands_claims_free(dt_hands_claims *claims)
{
    if (!claims)
        return;
    dt_json_free(claims->json);
    dt_arena_clear(&claims->arena);
    free(claims->places);
    free(claims);
}
