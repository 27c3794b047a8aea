/*
 * Cron expressions: from text to a compiled form, and from an instant to the next fire. Pure.
 *
 *     [second] minute hour day-of-month month day-of-week        six fields, or five (second 0); or one of
 *     @yearly @annually @monthly @weekly @daily @midnight @hourly
 *
 * A field is a list, with commas, of: a value; a range a-b (of weekdays also across the week's end: FRI-MON); * for
 * all; each of the last two with /n for each n-th, and a/n for each n-th from a to the end. Months and weekdays may be
 * called by the first three letters of their English names; Sunday is 0 or 7. The two day fields take ? for *, and
 * more:
 *
 *     day of month   L the last; 15W the weekday (MON to FRI) nearest to the 15th within the month; LW the last weekday
 *     day of week    5L the month's last Friday; 1#2 its second Monday
 *
 * When neither of the two day fields begins with * or ?, a day that either names is meant; otherwise both have to name
 * it (as in Vixie cron: a * with a step in one of them narrows the other).
 *
 * Daylight saving time: if the hour field has no * and no /, all fires in a gap become one fire at the end of the gap,
 * and a repeated local time fires the first time only. Otherwise fires follow elapsed time: every instant at which the
 * local clock shows a matching time is a fire.
 */
#ifndef DT_SCHEDULES_CRON_H
#define DT_SCHEDULES_CRON_H

#include "base/text/zone.h"

#define DT_CRON_MAX 250 /* bytes of the text */
/* A fire that never comes. */
#define DT_NEVER INT64_MAX

/* A bit for each value. */
struct dt_cron {
    uint64_t seconds, minutes;
    uint32_t hours, days, months;
    uint32_t near_days;   /* the n of each nW */
    uint32_t weekdays;    /* 0 to 6 */
    uint8_t nth[7];       /* of each weekday: bit n, its n-th of the month; bit 0, its last */
    bool last_day;        /* L */
    bool last_weekday;    /* LW */
    bool all_days;        /* the field of days begins with * or ? */
    bool all_weekdays;    /* so does that of weekdays */
    bool follows_elapsed; /* the hour field has * or / */
};

/* Compiles a text. INVALID: err says why, naming the field; also for what never comes ("0 0 31 2 *"). */
DT_MUST_CHECK dt_status dt_cron_parse(struct dt_str text, struct dt_cron *out, struct dt_error *err);
/* The first fire after an instant, both in ms since 1970, by a zone's clocks (NULL = UTC). */
int64_t dt_cron_next_ms(const struct dt_cron *cron, const dt_zone *zone, int64_t after_ms);
/* The next local time that matches, later than local_s (seconds as in zone.h); DT_NEVER: none in 400 years. */
int64_t dt_cron_next_local_s(const struct dt_cron *cron, int64_t local_s);

/* ---- when a schedule fires: by a cron expression in a zone, or every so many ms; within its bounds ---- */
struct dt_recurrence {
    struct dt_cron cron;
    const dt_zone *zone;  /* borrowed; NULL = UTC. Of cron expressions only */
    int64_t every_ms;     /* 0: by the expression */
    int64_t anchor_ms;    /* the steps of every_ms count from it */
    int64_t starts_at_ms; /* inclusive; INT64_MIN = no bound */
    int64_t ends_at_ms;   /* exclusive; INT64_MAX = no bound */
};

/* Returns the first fire after an instant; DT_NEVER: there is none. */
int64_t dt_recurrence_next_ms(const struct dt_recurrence *r, int64_t after_ms);

/*
 * Finds the newest fires after after_ms and up to until_ms. Writes at most `max` of them to fires, in order of time,
 * and returns their number. It enumerates only a few times `max` fires.
 */
size_t dt_recurrence_newest(const struct dt_recurrence *r, int64_t after_ms, int64_t until_ms, int64_t *fires,
                            size_t max);

/* Returns the jitter of a fire: from 0 to jitter_ms, a hash of the name and the fire, so every process gets the
 * same. */
int64_t dt_recurrence_jitter_ms(struct dt_str name, int64_t fire_ms, int64_t jitter_ms);

#endif
