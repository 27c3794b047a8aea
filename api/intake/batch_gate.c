/*
 * Owns the count of rows that batches have at the committer and the line before it: see batch_gate.h.
 *
 * Invariants, under the lock: rows = rows of all chunks at the committer + what is granted; a place is in the list of
 * those that wait exactly while waits_for is set; nobody in the list could be granted room (call_line is run whenever
 * that may have changed). One chunk always passes when nothing else is out.
 */
#include "batch_gate.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/metrics.h"

struct dt_gate {
    size_t unit_rows, rows_max;
    _Atomic bool closed; /* written under the lock */
    _Atomic int places;
    pthread_mutex_t lock;
    /* Below: under the lock. */
    size_t rows;
    size_t n_waiting;
    struct dt_place *first, *last; /* those that wait, first come first served */
    dt_metric *rows_out, *waiting, *open;
};

dt_status dt_gate_new(size_t unit_rows, size_t rows, dt_gate **out)
{
    dt_gate *gate = calloc(1, sizeof(*gate));
    *out = gate;
    if (!gate)
        return DT_NOMEM;
    gate->unit_rows = unit_rows;
    gate->rows_max = rows;
    pthread_mutex_init(&gate->lock, NULL);
    gate->rows_out = dt_gauge("duetime_api_batch_rows", "Jobs of batches at the committer, or granted room there.", "");
    gate->waiting = dt_gauge("duetime_api_batches_waiting", "Batches that wait for the committer.", "");
    gate->open = dt_gauge("duetime_api_batches", "Batches whose request or whose jobs are under way.", "");
    return DT_OK;
}

void dt_gate_free(dt_gate *gate)
{
    if (!gate)
        return;
    pthread_mutex_destroy(&gate->lock);
    free(gate);
}

static void count_places(dt_gate *gate, int change)
{
    dt_metric_set(gate->open, atomic_fetch_add_explicit(&gate->places, change, memory_order_relaxed) + change);
}

void dt_place_init(struct dt_place *place, dt_gate *gate, int64_t deadline_us, void (*call)(struct dt_place *))
{
    *place = (struct dt_place){.gate = gate, .deadline_us = deadline_us, .call = call};
    count_places(gate, 1);
}

void dt_place_clear(struct dt_place *place)
{
    dt_gate_leave(place);
    count_places(place->gate, -1);
}

/* ---- the list of those that wait ---- */

static void list_add(struct dt_place *place, enum dt_gate_for what)
{
    dt_gate *gate = place->gate;
    place->waits_for = what;
    place->next = NULL;
    place->prev = gate->last;
    if (gate->last)
        gate->last->next = place;
    else
        gate->first = place;
    gate->last = place;
    gate->n_waiting++;
}

/* From here on the place is its owner's. */
static void call(struct dt_place *place)
{
    dt_gate *gate = place->gate;
    if (place->prev)
        place->prev->next = place->next;
    else
        gate->first = place->next;
    if (place->next)
        place->next->prev = place->prev;
    else
        gate->last = place->prev;
    gate->n_waiting--;
    place->waits_for = 0;
    place->call(place);
}

static void show(const dt_gate *gate)
{
    dt_metric_set(gate->rows_out, (double)gate->rows);
    dt_metric_set(gate->waiting, (double)gate->n_waiting);
}

/* ---- room ---- */

static bool has_room(const struct dt_place *place)
{
    const dt_gate *gate = place->gate;
    if (place->in_order && place->under_way > 0)
        return false;
    if (place->under_way >= DT_BATCH_UNDER_WAY)
        return false;
    return place->granted > 0 || gate->rows == 0 || gate->rows + gate->unit_rows <= gate->rows_max;
}

static void grant(struct dt_place *place)
{
    place->granted = place->gate->unit_rows;
    place->gate->rows += place->granted;
    call(place);
}

static bool need_not_wait(const struct dt_place *place, enum dt_gate_for what)
{
    if (what == DT_GATE_ALL)
        return place->under_way == 0;
    return atomic_load_explicit(&place->gate->closed, memory_order_relaxed) || has_room(place);
}

/* A batch that is held back by its own chunks lets others pass. */
static void call_line(dt_gate *gate)
{
    for (struct dt_place *place = gate->first, *next; place; place = next) {
        next = place->next;
        if (!need_not_wait(place, place->waits_for))
            continue;
        if (place->waits_for == DT_GATE_ROOM && has_room(place))
            grant(place);
        else
            call(place);
    }
    show(gate);
}

static void give_back_grant(struct dt_place *place)
{
    place->gate->rows -= place->granted;
    place->granted = 0;
}

bool dt_gate_pass(struct dt_place *place, size_t rows)
{
    dt_gate *gate = place->gate;
    pthread_mutex_lock(&gate->lock);
    bool room = has_room(place);
    if (room) {
        bool more = place->granted > rows;
        give_back_grant(place);
        gate->rows += rows;
        place->under_way++;
        if (more)
            call_line(gate);
        else
            show(gate);
    }
    pthread_mutex_unlock(&gate->lock);
    return room;
}

void dt_gate_back(struct dt_place *place, size_t rows, void (*under_lock)(void *arg, unsigned under_way), void *arg)
{
    dt_gate *gate = place->gate;
    pthread_mutex_lock(&gate->lock);
    gate->rows -= rows;
    place->under_way--;
    under_lock(arg, place->under_way);
    call_line(gate);
    pthread_mutex_unlock(&gate->lock);
}

bool dt_gate_wait(struct dt_place *place, enum dt_gate_for what, void (*suspend)(struct dt_place *))
{
    dt_gate *gate = place->gate;
    pthread_mutex_lock(&gate->lock);
    bool wait = !need_not_wait(place, what);
    if (wait) {
        if (suspend)
            suspend(place);
        list_add(place, what);
        give_back_grant(place);
        call_line(gate);
    }
    pthread_mutex_unlock(&gate->lock);
    return wait;
}

void dt_gate_leave(struct dt_place *place)
{
    dt_gate *gate = place->gate;
    pthread_mutex_lock(&gate->lock);
    if (place->granted > 0) {
        give_back_grant(place);
        call_line(gate);
    }
    pthread_mutex_unlock(&gate->lock);
}

/* ---- ends ---- */

static bool is_late(const struct dt_place *place, int64_t now_us)
{
    return now_us >= place->deadline_us + (place->waits_for == DT_GATE_ALL ? DT_GATE_GRACE_US : 0);
}

void dt_gate_expire(dt_gate *gate, int64_t now_us)
{
    pthread_mutex_lock(&gate->lock);
    for (struct dt_place *place = gate->first, *next; place; place = next) {
        next = place->next;
        if (is_late(place, now_us))
            call(place);
    }
    show(gate);
    pthread_mutex_unlock(&gate->lock);
}

void dt_gate_close(dt_gate *gate)
{
    pthread_mutex_lock(&gate->lock);
    atomic_store_explicit(&gate->closed, true, memory_order_relaxed);
    call_line(gate);
    pthread_mutex_unlock(&gate->lock);
}

enum dt_gate_end dt_gate_ended(const struct dt_place *place, int64_t now_us)
{
    if (atomic_load_explicit(&place->gate->closed, memory_order_relaxed))
        return DT_GATE_CLOSED;
    return now_us >= place->deadline_us ? DT_GATE_LATE : DT_GATE_OPEN;
}
