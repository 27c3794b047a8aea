/* See encoding.h. */
#include "encoding.h"

static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

static int letter_value(char c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

bool dt_base64_decode(struct dt_str text, char *out, size_t *n)
{
    *n = 0;
    if (text.n % 4 != 0)
        return false;
    for (size_t at = 0; at < text.n; at += 4) { /* decodes groups of four; the last has `pad` characters "=" */
        const char *p = text.p + at;
        unsigned pad = 0;
        uint32_t bits = 0;
        if (at + 4 == text.n)
            pad = p[3] != '=' ? 0 : p[2] != '=' ? 1 : 2;
        for (unsigned i = 0; i < 4; i++) {
            int v = i < 4 - pad ? letter_value(p[i]) : 0;
            if (v < 0)
                return false;
            bits = bits << 6 | (uint32_t)v;
        }
        for (unsigned i = 0; i < 3 - pad; i++)
            out[(*n)++] = (char)(unsigned char)(bits >> (16 - 8 * i));
        if (pad && bits & ((1U << (8 * pad)) - 1))
            return false;
    }
    return true;
}

void dt_base64_add(struct dt_strbuf *out, struct dt_str bytes)
{
    dt_strbuf_reserve(out, (bytes.n + 2) / 3 * 4);
    for (size_t i = 0; i < bytes.n; i += 3) {
        size_t have = bytes.n - i < 3 ? bytes.n - i : 3;
        uint32_t bits = 0;
        for (size_t k = 0; k < 3; k++)
            bits = bits << 8 | (k < have ? (unsigned char)bytes.p[i + k] : 0U);
        char quad[4];
        for (unsigned k = 0; k < 4; k++)
            quad[k] = k <= have ? letters[bits >> (18 - 6 * k) & 63] : '=';
        dt_strbuf_add(out, quad, 4);
    }
}
