/* See assert.h. Invariant: the process ends within HOOK_SECONDS, even if the hook hangs or the failing thread holds
 * locks. */
#include "assert.h"

#include <inttypes.h>
#include <signal.h>
#include <stdatomic.h>
#include <unistd.h>

#include "log.h"

#define HOOK_SECONDS 5

static dt_assert_hook_fn *hook;
static void *hook_arg;
static _Thread_local int shard_here = -1;

void dt_assert_hook(dt_assert_hook_fn *fn, void *arg)
{
    hook = fn;
    hook_arg = arg;
}

void dt_assert_shard(unsigned shard)
{
    shard_here = (int)shard;
}

static void abort_on_alarm(int)
{
    abort();
}

void dt_assert_failed(const char *file, int line, const char *condition)
{
    static atomic_flag failed_once = ATOMIC_FLAG_INIT;
    static _Thread_local bool failed_here;
    char where[80];
    sigset_t set;
    if (failed_here) /* an assertion failed inside the hook or the log */
        abort();
    failed_here = true;
    while (atomic_flag_test_and_set(&failed_once)) /* stops here for ever, unless this thread failed first */
        pause();
    sigemptyset(&set);
    sigaddset(&set, SIGALRM);
    signal(SIGALRM, abort_on_alarm);
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
    alarm(HOOK_SECONDS);
    snprintf(where, sizeof(where), "%s:%d", file, line);
    DT_LOG(ERROR, "assert", "an invariant does not hold", DT_S("file", file), DT_I("line", line),
           DT_S("condition", condition), DT_I("shard", shard_here));
    if (hook)
        hook(hook_arg, where, condition, shard_here);
    abort();
}

void dt_assert_cmp_failed(const char *file, int line, const char *condition, int64_t a, int64_t b)
{
    char what[300];
    snprintf(what, sizeof(what), "%s (%" PRId64 ", %" PRId64 ")", condition, a, b);
    dt_assert_failed(file, line, what);
}
