/* The mailbox, with real threads and the real monotonic clock. */
#include <sys/resource.h>
#include <time.h>

#include "support/suite.h"

#include "base/clock.h"
#include "base/thread.h"

static dt_mailbox *box;

static void open_box(void)
{
    assert_int_equal(dt_mailbox_new(&box), DT_OK);
}

static void close_box(void)
{
    dt_mailbox_free(box);
}

#define BOX_TEST(name) TEST_WITH(name, open_box, close_box)

static int64_t now_us(void)
{
    return dt_clock_mono_us(dt_clock_system());
}

BOX_TEST(signals_before_a_wait_are_merged)
{
    dt_mailbox_signal(box, 1);
    dt_mailbox_signal(box, 4);
    dt_mailbox_signal(box, 1);
    assert_int_equal(dt_mailbox_wait(box, INT64_MAX), 5);
    assert_int_equal(dt_mailbox_wait(box, 0), 0);
}

BOX_TEST(a_signal_that_is_there_is_taken_even_if_the_time_is_up)
{
    dt_mailbox_signal(box, 2);
    assert_int_equal(dt_mailbox_wait(box, 0), 2);
    dt_mailbox_signal(box, 2);
    assert_int_equal(dt_mailbox_wait(box, INT64_MIN), 2);
}

BOX_TEST(a_time_in_the_past_does_not_sleep)
{
    assert_int_equal(dt_mailbox_wait(box, 0), 0);
    assert_int_equal(dt_mailbox_wait(box, -5), 0);
    assert_int_equal(dt_mailbox_wait(box, now_us() - 1000000), 0);
}

BOX_TEST(a_wait_ends_at_its_time_and_not_before)
{
    int64_t until = now_us() + 20000;
    assert_int_equal(dt_mailbox_wait(box, until), 0);
    assert_true(now_us() >= until);
}

BOX_TEST(no_bits_are_no_signal)
{
    dt_mailbox_signal(box, 0);
    assert_int_equal(dt_mailbox_wait(box, now_us() + 1000), 0);
}

static void *post(void *arg)
{
    dt_mailbox_signal(arg, 8);
    return NULL;
}

BOX_TEST(a_signal_wakes_an_endless_wait)
{
    pthread_t thread = start_thread(post, box);
    assert_int_equal(dt_mailbox_wait(box, INT64_MAX), 8);
    pthread_join(thread, NULL);
}

#define POSTERS 4
#define POSTS   20000

struct poster {
    dt_mailbox *box;
    uint32_t bit;
    _Atomic int posted;
};

static void *post_many(void *arg)
{
    struct poster *poster = arg;
    for (int i = 0; i < POSTS; i++) {
        poster->posted++;
        dt_mailbox_signal(poster->box, poster->bit);
    }
    return NULL;
}

/* After the last post of each the loop must be woken at least once more: else its work would lie until the next bound.
 */
BOX_TEST(the_last_post_of_every_thread_is_seen)
{
    struct poster posters[POSTERS];
    pthread_t threads[POSTERS];
    uint32_t done = 0;
    for (int i = 0; i < POSTERS; i++) {
        posters[i] = (struct poster){box, UINT32_C(1) << i, 0};
        threads[i] = start_thread(post_many, &posters[i]);
    }
    while (done != (1u << POSTERS) - 1) {
        uint32_t bits = dt_mailbox_wait(box, now_us() + 60000000);
        assert_int_not_equal(bits, 0);
        for (int i = 0; i < POSTERS; i++)
            if (bits & posters[i].bit && posters[i].posted == POSTS)
                done |= posters[i].bit;
    }
    for (int i = 0; i < POSTERS; i++)
        pthread_join(threads[i], NULL);
}

TEST(free_accepts_null)
{
    dt_mailbox_free(NULL);
}

BOX_TEST(a_pause_is_not_cut_short_by_signals_that_do_not_end_it)
{
    int64_t until = now_us() + 30000;
    dt_mailbox_signal(box, 1 | 8);
    assert_int_equal(dt_mailbox_pause(box, until, 2), 9);
    assert_true(now_us() >= until);
    assert_int_equal(dt_mailbox_wait(box, 0), 0);
}

BOX_TEST(a_pause_returns_all_signals_that_arrived)
{
    dt_mailbox_signal(box, 1);
    dt_mailbox_signal(box, 2);
    assert_int_equal(dt_mailbox_pause(box, INT64_MAX, 2 | 4), 3);
    assert_int_equal(dt_mailbox_wait(box, 0), 0);
}

BOX_TEST(a_pause_in_the_past_does_not_sleep)
{
    assert_int_equal(dt_mailbox_pause(box, 0, 2), 0);
    dt_mailbox_signal(box, 1);
    assert_int_equal(dt_mailbox_pause(box, 0, 2), 1);
}

struct sleeper {
    dt_mailbox *box;
    _Atomic bool sleeps;
    long woken; /* times that the thread let go of its core */
};

static long times_let_go(void)
{
    struct rusage usage;
    assert_int_equal(getrusage(RUSAGE_THREAD, &usage), 0);
    return usage.ru_nvcsw;
}

static void *pause_until_two(void *arg)
{
    struct sleeper *sleeper = arg;
    long before = times_let_go();
    sleeper->sleeps = true;
    (void)dt_mailbox_pause(sleeper->box, INT64_MAX, 2);
    sleeper->woken = times_let_go() - before;
    return NULL;
}

/* Each signal comes when the sleeper has had time to sleep again. */
BOX_TEST(a_signal_outside_the_mask_does_not_wake_a_pause)
{
    struct sleeper sleeper = {.box = box};
    const struct timespec moment = {.tv_nsec = 200000};
    pthread_t thread = start_thread(pause_until_two, &sleeper);
    while (!sleeper.sleeps)
        nanosleep(&moment, NULL);
    for (int i = 0; i < 200; i++) {
        dt_mailbox_signal(box, 1);
        nanosleep(&moment, NULL);
    }
    dt_mailbox_signal(box, 2);
    pthread_join(thread, NULL);
    assert_in_range(sleeper.woken, 0, 20);
}
