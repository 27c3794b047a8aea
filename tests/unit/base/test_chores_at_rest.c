/* Threads of chores that come and go, by a clock that the test moves. */

#include "base/chores.h"
#include "support/rigs/hand_clock.h"

static _Atomic int opened, closed; /* contexts of threads */
static _Atomic int inside;         /* ticks that run */
static _Atomic bool hold;          /* until it is false */

static dt_status open_context(void *arg, void **context, struct dt_error *)
{
    opened++;
    *context = arg;
    return DT_OK;
}

static void close_context(void *)
{
    closed++;
}

static int64_t tick(void *, void *)
{
    inside++;
    AWAIT(!hold);
    inside--;
    return INT64_MAX;
}

static int64_t beat(void *arg, void *)
{
    ++*(_Atomic int *)arg;
    return hand_us + 1000000;
}

TEST(threads_are_started_for_ticks_and_end_when_idle)
{
    const struct dt_chores_env env = {.name = "chores",
                                      .threads = 4,
                                      .clock = &hand_clock,
                                      .open = open_context,
                                      .close = close_context,
                                      .arg = &hold};
    struct dt_chore busy[3] = {{.name = "a", .tick = tick}, {.name = "b", .tick = tick}, {.name = "c", .tick = tick}};
    _Atomic int beats = 0;
    struct dt_chore often = {.name = "often", .tick = beat, .arg = (void *)&beats};
    dt_chores *chores = NULL;
    hold = true;
    assert_int_equal(dt_chores_start(&env, &chores, NULL), DT_OK);
    assert_int_equal(opened, 1);
    for (size_t i = 0; i < 3; i++)
        dt_chores_add(chores, &busy[i]);
    AWAIT(inside == 3);
    for (int round = 0; round < 3; round++) {
        hold = false;
        AWAIT(inside == 0);
        if (round == 0)
            dt_chores_add(chores, &often);
        for (int i = 0; i < 60; i++) { /* a minute in which only the one chore is ticked */
            const int before = beats;
            AWAIT(beats > before || (pass(100000), false));
        }
        AWAIT(opened - closed <= 2 || (pass(100000), false)); /* a thread may have ticked in place of another */
        hold = true;
        for (size_t i = 0; i < 3; i++)
            dt_chore_wake(&busy[i]);
        AWAIT(inside == 3);
        assert_true(opened - closed >= 3);
    }
    hold = false;
    for (size_t i = 0; i < 3; i++)
        dt_chore_remove(&busy[i]);
    dt_chore_remove(&often);
    dt_chores_stop(chores);
    assert_int_equal(closed, opened);
}
