/*
 * The thread of a shard's leader.
 *
 *            ┌──────────── MySQL or the election failed: a pause with jitter ─────────────────────┐
 *            ▼                                                                                    │
 *   ROW (shard_takeover.c): writes epoch + 1 into MySQL; from here on the loop leads              │
 *            ▼                                                                                    │
 *   LEADING, repeated: handle what the sender has finished (shard_takeover.c): if it has opened the delivery, settle
 *            what the ledger shows; if it has sent, record that; if it failed, open again in a new epoch.
 *            ─▶ due scan (shard_due.c: Redis, or MySQL without it) ─▶ leader transaction ─▶ update the index ─▶ send
 *            (shard_batch.c: the delivery gets the messages while MySQL writes the claim and the index is updated; the
 *            sender's thread commits them after the claim)
 *            ─▶ sleep until the next due time, a wake-up, the settling of the last batch, or a second
 *
 * While the sender is not open, the in-flight list is frozen; callbacks and offers continue.
 *
 * Invariants:
 *   - The election only decides which process tries. The shard's row (epoch, token, version) and the delivery's fencing
 *     guard what is written.
 *   - If the delivery does not commit cleanly, its producer is destroyed, and the ledger decides what was sent.
 *   - If no batch follows, the last batch is settled after a few milliseconds. If a part of the in-flight list is
 *     unsent, the next transaction follows at once.
 */
#include "shard_loop.h"

#include "base/assert.h"
#include "base/fail_point.h"
#include "base/guard.h"
#include "base/log.h"
#include "election/elector.h"
#include "shard_parts.h"

#define CHECK_US INT64_C(1000000) /* longest sleep, and longest time between two checks of the shard's row */
#define POLL_US  INT64_C(150000)  /* longest sleep if no event would wake the leader */
/* POLL_US is replaced by this time for each led shard, if the product is longer. */
#define POLL_SHARE_US   INT64_C(10000)
#define TOLD_US         INT64_C(60000000) /* longest sleep if the watch of MySQL reports all changes */
#define BEAT_US         INT64_C(20000)    /* shortest time between the begins of two batches of a steady stream */
#define RUN_US          INT64_C(500000)   /* time over which the claims of a backlog are counted, to measure its rate */
#define LOCKED_FIRST_US INT64_C(5000)
#define LOCKED_STILL_US INT64_C(40000)   /* pause when three scans in a row have met locked rows */
#define BUSY_US         INT64_C(4000)    /* pause if another leader is claiming jobs of a topic with limits */
#define IDLE_EARLY_MS   1500             /* an idle shard takes over this long before a job is due */
#define FULL_US         INT64_C(6000000) /* callbacks count as waiting for this time after one found no place */
#define SLOW_US         INT64_C(1500000) /* Kafka counts as slow if a request to the sender takes longer */
#define SENDING_US      INT64_C(100000)  /* longest time that the loop waits for a commit before it continues */
#define FROZEN_US       INT64_C(100000)  /* pause after due jobs were left because the in-flight list is frozen */
/* Time for which a topic without a row is reported after a job of this topic was seen. */
#define ORPHAN_US    INT64_C(20000000)
#define STALE_MAP_US INT64_C(10000) /* pause while the new shard map is being read */

static bool is_ending(const dt_shard_loop *l)
{
    return l->orders.stop || l->orders.release;
}

/* ---- state for others ---- */

static void set_waiting(dt_shard_loop *l, const char *waiting, const char *detail)
{
    pthread_mutex_lock(&l->state_lock);
    l->state.waiting = waiting;
    snprintf(l->state.detail, sizeof(l->state.detail), "%s", detail);
    pthread_mutex_unlock(&l->state_lock);
}

static void set_leading(dt_shard_loop *l, bool leading, bool halted)
{
    pthread_mutex_lock(&l->state_lock);
    l->state.leading = leading;
    l->state.callbacks = NULL;
    l->state.halted = halted;
    l->state.marker = dt_shard_marker(l);
    l->state.generation = 0;
    pthread_mutex_unlock(&l->state_lock);
    l->env->led(l->env->arg);
    dt_metric_set(l->meters.leading, leading);
    dt_metric_set(l->meters.halted, halted);
    if (leading)
        dt_metric_set(l->meters.epoch, (double)l->fence.epoch);
}

void dt_shard_loop_state(dt_shard_loop *l, struct dt_loop_state *out)
{
    pthread_mutex_lock(&l->state_lock);
    *out = l->state;
    pthread_mutex_unlock(&l->state_lock);
}

/* ---- leading ---- */

static int64_t next_settle_at_us(const dt_shard_loop *l)
{
    return l->flight.sent_us + l->env->config->dispatch_settle_after * 1000;
}

static bool has_remainder_to_send(const dt_shard_loop *l)
{
    return l->sender.state == DT_SENDER_OPEN && dt_shard_has_remainder(l);
}

static int64_t next_step_us(dt_shard_loop *l, const struct dt_leader_txn *txn, int64_t next_ms, bool news)
{
    const int64_t now_us = dt_shard_mono_us(l);
    const bool told = l->env->hears(l->env->arg) && (!l->index || dt_shard_believes_index(l));
    /* Limits the sleep if no event would report an earlier job, because the watch gets no answer, or because MySQL is
     * read although there is an index. */
    int64_t at_us = now_us + (l->index ? CHECK_US : TOLD_US);
    if (!told)
        at_us = now_us + dt_earlier(CHECK_US, dt_later(l->env->share(l->env->arg) * POLL_SHARE_US, POLL_US));
    if (txn && txn->stale_map)
        return now_us + STALE_MAP_US;
    if (l->sender.state != DT_SENDER_OPEN && !l->sender.busy && !l->sender.idle)
        at_us = dt_earlier(at_us, l->sender.retry_us);
    if (l->due.unread_ms || l->limits.n)
        /* The requests to read reports (want_read) and for room (dt_room_want) are repeated this often. */
        at_us = dt_earlier(at_us, now_us + CHECK_US);
    bool frozen = txn && txn->judged.frozen;
    if (frozen)
        at_us = dt_earlier(at_us, now_us + FROZEN_US);
    if (has_remainder_to_send(l) || (txn && (txn->chosen.more || news)))
        return now_us;
    l->pace.locked_pause_us = !txn || !txn->seen.locked ? 0
                              : l->pace.locked_pause_us ? dt_earlier(l->pace.locked_pause_us * 2, CHECK_US)
                                                        : LOCKED_FIRST_US;
    if (l->pace.locked_pause_us)
        at_us = dt_earlier(at_us, now_us + l->pace.locked_pause_us);
    bool busy = txn && txn->limits.busy;
    if (busy)
        at_us = dt_earlier(at_us, now_us + BUSY_US / 2 + (int64_t)(l->env->random() % BUSY_US));
    bool all_left = (l->pace.locked_pause_us || busy || frozen) && l->due.backlog &&
                    !txn->seen.n; /* the next due scan would find only the jobs that this transaction left */
    if (next_ms && !all_left)
        at_us = dt_earlier(at_us, dt_refclock_mono_us_at(l->env->ref, next_ms));
    if (l->flight.list.n && l->flight.sent)
        at_us = dt_earlier(at_us, next_settle_at_us(l));
    if (!l->index && dt_shard_has_closed(l))
        at_us = dt_earlier(at_us, l->cursor.walk_us);
    return at_us;
}

/* Pacing: after a batch that took all due jobs, the shard pauses while other shards of the process work. With pauses,
 * about one batch runs at a time in a process, so there are fewer transactions, and each ends sooner. Without pauses, a
 * steady stream would be cut into the smallest transactions that the delivery can follow, and would use the whole
 * machine. A pause ends at the next beat (BEAT_US) at the latest. If a batch was itself delayed, the next one follows
 * at once. */
static void pace_batches(dt_shard_loop *l, bool took_all, int64_t began_us)
{
    int64_t now_us = dt_shard_mono_us(l);
    int64_t took_us = now_us - began_us;
    l->pace.pause_end_us = now_us;
    if (took_all && took_us < BEAT_US)
        l->pace.pause_end_us += dt_earlier(took_us * (l->env->share(l->env->arg) - 1), BEAT_US - took_us);
}

/* Returns when the next step follows. If this step requested a send, the next step follows when the send is done. */
static int64_t end_step(dt_shard_loop *l, const struct dt_leader_txn *txn, int64_t began_us, int64_t next_us)
{
    bool all = txn && txn->batch.n + txn->hands.claimed.n && !txn->chosen.more && !dt_shard_has_remainder(l) &&
               !l->due.backlog;
    if (l->sender.state != DT_SENDER_SENDING || l->sender.requested_us < began_us) {
        pace_batches(l, all, began_us);
        return next_us;
    }
    l->pace.next_us = next_us;
    l->pace.began_us = began_us;
    l->pace.took_all = all;
    return l->sender.requested_us + SENDING_US;
}

/* Idling: if nothing is in flight and nothing was due for a while, the producer is closed, because its threads wake up
 * every second. The sender opens it again shortly before a job is due, or when a due job needs Kafka. */
static void close_idle_producer(dt_shard_loop *l, int64_t now_ms, int64_t next_ms)
{
    bool far = !next_ms || next_ms - now_ms > 2 * IDLE_EARLY_MS;
    if (l->sender.state != DT_SENDER_OPEN || !dt_delivery_worth_closing(l->delivery) || l->flight.list.n || !far ||
        !dt_shard_believes_index(l) ||
        dt_shard_mono_us(l) - l->pace.busy_us < l->env->config->dispatch_rest_after * 1000)
        return;
    DT_LOG(DEBUG, "shard", "goes idle", DT_I("shard", l->shard));
    dt_sender_close(&l->sender);
    l->sender.idle = true;
}

/* Applies finished lookups of topics. Returns true if topics have become known. */
static bool apply_topic_lookups(dt_shard_loop *l)
{
    if (l->sender.state != DT_SENDER_OPEN || !dt_delivery_resolve(l->delivery))
        return false;
    dt_shard_topics_changed(l);
    dt_shard_due_from_start(l);
    return true;
}

/* Records how fast the shard claims a backlog, measured over runs of RUN_US. */
static void record_run(dt_shard_loop *l, const struct dt_leader_txn *txn, int64_t began_us)
{
    size_t claimed = txn->batch.n + txn->hands.claimed.n;
    int64_t now_us = dt_shard_mono_us(l);
    if (!claimed || !(txn->chosen.more || l->due.backlog)) {
        l->run = (struct dt_shard_run){0};
        return;
    }
    l->run.began_us = l->run.began_us ? l->run.began_us : began_us;
    l->run.claimed += claimed;
    if (now_us - l->run.began_us < RUN_US)
        return;
    pthread_mutex_lock(&l->state_lock);
    l->state.drains = (int64_t)l->run.claimed * 1000000 / (now_us - l->run.began_us);
    pthread_mutex_unlock(&l->state_lock);
    l->run = (struct dt_shard_run){0};
}

static dt_status dispatch_batch(dt_shard_loop *l, struct dt_leader_txn *txn, int64_t now_ms, int64_t *next_ms,
                                bool *news, struct dt_error *err)
{
    int64_t began_us = dt_shard_mono_us(l);
    dt_status status = dt_shard_batch(l, txn, err);
    if (status != DT_OK)
        return status;
    record_run(l, txn, began_us);
    for (size_t i = 0; i < txn->seen.n_unknown; i++)
        dt_shard_note_unknown(l, txn->seen.unknown[i]);
    *news = apply_topic_lookups(l);
    dt_shard_note_left(l, txn);
    dt_shard_leave_to_cursor(l, txn->chosen.left, txn->chosen.n_left);
    /* Most jobs of a full due scan were left: their rows are locked, another shard has their attempts in its in-flight
     * list, or the delivery does not know their topics. The next due scan would find mostly these jobs again, so MySQL
     * is read instead of the index. But another scan costs less than reading MySQL if topics are being looked up, or
     * were a moment ago, or if our own transaction locked the rows briefly. */
    size_t dealt_with = txn->seen.n + (*news || dt_delivery_finding_out(l->delivery) ? txn->seen.n_unknown : 0);
    bool full = l->due.backlog || l->fair.n_hints == (size_t)l->env->config->dispatch_batch_jobs;
    bool again = l->pace.locked_pause_us >= LOCKED_STILL_US;
    if (txn->seen.locked && again && !txn->chosen.more && full && dealt_with < l->fair.n_hints / 2 &&
        !l->cursor.reads_through)
        dt_shard_read_through(l);
    if (txn->stale_map)
        l->env->stale_map(l->env->arg);
    if (txn->batch.n && !txn->seen.locked)
        *next_ms = *next_ms ? *next_ms : now_ms;
    /* If this leader transaction postponed a job (to a retry, for example), the job may be due before the next due time
     * that the scan found. */
    for (size_t i = 0; i < txn->seen.n; i++) {
        const struct dt_seen *seen = &txn->seen.v[i];
        if (seen->id && seen->next_ms && !seen->hold.p)
            *next_ms = *next_ms ? dt_earlier(*next_ms, seen->next_ms) : seen->next_ms;
    }
    /* This transaction removed an entry from the head of the index, or parked it. Jobs that were added after that entry
     * since the due scan woke no leader, because they were not the earliest. So another due scan follows. After a batch
     * it is not needed, because the due scan when the batch is settled finds such jobs. */
    if (txn->seen.n && !txn->batch.n && dt_shard_believes_index(l))
        *next_ms = now_ms;
    return DT_OK;
}

static void report_waiting(dt_shard_loop *l)
{
    const char *trouble = dt_delivery_trouble(l->delivery);
    const bool orphan = l->orphan.topic[0] && dt_shard_mono_us(l) - l->orphan.met_us <= ORPHAN_US;
    char text[sizeof(l->state.detail)] = "";
    bool busy = l->sender.busy; /* during a request, the sender's thread writes err */
    if (dt_shard_sender_stalled(l)) {
        if (!busy || (!l->state.waiting && dt_shard_mono_us(l) - l->sender.requested_us >= SLOW_US))
            set_waiting(l, "kafka", busy ? "Kafka has not answered yet" : l->sender.err.text);
    } else if (trouble[0])
        set_waiting(l, "kafka", trouble);
    else if (orphan) {
        snprintf(text, sizeof(text), "topic %s has due jobs and no row in `topics`", l->orphan.topic);
        set_waiting(l, "kafka", text);
    } else if (l->index && !l->trust.up)
        set_waiting(l, "redis", "the index is not reachable");
    else if (!busy) {
        if (l->sender.state == DT_SENDER_OPEN)
            dt_delivery_notice(l->delivery, text, sizeof(text));
        set_waiting(l, NULL, text);
    }
}

/* Reports why callbacks wait, and with which shard map the shard works. */
static void report_callbacks_and_map(dt_shard_loop *l)
{
    /* Reports for a few seconds after a callback found no place that callbacks wait. Without an index, reports it as
     * long as overdue jobs cannot be sent. */
    bool met = l->full_us && dt_shard_mono_us(l) - l->full_us < FULL_US;
    bool full = met || (l->full_us && !l->index && dt_shard_has_closed(l));
    const char *word = !full ? NULL : dt_hands_claims_open(l->claims) ? "full" : "off";
    /* Whether this shard serves all slots that the map gives it. Rows of new slots can be read from MySQL at once, but
     * from the index only when the shard's set is filled. */
    bool fast = !l->index || (l->trust.whole && l->trust.marked);
    l->full_us = full ? l->full_us : 0;
    pthread_mutex_lock(&l->state_lock);
    bool news = word && !l->state.callbacks;
    l->state.callbacks = word;
    l->state.generation = fast ? l->trust.map.generation : 0;
    pthread_mutex_unlock(&l->state_lock);
    if (news && word[0] == 'o')
        DT_LOG(WARN, "shard", "due callbacks wait: callbacks.enabled is false here", DT_I("shard", l->shard));
}

/* Handles what the sender has finished. If this began a new epoch, stores the epoch in the loop's state, for other
 * threads. */
static dt_status handle_sender_progress(dt_shard_loop *l, struct dt_error *err)
{
    const int64_t epoch = l->fence.epoch;
    dt_status status = dt_shard_tend_sender(l, err);
    if (status == DT_OK && l->fence.epoch != epoch)
        set_leading(l, true, false);
    if (status == DT_OK && l->sender.state == DT_SENDER_OPEN)
        status = dt_delivery_tend(l->delivery, l->store, &l->fence, err);
    if (status != DT_OK)
        return status;
    dt_assert(l->flight.list.n == l->fence.inflight || DT_UNGUARDED(REST));
    dt_assert_cmp(l->fence.send_n, <=, l->fence.inflight);
    (void)apply_topic_lookups(l);
    return DT_OK;
}

/* Finds jobs that may be due and adds them to the hints. */
static dt_status find_due_jobs(dt_shard_loop *l, int64_t now_ms, int64_t *next_ms, struct dt_error *err)
{
    /* If timeouts wait for unread reports: requests once more that the reports are read, and, if more reports were
     * read, tries the timeouts again. */
    if (l->due.unread_ms) {
        int64_t read_ms = l->env->read_up_to(l->env->arg).kafka_ms;
        if (read_ms > l->due.read_ms)
            dt_shard_open_timeouts(l);
        l->due.read_ms = read_ms;
        if (read_ms >= l->due.unread_ms)
            l->due.unread_ms = 0;
        else
            l->env->want_read(l->env->arg, l->shard, l->due.unread_ms);
    }
    dt_shard_list_held(l);
    dt_shard_limits_tend(l);
    dt_status status = DT_OK;
    if (dt_shard_hint_lost(l))
        *next_ms = now_ms; /* the due scan follows: its hints would be dropped, and the cursor is past them */
    else
        status = dt_shard_due_scan(l, now_ms, next_ms, err);
    if (l->fair.n_hints)
        l->pace.busy_us = dt_shard_mono_us(l);
    return status;
}

/* Returns whether the watch of MySQL has seen our fence in the row, and will report a change of the row. */
static bool is_row_watched(const dt_shard_loop *l)
{
    struct dt_watched_row row;
    if (l->index || !l->env->watched_row(l->env->arg, l->shard, &row))
        return false;
    return row.epoch == l->fence.epoch && row.token == l->fence.token && row.version == l->fence.version;
}

static dt_status step_loop(dt_shard_loop *l, int64_t *wake_us, struct dt_error *err)
{
    struct dt_leader_txn txn;
    int64_t next_ms = 0;
    int64_t now_ms = dt_refclock_earliest_ms(l->env->ref);
    int64_t began_us = dt_shard_mono_us(l);
    bool news = false;
    if (!l->env->leads(l->env->arg, l->shard))
        return dt_fail(err, DT_DEPOSED, "the election does not name this process");
    dt_shard_read_map(l);
    bool was_sending = l->sender.state == DT_SENDER_SENDING;
    dt_status status = handle_sender_progress(l, err);
    if (status != DT_OK)
        return status;
    if (l->sender.state == DT_SENDER_SENDING && began_us - l->sender.requested_us < SENDING_US) {
        *wake_us = l->sender.requested_us + SENDING_US;
        return DT_OK;
    }
    if (was_sending && l->sender.state == DT_SENDER_OPEN) {
        report_waiting(l);
        pace_batches(l, l->pace.took_all, l->pace.began_us);
        *wake_us = has_remainder_to_send(l) ? began_us : dt_earlier(l->pace.next_us, next_settle_at_us(l));
        return DT_OK;
    }
    status = find_due_jobs(l, now_ms, &next_ms, err);
    if (status != DT_OK)
        return status;
    /* Whether the leader transaction has work: hints, a batch to settle, or an unsent part of the in-flight list. */
    bool settles = l->sender.state == DT_SENDER_OPEN && l->flight.sent && dt_shard_mono_us(l) >= next_settle_at_us(l);
    bool worked =
        l->fair.n_hints || (!DT_UNGUARDED(SETTLE_AT_REST) && l->flight.list.n && settles) || has_remainder_to_send(l);
    if (worked)
        status = dispatch_batch(l, &txn, now_ms, &next_ms, &news, err);
    else if (dt_shard_mono_us(l) - l->checked.fence_us >= CHECK_US && !is_row_watched(l))
        status = dt_shard_check_fence(l, err);
    if (status != DT_OK)
        return status;
    if ((worked && txn.judged.frozen) || (next_ms && next_ms - now_ms <= IDLE_EARLY_MS))
        l->sender.idle = false;
    close_idle_producer(l, now_ms, next_ms);
    report_waiting(l);
    report_callbacks_and_map(l);
    const struct dt_leader_txn *seen = worked ? &txn : NULL;
    *wake_us = end_step(l, seen, began_us, next_step_us(l, seen, next_ms, news));
    return DT_OK;
}

/* Settles the last batch, and stores in the row that the shard has no leader. The next leader sends the attempts of the
 * in-flight list that were not sent. */
static dt_status step_down(dt_shard_loop *l, struct dt_error *err)
{
    dt_status status = DT_OK;
    /* Waits for a running commit, but at most DT_SENDER_STALLED_US. If the commit hangs, the in-flight list stays in
     * the row, and the next leader finds in the ledger whether it was sent. */
    if (l->sender.state == DT_SENDER_SENDING && !l->sender.abandoned) {
        int64_t until_us = l->sender.requested_us + DT_SENDER_STALLED_US;
        while (l->sender.busy && !l->orders.stop && dt_shard_mono_us(l) < until_us)
            dt_mailbox_wait(l->mailbox, until_us);
        if (!l->orders.stop)
            status = dt_shard_tend_sender(l, err);
    }
    DT_THEN(status, dt_shard_settle(l, err));
    DT_FAIL_POINT_STATUS("step_down.settled", status, err);
    DT_THEN(status, dt_store_step_down(l->store, &l->fence, err));
    if (status == DT_OK)
        dt_shard_leave_index(l);
    if (status == DT_OK)
        DT_LOG(INFO, "shard", "stepped down", DT_I("shard", l->shard), DT_I("epoch", l->fence.epoch));
    return status;
}

static dt_status lead_shard(dt_shard_loop *l, struct dt_error *err)
{
    dt_status status = DT_OK;
    l->checked.fence_us = l->pace.busy_us = dt_shard_mono_us(l);
    l->sender.idle = false;
    l->sender.wanted_us = l->sender.retry_us = 0;
    dt_shard_due_init(l);
    while (status == DT_OK && !is_ending(l)) {
        int64_t wake_us = 0;
        status = step_loop(l, &wake_us, err);
        if (status != DT_OK || is_ending(l))
            continue;
        uint32_t signals = dt_mailbox_wait(l->mailbox, wake_us);
        if (!is_ending(l) && dt_shard_mono_us(l) < l->pace.pause_end_us) /* a wake-up does not end a pause early */
            signals |= dt_mailbox_pause(l->mailbox, l->pace.pause_end_us, STOP | RELEASE);
        if (signals & DT_LOOP_AGAIN)
            dt_shard_topics_changed(l);
        if (signals & DT_LOOP_PLACES) {
            dt_shard_look_for_room(l);
            dt_shard_due_again(l);
        }
    }
    if (status == DT_OK && l->orders.release && !l->orders.stop)
        status = step_down(l, err);
    return status;
}

static void report_failure(dt_shard_loop *l, dt_status status, const struct dt_error *err)
{
    set_waiting(l, NULL, "");
    if (status == DT_HALTED && l->told.halt)
        return;
    l->told.halt = status == DT_HALTED;
    if (status == DT_HALTED)
        DT_LOG(ERROR, "shard", "halted: waits for an operator (dt_clear_halt)", DT_I("shard", l->shard),
               DT_S("reason", err->text));
    else
        dt_outage_failed(&l->told.outage, status == DT_DEPOSED ? dt_elector_server(l->env->config) : DT_OUTAGE_MYSQL,
                         "shard", "leadership failed: this process takes the shard over again", status, err);
}

static void run_loop(void *arg)
{
    dt_shard_loop *l = arg;
    unsigned failures = 0;
    dt_shard_wait_after_deaths(l);
    while (!is_ending(l)) {
        struct dt_error err = {0};
        bool led = false;
        int64_t start_us = dt_shard_mono_us(l);
        dt_status status = l->env->leads(l->env->arg, l->shard)
                               ? dt_shard_begin_epoch(l, &err)
                               : dt_fail(&err, DT_DEPOSED, "this process is not elected");
        if (status == DT_OK) {
            led = true;
            dt_outage_over(&l->told.outage);
            start_us = dt_shard_mono_us(l);
            set_waiting(l, NULL, "");
            set_leading(l, true, false);
            status = lead_shard(l, &err);
        }
        set_leading(l, false, status == DT_HALTED);
        if (status == DT_OK || is_ending(l))
            break;
        report_failure(l, status, &err);
        dt_shard_abandon_sender(l);
        /* Leaderships that end at once must not follow each other without a pause. The pause has jitter; only a stop
         * ends it early. */
        bool well = led && dt_shard_mono_us(l) - start_us >= CHECK_US;
        failures = status == DT_HALTED ? 8 : well ? 0 : failures + 1;
        int64_t until_us = dt_shard_mono_us(l) + dt_shard_backoff_us(l, failures, false);
        if (!is_ending(l))
            dt_mailbox_pause(l->mailbox, until_us, STOP | RELEASE);
    }
    l->orders.abort = true;
    dt_sender_stop(&l->sender);
    dt_delivery_close(l->delivery);
    l->env->stopped(l->env->arg, l->shard);
}

static void on_sender_done(void *arg)
{
    dt_shard_loop *l = arg;
    dt_mailbox_signal(l->mailbox, SENDER);
}

static void on_topics_resolved(void *arg)
{
    dt_mailbox_signal(((dt_shard_loop *)arg)->mailbox, FOUND_OUT);
}

static dt_status make_loop_parts(dt_shard_loop *l)
{
    struct dt_error err = {0};
    size_t batch = (size_t)l->env->config->dispatch_batch_jobs;
    const struct dt_delivery_env delivery = {
        .env = l->env, .shard = l->shard, .abort = &l->orders.abort, .told = on_topics_resolved, .arg = l};
    l->fair.hints = calloc(batch, sizeof(*l->fair.hints));
    l->due.entries = calloc(batch * DT_SCAN_BATCHES, sizeof(*l->due.entries));
    l->due.rows = calloc(batch * DT_SCAN_BATCHES, sizeof(*l->due.rows));
    l->lost.v = calloc(batch, sizeof(*l->lost.v));
    dt_status status =
        l->fair.hints && l->due.entries && l->due.rows && l->lost.v ? dt_mailbox_new(&l->mailbox) : DT_NOMEM;
    DT_THEN(status, dt_store_new(l->env->config, l->env->ref, &l->store));
    DT_THEN(status, dt_index_new(l->env->config, l->env->installation, l->env->clock, &l->index, &err));
    DT_THEN(status, dt_topic_snapshot_new(&l->snapshot));
    DT_THEN(status, dt_delivery_new(&delivery, &l->delivery));
    DT_THEN(status, dt_sender_start(&l->sender, l->delivery, on_sender_done, l));
    return status == DT_OK ? dt_hands_claims_new(l->env->hands, l->shard, &l->claims) : status;
}

static void free_loop_parts(dt_shard_loop *l)
{
    dt_hands_claims_free(l->claims);
    dt_sender_stop(&l->sender);
    dt_delivery_free(l->delivery);
    dt_topic_snapshot_free(l->snapshot);
    dt_index_free(l->index);
    dt_store_free(l->store);
    dt_mailbox_free(l->mailbox);
    dt_inflight_clear(&l->flight.list);
    dt_arena_clear(&l->arena);
    dt_arena_clear(&l->fair.arena);
    dt_topic_memory_clear(&l->fair.memory);
    free(l->fair.v);
    free(l->fair.open);
    dt_limit_memory_clear(&l->limits);
    dt_id_set_clear(&l->unknown.ids);
    pthread_mutex_destroy(&l->state_lock);
    free(l->fair.hints);
    free(l->lost.v);
    free(l->due.entries);
    free(l->due.rows);
    free(l);
}

dt_status dt_shard_loop_start(const struct dt_process_env *env, unsigned shard, dt_shard_loop **out)
{
    dt_shard_loop *l = calloc(1, sizeof(*l));
    if (!l)
        return DT_NOMEM;
    l->env = env;
    l->shard = shard;
    l->trust.whole = true;
    /* At first the shard's set counts as compared with MySQL: within its period, the reconciler adds entries that the
     * last leader did not write. */
    l->trust.compared = true;
    /* `losses` begins with a random number, so that a number from an earlier leadership is not taken for one of this
     * leadership. */
    l->state.losses = env->random();
    pthread_mutex_init(&l->state_lock, NULL);
    char label[32];
    snprintf(label, sizeof(label), "shard=\"%u\"", l->shard);
    l->meters = (struct dt_shard_meters){
        .dispatched = dt_counter("duetime_dispatched_total", "Attempts committed to Kafka.", label),
        .lateness =
            dt_histogram("duetime_dispatch_lateness_seconds", "Time from when a job was due to Kafka's commit.", ""),
        .batch = dt_histogram_count("duetime_dispatch_batch_jobs", "Jobs in one batch that was dispatched.", ""),
        .takeovers = dt_counter("duetime_takeovers_total", "Takeovers of the shard that this process began.", label),
        .offered = dt_counter("duetime_offered_total", "Due jobs offered to pops.", label),
        .timed_out =
            dt_counter("duetime_ack_timeouts_total", "Attempts that failed because no report arrived in time.", label),
        .leader_txn_seconds =
            dt_histogram("duetime_mysql_turn_seconds",
                         "Duration of one transaction of a leader in MySQL, including handing its batch to Kafka.", ""),
        .epoch = dt_gauge("duetime_shard_epoch", "Epoch of the leadership in this process.", label),
        .undeliverable = dt_counter("duetime_undeliverable_total", "Attempts that Kafka refused permanently.", label),
        .lost = dt_counter("duetime_attempts_lost_total", "Callback attempts that ended because their process died.",
                           label),
        .halted = dt_gauge("duetime_shard_halted", "1 while the shard waits for an operator (dt_clear_halt).", label),
        .leading = dt_gauge("duetime_shard_leading", "1 while this process leads the shard.", label),
    };
    dt_status status = make_loop_parts(l);
    l->trust.up = l->index != NULL;
    if (status == DT_OK)
        status = dt_thread_start(&l->thread, "shard", run_loop, l, NULL);
    if (status != DT_OK) {
        free_loop_parts(l);
        return status;
    }
    *out = l;
    return DT_OK;
}

void dt_shard_loop_free(dt_shard_loop *l)
{
    if (!l)
        return;
    dt_thread_join(&l->thread);
    free_loop_parts(l);
}

void dt_shard_loop_tell(dt_shard_loop *l, enum dt_loop_news news)
{
    dt_mailbox_signal(l->mailbox, (uint32_t)news);
}

/* If the list of lost attempts is full, drops the id: the keeper of the callbacks reports it again within a second. */
void dt_shard_loop_lost(dt_shard_loop *l, int64_t id)
{
    if (!l)
        return;
    pthread_mutex_lock(&l->state_lock);
    if (l->lost.n < (size_t)l->env->config->dispatch_batch_jobs)
        l->lost.v[l->lost.n++] = id;
    pthread_mutex_unlock(&l->state_lock);
    dt_mailbox_signal(l->mailbox, DT_LOOP_DUE);
}

void dt_shard_loop_release(dt_shard_loop *l)
{
    l->orders.release = true;
    dt_mailbox_signal(l->mailbox, RELEASE);
}

void dt_shard_loop_stop(dt_shard_loop *l)
{
    l->orders.stop = true;
    l->orders.abort = true;
    dt_mailbox_signal(l->mailbox, STOP);
}
