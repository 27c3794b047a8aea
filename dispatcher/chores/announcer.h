/*
 * Tells other processes of news through Redis: nobody is told where the installation has no index, and everybody looks
 * by himself in the end. Any thread; calls may wait for Redis, one at a time.
 */
#ifndef DT_DISPATCHER_ANNOUNCER_H
#define DT_DISPATCHER_ANNOUNCER_H

#include "index/index.h"

typedef struct dt_announcer dt_announcer;

/* All inputs but the installation's name outlive it. *out is NULL unless OK. */
DT_MUST_CHECK dt_status dt_announcer_new(const struct dt_config *config, const char *installation,
                                         const dt_clock *clock, dt_announcer **out, struct dt_error *err);
/* Accepts NULL. */
void dt_announcer_free(dt_announcer *announcer);
/* There is something in the shard's outbox. */
void dt_announcer_outbox(dt_announcer *announcer, unsigned shard);
/* Every process looks at what it else looks at now and then. */
void dt_announcer_all(dt_announcer *announcer);

#endif
