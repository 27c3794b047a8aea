/*
 * The domain: what a job is. Pure: no I/O, no globals, no clock.
 */
#ifndef DT_JOB_JOB_H
#define DT_JOB_JOB_H

#include <stdbool.h>
#include <stdint.h>

#include "base/text/strbuf.h"
#include "job_columns.h"

#define DT_TOPIC_MAX              200
#define DT_KAFKA_TOPIC_MAX        249
#define DT_KEY_MAX                255
#define DT_PARTITION_KEY_MAX      255
#define DT_CONTENT_TYPE_MAX       255
#define DT_HEADERS_TEXT_MAX       65535 /* bytes of a job's headers as JSON, in which they are kept */
#define DT_ERROR_CODE_MAX         100   /* bytes; longer ones are cut at a character */
#define DT_ERROR_MESSAGE_MAX      1000
#define DT_ACK_TIMEOUT_DEFAULT_MS INT64_C(300000)
#define DT_RETENTION_DEFAULT_MS   (INT64_C(30) * 86400000)
#define DT_RETRY_DEFAULT          "15s 3m 10m 30m 30m 1h 2h 6h 15h"
#define DT_DAY_MS                 INT64_C(86400000)

/* In the order of the ENUM jobs.state (1-based in SQL). */
enum dt_job_state { DT_SCHEDULED, DT_DISPATCHED, DT_SUCCEEDED, DT_DEAD, DT_CANCELLED, DT_JOB_STATES };
/* In the order of the ENUM attempt_status. NONE = no attempt yet (NULL). */
enum dt_attempt_status {
    DT_ATTEMPT_NONE,
    DT_ATTEMPT_DISPATCHED,
    DT_ATTEMPT_SUCCEEDED,
    DT_ATTEMPT_FAILED,
    DT_ATTEMPT_TIMED_OUT,
    DT_ATTEMPT_SNOOZED,
    DT_ATTEMPT_GAVE_UP,
    DT_ATTEMPT_UNDELIVERABLE,
    DT_ATTEMPT_LOST, /* the process that had it in its hands is gone: it spends no failure */
    DT_ATTEMPT_STATUSES
};

const char *dt_job_state_name(enum dt_job_state state);
const char *dt_attempt_status_name(enum dt_attempt_status status);
bool dt_job_state_parse(struct dt_str word, enum dt_job_state *out);
static inline bool dt_job_state_terminal(enum dt_job_state s)
{
    return s >= DT_SUCCEEDED;
}

/* A row of `jobs` or `history` as read. Slices belong to the arena or result that it was read into; NULL columns are
 * absent (.p NULL). */
struct dt_job {
    DT_JOB_COLUMNS(DT_COLUMN_MEMBER, DT_COLUMN_MEMBER, DT_COLUMN_MEMBER)
    struct dt_str payload;
    int64_t was_next_at_ms; /* of what a change gives back: next_at before it, for the index; else 0 */
    bool unsettled;         /* of a change that was refused: only an attempt in flight is in its way; see store.h */
};

/* The first header of a job that a callback cannot carry. reason NULL: there is none; else it is static text. */
struct dt_header_fault {
    struct dt_str name;
    const char *reason;
};

/* The members that make a job. Slices are borrowed. */
struct dt_new_job {
    int64_t id;
    struct dt_str topic, key;
    bool by_command; /* the key is an id, of which there is one in the installation among jobs that were made so */
    int64_t run_at_ms;
    struct dt_str retry;    /* absent = the topic's, copied at insert */
    int64_t ack_timeout_ms; /* 0 = the topic's, copied at insert */
    DT_JOB_COLUMNS(DT_COLUMN_NONE, DT_COLUMN_MEMBER, DT_COLUMN_MEMBER)
    struct dt_str payload;
    unsigned char digest[16]; /* of the request, see job/job_decode.h */
    struct dt_header_fault header_fault;
};

/* A job whose time changed, for the index: due_ms 0 = it is not to be met any more, was_ms 0 = it was nowhere
 * before. */
struct dt_job_move {
    int64_t id, due_ms, was_ms;
};

/* Bytes of its texts and its payload. */
size_t dt_job_bytes(const struct dt_job *job);
size_t dt_new_job_bytes(const struct dt_new_job *job);
/* Whether it has any of CONTENT and EXTRA. */
bool dt_new_job_has_extras(const struct dt_new_job *job);
/* The job as its row is when it was just made: scheduled, version 1. Slices are those of `made`. */
void dt_job_from_new(struct dt_job *job, const struct dt_new_job *made, int64_t created_ms);

/* The topics of somebody who may not see all: their names begin with one of the prefixes, none of
 * which is empty; without any it is no topic. */
struct dt_topic_bound {
    const struct dt_str *prefixes;
    size_t n;
};
/* Whether a topic is one of them; any topic is when bound is NULL. */
bool dt_topic_within(const struct dt_topic_bound *bound, struct dt_str topic);

/* Topic names: 1-200 of [A-Za-z0-9._-], not "." or "..", not starting with "__" or "<installation>.". NULL = fine, else
 * the reason. */
const char *dt_topic_check(struct dt_str topic, struct dt_str installation);
/*
 * Whether a Kafka topic of this name may be internal to an installation, ours or another on the same Kafka: "__…", and
 * every name that ends in one of .ledger .results .results.rejected .commands .commands.rejected .dead .alerts. What
 * stands before the ending is any installation's name, so no part of it tells them apart. Nothing else is refused:
 * "orders.commands.create", "results" and "exam_results" are anybody's.
 */
bool dt_kafka_topic_internal(struct dt_str kafka_topic);
/* Can the name of a topic begin so? Not empty. */
bool dt_topic_prefix_valid(struct dt_str prefix);
/* Is the name among a list of names, and of prefixes that end in *, such as "shared.audit,public.*"? */
bool dt_topic_listed(const char *list, struct dt_str name);

#define DT_SEQUENCE_BITS 40 /* of an id; what is above them is its home day */
/*
 * id = home day (days since 2025-01-01 of the first run_at, 0 before it) << 40 | sequence. Of the sequence number the
 * low 39 bits count: the upper half of the numbers of a day is left to rows that were not made by an API (tests).
 */
int64_t dt_job_id(int64_t run_at_ms, int64_t sequence);
/* The day that it carries. */
static inline int32_t dt_job_home_day(int64_t id)
{
    return (int32_t)(id >> DT_SEQUENCE_BITS);
}

/* The longest time for a result that is reckoned with, a hundred years: now + it is a time. */
#define DT_ACK_MAX_MS INT64_C(3155760000000)
/* How much of it a slow batch may take before its deadline is renewed, which costs as much as the claim did: a
 * twentieth, 100 ms at least and a second at most. */
int64_t dt_ack_may_lose_ms(int64_t ack_timeout_ms);

/* Times before this one are in the exact part of the due index: end of the UTC day that contains now + 48 h. */
int64_t dt_near_end_ms(int64_t now_ms);

#endif
