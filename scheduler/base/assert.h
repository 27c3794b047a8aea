/*
 * Assertions, for what only a bug of ours can break. They are on in release builds. If an assertion fails, it logs
 * file, line, condition and numbers, calls main's hook (which writes to MySQL), and ends the process by SIGABRT.
 *
 * Nothing that a caller, a row, a message, a server, a setting, a clock or a manual edit can cause is asserted;
 * functions return a status for it. Otherwise one row would end all dispatchers, one after the other.
 *
 *   dt_assert(link->owner == shard);
 *   dt_assert_cmp(list->n, <=, list->max); // also logs both numbers
 */
#pragma once

#include <stdint.h>

#define dt_assert(condition)                                                                                           \
    (__builtin_expect(!!(condition), 1) ? (void)0 : dt_assert_failed(__FILE_NAME__, __LINE__, #condition))

#define dt_assert_cmp(a, op, b)                                                                                        \
    do {                                                                                                               \
        const int64_t a_ = (int64_t)(a);                                                                               \
        const int64_t b_ = (int64_t)(b);                                                                               \
        if (__builtin_expect(!(a_ op b_), 0))                                                                          \
            dt_assert_cmp_failed(__FILE_NAME__, __LINE__, #a " " #op " " #b, a_, b_);                                  \
    } while (0)

_Noreturn void dt_assert_failed(const char *file, int line, const char *condition);
_Noreturn void dt_assert_cmp_failed(const char *file, int line, const char *condition, int64_t a, int64_t b);

/* The hook is called once, on the thread whose assertion failed. where: "fence_store.c:120"; what: the condition with
 * its numbers; shard: the shard that the thread works on, or -1. Other threads continue meanwhile. If the hook hangs or
 * fails an assertion, the process ends. */
typedef void dt_assert_hook_fn(void *arg, const char *where, const char *what, int shard);
/* Sets the hook; NULL: no hook. Call it from main, before other threads start or after they have ended. */
void dt_assert_hook(dt_assert_hook_fn *fn, void *arg);
/* Sets the shard that the calling thread works on until it ends. */
void dt_assert_shard(unsigned shard);
