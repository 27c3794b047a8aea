/*
 * A contract suite on the simulator's servers: the suite's main becomes a fiber of a world in which nothing goes wrong
 * by itself. What the engine behind db.h does not know ends the program, so tests that need it are named here, each
 * with what it needs, and are not run: they hold for the real server.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* clang-format off */
#include <cmocka.h>
/* clang-format on */

#include "simulator/world.h"

int suite_main(void); /* the suite's own, renamed by the build */

static int result;

static void *run(void *arg)
{
    (void)arg;
    result = suite_main();
    world_stop();
    return NULL;
}

int main(void)
{
    world_begin(1);
    fiber_start(NULL, run, NULL);
    world_run(NEVER - 1);
    return result;
}

/* "name" of tests that are left out, by the build from the list in CMakeLists.txt. */
static const char left_out[] = DT_LEFT_OUT;

static bool is_left_out(const char *name)
{
    size_t n = strlen(name);
    for (const char *at = strstr(left_out, name); at; at = strstr(at + 1, name))
        if ((at == left_out || at[-1] == ' ') && (at[n] == ' ' || at[n] == '\0'))
            return true;
    return false;
}

/* Behind cmocka_run_group_tests. */
__typeof__(_cmocka_run_group_tests) __real__cmocka_run_group_tests;
__typeof__(_cmocka_run_group_tests) __wrap__cmocka_run_group_tests;
int __wrap__cmocka_run_group_tests(const char *name, const struct CMUnitTest *tests, size_t n, CMFixtureFunction setup,
                                   CMFixtureFunction teardown)
{
    struct CMUnitTest kept[200];
    const char *only = getenv("DUETIME_ONLY");
    size_t n_kept = 0;
    for (size_t i = 0; i < n && n_kept < sizeof kept / sizeof *kept; i++)
        if (only ? strcmp(only, tests[i].name) == 0 : !is_left_out(tests[i].name))
            kept[n_kept++] = tests[i];
    return __real__cmocka_run_group_tests(name, kept, n_kept, setup, teardown);
}
