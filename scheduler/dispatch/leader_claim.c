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

#include "base/assert.h"
#include "base/guard.h"
#include "job/job.h"
#include "leader_parts.h"
#include "mysql/id_in.h"
#include "mysql/statements.h"
#include "outgoing.h"

/* Claims that go one way: into the list of the shard, or into the hands of this process. */
struct group {
    const struct dt_claim *claims;
    size_t n;
    bool by_hands;
    struct dt_leader_batch *batch; /* the messages, in the order of the claims */
};

/* What no list has is no shard's: no cancel and no later claim looks for it in a list. */
static dt_status write_group(struct dt_open_txn *t, const struct group *group)
{
    uint64_t changed = 0;
    int64_t now = t->row.now_ms;
    int64_t near_end = dt_near_end_ms(now);
    int64_t claim_shard = group->by_hands ? -1 : (int64_t)t->fence->shard;
    dt_status status = DT_OK;
    if (group->n == 0)
        return DT_OK;
    if (t->n_retries) { /* the previous attempts move from their jobs' rows to `attempts` */
        struct dt_strbuf list;
        dt_strbuf_init(&list);
        status = dt_inflight_format_by_id(group->claims, group->n, &list);
        if (status == DT_OK)
            status =
                dt_db_run(t->db, dt_sql_keep_latest_attempts, DT_PARAMS(DT_P_STR(dt_strbuf_str(&list))), NULL, t->err);
        dt_strbuf_clear(&list);
    }
    int64_t *ids = dt_arena_alloc(t->io->arena, group->n * sizeof(*ids));
    if (status == DT_OK && !ids)
        status = DT_NOMEM;
    if (status != DT_OK)
        return status;
    for (size_t i = 0; i < group->n; i++)
        ids[i] = group->claims[i].id;
    qsort(ids, group->n, sizeof(*ids), dt_by_job_id);
    status = dt_id_in_run(t->db, &dt_sql_claim_jobs,
                          DT_PARAMS(DT_P_INT(now), DT_P_INT(now), DT_P_INT(claim_shard), DT_P_INT(now), DT_P_INT(now),
                                    DT_P_INT(near_end), DT_P_INT(now), DT_P_INT(now)),
                          DT_IDS(ids, group->n), &changed, t->err);
    if (status == DT_OK && changed != group->n)
        status = dt_fail(t->err, DT_INTERNAL, "claimed %llu of %zu locked jobs", (unsigned long long)changed, group->n);
    return status;
}

/* Large messages, which are read when it is known that they go: all in one statement. */
struct large {
    struct dt_inflight claims;
    struct dt_outgoing **to;        /* where the message of each goes */
    const struct dt_candidate **of; /* whose it is */
};

/* In the order of the claims, which is that of the candidates. What is large is still to be read. */
static void make_batch(struct dt_open_txn *t, const struct group *group, struct large *large)
{
    size_t n = 0;
    group->batch->n = group->n;
    for (size_t i = 0; i < t->n; i++) {
        const struct dt_candidate *c = &t->v[i];
        if (c->fate != DT_FATE_CLAIM || c->by_hands != group->by_hands)
            continue;
        dt_assert_cmp(n, <, group->n);
        dt_assert_cmp(group->claims[n].id, ==, c->id);
        struct dt_outgoing *out = &group->batch->jobs[n];
        if (c->message) {
            *out = *c->message;
            out->claim = group->claims[n];
            out->topic = c->topic;
            out->kafka_topic = c->kafka_topic;
        } else {
            large->to[large->claims.n] = out;
            large->of[large->claims.n] = c;
            large->claims.v[large->claims.n++] = group->claims[n];
        }
        n++;
    }
    dt_assert_cmp(n, ==, group->n);
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

dt_status dt_claims_write(struct dt_open_txn *t)
{
    struct dt_arena *arena = t->io->arena;
    const size_t n = t->n_claims + t->n_hands;
    if (n == 0)
        return DT_OK;
    struct dt_outgoing *read = NULL;
    struct large large = {.claims = {.v = dt_arena_alloc(arena, n * sizeof(*large.claims.v))},
                          .to = dt_arena_alloc(arena, n * sizeof(*large.to)),
                          .of = dt_arena_alloc(arena, n * sizeof(*large.of))};
    t->io->batch.jobs = dt_arena_alloc(arena, n * sizeof(*t->io->batch.jobs));
    if (!large.claims.v || !large.to || !large.of || !t->io->batch.jobs)
        return DT_NOMEM;
    t->io->hands.claimed.jobs = t->io->batch.jobs + t->n_claims;
    const struct group listed = {.claims = t->claims, .n = t->n_claims, .batch = &t->io->batch};
    const struct group by_hands = {
        .claims = t->hands, .n = t->n_hands, .by_hands = true, .batch = &t->io->hands.claimed};
    make_batch(t, &listed, &large);
    make_batch(t, &by_hands, &large);
    if (large.claims.n == 0)
        tell_claiming(t);
    dt_status status = write_group(t, &listed);
    if (status == DT_OK)
        status = write_group(t, &by_hands);
    if (status == DT_OK)
        status = dt_hands_write(t);
    if (status == DT_OK && large.claims.n)
        status = dt_outgoing_read(t->db, &large.claims, arena, &read, t->err);
    for (size_t i = 0; status == DT_OK && i < large.claims.n; i++) {
        *large.to[i] = read[i];
        /* The message is sent to the topic that the gate was asked about, even if `topics` has changed. */
        large.to[i]->topic = large.of[i]->topic;
        large.to[i]->kafka_topic = large.of[i]->kafka_topic;
    }
    if (status == DT_OK && large.claims.n)
        tell_claiming(t);
    for (size_t i = 0; status == DT_OK && i < t->n; i++)
        if (t->v[i].fate == DT_FATE_CLAIM && !DT_UNGUARDED(COUNT_CLAIM))
            dt_counts_move(&t->counts, t->v[i].topic, t->v[i].id, t->v[i].state, t->v[i].claimed);
    return status;
}
