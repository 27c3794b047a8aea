/*
 * The gate before the queue of a kind of elements: new jobs (the committer), or results (the results batcher). All
 * batches of the kind together take at most half of that queue, so that single elements find room. If there is no room
 * for a chunk, its batch waits in the gate's own queue, in order of arrival. The gate counts rows; a chunk with many
 * bytes counts for more rows.
 *
 *   dt_gate_pass: a chunk is queued --> dt_gate_back: the chunk has returned; the next batch is served
 *        '-- no room --> dt_gate_wait: the batch waits --> call(): room was granted, or the wait ended without room
 *
 * Granted room is reserved until the batch calls dt_gate_pass. If the batch does not do so (its client has
 * disconnected, or its deadline has passed), it releases the room with dt_gate_leave. Every wait ends: with room, at
 * the deadline, or when the gate closes.
 *
 * Thread-safe. An entry belongs to the thread that owns its batch; other threads may only call dt_gate_back.
 */
#pragma once

#include "base/status.h"

#define DT_BATCH_UNDER_WAY 16 /* maximal number of chunks of one batch that are queued at a time */
/* How long a batch waits for its queued chunks after its deadline. */
#define DT_GATE_GRACE_US INT64_C(8000000)

typedef struct dt_gate dt_gate;

/* What a batch waits for: ROOM for another chunk; the return of ALL its chunks; or the end of its pause (REST). */
enum dt_gate_for { DT_GATE_ROOM = 1, DT_GATE_ALL, DT_GATE_REST };
enum dt_gate_end { DT_GATE_OPEN, DT_GATE_LATE, DT_GATE_CLOSED };

/* A batch's entry in the gate's queue; a member of the batch (struct dt_batch). */
struct dt_gate_entry {
    dt_gate *gate;
    int64_t deadline_us; /* monotonic: when a wait for room ends in any case */
    /* Called when the wait ends, on any thread, under the gate's lock. Must neither block nor touch the gate. */
    void (*call)(struct dt_gate_entry *entry);
    bool in_order; /* set by the batch: its next chunk must wait until its earlier chunks have returned */
    /* Members below: protected by the gate's lock. */
    size_t granted; /* number of rows that are reserved for the batch's next chunk */
    unsigned under_way;
    enum dt_gate_for waits_for; /* 0: the batch does not wait */
    int64_t rests_until_us;
    struct dt_gate_entry *prev, *next;
};

/* Limits of one chunk, and of all queued chunks together. If a number of bytes is 0, bytes do not count. */
struct dt_gate_bounds {
    size_t chunk_rows, chunk_bytes;
    size_t rows, bytes;
};

/* Creates the gate (limit of queued rows) for a kind of elements. of: the name of the kind in metrics. NOMEM: *out is
 * NULL. */
dt_status dt_gate_new(const char *of, const struct dt_gate_bounds *bounds, dt_gate **out);
/* Frees the gate. No batch may wait, and no chunk may be queued. Accepts NULL. */
void dt_gate_free(dt_gate *gate);
/* Ends every wait for room, and allows no new one: dt_gate_ended returns CLOSED from now on. */
void dt_gate_close(dt_gate *gate);
/* Ends waits whose deadline has passed, and pauses whose time is up. Called several times a second. */
void dt_gate_expire(dt_gate *gate, int64_t now_us);

void dt_gate_entry_init(struct dt_gate_entry *entry, dt_gate *gate, int64_t deadline_us,
                        void (*call)(struct dt_gate_entry *));
/* Releases the entry. Its batch must not wait, and must have no queued chunk. */
void dt_gate_entry_clear(struct dt_gate_entry *entry);
/* Returns the maximal number of rows of a chunk. */
size_t dt_gate_chunk_rows(const dt_gate *gate);
/* Returns the weight of a chunk in rows: its number of rows, or what its bytes count for if that is more. */
size_t dt_gate_weight(const dt_gate *gate, size_t rows, size_t bytes);
/* Counts a chunk of this weight as queued. False: the queue has no room, and nothing was counted. */
bool dt_gate_pass(struct dt_gate_entry *entry, size_t weight);
/* Stops counting a chunk of this weight, which has returned. Before that, calls under_lock with the number of chunks of
 * the batch that are still queued; after that, ends the waits that can end. Any thread. */
void dt_gate_back(struct dt_gate_entry *entry, size_t weight, void (*under_lock)(void *arg, unsigned under_way),
                  void *arg);
/* Queues the entry. True: the entry waits; `suspend` (unless NULL) was called before the wait could end, and the caller
 * must not touch the batch until `call` is called. False: there is nothing to wait for, and suspend was not called. */
bool dt_gate_wait(struct dt_gate_entry *entry, enum dt_gate_for what, void (*suspend)(struct dt_gate_entry *));
/* Makes the batch pause until this time (monotonic, exact to some tenths of a second), at most until its deadline.
 * While it pauses, no queue room is reserved for it. False: the gate is closed, and suspend was not called. True: the
 * caller must not touch the batch until `call` is called. */
bool dt_gate_rest(struct dt_gate_entry *entry, int64_t until_us, void (*suspend)(struct dt_gate_entry *));
/* Returns whether the batch may queue further chunks. LATE: no, its deadline has passed. CLOSED: no, the server
 * ends. */
enum dt_gate_end dt_gate_ended(const struct dt_gate_entry *entry, int64_t now_us);
/* Releases queue room that was granted to the entry's batch and not used; the next waiting batch gets it. */
void dt_gate_leave(struct dt_gate_entry *entry);
