/*
 * The end of every wait. A request that is handed on waits in a queue: for a worker, a commit, a transaction of
 * results, a place of its batch. Each queue leaves it to its threads to take requests in time; when those are all held
 * up, whoever waits is answered at its deadline all the same, by a thread that looks at all queues now and then.
 */
#ifndef DT_API_DEADLINES_H
#define DT_API_DEADLINES_H

#include "api.h"

/* Answers every request that waits although its time is up. Does not block on anything but the queues' locks. */
void dt_deadlines_expire(const struct dt_api *api, int64_t now_us);

#endif
