/*
 * Cron expressions: from text to a compiled form, and from an instant to the next fire. Pure.
 *
 *     [second] minute hour day-of-month month day-of-week        six fields, or five (second 0); or one of
 *     @yearly @annually @monthly @weekly @daily @midnight @hourly
 *
 * A field is a list, separated by commas, of: a value; a range a-b (weekdays may wrap around the week's end: FRI-MON);
 * * for all. A range or * may be followed by /n for each n-th; a/n is each n-th from a to the end. Months and weekdays
 * may be written as the first three letters of their English names; Sunday is 0 or 7. The two day fields also accept ?
 * for *, and:
 *
 *     day of month   L the last; 15W the weekday (MON to FRI) nearest to the 15th within the month; LW the last weekday
 *     day of week    5L the month's last Friday; 1#2 its second Monday
 *
 * If neither of the two day fields begins with * or ?, a day matches if either field matches; otherwise both fields
 * must match (as in Vixie cron: a * with a step in one of them narrows the other).
 *
 * Daylight saving time: if the hour field has no * and no /, all fires in a gap become one fire at the end of the gap,
 * and a repeated local time fires only the first time. Otherwise fires follow elapsed time: every instant at which the
 * local clock shows a matching time is a fire.
 */
#pragma once

#include "base/text/zone.h"

#define DT_CRON_MAX 250 /* most bytes of a text */
/* Returned by a search that finds no fire. */
#define DT_NEVER INT64_MAX

/* The sets of values that match. Bit v is set if v matches. */
struct dt_cron {
    uint64_t seconds, minutes;
    uint32_t hours, days, months;
    uint32_t near_days;   /* bit n: nW is an item of the expression */
    uint32_t weekdays;    /* 0 to 6 */
    uint8_t nth[7];       /* for each weekday: bit n: its n-th in the month matches; bit 0: its last */
    bool last_day;        /* L */
    bool last_weekday;    /* LW */
    bool all_days;        /* the field of days begins with * or ? */
    bool all_weekdays;    /* the field of weekdays begins with * or ? */
    bool follows_elapsed; /* the hour field has * or /, so fires follow elapsed time */
};

/* Compiles a text. INVALID: err has the reason and the field. An expression that never fires, such as "0 0 31 2 *", is
 * INVALID, too. */
dt_status dt_cron_parse(struct dt_str text, struct dt_cron *out, struct dt_error *err);
/* Returns the first fire after an instant, both in ms since 1970, for the local time of a zone (NULL = UTC). */
int64_t dt_cron_next_ms(const struct dt_cron *cron, const dt_zone *zone, int64_t after_ms);
/* Returns the first matching local time after local_s (in seconds, as in zone.h). DT_NEVER: there is none in 400
 * years. */
int64_t dt_cron_next_local_s(const struct dt_cron *cron, int64_t local_s);

/* ---- when a schedule fires: by a cron expression in a zone, or every so many ms; within its bounds ---- */
struct dt_recurrence {
    struct dt_cron cron;
    const dt_zone *zone;  /* borrowed; NULL = UTC; only for cron expressions */
    int64_t every_ms;     /* time between two fires; 0: `cron` determines the fires */
    int64_t anchor_ms;    /* time from which multiples of every_ms are counted */
    int64_t starts_at_ms; /* inclusive; INT64_MIN = no bound */
    int64_t ends_at_ms;   /* exclusive; INT64_MAX = no bound */
};

/* Returns the first fire after an instant; DT_NEVER: there is none. */
int64_t dt_recurrence_next_ms(const struct dt_recurrence *r, int64_t after_ms);

/* Finds the newest fires in (after_ms, until_ms]. Writes at most `max` of them to `fires`, in order of time, and
 * returns their number. Even if there are many more fires, it computes only a few times `max`. */
size_t dt_recurrence_newest(const struct dt_recurrence *r, int64_t after_ms, int64_t until_ms, int64_t *fires,
                            size_t max);

/* Returns the jitter of a fire, from 0 to jitter_ms. It is a hash of the name and of the fire, so all processes compute
 * the same jitter. */
int64_t dt_recurrence_jitter_ms(struct dt_str name, int64_t fire_ms, int64_t jitter_ms);
