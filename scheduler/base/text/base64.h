/* Base64 (RFC 4648, section 4), strict: padded, no white space, no stray bits. Pure. */
#ifndef DT_BASE_BASE64_H
#define DT_BASE_BASE64_H

#include "strbuf.h"

/* Most bytes that n characters can stand for. */
static inline size_t dt_base64_decoded_max(size_t n)
{
    return n / 4 * 3;
}
/* Into out, which has room for dt_base64_decoded_max(text.n). False: not base64. */
bool dt_base64_decode(struct dt_str text, char *out, size_t *n);
void dt_base64_add(struct dt_strbuf *out, struct dt_str bytes);

#endif
