/*
 * Time is passed in. Only this module and the main files ask the system what time it is.
 * Units are in the names: _ms is milliseconds since the Unix epoch (UTC) or a length in milliseconds,
 * _us is microseconds of a monotonic clock.
 */
#ifndef DT_BASE_CLOCK_H
#define DT_BASE_CLOCK_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct dt_clock dt_clock;
struct dt_clock {
    int64_t (*mono_us)(const dt_clock *clock); /* never steps */
    int64_t (*real_ms)(const dt_clock *clock); /* wall clock of this host; may step */
    /* As mono_us, and goes on while the machine is suspended. NULL: mono_us is read. */
    int64_t (*boot_us)(const dt_clock *clock);
};

/* The host's clocks. Static; thread-safe. */
const dt_clock *dt_clock_system(void);

static inline int64_t dt_clock_mono_us(const dt_clock *clock)
{
    return clock->mono_us(clock);
}
/* For what ends elsewhere while this machine is suspended. The system's may be read in a handler of signals. */
static inline int64_t dt_clock_boot_us(const dt_clock *clock)
{
    return clock->boot_us ? clock->boot_us(clock) : clock->mono_us(clock);
}
static inline int64_t dt_clock_real_ms(const dt_clock *clock)
{
    return clock->real_ms(clock);
}

/* The earlier of two times: for loops that sleep until the first of several things. */
static inline int64_t dt_earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}
static inline int64_t dt_later(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* The earlier of two times, of which 0 is none. */
static inline int64_t dt_older(int64_t a, int64_t b)
{
    return !a || (b && b < a) ? b : a;
}

/*
 * For threads that blame peers for being late: they look every every_us, and call this with each look. Returns how long
 * this thread was kept from looking, because the process was stopped or got no processor; mostly 0. Deadlines of peers
 * move by it, so that what they sent meanwhile is read before they are judged. *looked_us: the look before; 0: none.
 */
int64_t dt_clock_missed_us(int64_t *looked_us, int64_t now_us, int64_t every_us);

/*
 * Waits on the condition, its lock held, until it is signalled or the host's monotonic clock reads until_us (absolute;
 * INT64_MAX = for ever). False: the time is up. The condition needs no attribute, and may wake for no reason, as every
 * condition.
 */
bool dt_clock_wait(pthread_cond_t *wake, pthread_mutex_t *lock, int64_t until_us);

/*
 * MySQL's clock as seen from this process: due times are judged by MySQL's clock alone, so that a wrong
 * clock on one host makes nothing early. A sample is a reading of the server's clock taken between two
 * readings of ours; the tightest recent sample wins. One per process; every function is thread-safe.
 */
typedef struct dt_refclock {
    const dt_clock *clock;
    _Atomic int64_t offset_us; /* server time (us since the epoch) less mono_us, lower bound */
    _Atomic int64_t error_us;  /* width of the sample: server time lies in [mono+offset, mono+offset+error] */
    _Atomic int64_t taken_us;  /* mono_us of the sample; 0 = none yet */
    _Atomic int64_t ahead_ms;  /* of a test clock: what it is ahead of the server's clock; 0 = there is none */
    _Atomic int64_t frozen_ms; /* of a test clock that stands still: where; 0 = it goes on */
    _Atomic uint32_t seq;      /* the five above change together: odd while they do */
    _Atomic bool follows;      /* a test clock: samples come from its follower alone */
} dt_refclock;

/* A test clock as its row in MySQL has it (features/clock/): the server's clock and ahead_ms, or an instant. */
struct dt_test_time {
    int64_t ahead_ms;
    int64_t frozen_ms; /* 0 = it goes on */
};

void dt_refclock_init(dt_refclock *ref, const dt_clock *clock);
/* The server said server_ms (truncated to a millisecond) at some moment between before_us and after_us. */
void dt_refclock_sample(dt_refclock *ref, int64_t server_ms, int64_t before_us, int64_t after_us);
/* Not later than the server's clock: to decide what is due. Falls back to the host's clock before any sample. */
int64_t dt_refclock_earliest_ms(const dt_refclock *ref);
/* Not earlier than the server's clock: to add delays to. */
int64_t dt_refclock_latest_ms(const dt_refclock *ref);
/* The monotonic time at which the server's clock will have reached server_ms: to sleep until a due time. A test
 * clock that stands still never will: whoever waits looks again in a second. */
int64_t dt_refclock_mono_us_at(const dt_refclock *ref, int64_t server_ms);

/*
 * From here on the three above tell the time of a test clock, in which jobs are due: test is how it stands, real_ms the
 * server's own clock, sampled as above. dt_refclock_sample does nothing any more: what sessions say may be of before a
 * change. One thread calls it.
 */
void dt_refclock_follow(dt_refclock *ref, struct dt_test_time test, int64_t real_ms, int64_t before_us,
                        int64_t after_us);
/* The server's clock itself, not later and not earlier than it is, whatever a test clock says: for what others compare
 * with clocks of their own. */
int64_t dt_refclock_real_earliest_ms(const dt_refclock *ref);
int64_t dt_refclock_real_latest_ms(const dt_refclock *ref);

#endif
