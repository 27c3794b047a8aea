/*
 * Problem documents (RFC 9457), the answers to refused requests. A 422 has the list of faults of its body. The table
 * below has every problem type with its HTTP status and title; openapi.yaml has the same.
 *
 *   {"type":"/problems/too-late","title":"…","status":409,"detail":"…","request_id":"…",
 *    "errors":[{"pointer":"/run_at","reason":"…"}],"id":"7316522","state":"dispatched","attempt":1}
 *
 * Pure: writes into a buffer. The sender adds the headers of a problem (Retry-After, Allow, WWW-Authenticate);
 * dt_problem_retry_after_s returns the value of Retry-After.
 */
#pragma once

#include "base/text/json_table.h"
#include "delivery.h"
#include "job.h"

#define DT_PROBLEM_MAP(X)                                                                                              \
    X(MALFORMED, 400, "malformed", "The request cannot be parsed")                                                     \
    X(UNAUTHORIZED, 401, "unauthorized", "A bearer token is required")                                                 \
    X(FORBIDDEN, 403, "forbidden", "The request is not allowed")                                                       \
    X(NOT_FOUND, 404, "not-found", "The resource does not exist")                                                      \
    X(METHOD_NOT_ALLOWED, 405, "method-not-allowed", "This resource does not support the method")                      \
    X(TIMEOUT, 408, "timeout", "The request did not arrive in time")                                                   \
    X(KEY_CONFLICT, 409, "key-conflict", "A different request created a job with this key")                            \
    X(TOO_LATE, 409, "too-late", "The job is no longer scheduled")                                                     \
    X(NOT_DEAD, 409, "not-dead", "Only a dead job can be redriven")                                                    \
    X(NOT_PULL, 409, "not-pull", "The delivery of the topic is not pull")                                              \
    X(TOPIC_IN_USE, 409, "topic-in-use", "The topic has unfinished jobs or a schedule")                                \
    X(TOPIC_DELETING, 409, "topic-deleting", "The topic is being deleted")                                             \
    X(NO_TEST_CLOCK, 409, "no-test-clock", "The installation has no test clock")                                       \
    X(VERSION_MISMATCH, 412, "version-mismatch", "The job has a different version")                                    \
    X(TOO_LARGE, 413, "too-large", "The request is too large")                                                         \
    X(TARGET_TOO_LONG, 414, "target-too-long", "The URL of the request is too long")                                   \
    X(UNSUPPORTED_MEDIA_TYPE, 415, "unsupported-media-type", "The content type of the body is not supported")          \
    X(INVALID, 422, "invalid", "The request is invalid")                                                               \
    X(QUOTA_EXCEEDED, 429, "quota-exceeded", "A quota of the token is exceeded; nothing was changed")                  \
    X(HEADERS_TOO_LARGE, 431, "headers-too-large", "The headers of the request are too large")                         \
    X(INTERNAL, 500, "internal", "An internal error occurred")                                                         \
    X(UNAVAILABLE, 503, "unavailable", "Temporarily unavailable; nothing was changed")                                 \
    X(OUTCOME_UNKNOWN, 503, "outcome-unknown", "The outcome is unknown; check before you retry")                       \
    X(VERSION_NOT_SUPPORTED, 505, "version-not-supported", "This version of HTTP is not supported")

enum dt_problem_type {
#define X(name, status, slug, title) DT_PROBLEM_##name,
    DT_PROBLEM_MAP(X)
#undef X
        DT_PROBLEM_TYPES
};

/* Adds a fault for a member that does not fit the topic of the job. */
void dt_faults_add_misfit(struct dt_faults *faults, const struct dt_callback_misfit *misfit);

/* A problem to be written. Absent or zero members are left out. Copied by assignment; texts are borrowed. */
struct dt_problem {
    enum dt_problem_type type;
    struct dt_str detail;           /* absent = none */
    const struct dt_faults *faults; /* errors[]; NULL or empty = none */
    int64_t id;                     /* id of the job; 0 = none */
    const struct dt_job *job; /* the job, for state and attempt (too-late, not-dead) or version (version-mismatch);
                               * NULL = none */
    const char *quota;        /* name of the quota, for quota-exceeded, with the next two members; NULL = none */
    int64_t limit;
    int64_t retry_after_ms; /* overrides dt_problem_retry_after_s; 0 = none */
};

/* Returns the last part of the type's URI, like "too-late". */
const char *dt_problem_slug(enum dt_problem_type type);
int dt_problem_http_status(enum dt_problem_type type);
/* Returns the first type of the table with this HTTP status. The table must have one. */
enum dt_problem_type dt_problem_for_http(int http_status);
/* Returns the problem that a caller gets for a status; INTERNAL for DT_OK, which is a bug. */
enum dt_problem_type dt_problem_of_status(dt_status status);
/* Returns the seconds for Retry-After; 0 = no such header. */
int64_t dt_problem_retry_after_s(const struct dt_problem *problem);
/* Appends the document. request_id is absent in a line of a batch. */
void dt_problem_add(struct dt_strbuf *out, const struct dt_problem *problem, struct dt_str request_id);
/* Appends the problem as a human-readable line: "<slug>: <detail>", the job's attempt, and the faults of members. */
void dt_problem_add_text(struct dt_strbuf *out, const struct dt_problem *problem);
