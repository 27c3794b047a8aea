/*
 * Time is passed in: only this module and the main files ask the system for it. Units are in the names: _ms is
 * milliseconds since 1970 (UTC), or a length in milliseconds; _us is microseconds of a monotonic clock.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct dt_clock dt_clock;
struct dt_clock {
    int64_t (*mono_us)(const dt_clock *clock); /* never jumps */
    int64_t (*real_ms)(const dt_clock *clock); /* wall clock of this host; may jump */
    /* Like mono_us, but also counts while the machine is suspended. NULL: mono_us is used. */
    int64_t (*boot_us)(const dt_clock *clock);
};

/* The host's clocks. Thread-safe. */
const dt_clock *dt_clock_system(void);

static inline int64_t dt_clock_mono_us(const dt_clock *clock)
{
    return clock->mono_us(clock);
}
/* For times that continue elsewhere while this machine is suspended, such as leases. For the system's clock, signal
 * handlers may call it. */
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

/* The earlier of two times; 0 means no time. */
static inline int64_t dt_older(int64_t a, int64_t b)
{
    return !a || (b && b < a) ? b : a;
}

/*
 * For a thread that checks every every_us whether peers are late, and calls this at each check. Returns for how long
 * the thread could not check, because the process was stopped or got no processor; usually 0. The caller extends the
 * deadlines of peers by it, so that it first reads what they sent in that time. *looked_us: the check before; 0: none.
 */
int64_t dt_clock_missed_us(int64_t *looked_us, int64_t now_us, int64_t every_us);

/* Waits on the condition, with its lock held, until it is signalled, or until until_us on the monotonic clock
 * (INT64_MAX: no limit). Returns false at the time limit. Spurious wake-ups are possible. */
bool dt_clock_wait(pthread_cond_t *wake, pthread_mutex_t *lock, int64_t until_us);

/*
 * An estimate of MySQL's clock. Only this clock decides whether jobs are due, so a wrong clock of a host makes no job
 * early. A sample is a reading of the server's clock between two readings of ours; the tightest recent sample is used.
 * One per process; every function is thread-safe.
 */
typedef struct dt_refclock {
    const dt_clock *clock;
    _Atomic int64_t offset_us; /* server time (us since the epoch) less mono_us, lower bound */
    _Atomic int64_t error_us;  /* width of the sample: server time lies in [mono+offset, mono+offset+error] */
    _Atomic int64_t taken_us;  /* mono_us of the sample; 0 = none yet */
    _Atomic int64_t ahead_ms;  /* a test clock's lead over the server's clock; 0: no test clock */
    _Atomic int64_t frozen_ms; /* the time of a test clock that is frozen; 0: it runs */
    _Atomic uint32_t seq;      /* odd while the five members above change, which they do together */
    _Atomic bool follows;      /* there is a test clock: only its follower takes samples */
} dt_refclock;

/* A test clock (features/clock/): the server's clock plus ahead_ms, or a fixed time. */
struct dt_test_time {
    int64_t ahead_ms;
    int64_t frozen_ms; /* 0: it runs */
};

void dt_refclock_init(dt_refclock *ref, const dt_clock *clock);
/* At some moment between before_us and after_us, the server's clock showed server_ms, truncated to a millisecond. */
void dt_refclock_sample(dt_refclock *ref, int64_t server_ms, int64_t before_us, int64_t after_us);
/* Not later than the server's clock: to decide what is due. Before the first sample: the host's clock. */
int64_t dt_refclock_earliest_ms(const dt_refclock *ref);
/* Not earlier than the server's clock: to add delays to. */
int64_t dt_refclock_latest_ms(const dt_refclock *ref);
/* The monotonic time at which the server's clock will have reached server_ms: to sleep until a due time. If a test
 * clock is frozen, it is a second from now, and the caller checks again then. */
int64_t dt_refclock_mono_us_at(const dt_refclock *ref, int64_t server_ms);

/*
 * From this call on, the three functions above return the time of a test clock, by which jobs are due. real_ms is the
 * server's own clock, sampled as above. dt_refclock_sample does nothing any more, because the readings of sessions may
 * be from before a change of the test clock. One thread calls this.
 */
void dt_refclock_follow(dt_refclock *ref, struct dt_test_time test, int64_t real_ms, int64_t before_us,
                        int64_t after_us);
/* Bounds of the server's own clock, without the test clock: one not later than it, one not earlier. For times that
 * other machines compare with their own clocks. */
int64_t dt_refclock_real_earliest_ms(const dt_refclock *ref);
int64_t dt_refclock_real_latest_ms(const dt_refclock *ref);
