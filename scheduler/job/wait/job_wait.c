/* The word for what a job waits for: see job_wait.h. */
#include "job/wait/job_wait.h"

/* What Kafka does matters to jobs that go there. */
static const char *leader_waits_for(const struct dt_wait_facts *f)
{
    const bool called = f->dealing == DT_DEALING_HANDS;
    if (called && f->no_place)
        return "limit";
    if (!called && dt_str_is(f->leader_says, "kafka"))
        return "kafka";
    return dt_str_is(f->leader_says, "redis") ? "redis" : "leader";
}

static const char *due_waits_for(const struct dt_wait_facts *f)
{
    if (f->paused)
        return "paused";
    if (f->full)
        return "limit";
    if (f->dealing == DT_DEALING_OFFERS)
        return f->led ? "pop" : "leader";
    return leader_waits_for(f);
}

const char *dt_job_waits_for(const struct dt_job *job, const struct dt_wait_facts *facts)
{
    if (job->state == DT_SCHEDULED)
        return dt_job_is_due(job, facts->now_ms) ? due_waits_for(facts) : "time";
    if (job->state == DT_DISPATCHED)
        return facts->unsent ? "kafka" : "ack";
    return NULL;
}
