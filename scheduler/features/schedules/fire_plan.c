/*
 * Planning of fires. Three kinds of instants matter: what was missed (before now), what comes soon (to be made in any
 * case), and the one fire behind it (made too, so that there is always one). Where fires must not overlap, one at a
 * time is planned, when the one before is finished or its own time has come.
 */
#include "fire_plan.h"

#include "base/assert.h"
#include "base/text/timetext.h"

#define REST_MAX_MS DT_FIRES_AHEAD_MS

dt_status dt_schedule_recurrence(const struct dt_schedule *schedule, dt_zone_files *zones, struct dt_recurrence *out,
                                 dt_zone **zone, struct dt_error *err)
{
    dt_status status = DT_OK;
    *zone = NULL;
    *out = (struct dt_recurrence){
        .every_ms = schedule->cron.p ? 0 : schedule->every_ms,
        .anchor_ms = schedule->anchor_ms,
        .starts_at_ms = schedule->has_start ? schedule->starts_at_ms : INT64_MIN,
        .ends_at_ms = dt_earlier(schedule->has_end ? schedule->ends_at_ms : INT64_MAX, DT_TIME_MAX_MS + 1),
    };
    if (schedule->cron.p)
        status = dt_cron_parse(schedule->cron, &out->cron, err);
    else if (schedule->every_ms <= 0)
        status = dt_fail(err, DT_INVALID, "it has neither cron nor every");
    if (status == DT_OK)
        status = dt_zone_files_get(zones, schedule->time_zone, zone, err);
    out->zone = *zone;
    return status;
}

int64_t dt_fire_runs_at_ms(const struct dt_schedule *s, int64_t fire_ms)
{
    return dt_earlier(fire_ms + dt_recurrence_jitter_ms(s->name, fire_ms, s->jitter_ms), DT_TIME_MAX_MS);
}

void dt_fire_plan_from(struct dt_schedule *s, const struct dt_recurrence *r, int64_t from_ms)
{
    const int64_t next_ms = dt_recurrence_next_ms(r, from_ms - 1);
    s->next_fire_ms = next_ms == DT_NEVER ? 0 : next_ms;
}

/* Leaves out what was missed and is too old, or not among the newest. */
static void pass_by_missed(struct dt_schedule *s, const struct dt_fire_plan *plan)
{
    int64_t fires[DT_CATCH_UP_MAX];
    const int64_t since_ms = s->waits_since_ms ? dt_earlier(s->waits_since_ms, plan->now_ms) : plan->now_ms;
    int64_t oldest_ms = since_ms - s->jitter_ms - dt_later(s->catch_up_ms, DT_FIRE_GRACE_MS);

    if (s->next_fire_ms < oldest_ms)
        dt_fire_plan_from(s, plan->recurrence, oldest_ms);
    if ((!s->catch_up_max && !s->waits_since_ms) || !s->next_fire_ms || s->next_fire_ms > plan->now_ms)
        return;
    size_t max = (size_t)dt_earlier(s->catch_up_max ? s->catch_up_max : DT_FIRES_AHEAD, DT_CATCH_UP_MAX);
    if (dt_recurrence_newest(plan->recurrence, s->next_fire_ms - 1, plan->now_ms, fires, max) == max)
        s->next_fire_ms = fires[0];
}

static void take_next(struct dt_schedule *s, struct dt_fire_plan *plan, enum dt_fire_how how)
{
    dt_assert_cmp(plan->n, <, plan->room);
    plan->fires[plan->n++] = (struct dt_fire){s->next_fire_ms, how};
    s->last_fire_ms = s->next_fire_ms;
    dt_fire_plan_from(s, plan->recurrence, s->next_fire_ms + 1);
}

/* Some time after the last fire: other schedules may have the same one, and not all are looked at in one moment. */
static int64_t rested_ms(const struct dt_schedule *s)
{
    int64_t rest_ms = dt_earlier(REST_MAX_MS, (s->next_fire_ms - s->last_fire_ms) / 4);
    return s->last_fire_ms + 1 + dt_recurrence_jitter_ms(s->name, s->last_fire_ms, rest_ms);
}

static bool is_due(const struct dt_schedule *s, const struct dt_fire_plan *plan)
{
    return s->next_fire_ms && dt_fire_runs_at_ms(s, s->next_fire_ms) <= plan->now_ms;
}

/* The last instant whose fire comes soon. *half_ms: half of DT_FIRES_AHEAD are over; INT64_MAX: fewer come. */
static int64_t find_soon_ms(const struct dt_fire_plan *plan, int64_t *half_ms)
{
    const int64_t soon_ms = plan->now_ms + 2 * DT_FIRES_AHEAD_MS;
    int64_t at_ms = plan->now_ms;
    for (int i = 0; i < DT_FIRES_AHEAD; i++) {
        at_ms = dt_recurrence_next_ms(plan->recurrence, at_ms);
        if (at_ms > soon_ms) {
            *half_ms = INT64_MAX;
            return soon_ms;
        }
        if (i == DT_FIRES_AHEAD / 2)
            *half_ms = at_ms;
    }
    return at_ms;
}

/* All that comes soon, and at least one that lies ahead. */
static void plan_freely(struct dt_schedule *s, struct dt_fire_plan *plan)
{
    int64_t half_ms = INT64_MAX;
    const int64_t soon_ms = find_soon_ms(plan, &half_ms);
    while (plan->due_only ? is_due(s, plan)
                          : s->next_fire_ms && (s->next_fire_ms <= soon_ms || s->last_fire_ms <= plan->now_ms)) {
        if (plan->n == plan->room) {
            plan->look_ms = plan->now_ms;
            return;
        }
        take_next(s, plan, DT_FIRE_RUNS);
    }
    plan->look_ms = !s->next_fire_ms       ? 0
                    : half_ms != INT64_MAX ? half_ms
                                           : dt_earlier(s->next_fire_ms - DT_FIRES_AHEAD_MS, rested_ms(s));
    if (plan->look_ms && plan->look_ms <= plan->now_ms)
        plan->look_ms = plan->now_ms + 1;
}

/* One fire at most: what is behind it depends on its job. */
static void plan_one(struct dt_schedule *s, struct dt_fire_plan *plan)
{
    bool runs = !plan->unfinished || (s->overlap == DT_OVERLAP_CANCEL && plan->retries_ended);

    if (s->next_fire_ms && !plan->unfinished && !plan->due_only) {
        take_next(s, plan, DT_FIRE_RUNS);
    } else if (is_due(s, plan)) {
        plan->cancel_first = s->overlap == DT_OVERLAP_CANCEL && !runs;
        if (!plan->cancel_first)
            take_next(s, plan, runs ? DT_FIRE_RUNS : DT_FIRE_SKIPPED);
    }
    if (!s->next_fire_ms)
        return;
    /* The first instant ahead of: some time after the last fire, shortly before the next one, and that one. */
    const int64_t chances[] = {s->last_fire_ms ? rested_ms(s) : 0, s->next_fire_ms - DT_FIRES_AHEAD_MS};
    plan->look_ms = dt_later(dt_fire_runs_at_ms(s, s->next_fire_ms), plan->now_ms);
    for (size_t i = 0; i < sizeof(chances) / sizeof(chances[0]); i++)
        if (chances[i] > plan->now_ms)
            plan->look_ms = dt_earlier(plan->look_ms, chances[i]);
}

void dt_fire_plan_make(struct dt_schedule *s, struct dt_fire_plan *plan)
{
    plan->n = 0;
    plan->cancel_first = false;
    plan->look_ms = 0;
    if (s->paused || !s->next_fire_ms)
        return;
    pass_by_missed(s, plan);
    if (plan->room == 0)
        plan->look_ms = plan->now_ms;
    else if (s->overlap == DT_OVERLAP_ALLOW)
        plan_freely(s, plan);
    else
        plan_one(s, plan);
}
