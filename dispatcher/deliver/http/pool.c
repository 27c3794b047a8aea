/*
 * The life of a process's callbacks: two chores, the recorder thread, and how these start and end.
 *
 * The renewer, an urgent chore, renews the lease of the process's owner number, a random number under which attempts
 * are claimed into the hands of this process. The keeper, another chore, finds lost attempts of any process, and claims
 * in doubt.
 *
 * Invariants: after its lease ended, an owner number is never renewed, and nothing is sent under it. The same holds if
 * MySQL does not have the number any more, because MySQL was restored from an older copy, whose rows are not our
 * attempts. If it is unknown whether MySQL committed a claim, the keeper looks for the claim when no transaction of its
 * leader can run. It gives away the attempts that MySQL has and this process does not know: it removes their owner in
 * MySQL, so that a leader ends them as lost. An attempt stays in this process's list until MySQL has confirmed that it
 * was given away.
 */

#include "base/fail_point.h"
#include "base/guard.h"
#include "base/log.h"
#include "job/job.h"
#include "job/results/results.h"
#include "pool_parts.h"
#include "shard/shard_loop.h"

#define LOOK_US       INT64_C(1000000)
#define LOOK_IDLE_US  INT64_C(10000000) /* pause between two searches for lost attempts if callbacks are not enabled */
#define PAUSE_US      INT64_C(200000)
#define UNUSED_US     INT64_C(30000000) /* an owner number without attempts is given up after this time */
#define GIVEN_AT_ONCE 500

static int64_t renew_every_us(const dt_hands *hands)
{
    return dt_earlier(hands->env->config->zookeeper_session_timeout * 300, 1000000);
}

/* ---- the number ---- */

/* Extends the lease. The client's write deadline is extended first, so that a request which starts under the extended
 * lease is not cut off at the old deadline. */
static void extend_lease(dt_hands *hands, int64_t sent_us)
{
    dt_http_client_write_until(hands->client, sent_us + hands->lease.length_us);
    dt_lease_extend(&hands->lease, sent_us);
}

static dt_status acquire_owner_number(dt_hands *hands, dt_store *store, struct dt_error *err)
{
    int64_t number = (int64_t)(hands->env->random() >> 1) | 1;
    int64_t now_us = dt_pool_now_us(hands);
    int64_t sent_us = dt_clock_boot_us(hands->env->clock);
    dt_status status =
        dt_store_hands_own(store, number, hands->env->owner, hands->env->config->zookeeper_session_timeout, err);
    if (status != DT_OK)
        return status == DT_EXISTS ? DT_OK : status;
    extend_lease(hands, sent_us);
    hands->owner = number;
    hands->renewals = (struct dt_renewals){0};
    hands->renewed_us = now_us;
    dt_pool_tell_room(hands);
    return DT_OK;
}

static void forget_owner_number(dt_hands *hands)
{
    hands->owner = 0;
    dt_lease_end(&hands->lease);
    dt_http_client_write_over(hands->client);
}

static dt_status renew_owner_number(dt_hands *hands, dt_store *store, struct dt_error *err)
{
    bool there;
    int64_t now_us = dt_pool_now_us(hands);
    int64_t sent_us = dt_clock_boot_us(hands->env->clock);
    if (!DT_GUARD(CALL_NEVER_AGAIN, dt_lease_runs(&hands->lease, sent_us))) {
        DT_LOG(WARN, "callbacks", "the lease has ended: callbacks that were not sent are released");
        forget_owner_number(hands);
        return DT_OK;
    }
    if (now_us - hands->renewed_us < renew_every_us(hands))
        return DT_OK;
    DT_FAIL_POINT("callbacks.renew");
    dt_status status = dt_store_hands_renew(store, hands->owner, &hands->renewals, &there, err);
    if (status == DT_OK && there && DT_GUARD(CALL_NEVER_AGAIN, dt_pool_lease_runs(hands)))
        extend_lease(hands, sent_us);
    else if (status == DT_OK)
        forget_owner_number(hands);
    hands->renewed_us = now_us;
    return status;
}

/* Gives up the owner number. If this process still has attempts, because a leader has just claimed some, the number's
 * row is not deleted but expires with its lease, so that no attempt is ended as lost while it is being sent. At the end
 * of the process nothing is sent any more, so the row is deleted at once. */
static dt_status release_owner_number(dt_hands *hands, dt_store *store, struct dt_error *err)
{
    int64_t number = hands->owner;
    forget_owner_number(hands);
    pthread_mutex_lock(&hands->lock);
    bool any = hands->n_all > 0;
    pthread_mutex_unlock(&hands->lock);
    if (any && !hands->leaving)
        return DT_OK;
    return dt_store_hands_disown(store, number, err);
}

/* Takes, renews or gives up the owner number. The number is kept while this process has attempts that are not recorded,
 * because leaders end the attempts of a number that was given up as lost. */
static dt_status update_owner_number(dt_hands *hands, dt_store *store, struct dt_error *err)
{
    pthread_mutex_lock(&hands->lock);
    if (hands->wanted || hands->n_all > 0)
        hands->used_us = dt_pool_now_us(hands);
    hands->wanted = false;
    pthread_mutex_unlock(&hands->lock);
    bool used =
        hands->client && !hands->leaving && hands->used_us && dt_pool_now_us(hands) - hands->used_us < UNUSED_US;
    dt_status status = hands->owner ? renew_owner_number(hands, store, err) : DT_OK;
    if (status != DT_OK)
        return status;
    if (used && !hands->owner)
        return acquire_owner_number(hands, store, err);
    return !used && hands->owner && !hands->leaving ? release_owner_number(hands, store, err) : DT_OK;
}

/* ---- attempts that are given away ---- */

struct given {
    struct dt_callback *list;
    int64_t ids[GIVEN_AT_ONCE];
    size_t n;
};

static void take_unwanted_callbacks(dt_hands *hands, struct given *given)
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

static dt_status return_unwanted_attempts(dt_hands *hands, struct dt_error *err)
{
    struct given given;
    for (take_unwanted_callbacks(hands, &given); given.n; take_unwanted_callbacks(hands, &given)) {
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
        hands->env->lost(hands->env->arg, given.ids, given.n);
        dt_pool_tell_room(hands);
    }
    return DT_OK;
}

/* ---- claims in doubt ---- */

static dt_status resolve_claim_in_doubt(dt_hands *hands, unsigned shard, int64_t owner, struct dt_error *err)
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
    /* Collects the jobs of those attempts that this process does not know. */
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
    DT_LOG(INFO, "callbacks", "attempts whose claim had an unknown outcome were released", DT_I("shard", shard),
           DT_I("released", n));
    pthread_mutex_lock(&hands->lock);
    hands->doubts[shard] = 0;
    pthread_mutex_unlock(&hands->lock);
    if (n)
        hands->env->lost(hands->env->arg, ids, n);
    return DT_OK;
}

static dt_status resolve_claims_in_doubt(dt_hands *hands, struct dt_error *err)
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
        status = owner ? resolve_claim_in_doubt(hands, shard, owner, err) : DT_OK;
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

/* ---- attempts that other processes have lost ---- */

/* Finds lost attempts. Reads all pages, because lost attempts of halted shards stay on the first pages. */
static dt_status find_lost_attempts(dt_hands *hands, struct dt_error *err)
{
    struct dt_lost lost = {.v = hands->lost, .limit = (size_t)hands->env->config->dispatch_batch_jobs};
    if (dt_pool_now_us(hands) < hands->look_us)
        return DT_OK;
    dt_status status = DT_OK;
    do {
        status = dt_store_hands_lost(hands->keeper_store, &lost, err);
        if (status == DT_OK && lost.n)
            hands->env->lost(hands->env->arg, lost.v, lost.n);
    } while (status == DT_OK && lost.n == lost.limit);
    /* If no process has an owner number, no attempt can be lost before the lease of the next number has ended. */
    int64_t lease_us = lost.owners || lost.n ? 0 : hands->env->config->zookeeper_session_timeout * 1000;
    hands->look_us = dt_pool_now_us(hands) + (hands->client ? lease_us + LOOK_US : LOOK_IDLE_US);
    dt_pool_tell_room(hands); /* wakes leaders: places may also become free with time, without an event */
    return status;
}

/* ---- ticks ---- */

static int64_t tick_number_renewer(void *arg, void *store)
{
    dt_hands *hands = arg;
    struct dt_error err = {0};
    /* Gives up the owner number at the end of the process: leaders then end its remaining attempts as lost. */
    if (dt_chore_stopping(&hands->renewer)) {
        if (hands->owner && release_owner_number(hands, store, &err) != DT_OK)
            DT_LOG(INFO, "callbacks", "the attempts of this process will be lost when its lease ends",
                   DT_S("reason", err.text));
        return INT64_MAX;
    }
    const dt_status status = update_owner_number(hands, store, &err);
    if (status != DT_OK)
        return dt_chore_failed(&hands->renewer, DT_OUTAGE_MYSQL, "the lease is not renewed", status, &err, PAUSE_US);
    if (hands->owner)
        return hands->renewed_us + renew_every_us(hands);
    return hands->client ? dt_pool_now_us(hands) + LOOK_US : INT64_MAX;
}

static int64_t tick_attempt_keeper(void *arg, void *store)
{
    dt_hands *hands = arg;
    struct dt_error err = {0};
    hands->keeper_store = store;
    dt_status status = resolve_claims_in_doubt(hands, &err);
    DT_THEN(status, return_unwanted_attempts(hands, &err));
    DT_THEN(status, find_lost_attempts(hands, &err));
    if (status != DT_OK)
        return dt_chore_failed(&hands->keeper, DT_OUTAGE_MYSQL, "lost callbacks are not found", status, &err, PAUSE_US);
    return hands->look_us;
}

/*
 * ---- the recorder ----
 *
 * A thread that writes outcomes of callbacks into MySQL in batches, updates the index, and notifies leaders of free
 * places.
 *
 * Leaders are notified before the outcomes are recorded, because an answer already gives its place back: leaders claim
 * the next jobs while the outcomes are written. In a stream of answers, the client's thread wakes the leaders one after
 * the other, each time that enough places for a claim were given back (pool_claims.c). If fewer places were given back
 * between two transactions of the recorder, the recorder wakes a leader. Not all leaders are woken at once: all would
 * look for jobs and lock rows, but only one would get the places. The other leaders are woken after the next answers,
 * or after FEW_US or OTHERS_US.
 *
 * In a stream of answers, transactions begin at least GATHER_US apart, so that there are fewer transactions: each costs
 * MySQL as much as ten outcomes.
 *
 * If the process is killed after the COMMIT and before the update of the index, the reconciler repairs the index. If it
 * is killed before the COMMIT, the attempt is lost.
 */

#define BATCH     500
#define MANY      16 /* from this number of outcomes in a transaction on, answers count as a stream */
#define GATHER_US INT64_C(20000)
#define OTHERS_US INT64_C(100000)
#define FEW_US    INT64_C(20000)

struct batch {
    struct dt_hand_answer answers[BATCH];
    size_t n;
    struct dt_shard_map map;
    int64_t others_us; /* mono: when the leaders that still wait for places are woken; INT64_MAX: no leader waits */
};

static void update_index(dt_hands *hands, const struct batch *batch)
{
    struct dt_entry entries[DT_WAS_MAX * BATCH];
    size_t n = 0;
    for (size_t i = 0; i < batch->n; i++)
        if (batch->answers[i].held && !batch->answers[i].taken)
            n += dt_process_entries_of(hands->env, &batch->map, &batch->answers[i].apply, &entries[n]);
    dt_process_tell_index(hands->env, hands->index, &batch->map, entries, n, true);
}

/* Removes the attempts whose outcome is recorded from this process's list, and returns all other attempts of the batch
 * to the queue of answers. Returns whether all outcomes were recorded. */
static bool release_recorded_attempts(dt_hands *hands, const struct batch *batch, bool recorded)
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

/* Writes a batch into MySQL and the index. Returns false if some outcomes were not recorded; the recorder tries these
 * again. */
static bool record_batch(dt_hands *hands, struct batch *batch)
{
    struct dt_error err = {0};
    hands->env->map(hands->env->arg, &batch->map);
    DT_FAIL_POINT("callbacks.answered");
    dt_status status = dt_store_hands_record(hands->recorder_store, &batch->map, batch->answers, batch->n, &err);
    DT_FAIL_POINT_STATUS("callbacks.recorded", status, &err);
    if (status != DT_OK) {
        dt_outage_failed(&hands->recorder_outage, DT_OUTAGE_MYSQL, "callbacks",
                         "outcomes of callbacks are not recorded", status, &err);
        return release_recorded_attempts(hands, batch, false);
    }
    dt_outage_over(&hands->recorder_outage);
    dt_metric_observe(hands->meters.recorded, (double)batch->n);
    update_index(hands, batch);
    dt_room_news(hands->env->room);
    return release_recorded_attempts(hands, batch, true);
}

static void run_recorder(void *arg)
{
    dt_hands *hands = arg;
    struct batch *batch = calloc(1, sizeof(*batch));
    if (batch)
        batch->others_us = INT64_MAX;
    while (batch && !dt_thread_stopping(&hands->recorder)) {
        if (dt_pool_now_us(hands) >= batch->others_us) { /* no answer has woken the waiting leaders: wakes them */
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
        const bool told = dt_pool_told_lately(hands);
        bool others = told || dt_pool_tell_some(hands, 1 + batch->n / DT_POOL_PLACES_EACH);
        batch->others_us = others ? dt_pool_now_us(hands) + (told ? FEW_US : OTHERS_US) : INT64_MAX;
        if (!record_batch(hands, batch))
            (void)dt_mailbox_pause(hands->recorder_mailbox, dt_pool_now_us(hands) + PAUSE_US, DT_THREAD_STOP);
        else if (batch->n >= MANY && batch->n < BATCH)
            (void)dt_mailbox_pause(hands->recorder_mailbox, begun_us + GATHER_US, DT_THREAD_STOP);
    }
    free(batch);
}

/* ---- start and end: stops claims, waits for running callbacks, gives the others away ---- */

#define DRAIN_US INT64_C(10000000) /* longest wait for running callbacks at the end of the process */
/* Longest wait, after the running callbacks have ended, until MySQL has recorded their outcomes. */
#define RECORD_US INT64_C(3000000)

static dt_status make_http_client(dt_hands *hands, struct dt_error *err)
{
    const struct dt_config *config = hands->env->config;
    struct dt_http_settings settings = {.max_in_flight = (unsigned)config->callbacks_max_in_flight,
                                        .max_bytes = SIZE_MAX, /* no limit, because http_places.c limits the bytes */
                                        .ca_file = config->callbacks_ca_file,
                                        .allow_hosts = dt_str(config->callbacks_allow_hosts),
                                        .clock = hands->env->clock,
                                        .answered = dt_pool_on_answer,
                                        .may_send = dt_pool_may_send,
                                        .arg = hands};
    dt_status status = dt_networks_parse(dt_str(config->callbacks_allow_networks), &settings.allowed, err);
    DT_THEN(status, dt_host_names_check(dt_str(config->callbacks_allow_hosts), err));
    return status == DT_OK ? dt_http_client_new(&settings, &hands->client, err) : status;
}

static dt_status make_pool_parts(dt_hands *hands, struct dt_error *err)
{
    const struct dt_process_env *env = hands->env;
    const struct dt_places_limits limits = {.max_in_flight = (unsigned)env->config->callbacks_max_in_flight,
                                            .per_host = (unsigned)env->config->callbacks_per_host,
                                            .max_bytes = (size_t)env->config->callbacks_max_bytes};
    hands->lost = calloc((size_t)env->config->dispatch_batch_jobs, sizeof(*hands->lost));
    dt_status status = hands->lost ? dt_places_new(&limits, &hands->places) : DT_NOMEM;
    DT_THEN(status, dt_json_new(&hands->json));
    DT_THEN(status, dt_mailbox_new(&hands->recorder_mailbox));
    DT_THEN(status, dt_store_new(env->config, env->ref, &hands->recorder_store));
    return status == DT_OK ? dt_index_new(env->config, env->installation, env->clock, &hands->index, err) : status;
}

static void free_pool_parts(dt_hands *hands)
{
    struct dt_callback *callback;
    struct dt_callback *next;
    HASH_ITER(hh, hands->all, callback, next)
    dt_pool_forget(hands, callback);
    dt_places_free(hands->places);
    dt_index_free(hands->index);
    dt_store_free(hands->recorder_store);
    dt_mailbox_free(hands->recorder_mailbox);
    dt_json_free(hands->json);
    dt_arena_clear(&hands->arena);
    pthread_cond_destroy(&hands->emptied);
    pthread_mutex_destroy(&hands->lock);
    free(hands->lost);
    free(hands);
}

/* Stops the client first and frees it last: the client's thread wakes the recorder and the keeper, and the renewer sets
 * the client's write deadline. A thread or chore that was never started may be stopped. */
static void stop_threads(dt_hands *hands)
{
    if (hands->client)
        dt_http_client_stop(hands->client);
    dt_thread_stop(&hands->recorder, hands->recorder_mailbox);
    dt_chore_remove(&hands->keeper);
    dt_chore_remove(&hands->renewer);
    dt_http_client_free(hands->client);
}

dt_status dt_hands_start(const struct dt_process_env *env, dt_hands **out, struct dt_error *err)
{
    dt_hands *hands = calloc(1, sizeof(*hands));
    if (!hands)
        return DT_NOMEM;
    hands->env = env;
    hands->enabled = env->config->callbacks_enabled;
    hands->answered_end = &hands->answered;
    dt_lease_set_timeout(&hands->lease, (int)env->config->zookeeper_session_timeout);
    pthread_mutex_init(&hands->lock, NULL);
    pthread_cond_init(&hands->emptied, NULL);
    hands->meters = (struct dt_pool_meters){
        .succeeded =
            dt_counter("duetime_callbacks_total", "Callbacks that ended, by outcome.", "outcome=\"succeeded\""),
        .taken = dt_counter("duetime_callbacks_total", "Callbacks that ended, by outcome.", "outcome=\"taken\""),
        .failed = dt_counter("duetime_callbacks_total", "Callbacks that ended, by outcome.", "outcome=\"failed\""),
        .unknown = dt_counter("duetime_callbacks_total", "Callbacks that ended, by outcome.", "outcome=\"unknown\""),
        .seconds = dt_histogram("duetime_callback_seconds",
                                "Time from handing a callback to the HTTP client to its answer.", ""),
        .lateness = dt_histogram("duetime_callback_lateness_seconds",
                                 "Time from when a job was due until its callback was handed to the HTTP client.", ""),
        .in_hands =
            dt_gauge("duetime_callbacks_in_hands",
                     "Callback attempts that this process has claimed, and whose outcome is not recorded yet.", ""),
        .recorded =
            dt_histogram_count("duetime_callbacks_recorded", "Outcomes of callbacks recorded in one transaction.", ""),
        .given_away =
            dt_counter("duetime_callbacks_given_away_total",
                       "Callback attempts that this process gave up, so that the leader starts the next attempt.", ""),
    };
    dt_status status = make_pool_parts(hands, err);
    if (status == DT_OK && hands->enabled)
        status = make_http_client(hands, err);
    DT_THEN(status, dt_thread_start(&hands->recorder, "hands-recorder", run_recorder, hands, err));
    if (status == DT_OK) {
        hands->renewer =
            (struct dt_chore){.name = "callback-lease", .tick = tick_number_renewer, .arg = hands, .last = true};
        hands->keeper = (struct dt_chore){.name = "callback-keeper", .tick = tick_attempt_keeper, .arg = hands};
        dt_chores_add(env->urgent, &hands->renewer);
        dt_chores_add(env->chores, &hands->keeper);
        *out = hands;
        return DT_OK;
    }
    stop_threads(hands);
    free_pool_parts(hands);
    return status;
}

static void wait_until_no_attempts(dt_hands *hands, int64_t most_us)
{
    int64_t until_us = dt_pool_now_us(hands) + most_us;
    bool time = true;
    pthread_mutex_lock(&hands->lock);
    while (hands->n_all > 0 && time)
        time = dt_clock_wait(&hands->emptied, &hands->lock, until_us);
    pthread_mutex_unlock(&hands->lock);
}

void dt_hands_stop(dt_hands *hands)
{
    if (!hands)
        return;
    hands->leaving = true;
    wait_until_no_attempts(hands, DRAIN_US);
    if (hands->client)
        dt_http_client_stop(hands->client);
    wait_until_no_attempts(hands, RECORD_US);
    stop_threads(hands);
    free_pool_parts(hands);
}
