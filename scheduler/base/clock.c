/*
 * The host's clocks, and the estimate of MySQL's clock. Only this file and the main files ask the system for the time.
 *
 * The estimate is an interval: at monotonic time m the server's clock shows a time in
 *     [m + offset - skew(age), m + offset + error + skew(age)]
 * where age is the time since the sample, and skew() allows for clocks that run at different rates. A new sample
 * replaces the old one if the new interval is not wider than the old interval, which grows with age, or if the two
 * samples contradict each other (the server's clock was stepped, or it is another server).
 *
 * A sequence lock makes reading and writing a sample atomic: the sequence is odd while a writer is inside.
 */
#include "clock.h"

#include <errno.h>
#include <sched.h>
#include <time.h>

#include "assert.h"

/* Most microseconds per second by which two disciplined clocks drift apart. */
#define SKEW_PPM INT64_C(200)
#define MILLION  INT64_C(1000000)

#define LOOK_US INT64_C(1000000) /* time after which a caller checks a frozen test clock again */

struct sample {
    int64_t offset_us, error_us, taken_us;
    int64_t ahead_ms, frozen_ms;
};

static int64_t system_us(clockid_t id)
{
    struct timespec now;
    clock_gettime(id, &now);
    return (int64_t)now.tv_sec * MILLION + now.tv_nsec / 1000;
}

static int64_t system_mono_us(const dt_clock *)
{
    return system_us(CLOCK_MONOTONIC);
}

static int64_t system_real_ms(const dt_clock *)
{
    return system_us(CLOCK_REALTIME) / 1000;
}

static int64_t system_boot_us(const dt_clock *)
{
    return system_us(CLOCK_BOOTTIME);
}

const dt_clock *dt_clock_system(void)
{
    static const dt_clock clock = {.mono_us = system_mono_us, .real_ms = system_real_ms, .boot_us = system_boot_us};
    return &clock;
}

int64_t dt_clock_missed_us(int64_t *looked_us, int64_t now_us, int64_t every_us)
{
    const int64_t passed_us = *looked_us ? now_us - *looked_us : 0;
    *looked_us = now_us;
    return passed_us > 2 * every_us ? passed_us : 0;
}

bool dt_clock_wait(pthread_cond_t *wake, pthread_mutex_t *lock, int64_t until_us)
{
    const struct timespec until = {.tv_sec = (time_t)(until_us / MILLION),
                                   .tv_nsec = (long)(until_us % MILLION) * 1000};
    if (until_us == INT64_MAX)
        return pthread_cond_wait(wake, lock) == 0;
    return pthread_cond_clockwait(wake, lock, CLOCK_MONOTONIC, &until) != ETIMEDOUT;
}

static int64_t floor_div(int64_t a, int64_t b)
{
    return a / b - (a % b < 0);
}

static int64_t skew_us(int64_t age_us)
{
    return age_us > 0 ? age_us * SKEW_PPM / MILLION + 1 : 0;
}

static struct sample load_sample(const dt_refclock *ref)
{
    struct sample s;
    for (;;) {
        uint32_t before = atomic_load(&ref->seq);
        s.offset_us = atomic_load(&ref->offset_us);
        s.error_us = atomic_load(&ref->error_us);
        s.taken_us = atomic_load(&ref->taken_us);
        s.ahead_ms = atomic_load(&ref->ahead_ms);
        s.frozen_ms = atomic_load(&ref->frozen_ms);
        if (before % 2 == 0 && before == atomic_load(&ref->seq))
            return s;
        sched_yield();
    }
}

static void lock_sample(dt_refclock *ref)
{
    for (;;) {
        uint32_t even = atomic_load(&ref->seq) & ~UINT32_C(1);
        if (atomic_compare_exchange_strong(&ref->seq, &even, even + 1))
            return;
        sched_yield();
    }
}

static void unlock_sample(dt_refclock *ref)
{
    const uint32_t before = atomic_fetch_add(&ref->seq, 1);
    dt_assert(before % 2 == 1);
}

void dt_refclock_init(dt_refclock *ref, const dt_clock *clock)
{
    ref->clock = clock;
    atomic_init(&ref->offset_us, 0);
    atomic_init(&ref->error_us, 0);
    atomic_init(&ref->taken_us, 0);
    atomic_init(&ref->ahead_ms, 0);
    atomic_init(&ref->frozen_ms, 0);
    atomic_init(&ref->seq, 0);
    atomic_init(&ref->follows, false);
}

/* Makes a sample. The server's time was truncated to a millisecond, so its clock was up to 999 us ahead of
 * server_ms. */
static struct sample make_sample(int64_t server_ms, int64_t before_us, int64_t after_us)
{
    return (struct sample){
        .offset_us = server_ms * 1000 - after_us,
        .error_us = after_us - before_us + 999,
        .taken_us = after_us > 0 ? after_us : 1, /* 0 would mean that there is no sample */
    };
}

static void store_sample(dt_refclock *ref, const struct sample *new)
{
    atomic_store(&ref->offset_us, new->offset_us);
    atomic_store(&ref->error_us, new->error_us);
    atomic_store(&ref->taken_us, new->taken_us);
}

void dt_refclock_sample(dt_refclock *ref, int64_t server_ms, int64_t before_us, int64_t after_us)
{
    const struct sample new = make_sample(server_ms, before_us, after_us);
    if (after_us < before_us || atomic_load(&ref->follows))
        return;
    lock_sample(ref);
    const int64_t taken_us = atomic_load(&ref->taken_us);
    const int64_t skew = skew_us(new.taken_us - taken_us);
    const int64_t low = atomic_load(&ref->offset_us) - skew;
    const int64_t high = atomic_load(&ref->offset_us) + atomic_load(&ref->error_us) + skew;
    const bool contradicts = new.offset_us > high || new.offset_us + new.error_us < low;
    if (taken_us == 0 || contradicts || new.error_us <= high - low)
        store_sample(ref, &new);
    unlock_sample(ref);
}

void dt_refclock_follow(dt_refclock *ref, struct dt_test_time test, int64_t real_ms, int64_t before_us,
                        int64_t after_us)
{
    struct sample new = make_sample(real_ms, before_us, after_us);
    atomic_store(&ref->follows, true);
    lock_sample(ref);
    store_sample(ref, &new);
    atomic_store(&ref->ahead_ms, test.ahead_ms);
    atomic_store(&ref->frozen_ms, test.frozen_ms);
    unlock_sample(ref);
}

static int64_t real_earliest_ms(const dt_refclock *ref, const struct sample *s)
{
    if (s->taken_us == 0)
        return dt_clock_real_ms(ref->clock);
    const int64_t mono_us = dt_clock_mono_us(ref->clock);
    return floor_div(mono_us + s->offset_us - skew_us(mono_us - s->taken_us), 1000);
}

static int64_t real_latest_ms(const dt_refclock *ref, const struct sample *s)
{
    if (s->taken_us == 0)
        return dt_clock_real_ms(ref->clock) + 1;
    const int64_t mono_us = dt_clock_mono_us(ref->clock);
    return -floor_div(-(mono_us + s->offset_us + s->error_us + skew_us(mono_us - s->taken_us)), 1000);
}

int64_t dt_refclock_real_earliest_ms(const dt_refclock *ref)
{
    struct sample s = load_sample(ref);
    return real_earliest_ms(ref, &s);
}

int64_t dt_refclock_real_latest_ms(const dt_refclock *ref)
{
    struct sample s = load_sample(ref);
    return real_latest_ms(ref, &s);
}

int64_t dt_refclock_earliest_ms(const dt_refclock *ref)
{
    struct sample s = load_sample(ref);
    return s.frozen_ms ? s.frozen_ms : real_earliest_ms(ref, &s) + s.ahead_ms;
}

int64_t dt_refclock_latest_ms(const dt_refclock *ref)
{
    struct sample s = load_sample(ref);
    return s.frozen_ms ? s.frozen_ms : real_latest_ms(ref, &s) + s.ahead_ms;
}

int64_t dt_refclock_mono_us_at(const dt_refclock *ref, int64_t server_ms)
{
    const struct sample s = load_sample(ref);
    if (s.frozen_ms)
        return dt_clock_mono_us(ref->clock) + (server_ms > s.frozen_ms ? LOOK_US : 0);
    server_ms -= s.ahead_ms;
    if (s.taken_us == 0)
        return dt_clock_mono_us(ref->clock) + (server_ms - dt_clock_real_ms(ref->clock)) * 1000;
    /* The first moment at which dt_refclock_earliest_ms() returns server_ms. It includes the skew that will have
     * accumulated by then, so that a loop that sleeps until this moment need not sleep again. */
    int64_t mono_us = server_ms * 1000 - s.offset_us;
    const int64_t left_us = mono_us - s.taken_us;
    if (left_us > 0)
        mono_us += left_us / (MILLION - SKEW_PPM) * SKEW_PPM +
                   left_us % (MILLION - SKEW_PPM) * SKEW_PPM / (MILLION - SKEW_PPM) + 2;
    return mono_us;
}
