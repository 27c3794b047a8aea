/*
 * The wall between tenants. A caller whose token is bound to topic prefixes sees nothing of other topics: what is there
 * is answered as if it did not exist (404). Each row of routes.c names its wall, which is kept in three places:
 *
 *   before the handler   dt_wall_enter refuses TOPIC_IN_PATH and ALL_TOPICS.
 *   before the store     dt_wall_pass refuses the topic that a query names (FILTER, TOPIC_IN_QUERY). It comes after the
 *                        checks of the request, so a fault in the query is a 422 for every caller.
 *   after the handler    dt_wall_check asserts that the handler of a ROW_IN_PATH, IN_BODY or FILTER asked the wall, and
 *                        that it does not answer with a row that the wall refused.
 *
 * Handlers learn the caller's prefixes here, except for lists, which pass them on to the store. A handler of a route
 * whose wall is NOTHING must not ask. The thread that owns the request calls these functions.
 */
#ifndef DT_API_WALL_H
#define DT_API_WALL_H

#include "request.h"

/* Called when scope and token are fine. False: the answer is filled in. */
DT_MUST_CHECK bool dt_wall_enter(struct dt_request *req);
/* Called before the request goes to a worker, and by a handler that wants it earlier. False: it is answered. */
DT_MUST_CHECK bool dt_wall_pass(struct dt_request *req);
/* Called when the request has its answer, or leaves its connection to another part. */
void dt_wall_check(const struct dt_request *req);

/* The topics to which the answer is limited: borrowed from the caller; NULL: it sees all topics. */
const struct dt_topic_bound *dt_wall_bound(struct dt_request *req);
/* Called with the topic of what the request names, once that is known. NOT_FOUND: the caller does not see it. */
DT_MUST_CHECK dt_status dt_wall_found(struct dt_request *req, struct dt_str topic);
/* Returns true if an OWN_TOKEN may show what belongs to the token of this name. */
bool dt_wall_shows_token(const struct dt_request *req, struct dt_str token);

#endif
