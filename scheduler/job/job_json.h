/*
 * Jobs as JSON: bodies that make or change a job, of the API or in the same form elsewhere, and jobs in answers and
 * dead letters. Pure: no I/O, no clock, no HTTP; the JSON text is already parsed (base/text/json.h).
 *
 * If a member is missing, unknown, wrong or contradictory, that is a fault with a JSON pointer (problem.h); one pass
 * finds all faults. Decoded strings are copied into the arena of the faults, so the parser may be used again at once;
 * payloads stay in the request's text.
 */
#pragma once

#include "base/text/json.h"
#include "base/text/json_table.h"
#include "base/text/json_write.h"
#include "job.h"
#include "problem.h"

/* The limits of bodies, from the configuration; one for each process. Slices are borrowed. */
struct dt_job_rules {
    int64_t max_delay_ms;
    size_t payload_max, headers_max;
    unsigned json_depth;
    struct dt_str installation;
    bool callbacks;            /* topics may have the delivery http */
    struct dt_str allow_hosts; /* where callbacks may go (base/http/callback_rules.h) */
    int64_t delays_from_ms;    /* the time from which delays count; 0 = now_ms of the decoder */
    /* Returns true for members that are not the job's but belong to the object around it; they are skipped. NULL:
     * none. */
    bool (*beside)(struct dt_str name);
};
/* Returns the limits for dt_json_parse; json_depth as in the rules. */
struct dt_json_limits dt_job_json_limits(unsigned json_depth);

/* Topic and key from the request's path, already checked (dt_topic_check, dt_key_check); absent for POST. If the
 * body has them too, they must be equal. */
struct dt_job_path {
    struct dt_str topic, key;
};

/*
 * Decodes a body (the root of json) of POST /v1/jobs and of PUT /v1/topics/{t}/jobs/{key} into *out, except the id.
 * run_at is final: a delay counts from now_ms or delays_from_ms, and a past time becomes now_ms. retry and ack_timeout
 * are as given (absent: the topic's); the digest is set. now_ms: not earlier than MySQL's clock
 * (dt_refclock_latest_ms). INVALID: there is at least one fault. TOO_LARGE: the same, and at least one fault is about a
 * size. NOMEM.
 *
 * The digest is xxh3-128 over the request: topic, key, run_at as an instant or delay as a duration, retry as delays,
 * headers in the order of their names, payload by its bytes (absent = null). An absent member differs from every value.
 */
DT_MUST_CHECK dt_status dt_job_decode(const dt_json *json, const struct dt_job_rules *rules,
                                      const struct dt_job_path *path, int64_t now_ms, struct dt_faults *faults,
                                      struct dt_new_job *out);

/*
 * Decodes a template, from which jobs are made repeatedly later: the members of a new job, except key, run_at and
 * delay, which are refused. If own() accepts a member, it is skipped. null is the topic's default, as in a PATCH; the
 * topic may be absent. Statuses as in dt_job_decode. The list may already have faults.
 */
DT_MUST_CHECK dt_status dt_job_template_decode(const dt_json *json, const struct dt_job_rules *rules,
                                               bool (*own)(struct dt_str name), struct dt_faults *faults,
                                               struct dt_new_job *out);
/* For other tables of bodies, whose readers have the rules as their context. */
const char *dt_check_topic(struct dt_json_reader *reader, struct dt_str text);
const char *dt_check_callback_url(struct dt_json_reader *reader, struct dt_str text);
/* Reads a list of durations as canonical text. */
void dt_read_retry(struct dt_json_reader *reader, const struct dt_json_field *field, const struct dt_json_node *node);
/* Includes a text in a digest. */
void dt_job_digest_add(unsigned char digest[16], struct dt_str text);

/* Computes a short hash of a topic and a key. It is never 0; different keys may share one. */
uint64_t dt_key_hash(struct dt_str topic, struct dt_str key);
/* Checks a key: 1 to 255 bytes of UTF-8. Returns NULL if it is valid, else the reason, static text. */
const char *dt_key_check(struct dt_str key);

/* Decodes a body of PATCH /v1/jobs/{id}: a missing member is unchanged, null is the topic's default (or none).
 * Statuses as of dt_job_decode. */
DT_MUST_CHECK dt_status dt_patch_decode(const dt_json *json, const struct dt_job_rules *rules, int64_t now_ms,
                                        struct dt_faults *faults, struct dt_patch *out);

/* ---- writing; members have a fixed order, and a manual edit of stored text never breaks the JSON around it ---- */

struct dt_job_view {
    bool payload;            /* show it */
    const char *waiting_for; /* NULL = null */
    const char *outcome;     /* outcome of a result; NULL = no such member */
    int64_t deadline_ms;     /* of a popped job: its deadline; 0 = no such member */
    /* The parser to check stored payload and headers with. A payload that is not JSON is written as base64; headers
     * that are not JSON are left out; if memory runs out, the buffer fails. NULL: no check, since a request has them
     * that was checked. */
    dt_json *check;
};
void dt_job_add(struct dt_strbuf *out, const struct dt_job *job, const struct dt_job_view *view);
/* Adds a job that was read from the store. It makes a parser for the checks, which takes longer. */
void dt_job_add_json(struct dt_strbuf *out, const struct dt_job *job, bool with_payload, const char *waiting_for);

/* Adds a canonical (or manually edited) retry schedule as a JSON list; name: of the member, or NULL. */
void dt_retry_put(struct dt_strbuf *out, const char *name, struct dt_str retry);

/* ---- the members of a body as given, for tables that decode bodies; `has` distinguishes "absent" and "null" ---- */

/* In the order of the table (job_json.c). */
enum dt_job_member {
    DT_MEMBER_TOPIC = 1 << 0,
    DT_MEMBER_KEY = 1 << 1,
    DT_MEMBER_RUN_AT = 1 << 2,
    DT_MEMBER_DELAY = 1 << 3,
    DT_MEMBER_PAYLOAD = 1 << 4,
    DT_MEMBER_PAYLOAD_BASE64 = 1 << 5,
    DT_MEMBER_CONTENT_TYPE = 1 << 6,
    DT_MEMBER_PARTITION_KEY = 1 << 7,
    DT_MEMBER_RETRY = 1 << 8,
    DT_MEMBER_ACK_TIMEOUT = 1 << 9,
    DT_MEMBER_HEADERS = 1 << 10,
    DT_MEMBER_CALLBACK_URL = 1 << 11,
};

struct dt_header_pair {
    struct dt_str name, value;
};

/* A member that is absent, or null if that is allowed, has the empty value. */
struct dt_job_fields {
    unsigned has; /* enum dt_job_member, or-ed */
    int64_t delay_ms;
    struct dt_header_pair *pairs; /* pairs of the headers */
    size_t n_pairs;
    struct dt_new_job job; /* payload: text or binary; run_at as the client gave it */
};

/* Computes the digest of the request (see dt_job_decode) into fields->job. Sorts the pairs by name. */
void dt_job_digest(struct dt_job_fields *fields);
