/*
 * The claim of a leader transaction: jobs become dispatched, and their messages are read under the lock of their rows.
 *
 * Owns:            what a claim writes into `jobs` and `attempts`, and `batch` of struct dt_leader_txn.
 * Refuses to know: which jobs (leader_choose.c), and the list in the shard's row (leader_txn.c).
 *
 * Invariants: the previous attempt of a job is archived before its row forgets it; what was read when a row was locked
 * is what is written; the listener is told before the claim is written, or, where large messages are read by
 * themselves, behind it.
 */
#include <stdlib.h>

#include "base/hooks/guard.h"
#include "store/db/id_in.h"
#include "store/dispatch/leader_parts.h"
#include "store/dispatch/outgoing.h"
#include "store/sql/statements.h"

/* The previous attempt of a job that is claimed again moves from its row to `attempts`. */
static dt_status archive(struct dt_open_txn *t)
{
    struct dt_strbuf list;
    if (t->n_retries == 0)
        return DT_OK;
    dt_strbuf_init(&list);
    dt_status status = dt_inflight_format_by_id(t->claims, t->n_claims, &list);
    if (status == DT_OK)
        status = dt_db_run(t->db, dt_sql_keep_latest_attempts, DT_PARAMS(DT_P_STR(dt_strbuf_str(&list))), NULL, t->err);
    dt_strbuf_clear(&list);
    return status;
}

static int by_number(const void *a, const void *b)
{
    const int64_t *x = a;
    const int64_t *y = b;
    return (*x > *y) - (*x < *y);
}

static dt_status write_claims(struct dt_open_txn *t)
{
    uint64_t changed = 0;
    int64_t now = t->row.now_ms;
    int64_t near_end = dt_near_end_ms(now);
    int64_t *ids = dt_arena_alloc(t->io->arena, t->n_claims * sizeof(*ids));
    if (!ids)
        return DT_NOMEM;
    for (size_t i = 0; i < t->n_claims; i++)
        ids[i] = t->claims[i].id;
    qsort(ids, t->n_claims, sizeof(*ids), by_number);
    dt_status status = dt_id_in_run(t->db, &dt_sql_claim_jobs,
                                    DT_PARAMS(DT_P_INT(now), DT_P_INT(now), DT_P_INT(t->fence->shard), DT_P_INT(now),
                                              DT_P_INT(now), DT_P_INT(near_end), DT_P_INT(now), DT_P_INT(now)),
                                    DT_IDS(ids, t->n_claims), &changed, t->err);
    if (status == DT_OK && changed != t->n_claims)
        status =
            dt_fail(t->err, DT_INTERNAL, "claimed %llu of %zu locked jobs", (unsigned long long)changed, t->n_claims);
    return status;
}

static void count_claims(struct dt_open_txn *t)
{
    for (size_t i = 0; i < t->n; i++)
        if (t->v[i].fate == DT_FATE_CLAIM && !DT_UNGUARDED(COUNT_CLAIM))
            dt_counts_move(&t->counts, t->v[i].topic, t->v[i].id, t->v[i].state, t->v[i].claimed);
}

/* ---- messages ---- */

/* The message goes where the gate was asked about, whatever `topics` says by now. */
static void address(struct dt_outgoing *out, const struct dt_candidate *c)
{
    out->topic = c->topic;
    out->kafka_topic = c->kafka_topic;
}

/* Large messages, which are read when it is known that they go: all in one statement. */
struct large {
    struct dt_inflight claims;
    struct dt_outgoing **to;        /* where the message of each goes */
    const struct dt_candidate **of; /* whose it is */
};

static dt_status read_large(struct dt_open_txn *t, const struct large *large)
{
    struct dt_outgoing *read;
    dt_status status = large->claims.n ? dt_outgoing_read(t->db, &large->claims, t->io->arena, &read, t->err) : DT_OK;
    for (size_t i = 0; status == DT_OK && i < large->claims.n; i++) {
        *large->to[i] = read[i];
        address(large->to[i], large->of[i]);
    }
    return status;
}

static void add_large(struct large *large, struct dt_claim claim, struct dt_outgoing *to, const struct dt_candidate *of)
{
    size_t n = large->claims.n++;
    large->claims.v[n] = claim;
    large->to[n] = to;
    large->of[n] = of;
}

static dt_status make_room(struct dt_open_txn *t, struct large *large)
{
    struct dt_arena *arena = t->io->arena;
    *large = (struct large){.claims = {.v = dt_arena_alloc(arena, t->n_claims * sizeof(*large->claims.v))},
                            .to = dt_arena_alloc(arena, t->n_claims * sizeof(*large->to)),
                            .of = dt_arena_alloc(arena, t->n_claims * sizeof(*large->of))};
    t->io->batch.jobs = dt_arena_alloc(arena, t->n_claims * sizeof(*t->io->batch.jobs));
    return large->claims.v && large->to && large->of && t->io->batch.jobs ? DT_OK : DT_NOMEM;
}

/* In the order of the claims, which is that of the candidates. What is large is still to be read. */
static dt_status make_batch(struct dt_open_txn *t, struct large *large)
{
    dt_status status = make_room(t, large);
    t->io->batch.n = t->n_claims;
    for (size_t i = 0, n = 0; status == DT_OK && i < t->n; i++) {
        const struct dt_candidate *c = &t->v[i];
        struct dt_outgoing *out = &t->io->batch.jobs[n];
        if (c->fate != DT_FATE_CLAIM)
            continue;
        if (c->message) {
            *out = *c->message;
            out->claim = t->claims[n];
            address(out, c);
        } else {
            add_large(large, t->claims[n], out, c);
        }
        n++;
    }
    return status;
}

static void tell_claiming(const struct dt_open_txn *t)
{
    const struct dt_leader_listener *listener = &t->io->listener;
    struct dt_fence next = *t->fence;
    if (!listener->claiming)
        return;
    next.batch_no++;
    next.inflight = next.send_n = t->n_claims;
    listener->claiming(listener->arg, &next, t->io->batch.jobs, t->claims, t->n_claims);
}

/* ---- all of it ---- */

dt_status dt_claims_write(struct dt_open_txn *t)
{
    struct large large;
    if (t->n_claims == 0)
        return DT_OK;
    dt_status status = make_batch(t, &large);
    if (status == DT_OK && large.claims.n == 0)
        tell_claiming(t);
    if (status == DT_OK)
        status = archive(t);
    if (status == DT_OK)
        status = write_claims(t);
    if (status == DT_OK)
        status = read_large(t, &large);
    if (status == DT_OK && large.claims.n > 0)
        tell_claiming(t);
    if (status == DT_OK)
        count_claims(t);
    return status;
}
