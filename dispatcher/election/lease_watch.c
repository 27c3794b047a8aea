/*
 * Owns:            what this process has seen of the other members' renewals.
 * Refuses to know: shards.
 *
 * A member may be ended when two clocks agree. MySQL's clock says that the member's timeout has passed since its
 * renewal; that is looked at again, under the row's lock, by the statement that ends it. And this process has seen the
 * member's count stand still for two thirds of the member's timeout by its own monotonic clock. The member steps down
 * two thirds after it sent that renewal, which was before anybody could see it: so nobody takes a shard over while its
 * leader believes in it, whichever way MySQL's clock jumps. A count is seen within 0.3 timeouts of its renewal, so the
 * second rule seldom waits for longer than the first.
 */
#include "lease_parts.h"

void dt_watches_update(dt_mysql_elector *e, int64_t read_us)
{
    struct dt_lease_watch now[DT_ELECTION_MEMBERS];
    size_t n = 0;

    for (size_t i = 0; i < e->view.n; i++) {
        const struct dt_election_member *m = &e->view.members[i];
        int64_t seen_us = read_us;
        int64_t left_ms = m->age_ms < 0 || m->age_ms >= m->timeout_ms ? 0 : m->timeout_ms - m->age_ms;

        if (m->id == e->member)
            continue;
        for (size_t k = 0; k < e->n_watches; k++) {
            const struct dt_lease_watch *was = &e->watches[k];

            if (was->member.id == m->id && was->member.renewals == m->renewals)
                seen_us = was->seen_us;
        }
        now[n++] = (struct dt_lease_watch){*m, seen_us, read_us + left_ms * 1000};
    }
    for (size_t i = 0; i < n; i++)
        e->watches[i] = now[i];
    e->n_watches = n;
}

static int64_t end_us(const struct dt_lease_watch *w)
{
    const int64_t seen_us = w->seen_us + w->member.timeout_ms * 2000 / 3;

    return dt_later(seen_us, w->over_us);
}

size_t dt_watches_over(const dt_mysql_elector *e, int64_t now_us, struct dt_election_member *over)
{
    size_t n = 0;

    for (size_t i = 0; i < e->n_watches; i++)
        if (now_us >= end_us(&e->watches[i]))
            over[n++] = e->watches[i].member;
    return n;
}

int64_t dt_watches_next_us(const dt_mysql_elector *e)
{
    int64_t at_us = INT64_MAX;

    for (size_t i = 0; i < e->n_watches; i++)
        at_us = dt_earlier(at_us, end_us(&e->watches[i]));
    return at_us;
}
