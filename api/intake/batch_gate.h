/*
 * The gate that all batches of one kind pass on their way to the queue of their elements: new jobs to the committer,
 * results to the results batcher. All batches together take at most half of that queue, so that single elements find
 * room in it. A batch whose chunk finds no room waits in the gate's own queue, first come first served. The gate counts
 * rows, of which a chunk of many bytes weighs as more, and knows neither jobs nor requests.
 *
 *   dt_gate_pass: a chunk's rows go to the queue --> dt_gate_back: the chunk is back, the queue is served
 *        '-- no room --> dt_gate_wait: the batch is queued --> call(): room was granted, or the wait ended without
 *
 * Granted room is taken out of what other batches may have, until the batch passes with it. A batch that is called and
 * does not pass (its client left, its time is up) hands the room on with dt_gate_leave. Every wait ends: with room, at
 * the deadline, or when the gate closes.
 *
 * Thread-safe. An entry belongs to the thread that owns its batch; only dt_gate_back may be called from other threads.
 */
#ifndef DT_API_BATCH_GATE_H
#define DT_API_BATCH_GATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

#define DT_BATCH_UNDER_WAY 16 /* chunks of one batch that are at the queue at a time */
/* How long past its deadline a batch waits for its chunks that are at the queue. */
#define DT_GATE_GRACE_US INT64_C(8000000)

typedef struct dt_gate dt_gate;

/* The event that a batch waits for: room for another chunk, the return of all its chunks, or the end of its rest. */
enum dt_gate_for { DT_GATE_ROOM = 1, DT_GATE_ALL, DT_GATE_REST };
enum dt_gate_end { DT_GATE_OPEN, DT_GATE_LATE, DT_GATE_CLOSED };

/* One batch at the gate, embedded in the batch. */
struct dt_gate_entry {
    dt_gate *gate;
    int64_t deadline_us; /* monotonic */
    /* Called when the wait ends, on any thread, under the gate's lock. Must neither block nor touch the gate. */
    void (*call)(struct dt_gate_entry *entry);
    bool in_order; /* the owner's: its next chunk waits until all chunks before it are back */
    /* Under the gate's lock. */
    size_t granted; /* rows of room that are reserved for it */
    unsigned under_way;
    enum dt_gate_for waits_for; /* 0 = it does not wait */
    int64_t rests_until_us;
    struct dt_gate_entry *prev, *next;
};

/* What may be at the queue: of one chunk, and of all batches together. No bytes: these are not counted. */
struct dt_gate_bounds {
    size_t chunk_rows, chunk_bytes;
    size_t rows, bytes;
};

/* of: the kind of element, for its metrics. NOMEM: *out is NULL. */
DT_MUST_CHECK dt_status dt_gate_new(const char *of, const struct dt_gate_bounds *bounds, dt_gate **out);
/* Accepts NULL. No batch may wait, and no chunk may be at the queue. */
void dt_gate_free(dt_gate *gate);
/* Ends every wait for room, and lets none begin: dt_gate_ended says CLOSED from here on. */
void dt_gate_close(dt_gate *gate);
/* Ends the waits whose deadline has passed, and rests that are over. The janitor calls it several times a second. */
void dt_gate_expire(dt_gate *gate, int64_t now_us);

void dt_gate_entry_init(struct dt_gate_entry *entry, dt_gate *gate, int64_t deadline_us,
                        void (*call)(struct dt_gate_entry *));
/* The entry must not wait, and must have no chunk at the queue. */
void dt_gate_entry_clear(struct dt_gate_entry *entry);
/* The most rows of a chunk. */
size_t dt_gate_chunk_rows(const dt_gate *gate);
/* How many rows a chunk counts for: its own, or as many as its bytes stand for. */
size_t dt_gate_weight(const dt_gate *gate, size_t rows, size_t bytes);
/* Counts a chunk of this weight as at the queue. False: there is no room, and nothing was counted. */
bool dt_gate_pass(struct dt_gate_entry *entry, size_t weight);
/*
 * Takes a chunk of this weight off the count, on any thread. under_lock is run first, with the number of chunks of
 * this batch that are still at the queue; then the waits that can end are ended.
 */
void dt_gate_back(struct dt_gate_entry *entry, size_t weight, void (*under_lock)(void *arg, unsigned under_way),
                  void *arg);
/*
 * Queues the entry. True: the entry waits; suspend (NULL = none) was run before call could be, and the caller touches
 * the batch no more until call is run. False: there is nothing to wait for, and suspend was not run.
 */
bool dt_gate_wait(struct dt_gate_entry *entry, enum dt_gate_for what, void (*suspend)(struct dt_gate_entry *));
/* Queues the entry until this time (monotonic), to some tenths of a second, and no longer than to its deadline: a batch
 * that holds no room rests. Otherwise as dt_gate_wait; false: the gate is closed. */
bool dt_gate_rest(struct dt_gate_entry *entry, int64_t until_us, void (*suspend)(struct dt_gate_entry *));
/* LATE: the batch's deadline has passed; CLOSED: the server ends. In either case no chunk may be begun any more. */
enum dt_gate_end dt_gate_ended(const struct dt_gate_entry *entry, int64_t now_us);
/* Gives granted room that is not needed to the next entry of the queue. */
void dt_gate_leave(struct dt_gate_entry *entry);

#endif
