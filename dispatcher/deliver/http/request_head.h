/*
 * The head of a callback: CloudEvents in binary mode for HTTP (CloudEvents 1.0, HTTP protocol binding), the signature,
 * and what topic and job add. Pure but for libcrypto.
 *
 * The CloudEvents attributes are those of a Kafka message (deliver/kafka/message.c); a test compares the two.
 */
#ifndef DT_DISPATCHER_REQUEST_HEAD_H
#define DT_DISPATCHER_REQUEST_HEAD_H

#include "base/http/http_client.h"
#include "base/http/webhook_sign.h"
#include "base/text/json.h"
#include "dispatch/outgoing.h"

/* The part that all jobs of a topic share. Borrowed. */
struct dt_callback_setting {
    const char *installation;
    struct dt_str headers;                   /* of the topic: a JSON object of strings; absent = none */
    const struct dt_callback_secret *secret; /* NULL = no signature */
    int64_t ahead_ms;                        /* what a test clock is ahead of the receivers' clocks */
};

/*
 * Fills *headers and *n_headers in this order: content-type, ce-*, idempotency-key, webhook-*, user-agent, the topic's
 * headers, the job's headers. A header of the job replaces the topic's of the same name, whatever the case. A header
 * that header.h refuses (of a job that was made for another delivery, or edited by hand) is left out.
 *
 * now_ms is the time of this attempt. The results live in the arena or are borrowed from `from` and `setting`. json is
 * scratch. NOMEM, or SYSTEM when libcrypto refuses to sign; the outputs are then undefined.
 */
DT_MUST_CHECK dt_status dt_request_head(const struct dt_outgoing *from, const struct dt_callback_setting *setting,
                                        int64_t now_ms, dt_json *json, struct dt_arena *arena,
                                        struct dt_http_request *request);

/* Appends a value as the HTTP binding of CloudEvents encodes it: blanks, '"', '%' and all bytes outside of 0x21 to 0x7E
 * as %XX. */
void dt_percent_encode(struct dt_strbuf *out, struct dt_str value);

#endif
