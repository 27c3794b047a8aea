/* Standard Webhooks 1.0: secrets ("whsec_" and the key in base64), and signatures: HMAC-SHA256 of
 * "<id>.<timestamp>.<body>". A topic has two secrets while one secret replaces the other. Pure functions, except for
 * libcrypto; they log nothing. Any thread may call them. */
#pragma once

#include "base/text/strbuf.h"

#define DT_CALLBACK_SECRETS 2
#define DT_SECRET_KEY_MAX   192 /* most bytes of a key */

struct dt_secret_key {
    size_t n;
    char bytes[DT_SECRET_KEY_MAX];
};

struct dt_callback_secret {
    unsigned n; /* number of keys, 1 or 2 */
    struct dt_secret_key keys[DT_CALLBACK_SECRETS];
};

/* Reads one secret, or two secrets separated by a space. Returns NULL, or the reason of the refusal, a static text that
 * continues "callback_secret" and contains nothing of the secret. The caller clears *out with dt_callback_secret_wipe
 * after use, also after a refusal. */
const char *dt_callback_secret_read(struct dt_str text, struct dt_callback_secret *out);
/* Overwrites the keys, in a way that the compiler does not optimize away. */
void dt_callback_secret_wipe(struct dt_callback_secret *secret);

struct dt_webhook {
    struct dt_str id;
    int64_t timestamp_s; /* seconds since the epoch */
    struct dt_str body;
};

/* Appends the value of `webhook-signature`: "v1,<base64>" for each key, in their order, separated by spaces. If
 * libcrypto fails, returns SYSTEM, and what was appended is undefined. If an allocation fails, sets out->failed. */
dt_status dt_webhook_sign(const struct dt_webhook *webhook, const struct dt_callback_secret *secret,
                          struct dt_strbuf *out);
