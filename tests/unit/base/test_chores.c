/* Chores on real threads and the real monotonic clock. */
#include <unistd.h>

#include "base/chores.h"
#include "support/wait.h"

struct work {
    struct dt_chore chore;
    _Atomic int ticks, inside, together; /* how many ticks began, run, and ran at once at most */
    _Atomic int64_t next_us;             /* what a tick returns; 0 = INT64_MAX */
    _Atomic bool hold;                   /* ticks wait until it is false */
    _Atomic int64_t apart_us;            /* what a tick sets not_before_us to, from now on */
    _Atomic bool fails, stopping;        /* ticks fail; the last tick saw that the chore ends */
    _Atomic bool idles;                  /* ticks say that they asked no server */
    enum dt_outage_of of;
    _Atomic int *order; /* counts ticks of all chores … */
    int at;             /* … as it was at this one's last tick */
};

FREED_AT(dt_chores *, dt_chores_stop)
#define CHORES(name) OWNED(dt_chores *, name, dt_chores_stop_at)

static int64_t now_us(void)
{
    return dt_clock_mono_us(dt_clock_system());
}

static int64_t tick(void *arg, void *context)
{
    struct work *w = arg;
    const int inside = ++w->inside;
    if (inside > w->together)
        w->together = inside;
    if (context)
        ++*(_Atomic int *)context;
    if (w->order)
        w->at = ++*w->order;
    w->ticks++;
    while (w->hold && !dt_chore_stopping(&w->chore))
        usleep(200);
    if (w->apart_us)
        w->chore.not_before_us = now_us() + w->apart_us;
    w->stopping = dt_chore_stopping(&w->chore);
    w->inside--;
    w->chore.idle = w->idles;
    if (w->fails)
        return dt_chore_failed(&w->chore, w->of, "it waits", DT_UNAVAILABLE, NULL, 50000);
    return w->next_us ? w->next_us : INT64_MAX;
}

static dt_chores *start(unsigned threads)
{
    const struct dt_chores_env env = {.name = "chores", .threads = threads, .clock = dt_clock_system()};
    dt_chores *chores = NULL;
    assert_int_equal(dt_chores_start(&env, &chores, NULL), DT_OK);
    return chores;
}

static struct work work(const char *name)
{
    return (struct work){.chore = {.name = name, .tick = tick}};
}

static void add(dt_chores *chores, struct work *w)
{
    w->chore.arg = w;
    dt_chores_add(chores, &w->chore);
}

TEST(a_chore_is_ticked_at_once_and_again_when_woken)
{
    CHORES(chores) = start(2);
    struct work w = work("a");
    add(chores, &w);
    AWAIT(w.ticks == 1);
    usleep(20000);
    assert_int_equal(w.ticks, 1);
    dt_chore_wake(&w.chore);
    AWAIT(w.ticks == 2);
    dt_chore_remove(&w.chore);
}

TEST(a_chore_is_ticked_at_the_time_that_it_returned)
{
    CHORES(chores) = start(3);
    struct work far = work("far");
    struct work near = work("near");
    const int64_t began_us = now_us();
    far.next_us = began_us + 3600 * INT64_C(1000000);
    add(chores, &far);
    near.next_us = began_us + 60000;
    add(chores, &near);
    AWAIT(near.ticks >= 2);
    assert_true(now_us() - began_us >= 60000);
    assert_int_equal(far.ticks, 1);
    dt_chore_remove(&near.chore);
    dt_chore_remove(&far.chore);
}

TEST(a_wake_during_a_tick_is_followed_by_one_tick_and_never_by_two_at_once)
{
    CHORES(chores) = start(4);
    struct work w = work("a");
    w.hold = true;
    add(chores, &w);
    AWAIT(w.ticks == 1);
    for (int i = 0; i < 100; i++)
        dt_chore_wake(&w.chore);
    w.hold = false;
    AWAIT(w.ticks == 2);
    usleep(20000);
    assert_members(w, (ticks, 2), (together, 1));
    dt_chore_remove(&w.chore);
}

TEST(other_chores_continue_while_some_ticks_hang)
{
    CHORES(chores) = start(3);
    struct work stuck[2] = {work("stuck"), work("stuck-too")};
    struct work w = work("well");
    const char *name;
    for (size_t i = 0; i < 2; i++) {
        stuck[i].hold = true;
        add(chores, &stuck[i]);
        AWAIT(stuck[i].ticks == 1);
    }
    w.next_us = 1;
    add(chores, &w);
    AWAIT(w.ticks >= 100);
    AWAIT(dt_chores_longest_us(chores, &name) > 1000);
    assert_string_equal(name, "stuck");
    dt_chore_remove(&w.chore);
    dt_chore_remove(&stuck[0].chore);
    dt_chore_remove(&stuck[1].chore);
}

TEST(a_chore_that_is_always_due_does_not_starve_others)
{
    CHORES(chores) = start(1);
    struct work greedy = work("greedy");
    struct work w = work("other");
    greedy.next_us = 1;
    add(chores, &greedy);
    add(chores, &w);
    AWAIT(w.ticks == 1);
    for (int i = 2; i < 20; i++) {
        const int before = greedy.ticks;
        dt_chore_wake(&w.chore);
        AWAIT(w.ticks == i);
        assert_true(greedy.ticks - before < 100000);
    }
    dt_chore_remove(&greedy.chore);
    dt_chore_remove(&w.chore);
}

TEST(a_removed_chore_is_not_ticked_again)
{
    CHORES(chores) = start(2);
    for (int i = 0; i < 300; i++) {
        struct work w = work("short-lived");
        w.next_us = 1;
        add(chores, &w);
        dt_chore_wake(&w.chore);
        dt_chore_remove(&w.chore);
        assert_int_equal(w.inside, 0);
        const int ticks = w.ticks;
        dt_chore_wake(&w.chore); /* does nothing */
        dt_chore_remove(&w.chore);
        assert_int_equal(w.ticks, ticks);
    }
}

TEST(a_wake_does_not_shorten_the_pause_that_a_tick_asked_for)
{
    CHORES(chores) = start(2);
    struct work w = work("a");
    w.apart_us = 60000;
    const int64_t began_us = now_us();
    add(chores, &w);
    AWAIT(w.ticks == 1);
    for (int i = 0; i < 10; i++)
        dt_chore_wake(&w.chore);
    AWAIT(w.ticks == 2);
    assert_true(now_us() - began_us >= 60000);
    dt_chore_remove(&w.chore);
}

TEST(a_failed_tick_is_repeated_after_its_pause_despite_wakes)
{
    CHORES(chores) = start(2);
    struct work w = work("a");
    w.fails = true;
    const int64_t began_us = now_us();
    add(chores, &w);
    for (int i = 2; i <= 4; i++) { /* it fails again and again: a slow machine may miss some of its ticks */
        AWAIT(w.ticks >= i - 1);
        dt_chore_wake(&w.chore);
        AWAIT(w.ticks >= i);
        const int ticks = w.ticks;
        assert_true(now_us() - began_us >= (ticks - 1) * 50000);
    }
    dt_chore_remove(&w.chore);
}

TEST(a_tick_without_a_request_ends_no_outage)
{
    dt_chores *chores = start(1);
    struct work w = work("a");
    w.of = DT_OUTAGE_KAFKA;
    w.fails = true;
    add(chores, &w);
    AWAIT(w.ticks >= 1);
    w.idles = true;
    w.fails = false;
    const int failed = w.ticks;
    AWAIT(w.ticks > failed);
    dt_chore_wake(&w.chore);
    AWAIT(w.ticks > failed + 1 && !dt_chores_longest_us(chores, &(const char *){NULL}));
    assert_int_equal(w.chore.outage.of, DT_OUTAGE_KAFKA);
    w.idles = false;
    dt_chore_wake(&w.chore);
    AWAIT(w.ticks > failed + 2 && !dt_chores_longest_us(chores, &(const char *){NULL}));
    assert_int_equal(w.chore.outage.of, DT_OUTAGE_NONE);
    dt_chore_remove(&w.chore);
    dt_chores_stop(chores);
    dt_outage_forget();
}

TEST(chores_that_wait_for_servers_leave_two_threads_free)
{
    CHORES(chores) = start(4);
    struct work waiting[3] = {work("a"), work("b"), work("c")};
    struct work w = work("well");
    for (size_t i = 0; i < 3; i++) {
        waiting[i].hold = waiting[i].chore.waits = true;
        add(chores, &waiting[i]);
    }
    AWAIT(waiting[0].ticks + waiting[1].ticks + waiting[2].ticks == 2);
    w.next_us = 1;
    add(chores, &w);
    AWAIT(w.ticks >= 100);
    assert_int_equal(waiting[0].ticks + waiting[1].ticks + waiting[2].ticks, 2);
    for (size_t i = 0; i < 3; i++)
        waiting[i].hold = false;
    AWAIT(waiting[0].ticks == 1 && waiting[1].ticks == 1 && waiting[2].ticks == 1);
    for (size_t i = 0; i < 3; i++)
        dt_chore_remove(&waiting[i].chore);
    dt_chore_remove(&w.chore);
}

TEST(a_chore_that_wants_a_last_tick_gets_one_when_it_is_removed)
{
    CHORES(chores) = start(2);
    for (int i = 0; i < 100; i++) {
        struct work w = work("a");
        w.chore.last = true;
        w.next_us = i % 2;
        add(chores, &w);
        if (i % 3 == 0)
            dt_chore_stop(&w.chore);
        dt_chore_remove(&w.chore);
        assert_true(w.ticks >= 1 && w.stopping && w.inside == 0);
        const int ticks = w.ticks;
        dt_chore_remove(&w.chore);
        assert_int_equal(w.ticks, ticks);
    }
}

/* ---- contexts ---- */

static _Atomic int opened, closed, checked, ticked;

static dt_status open_context(void *arg, void **context, struct dt_error *err)
{
    if (opened == *(const int *)arg)
        return dt_fail(err, DT_UNAVAILABLE, "one too many");
    opened++;
    *context = &ticked;
    return DT_OK;
}

static void close_context(void *context)
{
    assert_ptr_equal(context, &ticked);
    closed++;
}

static void check_context(const void *context)
{
    assert_ptr_equal(context, &ticked);
    checked++;
}

TEST(each_thread_has_a_context_which_is_checked_after_each_tick)
{
    int most = 3;
    struct dt_chores_env env = {.name = "chores",
                                .threads = 3,
                                .clock = dt_clock_system(),
                                .open = open_context,
                                .close = close_context,
                                .check = check_context,
                                .arg = &most};
    struct work w = work("a");
    dt_chores *chores = NULL;
    struct dt_error err = {0};
    opened = closed = checked = ticked = 0;
    assert_int_equal(dt_chores_start(&env, &chores, &err), DT_OK);
    assert_int_equal(opened, 1);
    w.next_us = 1;
    add(chores, &w);
    AWAIT(w.ticks >= 50);
    dt_chore_remove(&w.chore);
    assert_int_equal(checked, w.ticks);
    assert_int_equal(ticked, w.ticks);
    assert_in_range(opened, 1, 2); /* one ticks, one waits for what is due next */
    dt_chores_stop(chores);
    assert_int_equal(closed, opened);

    opened = closed = most = 0;
    assert_int_equal(dt_chores_start(&env, &chores, &err), DT_UNAVAILABLE);
    assert_null(chores);
    assert_int_equal(closed, 0);
}

TEST(chores_continue_if_no_further_thread_can_be_started)
{
    int most = 1;
    struct dt_chores_env env = {.name = "chores",
                                .threads = 3,
                                .clock = dt_clock_system(),
                                .open = open_context,
                                .close = close_context,
                                .arg = &most};
    struct work w[3] = {work("a"), work("b"), work("c")};
    dt_chores *chores = NULL;
    opened = closed = ticked = 0;
    assert_int_equal(dt_chores_start(&env, &chores, NULL), DT_OK);
    for (size_t i = 0; i < 3; i++) {
        w[i].next_us = 1;
        add(chores, &w[i]);
    }
    AWAIT(w[0].ticks >= 20 && w[1].ticks >= 20 && w[2].ticks >= 20);
    for (size_t i = 0; i < 3; i++)
        dt_chore_remove(&w[i].chore);
    dt_chores_stop(chores);
    assert_int_equal(opened, 1);
    assert_int_equal(closed, 1);
}
