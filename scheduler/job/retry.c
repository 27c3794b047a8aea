/*
 * Retry schedules: a list of delays as the text that is stored. Pure.
 */
#include "job/retry.h"

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

/* The next word of the text, which moves behind it; an empty one at the end. */
static struct dt_str next_word(struct dt_str *text)
{
    struct dt_str word;
    while (text->n && separator(text->p[0])) {
        text->p++;
        text->n--;
    }
    word = (struct dt_str){text->p, 0};
    while (word.n < text->n && !separator(word.p[word.n]))
        word.n++;
    text->p += word.n;
    text->n -= word.n;
    return word;
}

/* "1500ms" is written for what no unit of the short form holds; without its unit it is a plain number of them. */
static dt_status parse_delay(struct dt_str word, int64_t *out_ms)
{
    if (word.n > 2 && memcmp(word.p + word.n - 2, "ms", 2) == 0 && word.p[word.n - 3] >= '0' &&
        word.p[word.n - 3] <= '9')
        word.n -= 2;
    return dt_duration_parse(word, out_ms);
}

dt_status dt_retry_parse(struct dt_str text, int64_t delays_ms[DT_RETRY_MAX], unsigned *n)
{
    struct dt_str word;
    unsigned count = 0;
    *n = 0;
    while (text.n && (word = next_word(&text)).n) {
        if (count == DT_RETRY_MAX || parse_delay(word, &delays_ms[count]) != DT_OK)
            return DT_INVALID;
        count++;
    }
    *n = count;
    return DT_OK;
}
