/* A suite is a file of tests. TEST(a_job_is_claimed_once) { … } defines a test and registers it, so that none is forgotten. If
 * many tests of a file share a rig, the file defines RIG_TEST(name) by TEST_OF. */
#pragma once

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

/* clang-format off */
#include <cmocka.h>
/* clang-format on */

#include "support/stub.h"

/* These are called before main. `name` lives as long as the program; functions of suite_add and suite_add_of may be NULL. */
void suite_add(const char *name, CMUnitTestFunction run, void (*setup)(void), void (*teardown)(void));
void suite_add_of(const char *name, CMUnitTestFunction run, CMFixtureFunction setup, CMFixtureFunction teardown);
void suite_add_on(const char *name, CMUnitTestFunction run, void (*setup)(void *), void (*teardown)(void *),
                  size_t rig);
/* Runs the registered tests; returns how many failed. Either function may be NULL; both run once, around all tests. */
int suite_run(void (*setup)(void), void (*teardown)(void));
/* A thread that pthread_join ends. */
pthread_t start_thread(void *(*run)(void *), void *arg);
/* Returns when n threads have run at once; the i-th one gets args + i * size. */
void run_at_once(void *(*run)(void *), void *args, size_t size, size_t n);
/* What the set-up of the suite leaves for all its tests: *state of those with TEST_OF and no set-up of their own. */
extern void *suite_state;

/* An arena, a text: empty here, and cleared at the end of the block. */
#define ARENA(name)  __attribute__((cleanup(dt_arena_clear))) struct dt_arena name = {0}
#define STRBUF(name) __attribute__((cleanup(dt_strbuf_clear))) struct dt_strbuf name = {0}
/* OWNED(struct dt_config, config, dt_config_clear) = …: cleared by that function at the end of the block. For a pointer,
 * FREED_AT(dt_store *, dt_store_free) defines dt_store_free_at. */
#define OWNED(type, name, end) __attribute__((cleanup(end))) type name
#define FREED_AT(type, end)                                                                                            \
    static inline void end##_at(type *owned)                                                                           \
    {                                                                                                                  \
        end(*owned);                                                                                                   \
    }

/* At the end of a suite that sets something up for all its tests. A suite without it needs no main(). */
#define SUITE(setup, teardown)                                                                                         \
    int main(void)                                                                                                     \
    {                                                                                                                  \
        return suite_run(setup, teardown);                                                                             \
    }

#define TEST(name) TEST_WITH(name, NULL, NULL)

/* setup and teardown, or NULL, run around this test: void f(void). */
#define TEST_WITH(name, setup, teardown) SUITE_DEFINE(void, , name, suite_add, setup, teardown)

/* The body gets what cmocka's `setup` made (*state) as its parameter, for example `struct rig *rig`. */
#define TEST_OF(parameter, name, setup, teardown)                                                                      \
    SUITE_DEFINE(__attribute__((unused)) parameter, *state, name, suite_add_of, setup, teardown)

/* The body gets a rig of this type, zeroed and then set up: TEST_ON(struct rig, rig, name, make, drop), void make(struct rig *). */
#define TEST_ON(type, rig, name, setup, teardown)                                                                      \
    static void set_up_##name(void *of)                                                                                \
    {                                                                                                                  \
        setup(of);                                                                                                     \
    }                                                                                                                  \
    static void tear_down_##name(__attribute__((unused)) void *of)                                                     \
    {                                                                                                                  \
        teardown(of);                                                                                                  \
    }                                                                                                                  \
    static void name(type *rig);                                                                                       \
    static void run_##name(void **state)                                                                               \
    {                                                                                                                  \
        name(*state);                                                                                                  \
    }                                                                                                                  \
    __attribute__((constructor)) static void add_##name(void)                                                          \
    {                                                                                                                  \
        suite_add_on(#name, run_##name, set_up_##name, tear_down_##name, sizeof(type));                                \
    }                                                                                                                  \
    static void name(__attribute__((unused)) type *rig)

#define NO_TEARDOWN(rig) (void)(rig)

/* assert_members(job, (state, DT_DISPATCHED), (key.p, "k"), (version, 3)): these members of a struct are these numbers, texts
 * and pointers. A failure names the member. */
#define assert_members(of, ...) MEMBERS_ALL(MEMBERS_EACH(of, __VA_ARGS__))
void suite_number_is(uintptr_t is, uintptr_t expected, const char *member, const char *file, int line);
void suite_text_is(uintptr_t is, uintptr_t expected, const char *member, const char *file, int line);

#define MEMBERS_EACH(of, pair, ...)                                                                                    \
    MEMBER_IS(of, MEMBER_OF pair) __VA_OPT__(MEMBERS_NEXT MEMBERS_LATER(of, __VA_ARGS__))
#define MEMBERS_NEXT()         MEMBERS_EACH
#define MEMBERS_LATER          () /* a macro is not expanded inside itself: MEMBERS_ALL reads the text again */
#define MEMBER_OF(name, value) name, value
#define MEMBER_IS(of, ...)     MEMBER_IS_(of, __VA_ARGS__)
#define MEMBER_IS_(of, name, value)                                                                                    \
    _Generic((of).name, char *: suite_text_is, const char *: suite_text_is, default: suite_number_is)(                 \
        (uintptr_t)(of).name, (uintptr_t)(value), #of "." #name, __FILE__, __LINE__);
#define MEMBERS_ALL(...)  MEMBERS_ALL4(MEMBERS_ALL4(MEMBERS_ALL4(MEMBERS_ALL4(__VA_ARGS__))))
#define MEMBERS_ALL4(...) MEMBERS_ALL1(MEMBERS_ALL1(MEMBERS_ALL1(__VA_ARGS__)))
#define MEMBERS_ALL1(...) __VA_ARGS__

#define SUITE_DEFINE(parameter, argument, name, add, setup, teardown)                                                  \
    static void name(parameter);                                                                                       \
    static void run_##name(__attribute__((unused)) void **state)                                                       \
    {                                                                                                                  \
        name(argument);                                                                                                \
    }                                                                                                                  \
    __attribute__((constructor)) static void add_##name(void)                                                          \
    {                                                                                                                  \
        add(#name, run_##name, setup, teardown);                                                                       \
    }                                                                                                                  \
    static void name(parameter)
