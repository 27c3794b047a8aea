/* Each part that needs memory says so when there is none, at each of its calls for it, and leaves nothing behind: one piece of
 * work after the other is done again and again, and each time the next call fails. The linker wraps our own calls
 * (tests/CMakeLists.txt). A work whose call failed ends with NOMEM, or is done as if nothing had happened; half of it
 * is neither. A suite includes this once. */
#pragma once

#include "support/suite.h"

#include "base/clock.h"
#include "base/config.h"
#include "base/metrics.h"
#include "base/thread.h"
#include "deliver/http/callback.h"
#include "deliver/http/http_places.h"
#include "deliver/kafka/ledger_record.h"
#include "deliver/kafka/message.h"
#include "deliver/kafka/topic_queue.h"
#include "index/index.h"
#include "intake/batch.h"
#include "redis/redis_link.h"
#include "request/cursor.h"
#include "rest/jobs_rest.h"
#include "rest/topics_rest.h"
#include "support/failing_calls.h"
#include "topic/counts.h"

#define MOST 5000 /* calls of a work */

static _Thread_local long left; /* calls until one fails; 0: none does */
static _Thread_local bool failed;

static inline bool fails(void)
{
    if (left == 0 || --left > 0)
        return false;
    failed = true;
    return true;
}

#define WRAP(type, name, params, args)                                                                                 \
    __typeof__(name) __real_##name;                                                                                    \
    __typeof__(name) __wrap_##name;                                                                                    \
    type __wrap_##name params                                                                                          \
    {                                                                                                                  \
        return fails() ? NULL : __real_##name args;                                                                    \
    }

CALLS_FOR_MEMORY(WRAP)

/* Does the work until none of its calls for memory fails. */
static inline void at_each_call(dt_status (*work)(void))
{
    dt_status status = DT_NOMEM;
    long n = 0;
    do {
        failed = false;
        left = ++n;
        status = work();
        left = 0;
        if (failed ? status != DT_OK && status != DT_NOMEM : status != DT_OK)
            fail_msg("call %ld: %s", n, dt_status_name(status));
    } while (failed && n < MOST);
    assert_int_equal(status, DT_OK);
    assert_in_range(n, 2, MOST - 1);
}

/* EACH_CALL_TEST(out_of_memory_json_is_read_or_fails) { … return status; }: a test whose work is done at each of its calls. */
#define EACH_CALL_TEST(name)                                                                                           \
    static dt_status work_of_##name(void);                                                                             \
    TEST(name)                                                                                                         \
    {                                                                                                                  \
        at_each_call(work_of_##name);                                                                                  \
    }                                                                                                                  \
    static dt_status work_of_##name(void)
