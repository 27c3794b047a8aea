/* Bodies of pops: what a client asks for. Pure. */
#ifndef DT_API_POP_WISH_H
#define DT_API_POP_WISH_H

#include "base/text/json.h"
#include "job/problem.h"

#define DT_POP_MAX       1000
#define DT_POP_TOPICS    100
#define DT_POP_WAIT_MS   60000
#define DT_POP_BYTES     ((size_t)8 << 20) /* of payloads in an answer */
#define DT_POP_ROOM_EACH 4                 /* memory that a byte of a payload may take, in rows and answer */

/* The form of the answer: jobs as REST shows them, or what a command is answered, with one job or with a list. */
enum dt_pop_form { DT_POP_FORM_JOBS, DT_POP_FORM_COMMAND, DT_POP_FORM_COMMAND_LIST };

struct dt_pop_wish {
    const struct dt_str *topics; /* in the arena of the faults */
    size_t n_topics;
    int64_t max;
    int64_t wait_ms, ttr_ms; /* ttr: 0 = the jobs' own time to report */
    enum dt_pop_form form;
};

/*
 * Decodes the body of a pop: json is its parsed text, NULL for an empty body. topic: from the path; absent: the body
 * names them. INVALID: faults has at least one. NOMEM.
 */
DT_MUST_CHECK dt_status dt_pop_wish_decode(const dt_json *json, struct dt_str topic, struct dt_faults *faults,
                                           struct dt_pop_wish *out);

#endif
