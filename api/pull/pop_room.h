/*
 * The waiting room. It holds pops that found no jobs, until jobs are offered, their wait ends, or their client
 * disconnects. A waiting pop holds a socket and some memory, but no thread, no MySQL connection, and no slot of the
 * HTTP server.
 *
 * One thread serves the room. Redis notifies this thread of offers. If Redis is down, the thread polls MySQL every
 * LOOK_US, with one statement for all waiting pops; otherwise it polls once a second, in case a notification was lost.
 * While no pop waits, the thread sleeps.
 */
#pragma once

#include "api.h"
#include "pop_take.h"
#include "request/request.h"
#include "request/session.h"

typedef struct dt_pop_room dt_pop_room;

/* Starts the waiting room's thread. Both arguments are borrowed, and must outlive the room. Unless OK, *out is NULL. */
dt_status dt_pop_room_start(const struct dt_session_env *env, const struct dt_api *api, dt_pop_room **out,
                            struct dt_error *err);
/* Answers all waiting pops, without jobs, and refuses new ones. Any thread. */
void dt_pop_room_close(dt_pop_room *room);
/* Ends the waiting room's thread. Must be called when no pop waits any more. */
void dt_pop_room_stop(dt_pop_room *room);
/* Frees the waiting room, after dt_pop_room_stop. Accepts NULL. */
void dt_pop_room_free(dt_pop_room *room);

/* Returns how many notifications of offers have arrived so far for the topics that the pop requests. A pop reads this
 * number before its claim and passes it to dt_pop_room_enter, so that a notification between the two calls is not
 * missed. Any thread. */
uint64_t dt_pop_room_heard(dt_pop_room *room, const struct dt_pop_wish *wish);
/* Takes over a pop's connection, on its HTTP thread; the waiting room will send the answer. Copies the pop's parameters
 * (wish). heard: from dt_pop_room_heard. True: the caller returns DT_AWAY. False: the room is full or closed, or memory
 * ran out; the caller keeps the request. */
DT_MUST_CHECK bool dt_pop_room_enter(dt_pop_room *room, struct dt_request *req, const struct dt_pop_wish *wish,
                                     uint64_t heard);
