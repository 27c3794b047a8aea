/* Keeps the tests of a suite and runs them. If DUETIME_TEST_SEED is set, it shuffles the tests by this seed. If
 * DUETIME_ONLY is set, only that test runs. On the simulator's servers, tests are left out if they need SQL that its
 * engine does not support; the build lists them. */
#include "support/suite.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef DT_LEFT_OUT
#define DT_LEFT_OUT "" /* names, separated by spaces */
#endif

enum { TESTS_MAX = 200 };

struct fixture {
    void (*setup)(void), (*teardown)(void);
    void (*make)(void *), (*drop)(void *); /* of a rig of so many bytes */
    size_t size;
};

static struct CMUnitTest tests[TESTS_MAX];
static struct fixture fixtures[TESTS_MAX + 1];
static struct fixture group;
void *suite_state;
static size_t n_tests;

static bool is_left_out(const char *name)
{
    static const char left_out[] = DT_LEFT_OUT;
    const size_t n = strlen(name);
    for (const char *at = strstr(left_out, name); at; at = strstr(at + 1, name))
        if ((at == left_out || at[-1] == ' ') && (at[n] == ' ' || at[n] == '\0'))
            return true;
    return false;
}

/* xorshift64*: the same order on every machine. */
static uint64_t drawn(uint64_t *state)
{
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * UINT64_C(2685821657736338717) >> 32;
}

static void shuffle(uint64_t seed)
{
    uint64_t state = (seed + 1) * UINT64_C(0x9E3779B97F4A7C15);
    for (size_t i = n_tests; i > 1; i--) {
        const size_t other = drawn(&state) % i;
        const struct CMUnitTest test = tests[i - 1];
        tests[i - 1] = tests[other];
        tests[other] = test;
    }
}

static struct fixture *running; /* that of the rig's test */

static int set_up(void **state)
{
    const struct fixture *fixture = *state;
    if (fixture->setup)
        fixture->setup();
    return 0;
}

static int tear_down(void **state)
{
    const struct fixture *fixture = *state;
    if (fixture->teardown)
        fixture->teardown();
    return 0;
}

static int make_rig(void **state)
{
    running = *state;
    *state = calloc(1, running->size);
    assert_non_null(*state);
    running->make(*state);
    return 0;
}

static int drop_rig(void **state)
{
    running->drop(*state);
    free(*state);
    return 0;
}

static int set_up_all(void **state)
{
    if (group.setup)
        group.setup();
    *state = suite_state;
    return 0;
}

static int tear_down_all(void **)
{
    if (group.teardown)
        group.teardown();
    return 0;
}

/* Returns false if the test is left out. */
static bool add(const struct CMUnitTest *test)
{
    const char *only = getenv("DUETIME_ONLY");
    if (only ? strcmp(only, test->name) != 0 : is_left_out(test->name))
        return false;
    if (n_tests == TESTS_MAX)
        abort();
    tests[n_tests++] = *test;
    return true;
}

void suite_add(const char *name, CMUnitTestFunction run, void (*setup)(void), void (*teardown)(void))
{
    struct fixture *fixture = &fixtures[n_tests];
    if (add(&(struct CMUnitTest){name, run, set_up, tear_down, fixture}))
        *fixture = (struct fixture){.setup = setup, .teardown = teardown};
}

void suite_add_of(const char *name, CMUnitTestFunction run, CMFixtureFunction setup, CMFixtureFunction teardown)
{
    add(&(struct CMUnitTest){name, run, setup, teardown, NULL});
}

void suite_add_on(const char *name, CMUnitTestFunction run, void (*setup)(void *), void (*teardown)(void *), size_t rig)
{
    struct fixture *fixture = &fixtures[n_tests];
    if (add(&(struct CMUnitTest){name, run, make_rig, drop_rig, fixture}))
        *fixture = (struct fixture){.make = setup, .drop = teardown, .size = rig};
}

pthread_t start_thread(void *(*run)(void *), void *arg)
{
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, run, arg), 0);
    return thread;
}

void run_at_once(void *(*run)(void *), void *args, size_t size, size_t n)
{
    pthread_t threads[16];
    assert_in_range(n, 1, 16);
    for (size_t i = 0; i < n; i++)
        threads[i] = start_thread(run, args ? (char *)args + i * size : NULL);
    for (size_t i = 0; i < n; i++)
        pthread_join(threads[i], NULL);
}

void suite_number_is(uintptr_t is, uintptr_t expected, const char *member, const char *file, int line)
{
    if (is == expected)
        return;
    print_error("%s is %lld (%#llx), not %lld\n", member, (long long)is, (unsigned long long)is, (long long)expected);
    _fail(file, line);
}

void suite_text_is(uintptr_t is, uintptr_t expected, const char *member, const char *file, int line)
{
    const char *text = (const char *)is;
    const char *wanted = (const char *)expected;
    if (text == wanted || (text && wanted && strcmp(text, wanted) == 0))
        return;
    print_error("%s is \"%s\", not \"%s\"\n", member, text ? text : "(null)", wanted ? wanted : "(null)");
    _fail(file, line);
}

int suite_run(void (*setup)(void), void (*teardown)(void))
{
    signal(SIGPIPE, SIG_IGN); /* as the programs do */
    const char *seed = getenv("DUETIME_TEST_SEED");
    if (seed && *seed) {
        printf("the order is drawn from seed %s\n", seed);
        fflush(stdout);
        shuffle(strtoull(seed, NULL, 10));
    }
    group = (struct fixture){.setup = setup, .teardown = teardown};
    return _cmocka_run_group_tests(program_invocation_short_name, tests, n_tests, set_up_all, tear_down_all);
}

__attribute__((weak)) int main(void)
{
    return suite_run(NULL, NULL);
}
