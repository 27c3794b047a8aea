/*
 * The headers of a callback: CloudEvents in binary mode for HTTP (CloudEvents 1.0, HTTP protocol binding), the
 * signature, and the headers of topic and job. Pure except for libcrypto.
 *
 * The CloudEvents attributes are those of a Kafka message (deliver/kafka/message.c); a test compares them.
 */
#pragma once

#include "base/http/http_client.h"
#include "base/http/webhook.h"
#include "base/text/json.h"
#include "dispatch/leader.h"
#include "job/job_state.h"

/* The settings of a topic that all of its jobs share. Borrowed. */
struct dt_callback_setting {
    const char *installation;
    struct dt_str headers;                   /* the topic's headers: a JSON object of strings; absent: none */
    const struct dt_callback_secret *secret; /* key of the signature; NULL: requests are not signed */
    /* How far the installation's test clock is ahead of the receivers' clocks. */
    int64_t ahead_ms;
};

/*
 * Fills *headers and *n_headers in this order: content-type, ce-*, idempotency-key, webhook-*, user-agent, the topic's
 * headers, the job's headers. A header of the job replaces a header of the topic with the same name, whatever the case.
 * If job.h refuses a header, the header is left out: the job was made for another delivery, or edited manually.
 *
 * now_ms is the time of this attempt. The results are in the arena, or are borrowed from `from` and `setting`. json is
 * scratch. Returns NOMEM, or SYSTEM if libcrypto refuses to sign; the outputs are then undefined.
 */
dt_status dt_request_head(const struct dt_outgoing *from, const struct dt_callback_setting *setting, int64_t now_ms,
                          dt_json *json, struct dt_arena *arena, struct dt_http_request *request);

/*
 * Maps the answer to a callback to the outcome of its attempt, by this table. Pure: no I/O, time is passed in.
 *
 *   answer                                                   outcome
 *   2xx, application/vnd.duetime.result+json                 the body is the report; if unreadable: failed, http_report
 *   202                                                      accepted: a report follows, or the attempt times out
 *   another 2xx                                              succeeded
 *   410                                                      gave_up, http_410
 *   any other status                                         failed, http_<status>
 *   no answer                                                failed, http_timeout, http_connect, http_dns, http_tls,
 *                                                            http_forbidden, http_broken
 *   nothing could be sent                                    failed, http_url, http_secret
 *   the client was stopped, or withheld the request          unknown: the attempt is lost
 */

#define DT_HTTP_MESSAGE_BYTES 500 /* maximal number of bytes of an answer's body in an error message */

enum dt_callback_kind { DT_CALLBACK_RESULT, DT_CALLBACK_TAKEN, DT_CALLBACK_UNKNOWN };

struct dt_callback_attempt {
    int64_t job_id, attempt;
    int64_t now_ms;       /* when the answer arrived, by a clock that agrees with those of the receivers */
    int64_t max_delay_ms; /* limits.max_delay: longest delay that Retry-After may set */
};

struct dt_callback_outcome {
    enum dt_callback_kind kind;
    struct dt_result result; /* the result to record; only if kind is RESULT */
    int http_status;         /* status of the answer; 0: no answer */
    int64_t duration_ms;     /* time from the request to the answer, in ms; -1: no answer */
    /* For the log: why the report is invalid (http_report), static or in the arena; NULL: it is valid. */
    const char *fault;
};

/* Fills *out. Texts of out->result are in the arena or static. json is scratch. If it returns NOMEM, *out is undefined.
 * The error message is the beginning of the answer's body, made valid UTF-8; without an answer, it says why none
 * arrived. */
dt_status dt_callback_outcome(const struct dt_http_answer *answer, const struct dt_callback_attempt *attempt,
                              dt_json *json, struct dt_arena *arena, struct dt_callback_outcome *out);

/* Copies at most DT_HTTP_MESSAGE_BYTES of a text into the arena, and makes the copy valid UTF-8: invalid bytes become
 * "?", and a character that is cut off at the end is left out. If memory runs out, .p of the result is NULL. */
struct dt_str dt_http_message(struct dt_str body, struct dt_arena *arena);

/* Reads the value of Retry-After: whole seconds, or a date in a format of curl_getdate (which reads a year of two
 * digits as 1971 to 2070). *out_ms is the delay from now_ms, 0 for a past date, at most max_ms. If the value is
 * invalid, returns false and leaves *out_ms unchanged. CURLINFO_RETRY_AFTER is no substitute, because it reports an
 * absent header as "0". */
bool dt_retry_after_parse(struct dt_str text, int64_t now_ms, int64_t max_ms, int64_t *out_ms);
