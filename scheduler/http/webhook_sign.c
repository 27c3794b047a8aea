/* Signing, piece by piece, so that a large body is not copied in order to stand behind its id and time. */
#include "webhook_sign.h"

#include <openssl/evp.h>
#include <stdio.h>

#include "base/text/base64.h"

#define DIGEST_BYTES 32

static EVP_MD_CTX *begin(const struct dt_secret_key *key)
{
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    EVP_PKEY *hmac = EVP_PKEY_new_raw_private_key(EVP_PKEY_HMAC, NULL, (const unsigned char *)key->bytes, key->n);
    bool ok = context && hmac && EVP_DigestSignInit(context, NULL, EVP_sha256(), NULL, hmac) == 1;
    EVP_PKEY_free(hmac);
    if (ok)
        return context;
    EVP_MD_CTX_free(context);
    return NULL;
}

static bool digest(const struct dt_webhook *webhook, const struct dt_secret_key *key, unsigned char out[DIGEST_BYTES])
{
    char time_text[32];
    int n = snprintf(time_text, sizeof(time_text), ".%lld.", (long long)webhook->timestamp_s);
    size_t length = DIGEST_BYTES;
    EVP_MD_CTX *context = begin(key);
    bool ok = context && n > 0 && EVP_DigestSignUpdate(context, webhook->id.p, webhook->id.n) == 1 &&
              EVP_DigestSignUpdate(context, time_text, (size_t)n) == 1 &&
              EVP_DigestSignUpdate(context, webhook->body.p, webhook->body.n) == 1 &&
              EVP_DigestSignFinal(context, out, &length) == 1 && length == DIGEST_BYTES;
    EVP_MD_CTX_free(context);
    return ok;
}

dt_status dt_webhook_sign(const struct dt_webhook *webhook, const struct dt_callback_secret *secret,
                          struct dt_strbuf *out)
{
    for (unsigned i = 0; i < secret->n; i++) {
        unsigned char bytes[DIGEST_BYTES];
        if (!digest(webhook, &secret->keys[i], bytes))
            return DT_SYSTEM;
        dt_strbuf_adds(out, i == 0 ? "v1," : " v1,");
        dt_base64_add(out, (struct dt_str){(const char *)bytes, sizeof(bytes)});
    }
    return DT_OK;
}
