/*
 * Wraps cmocka_run_group_tests of every suite (-Wl,--wrap). If DUETIME_TEST_SEED is set, it shuffles the tests by this
 * seed. If DUETIME_ONLY is set, only that test runs. On the simulator's servers, tests are left out if they need SQL
 * that its engine does not support; the build lists them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* clang-format off */
#include <cmocka.h>
/* clang-format on */

#ifndef DT_LEFT_OUT
#define DT_LEFT_OUT "" /* names, separated by spaces */
#endif

enum { TESTS_MAX = 200 };

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

static void shuffle(struct CMUnitTest *tests, size_t n, uint64_t seed)
{
    uint64_t state = (seed + 1) * UINT64_C(0x9E3779B97F4A7C15);
    for (size_t i = n; i > 1; i--) {
        const size_t other = drawn(&state) % i;
        const struct CMUnitTest test = tests[i - 1];
        tests[i - 1] = tests[other];
        tests[other] = test;
    }
}

__typeof__(_cmocka_run_group_tests) __real__cmocka_run_group_tests;
__typeof__(_cmocka_run_group_tests) __wrap__cmocka_run_group_tests;
int __wrap__cmocka_run_group_tests(const char *name, const struct CMUnitTest *tests, size_t n, CMFixtureFunction setup,
                                   CMFixtureFunction teardown)
{
    const char *only = getenv("DUETIME_ONLY"), *seed = getenv("DUETIME_TEST_SEED");
    struct CMUnitTest kept[TESTS_MAX];
    size_t n_kept = 0;

    if (n > TESTS_MAX)
        abort();
    for (size_t i = 0; i < n; i++)
        if (only ? strcmp(only, tests[i].name) == 0 : !is_left_out(tests[i].name))
            kept[n_kept++] = tests[i];
    if (seed && *seed) {
        printf("the order is drawn from seed %s\n", seed);
        fflush(stdout);
        shuffle(kept, n_kept, strtoull(seed, NULL, 10));
    }
    return __real__cmocka_run_group_tests(name, kept, n_kept, setup, teardown);
}
