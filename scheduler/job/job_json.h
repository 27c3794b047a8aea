/*
 * Jobs as JSON: bodies that make or change a job (over HTTP, in the inbox or in a command), and jobs in answers and
 * dead letters. Pure: no I/O, no clock, no HTTP; the JSON text is already parsed (base/text/json.h).
 *
 * If a member is missing, unknown, wrong or contradictory, the decoder adds a fault with a JSON pointer (problem.h);
 * one pass finds all faults. Decoded strings are copied into the arena of the faults, so the parser may be used again
 * at once. Payloads are not copied: they stay in the request's text.
 */
#pragma once

#include "base/text/json.h"
#include "base/text/json_table.h"
#include "base/text/json_write.h"
#include "job.h"
#include "problem.h"

/* The limits of bodies, from the configuration; one for each process. Texts are borrowed. */
struct dt_job_rules {
    int64_t max_delay_ms;
    size_t payload_max, headers_max;
    unsigned json_depth;
    struct dt_str installation;
    bool callbacks;            /* topics may have the delivery http */
    struct dt_str allow_hosts; /* hosts to which callbacks may go (base/http/callback_rules.h) */
    int64_t delays_from_ms;    /* time from which delays count; 0 = the decoder's now_ms */
    /* Returns true for members that belong to the object around the job; the decoder skips them. NULL: there is no such
     * object. */
    bool (*beside)(struct dt_str name);
};
/* Returns the limits for dt_json_parse, from the rules. */
struct dt_json_limits dt_job_json_limits(unsigned json_depth);

/* Topic and key from the request's path, already checked (dt_topic_check, dt_key_check); absent for POST. If the body
 * also has them, they must be equal. */
struct dt_job_path {
    struct dt_str topic, key;
};

/*
 * Decodes a body (the root of json) of POST /v1/jobs and of PUT /v1/topics/{t}/jobs/{key} into *out, except the id.
 * run_at is final: a delay counts from now_ms or delays_from_ms, and a past time becomes now_ms. retry and ack_timeout
 * are copied (absent: the topic's); the digest is set. now_ms: not earlier than MySQL's clock (dt_refclock_latest_ms).
 * INVALID: there is at least one fault. TOO_LARGE: at least one fault is about a size. NOMEM: memory ran out.
 *
 * The digest is xxh3-128 over the request: topic, key, run_at as an instant or delay as a duration, retry as delays,
 * headers in the order of their names, payload by its bytes (absent = null). An absent member differs from every value.
 */
dt_status dt_job_decode(const dt_json *json, const struct dt_job_rules *rules, const struct dt_job_path *path,
                        int64_t now_ms, struct dt_faults *faults, struct dt_new_job *out);

/* Decodes a template, from which jobs are made repeatedly later: the members of a new job, except key, run_at and
 * delay, which are refused. Members for which own() returns true are skipped. null means the topic's default, as in a
 * PATCH. The topic may be absent. Statuses as in dt_job_decode. `faults` may already have faults. */
dt_status dt_job_template_decode(const dt_json *json, const struct dt_job_rules *rules, bool (*own)(struct dt_str name),
                                 struct dt_faults *faults, struct dt_new_job *out);
/* Readers of single members, for the tables of other bodies that have these members. Their context must be the struct
 * dt_job_rules. */
const char *dt_check_topic(struct dt_json_reader *reader, struct dt_str text);
const char *dt_check_callback_url(struct dt_json_reader *reader, struct dt_str text);
/* Reads a list of durations, and stores it as canonical text. */
void dt_read_retry(struct dt_json_reader *reader, const struct dt_json_field *field, const struct dt_json_node *node);
/* Adds a text to a digest. */
void dt_job_digest_add(unsigned char digest[16], struct dt_str text);

/* Computes a short hash of a topic and a key. It is never 0; different keys may share one. */
uint64_t dt_key_hash(struct dt_str topic, struct dt_str key);
/* Checks a key: 1 to 255 bytes of UTF-8. Returns NULL if it is valid, else the reason, static text. */
const char *dt_key_check(struct dt_str key);

/* Decodes a body of PATCH /v1/jobs/{id}. A member that is missing stays unchanged; null sets the topic's default, or no
 * value. Statuses as in dt_job_decode. */
dt_status dt_patch_decode(const dt_json *json, const struct dt_job_rules *rules, int64_t now_ms,
                          struct dt_faults *faults, struct dt_patch *out);

/* ---- writing; members have a fixed order, and a manual edit of stored text never breaks the JSON around it ---- */

struct dt_job_view {
    bool payload;            /* include the payload */
    const char *waiting_for; /* value of the member `waiting_for`; NULL = null */
    const char *outcome;     /* outcome of a result; NULL = no such member */
    int64_t deadline_ms;     /* deadline of a popped job; 0 = no such member */
    /* Parser that checks stored payload and headers. A payload that is not JSON is written as base64; headers that are
     * not JSON are left out; if memory runs out, out->failed is set. NULL: no check, for values of a request that were
     * checked before. */
    dt_json *check;
};
void dt_job_add(struct dt_strbuf *out, const struct dt_job *job, const struct dt_job_view *view);
/* Adds a job that was read from the store. This makes a parser for the checks, which takes time; dt_job_add uses a
 * parser of the caller. */
void dt_job_add_json(struct dt_strbuf *out, const struct dt_job *job, bool with_payload, const char *waiting_for);

/* Adds a retry schedule as a JSON list. The stored text may be canonical or written by a manual edit. name: name of the
 * member, or NULL. */
void dt_retry_put(struct dt_strbuf *out, const char *name, struct dt_str retry);

/* ---- the members of a body as given, for tables that decode bodies; `has` distinguishes an absent member from null
 * ---- */

/* Values in the order of the table of members in job_json.c. */
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

/* The members of a body. The value of a member that is absent, or null, is empty. */
struct dt_job_fields {
    unsigned has; /* bits of enum dt_job_member */
    int64_t delay_ms;
    struct dt_header_pair *pairs; /* names and values of the headers */
    size_t n_pairs;
    struct dt_new_job job; /* payload: text or binary; run_at: as the client gave it */
};

/* Computes the digest of the request (see dt_job_decode) and stores it in fields->job. Sorts the pairs by name. */
void dt_job_digest(struct dt_job_fields *fields);
