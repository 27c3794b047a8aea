/*
 * The secrets of a callback as Standard Webhooks 1.0 writes them: "whsec_" and the key in base64. Two secrets stand
 * side by side while one replaces the other. Pure; logs nothing.
 */
#ifndef DT_BASE_WEBHOOK_H
#define DT_BASE_WEBHOOK_H

#include "base/text/strbuf.h"

#define DT_CALLBACK_SECRETS 2
#define DT_SECRET_KEY_MAX   192 /* bytes of one key */

struct dt_secret_key {
    size_t n;
    char bytes[DT_SECRET_KEY_MAX];
};

struct dt_callback_secret {
    unsigned n; /* 1 or 2 */
    struct dt_secret_key keys[DT_CALLBACK_SECRETS];
};

/*
 * Reads one secret, or two with one space between. Returns NULL and fills *out, or returns the reason of the refusal, a
 * static sentence that goes on from "callback_secret" and contains nothing of the text. The caller wipes *out with
 * dt_callback_secret_wipe when the keys are no longer needed, also after a refusal.
 */
const char *dt_callback_secret_read(struct dt_str text, struct dt_callback_secret *out);
/* Overwrites the keys in a way that the compiler does not leave out. */
void dt_callback_secret_wipe(struct dt_callback_secret *secret);

/*
 * Signatures of Standard Webhooks 1.0: HMAC-SHA256 over "<id>.<timestamp>.<body>". Owns the use of libcrypto in this
 * room; knows nothing of HTTP. Any thread.
 */

struct dt_webhook {
    struct dt_str id;
    int64_t timestamp_s; /* seconds since the epoch */
    struct dt_str body;
};

/*
 * Appends the value of `webhook-signature`: "v1,<base64>" for each key, in their order, with a space between. SYSTEM:
 * libcrypto refused; what was appended is then undefined. A failed allocation shows in out->failed.
 */
DT_MUST_CHECK dt_status dt_webhook_sign(const struct dt_webhook *webhook, const struct dt_callback_secret *secret,
                                        struct dt_strbuf *out);

#endif
