/*
 * The life of a process's hands: what they are made of, and their end: nothing is claimed any more, what is under way
 * is waited for, and the rest is given away.
 */
#include <stdlib.h>

#include "base/http/host_name.h"
#include "pool_parts.h"

#define DRAIN_US  INT64_C(10000000) /* callbacks that are under way are waited for, at the end */
#define RECORD_US INT64_C(3000000)  /* and so long for MySQL to take what came of them */

static void make_meters(dt_hands *hands)
{
    hands->meters = (struct dt_pool_meters){
        .succeeded =
            dt_counter("duetime_callbacks_total", "Callbacks that ended, by outcome.", "outcome=\"succeeded\""),
        .taken = dt_counter("duetime_callbacks_total", "Callbacks that ended, by outcome.", "outcome=\"taken\""),
        .failed = dt_counter("duetime_callbacks_total", "Callbacks that ended, by outcome.", "outcome=\"failed\""),
        .unknown = dt_counter("duetime_callbacks_total", "Callbacks that ended, by outcome.", "outcome=\"unknown\""),
        .seconds = dt_histogram("duetime_callback_seconds", "From handing a callback to the client to its answer.", ""),
        .lateness = dt_histogram("duetime_callback_lateness_seconds",
                                 "From when a job was due until its callback was handed to the client.", ""),
        .in_hands = dt_gauge("duetime_callbacks_in_hands", "Attempts in the hands of this process.", ""),
        .recorded = dt_histogram_count("duetime_callbacks_recorded", "Outcomes recorded in one transaction.", ""),
        .given_away = dt_counter("duetime_callbacks_given_away_total",
                                 "Attempts that this process gave away, to be followed by the next one.", ""),
    };
}

static dt_status make_client(dt_hands *hands, struct dt_error *err)
{
    const struct dt_config *config = hands->env.config;
    struct dt_http_settings settings = {.max_in_flight = (unsigned)config->callbacks_max_in_flight,
                                        .max_bytes = SIZE_MAX, /* places bound them */
                                        .ca_file = config->callbacks_ca_file,
                                        .allow_hosts = dt_str(config->callbacks_allow_hosts),
                                        .clock = hands->env.clock,
                                        .answered = dt_pool_on_answer,
                                        .may_send = dt_pool_may_send,
                                        .arg = hands};
    dt_status status = dt_networks_parse(dt_str(config->callbacks_allow_networks), &settings.allowed, err);
    if (status == DT_OK)
        status = dt_host_names_check(dt_str(config->callbacks_allow_hosts), err);
    return status == DT_OK ? dt_http_client_new(&settings, &hands->client, err) : status;
}

static dt_status make_parts(dt_hands *hands, struct dt_error *err)
{
    const struct dt_hands_env *env = &hands->env;
    const struct dt_places_limits limits = {.max_in_flight = (unsigned)env->config->callbacks_max_in_flight,
                                            .per_host = (unsigned)env->config->callbacks_per_host,
                                            .max_bytes = (size_t)env->config->callbacks_max_bytes};
    hands->lost = calloc((size_t)env->config->dispatch_batch_jobs, sizeof(*hands->lost));
    dt_status status = hands->lost ? dt_places_new(&limits, &hands->places) : DT_NOMEM;
    if (status == DT_OK)
        status = dt_json_new(&hands->json);
    if (status == DT_OK)
        status = dt_mailbox_new(&hands->recorder_mailbox);
    if (status == DT_OK)
        status = dt_store_new(env->config, env->ref, &hands->recorder_store);
    return status == DT_OK ? dt_index_new(env->config, env->installation, env->clock, &hands->index, err) : status;
}

static void free_parts(dt_hands *hands)
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

/* The client's thread wakes the recorder and the keeper, and the renewer tells the client how long it may write: the
 * client ends first and is freed last. What was never started ends at once. */
static void end_threads(dt_hands *hands)
{
    if (hands->client)
        dt_http_client_stop(hands->client);
    dt_thread_stop(&hands->recorder, hands->recorder_mailbox);
    dt_chore_remove(&hands->keeper);
    dt_chore_remove(&hands->renewer);
    dt_http_client_free(hands->client);
}

dt_status dt_hands_start(const struct dt_hands_env *env, dt_hands **out, struct dt_error *err)
{
    dt_hands *hands = calloc(1, sizeof(*hands));
    if (!hands)
        return DT_NOMEM;
    hands->env = *env;
    hands->enabled = env->config->callbacks_enabled;
    hands->answered_end = &hands->answered;
    dt_lease_set_timeout(&hands->lease, (int)env->config->zookeeper_session_timeout);
    pthread_mutex_init(&hands->lock, NULL);
    pthread_cond_init(&hands->emptied, NULL);
    dt_arena_init(&hands->arena);
    make_meters(hands);
    dt_status status = make_parts(hands, err);
    if (status == DT_OK && hands->enabled)
        status = make_client(hands, err);
    if (status == DT_OK)
        status = dt_thread_start(&hands->recorder, "hands-recorder", dt_pool_record, hands, err);
    if (status == DT_OK) {
        hands->renewer = (struct dt_chore){.name = "callback-lease", .tick = dt_pool_renew, .arg = hands, .last = true};
        hands->keeper = (struct dt_chore){.name = "callback-keeper", .tick = dt_pool_keep, .arg = hands};
        dt_chores_add(env->urgent, &hands->renewer);
        dt_chores_add(env->chores, &hands->keeper);
        *out = hands;
        return DT_OK;
    }
    end_threads(hands);
    free_parts(hands);
    return status;
}

static void wait_for_hands(dt_hands *hands, int64_t most_us)
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
    wait_for_hands(hands, DRAIN_US);
    if (hands->client)
        dt_http_client_stop(hands->client);
    wait_for_hands(hands, RECORD_US);
    end_threads(hands);
    free_parts(hands);
}
