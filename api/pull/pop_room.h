/*
 * The waiting room: pops that found nothing, until there is something, their wait is over, or their client leaves. A
 * waiting pop holds a socket and some memory; no thread, no connection to MySQL, no slot of the HTTP server.
 *
 * One thread serves the room. It is told of offers through Redis; where Redis cannot be heard it looks itself, one
 * statement for all who wait, LOOK_US apart, and now and then in any case. While nobody waits it does nothing.
 */
#ifndef DT_API_POP_ROOM_H
#define DT_API_POP_ROOM_H

#include "api.h"
#include "pop_take.h"
#include "request/request.h"
#include "request/session.h"

typedef struct dt_pop_room dt_pop_room;

/* Starts the thread. Both are borrowed and outlive the room. *out is NULL unless OK. */
DT_MUST_CHECK dt_status dt_pop_room_start(const struct dt_session_env *env, const struct dt_api *api, dt_pop_room **out,
                                          struct dt_error *err);
/* Answers all who wait with no jobs, and whoever comes from now on at once. Any thread. */
void dt_pop_room_close(dt_pop_room *room);
/* Ends the thread; nobody waits any more. */
void dt_pop_room_stop(dt_pop_room *room);
/* After dt_pop_room_stop. Accepts NULL. */
void dt_pop_room_free(dt_pop_room *room);

/* How much has been heard of offers of these topics. Read before they are looked at, and given to dt_pop_room_enter:
 * what was heard in between is not missed. Any thread. */
uint64_t dt_pop_room_heard(dt_pop_room *room, const struct dt_pop_wish *wish);
/* Does somebody wait for just this already? Then it can be waited for without looking. Any thread. */
bool dt_pop_room_awaits(dt_pop_room *room, const struct dt_pop_wish *wish);
/*
 * Takes over the connection of a request that asks for jobs, on its HTTP thread: the room answers from now on. The wish
 * is copied. The caller returns DT_AWAY. False: the room is full or closed, or memory is out; the request is still the
 * caller's.
 */
DT_MUST_CHECK bool dt_pop_room_enter(dt_pop_room *room, struct dt_request *req, const struct dt_pop_wish *wish,
                                     uint64_t heard);

#endif
