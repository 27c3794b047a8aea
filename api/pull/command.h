/*
 * Converts the commands of POST /v1/commands from and to JSON. The commands have the form that articles on delay queues
 * use. Pure, except for dt_command_name_jobs.
 *
 *   {"command":"add","topic":"orderclose","id":"orderclose-1","delay":1800,"TTR":60,"body":"…"}
 *   {"command":"pop","topic":"orderclose","wait":20,"max":10}
 *   {"command":"finish","id":"orderclose-1"}
 *   {"command":"delete","id":"orderclose-1"}
 *
 * Times are seconds. An added job has ten attempts. If its TTR passes without a finish, it is ready again at once.
 */
#pragma once

#include "base/text/json.h"
#include "job/change/jobs.h"
#include "job/job_json.h"
#include "pop_take.h"
#include "request/auth.h"

#define DT_COMMANDS_MAX 1000 /* maximal number of commands in one request */

enum dt_verb { DT_VERB_ADD, DT_VERB_POP, DT_VERB_FINISH, DT_VERB_DELETE };

struct dt_command {
    enum dt_verb verb;
    struct dt_str id;       /* id that the client chose for the job; for add, finish and delete */
    struct dt_new_job *job; /* set by the caller before decoding; if the command is an add, the decoder fills it in */
    struct dt_str topic;    /* topic of a pop */
    int64_t max, wait_ms;
    bool many; /* for a pop: the answer is a list, because max is above 1 */
};

/* Decodes the command that is the root of json; copies texts into the arena of the faults. now_ms: latest possible time
 * of MySQL's clock. INVALID, TOO_LARGE: faults has at least one fault. NOMEM: memory ran out. */
dt_status dt_command_decode(const dt_json *json, const struct dt_job_rules *rules, int64_t now_ms,
                            struct dt_faults *faults, struct dt_command *out);
/* Converts a pop command to the parameters of a pop, which borrow from the command. */
struct dt_pop_wish dt_command_wish(const struct dt_command *pop);

/* ---- answers to a pop that is a command ---- */

/* Finds the ids that add commands gave to the popped jobs. NULL: no job has such an id, or the ids cannot be read now.
 * In both cases the answer shows the jobs' numbers, which clients can also use to finish the jobs. */
const struct dt_command_job *dt_command_name_jobs(dt_store *store, struct dt_arena *arena,
                                                  const struct dt_popped *popped);
/* Adds the answer of a pop that got the jobs; n may be 0. names: an element for each job; NULL: the jobs have no
 * names. */
void dt_command_add_popped(struct dt_strbuf *out, enum dt_pop_form form, const struct dt_job *jobs, size_t n,
                           const struct dt_command_job *names);
/* Adds the answer of a pop that was refused for the reason `why`. */
void dt_command_add_refusal(struct dt_strbuf *out, enum dt_pop_topic why);
/* Returns the text for the reason why a pop is refused; static. */
const char *dt_command_refusal(enum dt_pop_topic why);
