/* Calls of the database, and for memory, that fail where a suite says: of one thread, the n-th from now on, once. The
 * linker wraps them (tests/CMakeLists.txt). A server that refuses a statement so goes on. */
#pragma once

#include "support/failing_calls.h"

/* ROOM: memory of an arena, which only mostly is a call for memory; nobody may go on without it. */
enum kind { STATEMENT, ROOM, MEMORY, KINDS };

static _Thread_local unsigned left[KINDS]; /* calls until one fails; 0: none does */
static _Thread_local bool failed;
static _Thread_local const char *failed_call __attribute__((unused));

static inline bool fails(enum kind kind, const char *call)
{
    if (left[kind] == 0 || --left[kind] > 0)
        return false;
    failed = true;
    failed_call = call;
    return true;
}

#define WRAP(name, what, params, args)                                                                                 \
    __typeof__(name) __real_##name;                                                                                    \
    __typeof__(name) __wrap_##name;                                                                                    \
    dt_status __wrap_##name params                                                                                     \
    {                                                                                                                  \
        return fails(STATEMENT, what) ? dt_fail(error, DT_INTERNAL, "the test lets it fail: %.60s", what)              \
                                      : __real_##name args;                                                            \
    }

CALLS_OF_THE_DATABASE(WRAP)

#define WRAP_MEMORY(type, name, params, args)                                                                          \
    __typeof__(name) __real_##name;                                                                                    \
    __typeof__(name) __wrap_##name;                                                                                    \
    type __wrap_##name params                                                                                          \
    {                                                                                                                  \
        return fails(MEMORY, #name) ? NULL : __real_##name args;                                                       \
    }

CALLS_FOR_MEMORY(WRAP_MEMORY)

/* ---- arenas, as far as another file asks them ---- */

__typeof__(dt_arena_alloc) __real_dt_arena_alloc;
__typeof__(dt_arena_alloc) __wrap_dt_arena_alloc;
void *__wrap_dt_arena_alloc(struct dt_arena *arena_of, size_t n)
{
    return fails(ROOM, "dt_arena_alloc") ? NULL : __real_dt_arena_alloc(arena_of, n);
}

__typeof__(dt_arena_copy) __real_dt_arena_copy;
__typeof__(dt_arena_copy) __wrap_dt_arena_copy;
struct dt_str __wrap_dt_arena_copy(struct dt_arena *arena_of, struct dt_str text)
{
    return text.p && fails(ROOM, "dt_arena_copy") ? DT_STR_NONE : __real_dt_arena_copy(arena_of, text);
}
