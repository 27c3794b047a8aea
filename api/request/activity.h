/*
 * Who has asked for something lately: so that what takes long for one caller gives way while others ask too, and takes
 * all there is when nobody else does. Callers are told apart by dt_caller.fair_queue. Thread-safe, without locks: a
 * note that is lost to another thread's is made by the next request.
 */
#ifndef DT_API_ACTIVITY_H
#define DT_API_ACTIVITY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define DT_ACTIVITY_CALM_US INT64_C(500000) /* so long after a request its caller counts as one who asks */

struct dt_activity { /* zero = nobody has asked */
    /* Time (monotonic, us) << 8 | caller, of the latest request, and of the latest one before it of another caller. */
    _Atomic int64_t latest, before;
};

/* Notes a request. */
static inline void dt_activity_note(struct dt_activity *activity, uint8_t caller, int64_t now_us)
{
    int64_t latest = atomic_load_explicit(&activity->latest, memory_order_relaxed);
    if ((uint8_t)latest != caller)
        atomic_store_explicit(&activity->before, latest, memory_order_relaxed);
    else if (now_us - (latest >> 8) < DT_ACTIVITY_CALM_US / 64) /* busy callers write it seldom */
        return;
    atomic_store_explicit(&activity->latest, (int64_t)((uint64_t)now_us << 8 | caller), memory_order_relaxed);
}

/* Says whether others than this caller ask for something, too. */
static inline bool dt_activity_of_others(const struct dt_activity *activity, uint8_t caller, int64_t now_us)
{
    int64_t last = atomic_load_explicit(&activity->latest, memory_order_relaxed);
    if ((uint8_t)last == caller)
        last = atomic_load_explicit(&activity->before, memory_order_relaxed);
    return last != 0 && (uint8_t)last != caller && now_us - (last >> 8) < DT_ACTIVITY_CALM_US;
}

#endif
