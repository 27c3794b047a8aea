/* Tells the index of jobs that were made or moved, after their commit. */
#ifndef DT_DISPATCHER_TELL_INDEX_H
#define DT_DISPATCHER_TELL_INDEX_H

#include "base/strbuf.h"
#include "intake.h"
#include "job/job.h"

/* What it cannot be told of makes leaders doubt it (index_untold). index: NULL without one, and nothing is done. */
void dt_intake_tell_index(const struct dt_intake_env *env, dt_index *index, struct dt_arena *arena,
                          const struct dt_job_move *moves, size_t n);

#endif
