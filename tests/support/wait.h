/*
 * Waits for another thread, process or server, and stops children. A wait ends when its condition holds. After two
 * minutes, ten times the longest wait on a quiet machine, it fails the test. Only the test's own thread may wait.
 *
 *     AWAIT(led_by(p) == 4);
 *     AWAIT_OR(led_by(p) == 4, print_error("it leads %d\n", led_by(p)));   // prints this before it fails
 *     AWAIT_CHANGED(fake.asks >= 3, &fake.changed, &fake.lock);            // takes the lock, sleeps on `changed`
 */
#pragma once

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <time.h>

#include "support/suite.h"

#include "base/clock.h"

enum { WAIT_SECONDS = 120, WAIT_MS = WAIT_SECONDS * 1000 };

static inline int64_t wait_deadline_us(void)
{
    return dt_clock_mono_us(dt_clock_system()) + WAIT_SECONDS * INT64_C(1000000);
}

static inline bool wait_is_over(int64_t until_us)
{
    return dt_clock_mono_us(dt_clock_system()) > until_us;
}

static inline void wait_a_moment(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 500000}, NULL);
}

/* Stops a child by SIGSTOP. Returns when all its threads are stopped: kill() returns while they may still run. */
static inline void stop_child(pid_t pid)
{
    int status = 0;
    assert_int_equal(kill(pid, SIGSTOP), 0);
    assert_int_equal(waitpid(pid, &status, WUNTRACED), pid);
    assert_true(WIFSTOPPED(status));
}

static inline void wait_failed(const char *condition, const char *file, int line)
{
    print_error("after %d s still false: %s\n", WAIT_SECONDS, condition);
    _fail(file, line);
}

#define AWAIT_(condition, text, tell)                                                                                  \
    do {                                                                                                               \
        const int64_t await_until_ = wait_deadline_us();                                                               \
        while (!(condition)) {                                                                                         \
            if (wait_is_over(await_until_)) {                                                                          \
                tell;                                                                                                  \
                wait_failed(text, __FILE__, __LINE__);                                                                 \
            }                                                                                                          \
            wait_a_moment();                                                                                           \
        }                                                                                                              \
    } while (0)
#define AWAIT(condition)          AWAIT_(condition, #condition, (void)0)
#define AWAIT_OR(condition, tell) AWAIT_(condition, #condition, tell)
#define AWAIT_CHANGED_OR(condition, changed, lock, tell)                                                               \
    do {                                                                                                               \
        const int64_t await_until_ = wait_deadline_us();                                                               \
        pthread_mutex_lock(lock);                                                                                      \
        bool await_done_;                                                                                              \
        while (!(await_done_ = (condition)) && dt_clock_wait(changed, lock, await_until_))                             \
            continue;                                                                                                  \
        if (!await_done_)                                                                                              \
            tell;                                                                                                      \
        pthread_mutex_unlock(lock);                                                                                    \
        if (!await_done_)                                                                                              \
            wait_failed(#condition, __FILE__, __LINE__);                                                               \
    } while (0)
#define AWAIT_CHANGED(condition, changed, lock) AWAIT_CHANGED_OR(condition, changed, lock, (void)0)

/* Waits for an answer that another thread counts. */
#define AWAIT_ANSWER(answers)                                                                                          \
    do {                                                                                                               \
        AWAIT_(atomic_load(answers) > 0, "an answer in " #answers, (void)0);                                           \
        assert_int_equal(atomic_load(answers), 1);                                                                     \
    } while (0)
