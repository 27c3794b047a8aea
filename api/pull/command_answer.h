/*
 * The answer to a pop that came by POST /v1/commands: the jobs, under the ids that commands gave them, or why the pop
 * was refused. The answers to other pops are pop_take.h's.
 */
#ifndef DT_API_COMMAND_ANSWER_H
#define DT_API_COMMAND_ANSWER_H

#include "job/change/jobs.h"
#include "pop_take.h"

/* Finds the ids that commands gave to popped jobs, by job. NULL: none has one, or they cannot be known now; each goes
 * by its number then, which finishes it, too. */
const struct dt_command_job *dt_command_name_jobs(dt_store *store, struct dt_arena *arena,
                                                  const struct dt_popped *popped);
/* Adds the answer of a pop that got these jobs, perhaps none. names: of the first and those behind it; may be NULL. */
void dt_command_add_popped(struct dt_strbuf *out, enum dt_pop_form form, const struct dt_job *jobs, size_t n,
                           const struct dt_command_job *names);
/* Adds the answer of a pop that was refused. */
void dt_command_add_refusal(struct dt_strbuf *out, enum dt_pop_topic why);
/* Says in words why a pop is refused: static text. */
const char *dt_command_refusal(enum dt_pop_topic why);

#endif
