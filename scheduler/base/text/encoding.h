/* Base64 (RFC 4648, section 4; strict: padded, no white space, no stray bits), hexadecimal digits and UTF-8. Pure
 * functions. */
#pragma once

#include "strbuf.h"

/* Returns the largest number of bytes that n characters of base64 can encode. */
static inline size_t dt_base64_decoded_max(size_t n)
{
    return n / 4 * 3;
}
/* Decodes base64 into out, which has room for dt_base64_decoded_max(text.n) bytes. Returns false if the text is not
 * base64. */
bool dt_base64_decode(struct dt_str text, char *out, size_t *n);
void dt_base64_add(struct dt_strbuf *out, struct dt_str bytes);

/* Returns the value of a hexadecimal digit in either case, or -1. */
static inline int dt_hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

static inline bool dt_utf8_continues(unsigned char c)
{
    return (c & 0xc0) == 0x80;
}

/* Returns the length of the well-formed UTF-8 character at p, where n > 0 bytes can be read; 0 if it is not
 * well-formed. Overlong forms, surrogates and numbers above U+10FFFF are not well-formed. */
static inline size_t dt_utf8_character(const unsigned char *p, size_t n)
{
    if (p[0] < 0x80)
        return 1;
    if (p[0] < 0xc2)
        return 0; /* a continuation byte, or an overlong form */
    if (p[0] < 0xe0)
        return n >= 2 && dt_utf8_continues(p[1]) ? 2 : 0;
    if (p[0] < 0xf0) {
        if (n < 3 || !dt_utf8_continues(p[1]) || !dt_utf8_continues(p[2]))
            return 0;
        if ((p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xed && p[1] >= 0xa0))
            return 0; /* an overlong form, or a surrogate */
        return 3;
    }
    if (p[0] > 0xf4 || n < 4 || !dt_utf8_continues(p[1]) || !dt_utf8_continues(p[2]) || !dt_utf8_continues(p[3]))
        return 0;
    if ((p[0] == 0xf0 && p[1] < 0x90) || (p[0] == 0xf4 && p[1] >= 0x90))
        return 0; /* an overlong form, or a number above U+10FFFF */
    return 4;
}

/* Returns whether the n > 0 bytes at p may be the beginning of a UTF-8 character whose end is missing. */
static inline bool dt_utf8_cut_off(const unsigned char *p, size_t n)
{
    size_t length = p[0] >= 0xf0 ? 4 : p[0] >= 0xe0 ? 3 : p[0] >= 0xc2 ? 2 : 1;
    if (p[0] > 0xf4 || n >= length)
        return false;
    for (size_t i = 1; i < n; i++)
        if (!dt_utf8_continues(p[i]))
            return false;
    return true;
}
