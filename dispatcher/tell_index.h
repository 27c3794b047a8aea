/* Tells the index of jobs that a thread of the intake has made or moved, after the commit. */
#ifndef DT_DISPATCHER_TELL_INDEX_H
#define DT_DISPATCHER_TELL_INDEX_H

#include "base/text/strbuf.h"
#include "intake.h"
#include "job/job.h"

/* If the index cannot be told, leaders are made to doubt it (env->index_untold). index: NULL in an installation without
 * one; nothing is done then. */
void dt_intake_tell_index(const struct dt_intake_env *env, dt_index *index, struct dt_arena *arena,
                          const struct dt_job_move *moves, size_t n);

#endif
