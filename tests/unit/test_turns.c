/* Work by turns: nobody waits for all of another's work, and the end leaves nothing undone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>
#include <pthread.h>
#include <stdatomic.h>

#include "work/turns.h"

struct work {
    struct dt_turn turn; /* first: a turn is its work */
    _Atomic int pieces, done;
    int order; /* in which it came to its end */
};

static _Atomic int ended;
static pthread_barrier_t begin;

static bool one_piece(struct dt_turn *turn)
{
    struct work *work = (struct work *)turn;
    if (++work->done < work->pieces)
        return true;
    work->order = ++ended;
    return false;
}

/* Holds the only thread until the test lets it go. */
static bool hold(struct dt_turn *turn)
{
    (void)turn;
    pthread_barrier_wait(&begin);
    return false;
}

static void small_work_does_not_wait_for_large_work_before_it(void **state)
{
    (void)state;
    dt_turns *turns;
    struct dt_turn holder = {.run = hold};
    struct work large = {.turn.run = one_piece, .pieces = 1000}, small = {.turn.run = one_piece, .pieces = 2};
    ended = 0;
    pthread_barrier_init(&begin, NULL, 2);
    assert_int_equal(dt_turns_start(1, &turns, NULL), DT_OK);
    assert_true(dt_turns_add(turns, &holder));
    assert_true(dt_turns_add(turns, &large.turn));
    assert_true(dt_turns_add(turns, &small.turn));
    pthread_barrier_wait(&begin);
    dt_turns_stop(turns);
    assert_int_equal(small.order, 1);
    assert_int_equal(large.order, 2);
    dt_turns_free(turns);
    pthread_barrier_destroy(&begin);
}

static void the_end_does_what_is_queued_and_takes_no_more(void **state)
{
    (void)state;
    enum { MANY = 50 };
    dt_turns *turns;
    struct work work[MANY], late = {.turn.run = one_piece, .pieces = 1};
    assert_int_equal(dt_turns_start(3, &turns, NULL), DT_OK);
    for (int i = 0; i < MANY; i++) {
        work[i] = (struct work){.turn.run = one_piece, .pieces = 1 + i};
        assert_true(dt_turns_add(turns, &work[i].turn));
    }
    dt_turns_stop(turns);
    for (int i = 0; i < MANY; i++)
        assert_int_equal(work[i].done, 1 + i);
    assert_false(dt_turns_add(turns, &late.turn));
    assert_int_equal(late.done, 0);
    dt_turns_free(turns);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_work_does_not_wait_for_large_work_before_it),
        cmocka_unit_test(the_end_does_what_is_queued_and_takes_no_more),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
