/*
 * Signatures of Standard Webhooks 1.0: HMAC-SHA256 over "<id>.<timestamp>.<body>". Owns the use of libcrypto in this
 * room; knows nothing of HTTP. Any thread.
 */
#ifndef DT_BASE_WEBHOOK_SIGN_H
#define DT_BASE_WEBHOOK_SIGN_H

#include "base/text/strbuf.h"
#include "secret.h"

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
