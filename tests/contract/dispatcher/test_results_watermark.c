/*
 * Up to which instant results are read (results_watermark.h), against a Kafka that answers as the test says. Time is real,
 * but where a test lets half a minute pass at once.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

#include <cmocka.h>

#include "chores/results_watermark.h"
#include "support/redis_fixture.h"

#define SECOND_US INT64_C(1000000)

static dt_refclock ref;
static dt_results_watermark *watch;
static _Atomic int woken[8];

/* ---- Kafka's answers ---- */

static _Atomic bool silent, unread;
static _Atomic int marks, looks;

struct dt_result_lag {
    int unused;
};

__typeof__(dt_result_lag_new) __wrap_dt_result_lag_new;
__typeof__(dt_result_lag_free) __wrap_dt_result_lag_free;
__typeof__(dt_result_lag_mark) __wrap_dt_result_lag_mark;
__typeof__(dt_result_lag_passed) __wrap_dt_result_lag_passed;

dt_status __wrap_dt_result_lag_new(const struct dt_kafka_env *env, dt_result_lag **out, struct dt_error *err)
{
    (void)env;
    (void)err;
    *out = calloc(1, sizeof **out);
    return *out ? DT_OK : DT_NOMEM;
}

void __wrap_dt_result_lag_free(dt_result_lag *lag)
{
    free(lag);
}

dt_status __wrap_dt_result_lag_mark(dt_result_lag *lag, struct dt_error *err)
{
    (void)lag;
    marks++;
    return silent ? dt_fail(err, DT_UNAVAILABLE, "no answer") : DT_OK;
}

dt_status __wrap_dt_result_lag_passed(dt_result_lag *lag, bool *passed, struct dt_error *err)
{
    (void)lag;
    looks++;
    *passed = !unread;
    return silent ? dt_fail(err, DT_UNAVAILABLE, "no answer") : DT_OK;
}

/* ---- surroundings ---- */

static int64_t now_ms(void)
{
    return dt_refclock_earliest_ms(&ref);
}

/* The suite's clock is so far behind the host's. It cannot be ahead: a pause would last until the host's has come by. */
static _Atomic int64_t behind_us;

static int64_t late_mono_us(const dt_clock *clock)
{
    (void)clock;
    return dt_clock_mono_us(dt_clock_system()) - behind_us;
}

static const dt_clock late = {.mono_us = late_mono_us};

static int64_t mono_us(void)
{
    return dt_clock_mono_us(&late);
}

static void pass(int64_t us)
{
    behind_us -= us;
    assert_true(behind_us >= 0);
}

static void wake(void *arg, unsigned shard)
{
    (void)arg;
    woken[shard % 8]++;
}

static int begin_test(void **state)
{
    const struct dt_results_watermark_env env = {.clock = &late, .ref = &ref, .wake = wake};
    struct dt_error err = {0};
    int64_t us = mono_us();
    (void)state;
    dt_refclock_init(&ref, &late);
    dt_refclock_sample(&ref, 1800000000000, us, us);
    silent = unread = false;
    marks = looks = 0;
    for (unsigned i = 0; i < 8; i++)
        woken[i] = 0;
    return dt_results_watermark_start(&env, &watch, &err) == DT_OK ? 0 : -1;
}

static int begin_behind(void **state)
{
    behind_us = 60 * SECOND_US;
    return begin_test(state);
}

static int end_test(void **state)
{
    (void)state;
    dt_results_watermark_stop(watch);
    behind_us = 0;
    return 0;
}

/* A leader that waits says so again and again. */
static int64_t deadline_ms;

static bool is_read(void *arg)
{
    unsigned shard = *(unsigned *)arg;
    if (dt_results_watermark_up_to(watch) >= deadline_ms)
        return true;
    dt_results_watermark_want(watch, shard, deadline_ms);
    return false;
}

static bool waits_at_most(unsigned shard, int ms)
{
    return wait_until(is_read, &shard, ms);
}

/* ---- the tests ---- */

static void a_deadline_is_read_as_soon_as_kafka_says_so_and_its_leader_is_woken(void **state)
{
    (void)state;
    deadline_ms = now_ms();
    int64_t us = mono_us();
    dt_results_watermark_want(watch, 3, deadline_ms);
    assert_true(waits_at_most(3, 5000));
    print_message("read after %lld us\n", (long long)(mono_us() - us));
    for (int i = 0; i < 1000 && !woken[3]; i++)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    assert_true(woken[3] > 0);
    assert_int_equal(woken[2], 0);
    assert_true(dt_results_watermark_up_to(watch) <= now_ms());
}

static void kafka_is_asked_only_while_somebody_waits(void **state)
{
    (void)state;
    nanosleep(&(struct timespec){.tv_nsec = 300000000}, NULL);
    assert_int_equal(marks, 0);
    deadline_ms = now_ms();
    assert_true(waits_at_most(0, 5000));
    int before = marks;
    nanosleep(&(struct timespec){.tv_nsec = 500000000}, NULL);
    assert_int_equal(marks, before);
}

static void a_deadline_that_is_still_to_come_is_not_read(void **state)
{
    (void)state;
    deadline_ms = now_ms() + 400;
    int64_t us = mono_us();
    assert_true(waits_at_most(0, 5000));
    assert_true(mono_us() - us >= 399000);
}

static void a_reader_that_is_behind_is_waited_for(void **state)
{
    (void)state;
    unread = true;
    deadline_ms = now_ms();
    assert_false(waits_at_most(1, 1500));
    assert_int_equal(marks, 1); /* what was there then, and not what came since */
    unread = false;
    assert_true(waits_at_most(1, 1000));
}

static void without_an_answer_nothing_is_read(void **state)
{
    (void)state;
    silent = true;
    deadline_ms = now_ms();
    assert_false(waits_at_most(1, 1500));
    silent = false;
    assert_true(waits_at_most(1, 2000));
}

/* Two deadlines, ten seconds apart, while nobody reads: each is waited for as long. */
static void nobody_is_waited_for_longer_than_thirty_seconds(void **state)
{
    (void)state;
    unread = true;
    int64_t first_ms = now_ms(), us = mono_us();
    deadline_ms = first_ms + 2000;
    assert_false(waits_at_most(2, 1500));
    for (int seconds = 0; seconds < 28; seconds += 2) { /* as one that says so once a second does */
        pass(2 * SECOND_US);
        assert_false(waits_at_most(2, 20));
    }
    assert_true(dt_results_watermark_up_to(watch) < first_ms);
    assert_true(waits_at_most(2, 5000));
    int64_t waited_us = mono_us() - us;
    print_message("the second deadline was given up %lld ms after it\n", (long long)waited_us / 1000 - 2000);
    assert_true(waited_us >= 31900000 && waited_us < 33500000);
}

/* Whoever was silent (its MySQL was away) was not waiting: it begins anew, whatever time has passed. */
static void a_leader_that_was_silent_begins_to_wait_anew(void **state)
{
    (void)state;
    unread = true;
    deadline_ms = now_ms() - 60000;
    assert_false(waits_at_most(4, 2000));
    pass(29 * SECOND_US);
    nanosleep(&(struct timespec){.tv_nsec = 200000000}, NULL); /* it is seen to be silent */
    assert_false(waits_at_most(4, 3000));
    unread = false;
    assert_true(waits_at_most(4, 1000));
}

int main(void)
{
#define T(name)        cmocka_unit_test_setup_teardown(name, begin_test, end_test)
#define T_BEHIND(name) cmocka_unit_test_setup_teardown(name, begin_behind, end_test)
    const struct CMUnitTest tests[] = {
        T(a_deadline_is_read_as_soon_as_kafka_says_so_and_its_leader_is_woken),
        T(kafka_is_asked_only_while_somebody_waits),
        T(a_deadline_that_is_still_to_come_is_not_read),
        T(a_reader_that_is_behind_is_waited_for),
        T(without_an_answer_nothing_is_read),
        T_BEHIND(nobody_is_waited_for_longer_than_thirty_seconds),
        T_BEHIND(a_leader_that_was_silent_begins_to_wait_anew),
    };
    return cmocka_run_group_tests_name("how far results are read", tests, NULL, NULL);
}
