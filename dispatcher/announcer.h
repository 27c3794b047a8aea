/*
 * Tells other processes of news through Redis (the channel of wake-ups). In an installation without an index it tells
 * nobody. No process depends on it: each looks by itself now and then. Any thread; a call may wait for Redis, and calls
 * wait for each other.
 */
#ifndef DT_DISPATCHER_ANNOUNCER_H
#define DT_DISPATCHER_ANNOUNCER_H

#include "base/text/strbuf.h"
#include "index/index.h"
#include "intake.h"
#include "job/job.h"

typedef struct dt_announcer dt_announcer;

/* All inputs but the installation's name outlive it. *out is NULL unless OK. */
DT_MUST_CHECK dt_status dt_announcer_new(const struct dt_config *config, const char *installation,
                                         const dt_clock *clock, dt_announcer **out, struct dt_error *err);
/* Accepts NULL. */
void dt_announcer_free(dt_announcer *announcer);
/* Tells that there is something in the shard's outbox. */
void dt_announcer_outbox(dt_announcer *announcer, unsigned shard);
/* Tells every process to look now at what it would look at some time later. */
void dt_announcer_all(dt_announcer *announcer);

/* Tells the index of jobs that a thread of the intake has made or moved, after the commit. */

/* If the index cannot be told, leaders are made to doubt it (env->index_untold). index: NULL in an installation without
 * one; nothing is done then. */
void dt_intake_tell_index(const struct dt_intake_env *env, dt_index *index, struct dt_arena *arena,
                          const struct dt_job_move *moves, size_t n);

#endif
