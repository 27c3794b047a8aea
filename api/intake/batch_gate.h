/*
 * The gate that all batches of the process pass on their way to the committer. However many batches there are, they
 * take at most half of the committer's queue, so that single creates find room; a batch with a full chunk waits its
 * turn in a line. Knows rows and places, not jobs and requests.
 *
 *   dt_gate_pass: rows go to the committer --> dt_gate_back: they are back, the line is called
 *        '-- no room --> dt_gate_wait: stands in line --> call(): room was granted, or the wait ended without
 *
 * Room that is granted is taken out of what others may have, until the batch passes with it or leaves: a batch that is
 * called and does not come (its client gone, its time up) hands its room on (dt_gate_leave). Every wait ends: with
 * room, at the deadline, or when the gate closes.
 *
 * Thread-safe. A place belongs to the thread that owns its batch, but for dt_gate_back.
 */
#ifndef DT_API_BATCH_GATE_H
#define DT_API_BATCH_GATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

#define DT_BATCH_UNDER_WAY 4 /* chunks of one batch that are at the committer at a time */
/* The longest wait for what is at the committer when the time of its request is up. */
#define DT_GATE_GRACE_US INT64_C(8000000)

typedef struct dt_gate dt_gate;

enum dt_gate_for { DT_GATE_ROOM = 1, DT_GATE_ALL }; /* room for another chunk; all chunks of this batch are back */
enum dt_gate_end { DT_GATE_OPEN, DT_GATE_LATE, DT_GATE_CLOSED };

struct dt_place {
    dt_gate *gate;
    int64_t deadline_us;
    /* Under the gate's lock, on any thread: the batch is the caller's again. Must not block, nor touch the gate. */
    void (*call)(struct dt_place *place);
    bool in_order; /* its chunk waits until all before it are back; the owner's */
    /* Under the gate's lock. */
    size_t granted; /* rows of room that wait for it */
    unsigned under_way;
    enum dt_gate_for waits_for; /* 0 = it does not wait */
    struct dt_place *prev, *next;
};

/* unit_rows: most rows of a chunk; rows: most rows of all batches at the committer. */
DT_MUST_CHECK dt_status dt_gate_new(size_t unit_rows, size_t rows, dt_gate **out);
/* Accepts NULL. Nobody waits, nothing is under way. */
void dt_gate_free(dt_gate *gate);
/* From now on nobody waits for room; whoever does is called. */
void dt_gate_close(dt_gate *gate);
/* Calls everybody whose time is up. To be asked now and then. */
void dt_gate_expire(dt_gate *gate, int64_t now_us);

void dt_place_init(struct dt_place *place, dt_gate *gate, int64_t deadline_us, void (*call)(struct dt_place *));
/* It does not wait, and has nothing under way. */
void dt_place_clear(struct dt_place *place);
/* A chunk of so many rows goes to the committer. False: there is no room, it does not. */
bool dt_gate_pass(struct dt_place *place, size_t rows);
/* A chunk is back. On any thread; `under_lock` is run on the way, with the number of chunks that are still out, before
 * anybody who waits for it is called. */
void dt_gate_back(struct dt_place *place, size_t rows, void (*under_lock)(void *arg, unsigned under_way), void *arg);
/*
 * False: no need to wait. True: the place waits, `suspend` was run before anybody could call, and nothing of it is
 * touched until it is called.
 */
bool dt_gate_wait(struct dt_place *place, enum dt_gate_for what, void (*suspend)(struct dt_place *));
/* Whether its time is up, or the gate was closed: no chunk is begun any more. */
enum dt_gate_end dt_gate_ended(const struct dt_place *place, int64_t now_us);
/* Room that was granted and is not needed goes to the next in line. */
void dt_gate_leave(struct dt_place *place);

#endif
