/* The word for what a job waits for: see job_wait.h. */
#include "job_wait.h"

const char *dt_job_waits_for(const struct dt_job *job, const struct dt_wait_facts *facts)
{
    const bool called = facts->dealing == DT_DEALING_HANDS;
    if (job->state == DT_DISPATCHED)
        return facts->unsent ? "kafka" : "ack";
    if (job->state != DT_SCHEDULED)
        return NULL;
    if (!dt_job_is_due(job, facts->now_ms))
        return "time";
    if (facts->paused)
        return "paused";
    if (facts->full || (called && facts->no_place))
        return "limit";
    if (facts->dealing == DT_DEALING_OFFERS)
        return facts->led ? "pop" : "leader";
    if (!called && dt_str_is(facts->leader_says, "kafka")) /* what Kafka does matters to jobs that go there */
        return "kafka";
    return dt_str_is(facts->leader_says, "redis") ? "redis" : "leader";
}
