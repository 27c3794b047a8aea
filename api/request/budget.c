/*
 * The budget of bytes: see budget.h. Refuses to know what the bytes are.
 *
 * Invariant: held = the sum of all holds, and never more than max.
 */
#include "budget.h"

#include "base/assert.h"

#define BULK_LEAVES 8 /* a part of so many */

void dt_budget_init(struct dt_budget *budget, size_t max)
{
    budget->max = max;
    atomic_store(&budget->held, 0);
    budget->gauge = dt_gauge("duetime_api_held_bytes", "Bytes that all requests hold together, of limits.memory.", "");
    budget->refused = dt_counter("duetime_api_memory_refused_total",
                                 "Times that a request wanted more bytes than limits.memory leaves.", "");
}

size_t dt_budget_held(const struct dt_budget *budget)
{
    return atomic_load_explicit(&budget->held, memory_order_relaxed);
}

void dt_hold_init(struct dt_hold *hold, struct dt_budget *budget)
{
    *hold = (struct dt_hold){.budget = budget};
}

static bool take(struct dt_hold *hold, size_t n, size_t left_alone)
{
    struct dt_budget *budget = hold->budget;
    size_t held = dt_budget_held(budget);
    do {
        dt_assert_cmp(held, <=, budget->max);
        size_t room = budget->max - held;
        if (n > room || left_alone > room - n) {
            dt_metric_add(budget->refused, 1);
            return false;
        }
    } while (!atomic_compare_exchange_weak(&budget->held, &held, held + n));
    hold->n += n;
    return true;
}

bool dt_hold_more(struct dt_hold *hold, size_t n)
{
    return n == 0 || (hold->budget && take(hold, n, 0));
}

bool dt_hold_bulk(struct dt_hold *hold, size_t n)
{
    return n == 0 || (hold->budget && take(hold, n, hold->budget->max / BULK_LEAVES));
}

void dt_hold_less(struct dt_hold *hold, size_t n)
{
    n = n < hold->n ? n : hold->n;
    if (n == 0)
        return;
    hold->n -= n;
    const size_t held = atomic_fetch_sub(&hold->budget->held, n);
    dt_assert_cmp(held, >=, n);
}

bool dt_hold_exactly(struct dt_hold *hold, size_t n)
{
    if (n > hold->n)
        return dt_hold_more(hold, n - hold->n);
    dt_hold_less(hold, hold->n - n);
    return true;
}

void dt_hold_move(struct dt_hold *from, struct dt_hold *to, size_t n)
{
    n = n < from->n ? n : from->n;
    dt_assert(n == 0 || from->budget == to->budget);
    from->n -= n;
    to->n += n;
}
