/*
 * One way to fail: every function that can fail returns a dt_status. This table has all codes, classes and texts.
 * A caller compares only codes that the function's header names. The class says whether further attempts can succeed;
 * outage.c uses it to decide whether an operator has to act.
 *
 *   retry      the request is right; the same call may succeed later
 *   conflict   an ordinary result of concurrent use, not worth an error line in the log
 *   permanent  the same call will fail again
 *   fatal      this process cannot continue its work
 */
#pragma once

/* The headers of the C library that every file may use without including them. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DT_STATUS_MAP(X)                                                                                               \
    X(OK, NONE, "ok")                                                                                                  \
    X(UNAVAILABLE, RETRY, "the server cannot be reached or did not answer in time")                                    \
    X(BUSY, RETRY, "deadlock or lock wait timeout; rolled back")                                                       \
    X(FULL, RETRY, "a bounded queue is full")                                                                          \
    X(UNKNOWN, RETRY, "the connection was lost during a commit: the outcome is unknown")                               \
    X(SHUTDOWN, RETRY, "the process is shutting down")                                                                 \
    X(NOT_FOUND, CONFLICT, "no such thing")                                                                            \
    X(EXISTS, CONFLICT, "exists already, and differs")                                                                 \
    X(TOO_LATE, CONFLICT, "the job is no longer scheduled")                                                            \
    X(NOT_DEAD, CONFLICT, "the job is not dead")                                                                       \
    X(VERSION, CONFLICT, "the row has another version")                                                                \
    X(DEPOSED, CONFLICT, "another leader has written the shard's row")                                                 \
    X(HALTED, PERMANENT, "the shard is halted until an operator clears it")                                            \
    X(INVALID, PERMANENT, "invalid value")                                                                             \
    X(MALFORMED, PERMANENT, "malformed text")                                                                          \
    X(TOO_LARGE, PERMANENT, "too large")                                                                               \
    X(UNSUPPORTED, PERMANENT, "not supported")                                                                         \
    X(DENIED, PERMANENT, "the caller may not do this")                                                                 \
    X(FORBIDDEN, PERMANENT, "a server does not allow this for duetime's account")                                      \
    X(REFUSED, PERMANENT, "permanently refused by Kafka")                                                              \
    X(DOUBT, RETRY, "the outcome of a Kafka transaction is in doubt: take over again")                                 \
    X(SCHEMA, PERMANENT, "the database schema is missing, older or newer than this program")                           \
    X(CORRUPT, FATAL, "stored data is invalid")                                                                        \
    X(NOMEM, FATAL, "out of memory")                                                                                   \
    X(SYSTEM, FATAL, "a system call failed")                                                                           \
    X(INTERNAL, FATAL, "internal error")

enum dt_class { DT_CLASS_NONE, DT_CLASS_RETRY, DT_CLASS_CONFLICT, DT_CLASS_PERMANENT, DT_CLASS_FATAL };

/* A status must be checked, or cast to void. */
#ifdef __clang__
#define DT_STATUS_CHECKED __attribute__((warn_unused_result))
#else
#define DT_STATUS_CHECKED [[nodiscard]]
#endif
typedef enum DT_STATUS_CHECKED dt_status {
#define X(name, cls, text) DT_##name,
    DT_STATUS_MAP(X)
#undef X
} dt_status;

/* Runs a step if all steps before it have succeeded; otherwise the step is not evaluated. The status of the step
 * becomes the value of `status`. */
#define DT_THEN(status, step) ((status) = (status) == DT_OK ? (step) : (status))

/* Compares two numbers for a sort: negative, 0 or positive. */
#define DT_ORDER(a, b) (((a) > (b)) - ((a) < (b)))

#define DT_MUST_CHECK        __attribute__((warn_unused_result))
#define DT_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))

/* Returns the name of the status, such as "UNAVAILABLE"; never NULL. */
const char *dt_status_name(dt_status status);
/* Returns the text of the status in the table; never NULL. */
const char *dt_status_text(dt_status status);
enum dt_class dt_status_class(dt_status status);

/* The reason of a failure, written by the function that detects it. Every function with an err accepts NULL. Without a
 * failure the text is empty. */
struct dt_error {
    dt_status status;
    bool alarm; /* an operator must act, because further attempts fail, too */
    char text[320];
};

/* Sets *err, unless err is NULL, and returns status. */
dt_status dt_fail(struct dt_error *err, dt_status status, const char *fmt, ...) DT_PRINTF(3, 4);
