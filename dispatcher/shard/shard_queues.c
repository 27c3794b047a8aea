/*
 * Decides which jobs are first if more are due than fit into a batch, and where the other jobs wait. shard_due.c reads
 * what is due.
 *
 * Each topic has a fair queue, and another one for its timeouts. If all due jobs fit into two batches, queues are not
 * used: due jobs leave in order of next_at. If more jobs are due, a due scan takes several batches and asks MySQL once
 * for the queue of each entry (shard_parts.h). Each queue gets an equal share of the next batch, in order of next_at.
 * The surplus of a queue is parked in its held set, so that later jobs of other queues are found. From then on the
 * queue gets its share from its held set:
 *
 *             too much (below), closed,                               its part of each batch
 *   due set ───── or the queue has a held set ──────▶ held:<queue> ────── while it is open ──────▶ due set
 *
 * If jobs of a topic name their hosts, and a host has no place, the jobs for that host wait in a held set of their own,
 * besides the topic's, so that they block no other host. In scans of MySQL, the jobs beyond their host's places form a
 * closed queue.
 *
 * The surplus of a queue is what exceeds a batch. If the due scan reached its limit, the surplus is what exceeds the
 * queue's equal share of a batch, because many queues together also delay other queues.
 *
 * A queue may be closed, for one of the reasons in enum dt_closed. A queue of timeouts is closed only if it was parked
 * because reports may be unread; it opens when held sets are listed again. Parking costs a job one move to a held set
 * and one back.
 *
 * Invariant: within a queue jobs leave in order of next_at. So if a queue has a held set, its due jobs are put into
 * that set, except as many as were just returned from it (shard_held.c).
 */

#include "base/assert.h"
#include "base/log.h"
#include "shard_parts.h"

#define PARKS_AT_ONCE 64 /* maximal number of queues that one due scan parks */
/* Maximal number of queues whose topic is being looked up and of which a batch tries one job. */
#define FEW_AT_ONCE 16

/* ---- hints ---- */

static void add_hint(dt_shard_loop *l, const struct dt_entry *entry)
{
    struct dt_fair_queues *fair = &l->fair;
    dt_assert_cmp(fair->n_hints, <, l->env->config->dispatch_batch_jobs);
    dt_topic_memory_forget(&fair->memory, entry->id);
    fair->hints[fair->n_hints++] = (struct dt_hint){entry->id, entry->due_ms};
}

/* Each job occurs once in the hints. The due times in the hints are 0, because only the rows have them. */
bool dt_shard_hint_lost(dt_shard_loop *l)
{
    struct dt_fair_queues *fair = &l->fair;
    fair->n_hints = fair->rows = 0;
    pthread_mutex_lock(&l->state_lock);
    qsort(l->lost.v, l->lost.n, sizeof(*l->lost.v), dt_by_job_id);
    for (size_t i = 0; i < l->lost.n; i++)
        if (i == 0 || l->lost.v[i] != l->lost.v[i - 1])
            add_hint(l, &(struct dt_entry){.id = l->lost.v[i]});
    l->lost.n = 0;
    pthread_mutex_unlock(&l->state_lock);
    return fair->n_hints > 0;
}

void dt_shard_hint_first(dt_shard_loop *l, size_t n)
{
    for (size_t i = 0; i < n; i++)
        add_hint(l, &l->due.entries[i]);
}

/* ---- which queue an entry belongs to ---- */

static size_t hash_queue(const struct dt_topic_of *of)
{
    return dt_str_hash(of->topic) ^ (of->dispatched ? 0x9e3779b9u : 0) ^ (size_t)of->host * 0x85ebca6bu;
}

/* A hash table of queues: n slots (a power of two), each with the queue's index + 1, or 0. */
struct slots {
    uint32_t *v;
    size_t n;
};

/* Returns the slot of a queue, or the free slot where the queue would be stored. */
static uint32_t *find_queue_slot(const struct dt_fair_queues *fair, const struct slots *slots,
                                 const struct dt_topic_of *of)
{
    size_t at = hash_queue(of) & (slots->n - 1);
    for (; slots->v[at]; at = (at + 1) & (slots->n - 1)) {
        const struct dt_due_queue *queue = &fair->queues[slots->v[at] - 1];
        if (queue->timeouts == of->dispatched && queue->host == of->host &&
            (queue->topic.p == of->topic.p || dt_str_eq(queue->topic, of->topic)))
            break;
    }
    return &slots->v[at];
}

/* Returns the index of a queue in this due scan; adds a new queue at the end. */
static uint32_t queue_index(struct dt_fair_queues *fair, const struct slots *slots, const struct dt_topic_of *of)
{
    uint32_t *slot = find_queue_slot(fair, slots, of);
    if (!*slot) {
        dt_assert_cmp(2 * fair->n_queues, <, slots->n);
        fair->queues[fair->n_queues] = (struct dt_due_queue){
            .topic = of->topic, .timeouts = of->dispatched, .host = of->host, .hash = hash_queue(of)};
        *slot = (uint32_t)++fair->n_queues;
    }
    return *slot - 1;
}

/* Returns the index of a topic's queue. If the job names a host, and the host has no more places, returns the index of
 * the host's queue. */
static uint32_t queue_index_by_host(dt_shard_loop *l, const struct slots *slots, const struct dt_topic_of *of)
{
    const struct dt_topic_of all = {.topic = of->topic, .dispatched = of->dispatched};
    if (!of->host || of->dispatched)
        return queue_index(&l->fair, slots, &all);
    const bool known = *find_queue_slot(&l->fair, slots, of);
    const uint32_t at = queue_index(&l->fair, slots, of);
    struct dt_due_queue *queue = &l->fair.queues[at];
    if (!known) {
        queue->room = dt_shard_room_at(l, of->topic, of->host);
        /* Free places are reported only after there was none, so a host with places is asked again before it closes. */
        queue->closed = queue->room ? DT_CLOSED_NOT : DT_CLOSED_FULL;
    }
    if (queue->room == 0)
        return at;
    queue->room--;
    return queue_index(&l->fair, slots, &all);
}

static dt_status reserve_queues(struct dt_fair_queues *fair, size_t n, size_t queues, struct slots *slots)
{
    slots->n = 16;
    while (slots->n < 2 * queues)
        slots->n *= 2;
    dt_arena_reset(&fair->arena);
    fair->n_queues = 0;
    fair->of = dt_arena_alloc(&fair->arena, n * sizeof(*fair->of));
    fair->queues = dt_arena_alloc(&fair->arena, queues * sizeof(*fair->queues));
    fair->parts = dt_arena_alloc(&fair->arena, queues * sizeof(*fair->parts));
    slots->v = dt_arena_alloc(&fair->arena, slots->n * sizeof(*slots->v));
    if (!fair->of || !fair->queues || !fair->parts || !slots->v)
        return DT_NOMEM;
    memset(slots->v, 0, slots->n * sizeof(*slots->v));
    return DT_OK;
}

/* Finds the topics of ids[0..n), ascending: in the cache, otherwise in MySQL. For timeouts, and for jobs that name a
 * host, MySQL is read each time. */
static dt_status find_topics_of_jobs(dt_shard_loop *l, const int64_t *ids, size_t n, bool by_host,
                                     struct dt_topic_of *out, struct dt_error *err)
{
    struct dt_fair_queues *fair = &l->fair;
    int64_t *asked = dt_arena_alloc(&fair->arena, n * sizeof(*asked));
    struct dt_topic_of *found = dt_arena_alloc(&fair->arena, n * sizeof(*found));
    size_t n_asked = 0;
    size_t at = 0;
    bool names_host;
    if (!asked || !found)
        return dt_fail(err, DT_NOMEM, "out of memory");
    for (size_t i = 0; i < n; i++) {
        out[i] = (struct dt_topic_of){0};
        if (!dt_topic_memory_find(&fair->memory, ids[i], &out[i].topic, &names_host) || (by_host && names_host))
            asked[n_asked++] = ids[i];
    }
    if (n_asked == 0)
        return DT_OK;
    dt_status status = dt_store_topics_of(l->store, asked, n_asked, &fair->arena, found, err);
    for (size_t i = 0; status == DT_OK && i < n && at < n_asked; i++) {
        if (ids[i] != asked[at])
            continue;
        out[i] = found[at++];
        if (out[i].topic.p && !out[i].dispatched)
            dt_topic_memory_note(&fair->memory, ids[i], out[i].topic, out[i].host != 0);
    }
    return status;
}

dt_status dt_shard_sort_queues(dt_shard_loop *l, size_t n, bool by_host, struct dt_error *err)
{
    struct dt_fair_queues *fair = &l->fair;
    struct slots slots;
    /* Each job may add one queue for its topic and one for its host. */
    dt_status status = reserve_queues(fair, n, by_host ? 2 * n : n, &slots);
    int64_t *ids = dt_arena_alloc(&fair->arena, n * sizeof(*ids));
    struct dt_topic_of *topics = dt_arena_alloc(&fair->arena, n * sizeof(*topics));
    if (status != DT_OK || !ids || !topics)
        return dt_fail(err, DT_NOMEM, "out of memory");
    for (size_t i = 0; i < n; i++)
        ids[i] = l->due.entries[i].id;
    qsort(ids, n, sizeof(*ids), dt_by_job_id);
    status = find_topics_of_jobs(l, ids, n, by_host, topics, err);
    if (status != DT_OK)
        return status;
    for (size_t i = 0; i < n; i++) {
        const int64_t *at = bsearch(&l->due.entries[i].id, ids, n, sizeof(*ids), dt_by_job_id);
        struct dt_topic_of of = topics[at - ids];
        of.host = by_host ? of.host : 0;
        fair->of[i] = queue_index_by_host(l, &slots, &of);
        fair->queues[fair->of[i]].waiting++;
    }
    for (size_t i = 0; i < fair->n_queues; i++) {
        const struct dt_topic_of own = {.topic = fair->queues[i].topic};
        const uint32_t *slot = fair->queues[i].timeouts ? find_queue_slot(fair, &slots, &own) : NULL;
        if (slot && *slot)
            fair->queues[i].own = &fair->queues[*slot - 1];
    }
    for (size_t i = 0; i < l->fair.n_queues; i++) {
        struct dt_due_queue *queue = &l->fair.queues[i];
        if (!queue->timeouts && queue->closed != DT_CLOSED_FULL)
            queue->closed = dt_shard_why_closed(l, queue->topic);
        if (queue->host)
            continue;
        char name[DT_HELD_NAME_SIZE];
        const struct dt_held_queue *held =
            dt_shard_find_held(&l->fair, dt_held_name(queue->topic, queue->timeouts, name));
        queue->held = held != NULL;
        queue->given = held ? held->given : 0;
        queue->next_ms = queue->given ? held->next_ms : 0;
        queue->room = queue->timeouts ? SIZE_MAX : dt_shard_room(l, queue->topic);
    }
    return DT_OK;
}

/* ---- sharing out ---- */

/* Fills fair.parts: how many jobs each queue may add to the batch. held_sets: a queue with a held set may add only jobs
 * that were just returned from it. */
static void share_batch_among_queues(dt_shard_loop *l, bool held_sets)
{
    struct dt_fair_queues *fair = &l->fair;
    size_t few = 0;
    for (size_t i = 0; i < fair->n_queues; i++) {
        const struct dt_due_queue *queue = &fair->queues[i];
        const struct dt_closed_rule rule = dt_closed_rule(queue->closed);
        size_t most = queue->waiting;
        if (rule.parks)
            most = 1; /* tries one job, which shows whether the queue is open again */
        else if (held_sets && queue->held)
            most = queue->timeouts ? queue->given : queue->may;
        if (!rule.parks && queue->room < most)
            most = queue->room;
        if (queue->host) /* no job is tried, because the places of a host are known from memory */
            most = 0;
        most = most < queue->waiting ? most : queue->waiting;
        /* Tries one job each of a few queues that are being looked up, because all of them may be too many for a
         * batch. */
        if (rule.few)
            most = few++ < FEW_AT_ONCE;
        fair->parts[i] = (struct dt_fair_queue){
            .owner = dt_topic_snapshot_owner(l->snapshot, queue->topic), .waiting = most, .timeouts = queue->timeouts};
    }
    dt_fair_share(fair->parts, fair->n_queues, (size_t)l->env->config->dispatch_batch_jobs);
}

/* Parks the surplus of queues. left: entries without a place in the batch, grouped by queue; the entries of queue i end
 * at fair->parts[i].waiting. Returns whether the whole surplus was parked. */
static bool park_surplus(dt_shard_loop *l, const struct dt_entry *left, size_t stay)
{
    struct dt_fair_queues *fair = &l->fair;
    struct dt_error err = {0};
    char name[DT_HELD_NAME_SIZE];
    dt_status status = DT_OK;
    size_t from = 0;
    size_t parks = 0;
    bool all = true;
    for (size_t i = 0; status == DT_OK && i < fair->n_queues; i++) {
        const struct dt_due_queue *queue = &fair->queues[i];
        size_t n = fair->parts[i].waiting - from;
        bool too_many = dt_closed_rule(queue->closed).parks || queue->held || n > stay;
        if (n && too_many && queue->topic.p && parks < PARKS_AT_ONCE) {
            const struct dt_str held = dt_held_name(queue->topic, queue->timeouts, name);
            status = dt_index_hold(l->index, l->shard, held, left + from, n, &err);
            if (status == DT_OK)
                dt_shard_note_held(l, held, queue->closed);
            parks++;
        } else if (n)
            all = false;
        from = fair->parts[i].waiting;
    }
    if (status == DT_OK)
        return all;
    DT_LOG(DEBUG, "shard", "due entries were not moved to the held set", DT_I("shard", l->shard),
           DT_S("reason", err.text));
    dt_shard_mark_soon(l); /* the next write of the marker shows whether the index accepts changes */
    dt_shard_read_through(l);
    return false;
}

/* Adds the entries that get a place in the batch to the hints; stores all other entries in `left`, grouped by queue.
 * Returns their number. */
static size_t split_entries_by_share(dt_shard_loop *l, size_t n, struct dt_entry *left)
{
    struct dt_fair_queues *fair = &l->fair;
    size_t end = 0;
    for (size_t i = 0; i < fair->n_queues; i++) {
        size_t begin = end;
        end += fair->queues[i].waiting - fair->parts[i].quota;
        fair->parts[i].waiting = begin; /* from here on: index in `left` for the queue's next entry */
    }
    fair->others = 0;
    for (size_t i = 0; i < n; i++) {
        struct dt_fair_queue *part = &fair->parts[fair->of[i]];
        if (part->quota == 0) {
            left[part->waiting++] = l->due.entries[i];
            if (dt_closed_rule(fair->queues[fair->of[i]].closed).few)
                dt_shard_note_unknown(l, l->due.entries[i].id);
            continue;
        }
        part->quota--;
        fair->others += !fair->queues[fair->of[i]].held;
        add_hint(l, &l->due.entries[i]);
    }
    return end;
}

dt_status dt_shard_hint_fairly(dt_shard_loop *l, size_t n, bool *backlog, struct dt_error *err)
{
    dt_status status = dt_shard_sort_queues(l, n, false, err);
    struct dt_entry *left = status == DT_OK ? dt_arena_alloc(&l->fair.arena, n * sizeof(*left)) : NULL;
    if (status != DT_OK)
        return status;
    if (!left)
        return dt_fail(err, DT_NOMEM, "out of memory");
    /* Counts the entries that a queue may send: those that are due before its first entry in the held set. Of the
     * entries that are due in the same millisecond as that one, the queue may send as many as were returned from the
     * held set. A queue may not simply send as many entries as were returned, because some of these have moved
     * meanwhile, or belong to a claimed job. */
    for (size_t i = 0; i < n; i++) {
        struct dt_due_queue *queue = &l->fair.queues[l->fair.of[i]];
        struct dt_due_queue *own = queue->timeouts ? queue->own : queue;
        int64_t due_ms = l->due.entries[i].due_ms;
        bool counts = !queue->timeouts || queue->met++ >= queue->given;
        if (!own || !counts || due_ms > own->next_ms || (due_ms == own->next_ms && own->met >= own->given))
            continue;
        own->met++;
        own->may += own == queue;
    }
    share_batch_among_queues(l, true);
    /* maximal number of entries of each queue that may stay in the due set */
    size_t stay = (size_t)l->env->config->dispatch_batch_jobs;
    if (n == DT_SCAN_BATCHES * stay && l->fair.n_queues)
        stay /= l->fair.n_queues < PARKS_AT_ONCE ? l->fair.n_queues : PARKS_AT_ONCE;
    *backlog = split_entries_by_share(l, n, left) > 0 && !park_surplus(l, left, stay);
    return DT_OK;
}

bool dt_shard_some_may_go(const dt_shard_loop *l)
{
    for (size_t i = 0; i < l->fair.n_queues; i++) {
        const struct dt_due_queue *queue = &l->fair.queues[i];
        struct dt_closed_rule rule = dt_closed_rule(queue->closed);
        if (queue->timeouts || !rule.parks || rule.tries)
            return true;
    }
    return false;
}

/* ---- sharing out what MySQL's two readers found ---- */

/* Marks the queue as skipped: its further entries wait for the cursor. The queue of a host is not marked, because any
 * scan may send its entries if the host has places. */
static void skip_queue(dt_shard_loop *l, struct dt_due_queue *queue)
{
    if (queue->host || queue->skipped)
        return;
    queue->skipped = true;
    dt_shard_skip(l, queue->hash);
}

static bool hint_row_within_quota(dt_shard_loop *l, size_t i, bool may)
{
    struct dt_fair_queue *part = &l->fair.parts[l->fair.of[i]];
    if (!may || part->quota == 0)
        return false;
    part->quota--;
    add_hint(l, &l->due.entries[i]);
    return true;
}

dt_status dt_shard_hint_rows(dt_shard_loop *l, size_t n_head, size_t n, struct dt_error *err)
{
    struct dt_fair_queues *fair = &l->fair;
    bool passed = true;
    dt_status status = dt_shard_sort_queues(l, n, true, err);
    if (status != DT_OK)
        return status;
    dt_assert_cmp(n_head, <=, n);
    /* If the reader that is ahead of the cursor skipped jobs of a queue, only the queue's jobs at the cursor count for
     * its share, because no later job may be taken before them. */
    for (size_t i = 0; i < fair->n_queues; i++) {
        struct dt_due_queue *queue = &fair->queues[i];
        queue->skipped = dt_shard_was_skipped(l, queue->hash);
        queue->waiting = queue->skipped ? 0 : queue->waiting;
    }
    for (size_t i = 0; i < n_head; i++)
        fair->queues[fair->of[i]].waiting += fair->queues[fair->of[i]].skipped;
    share_batch_among_queues(l, false);
    /* Moves the cursor, but not beyond the first job that may be sent and does not fit into the batch. */
    for (size_t i = 0; i < n_head; i++) {
        struct dt_due_queue *queue = &fair->queues[fair->of[i]];
        bool taken = hint_row_within_quota(l, i, true);
        bool stays = !taken && !dt_closed_rule(queue->closed).parks;
        l->cursor.closed |= !taken && !stays;
        queue->left |= stays;
        passed &= !stays;
        if (passed)
            dt_shard_cursor_to(l, l->due.entries[i].due_ms, l->due.entries[i].id);
    }
    /* Beyond the cursor, takes jobs only of queues of which no job was left or skipped, so that the jobs of a queue
     * keep their order. */
    for (size_t i = n_head; i < n; i++) {
        struct dt_due_queue *queue = &fair->queues[fair->of[i]];
        if (!hint_row_within_quota(l, i, !queue->left && !queue->skipped))
            skip_queue(l, queue);
    }
    fair->head = n_head;
    fair->rows = n;
    return DT_OK;
}

void dt_shard_leave_to_cursor(dt_shard_loop *l, const int64_t *ids, size_t n)
{
    const struct dt_fair_queues *fair = &l->fair;
    for (size_t i = fair->head; n && i < fair->rows; i++)
        if (bsearch(&l->due.entries[i].id, ids, n, sizeof(*ids), dt_by_job_id))
            skip_queue(l, &fair->queues[fair->of[i]]);
}
