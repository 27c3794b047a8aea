/* See arrivals.h. */
#include "simulator/deliveries/arrivals.h"

#define ARRIVALS_MAX 4096

static struct broker_record (*others)[ARRIVALS_MAX];
static size_t others_n;
static struct {
    int64_t job, attempt;
} (*refused)[ARRIVALS_MAX];
static size_t refused_n;

void arrivals_begin(void)
{
    others = world_alloc(sizeof *others);
    refused = world_alloc(sizeof *refused);
    others_n = refused_n = 0;
}

struct broker_record *arrivals_add(enum way way, int64_t job, int64_t attempt, int64_t due_ms, int64_t deadline_ms)
{
    if (others_n == ARRIVALS_MAX)
        broken("too much arrives");
    struct broker_record *r = &(*others)[others_n++];
    *r = (struct broker_record){.way = way,
                                .job = job,
                                .attempt = attempt,
                                .due_ms = due_ms,
                                .deadline_ms = deadline_ms,
                                .produced_us = now_us,
                                .committed_us = now_us};
    TRACE("ARRIVES by %s: job %lld attempt %lld", way == BY_POP ? "pop" : "callback", (long long)job,
          (long long)attempt);
    return r;
}

const struct broker_record *arrival(size_t n)
{
    const size_t messages = broker_messages();
    if (n < messages)
        return broker_message(n);
    return n - messages < others_n ? &(*others)[n - messages] : NULL;
}

void arrivals_refuse(int64_t job, int64_t attempt)
{
    if (refused_n == ARRIVALS_MAX)
        broken("too much is refused");
    (*refused)[refused_n].job = job;
    (*refused)[refused_n++].attempt = attempt;
}

bool arrivals_refused(int64_t job, int64_t attempt)
{
    for (size_t i = 0; i < refused_n; i++)
        if ((*refused)[i].job == job && (*refused)[i].attempt == attempt)
            return true;
    return false;
}
