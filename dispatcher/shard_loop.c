/*
 * The Event worker of one shard.
 *
 *            ┌───────────────── any doubt, after a pause with jitter ────────────────┐
 *            ▼                                                                        │
 *   TAKEOVER: epoch+1, token (MySQL) ─▶ new producer, init_transactions (Kafka) ─▶ row still ours? ─▶ barrier into the
 * ledger, read up to it ─▶ settle what the ledger has, keep the rest in flight ▼ LEADING:  the rest is sent first;
 * then, for ever: hints (Redis, or MySQL when Redis is away) ─▶ turn (MySQL: settle, time out, claim) ─▶ send (Kafka
 * transaction with ledger record) ─▶ tell the index ─▶ sleep until the next due time, a wake-up, the settling of the
 * last batch, or a second
 *
 * Invariants:
 *   - ZooKeeper only decides who tries. What is written is guarded by the shard's row (epoch, token, version) and by
 * Kafka's fencing.
 *   - A claim is never undone. `flight` is the list that the row holds. It is sent exactly as it is, and `sent` only
 * after a clean commit.
 *   - After anything that is not a clean success nothing is sent again from memory: the producer is destroyed, the
 * ledger decides.
 *   - The index is told last: whatever it says is a hint, and a lost word costs a second at most.
 */
#include "shard_loop.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/fail_point.h"
#include "base/log.h"
#include "base/mailbox.h"
#include "base/metrics.h"
#include "ledger_record.h"
#include "message.h"
#include "store/store_dispatch.h"
#include "topic_gate.h"

enum { WAKE = 1, TOPICS = 2, STOP = 4, RELEASE = 8 };

#define LOOK_US         INT64_C(1000000) /* a leader looks at its row and its index at least this often */
#define OLD_CLAIM_US    INT64_C(100000)  /* a batch that took longer gets its acknowledgement deadlines renewed */
#define CLOCK_US        INT64_C(10000000) /* MySQL's clock is sampled at least this often, so that waking at rest is exact */
#define HELD_US         INT64_C(5000000) /* held sets are looked at this often without being told */
#define PAUSE_FIRST_US  INT64_C(20000)
#define PAUSE_MAX_US    INT64_C(2000000)
#define BARRIER_WAIT_US INT64_C(15000000)
#define DEGRADED_SCAN   10000
#define UNHOLD_STEP     10000
#define LOCKED_FIRST_US INT64_C(5000)
#define MARK_US         INT64_C(5000000) /* the index is asked to take a change at least this often */
#define REST_EARLY_MS   1500             /* a shard at rest takes over so long before something is due */
#define STALE_MAP_US    INT64_C(10000)   /* the map is on its way */

struct meters {
    dt_metric *dispatched, *lateness, *batch, *takeovers, *timed_out, *send_seconds, *turn_seconds, *epoch, *leading;
};

struct dt_shard_loop {
    const struct dt_loop_env *env;
    unsigned shard;
    pthread_t thread;
    dt_mailbox *mailbox;
    _Atomic bool stop, release;
    volatile bool abort; /* what blocking Kafka calls look at: stop */
    _Atomic bool index_whole;
    struct meters meters;

    /* the thread's own */
    dt_store *store;
    dt_index *index;
    dt_topic_book *book;
    dt_topic_gate *gate;
    dt_producer *producer;
    dt_json *json;
    struct dt_arena arena;
    struct dt_shard_map map;
    struct dt_lease lease;
    struct dt_claims flight; /* what the row's list holds */
    bool sent;               /* flight was committed; settle_offset is valid */
    int64_t settle_offset;
    int64_t claimed_us, sent_us; /* mono */
    bool index_up;
    bool marked;        /* this leadership has put its marker into its set */
    int64_t marked_us;  /* mono: when the index was last seen to take a change */
    bool index_stuck;   /* what stands at the head of the index cannot be moved: MySQL is read once through */
    int64_t barrier_at; /* offset of this takeover's barrier */
    struct dt_hint *hints;
    struct dt_entry *entries;
    struct dt_due *due;
    size_t n_hints;
    int64_t scan_ms, scan_id; /* cursor of the degraded scan */
    int64_t checked_us, clock_us, held_us, locked_pause_us;
    int64_t busy_us; /* mono: when there was last something to do */
    bool resume;     /* a shard at rest has something to do again: take over */
    bool topics_changed, halt_told;

    pthread_mutex_t state_lock;
    struct dt_loop_state state;
};

static int64_t mono_us(const dt_shard_loop *l)
{
    return dt_clock_mono_us(l->env->clock);
}
static bool ending(const dt_shard_loop *l)
{
    return l->stop || l->release;
}

/* ---- state for others ---- */

static void say(dt_shard_loop *l, const char *waiting, const char *detail)
{
    pthread_mutex_lock(&l->state_lock);
    l->state.waiting = waiting;
    snprintf(l->state.detail, sizeof l->state.detail, "%s", waiting ? detail : "");
    pthread_mutex_unlock(&l->state_lock);
}

static void say_leading(dt_shard_loop *l, bool leading, bool halted)
{
    pthread_mutex_lock(&l->state_lock);
    l->state.leading = leading;
    l->state.halted = halted;
    l->state.marker = (struct dt_marker){l->lease.epoch, l->lease.token};
    pthread_mutex_unlock(&l->state_lock);
    dt_metric_set(l->meters.leading, leading);
    if (leading)
        dt_metric_set(l->meters.epoch, (double)l->lease.epoch);
}

void dt_shard_loop_state(dt_shard_loop *l, struct dt_loop_state *out)
{
    pthread_mutex_lock(&l->state_lock);
    *out = l->state;
    pthread_mutex_unlock(&l->state_lock);
}

/* ---- takeover ---- */

static dt_status send_barrier(dt_shard_loop *l, struct dt_error *err)
{
    struct dt_strbuf value;
    dt_strbuf_init(&value);
    dt_ledger_format_barrier(&value, l->env->kafka->uuid, &l->lease);
    dt_status status = value.failed ? DT_NOMEM
                                    : dt_producer_send(l->producer, NULL, 0, DT_LEDGER_BARRIER, dt_strbuf_str(&value),
                                                       &l->barrier_at, err);
    dt_strbuf_clear(&value);
    return status;
}

/* Reads from ledger_offset to our own barrier and settles, or halts the shard. An operator may have chosen the end of
 * the ledger (dt_clear_halt, -1): our barrier is where it ends now. */
static dt_status read_ledger(dt_shard_loop *l, struct dt_error *err)
{
    struct dt_ledger_view view;
    int64_t next, from = l->lease.ledger_offset < 0 ? l->barrier_at : l->lease.ledger_offset;
    dt_status status = dt_ledger_view_init(&view, l->env->kafka->uuid, &l->lease, &l->flight);
    if (status != DT_OK)
        return status;
    status = dt_ledger_read(l->env->kafka, l->shard, from, l->env->clock, mono_us(l) + BARRIER_WAIT_US, &l->abort,
                            dt_ledger_view_record, &view, &next, err);
    if (status == DT_INVALID) {
        snprintf(view.problem, sizeof view.problem,
                 "ledger offset %lld is out of range: the ledger was trimmed or recreated", (long long)from);
        status = DT_OK;
    }
    if (DT_FAIL_FORCED("takeover.barrier_unseen"))
        view.barrier = false;
    DT_FAIL_POINT_STATUS("takeover.ledger", status, err);
    if (status == DT_OK && !view.barrier && !view.problem[0])
        status = dt_fail(err, DT_UNAVAILABLE, "the barrier did not come by");
    if (status == DT_OK) {
        size_t settled = view.batches ? l->flight.n : 0;
        bool halt = view.problem[0] != '\0';
        status = dt_store_takeover_settle(l->store, &l->lease, &l->flight, settled, view.next_offset,
                                          halt ? view.problem : NULL, err);
        DT_FAIL_POINT_STATUS("takeover.settled", status, err);
        if (status == DT_OK && halt)
            status = dt_fail(err, DT_HALTED, "%s", view.problem);
        else if (status == DT_OK) {
            DT_LOG(INFO, "shard", "took over", DT_I("shard", l->shard), DT_I("epoch", l->lease.epoch),
                   DT_I("in_flight", l->flight.n), DT_I("in_ledger", settled), DT_I("offset", view.next_offset));
            l->flight.n -= settled;
        }
    }
    dt_ledger_view_clear(&view);
    return status;
}

static dt_status check_ledger_settings(dt_shard_loop *l, struct dt_error *err)
{
    dt_status status = dt_kafka_admin_check_ledger(l->env->admin, err);
    if (status != DT_REFUSED)
        return status;
    struct dt_error ignored;
    dt_status halted = dt_store_takeover_settle(l->store, &l->lease, &l->flight, 0, 0, err->text, &ignored);
    return halted == DT_OK ? dt_fail(err, DT_HALTED, "%s", err->text) : halted;
}

static dt_status take_over(dt_shard_loop *l, struct dt_error *err)
{
    struct dt_installation inst;
    dt_metric_add(l->meters.takeovers, 1);
    l->flight.n = 0;
    l->sent = l->marked = false;
    dt_producer_free(l->producer);
    l->producer = NULL;
    dt_status status = dt_store_takeover(l->store, l->shard, (int64_t)l->env->random(l->env->arg), l->env->owner,
                                         &l->lease, &l->flight, err);
    DT_FAIL_POINT_STATUS("takeover.epoch", status, err);
    if (status == DT_OK)
        status = dt_producer_new(l->env->kafka, l->shard, &l->abort, &l->producer, err);
    DT_FAIL_POINT_STATUS("takeover.producer", status, err);
    if (status == DT_OK)
        status = dt_store_lease_check(l->store, &l->lease, &inst, err);
    DT_FAIL_POINT_STATUS("takeover.checked", status, err);
    if (status == DT_OK)
        status = check_ledger_settings(l, err);
    if (status == DT_OK)
        status = send_barrier(l, err);
    DT_FAIL_POINT_STATUS("takeover.barrier", status, err);
    if (status == DT_OK)
        status = read_ledger(l, err);
    return status;
}

/* ---- sending ---- */

static dt_status make_messages(dt_shard_loop *l, const struct dt_outgoing *batch, size_t n,
                               struct dt_kafka_message **out, size_t *n_out)
{
    int64_t now_ms = dt_refclock_latest_ms(l->env->ref);
    *out = dt_arena_alloc(&l->arena, (n ? n : 1) * sizeof **out);
    *n_out = 0;
    if (!*out)
        return DT_NOMEM;
    for (size_t i = 0; i < n; i++) {
        if (!batch[i].topic.p) { /* its row was deleted by hand: there is nothing to send, and nobody to tell */
            DT_LOG(ERROR, "shard", "an attempt in flight has no job any more", DT_I("shard", l->shard),
                   DT_I("job", batch[i].claim.id), DT_I("attempt", batch[i].claim.attempt));
            continue;
        }
        dt_status status =
            dt_message_of_job(&batch[i], l->env->kafka->installation, now_ms, l->json, &l->arena, &(*out)[*n_out]);
        if (status != DT_OK)
            return status;
        (*n_out)++;
    }
    return DT_OK;
}

static void observe_sent(dt_shard_loop *l)
{
    int64_t now_ms = dt_refclock_latest_ms(l->env->ref);
    for (size_t i = 0; i < l->flight.n; i++)
        dt_metric_observe(l->meters.lateness, (double)(now_ms - l->flight.v[i].due_ms) / 1000);
    dt_metric_add(l->meters.dispatched, (int64_t)l->flight.n);
    dt_metric_observe(l->meters.batch, (double)l->flight.n);
}

/* Sends the whole list in flight in one transaction. */
static dt_status send_flight(dt_shard_loop *l, const struct dt_outgoing *batch, struct dt_error *err)
{
    struct dt_kafka_message *messages;
    struct dt_strbuf record;
    size_t n;
    int64_t offset = -1, start_us = mono_us(l);
    dt_strbuf_init(&record);
    dt_ledger_format_batch(&record, l->env->kafka->uuid, &l->lease, l->flight.v, l->flight.n);
    dt_status status = record.failed ? DT_NOMEM : make_messages(l, batch, l->flight.n, &messages, &n);
    if (status == DT_OK)
        status = dt_producer_send(l->producer, messages, n, DT_LEDGER_BATCH, dt_strbuf_str(&record), &offset, err);
    dt_strbuf_clear(&record);
    DT_FAIL_POINT_STATUS("settle.before", status, err);
    if (status == DT_OK && offset < l->lease.ledger_offset)
        status = dt_fail(err, DT_DOUBT, "the ledger record's offset %lld is below %lld", (long long)offset,
                         (long long)l->lease.ledger_offset);
    if (status != DT_OK)
        return status;
    l->sent = true;
    l->sent_us = mono_us(l);
    l->settle_offset = offset + 1;
    dt_metric_observe(l->meters.send_seconds, (double)(l->sent_us - start_us) / 1e6);
    observe_sent(l);
    return DT_OK;
}

/* After a takeover: what the ledger lacks goes first, under the same attempt numbers. */
static dt_status send_leftover(dt_shard_loop *l, struct dt_error *err)
{
    struct dt_outgoing *batch;
    if (l->flight.n == 0)
        return DT_OK;
    dt_arena_reset(&l->arena);
    l->claimed_us = 0; /* who knows when: renew the deadlines */
    dt_status status = dt_store_read_outgoing(l->store, &l->flight, &l->arena, &batch, err);
    return status == DT_OK ? send_flight(l, batch, err) : status;
}

/* ---- hints ---- */

static void hint_due(dt_shard_loop *l, int64_t id, int64_t due_ms)
{
    l->hints[l->n_hints++] = (struct dt_hint){id, due_ms};
}

/*
 * Puts our marker into the set, and sees that the index takes changes: one that answers but cannot be told anything
 * (read-only, out of memory) lacks new jobs and keeps old entries, so it must not be believed.
 */
static dt_status mark(dt_shard_loop *l, struct dt_marker marker, bool there, struct dt_error *err)
{
    bool intact = true;
    dt_status status = dt_index_mark(l->index, l->shard, marker, &intact, err);
    if (status != DT_OK)
        return status;
    l->marked_us = mono_us(l);
    /* An earlier leader's marker is as good, once: later it means that an old copy of Redis came back. */
    if (!there && (!intact || l->marked)) {
        l->index_whole = false;
        DT_LOG(WARN, "shard", "the index was lost: reading from MySQL while it is rebuilt", DT_I("shard", l->shard));
        l->env->index_lost(l->env->arg, l->shard);
    }
    l->marked = true;
    return DT_OK;
}

/* From Redis. The marker tells whether the set is the one that was filled. */
static dt_status look_in_index(dt_shard_loop *l, int64_t now_ms, int64_t *next_ms)
{
    struct dt_error err = {0};
    size_t n = 0;
    bool marked = false;
    struct dt_marker marker = {l->lease.epoch, l->lease.token};
    dt_status status = dt_index_due(l->index, l->shard, marker, now_ms, (size_t)l->env->config->dispatch_batch_jobs,
                                    l->entries, &n, next_ms, &marked, &err);
    if (status == DT_OK && (!marked || mono_us(l) - l->marked_us >= MARK_US))
        status = mark(l, marker, marked, &err);
    if (l->index_up && status != DT_OK)
        DT_LOG(WARN, "shard", "no index: reading from MySQL", DT_I("shard", l->shard), DT_S("reason", err.text));
    l->index_up = status == DT_OK;
    for (size_t i = 0; status == DT_OK && i < n; i++)
        hint_due(l, l->entries[i].id, l->entries[i].due_ms);
    return status;
}

/* From MySQL, bounded: a cursor goes through what is overdue, then starts over. */
static dt_status look_in_store(dt_shard_loop *l, int64_t now_ms, int64_t *next_ms, struct dt_error *err)
{
    size_t n = 0;
    bool end = true;
    l->n_hints = 0;
    dt_status status = dt_store_scan_shard(l->store, &l->map, l->shard, now_ms, l->scan_ms, l->scan_id, DEGRADED_SCAN,
                                           (size_t)l->env->config->dispatch_batch_jobs, l->due, &n, &end, &l->scan_ms,
                                           &l->scan_id, err);
    if (status != DT_OK)
        return status;
    for (size_t i = 0; i < n; i++)
        hint_due(l, l->due[i].id, l->due[i].next_ms);
    if (!end) {
        *next_ms = now_ms;
        return DT_OK;
    }
    l->scan_ms = l->scan_id = 0;
    l->index_stuck = false;
    return dt_store_next_due(l->store, &l->map, l->shard, now_ms, DEGRADED_SCAN, next_ms, err);
}

static dt_status look(dt_shard_loop *l, int64_t now_ms, int64_t *next_ms, struct dt_error *err)
{
    l->n_hints = 0;
    *next_ms = 0;
    dt_status status = look_in_index(l, now_ms, next_ms);
    if (status == DT_OK && l->index_whole && !l->index_stuck)
        return DT_OK;
    return look_in_store(l, now_ms, next_ms, err);
}

/* ---- a turn ---- */

/* The next looks go past the index: MySQL is read from the longest overdue on, with a cursor. */
static void pass_by_index(dt_shard_loop *l)
{
    l->index_stuck = true;
    l->scan_ms = l->scan_id = 0;
}

/* Moves the entries of one topic that cannot go now, seen[first] and those after it, to the topic's held set. */
static dt_status hold_topic(dt_shard_loop *l, struct dt_seen *seen, size_t n, struct dt_entry *entries,
                            struct dt_error *err)
{
    struct dt_str topic = seen[0].hold;
    size_t held = 0;
    for (size_t i = 0; i < n; i++)
        if (seen[i].hold.p && dt_str_eq(seen[i].hold, topic)) {
            entries[held++] = (struct dt_entry){seen[i].id, seen[i].hint_ms};
            seen[i].hold = DT_STR_NONE;
            seen[i].id = 0; /* dealt with */
        }
    return dt_index_hold(l->index, l->shard, topic, entries, held, err);
}

/* Tells the index what became of the hints. What it cannot be told stays at its head and would be met again at every
 * look, before all others. */
static void tell_index(dt_shard_loop *l, const struct dt_turn *turn)
{
    if (!l->index_up || turn->n_seen == 0)
        return;
    int64_t horizon_ms = turn->now_ms + l->env->config->index_horizon;
    struct dt_fix *fixes = dt_arena_alloc(&l->arena, turn->n_seen * sizeof *fixes);
    struct dt_entry *held = dt_arena_alloc(&l->arena, turn->n_seen * sizeof *held);
    struct dt_error err = {0};
    dt_status status = fixes && held ? DT_OK : DT_NOMEM;
    size_t n = 0;
    for (size_t i = 0; status == DT_OK && i < turn->n_seen; i++) {
        struct dt_seen *seen = &turn->seen[i];
        if (seen->hold.p)
            status = hold_topic(l, seen, turn->n_seen - i, held, &err);
        else if (seen->id)
            fixes[n++] = (struct dt_fix){seen->id, seen->hint_ms, seen->next_ms < horizon_ms ? seen->next_ms : 0};
    }
    if (status == DT_OK && n)
        status = dt_index_fix(l->index, l->shard, fixes, n, &err);
    if (status == DT_OK)
        return;
    DT_LOG(DEBUG, "shard", "the index was not told", DT_I("shard", l->shard), DT_S("reason", err.text));
    l->marked_us = 0; /* does it take any change? */
    pass_by_index(l);
}

static dt_status keep_flight(dt_shard_loop *l, const struct dt_turn *turn)
{
    l->flight.n = 0;
    l->sent = false;
    if (turn->n_batch > l->flight.cap) {
        struct dt_claim *v = realloc(l->flight.v, turn->n_batch * sizeof *v);
        if (!v)
            return DT_NOMEM;
        l->flight.v = v;
        l->flight.cap = turn->n_batch;
    }
    for (size_t i = 0; i < turn->n_batch; i++)
        l->flight.v[l->flight.n++] = turn->batch[i].claim;
    return DT_OK;
}

static dt_status take_turn(dt_shard_loop *l, struct dt_turn *turn, struct dt_error *err)
{
    int64_t start_us = mono_us(l);
    dt_arena_reset(&l->arena);
    *turn = (struct dt_turn){.settle = &l->flight,
                             .settle_offset = l->settle_offset,
                             .extend_deadlines = start_us - l->claimed_us > OLD_CLAIM_US,
                             .hints = l->hints,
                             .n_hints = l->n_hints,
                             .max_jobs = (size_t)l->env->config->dispatch_batch_jobs,
                             .max_bytes = (size_t)l->env->config->dispatch_batch_bytes,
                             .map = &l->map,
                             .topics = l->book,
                             .writable = dt_topic_gate_ask,
                             .arg = l->gate,
                             .arena = &l->arena};
    dt_status status = dt_store_turn(l->store, &l->lease, turn, err);
    if (status != DT_OK)
        return status;
    dt_metric_observe(l->meters.turn_seconds, (double)(mono_us(l) - start_us) / 1e6);
    dt_metric_add(l->meters.timed_out, (int64_t)turn->timed_out);
    l->claimed_us = start_us;
    l->checked_us = start_us;
    status = keep_flight(l, turn);
    if (status == DT_OK && turn->n_batch)
        status = send_flight(l, turn->batch, err);
    DT_FAIL_POINT("index.before_told");
    tell_index(l, turn); /* also of a batch that was not sent: it stays claimed */
    if (turn->outbox)
        l->env->outbox(l->env->arg, l->shard);
    return status;
}

/* ---- topics that were held back ---- */

/* Of a topic that cannot be written only the first entry comes back, so that the topic is asked for again: all of them
 * would only be held again, and keep everybody else waiting meanwhile. */
static size_t unhold_step(dt_shard_loop *l, struct dt_str topic)
{
    struct dt_str kafka_topic = dt_topic_book_kafka_topic(l->book, topic);
    return kafka_topic.p && dt_topic_gate_ask(l->gate, kafka_topic, 0) == DT_WRITABLE_NO ? 1 : UNHOLD_STEP;
}

static void give_back_held(dt_shard_loop *l)
{
    struct dt_arena arena;
    struct dt_str *topics;
    size_t n = 0;
    struct dt_error err = {0};
    dt_arena_init(&arena);
    dt_status status = dt_index_held(l->index, l->shard, &arena, &topics, &n, &err);
    if (status == DT_OK && n)
        status = dt_store_read_topics(l->store, l->book, &err);
    for (size_t i = 0; status == DT_OK && i < n; i++) {
        int64_t left = 0;
        if (dt_topic_book_paused(l->book, topics[i]))
            continue;
        size_t some = unhold_step(l, topics[i]);
        status = dt_index_unhold(l->index, l->shard, topics[i], some, &left, &err);
        if (left && some > 1)
            l->topics_changed = true; /* go on at the next step */
    }
    dt_arena_clear(&arena);
}

static void look_at_held(dt_shard_loop *l)
{
    if (!l->index_up || (!l->topics_changed && mono_us(l) - l->held_us < HELD_US))
        return;
    l->topics_changed = false;
    l->held_us = mono_us(l);
    give_back_held(l);
}

/* ---- leading ---- */

static dt_status check_lease(dt_shard_loop *l, struct dt_error *err)
{
    struct dt_installation inst = {0};
    dt_status status = dt_store_lease_check(l->store, &l->lease, &inst, err);
    l->checked_us = mono_us(l);
    if (status == DT_OK && l->checked_us - l->clock_us >= CLOCK_US) {
        l->clock_us = l->checked_us;
        status = dt_store_ping(l->store, err);
    }
    if (status == DT_OK && inst.generation != l->map.generation)
        l->env->stale_map(l->env->arg);
    return status;
}

static int64_t settle_at_us(const dt_shard_loop *l)
{
    return l->sent_us + l->env->config->dispatch_settle_after * 1000;
}

/* When to look again, from what this step has seen. */
static int64_t next_look_us(dt_shard_loop *l, const struct dt_turn *turn, int64_t next_ms, bool news)
{
    int64_t now_us = mono_us(l), at_us = now_us + LOOK_US;
    if (turn && turn->stale_map)
        return now_us + STALE_MAP_US;
    if (turn && (turn->more || news))
        return now_us;
    l->locked_pause_us = !turn || !turn->locked ? 0
                         : l->locked_pause_us   ? dt_earlier(l->locked_pause_us * 2, LOOK_US)
                                                : LOCKED_FIRST_US;
    if (l->locked_pause_us)
        at_us = dt_earlier(at_us, now_us + l->locked_pause_us);
    if (next_ms)
        at_us = dt_earlier(at_us, dt_refclock_mono_us_at(l->env->ref, next_ms));
    if (l->flight.n)
        at_us = dt_earlier(at_us, settle_at_us(l));
    return at_us;
}

/* A full look, most of which had to be left (rows that others hold locked, or that wait for another shard's list): the
 * next look would see little else. */
static bool left_in_front(const dt_shard_loop *l, const struct dt_turn *turn)
{
    return turn->locked && !turn->more && l->n_hints == (size_t)l->env->config->dispatch_batch_jobs &&
           turn->n_seen < l->n_hints / 2 && !l->index_stuck;
}

/*
 * Rest: with nothing in flight and nothing due for a while the producer goes, and with it its threads, which wake up
 * every second for nothing. Shortly before something is due, or when something turns up, the shard is taken over again
 * in the ordinary way.
 */
static void rest(dt_shard_loop *l, int64_t now_ms, int64_t next_ms)
{
    bool far = !next_ms || next_ms - now_ms > 2 * REST_EARLY_MS;
    if (!l->producer || l->flight.n || !far || !l->index_up || !l->index_whole ||
        mono_us(l) - l->busy_us < l->env->config->dispatch_rest_after * 1000)
        return;
    DT_LOG(DEBUG, "shard", "rests", DT_I("shard", l->shard));
    dt_producer_free(l->producer);
    l->producer = NULL;
}

static bool must_resume(dt_shard_loop *l, int64_t now_ms, int64_t next_ms)
{
    if (l->producer || (!l->n_hints && (!next_ms || next_ms - now_ms > REST_EARLY_MS)))
        return false;
    l->resume = true;
    return true;
}

static dt_status step(dt_shard_loop *l, int64_t *wake_us, struct dt_error *err)
{
    struct dt_turn turn;
    int64_t next_ms = 0, now_ms = dt_refclock_earliest_ms(l->env->ref);
    bool news = false, turned = false;
    if (!l->env->leads(l->env->arg, l->shard))
        return dt_fail(err, DT_DEPOSED, "ZooKeeper does not name this process");
    l->env->map(l->env->arg, &l->map);
    look_at_held(l);
    dt_status status = look(l, now_ms, &next_ms, err);
    if (status == DT_OK && must_resume(l, now_ms, next_ms))
        return DT_OK;
    if (l->n_hints)
        l->busy_us = mono_us(l);
    if (status == DT_OK && (l->n_hints || (l->flight.n && mono_us(l) >= settle_at_us(l)))) {
        status = take_turn(l, &turn, err);
        turned = true;
        if (status == DT_OK) {
            news = dt_topic_gate_resolve(l->gate);
            l->topics_changed |= news;
            if (left_in_front(l, &turn))
                pass_by_index(l);
            if (turn.stale_map)
                l->env->stale_map(l->env->arg);
            if (turn.n_batch && !turn.locked)
                next_ms = next_ms ? next_ms : now_ms;
        }
    } else if (status == DT_OK && mono_us(l) - l->checked_us >= LOOK_US)
        status = check_lease(l, err);
    if (status != DT_OK)
        return status;
    rest(l, now_ms, next_ms);
    const char *trouble = dt_topic_gate_trouble(l->gate);
    say(l, trouble[0] ? "kafka" : l->index_up ? NULL : "redis", trouble[0] ? trouble : "the index is not reachable");
    *wake_us = next_look_us(l, turned ? &turn : NULL, next_ms, news);
    return DT_OK;
}

/* The last batch is settled, the row says that nobody leads. */
static dt_status step_down(dt_shard_loop *l, struct dt_error *err)
{
    struct dt_turn turn;
    dt_status status = DT_OK;
    l->n_hints = 0;
    if (l->flight.n && l->sent)
        status = take_turn(l, &turn, err);
    DT_FAIL_POINT_STATUS("step_down.settled", status, err);
    if (status == DT_OK)
        status = dt_store_step_down(l->store, &l->lease, err);
    if (status == DT_OK)
        DT_LOG(INFO, "shard", "stepped down", DT_I("shard", l->shard), DT_I("epoch", l->lease.epoch));
    return status;
}

static dt_status lead(dt_shard_loop *l, struct dt_error *err)
{
    dt_status status = send_leftover(l, err);
    l->checked_us = l->busy_us = mono_us(l);
    l->held_us = l->marked_us = 0;
    l->resume = false;
    l->scan_ms = l->scan_id = 0;
    if (!l->index_whole) /* a rebuild does not outlive the leadership that asked for it */
        l->env->index_lost(l->env->arg, l->shard);
    while (status == DT_OK && !ending(l)) {
        int64_t wake_us = 0;
        status = step(l, &wake_us, err);
        if (l->resume)
            return status;
        if (status == DT_OK && !ending(l) && (dt_mailbox_wait(l->mailbox, wake_us) & TOPICS))
            l->topics_changed = true;
    }
    if (status == DT_OK && l->release && !l->stop)
        status = step_down(l, err);
    return status;
}

/* ---- the thread ---- */

static void report(dt_shard_loop *l, dt_status status, const struct dt_error *err)
{
    static const char *const kafka = "kafka";
    bool about_kafka = status == DT_DOUBT || status == DT_REFUSED || (status == DT_UNAVAILABLE && l->producer == NULL);
    say(l, about_kafka ? kafka : NULL, err->text);
    if (status == DT_HALTED && l->halt_told)
        return;
    l->halt_told = status == DT_HALTED;
    if (status == DT_HALTED)
        DT_LOG(ERROR, "shard", "halted: waits for an operator (dt_clear_halt)", DT_I("shard", l->shard),
               DT_S("reason", err->text));
    else
        DT_LOG(WARN, "shard", "takes over again", DT_I("shard", l->shard), DT_S("status", dt_status_name(status)),
               DT_S("reason", err->text));
}

/* Kafka will never take a message of this batch: nobody may drop it silently, so the shard waits for an operator. */
static dt_status halt_refused(dt_shard_loop *l, struct dt_error *err)
{
    struct dt_error ignored = {0};
    char reason[400];
    snprintf(reason, sizeof reason, "Kafka refuses a message of batch %lld for good: %s", (long long)l->lease.batch_no,
             err->text);
    dt_status status =
        dt_store_takeover_settle(l->store, &l->lease, &l->flight, 0, l->lease.ledger_offset, reason, &ignored);
    return status == DT_OK ? dt_fail(err, DT_HALTED, "%s", reason) : status;
}

/* Waits with jitter; wake-ups do not shorten it, an end does. */
static void pause_before_takeover(dt_shard_loop *l, unsigned failures)
{
    int64_t cap = PAUSE_FIRST_US << (failures < 8 ? failures : 8);
    cap = dt_earlier(cap, PAUSE_MAX_US);
    int64_t until = mono_us(l) + cap / 2 + (int64_t)(l->env->random(l->env->arg) % (uint64_t)(cap / 2 + 1));
    while (!ending(l) && mono_us(l) < until)
        dt_mailbox_wait(l->mailbox, until);
}

static void serve(dt_shard_loop *l)
{
    unsigned failures = 0;
    while (!ending(l)) {
        struct dt_error err = {0};
        bool led = false;
        int64_t start_us = mono_us(l);
        dt_status status =
            l->env->leads(l->env->arg, l->shard) ? take_over(l, &err) : dt_fail(&err, DT_DEPOSED, "not elected");
        if (status == DT_OK) {
            led = true;
            start_us = mono_us(l);
            l->env->map(l->env->arg, &l->map);
            say(l, NULL, "");
            say_leading(l, true, false);
            status = lead(l, &err);
            if (status == DT_OK && l->resume)
                continue;
        }
        if (status == DT_REFUSED && led) /* before that nothing was sent: wait until Kafka lets us */
            status = halt_refused(l, &err);
        say_leading(l, false, status == DT_HALTED);
        if (status == DT_OK || ending(l))
            break;
        report(l, status, &err);
        /* Leaderships that end at once, time and again, must not follow each other without a pause. */
        bool lasted = led && mono_us(l) - start_us >= LOOK_US;
        failures = status == DT_HALTED ? 8 : lasted ? 0 : failures + 1;
        pause_before_takeover(l, failures);
    }
}

static void *run(void *arg)
{
    dt_shard_loop *l = arg;
    serve(l);
    dt_producer_free(l->producer);
    l->producer = NULL;
    l->env->stopped(l->env->arg, l->shard);
    return NULL;
}

/* ---- life ---- */

static void make_meters(dt_shard_loop *l)
{
    char label[32];
    snprintf(label, sizeof label, "shard=\"%u\"", l->shard);
    l->meters = (struct meters){
        .dispatched = dt_counter("duetime_dispatched_total", "Attempts committed to Kafka.", label),
        .lateness = dt_histogram("duetime_dispatch_lateness_seconds", "From due time to Kafka's commit.", ""),
        .batch = dt_histogram_count("duetime_dispatch_batch_jobs", "Jobs in one dispatch.", ""),
        .takeovers = dt_counter("duetime_takeovers_total", "Takeovers begun.", label),
        .timed_out = dt_counter("duetime_ack_timeouts_total", "Attempts whose result did not come in time.", label),
        .send_seconds = dt_histogram("duetime_kafka_transaction_seconds", "One Kafka transaction.", ""),
        .turn_seconds = dt_histogram("duetime_mysql_turn_seconds", "One leader's transaction in MySQL.", ""),
        .epoch = dt_gauge("duetime_shard_epoch", "Epoch of the leadership in this process.", label),
        .leading = dt_gauge("duetime_shard_leading", "1 while this process leads the shard.", label),
    };
}

static dt_status make_parts(dt_shard_loop *l)
{
    struct dt_error err = {0};
    size_t batch = (size_t)l->env->config->dispatch_batch_jobs;
    l->hints = calloc(batch, sizeof *l->hints);
    l->entries = calloc(batch, sizeof *l->entries);
    l->due = calloc(batch, sizeof *l->due);
    dt_status status = l->hints && l->entries && l->due ? dt_mailbox_new(&l->mailbox) : DT_NOMEM;
    if (status == DT_OK)
        status = dt_store_new(l->env->config, l->env->ref, &l->store);
    if (status == DT_OK)
        status = dt_index_new(l->env->config, l->env->kafka->installation, l->env->clock, &l->index, &err);
    if (status == DT_OK)
        status = dt_topic_book_new(&l->book);
    if (status == DT_OK)
        status = dt_topic_gate_new(l->env->admin, l->env->clock, &l->gate);
    if (status == DT_OK)
        status = dt_json_new(&l->json);
    return status;
}

static void free_parts(dt_shard_loop *l)
{
    dt_json_free(l->json);
    dt_topic_gate_free(l->gate);
    dt_topic_book_free(l->book);
    dt_index_free(l->index);
    dt_store_free(l->store);
    dt_mailbox_free(l->mailbox);
    dt_claims_clear(&l->flight);
    dt_arena_clear(&l->arena);
    pthread_mutex_destroy(&l->state_lock);
    free(l->hints);
    free(l->entries);
    free(l->due);
    free(l);
}

dt_status dt_shard_loop_start(const struct dt_loop_env *env, unsigned shard, dt_shard_loop **out)
{
    dt_shard_loop *l = calloc(1, sizeof *l);
    if (!l)
        return DT_NOMEM;
    l->env = env;
    l->shard = shard;
    l->index_whole = true;
    l->index_up = true;
    pthread_mutex_init(&l->state_lock, NULL);
    dt_arena_init(&l->arena);
    make_meters(l);
    dt_status status = make_parts(l);
    if (status == DT_OK && pthread_create(&l->thread, NULL, run, l) != 0)
        status = DT_SYSTEM;
    if (status != DT_OK) {
        free_parts(l);
        return status;
    }
    *out = l;
    return DT_OK;
}

void dt_shard_loop_free(dt_shard_loop *l)
{
    if (!l)
        return;
    pthread_join(l->thread, NULL);
    free_parts(l);
}

void dt_shard_loop_wake(dt_shard_loop *l)
{
    dt_mailbox_signal(l->mailbox, WAKE);
}
void dt_shard_loop_topics(dt_shard_loop *l)
{
    dt_mailbox_signal(l->mailbox, TOPICS);
}

void dt_shard_loop_index_whole(dt_shard_loop *l)
{
    l->index_whole = true;
    dt_mailbox_signal(l->mailbox, WAKE);
}

void dt_shard_loop_release(dt_shard_loop *l)
{
    l->release = true;
    dt_mailbox_signal(l->mailbox, RELEASE);
}

void dt_shard_loop_stop(dt_shard_loop *l)
{
    l->stop = true;
    l->abort = true;
    dt_mailbox_signal(l->mailbox, STOP);
}
