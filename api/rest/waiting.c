/* The facts about what a job waits for: see waiting.h. */
#include "waiting.h"

#include "dispatch/shards.h"
#include "job/change/jobs.h"
#include "job/job_wait.h"
#include "shard_json.h"
#include "topic/topic_gate.h"

void dt_waiting_init(struct dt_waiting *waiting, dt_topic_cache *cache, const dt_refclock *ref, dt_store *store)
{
    *waiting = (struct dt_waiting){.view = dt_topic_cache_view(cache),
                                   .shards = dt_topic_cache_shards(cache),
                                   .now_ms = dt_refclock_earliest_ms(ref),
                                   .latest_ms = dt_refclock_latest_ms(ref),
                                   .store = store};
}

void dt_waiting_clear(struct dt_waiting *waiting)
{
    dt_view_release(waiting->view);
    dt_shards_release(waiting->shards);
    *waiting = (struct dt_waiting){0};
}

/* Each topic is asked about once. */
static bool at_limit(struct dt_waiting *w, struct dt_str topic)
{
    for (size_t i = 0; i < w->n_limits; i++)
        if (dt_str_eq(w->limits[i].topic, topic))
            return w->limits[i].full;
    struct dt_gate gate = {.topic = topic};
    if (!w->store || w->n_limits == DT_WAITING_LIMITS || dt_store_gates_look(w->store, &gate, 1, NULL) != DT_OK)
        return false;
    w->limits[w->n_limits++] = (struct dt_waiting_limit){topic, gate.full || gate.room == 0};
    return gate.full || gate.room == 0;
}

static bool is_unsent(const struct dt_waiting *w, const struct dt_job *job)
{
    const struct dt_shard_info *shard =
        w->shards && job->claim_shard >= 0 ? dt_shards_find(w->shards, (unsigned)job->claim_shard) : NULL;
    bool unsent =
        shard && shard->inflight > 0 && (!shard->owner.p || shard->halted.p || dt_str_is(shard->waiting, "kafka"));
    if (unsent && w->store && dt_store_in_flight(w->store, job->id, job->claim_shard, &unsent, NULL) != DT_OK)
        unsent = false;
    return unsent;
}

const char *dt_waiting_for(struct dt_waiting *w, const struct dt_job *job)
{
    /* MySQL's clock has come to the latest change, which a sample of it on a busy machine may not show yet. */
    struct dt_wait_facts facts = {.now_ms = dt_later(w->now_ms, dt_earlier(job->updated_at_ms, w->latest_ms))};
    if (dt_job_is_due(job, facts.now_ms)) {
        const struct dt_topic_settings *topic = w->view ? dt_view_topic(w->view, job->topic) : NULL;
        if (topic) {
            facts.paused = topic->paused;
            facts.dealing = dt_delivery_dealing(topic->delivery);
            facts.full = topic->limited && !topic->paused && at_limit(w, topic->name);
        }
        if (w->shards) {
            const struct dt_shard_info *shard =
                w->view ? dt_shards_find(w->shards, dt_shard_of(&w->view->map, job->id)) : NULL;
            const struct dt_shard_cause cause = dt_shard_judge(shard, &w->shards->dispatchers, w->now_ms);
            facts.led = shard && shard->owner.p && cause.why >= DT_SHARD_WAITS;
            facts.leader_says = cause.waits;
            facts.no_place = facts.led && shard->callbacks.p;
        }
    }
    facts.unsent = job->state == DT_DISPATCHED && is_unsent(w, job);
    return dt_job_waits_for(job, &facts);
}
