/* See webhook.h. Keys are only in the caller's struct, never in a static variable or a message. */
#include "webhook.h"

#include <openssl/evp.h>

#include "base/text/encoding.h"

static const char prefix[] = "whsec_";

static const char *read_secret(struct dt_str text, struct dt_secret_key *key)
{
    size_t n = sizeof(prefix) - 1;
    if (text.n < n || memcmp(text.p, prefix, n) != 0)
        return "must be whsec_ and base64, or two of them with one space between";
    struct dt_str encoded = {text.p + n, text.n - n};
    if (dt_base64_decoded_max(encoded.n) > sizeof(key->bytes))
        return "has a key of more than 192 bytes";
    if (!dt_base64_decode(encoded, key->bytes, &key->n))
        return "must have base64 with its padding after whsec_";
    return key->n > 0 ? NULL : "has an empty key";
}

const char *dt_callback_secret_read(struct dt_str text, struct dt_callback_secret *out)
{
    const char *space = text.n ? memchr(text.p, ' ', text.n) : NULL;
    size_t first = space ? (size_t)(space - text.p) : text.n;
    out->n = 1;
    const char *wrong = read_secret((struct dt_str){text.p, first}, &out->keys[0]);
    if (wrong || !space)
        return wrong;
    out->n = 2;
    return read_secret((struct dt_str){space + 1, text.n - first - 1}, &out->keys[1]);
}

void dt_callback_secret_wipe(struct dt_callback_secret *secret)
{
    explicit_bzero(secret, sizeof(*secret));
}

#define DIGEST_BYTES 32

/* Signs in pieces, so that a large body is not copied to follow its id and time. */
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
