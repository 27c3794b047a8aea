/* A cache of answers, so that the cost of an answer does not depend on the number of callers. If no answer is young
 * enough, the caller makes one; callers that arrive meanwhile wait for it. An answer is young enough if its age is at
 * most max_age_us, or at most `share` times the time that it took to make. The cache has at most DT_KEPT answers; a new
 * answer replaces the oldest. Thread-safe. */
#pragma once

#include "base/clock.h"
#include "base/status.h"
#include "base/text/strbuf.h"

#define DT_KEPT     16
#define DT_KEPT_KEY 400 /* maximal bytes of a key */

typedef struct dt_kept dt_kept;

/* Makes an answer: writes it into out, which is empty. */
typedef dt_status dt_make_answer(void *arg, struct dt_strbuf *out, struct dt_error *err);

/* Creates a cache; borrows the clock. share 0: only max_age_us limits the age of answers. */
dt_status dt_kept_new(const dt_clock *clock, int share, dt_kept **out);
void dt_kept_free(dt_kept *kept); /* accepts NULL */
/* Appends an answer for the key that is young enough; if the cache has none, calls `make`. Returns the status of
 * `make`; failures are not cached. */
dt_status dt_kept_answer(dt_kept *kept, struct dt_str key, int64_t max_age_us, dt_make_answer *make, void *arg,
                         struct dt_strbuf *out, struct dt_error *err);
