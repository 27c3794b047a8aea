/* Invariants, under the lock: rows = the rows of all queued chunks + the granted rows; an entry is in the gate's queue
 * exactly while its waits_for is set; no batch in the queue waits for room that the gate has (end_possible_waits grants
 * room as soon as there is some). If no chunk is queued, one chunk of any weight passes. */
#include "batch_gate.h"

#include <pthread.h>
#include <stdatomic.h>
#include <utlist.h>

#include "base/assert.h"
#include "base/metrics.h"

struct dt_gate {
    size_t chunk_rows;
    size_t unit_rows, rows_max; /* maximal rows of one chunk, and of all chunks together */
    size_t row_bytes;           /* number of bytes that count as a row; 0: bytes do not count */
    _Atomic bool closed;        /* written under the lock */
    _Atomic int entries;
    pthread_mutex_t lock;
    /* Members below: protected by the lock. */
    size_t rows;
    size_t n_waiting;
    struct dt_gate_entry *first; /* entries that wait, in order of arrival (utlist) */
    dt_metric *rows_out, *waiting, *open, *rests;
};

static size_t count_charged_rows(const dt_gate *gate, size_t rows, size_t bytes)
{
    size_t stand_for = gate->row_bytes ? bytes / gate->row_bytes : 0;
    return rows > stand_for ? rows : stand_for;
}

size_t dt_gate_chunk_rows(const dt_gate *gate)
{
    return gate->chunk_rows;
}

size_t dt_gate_weight(const dt_gate *gate, size_t rows, size_t bytes)
{
    size_t weight = count_charged_rows(gate, rows, bytes);
    return weight < gate->unit_rows ? weight : gate->unit_rows;
}

dt_status dt_gate_new(const char *of, const struct dt_gate_bounds *bounds, dt_gate **out)
{
    dt_gate *gate = calloc(1, sizeof(*gate));
    *out = gate;
    if (!gate)
        return DT_NOMEM;
    gate->chunk_rows = bounds->chunk_rows;
    gate->rows_max = bounds->rows;
    gate->row_bytes = bounds->rows ? bounds->bytes / bounds->rows : 0;
    gate->unit_rows = count_charged_rows(gate, bounds->chunk_rows, bounds->chunk_bytes);
    pthread_mutex_init(&gate->lock, NULL);
    char labels[40];
    snprintf(labels, sizeof(labels), "of=\"%s\"", of);
    gate->rows_out = dt_gauge(
        "duetime_api_batch_rows",
        "Elements of batches that are in their queue or admitted to it; a large element counts as several.", labels);
    gate->waiting =
        dt_gauge("duetime_api_batches_waiting", "Batches that wait for the queue of their elements.", labels);
    gate->open = dt_gauge("duetime_api_batches", "Batches in progress.", labels);
    gate->rests =
        dt_counter("duetime_api_batch_rests_total",
                   "Batches whose answer was delayed because their token has too many refused elements.", labels);
    return DT_OK;
}

void dt_gate_free(dt_gate *gate)
{
    if (!gate)
        return;
    dt_assert(!gate->first && gate->n_waiting == 0);
    dt_assert_cmp(gate->rows, ==, 0);
    pthread_mutex_destroy(&gate->lock);
    free(gate);
}

void dt_gate_entry_init(struct dt_gate_entry *entry, dt_gate *gate, int64_t deadline_us,
                        void (*call)(struct dt_gate_entry *))
{
    *entry = (struct dt_gate_entry){.gate = gate, .deadline_us = deadline_us, .call = call};
    dt_metric_set(gate->open, atomic_fetch_add_explicit(&gate->entries, 1, memory_order_relaxed) + 1);
}

void dt_gate_entry_clear(struct dt_gate_entry *entry)
{
    dt_gate *gate = entry->gate;
    dt_gate_leave(entry);
    dt_assert(!entry->waits_for);
    dt_assert_cmp(entry->under_way, ==, 0);
    const int entries = atomic_fetch_sub_explicit(&gate->entries, 1, memory_order_relaxed);
    dt_assert_cmp(entries, >, 0);
    dt_metric_set(gate->open, entries - 1);
}

/* ---- the queue ---- */

/* Ends the wait of an entry. After `call`, the entry belongs to its owner again. */
static void end_wait(struct dt_gate_entry *entry)
{
    dt_gate *gate = entry->gate;
    dt_assert(entry->waits_for);
    dt_assert_cmp(gate->n_waiting, >, 0);
    DL_DELETE(gate->first, entry);
    gate->n_waiting--;
    entry->waits_for = 0;
    entry->call(entry);
}

static void set_gate_metrics(const dt_gate *gate)
{
    dt_metric_set(gate->rows_out, (double)gate->rows);
    dt_metric_set(gate->waiting, (double)gate->n_waiting);
}

/* ---- room ---- */

static bool has_room(const struct dt_gate_entry *entry)
{
    const dt_gate *gate = entry->gate;
    if (entry->in_order && entry->under_way > 0)
        return false;
    if (entry->under_way >= DT_BATCH_UNDER_WAY)
        return false;
    return entry->granted > 0 || gate->rows == 0 || gate->rows + gate->unit_rows <= gate->rows_max;
}

static bool is_wait_over(const struct dt_gate_entry *entry, enum dt_gate_for what)
{
    if (what == DT_GATE_ALL)
        return entry->under_way == 0;
    if (atomic_load_explicit(&entry->gate->closed, memory_order_relaxed))
        return true;
    return what == DT_GATE_ROOM && has_room(entry);
}

/* Ends every wait that can end now. A batch that waits for its own chunks does not block the batches after it. */
static void end_possible_waits(dt_gate *gate)
{
    for (struct dt_gate_entry *entry = gate->first, *next; entry; entry = next) {
        next = entry->next;
        if (!is_wait_over(entry, entry->waits_for))
            continue;
        if (entry->waits_for == DT_GATE_ROOM && has_room(entry)) {
            /* dt_gate_wait released the queue room of the batch, so none is granted */
            dt_assert_cmp(entry->granted, ==, 0);
            entry->granted = gate->unit_rows;
            gate->rows += entry->granted;
        }
        end_wait(entry);
    }
    set_gate_metrics(gate);
}

static void release_granted_rows(struct dt_gate_entry *entry)
{
    dt_assert_cmp(entry->gate->rows, >=, entry->granted);
    entry->gate->rows -= entry->granted;
    entry->granted = 0;
}

bool dt_gate_pass(struct dt_gate_entry *entry, size_t weight)
{
    dt_gate *gate = entry->gate;
    pthread_mutex_lock(&gate->lock);
    dt_assert(!entry->waits_for);
    dt_assert_cmp(weight, <=, gate->unit_rows);
    bool room = has_room(entry);
    if (room) {
        bool more = entry->granted > weight;
        release_granted_rows(entry);
        gate->rows += weight;
        entry->under_way++;
        if (more)
            end_possible_waits(gate);
        else
            set_gate_metrics(gate);
    }
    pthread_mutex_unlock(&gate->lock);
    return room;
}

void dt_gate_back(struct dt_gate_entry *entry, size_t weight, void (*under_lock)(void *arg, unsigned under_way),
                  void *arg)
{
    dt_gate *gate = entry->gate;
    pthread_mutex_lock(&gate->lock);
    dt_assert_cmp(gate->rows, >=, weight);
    dt_assert_cmp(entry->under_way, >, 0);
    gate->rows -= weight;
    entry->under_way--;
    under_lock(arg, entry->under_way);
    end_possible_waits(gate);
    pthread_mutex_unlock(&gate->lock);
}

bool dt_gate_wait(struct dt_gate_entry *entry, enum dt_gate_for what, void (*suspend)(struct dt_gate_entry *))
{
    dt_gate *gate = entry->gate;
    pthread_mutex_lock(&gate->lock);
    bool wait = !is_wait_over(entry, what);
    if (wait) {
        if (suspend)
            suspend(entry);
        dt_assert(!entry->waits_for);
        entry->waits_for = what;
        DL_APPEND(gate->first, entry);
        gate->n_waiting++;
        release_granted_rows(entry);
        end_possible_waits(gate);
    }
    pthread_mutex_unlock(&gate->lock);
    return wait;
}

bool dt_gate_rest(struct dt_gate_entry *entry, int64_t until_us, void (*suspend)(struct dt_gate_entry *))
{
    entry->rests_until_us = until_us < entry->deadline_us ? until_us : entry->deadline_us;
    dt_metric_add(entry->gate->rests, 1);
    return dt_gate_wait(entry, DT_GATE_REST, suspend);
}

void dt_gate_leave(struct dt_gate_entry *entry)
{
    dt_gate *gate = entry->gate;
    pthread_mutex_lock(&gate->lock);
    if (entry->granted > 0) {
        release_granted_rows(entry);
        end_possible_waits(gate);
    }
    pthread_mutex_unlock(&gate->lock);
}

/* ---- ends ---- */

void dt_gate_expire(dt_gate *gate, int64_t now_us)
{
    pthread_mutex_lock(&gate->lock);
    for (struct dt_gate_entry *entry = gate->first, *next; entry; entry = next) {
        next = entry->next;
        const int64_t end_us = entry->waits_for == DT_GATE_REST  ? entry->rests_until_us
                               : entry->waits_for == DT_GATE_ALL ? entry->deadline_us + DT_GATE_GRACE_US
                                                                 : entry->deadline_us;
        if (now_us >= end_us)
            end_wait(entry);
    }
    set_gate_metrics(gate);
    pthread_mutex_unlock(&gate->lock);
}

void dt_gate_close(dt_gate *gate)
{
    pthread_mutex_lock(&gate->lock);
    atomic_store_explicit(&gate->closed, true, memory_order_relaxed);
    end_possible_waits(gate);
    pthread_mutex_unlock(&gate->lock);
}

enum dt_gate_end dt_gate_ended(const struct dt_gate_entry *entry, int64_t now_us)
{
    if (atomic_load_explicit(&entry->gate->closed, memory_order_relaxed))
        return DT_GATE_CLOSED;
    return now_us >= entry->deadline_us ? DT_GATE_LATE : DT_GATE_OPEN;
}
