/*
 * A cache of answers, kept for a moment, so that they cost the same however many callers ask. A caller that finds no
 * answer young enough makes one; callers that come meanwhile wait for it. One that took long to make may be as old as
 * `share` times what it took. There are DT_KEPT answers at most: the oldest makes room. Thread-safe.
 */
#ifndef DT_API_KEPT_H
#define DT_API_KEPT_H

#include "base/clock.h"
#include "base/status.h"
#include "base/text/strbuf.h"

#define DT_KEPT     16
#define DT_KEPT_KEY 400 /* bytes of a key */

typedef struct dt_kept dt_kept;

/* Writes the answer into out, which is empty. */
typedef dt_status dt_make_answer(void *arg, struct dt_strbuf *out, struct dt_error *err);

/* The clock is borrowed. share 0: what an answer took does not matter. */
DT_MUST_CHECK dt_status dt_kept_new(const dt_clock *clock, int share, dt_kept **out);
void dt_kept_free(dt_kept *kept); /* accepts NULL */
/* Appends the answer for the key to out, made at most max_age_us ago. Failures are of `make`, and not kept. */
DT_MUST_CHECK dt_status dt_kept_answer(dt_kept *kept, struct dt_str key, int64_t max_age_us, dt_make_answer *make,
                                       void *arg, struct dt_strbuf *out, struct dt_error *err);

#endif
