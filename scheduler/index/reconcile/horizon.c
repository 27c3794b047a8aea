/*
 * Owns what the reconciler's other files ask about this tick: where the horizon ends, what is due soon, which topics
 * are parked; and the request for a full scan. Refuses to compare, to repair and to decide what a tick does.
 */
#include <stdlib.h>

#include "parts.h"

#define NEAR_MAX_MS (48 * DT_HOUR) /* rows beyond it may be in the far part of the due index */
#define WAKE_MS     2000           /* a leader looks by itself once a second */

int64_t dt_reconcile_horizon_end_ms(const dt_reconciler *r)
{
    int64_t horizon_ms = r->config->index_horizon;

    return r->now_ms + (horizon_ms < NEAR_MAX_MS ? horizon_ms : NEAR_MAX_MS);
}

bool dt_reconcile_is_soon(const dt_reconciler *r, int64_t due_ms)
{
    return due_ms <= r->now_ms + WAKE_MS;
}

/* Which topics have held sets: due rows of theirs that are in no due set are no mismatch. */
dt_status dt_reconcile_list_held(dt_reconciler *r)
{
    dt_arena_reset(&r->held_arena);
    r->n_held = 0;
    for (unsigned shard = 0; shard < DT_SHARDS_MAX; shard++) {
        struct dt_str *topics;
        struct dt_error err;
        size_t n = 0;

        if (!dt_shard_set_has(&r->leads, shard) ||
            dt_index_held(r->index, shard, &r->held_arena, &topics, &n, &err) != DT_OK || n == 0)
            continue;
        struct dt_held *grown = realloc(r->held, (r->n_held + n) * sizeof(*grown));
        if (!grown)
            return DT_NOMEM;
        r->held = grown;
        for (size_t i = 0; i < n; i++)
            r->held[r->n_held++] = (struct dt_held){shard, topics[i]};
    }
    return DT_OK;
}

/* Only the full scan sees what the index was not told. So the round that is under way is not spread over its time any
 * more, and another one follows it. */
void dt_reconcile_full_scan_soon(dt_reconciler *r)
{
    if (r->scan_at_ms)
        r->next_scan_us = r->now_us;
    else if (!r->scan_owed)
        r->next_scan_us = r->now_us + DT_RECONCILE_DOUBT_US;
    r->scan_owed = r->scan_hurries = true;
    r->doubt_us = r->now_us;
}
