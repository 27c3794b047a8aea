/* Who gets attempts, and what is reported on them. See workload_parts.h. */

#include "base/guard.h"
#include "simulator/deliveries/arrivals.h"
#include "simulator/deliveries/workload_parts.h"
#include "simulator/faults.h"

static size_t seen; /* messages that the consumer has handled */

void workload_consumers_begin(void)
{
    seen = 0;
}

/* ---- consumers ---- */

static unsigned job_with_id(int64_t id)
{
    for (unsigned i = 0; i < journal->n_jobs; i++)
        if (journal->jobs[i].id == id)
            return i;
    return JOBS_MAX;
}

static const char *const words[] = {[DT_RESULT_SUCCEEDED] = "succeeded",
                                    [DT_RESULT_FAILED] = "failed",
                                    [DT_RESULT_SNOOZED] = "snoozed",
                                    [DT_RESULT_GAVE_UP] = "gave_up",
                                    [DT_RESULT_EXTENDED] = "extended"};

struct late_report {
    int64_t job, attempt, retry_after_ms;
    enum dt_result_status result;
};

static void report_by_kafka(void *arg)
{
    const struct late_report *r = arg;
    char key[24], value[200];
    int n = snprintf(value, sizeof value, "{\"job_id\":\"%lld\",\"attempt\":%lld,\"status\":\"%s\"", (long long)r->job,
                     (long long)r->attempt, words[r->result]);
    if (r->retry_after_ms >= 0)
        n += snprintf(value + n, sizeof value - (size_t)n, ",\"retry_after\":%lld", (long long)r->retry_after_ms);
    snprintf(value + n, sizeof value - (size_t)n, "}");
    snprintf(key, sizeof key, "%lld", (long long)r->job);
    TRACE("consumer: reports %s", value);
    broker_report(dt_str(key), dt_str(value));
}

void workload_report(int64_t job, int64_t attempt, enum dt_result_status result, int64_t in_us)
{
    int64_t retry_after_ms =
        result == DT_RESULT_SNOOZED || (result == DT_RESULT_EXTENDED && one_in(2)) ? rnd_in(100, 2500) : -1;
    unsigned place = job_with_id(job);
    if (place < JOBS_MAX && one_in(3)) {
        struct op *op = workload_plan(ASK_REPORT, place, now_us + in_us);
        op->attempt = attempt;
        op->result = result;
        op->retry_after_ms = retry_after_ms;
        return;
    }
    if (place < JOBS_MAX) { /* in the journal, though nobody answers it */
        struct answer *a = workload_ask(ASK_REPORT, place);
        a->result = result;
        a->attempt = attempt;
        a->asked_us = now_us + in_us;
        a->by_kafka = true;
    }
    struct late_report *r = world_alloc(sizeof *r);
    *r = (struct late_report){job, attempt, retry_after_ms, result};
    at(now_us + in_us, report_by_kafka, r);
}

static int64_t think_us(void)
{
    if (fault_drawn(F_EARLY_RESULT) && one_in(2)) {
        if (faults_on())
            fault_count(F_EARLY_RESULT);
        return 0;
    }
    return one_in(4) ? rnd_in(0, 2 * MS) : rnd_in(1 * MS, 900 * MS);
}

static void mischief(const struct broker_record *m)
{
    if (!faults_on() || !fault_drawn(F_RESULTS) || !one_in(2))
        return;
    fault_count(F_RESULTS);
    if (one_in(4))
        broker_report_nonsense();
    enum dt_result_status any = (enum dt_result_status)rnd_in(DT_RESULT_SUCCEEDED, DT_RESULT_EXTENDED);
    workload_report(m->job, m->attempt + rnd_in(-1, 1), any, rnd_in(0, 3 * SEC));
}

static void consume(const struct broker_record *m)
{
    if (workload_healed() || m->attempt >= 4) {
        workload_report(m->job, m->attempt, DT_RESULT_SUCCEEDED, rnd_in(0, 20 * MS));
        return;
    }
    int64_t us = think_us();
    switch (rnd_in(0, 9)) {
    case 0:
    case 1:
        workload_report(m->job, m->attempt, DT_RESULT_FAILED, us);
        break;
    case 2:
        workload_report(m->job, m->attempt, DT_RESULT_SNOOZED, us);
        break;
    case 3:
        workload_report(m->job, m->attempt, DT_RESULT_EXTENDED, us);
        if (one_in(2))
            workload_report(m->job, m->attempt, DT_RESULT_SUCCEEDED, us + rnd_in(0, 3 * SEC));
        break;
    case 4:
        workload_report(m->job, m->attempt, DT_RESULT_GAVE_UP, us);
        break;
    case 5: /* nothing: the acknowledgement times out */
        break;
    default:
        workload_report(m->job, m->attempt, DT_RESULT_SUCCEEDED, us);
    }
    mischief(m);
}

void *workload_consume_by_kafka(void *)
{
    broker_subscribe();
    for (;;) {
        for (const struct broker_record *m; (m = broker_message(seen)); seen++)
            consume(m);
        fiber_block(NEVER);
        fiber_sleep(fault_drawn(F_EARLY_RESULT) ? rnd_in(0, 500) : rnd_in(1 * MS, 30 * MS));
    }
    return NULL;
}

/* ---- those who pop ---- */

/* Not when its time to report is over by now, as its API would not. And an answer may be lost. */
static void hand_out(const struct dt_pop *pop, int64_t passed_us)
{
    for (size_t i = 0; i < pop->n; i++) {
        const struct dt_job *job = &pop->jobs[i];
        const bool in_time = DT_GUARD(POP_IN_TIME, passed_us < (job->next_at_ms - job->dispatched_at_ms) * 1000);
        if (!in_time || (faults_on() && one_in(16))) {
            TRACE("pop: job %lld attempt %lld is handed to nobody", (long long)job->id, (long long)job->attempt);
            continue;
        }
        consume(arrivals_add(BY_POP, job->id, job->attempt, job->due_at_ms, job->next_at_ms));
    }
}

static void pop_from(struct worker *w, unsigned topic)
{
    const int64_t begun_us = now_us;
    const int64_t ttrs_ms[3] = {one_in(3) ? rnd_in(400, 3000) : 0, one_in(3) ? rnd_in(400, 3000) : 0};
    struct dt_pop pop = {.topic = workload_topic(topic),
                         .max = (size_t)rnd_in(1, 3),
                         .max_bytes = one_in(4) ? 3 : 1000,
                         .ttrs_ms = ttrs_ms,
                         .arena = &w->arena};
    dt_arena_reset(&w->arena);
    if (dt_store_pop(w->store, &pop, &w->err) != DT_OK)
        return;
    hand_out(&pop, now_us - begun_us);
    for (size_t i = 0; i < pop.n; i++)
        workload_tell_index(w, pop.jobs[i].id, pop.jobs[i].next_at_ms, pop.jobs[i].due_at_ms);
}

void *workload_consume_by_pop(void *)
{
    struct worker w = {0};
    workload_connect(&w);
    fiber_notes()->pops = true;
    for (;;) {
        const unsigned topic = (unsigned)rnd_in(0, TOPICS - 1);
        if (journal->ways[topic] & 1u << BY_POP)
            pop_from(&w, topic);
        fiber_sleep(rnd_in(2 * MS, workload_healed() ? 50 * MS : 300 * MS));
    }
    return NULL;
}

bool workload_anything_pops(void)
{
    unsigned ways = fault_drawn(F_DELIVERY) ? 1u << BY_POP : 0;
    for (unsigned i = 0; i < TOPICS; i++)
        ways |= journal->ways[i];
    return ways & 1u << BY_POP;
}
