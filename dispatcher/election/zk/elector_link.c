/*
 * Owns:            what every request has in common: its memory, its count, its time, and the pauses after trouble.
 * Refuses to know: what is asked for, and what the answers mean.
 */
#include <stdlib.h>
#include <sys/random.h>

#include "elector_parts.h"

enum { BACKOFF_MAX_US = 5000000 };

int64_t dt_elector_now_us(const dt_elector *e)
{
    return dt_clock_mono_us(e->clock);
}

uint64_t dt_elector_random(const dt_elector *e)
{
    uint64_t v;

    if (getrandom(&v, sizeof(v), GRND_NONBLOCK) != (ssize_t)sizeof(v))
        v = (uint64_t)dt_elector_now_us(e) * 6364136223846793005u;
    return v;
}

/* Between half of the step and all of it. */
void dt_elector_back_off(dt_elector *e)
{
    int64_t step = e->backoff_us;

    e->not_before_us = dt_elector_now_us(e) + step / 2 + (int64_t)(dt_elector_random(e) % (uint64_t)(step / 2));
    e->backoff_us = step * 2 < BACKOFF_MAX_US ? step * 2 : BACKOFF_MAX_US;
}

struct dt_zk_reply *dt_elector_request(dt_elector *e, enum dt_elector_request request, unsigned index)
{
    struct dt_zk_reply *r = calloc(1, sizeof(*r));

    if (!r) {
        dt_elector_back_off(e);
        return NULL;
    }
    r->request = (int)request;
    r->index = index;
    r->sent_us = e->asked_us = dt_elector_now_us(e);
    e->outstanding++;
    return r;
}

void dt_elector_list(dt_elector *e, enum dt_elector_request request)
{
    const bool members = request == DT_ASK_MEMBERS;
    struct dt_listing *list = members ? &e->members : &e->leaders;
    struct dt_zk_reply *r = dt_elector_request(e, request, 0);

    if (!r)
        return;
    list->asked = true;
    list->stale = false;
    dt_zk_list(e->zk, r, members ? e->members_path : e->leaders_path, members ? &e->members_watch : &e->leaders_watch);
}

void dt_elector_paths_gone(dt_elector *e)
{
    e->paths_made = e->paths_asked = false;
}

void dt_elector_note(dt_elector *e, const char *what, const char *request, const char *reason)
{
    struct dt_error err = {0};

    (void)dt_fail(&err, DT_UNAVAILABLE, "%s: %s", request, reason);
    dt_outage_failed(&e->outage, DT_OUTAGE_ZOOKEEPER, "elector", what, DT_UNAVAILABLE, &err);
}

void dt_elector_trouble(dt_elector *e, const char *request, const struct dt_zk_reply *r)
{
    dt_elector_note(e, "ZooKeeper refused a request", request, r->reason);
    dt_elector_back_off(e);
}

void dt_elector_list_failed(dt_elector *e, struct dt_listing *list, const struct dt_zk_reply *r)
{
    list->stale = true;
    if (r->outcome == DT_ZK_LOST)
        return;
    if (r->outcome == DT_ZK_MISSING)
        dt_elector_paths_gone(e);
    dt_elector_trouble(e, "list", r);
}
