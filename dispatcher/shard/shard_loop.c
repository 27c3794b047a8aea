/*
 * The leader of one shard: its thread.
 *
 *            ┌───────────────────── any doubt, after a pause with jitter ─────────────────────┐
 *            ▼                                                                                │
 *   TAKEOVER (shard_takeover.c): row, producer, barrier, ledger; what the ledger has is settled
 *            ▼                                                                                │
 *   LEADING: what is still in flight goes first (shard_batch.c); then, for ever:
 *            due scan (shard_due.c: Redis, or MySQL without it) ─▶ leader transaction ─▶ tell the index ─▶ send
 *            (shard_batch.c: the delivery has the messages while MySQL writes the claim and the index is told, and
 *            commits them after it)
 *            ─▶ sleep until the next due time, a wake-up, the settling of the last batch, or a second
 *
 * Invariants:
 *   - The election only decides who tries. What is written is guarded by the shard's row (epoch, token, version) and by
 *     the delivery's fencing.
 *   - After anything that is not a clean success the leadership is over: the producer is destroyed, the ledger decides.
 *   - The last batch is settled by itself after a few quiet milliseconds. While a remainder of a list waits, the next
 *     transaction follows at once.
 */
#include "shard_loop.h"

#include <stdlib.h>

#include "base/hooks/fail_point.h"
#include "base/hooks/guard.h"
#include "base/log.h"
#include "base/outage.h"
#include "shard_parts.h"

#define CHECK_US        INT64_C(1000000)  /* a leader looks at its row and its index at least this often */
#define POLL_US         INT64_C(150000)   /* and so often while nobody would wake it … */
#define POLL_SHARE_US   INT64_C(10000)    /* … or less often, where many shards do so at once */
#define TOLD_US         INT64_C(60000000) /* … or hardly ever, where the watch of MySQL tells everything */
#define BEAT_US         INT64_C(20000)    /* batches of a stream begin so far apart, or one follows the other */
#define RUN_US          INT64_C(500000) /* the time of batches without a pause, over which their claims are measured */
#define PAUSE_FIRST_US  INT64_C(20000)
#define PAUSE_MAX_US    INT64_C(2000000)
#define LOCKED_FIRST_US INT64_C(5000)
#define LOCKED_STILL_US INT64_C(40000)   /* the pause after three in a row */
#define BUSY_US         INT64_C(4000)    /* somebody else claims of a topic with limits: about a transaction */
#define IDLE_EARLY_MS   1500             /* an idle shard takes over so long before something is due */
#define FULL_US         INT64_C(6000000) /* callbacks that found no place are told of for so long */
#define STALE_MAP_US    INT64_C(10000)   /* the map is on its way */

static bool ending(const dt_shard_loop *l)
{
    return l->orders.stop || l->orders.release;
}

/* ---- state for others ---- */

static void say(dt_shard_loop *l, const char *waiting, const char *detail)
{
    pthread_mutex_lock(&l->state_lock);
    l->state.waiting = waiting;
    snprintf(l->state.detail, sizeof(l->state.detail), "%s", detail);
    pthread_mutex_unlock(&l->state_lock);
}

static void say_leading(dt_shard_loop *l, bool leading, bool halted)
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

static int64_t settle_at_us(const dt_shard_loop *l)
{
    return l->flight.sent_us + l->env->config->dispatch_settle_after * 1000;
}

/* The longest sleep is shorter where MySQL is read beside an index, because nobody tells that an earlier job has come,
 * and where nobody is heard. */
static int64_t longest_sleep_us(const dt_shard_loop *l)
{
    if (l->env->hears(l->env->arg) && (!l->index || dt_shard_believes_index(l)))
        return l->index ? CHECK_US : TOLD_US;
    int64_t many_us = l->env->share(l->env->arg) * POLL_SHARE_US;
    return dt_earlier(CHECK_US, many_us > POLL_US ? many_us : POLL_US);
}

/* When to do the next step, from what this one has seen. */
static int64_t next_step_us(dt_shard_loop *l, const struct dt_leader_txn *txn, int64_t next_ms, bool news)
{
    int64_t now_us = dt_shard_mono_us(l);
    int64_t at_us = now_us + longest_sleep_us(l);
    if (txn && txn->stale_map)
        return now_us + STALE_MAP_US;
    if (dt_shard_has_remainder(l) || (txn && (txn->chosen.more || news)))
        return now_us;
    l->pace.locked_pause_us = !txn || !txn->seen.locked ? 0
                              : l->pace.locked_pause_us ? dt_earlier(l->pace.locked_pause_us * 2, CHECK_US)
                                                        : LOCKED_FIRST_US;
    if (l->pace.locked_pause_us)
        at_us = dt_earlier(at_us, now_us + l->pace.locked_pause_us);
    bool busy = txn && txn->limits.busy;
    if (busy)
        at_us = dt_earlier(at_us, now_us + BUSY_US / 2 + (int64_t)(l->env->random(l->env->arg) % BUSY_US));
    bool all_locked = (l->pace.locked_pause_us || busy) && l->due.backlog &&
                      !txn->seen.n; /* the next due scan would see nothing else */
    if (next_ms && !all_locked)
        at_us = dt_earlier(at_us, dt_refclock_mono_us_at(l->env->ref, next_ms));
    if (l->flight.list.n)
        at_us = dt_earlier(at_us, settle_at_us(l));
    if (!l->index && dt_shard_has_closed(l))
        at_us = dt_earlier(at_us, l->cursor.walk_us);
    return at_us;
}

/*
 * Pacing: after a batch that took all that was due the shard pauses while the process's other shards work: so long that
 * about one batch is under way in a process, and at most up to the next beat. A steady stream would otherwise be cut
 * into the smallest transactions that the delivery can follow, all at once, which cost all that the machine has; this
 * way they are fewer, and each of them is done sooner. A batch that was held up itself is followed at once by what
 * waits behind it.
 */
static int64_t pacing_us(const dt_shard_loop *l, const struct dt_leader_txn *txn, int64_t began_us)
{
    bool all = txn && txn->batch.n + txn->hands.claimed.n && !txn->chosen.more && !dt_shard_has_remainder(l) &&
               !l->due.backlog;
    int64_t took_us = dt_shard_mono_us(l) - began_us;
    if (!all || took_us >= BEAT_US)
        return 0;
    return dt_earlier(took_us * (l->env->share(l->env->arg) - 1), BEAT_US - took_us);
}

/* A full due scan, most of which had to be left (rows that others hold locked, or that wait for another shard's list,
 * or whose topic the delivery says nothing about): the next due scan would see little else. Topics that are being
 * looked up, or were a moment ago, are no such thing, nor are rows that a transaction of ours has for a moment: reading
 * MySQL costs more than looking at them again. */
static bool left_in_front(const dt_shard_loop *l, const struct dt_leader_txn *txn, bool news)
{
    size_t dealt_with = txn->seen.n + (news || dt_delivery_finding_out(l->delivery) ? txn->seen.n_unknown : 0);
    bool full = l->due.backlog || l->fair.n_hints == (size_t)l->env->config->dispatch_batch_jobs;
    bool again = l->pace.locked_pause_us >= LOCKED_STILL_US;
    return txn->seen.locked && again && !txn->chosen.more && full && dealt_with < l->fair.n_hints / 2 &&
           !l->cursor.reads_through;
}

/*
 * Idling: with nothing in flight and nothing due for a while the producer goes, and with it its threads, which wake up
 * every second for nothing. Shortly before something is due, or when something turns up, the shard is taken over again
 * in the ordinary way.
 */
static void go_idle(dt_shard_loop *l, int64_t now_ms, int64_t next_ms)
{
    bool far = !next_ms || next_ms - now_ms > 2 * IDLE_EARLY_MS;
    if (!dt_delivery_worth_closing(l->delivery) || l->flight.list.n || !far || !dt_shard_believes_index(l) ||
        dt_shard_mono_us(l) - l->pace.busy_us < l->env->config->dispatch_rest_after * 1000)
        return;
    DT_LOG(DEBUG, "shard", "goes idle", DT_I("shard", l->shard));
    dt_delivery_close(l->delivery);
}

static bool must_resume(dt_shard_loop *l, int64_t now_ms, int64_t next_ms)
{
    if (dt_delivery_is_open(l->delivery) || (!l->fair.n_hints && (!next_ms || next_ms - now_ms > IDLE_EARLY_MS)))
        return false;
    l->pace.resume = true;
    return true;
}

/* Is there anything for a leader transaction: hints, a batch that waits to be settled, a remainder that waits to be
 * sent? */
static bool has_work(const dt_shard_loop *l)
{
    return l->fair.n_hints ||
           (!DT_UNGUARDED(SETTLE_AT_REST) && l->flight.list.n && dt_shard_mono_us(l) >= settle_at_us(l)) ||
           dt_shard_has_remainder(l);
}

/* A job that this leader transaction put off, a retry after a timeout say, may be due before what the due scan saw
 * next. */
static void note_put_off(const struct dt_leader_txn *txn, int64_t *next_ms)
{
    for (size_t i = 0; i < txn->seen.n; i++) {
        const struct dt_seen *seen = &txn->seen.v[i];
        if (seen->id && seen->next_ms && !seen->hold.p)
            *next_ms = *next_ms ? dt_earlier(*next_ms, seen->next_ms) : seen->next_ms;
    }
}

/* Something left the head of the index, be it for a held set: what was added behind it since the due scan woke nobody,
 * because it was not the earliest then. (After a batch the due scan that comes with its settling finds it.) */
static bool cleared_head(const dt_shard_loop *l, const struct dt_leader_txn *txn)
{
    return txn->seen.n && !txn->batch.n && dt_shard_believes_index(l);
}

/* True: topics that were not known are known now. */
static bool learn_topics(dt_shard_loop *l)
{
    if (!dt_delivery_resolve(l->delivery))
        return false;
    dt_shard_topics_changed(l);
    dt_shard_due_from_start(l);
    return true;
}

/* Notes what the shard drains: measured over runs of RUN_US. */
static void note_run(dt_shard_loop *l, const struct dt_leader_txn *txn, int64_t began_us)
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

static dt_status work(dt_shard_loop *l, struct dt_leader_txn *txn, int64_t now_ms, int64_t *next_ms, bool *news,
                      struct dt_error *err)
{
    int64_t began_us = dt_shard_mono_us(l);
    dt_status status = dt_shard_batch(l, txn, err);
    if (status != DT_OK)
        return status;
    note_run(l, txn, began_us);
    for (size_t i = 0; i < txn->seen.n_unknown; i++)
        dt_shard_note_unknown(l, txn->seen.unknown[i]);
    *news = learn_topics(l);
    dt_shard_note_left(l, txn);
    if (left_in_front(l, txn, *news))
        dt_shard_read_through(l);
    if (txn->stale_map)
        l->env->stale_map(l->env->arg);
    if (txn->batch.n && !txn->seen.locked)
        *next_ms = *next_ms ? *next_ms : now_ms;
    note_put_off(txn, next_ms);
    if (cleared_head(l, txn))
        *next_ms = now_ms;
    return DT_OK;
}

/* "All slots of this map that are mine are looked after": from MySQL that is so at once, but only the index is fast. */
static void say_which_map(dt_shard_loop *l)
{
    bool fast = !l->index || (l->trust.whole && l->trust.marked);
    int64_t generation = fast ? l->trust.map.generation : 0;
    pthread_mutex_lock(&l->state_lock);
    l->state.generation = generation;
    pthread_mutex_unlock(&l->state_lock);
}

static void say_what_it_waits_for(dt_shard_loop *l)
{
    const char *trouble = dt_delivery_trouble(l->delivery);
    char text[sizeof(l->state.detail)];
    const char *orphan = dt_shard_orphan(l);
    if (trouble[0])
        say(l, dt_delivery_name(l->delivery), trouble);
    else if (orphan[0]) {
        snprintf(text, sizeof(text), "topic %s has due jobs and no row in `topics`", orphan);
        say(l, dt_delivery_name(l->delivery), text);
    } else if (l->index && !l->trust.up)
        say(l, "redis", "the index is not reachable");
    else {
        dt_delivery_notice(l->delivery, text, sizeof(text));
        say(l, NULL, text);
    }
}

/* What waits for a place is met again every few seconds; without an index it stands among what is overdue and
 * closed. */
static void say_what_callbacks_wait_for(dt_shard_loop *l)
{
    bool met = l->full_us && dt_shard_mono_us(l) - l->full_us < FULL_US;
    bool full = met || (l->full_us && !l->index && dt_shard_has_closed(l));
    const char *word = !full ? NULL : dt_hands_claims_open(l->claims) ? "full" : "off";
    l->full_us = full ? l->full_us : 0;
    pthread_mutex_lock(&l->state_lock);
    bool news = word && !l->state.callbacks;
    l->state.callbacks = word;
    pthread_mutex_unlock(&l->state_lock);
    if (news && word[0] == 'o')
        DT_LOG(WARN, "shard", "due callbacks wait: callbacks.enabled is false here", DT_I("shard", l->shard));
}

static dt_status step(dt_shard_loop *l, int64_t *wake_us, struct dt_error *err)
{
    struct dt_leader_txn txn;
    int64_t next_ms = 0;
    int64_t now_ms = dt_refclock_earliest_ms(l->env->ref);
    int64_t began_us = dt_shard_mono_us(l);
    bool news = false, worked = false;
    if (!l->env->leads(l->env->arg, l->shard))
        return dt_fail(err, DT_DEPOSED, "the election does not name this process");
    dt_shard_read_map(l);
    (void)learn_topics(l);
    dt_shard_list_held(l);
    dt_shard_limits_tend(l);
    dt_status status = dt_shard_due_scan(l, now_ms, &next_ms, err);
    dt_shard_hint_lost(l);
    if (status == DT_OK && must_resume(l, now_ms, next_ms))
        return DT_OK;
    if (l->fair.n_hints)
        l->pace.busy_us = dt_shard_mono_us(l);
    if (status == DT_OK && has_work(l)) {
        status = work(l, &txn, now_ms, &next_ms, &news, err);
        worked = true;
    } else if (status == DT_OK && dt_shard_mono_us(l) - l->checked.fence_us >= CHECK_US && !dt_shard_is_watched(l))
        status = dt_shard_check_fence(l, err);
    if (status == DT_OK)
        status = dt_delivery_tend(l->delivery, l->store, &l->fence, err);
    if (status != DT_OK)
        return status;
    go_idle(l, now_ms, next_ms);
    say_what_it_waits_for(l);
    say_what_callbacks_wait_for(l);
    say_which_map(l);
    *wake_us = next_step_us(l, worked ? &txn : NULL, next_ms, news);
    l->pace.pause_end_us = dt_shard_mono_us(l) + pacing_us(l, worked ? &txn : NULL, began_us);
    return DT_OK;
}

/* The last batch is settled, the row says that nobody leads. A remainder stays in flight: the next leader sends it. */
static dt_status step_down(dt_shard_loop *l, struct dt_error *err)
{
    dt_status status = dt_shard_settle(l, err);
    DT_FAIL_POINT_STATUS("step_down.settled", status, err);
    if (status == DT_OK)
        status = dt_store_step_down(l->store, &l->fence, err);
    if (status == DT_OK)
        dt_shard_leave_index(l);
    if (status == DT_OK)
        DT_LOG(INFO, "shard", "stepped down", DT_I("shard", l->shard), DT_I("epoch", l->fence.epoch));
    return status;
}

/* Sleeps until wake_us or until there is news; news does not cut the pacing short. */
static void wait_for_work(dt_shard_loop *l, int64_t wake_us)
{
    uint32_t signals = dt_mailbox_wait(l->mailbox, wake_us);
    if (!ending(l) && dt_shard_mono_us(l) < l->pace.pause_end_us)
        signals |= dt_mailbox_pause(l->mailbox, l->pace.pause_end_us, STOP | RELEASE);
    if (signals & TOPICS)
        dt_shard_topics_changed(l);
    if (signals & ROOM) {
        dt_shard_look_for_room(l);
        dt_shard_due_again(l);
    }
}

static dt_status lead(dt_shard_loop *l, struct dt_error *err)
{
    dt_status status = dt_delivery_start(l->delivery, l->store, &l->fence, err);
    if (status == DT_OK)
        status = dt_shard_send_remainder(l, err);
    dt_shard_fence_checked(l);
    l->pace.busy_us = l->checked.fence_us;
    l->pace.resume = false;
    dt_shard_due_init(l);
    while (status == DT_OK && !ending(l)) {
        int64_t wake_us = 0;
        status = step(l, &wake_us, err);
        if (l->pace.resume)
            return status;
        if (status == DT_OK && !ending(l))
            wait_for_work(l, wake_us);
    }
    if (status == DT_OK && l->orders.release && !l->orders.stop)
        status = step_down(l, err);
    return status;
}

/* ---- the thread ---- */

/* Which server it is that ended the leadership. A row that says otherwise is the election's business. */
static enum dt_outage_of blamed(const dt_shard_loop *l, dt_status status)
{
    switch (status) {
    case DT_DEPOSED:
        return l->env->election;
    case DT_DOUBT:
    case DT_REFUSED:
        return dt_delivery_server(l->delivery);
    case DT_UNAVAILABLE:
        return dt_store_lost(l->store) ? DT_OUTAGE_MYSQL : dt_delivery_server(l->delivery);
    default:
        return DT_OUTAGE_MYSQL;
    }
}

static void report(dt_shard_loop *l, dt_status status, const struct dt_error *err)
{
    bool about_delivery =
        status == DT_DOUBT || status == DT_REFUSED || (status == DT_UNAVAILABLE && !dt_delivery_is_open(l->delivery));
    say(l, about_delivery ? dt_delivery_name(l->delivery) : NULL, about_delivery ? err->text : "");
    if (status == DT_HALTED && l->told.halt)
        return;
    l->told.halt = status == DT_HALTED;
    if (status == DT_HALTED)
        DT_LOG(ERROR, "shard", "halted: waits for an operator (dt_clear_halt)", DT_I("shard", l->shard),
               DT_S("reason", err->text));
    else
        dt_outage_failed(&l->told.outage, blamed(l, status), "shard", "takes over again", status, err);
}

/* Waits with jitter; wake-ups do not shorten it, an end does. */
static void pause_before_takeover(dt_shard_loop *l, unsigned failures)
{
    int64_t cap = PAUSE_FIRST_US << (failures < 8 ? failures : 8);
    cap = dt_earlier(cap, PAUSE_MAX_US);
    int64_t until = dt_shard_mono_us(l) + cap / 2 + (int64_t)(l->env->random(l->env->arg) % (uint64_t)(cap / 2 + 1));
    if (!ending(l))
        dt_mailbox_pause(l->mailbox, until, STOP | RELEASE);
}

static void serve(dt_shard_loop *l)
{
    unsigned failures = 0;
    while (!ending(l)) {
        struct dt_error err = {0};
        bool led = false;
        int64_t start_us = dt_shard_mono_us(l);
        dt_status status = l->env->leads(l->env->arg, l->shard) ? dt_shard_take_over(l, &err)
                                                                : dt_fail(&err, DT_DEPOSED, "not elected");
        if (status == DT_OK) {
            led = true;
            dt_outage_over(&l->told.outage);
            start_us = dt_shard_mono_us(l);
            say(l, NULL, "");
            say_leading(l, true, false);
            status = lead(l, &err);
            if (status == DT_OK && l->pace.resume)
                continue;
        }
        say_leading(l, false, status == DT_HALTED);
        if (status == DT_OK || ending(l))
            break;
        report(l, status, &err);
        dt_delivery_close(l->delivery); /* at once: it may be long before somebody can take over */
        /* Leaderships that end at once, time and again, must not follow each other without a pause. After a refusal the
         * next one gets further. */
        bool well = led && (status == DT_REFUSED || dt_shard_mono_us(l) - start_us >= CHECK_US);
        failures = status == DT_HALTED ? 8 : well ? 0 : failures + 1;
        pause_before_takeover(l, failures);
    }
}

static void run(void *arg)
{
    dt_shard_loop *l = arg;
    serve(l);
    dt_delivery_close(l->delivery);
    l->env->stopped(l->env->arg, l->shard);
}

/* ---- life ---- */

static void make_meters(dt_shard_loop *l)
{
    char label[32];
    snprintf(label, sizeof(label), "shard=\"%u\"", l->shard);
    l->meters = (struct dt_shard_meters){
        .dispatched = dt_counter("duetime_dispatched_total", "Attempts committed to Kafka.", label),
        .lateness = dt_histogram("duetime_dispatch_lateness_seconds", "From due time to Kafka's commit.", ""),
        .batch = dt_histogram_count("duetime_dispatch_batch_jobs", "Jobs in one dispatch.", ""),
        .takeovers = dt_counter("duetime_takeovers_total", "Takeovers begun.", label),
        .offered = dt_counter("duetime_offered_total", "Due jobs offered to pops.", label),
        .timed_out = dt_counter("duetime_ack_timeouts_total", "Attempts whose result did not come in time.", label),
        .leader_txn_seconds = dt_histogram("duetime_mysql_turn_seconds",
                                           "One leader's transaction in MySQL, with handing its batch to Kafka.", ""),
        .epoch = dt_gauge("duetime_shard_epoch", "Epoch of the leadership in this process.", label),
        .undeliverable = dt_counter("duetime_undeliverable_total", "Attempts that Kafka refused for good.", label),
        .lost = dt_counter("duetime_attempts_lost_total",
                           "Attempts that ended because the process that had them in its hands is gone.", label),
        .halted = dt_gauge("duetime_shard_halted", "1 while the shard waits for an operator (dt_clear_halt).", label),
        .leading = dt_gauge("duetime_shard_leading", "1 while this process leads the shard.", label),
    };
}

/* On another thread. */
static void topics_found_out(void *arg)
{
    dt_shard_loop *l = arg;
    dt_mailbox_signal(l->mailbox, FOUND_OUT);
}

static dt_status make_delivery(dt_shard_loop *l)
{
    const struct dt_delivery_env env = {.servers = l->env->servers,
                                        .config = l->env->config,
                                        .clock = l->env->clock,
                                        .ref = l->env->ref,
                                        .shard = l->shard,
                                        .abort = &l->orders.abort,
                                        .told = topics_found_out,
                                        .arg = l};
    return dt_delivery_new(DT_STR_LIT("kafka"), &env, &l->delivery);
}

static dt_status make_parts(dt_shard_loop *l)
{
    struct dt_error err = {0};
    size_t batch = (size_t)l->env->config->dispatch_batch_jobs;
    l->fair.hints = calloc(batch, sizeof(*l->fair.hints));
    l->due.entries = calloc(batch * DT_SCAN_BATCHES, sizeof(*l->due.entries));
    l->due.rows = calloc(batch * DT_SCAN_BATCHES, sizeof(*l->due.rows));
    l->lost.v = calloc(batch, sizeof(*l->lost.v));
    dt_status status =
        l->fair.hints && l->due.entries && l->due.rows && l->lost.v ? dt_mailbox_new(&l->mailbox) : DT_NOMEM;
    if (status == DT_OK)
        status = dt_store_new(l->env->config, l->env->ref, &l->store);
    if (status == DT_OK)
        status = dt_index_new(l->env->config, l->env->installation, l->env->clock, &l->index, &err);
    if (status == DT_OK)
        status = dt_topic_snapshot_new(&l->snapshot);
    if (status == DT_OK)
        status = make_delivery(l);
    return status == DT_OK ? dt_hands_claims_new(l->env->servers->hands, l->shard, &l->claims) : status;
}

static void free_parts(dt_shard_loop *l)
{
    dt_hands_claims_free(l->claims);
    dt_delivery_free(l->delivery);
    dt_topic_snapshot_free(l->snapshot);
    dt_index_free(l->index);
    dt_store_free(l->store);
    dt_mailbox_free(l->mailbox);
    dt_inflight_clear(&l->flight.list);
    dt_arena_clear(&l->arena);
    dt_arena_clear(&l->fair.arena);
    dt_shard_forget_topics(l);
    free(l->fair.v);
    dt_limit_memory_clear(&l->limits);
    dt_id_set_clear(&l->unknown.ids);
    pthread_mutex_destroy(&l->state_lock);
    free(l->fair.hints);
    free(l->lost.v);
    free(l->due.entries);
    free(l->due.rows);
    free(l);
}

dt_status dt_shard_loop_start(const struct dt_loop_env *env, unsigned shard, dt_shard_loop **out)
{
    dt_shard_loop *l = calloc(1, sizeof(*l));
    if (!l)
        return DT_NOMEM;
    l->env = env;
    l->shard = shard;
    l->trust.whole = true;
    l->trust.compared = true; /* entries that the last leader had not told are the reconciler's, within its period */
    l->state.losses = env->random(env->arg); /* those of two leaderships differ */
    pthread_mutex_init(&l->state_lock, NULL);
    dt_arena_init(&l->arena);
    dt_arena_init(&l->fair.arena);
    make_meters(l);
    dt_status status = make_parts(l);
    l->trust.up = l->index != NULL;
    if (status == DT_OK)
        status = dt_thread_start(&l->thread, "shard", run, l, NULL);
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
    dt_thread_join(&l->thread);
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

void dt_shard_loop_room(dt_shard_loop *l)
{
    dt_mailbox_signal(l->mailbox, ROOM);
}

/* What does not fit is told again soon: it is looked for once a second. */
void dt_shard_loop_lost(dt_shard_loop *l, int64_t id)
{
    if (!l)
        return;
    pthread_mutex_lock(&l->state_lock);
    if (l->lost.n < (size_t)l->env->config->dispatch_batch_jobs)
        l->lost.v[l->lost.n++] = id;
    pthread_mutex_unlock(&l->state_lock);
    dt_mailbox_signal(l->mailbox, WAKE);
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
