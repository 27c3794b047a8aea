/* What a job is. Pure: no I/O, no globals, no clock. */
#pragma once

#include "base/text/strbuf.h"
#include "base/text/timetext.h"

/*
 * The columns of a job, in one table. From it come the members of struct dt_job, struct dt_new_job, struct dt_patch and
 * struct dt_outgoing, and the code that inserts, reads, changes and compares each of them. The statements that name the
 * columns are in job/change/job_rows.sql, in the order of the table (tests/unit/job/test_job_columns.c). The payload,
 * which may be large, comes after all of them and is not in the table.
 *
 * A use of the table passes three macros of (kind, member, column), one for each group:
 *
 * - ROW: the store writes the column, or a caller sets it by a separate member or function;
 * - CONTENT: a caller sets and changes the column together with the payload;
 * - EXTRA: a caller sets and changes the column separately; most jobs do not have it.
 *
 * Kinds: INT int64_t; FLAG bool; TEXT struct dt_str, absent for NULL; SHARD int, the column has -1 for none; STATE and
 * STATUS the ENUMs jobs.state and jobs.attempt_status. Times are in ms since 1970, 0 = none.
 */
#define DT_JOB_COLUMNS(ROW, CONTENT, EXTRA)                                                                            \
    ROW(INT, id, id)                                                                                                   \
    ROW(TEXT, topic, topic)                                                                                            \
    ROW(TEXT, key, job_key)                                                                                            \
    ROW(STATE, state, state)                                                                                           \
    ROW(INT, run_at_ms, run_at)                                                                                        \
    ROW(INT, next_at_ms, next_at) /* 0 in terminal states */                                                           \
    ROW(INT, attempt, attempt)                                                                                         \
    ROW(INT, failures, failures)                                                                                       \
    ROW(STATUS, attempt_status, attempt_status)                                                                        \
    ROW(INT, due_at_ms, due_at)               /* next_at when the latest attempt was claimed */                        \
    ROW(INT, dispatched_at_ms, dispatched_at) /* when the latest attempt was claimed */                                \
    ROW(INT, finished_at_ms, finished_at)     /* when the latest attempt, or the job, ended */                         \
    ROW(SHARD, claim_shard, claim_shard)      /* the shard that claimed the latest attempt */                          \
    ROW(FLAG, no_retries, no_retries)         /* no attempt follows the current one */                                 \
    ROW(TEXT, retry, retry)                   /* canonical text (see below); empty = no retries */                     \
    ROW(INT, ack_timeout_ms, ack_timeout_ms)                                                                           \
    EXTRA(TEXT, partition_key, partition_key)                                                                          \
    EXTRA(TEXT, headers, headers)           /* JSON object text */                                                     \
    EXTRA(TEXT, callback_url, callback_url) /* absent = the topic's URL at the time of an attempt */                   \
    CONTENT(TEXT, content_type, content_type)                                                                          \
    CONTENT(FLAG, payload_binary, payload_binary) /* the payload was given as payload_base64 */                        \
    ROW(TEXT, error_code, error_code)             /* error of the last failure, like the next two columns */           \
    ROW(TEXT, error_message, error_message)                                                                            \
    ROW(INT, error_at_ms, error_at)                                                                                    \
    ROW(INT, created_at_ms, created_at)                                                                                \
    ROW(INT, updated_at_ms, updated_at)                                                                                \
    ROW(INT, version, version)

/* The macro for groups of columns that a use of the table leaves out; expands to nothing. */
#define DT_COLUMN_NONE(kind, member, column)

#define DT_COLUMN_MEMBER(kind, member, column) DT_COLUMN_TYPE_##kind member;
#define DT_COLUMN_TYPE_INT                     int64_t
#define DT_COLUMN_TYPE_FLAG                    bool
#define DT_COLUMN_TYPE_TEXT                    struct dt_str
#define DT_COLUMN_TYPE_SHARD                   int
#define DT_COLUMN_TYPE_STATE                   enum dt_job_state
#define DT_COLUMN_TYPE_STATUS                  enum dt_attempt_status

/* Counts the columns of a group: enum { N = 0 DT_JOB_COLUMNS(…DT_COLUMN_ONE…) }. */
#define DT_COLUMN_ONE(kind, member, column) +1 /* NOLINT(bugprone-macro-parentheses): a term of a sum */

#define DT_TOPIC_MAX              200
#define DT_KAFKA_TOPIC_MAX        249
#define DT_KEY_MAX                255
#define DT_PARTITION_KEY_MAX      255
#define DT_CONTENT_TYPE_MAX       255
#define DT_HEADERS_TEXT_MAX       65535 /* most bytes of a job's headers, stored as JSON */
#define DT_ERROR_CODE_MAX         100   /* most bytes of an error code; a longer one is cut, between characters */
#define DT_ERROR_MESSAGE_MAX      1000
#define DT_ACK_TIMEOUT_DEFAULT_MS INT64_C(300000)
#define DT_RETENTION_DEFAULT_MS   (INT64_C(30) * 86400000)
#define DT_RETRY_DEFAULT          "15s 3m 10m 30m 30m 1h 2h 6h 15h"
#define DT_DAY_MS                 INT64_C(86400000)

/* Values in the order of the ENUM jobs.state, which is 1-based in SQL. */
enum dt_job_state { DT_SCHEDULED, DT_DISPATCHED, DT_SUCCEEDED, DT_DEAD, DT_CANCELLED, DT_JOB_STATES };
/* Values in the order of the ENUM attempt_status. NONE = no attempt yet (NULL). */
enum dt_attempt_status {
    DT_ATTEMPT_NONE,
    DT_ATTEMPT_DISPATCHED,
    DT_ATTEMPT_SUCCEEDED,
    DT_ATTEMPT_FAILED,
    DT_ATTEMPT_TIMED_OUT,
    DT_ATTEMPT_SNOOZED,
    DT_ATTEMPT_GAVE_UP,
    DT_ATTEMPT_UNDELIVERABLE,
    DT_ATTEMPT_LOST, /* the process that had claimed the attempt for a callback died; not counted as a failure */
    DT_ATTEMPT_STATUSES
};

const char *dt_job_state_name(enum dt_job_state state);
const char *dt_attempt_status_name(enum dt_attempt_status status);
bool dt_job_state_parse(struct dt_str word, enum dt_job_state *out);
static inline bool dt_job_state_terminal(enum dt_job_state s)
{
    return s >= DT_SUCCEEDED;
}

/* A row of `jobs` or `history`. Texts are in the arena or in the query result that the row was read into. The text of a
 * NULL column is absent (.p NULL). */
struct dt_job {
    DT_JOB_COLUMNS(DT_COLUMN_MEMBER, DT_COLUMN_MEMBER, DT_COLUMN_MEMBER)
    struct dt_str payload;
    int64_t was_next_at_ms; /* set by a change, for the index: next_at before the change; else 0 */
    /* set by a refused change: only an attempt whose batch is not settled prevents the change (job/change/jobs.h) */
    bool unsettled;
};

/* The first header of a job that a callback cannot send. reason: static text; NULL: a callback can send all headers. */
struct dt_header_fault {
    struct dt_str name;
    const char *reason;
};

/* The values from which a job is made. Texts are borrowed. */
struct dt_new_job {
    int64_t id;
    struct dt_str topic, key;
    bool by_command; /* the key is the id of a command: unique in the installation among jobs that commands made */
    int64_t run_at_ms;
    struct dt_str retry;    /* absent = copied from the topic at insert */
    int64_t ack_timeout_ms; /* 0 = copied from the topic at insert */
    DT_JOB_COLUMNS(DT_COLUMN_NONE, DT_COLUMN_MEMBER, DT_COLUMN_MEMBER)
    struct dt_str payload;
    unsigned char digest[16]; /* digest of the request, see job/job_json.h */
    struct dt_header_fault header_fault;
};

/* A job whose time changed, for the index. due_ms 0: the entry is removed. was_ms 0: the index had no entry. */
struct dt_job_move {
    int64_t id, due_ms, was_ms;
};

/* Returns the number of bytes of the job's texts and of its payload. */
size_t dt_job_bytes(const struct dt_job *job);
size_t dt_new_job_bytes(const struct dt_new_job *job);
/* Returns true if at least one column of CONTENT or EXTRA has a value. */
bool dt_new_job_has_extras(const struct dt_new_job *job);
/* Sets *job to the row of a new job: scheduled, version 1. The texts are borrowed from `made`. */
void dt_job_from_new(struct dt_job *job, const struct dt_new_job *made, int64_t created_ms);

/* The topics that a caller with limited access may see: those whose names begin with one of the prefixes. No prefix is
 * empty. Without prefixes the caller sees no topic. */
struct dt_topic_bound {
    const struct dt_str *prefixes;
    size_t n;
};
/* Returns true if the caller may see the topic, or bound is NULL. */
bool dt_topic_within(const struct dt_topic_bound *bound, struct dt_str topic);

/* Checks a topic's name: 1 to 200 of [A-Za-z0-9._-], not "." or "..", not starting with "__" or "<installation>.".
 * Returns NULL, or the reason. */
const char *dt_topic_check(struct dt_str topic, struct dt_str installation);
/* Last parts of the names of an installation's own topics in Kafka: the name of the installation, a dot, and one of
 * these. The ledger is the first. The CHECKs of the table topics have the same list. */
#define DT_KAFKA_OWN_TOPICS 7
extern const char *const dt_kafka_own_topics[DT_KAFKA_OWN_TOPICS];
/* Returns true if a Kafka topic of this name may be internal to an installation, this one or another one on the same
 * Kafka. Such names start with "__", or end in a dot and one of dt_kafka_own_topics. The part before the ending is the
 * name of an installation, which may be any text. Names like "orders.commands.create", "results" and "exam_results" are
 * free. */
bool dt_kafka_topic_internal(struct dt_str kafka_topic);
/* Returns true if the name of a topic can begin with this prefix. Returns false for the empty prefix. */
bool dt_topic_prefix_valid(struct dt_str prefix);
/* Returns true if the list has the name, or a prefix of the name. A prefix in the list ends in *:
 * "shared.audit,public.*". */
bool dt_topic_listed(const char *list, struct dt_str name);

#define DT_SEQUENCE_BITS 40 /* bits of the sequence in an id; the bits above them are the home day */
/* Makes an id: home day << 40 | sequence. The home day is the day of the first run_at, counted from 2025-01-01 (0
 * before that day). Only the low 39 bits of the sequence are used; ids with bit 39 set are for rows that no API made
 * (tests). */
int64_t dt_job_id(int64_t run_at_ms, int64_t sequence);
static inline int32_t dt_job_home_day(int64_t id)
{
    return (int32_t)(id >> DT_SEQUENCE_BITS);
}

/* The longest acknowledgement timeout: a hundred years, so that now + timeout is still a valid time. */
#define DT_ACK_MAX_MS INT64_C(3155760000000)
/* Returns how much of an acknowledgement timeout may pass while a batch is sent before its deadlines are extended: a
 * twentieth of it, but at least 100 ms and at most a second. An extension costs as much as the claim. */
int64_t dt_ack_may_lose_ms(int64_t ack_timeout_ms);

/* Returns the end of the part of the due index that has exact times: the end of the UTC day that contains now + 48
 * h. */
int64_t dt_near_end_ms(int64_t now_ms);

/* The order of job ids, for qsort and bsearch over arrays of int64_t, or of structs whose first member is the id. */
static inline int dt_by_job_id(const void *a, const void *b)
{
    const int64_t *x = a;
    const int64_t *y = b;
    return DT_ORDER(*x, *y);
}

#define DT_PATCH_MEMBER(kind, member, column)                                                                          \
    bool has_##member;                                                                                                 \
    DT_COLUMN_TYPE_##kind member; /* absent = no key */
/* A change of a scheduled job that a caller requests (PATCH, or an intent). Only members whose has_… is set change. */
struct dt_patch {
    int64_t if_version; /* change only this version of the row (else VERSION); 0 = any */
    bool has_run_at, has_payload, has_retry, has_ack_timeout;
    int64_t run_at_ms;
    bool run_at_is_delay; /* run_at_ms is a delay, counted from MySQL's clock */
    struct dt_str payload;
    DT_JOB_COLUMNS(DT_COLUMN_NONE, DT_COLUMN_MEMBER, DT_PATCH_MEMBER) /* CONTENT: valid with has_payload */
    struct dt_str retry;                                              /* absent = the topic's */
    int64_t ack_timeout_ms;                                           /* 0 = the topic's */
    struct dt_header_fault header_fault;                              /* fault in the headers; not used by the store */
};

/*
 * Retry schedules as text, as stored in jobs.retry and topics.retry.
 *
 * Canonical text: delays in the short form, separated by spaces ("15s 3m 500ms"; "ms" only if it is not a whole
 * second). The empty text means no retries. At most 100 delays. Durations and times as text: base/text/timetext.h.
 */
#define DT_RETRY_MAX      100
#define DT_RETRY_TEXT_MAX 1600

/* Writes n delays as canonical text. */
void dt_retry_format(struct dt_strbuf *out, const int64_t *delays_ms, unsigned n);
/* Reads stored text, which may be a manual edit: durations separated by spaces or commas, with "ms" allowed. INVALID:
 * the text is anything else, or has more than DT_RETRY_MAX delays; then *n is 0. */
dt_status dt_retry_parse(struct dt_str text, int64_t delays_ms[DT_RETRY_MAX], unsigned *n);

/* ---- keys of fires: `<name of the schedule>@<nominal time, ms since 1970>` ---- */

#define DT_SCHEDULE_NAME_MAX 200

/* Returns true if the key may be that of a schedule's fire; then *name is the name of the schedule. */
bool dt_fire_key_split(struct dt_str key, struct dt_str *name);
/* Returns the time of the fire whose key this is. The key must begin with the name of the schedule. -1: a schedule
 * would not write such a key. */
int64_t dt_fire_key_time_ms(struct dt_str key, struct dt_str name);
