/*
 * Owns:            what every request has in common: its memory, its count, its time, and the pauses after trouble.
 * Refuses to know: what is asked for, and what the answers mean.
 */
#include <stdlib.h>

#include "elector_parts.h"
#include "zk.h"

enum { BACKOFF_MAX_US = 5000000 };

/* Between half of the step and all of it. */
void dt_zk_elector_back_off(dt_zk_elector *e)
{
    int64_t step = e->backoff_us;

    e->not_before_us =
        dt_clock_mono_us(e->base.clock) + step / 2 + (int64_t)(dt_elector_random(&e->base) % (uint64_t)(step / 2));
    e->backoff_us = step * 2 < BACKOFF_MAX_US ? step * 2 : BACKOFF_MAX_US;
}

struct dt_zk_reply *dt_zk_elector_request(dt_zk_elector *e, enum dt_zk_request request, unsigned index)
{
    struct dt_zk_reply *r = calloc(1, sizeof(*r));

    if (!r) {
        dt_zk_elector_back_off(e);
        return NULL;
    }
    r->request = (int)request;
    r->index = index;
    r->sent_us = e->asked_us = dt_clock_mono_us(e->base.clock);
    e->outstanding++;
    return r;
}

void dt_zk_elector_list(dt_zk_elector *e, enum dt_zk_request request)
{
    const bool members = request == DT_ASK_MEMBERS;
    struct dt_listing *list = members ? &e->members : &e->leaders;
    struct dt_zk_reply *r = dt_zk_elector_request(e, request, 0);

    if (!r)
        return;
    list->asked = true;
    list->stale = false;
    dt_zk_list(e->zk, r, members ? e->members_path : e->leaders_path, members ? &e->members_watch : &e->leaders_watch);
}

void dt_zk_elector_paths_gone(dt_zk_elector *e)
{
    e->paths_made = e->paths_asked = false;
}

void dt_zk_elector_note(dt_zk_elector *e, const char *what, const char *request, const char *reason)
{
    struct dt_error err = {0};

    (void)dt_fail(&err, DT_UNAVAILABLE, "%s: %s", request, reason);
    dt_outage_failed(&e->outage, DT_OUTAGE_ZOOKEEPER, "elector", what, DT_UNAVAILABLE, &err);
}

void dt_zk_elector_trouble(dt_zk_elector *e, const char *request, const struct dt_zk_reply *r)
{
    dt_zk_elector_note(e, "ZooKeeper refused a request", request, r->reason);
    e->refused = true;
    dt_zk_elector_back_off(e);
}

void dt_zk_elector_list_failed(dt_zk_elector *e, struct dt_listing *list, const struct dt_zk_reply *r)
{
    list->stale = true;
    if (r->outcome == DT_ZK_LOST)
        return;
    if (r->outcome == DT_ZK_MISSING)
        dt_zk_elector_paths_gone(e);
    dt_zk_elector_trouble(e, "list", r);
}
