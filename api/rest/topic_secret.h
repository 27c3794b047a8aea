/*
 * The members of a topic's body that hold a secret (of its callbacks, of its alerts). Answers never show a secret; they
 * have "***" in its place. A body that says "***" keeps the secret that the topic has, and "*** whsec_new" adds a
 * second one to it. If the body names another place that the secret would go to, it must have the secret itself. Pure.
 */
#ifndef DT_API_TOPIC_SECRET_H
#define DT_API_TOPIC_SECRET_H

#include "job/job_decode.h"

#define DT_TOPIC_HIDDEN "***"
#define DT_TOPIC_SECRET_WIDENED                                                                                        \
    "must be written in full: it would go to another scheme, host or port, so \"***\" does not keep it"

/* Checks the text of a member. NULL: it is fine; else the reason, static text. *keeps is set if it has "***". */
const char *dt_topic_secret_check(struct dt_str text, bool *keeps);
/* Gives the secret that is to be stored, in the faults' arena: `had` in the place of "***". had: absent = there is
 * none. widen: it would go to another place. What cannot be kept is a fault at `pointer`. */
struct dt_str dt_topic_secret_keep(struct dt_str wanted, struct dt_str had, bool widen, const char *pointer,
                                   struct dt_faults *faults);

#endif
