/*
 * Which fires of a schedule are to have jobs now, and when to look again. Pure. For schedules/ only.
 */
#ifndef DT_SCHEDULES_FIRE_PLAN_H
#define DT_SCHEDULES_FIRE_PLAN_H

#include "schedules.h"

/* A fire that is made this much too late was not missed: its schedule was made, or changed, at that moment. */
#define DT_FIRE_GRACE_MS INT64_C(5000)

enum dt_fire_how {
    DT_FIRE_RUNS,
    DT_FIRE_SKIPPED /* made as a cancelled job: the one before is not finished */
};
struct dt_fire {
    int64_t at_ms; /* nominal */
    enum dt_fire_how how;
};

/* The work on one schedule. */
struct dt_fire_plan {
    const struct dt_recurrence *recurrence; /* in */
    int64_t now_ms;                         /* in */
    bool unfinished;                        /* in: the job of the last fire that was to run is not finished */
    bool retries_ended;                     /* in: … and has no further attempts */
    bool due_only;                          /* in: leave what lies ahead */
    size_t room;                            /* in: of fires */
    struct dt_fire *fires;                  /* out: in order of time */
    size_t n;                               /* out */
    bool cancel_first;                      /* out: end the retries of the job before, then plan again */
    int64_t look_ms;                        /* out: when to look again; 0 = never */
};

/* Plans: *s goes on behind the fires of the plan (next_fire_ms, last_fire_ms). */
void dt_fire_plan_make(struct dt_schedule *s, struct dt_fire_plan *plan);
/* The time at which the job of a fire runs. */
int64_t dt_fire_runs_at_ms(const struct dt_schedule *s, int64_t fire_ms);
/* Sets next_fire_ms to the first fire at an instant or later; 0: there is none. */
void dt_fire_plan_from(struct dt_schedule *s, const struct dt_recurrence *r, int64_t from_ms);

#endif
