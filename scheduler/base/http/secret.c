/* Reading the secrets of a callback. The keys are only in the caller's struct, never in a static or in a message. */
#include "secret.h"

#include "base/text/encoding.h"

static const char prefix[] = "whsec_";

static const char *read_one(struct dt_str text, struct dt_secret_key *key)
{
    size_t n = sizeof(prefix) - 1;
    if (text.n < n || memcmp(text.p, prefix, n) != 0)
        return "must be whsec_ and base64, or two of them with one space between";
    struct dt_str encoded = {text.p + n, text.n - n};
    if (dt_base64_decoded_max(encoded.n) > sizeof(key->bytes))
        return "has a key of more than 192 bytes";
    if (!dt_base64_decode(encoded, key->bytes, &key->n))
        return "must have base64 with its padding behind whsec_";
    return key->n > 0 ? NULL : "has an empty key";
}

const char *dt_callback_secret_read(struct dt_str text, struct dt_callback_secret *out)
{
    const char *space = text.n ? memchr(text.p, ' ', text.n) : NULL;
    size_t first = space ? (size_t)(space - text.p) : text.n;
    out->n = 1;
    const char *wrong = read_one((struct dt_str){text.p, first}, &out->keys[0]);
    if (wrong || !space)
        return wrong;
    out->n = 2;
    return read_one((struct dt_str){space + 1, text.n - first - 1}, &out->keys[1]);
}

void dt_callback_secret_wipe(struct dt_callback_secret *secret)
{
    explicit_bzero(secret, sizeof(*secret));
}
