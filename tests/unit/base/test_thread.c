/* The life of a thread, with real threads and the real monotonic clock. */
#include <pthread.h>

#include "support/suite.h"

#include "base/clock.h"
#include "base/thread.h"

static void note_name(void *arg)
{
    pthread_getname_np(pthread_self(), arg, 16);
}

TEST(a_thread_has_its_name)
{
    struct dt_thread thread = {0};
    char name[16] = "";
    assert_int_equal(dt_thread_start(&thread, "a-name", note_name, name, NULL), DT_OK);
    dt_thread_join(&thread);
    assert_string_equal(name, "a-name");
}

TEST(a_thread_that_was_never_started_is_joined_at_once)
{
    struct dt_thread thread = {0};
    dt_thread_join(&thread);
    dt_thread_stop(&thread, NULL);
    assert_true(dt_thread_stopping(&thread));
}

/* ---- a thread with a mailbox ---- */

struct sleeper {
    struct dt_thread thread;
    dt_mailbox *mailbox;
    uint32_t came;
    _Atomic int rounds;
};

static void sleep_on_mailbox(void *arg)
{
    struct sleeper *s = arg;
    while (!dt_thread_stopping(&s->thread)) {
        s->rounds++;
        s->came |= dt_mailbox_wait(s->mailbox, INT64_MAX);
    }
}

TEST(a_request_to_end_wakes_a_thread_that_sleeps_on_its_mailbox)
{
    struct sleeper s = {0};
    assert_int_equal(dt_mailbox_new(&s.mailbox), DT_OK);
    assert_int_equal(dt_thread_start(&s.thread, "sleeper", sleep_on_mailbox, &s, NULL), DT_OK);
    dt_mailbox_signal(s.mailbox, 4);
    dt_thread_stop(&s.thread, s.mailbox);
    assert_int_equal(dt_mailbox_wait(s.mailbox, 0) | s.came, 4 | DT_THREAD_STOP);
    dt_mailbox_free(s.mailbox);
}

TEST(a_thread_ends_once_however_often_it_is_asked_and_joined)
{
    struct sleeper s = {0};
    assert_int_equal(dt_mailbox_new(&s.mailbox), DT_OK);
    assert_int_equal(dt_thread_start(&s.thread, "sleeper", sleep_on_mailbox, &s, NULL), DT_OK);
    dt_thread_ask_stop(&s.thread, s.mailbox);
    dt_thread_ask_stop(&s.thread, s.mailbox);
    dt_thread_join(&s.thread);
    dt_thread_join(&s.thread);
    assert_true(s.rounds <= 2);
    dt_mailbox_free(s.mailbox);
}

/* ---- a thread with a queue ---- */

struct queue {
    struct dt_thread thread;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    int items, taken;
};

static void take_items(void *arg)
{
    struct queue *q = arg;
    pthread_mutex_lock(&q->lock);
    while (q->items || !dt_thread_stopping(&q->thread)) {
        if (q->items) {
            q->items--;
            q->taken++;
        } else {
            dt_clock_wait(&q->wake, &q->lock, INT64_MAX);
        }
    }
    pthread_mutex_unlock(&q->lock);
}

TEST(a_thread_with_a_queue_drains_it_before_it_ends)
{
    struct queue q = {.lock = PTHREAD_MUTEX_INITIALIZER, .wake = PTHREAD_COND_INITIALIZER};
    assert_int_equal(dt_thread_start(&q.thread, "queue", take_items, &q, NULL), DT_OK);
    pthread_mutex_lock(&q.lock);
    q.items = 3;
    dt_thread_ask_stop(&q.thread, NULL);
    pthread_cond_signal(&q.wake);
    pthread_mutex_unlock(&q.lock);
    dt_thread_join(&q.thread);
    assert_int_equal(q.taken, 3);
}

/* ---- a detached thread ---- */

static void signal_one(void *mailbox)
{
    dt_mailbox_signal(mailbox, 1);
}

static void start_another(void *status)
{
    struct dt_thread other = {0};
    dt_thread_lower(10);
    *(dt_status *)status = dt_thread_start(&other, "other", note_name, (char[16]){""}, NULL);
    dt_thread_join(&other);
}

TEST(a_thread_of_lower_priority_starts_no_other_thread)
{
    struct dt_thread thread = {0};
    dt_status status = DT_OK;
    assert_int_equal(dt_thread_start(&thread, "lowered", start_another, &status, NULL), DT_OK);
    dt_thread_join(&thread);
    assert_int_equal(status, DT_SYSTEM);
}

TEST(a_detached_thread_runs)
{
    static dt_mailbox *mailbox; /* reachable to the end: the thread may still be about to unlock it */
    assert_int_equal(dt_mailbox_new(&mailbox), DT_OK);
    assert_true(dt_thread_start_detached(signal_one, mailbox));
    assert_int_equal(dt_mailbox_wait(mailbox, dt_clock_mono_us(dt_clock_system()) + 60000000), 1);
}
