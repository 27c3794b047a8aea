/*
 * Owns:            what this process may believe of each shard.
 * Refuses to know: who should lead what (elector_share.c), and what leading a shard means.
 *
 *   NONE ──the view names us──▶ LED ──above share──▶ RELEASING ──released──▶ DROPPING ──not named by the view──▶ NONE
 *                                │                      └──lease over: lost──────▲
 *                                └──lease over, or not named by the view: lost──▶ NONE
 *
 * Invariants:
 *   - A shard is gained only while the lease runs, and only because a view named this member, which has not ended:
 *     nothing is believed because it was ordered.
 *   - After the lease a view that names us still gains the shard once more, as soon as a renewal was answered.
 */
#include "base/log.h"
#include "lease_parts.h"

static bool leads_in(enum dt_hold hold)
{
    return hold == DT_HOLD_LED || hold == DT_HOLD_RELEASING;
}

/* The one place where it changes. */
static void hold_to(dt_mysql_elector *e, unsigned shard, enum dt_hold hold)
{
    dt_assert(hold != DT_HOLD_LED || e->holds[shard] == DT_HOLD_NONE);
    dt_assert(hold != DT_HOLD_RELEASING || e->holds[shard] == DT_HOLD_LED);
    e->holds[shard] = hold;
    if (hold == DT_HOLD_LED)
        atomic_store(&e->base.released[shard], false);
    dt_elector_set_leads(&e->base, shard, leads_in(hold));
}

static void lose(dt_mysql_elector *e, unsigned shard, enum dt_hold hold)
{
    hold_to(e, shard, hold);
    e->base.events.lost(e->base.events.arg, shard);
}

void dt_holds_update(dt_mysql_elector *e, int64_t now_us)
{
    for (unsigned s = 0; s < DT_SHARDS_MAX; s++) {
        const bool ours = e->view.holder[s] == e->member;
        const enum dt_hold hold = e->holds[s];

        if (!ours && leads_in(hold)) {
            lose(e, s, DT_HOLD_NONE);
        } else if (!ours && hold == DT_HOLD_DROPPING) {
            hold_to(e, s, DT_HOLD_NONE);
        } else if (ours && hold == DT_HOLD_NONE) {
            if (atomic_load(&e->base.leaving) || e->view.elsewhere) { /* given back at once: others are to lead */
                hold_to(e, s, DT_HOLD_DROPPING);
            } else if (dt_lease_runs(&e->base.lease, now_us)) {
                hold_to(e, s, DT_HOLD_LED);
                e->base.events.gained(e->base.events.arg, s);
            }
        }
    }
}

void dt_holds_release(dt_mysql_elector *e, unsigned shard)
{
    if (e->holds[shard] != DT_HOLD_LED)
        return;
    hold_to(e, shard, DT_HOLD_RELEASING);
    e->base.events.release(e->base.events.arg, shard);
}

void dt_holds_lose_all(dt_mysql_elector *e, const char *why)
{
    const unsigned n = atomic_load(&e->base.n_leads);

    if (n == 0)
        return;
    DT_LOG(WARN, "elector", "stepping down", DT_S("reason", why), DT_I("shards", n));
    for (unsigned s = 0; s < DT_SHARDS_MAX; s++)
        if (leads_in(e->holds[s]))
            lose(e, s, e->holds[s] == DT_HOLD_RELEASING ? DT_HOLD_DROPPING : DT_HOLD_NONE);
}

void dt_holds_forget(dt_mysql_elector *e)
{
    for (unsigned s = 0; s < DT_SHARDS_MAX; s++)
        hold_to(e, s, DT_HOLD_NONE);
}

bool dt_holds_serve(dt_mysql_elector *e)
{
    bool drops = false;

    for (unsigned s = 0; s < DT_SHARDS_MAX; s++) {
        if (e->holds[s] == DT_HOLD_RELEASING && atomic_load(&e->base.released[s]))
            hold_to(e, s, DT_HOLD_DROPPING);
        drops = drops || e->holds[s] == DT_HOLD_DROPPING;
    }
    return drops;
}

size_t dt_holds_dropping(const dt_mysql_elector *e, int64_t *shards)
{
    size_t n = 0;

    for (unsigned s = 0; s < DT_SHARDS_MAX; s++)
        if (e->holds[s] == DT_HOLD_DROPPING)
            shards[n++] = s;
    return n;
}

void dt_holds_view(const dt_mysql_elector *e, bool *mine, bool *taken)
{
    for (unsigned s = 0; s < DT_SHARDS_MAX; s++) {
        mine[s] = e->holds[s] == DT_HOLD_LED;
        taken[s] = e->view.holder[s] != 0 || e->holds[s] != DT_HOLD_NONE;
    }
}
