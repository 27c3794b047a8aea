/*
 * A cache of answers, so that their cost does not depend on the number of callers. If no answer is young enough, the
 * caller makes one; callers that arrive meanwhile wait for it. An answer may be as old as `share` times the time that
 * it took. There are at most DT_KEPT answers; a new one replaces the oldest. Thread-safe.
 */
#pragma once

#include "base/clock.h"
#include "base/status.h"
#include "base/text/strbuf.h"

#define DT_KEPT     16
#define DT_KEPT_KEY 400 /* bytes of a key */

typedef struct dt_kept dt_kept;

/* Writes the answer into out, which is empty. */
typedef dt_status dt_make_answer(void *arg, struct dt_strbuf *out, struct dt_error *err);

/* The clock is borrowed. share 0: the time that an answer took does not matter. */
DT_MUST_CHECK dt_status dt_kept_new(const dt_clock *clock, int share, dt_kept **out);
void dt_kept_free(dt_kept *kept); /* accepts NULL */
/* Appends the answer for the key, made at most max_age_us ago. Statuses are those of `make`; failures are not kept. */
DT_MUST_CHECK dt_status dt_kept_answer(dt_kept *kept, struct dt_str key, int64_t max_age_us, dt_make_answer *make,
                                       void *arg, struct dt_strbuf *out, struct dt_error *err);
