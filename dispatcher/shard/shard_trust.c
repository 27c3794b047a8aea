/*
 * Owns the positions of the two readers of MySQL (first part), the trust in the shard's set in the index, and the
 * marker in that set (second part). One reader, the cursor, reads overdue jobs while the index is not trusted. The
 * other reader, which is ahead of the cursor, finds topics that have few jobs. What the readers do with a job is in
 * shard_due.c, and which jobs are first in shard_queues.c.
 *
 * Invariants: the cursor skips no job that may be sent. So a sweep begins where the last one left such a job, and at
 * the longest overdue job if topics have changed: jobs of a resumed topic may be sent, even if no event reported the
 * change. The reader that is ahead of the cursor remembers the queues of which it skipped a job, until it begins at the
 * cursor again.
 */
#include "base/assert.h"
#include "base/guard.h"
#include "shard_parts.h"

/* After this time, the reader that is ahead of the cursor begins at the cursor again. */
#define AHEAD_US INT64_C(5000000)
#define WALK_US  INT64_C(200000) /* pause between two pieces of a walk over jobs that may not be sent */
/* At the end of the due rows, the reader that is ahead of the cursor moves back by this time, because commits are
 * unordered, and clocks differ. */
#define AHEAD_BACK_MS 2000

static void reset_cursor(dt_shard_loop *l)
{
    l->cursor.ms = l->cursor.id = 0;
    l->cursor.swept_ms = l->cursor.walk_ms = l->cursor.walk_id = 0;
}

void dt_shard_due_from_start(dt_shard_loop *l)
{
    reset_cursor(l);
    l->cursor.ahead_ms = l->cursor.ahead_id = l->cursor.ahead_us = 0;
}

void dt_shard_due_again(dt_shard_loop *l)
{
    if (l->cursor.ahead_ended)
        dt_shard_due_from_start(l);
    else
        reset_cursor(l);
}

void dt_shard_read_through(dt_shard_loop *l)
{
    l->cursor.reads_through = true;
    dt_shard_due_from_start(l);
}

void dt_shard_cursor_to(dt_shard_loop *l, int64_t ms, int64_t id)
{
    l->cursor.ms = ms;
    l->cursor.id = id;
}

bool dt_shard_has_closed(const dt_shard_loop *l)
{
    const struct dt_shard_cursor *c = &l->cursor;
    return c->closed && c->swept_ms && c->topics_version == dt_topic_snapshot_version(l->snapshot);
}

void dt_shard_begin_scan(dt_shard_loop *l)
{
    struct dt_shard_cursor *c = &l->cursor;
    bool from_start = !l->index && !c->ms;
    if (from_start && c->left_ms && dt_shard_has_closed(l))
        c->ms = dt_earlier(c->swept_ms - AHEAD_BACK_MS, c->left_ms);
    else if (from_start) {
        reset_cursor(l);
        c->closed = false;
        c->topics_version = dt_topic_snapshot_version(l->snapshot);
    }
    if (from_start)
        c->left_ms = INT64_MAX;
    c->began_ms = c->ms;
    c->began_id = c->id;
}

int64_t dt_shard_walk_end_ms(const dt_shard_loop *l)
{
    return l->cursor.swept_ms - AHEAD_BACK_MS;
}

void dt_shard_walk_to(dt_shard_loop *l, int64_t ms, int64_t id)
{
    struct dt_shard_cursor *c = &l->cursor;
    int64_t period_us = l->env->config->reconcile_period * 1000;
    c->walk_ms = ms;
    c->walk_id = id;
    c->walk_us = dt_shard_mono_us(l) + (ms ? WALK_US : dt_later(period_us, WALK_US));
}

void dt_shard_end_sweep(dt_shard_loop *l, int64_t now_ms)
{
    if (!l->cursor.swept_ms)
        dt_shard_walk_to(l, 0, 0);
    l->cursor.swept_ms = now_ms;
}

void dt_shard_note_left(dt_shard_loop *l, const struct dt_leader_txn *txn)
{
    struct dt_shard_cursor *c = &l->cursor;
    dt_assert_cmp(txn->seen.n + txn->chosen.n_left, <=, l->fair.n_hints); /* each hint has one fate */
    c->closed |= txn->seen.held > 0;
    if (txn->chosen.more && (c->began_ms < c->ms || (c->began_ms == c->ms && c->began_id < c->id)))
        dt_shard_cursor_to(l, c->began_ms, c->began_id);
    else if (txn->seen.n < l->fair.n_hints) /* locked rows, a busy gate, a stale map, … */
        c->left_ms = dt_earlier(c->left_ms, c->began_ms);
}

void dt_shard_place_ahead(dt_shard_loop *l, const struct dt_entry *last)
{
    struct dt_shard_cursor *c = &l->cursor;
    if (c->ahead_ms > last->due_ms || (c->ahead_ms == last->due_ms && c->ahead_id >= last->id))
        return;
    c->ahead_ms = last->due_ms;
    c->ahead_id = last->id;
    c->ahead_us = dt_shard_mono_us(l);
    c->ahead_ended = false;
    memset(c->skipped, 0, sizeof(c->skipped));
    c->salt++;
}

void dt_shard_ahead_to(dt_shard_loop *l, int64_t ms, int64_t id)
{
    l->cursor.ahead_ms = ms;
    l->cursor.ahead_id = id;
}

/* Moves the reader that is ahead of the cursor back, because jobs that were created or moved meanwhile may be due
 * before its position. */
void dt_shard_ahead_end(dt_shard_loop *l)
{
    bool all = dt_shard_mono_us(l) - l->cursor.ahead_us >= AHEAD_US;
    dt_shard_ahead_to(l, all ? 0 : l->cursor.ahead_ms - AHEAD_BACK_MS, 0);
    l->cursor.ahead_ended = true;
}

static size_t skipped_bit_of(const struct dt_shard_cursor *c, size_t hash)
{
    const uint64_t odd = UINT64_C(0x9e3779b97f4a7c15); /* 2^64 / golden ratio: Fibonacci hashing, Knuth 6.4 */
    return (size_t)((((uint64_t)hash ^ c->salt * odd) * odd) >> (64 - DT_SKIPPED_BITS));
}

bool dt_shard_was_skipped(const dt_shard_loop *l, size_t hash)
{
    const size_t bit = skipped_bit_of(&l->cursor, hash);
    return l->cursor.skipped[bit / 64] >> bit % 64 & 1;
}

void dt_shard_skip(dt_shard_loop *l, size_t hash)
{
    const size_t bit = skipped_bit_of(&l->cursor, hash);
    l->cursor.skipped[bit / 64] |= UINT64_C(1) << bit % 64;
}

/*
 * ---- whether the shard's set in the index is trusted, and the marker in that set ----
 *
 * Invariants: the index only gives hints; the claim decides. The set is trusted only while it has this leadership's
 * marker with the current counter, which every marking increments. So the next due scan notices if the set was lost,
 * replaced, or restored from an older copy, and due jobs are read from MySQL until the set is rebuilt. They are also
 * read from MySQL if the set was filled for another shard map, in which the shard had fewer slots: the marker has the
 * generation of that map. A marker says that its set is complete only if an earlier marker said so, or if the set was
 * rebuilt since. If a leader dies before its set is complete, no later leader trusts the set.
 *
 * A complete set may lose entries later, if some process cannot write them. A lost entry raises a doubt, as do an
 * unreachable index and a failed write of our own. After a doubt the set is trusted again when
 *
 *   (1) every process that changes jobs can write to the set's endpoint, as far as is known (env->index_told), (2) jobs
 *   that are due soon have been compared with MySQL since the doubt (trust.compared), and (3) MySQL has been read
 *   through once for the jobs that were due at the doubt (cursor.reads_through).
 */

/* Longest time between two writes of the marker, which show whether the index accepts changes. */
#define MARK_US INT64_C(5000000)

void dt_shard_trust_init(dt_shard_loop *l)
{
    struct dt_shard_trust *trust = &l->trust;
    trust->marked = trust->says_whole = trust->mark_unanswered = false;
    trust->rebuild_unasked = !trust->whole; /* the set is not complete, so each leadership requests its rebuild once */
    trust->mark_count = 0;
    trust->marked_us = 0;
}

struct dt_marker dt_shard_marker(const dt_shard_loop *l)
{
    return (struct dt_marker){l->fence.epoch,       l->fence.token,       l->trust.mark_count,    l->trust.filled_for,
                              l->fence.index_epoch, !l->trust.says_whole, l->trust.map.generation};
}

/* Records that the set was lost, and requests a rebuild. Holds the lock, so that the thread that ends an earlier
 * rebuild sees all of these changes or none. */
static void record_lost_set(dt_shard_loop *l)
{
    l->trust.says_whole = l->trust.rebuild_unasked = false;
    pthread_mutex_lock(&l->state_lock);
    l->trust.whole = false;
    l->state.losses++;
    l->env->index_lost(l->env->arg, l->shard);
    pthread_mutex_unlock(&l->state_lock);
}

/* Reads the shard map. If the new map only takes slots from the shard, the set stays complete: entries of other shards
 * are moved when they are due, or the reconciler removes them. This is known only if the new map directly follows the
 * old one: in a map between them, the shard may have had fewer slots. */
void dt_shard_read_map(dt_shard_loop *l)
{
    struct dt_shard_map next;
    l->env->map(l->env->arg, &next);
    if (next.generation == l->trust.map.generation && next.shards == l->trust.map.shards)
        return;
    bool whole = l->trust.map.shards && next.generation == l->trust.map.generation + 1 &&
                 !dt_shard_map_gains(&l->trust.map, &next, l->shard);
    l->trust.map = next;
    if (whole || (l->trust.filled_for && DT_UNGUARDED(FILLED_FOR)))
        return;
    l->trust.filled_for = next.generation;
    /* The rebuild in progress fills the set for the old map, so it must begin again. */
    if (l->trust.marked && !l->trust.says_whole)
        record_lost_set(l);
}

/* Raises a doubt: the shard's set may lack entries. Also notifies the housekeeper, which then compares the set with
 * MySQL soon. */
void dt_shard_doubt_index(dt_shard_loop *l)
{
    dt_shard_loop_index_doubted(l);
    l->env->index_doubted(l->env->arg);
}

/* Reads which doubts about the shard's set other threads have raised. Holds the lock, so that a compare settles exactly
 * the doubts that were raised before it began. After a new doubt, all due jobs are read from MySQL once. */
void dt_shard_take_doubts(dt_shard_loop *l)
{
    pthread_mutex_lock(&l->state_lock);
    uint64_t doubts = l->state.doubts;
    l->state.awaits_compare = l->trust.up && l->trust.whole && !l->trust.compared;
    pthread_mutex_unlock(&l->state_lock);
    if (doubts != l->trust.doubts)
        dt_shard_read_through(l);
    l->trust.doubts = doubts;
}

bool dt_shard_believes_index(const dt_shard_loop *l)
{
    return l->trust.up && l->trust.whole && l->trust.compared && !l->cursor.reads_through &&
           l->env->index_told(l->env->arg, dt_index_home(l->index, l->shard));
}

/* Replaces the marker `was`, which was seen in the set (NULL: whatever marker the set has), by this leadership's next
 * marker. */
static dt_status replace_marker(dt_shard_loop *l, const struct dt_marker *was, bool says_whole, bool *intact,
                                bool *gone, struct dt_error *err)
{
    struct dt_marker next = dt_shard_marker(l);
    next.count++;
    next.filling = !says_whole;
    dt_status status = dt_index_mark(l->index, l->shard, next, was, intact, gone, err);
    l->trust.mark_unanswered = status != DT_OK;
    l->trust.unanswered_says_whole = says_whole;
    if (status != DT_OK)
        return status;
    l->trust.mark_count = next.count;
    l->trust.says_whole = says_whole;
    l->trust.marked_us = dt_shard_mono_us(l);
    return DT_OK;
}

void dt_shard_trust_renew(dt_shard_loop *l, const struct dt_marker *was)
{
    struct dt_error err = {0};
    bool intact, gone;
    if (!l->trust.up || !l->trust.marked ||
        replace_marker(l, was, l->trust.says_whole, &intact, &gone, &err) != DT_OK || gone)
        dt_shard_trust_init(l);
}

/* Writes the first marker of this leadership, or the first marker after the set was lost. */
static dt_status write_first_marker(dt_shard_loop *l, struct dt_error *err)
{
    bool intact, gone;
    /* Before a leadership has written a marker, the set may have the marker of any leader. Later, another leader's
     * marker means that Redis was restored from an old copy. If the answer to the first write was lost, it is unknown
     * which marker the set had before. */
    if (l->trust.marked)
        l->trust.rebuild_unasked = true;
    l->trust.marked = l->trust.says_whole = false;
    dt_status status = replace_marker(l, NULL, false, &intact, &gone, err);
    if (status != DT_OK)
        return status;
    if (l->trust.rebuild_unasked || !intact) {
        struct dt_error why = {0};
        (void)dt_fail(&why, DT_UNAVAILABLE, "the marker of shard %u in Redis is missing or has another value",
                      l->shard);
        dt_outage_failed(&l->trust.outage, DT_OUTAGE_REDIS, "shard",
                         "the index was lost: reading from MySQL while it is rebuilt", DT_UNAVAILABLE, &why);
        record_lost_set(l);
    }
    l->trust.marked = true;
    return DT_OK;
}

/* Writes this leadership's next marker. If its last marker, which the scan has just seen, is missing now, the set was
 * lost. */
static dt_status write_next_marker(dt_shard_loop *l, bool says_whole, struct dt_error *err)
{
    const struct dt_marker present = dt_shard_marker(l);
    bool intact, gone;
    dt_status status = replace_marker(l, &present, says_whole, &intact, &gone, err);
    return status == DT_OK && gone ? write_first_marker(l, err) : status;
}

bool dt_shard_assume_marked(dt_shard_loop *l)
{
    if (!l->trust.mark_unanswered)
        return false;
    l->trust.mark_count++;
    l->trust.says_whole = l->trust.unanswered_says_whole;
    return true;
}

void dt_shard_mark_soon(dt_shard_loop *l)
{
    l->trust.marked_us = 0;
}

dt_status dt_shard_keep_marked(dt_shard_loop *l, bool there, struct dt_error *err)
{
    dt_status status = DT_OK;
    /* Writes the marker again to check that the index accepts changes. If the index answers but refuses changes
     * (read-only, out of memory), it lacks new jobs and keeps old entries, so it must not be trusted. */
    if (there && l->trust.marked && dt_shard_mono_us(l) - l->trust.marked_us >= MARK_US) {
        status = write_next_marker(l, l->trust.says_whole, err);
    } else if (!there || !l->trust.marked) {
        /* The scan has seen our marker although its write failed: only the answer was lost, and no rebuild was
         * requested. */
        l->trust.rebuild_unasked |= there;
        status = write_first_marker(l, err);
    }
    if (status == DT_OK && l->trust.whole && !l->trust.says_whole)
        status = write_next_marker(l, true, err);
    return status;
}

void dt_shard_note_index(dt_shard_loop *l, dt_status status, const struct dt_error *err)
{
    if (status != DT_OK)
        dt_outage_failed(&l->trust.outage, DT_OUTAGE_REDIS, "shard", "no index: reading from MySQL", status, err);
    else
        dt_outage_over(&l->trust.outage);
    bool back = !l->trust.up && status == DT_OK;
    l->trust.up = status == DT_OK;
    if (back)
        dt_shard_doubt_index(l);
}

void dt_shard_loop_index_whole(dt_shard_loop *l, uint64_t losses)
{
    pthread_mutex_lock(&l->state_lock);
    if (l->state.losses == losses)
        l->trust.whole = true;
    pthread_mutex_unlock(&l->state_lock);
    dt_mailbox_signal(l->mailbox, DT_LOOP_DUE);
}

void dt_shard_loop_index_doubted(dt_shard_loop *l)
{
    pthread_mutex_lock(&l->state_lock);
    l->trust.compared = false;
    l->state.doubts++;
    pthread_mutex_unlock(&l->state_lock);
    dt_mailbox_signal(l->mailbox, DT_LOOP_DUE);
}

void dt_shard_loop_index_compared(dt_shard_loop *l, uint64_t doubts)
{
    pthread_mutex_lock(&l->state_lock);
    if (l->state.doubts == doubts) {
        l->trust.compared = true;
        l->state.awaits_compare = false;
    }
    pthread_mutex_unlock(&l->state_lock);
    dt_mailbox_signal(l->mailbox, DT_LOOP_DUE);
}
