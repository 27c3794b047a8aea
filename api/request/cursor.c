/* A cursor is the base64 text (alphabet for URLs, no padding) of nonce, ciphertext and tag. The cursor does not contain
 * the digest of its list, but the tag authenticates that digest, too. */
#include "cursor.h"

#include <openssl/evp.h>
#include <sys/random.h>

#include "base/text/encoding.h"

#define NONCE 12
#define TAG   16

/* ---- the digest of a list ---- */

/* Adds a field after its length, so that different lists never give the same text. */
static void add_field(struct dt_strbuf *out, struct dt_str field)
{
    uint64_t n = field.p ? field.n + 1 : 0;
    dt_strbuf_add(out, &n, sizeof(n));
    dt_strbuf_add(out, field.p, field.n);
}

dt_status dt_cursor_list_init(struct dt_cursor_list *list, const unsigned char key[DT_CURSOR_KEY], char kind,
                              const struct dt_caller *caller, const struct dt_str *fields, size_t n)
{
    struct dt_strbuf text = {0};
    unsigned length = 0;
    dt_strbuf_addc(&text, kind);
    for (size_t i = 0; i < n; i++)
        add_field(&text, fields[i]);
    const bool all = dt_caller_sees_all(caller);
    dt_strbuf_addc(&text, all ? 'a' : 'b');
    for (size_t i = 0; !all && i < caller->topics.n; i++)
        add_field(&text, caller->topics.prefixes[i]);
    memcpy(list->key, key, sizeof(list->key));
    bool fine = !text.failed && EVP_Digest(text.p, text.n, list->digest, &length, EVP_sha256(), NULL) == 1;
    dt_strbuf_clear(&text);
    return fine && length == sizeof(list->digest) ? DT_OK : DT_NOMEM;
}

/* ---- sealing ---- */

void dt_cursor_add(struct dt_strbuf *out, const struct dt_cursor_list *list, struct dt_str position)
{
    struct dt_arena arena = {0};
    size_t n = NONCE + position.n + TAG;
    size_t from = out->n;
    unsigned char *raw = dt_arena_alloc(&arena, n);
    EVP_CIPHER_CTX *c = EVP_CIPHER_CTX_new();
    unsigned char *sealed = raw ? raw + NONCE : NULL;
    int k = 0;
    if (raw && c && getrandom(raw, NONCE, 0) == NONCE &&
        EVP_EncryptInit_ex(c, EVP_aes_256_gcm(), NULL, list->key, raw) == 1 &&
        EVP_EncryptUpdate(c, NULL, &k, list->digest, sizeof(list->digest)) == 1 &&
        EVP_EncryptUpdate(c, sealed, &k, (const unsigned char *)position.p, (int)position.n) == 1 &&
        EVP_EncryptFinal_ex(c, sealed + k, &k) == 1 &&
        EVP_CIPHER_CTX_ctrl(c, EVP_CTRL_GCM_GET_TAG, TAG, sealed + position.n) == 1)
        dt_base64_add(out, (struct dt_str){(char *)raw, n});
    else
        out->failed = true;
    EVP_CIPHER_CTX_free(c);
    dt_arena_clear(&arena);
    while (!out->failed && out->n > from && out->p[out->n - 1] == '=')
        out->p[--out->n] = '\0';
    for (size_t i = from; !out->failed && i < out->n; i++)
        out->p[i] = out->p[i] == '+' ? '-' : out->p[i] == '/' ? '_' : out->p[i];
}

static bool decode_base64url(struct dt_arena *arena, struct dt_str text, unsigned char **raw, size_t *n)
{
    size_t padded = (text.n + 3) / 4 * 4;
    char *quads = dt_arena_alloc(arena, padded + 1);
    *raw = dt_arena_alloc(arena, dt_base64_decoded_max(padded) + 1);
    if (!quads || !*raw)
        return false;
    for (size_t i = 0; i < padded; i++) {
        char c = i < text.n ? text.p[i] : '=';
        quads[i] = c == '-' ? '+' : c == '_' ? '/' : c;
    }
    return dt_base64_decode((struct dt_str){quads, padded}, (char *)*raw, n);
}

bool dt_cursor_parse(struct dt_arena *arena, const struct dt_cursor_list *list, struct dt_str text,
                     struct dt_str *position)
{
    unsigned char *raw;
    size_t n = 0;
    if (text.n == 0 || !decode_base64url(arena, text, &raw, &n) || n < NONCE + TAG)
        return false;
    char *out = dt_arena_alloc(arena, n);
    EVP_CIPHER_CTX *c = EVP_CIPHER_CTX_new();
    const int length = (int)(n - NONCE - TAG);
    int k = 0;
    const bool fine = out && c && EVP_DecryptInit_ex(c, EVP_aes_256_gcm(), NULL, list->key, raw) == 1 &&
                      EVP_DecryptUpdate(c, NULL, &k, list->digest, sizeof(list->digest)) == 1 &&
                      EVP_DecryptUpdate(c, (unsigned char *)out, &k, raw + NONCE, length) == 1 &&
                      EVP_CIPHER_CTX_ctrl(c, EVP_CTRL_GCM_SET_TAG, TAG, raw + NONCE + length) == 1 &&
                      EVP_DecryptFinal_ex(c, (unsigned char *)out + k, &k) == 1;
    EVP_CIPHER_CTX_free(c);
    *position = fine ? (struct dt_str){out, n - NONCE - TAG} : DT_STR_NONE;
    if (fine)
        out[position->n] = '\0';
    return fine;
}
