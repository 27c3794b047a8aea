/*
 * A suite is a file of tests that ends with SUITE(). TEST(a_job_is_claimed_once) { … } defines a test and registers it, so that
 * none is forgotten. If many tests of a file share a rig, the file defines RIG_TEST(name) by TEST_OF.
 */
#ifndef TESTS_SUPPORT_SUITE_H
#define TESTS_SUPPORT_SUITE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

/* clang-format off */
#include <cmocka.h>
/* clang-format on */

/* Called before main. `name` lives as long as the program. */
void suite_add(const char *name, CMUnitTestFunction run, CMFixtureFunction setup, CMFixtureFunction teardown);
/* Runs the registered tests; returns how many failed. Either function may be NULL; both run once, around all tests. */
int suite_run(CMFixtureFunction setup, CMFixtureFunction teardown);

#define SUITE(setup, teardown)                                                                                         \
    int main(void)                                                                                                     \
    {                                                                                                                  \
        return suite_run(setup, teardown);                                                                             \
    }

#define TEST(name) TEST_WITH(name, NULL, NULL)

/* setup and teardown, or NULL, run around this test. Its body may use `state`. */
#define TEST_WITH(name, setup, teardown) SUITE_DEFINE(void **state, state, name, setup, teardown)

/* The body gets *state as its parameter, for example `struct rig *rig`. */
#define TEST_OF(parameter, name, setup, teardown) SUITE_DEFINE(parameter, *state, name, setup, teardown)

#define SUITE_DEFINE(parameter, argument, name, setup, teardown)                                                       \
    static void name(parameter);                                                                                       \
    static void run_##name(void **state)                                                                               \
    {                                                                                                                  \
        name(argument);                                                                                                \
    }                                                                                                                  \
    __attribute__((constructor)) static void add_##name(void)                                                          \
    {                                                                                                                  \
        suite_add(#name, run_##name, setup, teardown);                                                                 \
    }                                                                                                                  \
    static void name(__attribute__((unused)) parameter)

#endif
