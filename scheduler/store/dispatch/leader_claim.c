/*
 * The claim of a leader transaction: jobs become dispatched, and their messages are read under the lock of their rows.
 *
 * Owns:            what a claim writes into `jobs` and `attempts`; `batch`, and `claimed` of `hands`, of struct
 *                  dt_leader_txn.
 * Refuses to know: which jobs (leader_choose.c), the list in the shard's row (leader_txn.c), and whose hands
 *                  (leader_hands.c).
 *
 * Invariants: the previous attempt of a job is archived before its row forgets it; what was read when a row was locked
 * is what is written; the listener is told before the claim is written, or, where large messages are read by
 * themselves, behind it.
 */
#include <stdlib.h>

#include "base/hooks/guard.h"
#include "job/job_id.h"
#include "store/db/id_in.h"
#include "store/dispatch/leader_parts.h"
#include "store/dispatch/outgoing.h"
#include "store/sql/statements.h"

/* Claims that go one way: into the list of the shard, or into the hands of this process. */
struct group {
    const struct dt_claim *claims;
    size_t n;
    bool by_hands;
    struct dt_leader_batch *batch; /* the messages, in the order of the claims */
};

static struct group listed(struct dt_open_txn *t)
{
    return (struct group){.claims = t->claims, .n = t->n_claims, .batch = &t->io->batch};
}

static struct group by_hands(struct dt_open_txn *t)
{
    return (struct group){.claims = t->hands, .n = t->n_hands, .by_hands = true, .batch = &t->io->hands.claimed};
}

/* The previous attempt of a job that is claimed again moves from its row to `attempts`. */
static dt_status archive(struct dt_open_txn *t, struct group group)
{
    struct dt_strbuf list;
    if (t->n_retries == 0 || group.n == 0)
        return DT_OK;
    dt_strbuf_init(&list);
    dt_status status = dt_inflight_format_by_id(group.claims, group.n, &list);
    if (status == DT_OK)
        status = dt_db_run(t->db, dt_sql_keep_latest_attempts, DT_PARAMS(DT_P_STR(dt_strbuf_str(&list))), NULL, t->err);
    dt_strbuf_clear(&list);
    return status;
}

/* What no list has is no shard's: no cancel and no later claim looks for it in a list. */
static dt_status write_claims(struct dt_open_txn *t, struct group group)
{
    uint64_t changed = 0;
    int64_t now = t->row.now_ms;
    int64_t near_end = dt_near_end_ms(now);
    int64_t claim_shard = group.by_hands ? -1 : (int64_t)t->fence->shard;
    int64_t *ids = dt_arena_alloc(t->io->arena, group.n * sizeof(*ids));
    if (group.n == 0)
        return DT_OK;
    if (!ids)
        return DT_NOMEM;
    for (size_t i = 0; i < group.n; i++)
        ids[i] = group.claims[i].id;
    qsort(ids, group.n, sizeof(*ids), dt_by_job_id);
    dt_status status = dt_id_in_run(t->db, &dt_sql_claim_jobs,
                                    DT_PARAMS(DT_P_INT(now), DT_P_INT(now), DT_P_INT(claim_shard), DT_P_INT(now),
                                              DT_P_INT(now), DT_P_INT(near_end), DT_P_INT(now), DT_P_INT(now)),
                                    DT_IDS(ids, group.n), &changed, t->err);
    if (status == DT_OK && changed != group.n)
        status = dt_fail(t->err, DT_INTERNAL, "claimed %llu of %zu locked jobs", (unsigned long long)changed, group.n);
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
    size_t n = t->n_claims + t->n_hands;
    *large = (struct large){.claims = {.v = dt_arena_alloc(arena, n * sizeof(*large->claims.v))},
                            .to = dt_arena_alloc(arena, n * sizeof(*large->to)),
                            .of = dt_arena_alloc(arena, n * sizeof(*large->of))};
    t->io->batch.jobs = dt_arena_alloc(arena, n * sizeof(*t->io->batch.jobs));
    t->io->hands.claimed.jobs = t->io->batch.jobs ? t->io->batch.jobs + t->n_claims : NULL;
    return large->claims.v && large->to && large->of && t->io->batch.jobs ? DT_OK : DT_NOMEM;
}

/* In the order of the claims, which is that of the candidates. What is large is still to be read. */
static void make_batch(struct dt_open_txn *t, struct group group, struct large *large)
{
    size_t n = 0;
    group.batch->n = group.n;
    for (size_t i = 0; i < t->n; i++) {
        const struct dt_candidate *c = &t->v[i];
        if (c->fate != DT_FATE_CLAIM || c->by_hands != group.by_hands)
            continue;
        struct dt_outgoing *out = &group.batch->jobs[n];
        if (c->message) {
            *out = *c->message;
            out->claim = group.claims[n];
            address(out, c);
        } else {
            add_large(large, group.claims[n], out, c);
        }
        n++;
    }
}

static void tell_claiming(const struct dt_open_txn *t)
{
    const struct dt_leader_listener *listener = &t->io->listener;
    struct dt_fence next = *t->fence;
    if (!listener->claiming || t->n_claims == 0)
        return;
    next.batch_no++;
    next.inflight = next.send_n = t->n_claims;
    listener->claiming(listener->arg, &next, t->io->batch.jobs, t->claims, t->n_claims);
}

/* ---- all of it ---- */

static dt_status write_group(struct dt_open_txn *t, struct group group)
{
    dt_status status = archive(t, group);
    return status == DT_OK ? write_claims(t, group) : status;
}

static dt_status write_all(struct dt_open_txn *t, struct large *large)
{
    if (large->claims.n == 0)
        tell_claiming(t);
    dt_status status = write_group(t, listed(t));
    if (status == DT_OK)
        status = write_group(t, by_hands(t));
    if (status == DT_OK)
        status = dt_hands_write(t);
    if (status == DT_OK)
        status = read_large(t, large);
    if (status == DT_OK && large->claims.n > 0)
        tell_claiming(t);
    return status;
}

dt_status dt_claims_write(struct dt_open_txn *t)
{
    struct large large;
    if (t->n_claims + t->n_hands == 0)
        return DT_OK;
    dt_status status = make_room(t, &large);
    if (status != DT_OK)
        return status;
    make_batch(t, listed(t), &large);
    make_batch(t, by_hands(t), &large);
    status = write_all(t, &large);
    if (status == DT_OK)
        count_claims(t);
    return status;
}
