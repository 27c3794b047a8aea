/*
 * Threads for work that is long and waits for nobody: it is done piece by piece, and whoever has done a piece stands
 * behind all others that have something to do. So a small array of jobs does not wait for a large one, and requests
 * that need MySQL have their own threads (workers.h). They ask for less processor time than the other threads do.
 */
#ifndef DT_API_TURNS_H
#define DT_API_TURNS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

typedef struct dt_turns dt_turns;

/* A piece of work that comes again: embedded in what it works on. */
struct dt_turn {
    /* One piece. True: there is more to do now. False: nothing of the turn is touched any more, until it is queued
     * again. */
    bool (*run)(struct dt_turn *turn);
    struct dt_turn *next;
};

DT_MUST_CHECK dt_status dt_turns_start(size_t threads, dt_turns **out, struct dt_error *err);
/* Any thread, also inside run. Once, until run says false. Does not block. After dt_turns_stop: false, not queued. */
bool dt_turns_add(dt_turns *turns, struct dt_turn *turn);
/* Takes no more, does all that is queued to its end, ends the threads. */
void dt_turns_stop(dt_turns *turns);
/* Accepts NULL. */
void dt_turns_free(dt_turns *turns);

#endif
