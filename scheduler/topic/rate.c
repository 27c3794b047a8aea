/* Owns the arithmetic of rates; topic/rate.h has its contract. */
#include "rate.h"

#include "base/clock.h"

#define NS_PER_MS INT64_C(1000000)
#define NS_PER_S  INT64_C(1000000000)
#define BURST_NS  (NS_PER_S / 10 * 9)
#define CLOCK_NS  (10 * NS_PER_S) /* clocks of transactions differ by less */

bool dt_rate_parse(struct dt_str text, int64_t *interval_ns)
{
    int64_t n = 0;
    size_t i = 0;
    for (; i < text.n && i < 7 && text.p[i] >= '0' && text.p[i] <= '9'; i++)
        n = n * 10 + (text.p[i] - '0');
    bool unit = i + 2 == text.n && text.p[i] == '/' && (text.p[i + 1] == 's' || text.p[i + 1] == 'm');
    if (!unit || text.p[0] == '0' || n < 1 || n > DT_RATE_MAX)
        return false;
    int64_t period_ns = text.p[i + 1] == 's' ? NS_PER_S : 60 * NS_PER_S;
    *interval_ns = (period_ns + n - 1) / n;
    return true;
}

/* So far ahead of its time an attempt may begin. */
static int64_t ahead_ns(const struct dt_rate *rate)
{
    return rate->interval_ns < BURST_NS ? BURST_NS - rate->interval_ns : 0;
}

void dt_rate_adopt(struct dt_rate *rate, int64_t was_interval_ns, int64_t now_ms)
{
    int64_t last_ns = now_ms * NS_PER_MS + ahead_ns(rate);
    int64_t slower_ns = was_interval_ns ? rate->interval_ns - was_interval_ns : 0;
    bool same = slower_ns == 0 && rate->next_ns - last_ns <= rate->interval_ns + CLOCK_NS;
    if (same || rate->next_ns <= last_ns)
        return;
    int64_t owed_ns = slower_ns ? rate->next_ns + slower_ns : last_ns;
    rate->next_ns = dt_later(last_ns, dt_earlier(owed_ns, last_ns + rate->interval_ns));
}

size_t dt_rate_room(const struct dt_rate *rate, int64_t now_ms)
{
    int64_t now_ns = now_ms * NS_PER_MS;
    int64_t left_ns = now_ns + ahead_ns(rate) - dt_later(rate->next_ns, now_ns);
    return left_ns < 0 ? 0 : (size_t)(left_ns / rate->interval_ns) + 1;
}

void dt_rate_take(struct dt_rate *rate, int64_t now_ms, size_t n)
{
    if (n)
        rate->next_ns = dt_later(rate->next_ns, now_ms * NS_PER_MS) + (int64_t)n * rate->interval_ns;
}

int64_t dt_rate_opens_ms(const struct dt_rate *rate)
{
    return (rate->next_ns - ahead_ns(rate) + NS_PER_MS - 1) / NS_PER_MS;
}
