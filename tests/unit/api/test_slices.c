/* Work in time slices: nobody waits for all of another's work, and the end leaves nothing undone. */

#include "request/workers.h"
#include "support/suite.h"

struct work {
    struct dt_slice slice; /* first: a slice is its work */
    _Atomic int pieces, done;
    int order; /* in which it came to its end */
};

static _Atomic int ended;
static pthread_barrier_t begin;

static dt_workers *start(int64_t threads)
{
    static struct dt_config config;
    static struct dt_activity activity;
    static dt_refclock ref;
    static struct dt_session_env env = {.config = &config, .ref = &ref};
    dt_workers *pool;
    config.http_workers = 1;
    config.api_batch_threads = threads;
    env.clock = dt_clock_system();
    assert_int_equal(dt_workers_start(&env, &activity, &pool, NULL), DT_OK);
    return pool;
}

static bool one_piece(struct dt_slice *slice)
{
    struct work *work = (struct work *)slice;
    if (++work->done < work->pieces)
        return true;
    work->order = ++ended;
    return false;
}

/* Holds its thread until the test lets it go. */
static bool hold(struct dt_slice *)
{
    pthread_barrier_wait(&begin);
    return false;
}

TEST(small_work_does_not_wait_for_large_work_before_it)
{
    struct dt_slice holder = {.run = hold};
    struct work large = {.slice.run = one_piece, .pieces = 1000}, small = {.slice.run = one_piece, .pieces = 2};
    ended = 0;
    pthread_barrier_init(&begin, NULL, 2);
    dt_workers *pool = start(1);
    assert_true(dt_workers_slice(pool, &holder));
    assert_true(dt_workers_slice(pool, &large.slice));
    assert_true(dt_workers_slice(pool, &small.slice));
    pthread_barrier_wait(&begin);
    dt_workers_stop(pool);
    assert_int_equal(small.order, 1);
    assert_int_equal(large.order, 2);
    dt_workers_free(pool);
    pthread_barrier_destroy(&begin);
}

TEST(as_many_slices_run_at_once_as_threads_are_allowed)
{
    struct dt_slice slices[3] = {{.run = hold}, {.run = hold}, {.run = hold}};
    pthread_barrier_init(&begin, NULL, 4); /* this thread, and each that runs a slice */
    dt_workers *pool = start(3);
    for (int i = 0; i < 3; i++)
        assert_true(dt_workers_slice(pool, &slices[i]));
    pthread_barrier_wait(&begin);
    dt_workers_stop(pool);
    dt_workers_free(pool);
    pthread_barrier_destroy(&begin);
}

TEST(stopping_runs_queued_slices_and_refuses_new_ones)
{
    enum { MANY = 50 };
    struct work work[MANY], late = {.slice.run = one_piece, .pieces = 1};
    dt_workers *pool = start(3);
    for (int i = 0; i < MANY; i++) {
        work[i] = (struct work){.slice.run = one_piece, .pieces = 1 + i};
        assert_true(dt_workers_slice(pool, &work[i].slice));
    }
    dt_workers_stop(pool);
    for (int i = 0; i < MANY; i++)
        assert_int_equal(work[i].done, 1 + i);
    assert_false(dt_workers_slice(pool, &late.slice));
    assert_int_equal(late.done, 0);
    dt_workers_free(pool);
}
