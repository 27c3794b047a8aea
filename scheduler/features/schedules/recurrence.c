/*
 * Fires of a schedule, one after the other. Steps of elapsed time are reckoned, never counted.
 */
#include "recurrence.h"

#define SPAN_MS     INT64_C(3600000) /* the newest fires are looked for in the last hour first */
#define SPAN_FACTOR 8

int64_t dt_recurrence_next_ms(const struct dt_recurrence *r, int64_t after_ms)
{
    int64_t at_ms = r->anchor_ms;
    if (after_ms < r->starts_at_ms)
        after_ms = r->starts_at_ms - 1;
    if (!r->every_ms)
        at_ms = dt_cron_next_ms(&r->cron, r->zone, after_ms);
    else if (after_ms >= r->anchor_ms)
        at_ms += ((after_ms - r->anchor_ms) / r->every_ms + 1) * r->every_ms;
    return at_ms < r->ends_at_ms ? at_ms : DT_NEVER;
}

static void reverse(int64_t *v, size_t n)
{
    for (size_t i = 0; i < n / 2; i++) {
        int64_t other = v[i];
        v[i] = v[n - 1 - i];
        v[n - 1 - i] = other;
    }
}

size_t dt_recurrence_newest(const struct dt_recurrence *r, int64_t after_ms, int64_t until_ms, int64_t *fires,
                            size_t max)
{
    int64_t span_ms = SPAN_MS;
    int64_t from_ms;
    size_t n;
    if (max == 0)
        return 0;
    do { /* all fires of the stretch pass through a ring */
        from_ms = until_ms - span_ms > after_ms ? until_ms - span_ms : after_ms;
        n = 0;
        for (int64_t at_ms = dt_recurrence_next_ms(r, from_ms); at_ms <= until_ms && at_ms != DT_NEVER;
             at_ms = dt_recurrence_next_ms(r, at_ms))
            fires[n++ % max] = at_ms;
        span_ms *= SPAN_FACTOR;
    } while (n < max && from_ms > after_ms);
    if (n <= max)
        return n;
    /* Three reversals turn the ring so that its oldest stands first. */
    reverse(fires, n % max);
    reverse(fires + n % max, max - n % max);
    reverse(fires, max);
    return max;
}

int64_t dt_recurrence_jitter_ms(struct dt_str name, int64_t fire_ms, int64_t jitter_ms)
{
    uint64_t mixed = dt_str_hash(name) ^ (uint64_t)fire_ms * UINT64_C(0x9E3779B97F4A7C15);
    mixed = (mixed ^ mixed >> 31) * UINT64_C(0xBF58476D1CE4E5B9);
    return jitter_ms > 0 ? (int64_t)((mixed >> 11) % (uint64_t)(jitter_ms + 1)) : 0;
}
