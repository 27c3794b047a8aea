/*
 * Retry schedules: a list of delays as the text that is stored. Pure.
 */
#include "retry.h"

void dt_retry_format(struct dt_strbuf *out, const int64_t *delays_ms, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        if (i)
            dt_strbuf_addc(out, ' ');
        dt_duration_add_short(out, delays_ms[i]);
    }
}

static bool separator(char c)
{
    return c == ' ' || c == ',' || c == '\t' || c == '\n' || c == '\r';
}

dt_status dt_retry_parse(struct dt_str text, int64_t delays_ms[DT_RETRY_MAX], unsigned *n)
{
    unsigned count = 0;
    *n = 0;
    for (size_t i = 0; i < text.n;) {
        if (separator(text.p[i])) {
            i++;
            continue;
        }
        struct dt_str word = {text.p + i, 0};
        while (i < text.n && !separator(text.p[i]))
            i++, word.n++;
        /* "1500ms" is written for what no unit of the short form holds; without its unit it is a number of them. */
        if (word.n > 2 && memcmp(word.p + word.n - 2, "ms", 2) == 0 && word.p[word.n - 3] >= '0' &&
            word.p[word.n - 3] <= '9')
            word.n -= 2;
        if (count == DT_RETRY_MAX || dt_duration_parse(word, &delays_ms[count]) != DT_OK)
            return DT_INVALID;
        count++;
    }
    *n = count;
    return DT_OK;
}
