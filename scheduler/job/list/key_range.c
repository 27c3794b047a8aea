/* Ends of ranges of keys: see key_range.h. */
#include "key_range.h"

#include "job/job.h"

static void add_hex(struct dt_strbuf *out, unsigned char byte, unsigned times)
{
    while (times-- > 0)
        dt_strbuf_addf(out, "%02X", byte);
}

/* "ab" -> "ac", "a\xff" -> "b"; where nothing is above, what no key is long enough for. */
void dt_key_range_add_end(struct dt_strbuf *out, struct dt_str prefix)
{
    size_t n = prefix.n;
    while (n > 0 && (unsigned char)prefix.p[n - 1] == 0xFF)
        n--;
    for (size_t i = 0; i + 1 < n; i++)
        add_hex(out, (unsigned char)prefix.p[i], 1);
    if (n > 0)
        add_hex(out, (unsigned char)(prefix.p[n - 1] + 1), 1);
    else
        add_hex(out, 0xFF, DT_KEY_MAX + 1);
}
