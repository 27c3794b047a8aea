/*
 * When a schedule fires: by a cron expression in a zone, or in whole steps of elapsed time; within its bounds. Pure.
 * All times in ms since 1970.
 */
#ifndef DT_SCHEDULES_RECURRENCE_H
#define DT_SCHEDULES_RECURRENCE_H

#include "cron.h"

struct dt_recurrence {
    struct dt_cron cron;
    const dt_zone *zone;  /* borrowed; NULL = UTC. Of cron expressions only */
    int64_t every_ms;     /* 0: by the expression */
    int64_t anchor_ms;    /* the steps of every_ms count from it */
    int64_t starts_at_ms; /* inclusive; INT64_MIN = no bound */
    int64_t ends_at_ms;   /* exclusive; INT64_MAX = no bound */
};

/* The first fire after an instant; DT_NEVER: there is none. */
int64_t dt_recurrence_next_ms(const struct dt_recurrence *r, int64_t after_ms);

/*
 * The newest fires in a stretch of time: after after_ms, up to until_ms. Fills fires with at most max of them, in order
 * of time, and returns how many. The work is that of enumerating a few times as many.
 */
size_t dt_recurrence_newest(const struct dt_recurrence *r, int64_t after_ms, int64_t until_ms, int64_t *fires,
                            size_t max);

/* So much later than its nominal time a fire of the schedule runs: from 0 to jitter_ms, the same whoever asks. */
int64_t dt_recurrence_jitter_ms(struct dt_str name, int64_t fire_ms, int64_t jitter_ms);

#endif
