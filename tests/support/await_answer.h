/* Waiting for the one answer that another thread counts. */
#ifndef DT_TESTS_SUPPORT_AWAIT_ANSWER_H
#define DT_TESTS_SUPPORT_AWAIT_ANSWER_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

/* clang-format off */
#include <cmocka.h>
/* clang-format on */

#include "base/clock.h"

/* Fails when none comes within 20 s, and when there is more than one. */
static inline void await_answer(const _Atomic int *answers)
{
    int64_t until_us = dt_clock_mono_us(dt_clock_system()) + 20000000;
    while (atomic_load(answers) == 0) {
        if (dt_clock_mono_us(dt_clock_system()) > until_us)
            fail_msg("no answer within 20 s");
        usleep(200);
    }
    assert_int_equal(atomic_load(answers), 1);
}

#endif
