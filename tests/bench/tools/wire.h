/* What the bench's programs that speak HTTP themselves have in common: messages in a buffer, times, what was seen, and
 * its figures. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <strings.h>

#include "bare.h"

/* ---- messages ---- */

/* Bytes of the whole message at the head of `in`, which ends with a zero; 0: not all of it is there. */
static inline size_t whole(const char *in, size_t n)
{
    const char *end = memmem(in, n, "\r\n\r\n", 4);
    if (!end)
        return 0;
    const char *length = strcasestr(in, "content-length:");
    size_t size = (size_t)(end - in) + 4 + (length && length < end ? strtoul(length + 15, NULL, 10) : 0);
    return size <= n ? size : 0;
}

/* ---- times ---- */

/* 2026-11-26T01:02:03.004Z */
static inline double ms_of(const char *text)
{
    struct tm tm = {0};
    const char *rest = strptime(text, "%Y-%m-%dT%H:%M:%S", &tm);
    if (!rest)
        die("time", text);
    return (double)timegm(&tm) * 1000 + (*rest == '.' ? atof(rest) * 1000 : 0);
}

/* ---- what was seen ---- */

struct seen {
    uint64_t *attempts; /* job << 12 | attempt */
    double *late;       /* of what was due from `since` on */
    long n, n_late, wanted, early;
    double since, first, last;
};

static inline struct seen seen_of(long wanted, double since)
{
    struct seen s = {.wanted = wanted, .since = since};
    s.attempts = calloc((size_t)wanted * 2 + 1, sizeof *s.attempts);
    s.late = calloc((size_t)wanted * 2 + 1, sizeof *s.late);
    return s;
}

static inline void see(struct seen *s, uint64_t job, uint64_t attempt, double due)
{
    double at = wall_ms();
    s->first = s->n ? s->first : at;
    s->last = at;
    if (s->n < s->wanted * 2)
        s->attempts[s->n++] = job << 12 | attempt;
    s->early += at < due - 1;
    if (due >= s->since && s->n_late < s->wanted * 2)
        s->late[s->n_late++] = at - due;
}

static inline long distinct(struct seen *s)
{
    long found = 0;
    qsort(s->attempts, (size_t)s->n, sizeof *s->attempts, by_id);
    for (long i = 0; i < s->n; i++)
        found += !i || s->attempts[i] != s->attempts[i - 1];
    return found;
}

static inline void tell(struct seen *s, long applied)
{
    qsort(s->late, (size_t)s->n_late, sizeof *s->late, by_number);
    printf("{\"messages\":%ld,\"distinct\":%ld,\"early\":%ld,\"applied\":%ld,\"p50\":%.1f,\"p99\":%.1f,\"first_ms\":%."
           "0f,\"last_"
           "ms\":%.0f}\n",
           s->n, distinct(s), s->early, applied, s->n_late ? s->late[s->n_late / 2] : 0,
           s->n_late ? s->late[s->n_late * 99 / 100] : 0, s->first, s->last);
    fflush(stdout);
}
