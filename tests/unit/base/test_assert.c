/* How a process dies at an assertion: each death in a child of its own. */
#include <signal.h>
#include <sys/wait.h>

#include "base/assert.h"
#include "base/thread.h"
#include "support/rigs/log_rig.h"

/* Runs it in a child, and returns the signal that the child died of. */
static int signal_of(void (*what)(void))
{
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        what();
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

static void expect(const char *words)
{
    const char *line = written();
    if (!strstr(line, words))
        fail_msg("'%s' is not in '%s'", words, line);
}

static void hold(void)
{
    const int n = 3;
    dt_assert(n == 3);
    dt_assert_cmp(n, <=, 3);
}

static void break_condition(void)
{
    const int n = 3;
    dt_assert(n == 4);
}

static void break_comparison(void)
{
    const int64_t n = -3;
    dt_assert_shard(7);
    dt_assert_cmp(n, >=, 2 + 2);
}

#define FRESH_TEST(name) TEST_WITH(name, catch_stderr, release_stderr)

FRESH_TEST(nothing_happens_while_assertions_hold)
{
    assert_int_equal(signal_of(hold), 0);
    assert_string_equal(written(), "");
}

FRESH_TEST(a_false_condition_is_logged_and_ends_the_process)
{
    assert_int_equal(signal_of(break_condition), SIGABRT);
    expect("level=error component=assert msg=\"an invariant does not hold\" file=test_assert.c line=");
    expect(" condition=\"n == 4\" shard=-1\n");
}

FRESH_TEST(a_false_comparison_is_logged_with_its_numbers_and_the_shard)
{
    assert_int_equal(signal_of(break_comparison), SIGABRT);
    expect(" condition=\"n >= 2 + 2 (-3, 4)\" shard=7\n");
}

/* ---- the hook ---- */

static void log_death(void *arg, const char *where, const char *what, int shard)
{
    const char *line = strchr(where, ':');
    DT_LOG(INFO, arg, "died", DT_B("file", ((struct dt_str){where, (size_t)(line - where)})), DT_S("what", what),
           DT_I("shard", shard));
}

static void break_with_hook(void)
{
    dt_assert_hook(log_death, "test");
    break_comparison();
}

FRESH_TEST(the_hook_gets_the_place_and_text_of_the_assertion)
{
    assert_int_equal(signal_of(break_with_hook), SIGABRT);
    expect("component=test msg=died file=test_assert.c what=\"n >= 2 + 2 (-3, 4)\" shard=7\n");
}

static void fail_again(void *, const char *, const char *, int)
{
    break_condition();
}

static void break_twice(void)
{
    dt_assert_hook(fail_again, NULL);
    break_condition();
}

FRESH_TEST(an_assertion_that_fails_in_the_hook_ends_the_process)
{
    assert_int_equal(signal_of(break_twice), SIGABRT);
}

static void hang(void *, const char *, const char *, int)
{
    for (;;)
        pause();
}

static void break_and_hang(void)
{
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, NULL); /* as threads of libraries do */
    dt_assert_hook(hang, NULL);
    break_condition();
}

FRESH_TEST(a_hanging_hook_does_not_keep_the_process_alive)
{
    assert_int_equal(signal_of(break_and_hang), SIGABRT);
}

static _Atomic int deaths;

static void count_death(void *, const char *, const char *, int)
{
    deaths++;
    usleep(100000); /* the other thread fails meanwhile */
    if (deaths != 1)
        _exit(3);
}

static void break_in_thread(void *)
{
    break_condition();
}

static void break_in_two_threads(void)
{
    struct dt_thread thread = {0};
    dt_assert_hook(count_death, NULL);
    if (dt_thread_start(&thread, "other", break_in_thread, NULL, NULL) != DT_OK)
        _exit(4);
    break_condition();
}

FRESH_TEST(if_two_threads_fail_the_hook_is_called_once)
{
    assert_int_equal(signal_of(break_in_two_threads), SIGABRT);
}
