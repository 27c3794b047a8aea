/*
 * How many bytes all requests of the process may hold together (limits.memory): bodies that arrive, what is made of
 * them, and answers that are not yet sent. Whoever wants more asks first; when it is refused nothing was charged, and
 * the caller is told to come again (503 with Retry-After).
 *
 * A hold is what one owner (a request, a batch) has of the budget. It belongs to one thread at a time; the budget is
 * shared without a lock. Charge in large steps (a buffer's growth, a chunk), not for each job: every charge touches a
 * cache line that all threads share.
 *
 * Bulk is what a caller may want any amount of: large bodies, batches, pages. It leaves an eighth of the budget to
 * requests about a single job, which are answered whoever sends the rest.
 *
 * Outside of the budget: what each connection has anyway, bounded by their number (see DT_REQUEST_FREE in request.h).
 */
#ifndef DT_API_BUDGET_H
#define DT_API_BUDGET_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/metrics.h"

struct dt_budget {
    size_t max;
    _Atomic size_t held;
    dt_metric *gauge;   /* duetime_api_held_bytes, set when metrics are written */
    dt_metric *refused; /* duetime_api_memory_refused_total */
};

/* Zero = holds nothing and may hold nothing. */
struct dt_hold {
    struct dt_budget *budget;
    size_t n;
};

void dt_budget_init(struct dt_budget *budget, size_t max);
size_t dt_budget_held(const struct dt_budget *budget);

void dt_hold_init(struct dt_hold *hold, struct dt_budget *budget);
/* n bytes more. False: the budget is used up, and nothing was charged. */
DT_MUST_CHECK bool dt_hold_more(struct dt_hold *hold, size_t n);
/* Like dt_hold_more, but leaves to others what bulk leaves. */
DT_MUST_CHECK bool dt_hold_bulk(struct dt_hold *hold, size_t n);
/* n bytes fewer, or all that it has, whichever is less. */
#define DT_HOLD_ALL SIZE_MAX
void dt_hold_less(struct dt_hold *hold, size_t n);
/* Exactly n from now on, more or fewer. False: the budget is used up, and the hold is as it was. */
bool dt_hold_exactly(struct dt_hold *hold, size_t n);
/* n bytes of the one are the other's from now on, or all that it has, whichever is less. Both are of one budget. */
void dt_hold_move(struct dt_hold *from, struct dt_hold *to, size_t n);

#endif
