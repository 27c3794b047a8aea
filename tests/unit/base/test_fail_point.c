/* Fail points: how they are chosen, when they are hit, and what they do. A child process dies or stops in our place. */

#include "support/suite.h"

#include "base/fail_point.h"

#ifdef DT_FAIL_POINTS

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"

static void choose(const char *text)
{
    struct dt_error err = {0};
    dt_status status = dt_fail_points_set(text, &err);
    assert_string_equal(err.text, "");
    assert_int_equal(status, DT_OK);
}

static void forget(void)
{
    choose(NULL);
}

#define FRESH_TEST(name) TEST_WITH(name, forget, NULL)

static void pass_plain(void)
{
    DT_FAIL_POINT("test.plain");
}

static dt_status pass_status(dt_status status, struct dt_error *err)
{
    DT_FAIL_POINT_STATUS("test.status", status, err);
    return status;
}

static dt_status passed(void)
{
    return pass_status(DT_OK, NULL);
}

static bool forced(void)
{
    return DT_FAIL_FORCED("test.forced");
}

/* ---- choosing ---- */

static void assert_refused(const char *text, const char *because)
{
    struct dt_error err = {0};
    assert_int_equal(dt_fail_points_set(text, &err), DT_INVALID);
    if (!strstr(err.text, because))
        fail_msg("\"%s\": \"%s\" does not say \"%s\"", text, err.text, because);
    assert_int_equal(passed(), DT_OK); /* nothing was chosen */
}

FRESH_TEST(text_that_cannot_be_read_is_refused_with_the_rule_and_the_reason)
{
    assert_refused("test.status", "the action is");
    assert_refused("test.status=", "the action is");
    assert_refused("test.status=explode", "the action is");
    assert_refused("test.status=error:", "the action is");
    assert_refused("test.status=error:OK", "the action is");
    assert_refused("test.status=error:WRONG", "the action is");
    assert_refused("test.plain=delay", "the action is");
    assert_refused("test.plain=delay:", "the action is");
    assert_refused("test.plain=delay:-1", "the action is");
    assert_refused("test.plain=delay:99999999999", "the action is");
    assert_refused("test.plain=crash:1", "the action is");
    assert_refused("test.status=error@", "the passes are");
    assert_refused("test.status=error@0", "the passes are");
    assert_refused("test.status=error@-3", "the passes are");
    assert_refused("test.status=error@3-2", "the passes are");
    assert_refused("test.status=error@1-2-3", "the passes are");
    assert_refused("test.status=error@1x", "the passes are");
    assert_refused("test.status=error,", "no such point");
    assert_refused(",test.status=error", "no such point");
    assert_refused("test.status=error;test.plain=stop", "the action is");
    assert_refused("test.status=error,test.plain=delay:x", "\"test.plain=delay:x\"");
}

FRESH_TEST(a_point_that_the_program_does_not_have_is_refused)
{
    assert_refused("test.elsewhere=crash", "no such point");
    assert_refused("test.plai=crash", "no such point");
    assert_refused("test.plain =crash", "no such point");
}

FRESH_TEST(an_action_that_the_fail_point_does_not_support_is_refused)
{
    assert_refused("test.plain=error", "cannot do that");
    assert_refused("test.plain=force", "cannot do that");
    assert_refused("test.status=force", "cannot do that");
    assert_refused("test.forced=crash", "cannot do that");
}

FRESH_TEST(more_rules_than_there_is_room_for_are_refused)
{
    char text[65 * 20] = "";
    for (int i = 0; i < 65; i++)
        strcat(text, i ? ",test.status=error" : "test.status=error");
    assert_refused(text, "more than 64 rules");
}

/* ---- hitting ---- */

static void assert_fails_at(const char *rule, const char *pattern)
{
    char seen[16] = "";
    choose(rule);
    for (size_t i = 0; i < strlen(pattern); i++)
        strcat(seen, passed() == DT_OK ? "." : "x");
    if (strcmp(seen, pattern) != 0)
        fail_msg("%s: %s instead of %s", rule, seen, pattern);
}

FRESH_TEST(a_rule_acts_only_at_the_chosen_passes)
{
    assert_fails_at(NULL, "......");
    assert_fails_at("", "......");
    assert_fails_at("test.status=error", "xxxxxx");
    assert_fails_at("test.status=error@1", "x.....");
    assert_fails_at("test.status=error@3", "..x...");
    assert_fails_at("test.status=error@3-", "..xxxx");
    assert_fails_at("test.status=error@2-4", ".xxx..");
    assert_fails_at("test.status=error@2-2", ".x....");
    assert_fails_at("test.status=error@2,test.plain=delay:0,test.status=error@5-5", ".x..x.");
}

FRESH_TEST(a_forced_error_has_the_requested_status_and_names_its_place)
{
    struct dt_error err = {0};
    choose("test.status=error");
    assert_int_equal(pass_status(DT_OK, &err), DT_UNAVAILABLE);
    assert_string_equal(err.text, "fail point test.status");
    choose("test.status=error:DEPOSED");
    assert_int_equal(pass_status(DT_OK, &err), DT_DEPOSED);
}

FRESH_TEST(a_fail_point_is_not_counted_after_an_earlier_failure)
{
    choose("test.status=error@1");
    assert_int_equal(pass_status(DT_BUSY, NULL), DT_BUSY);
    assert_int_equal(passed(), DT_UNAVAILABLE);
}

FRESH_TEST(a_forced_condition_is_true_at_the_chosen_passes)
{
    assert_false(forced());
    choose("test.forced=force@2");
    assert_false(forced());
    assert_true(forced());
    assert_false(forced());
}

FRESH_TEST(a_delay_lasts_as_long_as_was_asked)
{
    choose("test.plain=delay:30@2");
    int64_t began_us = dt_clock_mono_us(dt_clock_system());
    pass_plain();
    pass_plain();
    pass_plain();
    assert_true(dt_clock_mono_us(dt_clock_system()) - began_us >= 30000);
}

static void *pass_often(void *arg)
{
    unsigned *hits = arg;
    for (int i = 0; i < 5000; i++)
        *hits += passed() != DT_OK;
    return NULL;
}

FRESH_TEST(passes_of_all_threads_count_together_and_each_once)
{
    unsigned hits[4] = {0};
    choose("test.status=error@19901-20000");
    dt_log_set_level(DT_LOG_ERROR);
    run_at_once(pass_often, hits, sizeof *hits, 4);
    dt_log_set_level(DT_LOG_INFO);
    assert_int_equal(hits[0] + hits[1] + hits[2] + hits[3], 100);
}

/* ---- in a child ---- */

/* Passes the plain point three times with its log lines in `log`; 7 when it lives. */
static pid_t child(const char *rule, int log)
{
    pid_t pid = fork();
    if (pid != 0)
        return pid;
    choose(rule);
    if (log >= 0)
        dup2(log, STDERR_FILENO);
    for (int i = 0; i < 3; i++)
        pass_plain();
    _exit(7);
}

FRESH_TEST(a_crash_is_a_kill_at_that_very_pass_and_is_logged_before)
{
    int status, ends[2];
    char log[1024] = "";
    assert_int_equal(pipe(ends), 0);
    pid_t pid = child("test.plain=delay:1@1,test.plain=crash@2,test.plain=delay:1@3", ends[1]);
    close(ends[1]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    assert_true(read(ends[0], log, sizeof log - 1) > 0);
    close(ends[0]);
    assert_non_null(strstr(log, "action=delay pass=1"));
    assert_non_null(strstr(log, "point=test.plain action=crash pass=2"));
    assert_null(strstr(log, "pass=3"));
}

FRESH_TEST(a_stop_waits_for_a_continuation)
{
    int status;
    pid_t pid = child("test.plain=stop@2", -1);
    assert_int_equal(waitpid(pid, &status, WUNTRACED), pid);
    assert_true(WIFSTOPPED(status));
    assert_int_equal(kill(pid, SIGCONT), 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 7);
}

/* Passes the plain point and tells that it went on: at once when it was not stopped there. */
static void *pass_and_tell(void *arg)
{
    const int *end = arg;
    pass_plain();
    (void)write(*end, "x", 1);
    return NULL;
}

/* A child whose main thread waits, as a program's does, while another passes the point. */
static pid_t child_of_two_threads(const char *rule, int *end)
{
    pthread_t thread;
    pid_t pid = fork();
    if (pid != 0)
        return pid;
    choose(rule);
    dt_log_set_level(DT_LOG_ERROR);
    if (pthread_create(&thread, NULL, pass_and_tell, end) == 0)
        pthread_join(thread, NULL);
    _exit(7);
}

FRESH_TEST(a_stop_holds_the_thread_that_passes_at_that_very_place)
{
    int stop, end, ends[2];
    char told;
    for (int i = 0; i < 20; i++) { /* one that goes on is still to be stopped by another thread */
        assert_int_equal(pipe2(ends, O_NONBLOCK), 0);
        pid_t pid = child_of_two_threads("test.plain=stop@1", &ends[1]);
        assert_int_equal(waitpid(pid, &stop, WUNTRACED), pid);
        bool went_on = read(ends[0], &told, 1) == 1;
        kill(pid, SIGCONT);
        assert_int_equal(waitpid(pid, &end, 0), WIFSTOPPED(stop) ? pid : -1);
        assert_false(went_on);
        assert_int_equal(read(ends[0], &told, 1), 1);
        close(ends[0]);
        close(ends[1]);
    }
}

/* ---- main's part ---- */

static int main_with(const char *environment, const char *option)
{
    char *argv[] = {(char *)"program", (char *)(uintptr_t)option, NULL};
    if (environment)
        setenv("DUETIME_FAIL", environment, 1);
    else
        unsetenv("DUETIME_FAIL");
    return DT_FAIL_POINTS_MAIN(option ? 2 : 1, argv);
}

FRESH_TEST(a_program_starts_with_valid_rules_and_exits_with_invalid_ones)
{
    assert_int_equal(main_with(NULL, NULL), -1);
    assert_int_equal(main_with("", NULL), -1);
    assert_int_equal(main_with("test.status=error@1", "--help"), -1);
    assert_int_equal(passed(), DT_UNAVAILABLE);
    assert_int_equal(main_with("nonsense", NULL), 2);
    assert_int_equal(main_with(NULL, "--fail-points"), 0);
}

FRESH_TEST(the_list_has_every_point_once_in_order_with_what_it_can_do)
{
    char *text = NULL;
    size_t n = 0;
    FILE *out = open_memstream(&text, &n);
    dt_fail_points_print(out);
    fclose(out);
    assert_string_equal(text, "test.forced force\ntest.plain\ntest.status error\n");
    free(text);
}

#else

TEST(fail_points_do_nothing_in_a_build_without_them)
{
    dt_status status = DT_OK;
    setenv("DUETIME_FAIL", "nonsense", 1);
    assert_int_equal(DT_FAIL_POINTS_MAIN(0, NULL), -1);
    DT_FAIL_POINT("test.plain");
    DT_FAIL_POINT_STATUS("test.status", status, NULL);
    assert_int_equal(status, DT_OK);
    assert_false(DT_FAIL_FORCED("test.forced"));
}

#endif
