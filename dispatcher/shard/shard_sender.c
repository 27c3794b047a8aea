/*
 * The sender: the leader's thread that opens the delivery, reads the ledger and commits. Only it waits for the server.
 *
 *            ┌────────────── any failure: closed; the next opening needs a new epoch ─────────────────┐
 *            ▼                                                                                        │
 *   CLOSED ─open─▶ OPENING (fence, ledger) ─▶ settled by the loop ─▶ OPEN ─send─▶ SENDING ─▶ OPEN ────┘
 *
 * Owns: the thread, and the request that it runs. Refuses to know when to open or send, and what follows
 * (shard_takeover.c, shard_batch.c).
 *
 * Invariants:
 *   - One request at a time. While it runs, the loop calls only functions of the delivery that answer from memory.
 *   - A request has its own fence, list and arena, because the loop changes its fence with each transaction and reuses
 *     its arena.
 */
#include "base/assert.h"
#include "base/fail_point.h"
#include "base/guard.h"
#include "shard_parts.h"

enum { REQUEST = 1 }; /* a signal of the thread's mailbox */

static void run(void *arg)
{
    struct dt_sender *s = arg;
    while (!dt_thread_stopping(&s->thread)) {
        dt_mailbox_wait(s->mailbox, INT64_MAX);
        if (!atomic_load(&s->busy))
            continue;
        if (s->state != DT_SENDER_CLOSED)
            dt_assert_shard(s->fence.shard);
        if (s->state == DT_SENDER_CLOSED) { /* the loop may still read err, which says why */
            dt_delivery_close(s->delivery);
        } else if (s->state == DT_SENDER_OPENING) {
            s->err = (struct dt_error){0};
            dt_delivery_forget(s->delivery);
            s->status = dt_delivery_fence(s->delivery, &s->fence, &s->err);
            DT_FAIL_POINT_STATUS("takeover.producer", s->status, &s->err);
            if (s->status == DT_OK)
                s->status = dt_delivery_read(s->delivery, &s->fence, &s->list, &s->found, &s->err);
        } else {
            const struct dt_delivery_batch batch = {
                .fence = &s->fence, .claims = s->list.v, .jobs = s->jobs, .arena = &s->arena};
            dt_assert_cmp(s->state, ==, DT_SENDER_SENDING);
            s->err = (struct dt_error){0};
            if (!dt_delivery_begun(s->delivery))
                dt_delivery_begin(s->delivery, &batch, false);
            s->status = dt_delivery_commit(s->delivery, &s->err);
        }
        atomic_store(&s->busy, false);
        s->done(s->arg);
    }
}

dt_status dt_sender_request(struct dt_sender *s, enum dt_sender_state state, const struct dt_fence *fence,
                            const struct dt_inflight *list)
{
    dt_assert(!dt_sender_busy(s));
    dt_assert_cmp(s->state, ==, state == DT_SENDER_OPENING ? DT_SENDER_CLOSED : DT_SENDER_OPEN);
    dt_assert(fence->inflight == list->n || DT_UNGUARDED(REST));
    s->list.n = 0;
    dt_status status = dt_inflight_append(&s->list, list);
    if (status != DT_OK)
        return status;
    s->fence = *fence;
    s->state = state;
    atomic_store(&s->busy, true);
    dt_mailbox_signal(s->mailbox, REQUEST);
    return DT_OK;
}

dt_status dt_sender_send(struct dt_sender *s, const struct dt_fence *fence, const struct dt_inflight *list,
                         const struct dt_outgoing *jobs, struct dt_arena *arena)
{
    struct dt_arena free_arena = s->arena;
    dt_assert(!dt_sender_busy(s)); /* its thread reads the arena */
    s->arena = *arena;
    *arena = free_arena;
    s->jobs = jobs;
    return dt_sender_request(s, DT_SENDER_SENDING, fence, list);
}

bool dt_sender_busy(const struct dt_sender *s)
{
    return atomic_load(&s->busy);
}

void dt_sender_close(struct dt_sender *s)
{
    dt_assert(!dt_sender_busy(s));
    s->state = DT_SENDER_CLOSED;
    atomic_store(&s->busy, true);
    dt_mailbox_signal(s->mailbox, REQUEST);
}

/* ---- life ---- */

dt_status dt_sender_start(struct dt_sender *s, dt_delivery *delivery, void (*done)(void *arg), void *arg)
{
    s->delivery = delivery;
    s->done = done;
    s->arg = arg;
    dt_arena_init(&s->arena);
    dt_status status = dt_mailbox_new(&s->mailbox);
    return status == DT_OK ? dt_thread_start(&s->thread, "delivery", run, s, NULL) : status;
}

void dt_sender_stop(struct dt_sender *s)
{
    if (!s->mailbox)
        return;
    dt_thread_stop(&s->thread, s->mailbox);
    dt_mailbox_free(s->mailbox);
    s->mailbox = NULL;
    dt_inflight_clear(&s->list);
    dt_arena_clear(&s->arena);
}
