/* Functions get the time from their callers: only this module and the main files ask the system for it. Names have
 * units: _ms is milliseconds since 1970 (UTC), or a length in milliseconds; _us is microseconds of a monotonic
 * clock. */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct dt_clock dt_clock;
struct dt_clock {
    int64_t (*mono_us)(const dt_clock *clock); /* monotonic clock, which never jumps */
    int64_t (*real_ms)(const dt_clock *clock); /* wall clock of this host, which may be set forward or back */
    /* A monotonic clock that also counts the time in which the machine is suspended. NULL: mono_us is used. */
    int64_t (*boot_us)(const dt_clock *clock);
};

/* Returns the host's clocks. Thread-safe. */
const dt_clock *dt_clock_system(void);

static inline int64_t dt_clock_mono_us(const dt_clock *clock)
{
    return clock->mono_us(clock);
}
/* Returns boot_us, for times that other machines also count while this machine is suspended, such as leases. Signal
 * handlers may call it with the system's clock. */
static inline int64_t dt_clock_boot_us(const dt_clock *clock)
{
    return clock->boot_us ? clock->boot_us(clock) : clock->mono_us(clock);
}
static inline int64_t dt_clock_real_ms(const dt_clock *clock)
{
    return clock->real_ms(clock);
}

static inline int64_t dt_earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}
static inline int64_t dt_later(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Returns the earlier of two times. A time of 0 is unknown: then the other one is returned. */
static inline int64_t dt_older(int64_t a, int64_t b)
{
    return !a || (b && b < a) ? b : a;
}

/* Measures how long a thread could not run. A thread that checks every every_us whether peers are late calls this at
 * each check. Returns how long the check was delayed, because the process was stopped or got no processor; usually 0.
 * The caller extends the deadlines of peers by this time, so that it first reads what the peers sent meanwhile.
 * *looked_us: time of the previous check, updated by the call; 0: none. */
int64_t dt_clock_missed_us(int64_t *looked_us, int64_t now_us, int64_t every_us);

/* Waits on the condition, with its lock held, until it is signalled, or until until_us on the monotonic clock
 * (INT64_MAX: no limit). Returns false at the time limit. Spurious wake-ups are possible. */
bool dt_clock_wait(pthread_cond_t *wake, pthread_mutex_t *lock, int64_t until_us);

/* An estimate of MySQL's clock. Only MySQL's clock decides whether jobs are due, so a wrong clock of a host makes no
 * job early. A sample is a reading of the server's clock between two readings of ours; the tightest recent sample is
 * used. Each process has one estimate. Every function is thread-safe. */
typedef struct dt_refclock {
    const dt_clock *clock;
    _Atomic int64_t offset_us; /* lower bound of server time (us since the epoch) minus mono_us */
    _Atomic int64_t error_us;  /* width of the sample: server time is in [mono+offset, mono+offset+error] */
    _Atomic int64_t taken_us;  /* mono_us of the sample; 0: no sample yet */
    _Atomic int64_t ahead_ms;  /* how far the test clock is ahead of the server's clock; 0: no test clock */
    _Atomic int64_t frozen_ms; /* time at which the test clock is frozen; 0: the test clock runs */
    _Atomic uint32_t seq;      /* odd while the five members offset_us to frozen_ms change together */
    _Atomic bool follows;      /* a test clock exists, and only dt_refclock_follow takes samples */
} dt_refclock;

/* A test clock (features/clock/): the server's clock plus ahead_ms, or a fixed time. */
struct dt_test_time {
    int64_t ahead_ms;
    int64_t frozen_ms; /* time at which the test clock is frozen; 0: the test clock runs */
};

void dt_refclock_init(dt_refclock *ref, const dt_clock *clock);
/* Adds a sample: at some moment between before_us and after_us, the server's clock showed server_ms, truncated to a
 * millisecond. */
void dt_refclock_sample(dt_refclock *ref, int64_t server_ms, int64_t before_us, int64_t after_us);
/* Returns a lower bound of the server's time. Jobs count as due by this time, so that none is early. Before the first
 * sample, returns the host's time. */
int64_t dt_refclock_earliest_ms(const dt_refclock *ref);
/* Returns an upper bound of the server's time. Delays are added to it, so that no job is early. */
int64_t dt_refclock_latest_ms(const dt_refclock *ref);
/* Returns the monotonic time at which the server's clock will have reached server_ms, for sleeping until a due time. If
 * a test clock is frozen, returns a second from now, and the caller checks again then. */
int64_t dt_refclock_mono_us_at(const dt_refclock *ref, int64_t server_ms);

/* Follows a test clock: from now on, dt_refclock_earliest_ms, dt_refclock_latest_ms and dt_refclock_mono_us_at
 * return its time. real_ms: the server's own clock, read between before_us and after_us. dt_refclock_sample no
 * longer does anything, because the readings of sessions may be from before a change of the test clock. Only one
 * thread calls this. */
void dt_refclock_follow(dt_refclock *ref, struct dt_test_time test, int64_t real_ms, int64_t before_us,
                        int64_t after_us);
/* Return a lower and an upper bound of the server's own clock, without the test clock. For times that other machines
 * compare with their own clocks. */
int64_t dt_refclock_real_earliest_ms(const dt_refclock *ref);
int64_t dt_refclock_real_latest_ms(const dt_refclock *ref);
