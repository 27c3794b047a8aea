/*
 * Time slices: threads for long work that waits for nobody. Work is done piece by piece, round robin: after each piece
 * it goes behind all other work that is queued. So a small array of jobs does not wait for a large one. The threads ask
 * for less processor time than others (nice); requests that need MySQL have threads of their own (workers.h).
 */
#ifndef DT_API_SLICES_H
#define DT_API_SLICES_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

typedef struct dt_slices dt_slices;

/* Work that is done piece by piece. It is embedded in what it works on, and lives until run says false. */
struct dt_slice {
    /* Does one piece. True: there is more to do now. False: the slice is not touched any more until it is queued
     * again. */
    bool (*run)(struct dt_slice *slice);
    struct dt_slice *prev, *next; /* of the queue */
};

/* Starts the threads. *out is NULL unless OK. */
DT_MUST_CHECK dt_status dt_slices_start(size_t threads, dt_slices **out, struct dt_error *err);
/* Queues the work, once until run says false. Any thread, also inside run; does not block. False: dt_slices_stop was
 * called, and nothing was queued. */
bool dt_slices_add(dt_slices *slices, struct dt_slice *slice);
/* Queues nothing more, does all that is queued to its end, ends the threads. */
void dt_slices_stop(dt_slices *slices);
/* Accepts NULL. */
void dt_slices_free(dt_slices *slices);

#endif
