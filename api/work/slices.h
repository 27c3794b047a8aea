/*
 * Threads for work that is long and waits for nobody: it is done piece by piece, and whoever has done a piece stands
 * behind all others that have something to do. So a small array of jobs does not wait for a large one, and requests
 * that need MySQL have their own threads (workers.h). They ask for less processor time than the other threads do.
 */
#ifndef DT_API_SLICES_H
#define DT_API_SLICES_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

typedef struct dt_slices dt_slices;

/* A piece of work that comes again: embedded in what it works on. */
struct dt_slice {
    /* One piece. True: there is more to do now. False: nothing of the slice is touched any more, until it is queued
     * again. */
    bool (*run)(struct dt_slice *slice);
    struct dt_slice *prev, *next; /* of the queue */
};

DT_MUST_CHECK dt_status dt_slices_start(size_t threads, dt_slices **out, struct dt_error *err);
/* Any thread, also inside run. Once, until run says false. Does not block. After dt_slices_stop: false, not queued. */
bool dt_slices_add(dt_slices *slices, struct dt_slice *slice);
/* Takes no more, does all that is queued to its end, ends the threads. */
void dt_slices_stop(dt_slices *slices);
/* Accepts NULL. */
void dt_slices_free(dt_slices *slices);

#endif
