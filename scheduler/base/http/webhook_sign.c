/* Signing, piece by piece, so that a large body is not copied to be put after its id and time. */
#include "webhook_sign.h"

#include <openssl/evp.h>
#include <stdio.h>

#include "base/text/encoding.h"

#define DIGEST_BYTES 32

dt_status dt_webhook_sign(const struct dt_webhook *webhook, const struct dt_callback_secret *secret,
                          struct dt_strbuf *out)
{
    char time_text[32];
    int n = snprintf(time_text, sizeof(time_text), ".%lld.", (long long)webhook->timestamp_s);
    for (unsigned i = 0; i < secret->n; i++) {
        const struct dt_secret_key *key = &secret->keys[i];
        unsigned char bytes[DIGEST_BYTES];
        size_t length = sizeof(bytes);
        EVP_MD_CTX *context = EVP_MD_CTX_new();
        EVP_PKEY *hmac = EVP_PKEY_new_raw_private_key(EVP_PKEY_HMAC, NULL, (const unsigned char *)key->bytes, key->n);
        bool ok = context && hmac && n > 0 && EVP_DigestSignInit(context, NULL, EVP_sha256(), NULL, hmac) == 1 &&
                  EVP_DigestSignUpdate(context, webhook->id.p, webhook->id.n) == 1 &&
                  EVP_DigestSignUpdate(context, time_text, (size_t)n) == 1 &&
                  EVP_DigestSignUpdate(context, webhook->body.p, webhook->body.n) == 1 &&
                  EVP_DigestSignFinal(context, bytes, &length) == 1 && length == sizeof(bytes);
        EVP_PKEY_free(hmac);
        EVP_MD_CTX_free(context);
        if (!ok)
            return DT_SYSTEM;
        dt_strbuf_adds(out, i == 0 ? "v1," : " v1,");
        dt_base64_add(out, (struct dt_str){(const char *)bytes, sizeof(bytes)});
    }
    return DT_OK;
}
