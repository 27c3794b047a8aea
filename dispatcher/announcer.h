/*
 * Notifies other processes through Redis (the channel of wake-ups), and the index of jobs that the intake made or
 * moved. Without an index it does nothing. No process depends on it: each looks by itself now and then. Any thread; a
 * call may wait for Redis, and for another call.
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
void dt_announcer_free(dt_announcer *announcer);
/* Announces that the shard's outbox has rows. */
void dt_announcer_outbox(dt_announcer *announcer, unsigned shard);
/* Has every process look now at what it would look at later. */
void dt_announcer_all(dt_announcer *announcer);

/* After a commit of the intake: writes the jobs that were made or moved into the index. If that fails, leaders are
 * made to doubt the index (env->index_untold). index: may be NULL. */
void dt_intake_tell_index(const struct dt_intake_env *env, dt_index *index, struct dt_arena *arena,
                          const struct dt_job_move *moves, size_t n);

#endif
