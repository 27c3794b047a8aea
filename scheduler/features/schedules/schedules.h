/*
 * Schedules, and the jobs of their fires. A fire is a time at which a schedule makes a job. Each function is one
 * transaction; statuses as in store/store.h.
 *
 * The job of a fire is an ordinary job with the key `<name>@<nominal time of the fire, ms>`. It is made ahead of its
 * time: the next fire always has a job, and so do the fires of the next DT_FIRES_AHEAD_MS, up to DT_FIRES_AHEAD. If
 * fires must not overlap, the next job is made when the previous job is finished, or when the fire's own time has
 * passed.
 *
 * Each fire gets exactly one job, even if several processes make fires or one is killed: a transaction that makes or
 * changes jobs of a schedule locks the schedule's row of schedule_fires, and writes the schedule's progress together
 * with the jobs.
 *
 * Fires spend the quotas of their owner's tokens (fire_quota.c). If a quota is used up, the fires wait. When the quota
 * has room again, the newest DT_FIRES_AHEAD of the fires that fell due are made. Owners take turns, so fires of other
 * owners do not wait.
 *
 * If a schedule is changed or paused, the fires that are due get their jobs first, by the previous settings. Future
 * fires are withdrawn: their jobs become cancelled with the error code `withdrawn`. If the changed schedule also has
 * such a fire, its job is scheduled again. A maker is a chore or an API worker that makes jobs of fires. A
 * schedule is due for a check by a maker when its look_at has passed.
 */
#pragma once

#include "base/fair.h"
#include "base/text/zone.h"
#include "cron.h"
#include "job/job.h"
#include "job/list/list.h"
#include "store/store.h"

#define DT_CATCH_UP_MAX 1000 /* largest value of catch_up_max */
/* jobs of fires are made this long ahead: if their makers (chore, API workers) stop for less, no job is late */
#define DT_FIRES_AHEAD_MS INT64_C(60000)
#define DT_FIRES_AHEAD    100 /* most fires that have jobs ahead of their time */
#define DT_FIRES_AT_ONCE  500 /* most jobs of one transaction */

/* What happens if the previous job is not finished. Values in the order of the ENUM schedules.overlap. */
enum dt_overlap { DT_OVERLAP_ALLOW, DT_OVERLAP_SKIP, DT_OVERLAP_CANCEL, DT_OVERLAPS };
extern const char *const dt_overlap_names[]; /* the last element is NULL */
const char *dt_overlap_name(enum dt_overlap overlap);

struct dt_schedule {
    struct dt_str name;
    struct dt_str cron, time_zone; /* cron absent: fires are every_ms apart */
    int64_t every_ms, anchor_ms;
    bool has_start, has_end; /* whether starts_at_ms and ends_at_ms are set */
    int64_t starts_at_ms, ends_at_ms;
    enum dt_overlap overlap;
    int64_t catch_up_ms, catch_up_max /* 0 = all */, jitter_ms;
    bool paused;
    int64_t created_at_ms, updated_at_ms, version;
    struct dt_new_job job; /* template of the jobs; retry absent or ack_timeout_ms 0 = the topic's values */
    /* The members below are the progress of the schedule. */
    int64_t next_fire_ms, last_fire_ms, last_job_id, zone_stamp, look_ms;
    int64_t owner;          /* number of the owner of its topic */
    int64_t waits_since_ms; /* since when fires wait for a quota; 0 = none waits */
    struct dt_str error;
    int64_t error_at_ms;
};

/* Fills *out from the schedule's settings. *out borrows *zone; the caller must free *zone. INVALID: the cron expression
 * is not valid, or the time zone is unknown (it may have been removed from tzdata). */
dt_status dt_schedule_recurrence(const struct dt_schedule *schedule, dt_zone_files *zones, struct dt_recurrence *out,
                                 dt_zone **zone, struct dt_error *err);

/* The state of a maker, which is a chore or an API worker. For one thread. */
struct dt_fire_maker {
    dt_store *store;
    dt_zone_files *zones;
    const struct dt_topic_bound *bound; /* topics of the caller's token; a schedule of another topic is DENIED; NULL =
                                         * all topics */
    int64_t number;                     /* random number of the block of ids, for the column `maker` of the jobs */
    int64_t id, ids;                    /* id: next reserved number; ids: how many reserved numbers are left; 0 at
                                         * first */
    struct dt_arena *arena;             /* memory for all outputs */
    struct dt_job_move *moves;          /* out: jobs whose time changed, for the index; in the arena */
    size_t n_moves;
    struct dt_turns had; /* when each owner last had its turn; all zero at first */
};

struct dt_fires_made {
    size_t schedules; /* number of schedules that were due for a check */
    size_t made, skipped, returned;
    int64_t next_look_ms; /* when the next schedule is due for a check; 0 = unknown */
};
/* Checks a bounded number of schedules that are due for a check, and makes the jobs of their fires. Several processes
 * may call it at the same time. */
dt_status dt_store_make_fires(struct dt_fire_maker *maker, struct dt_fires_made *out, struct dt_error *err);

struct dt_schedule_zones {
    struct dt_str *v; /* in the arena */
    size_t n;
};
dt_status dt_store_schedule_zones(dt_store *store, struct dt_arena *arena, struct dt_schedule_zones *out,
                                  struct dt_error *err);
/* Makes the schedules of a time zone due for a check, if their fires were computed with another version of tzdata.
 * stamp: the current version. *n: number of these schedules. */
dt_status dt_store_schedule_zone_is(dt_store *store, struct dt_str zone, int64_t stamp, uint64_t *n,
                                    struct dt_error *err);

/* Creates or replaces a schedule, and makes the jobs of its first fires. If set_paused is false, `paused` does not
 * change. *out: the schedule after the change, in the arena. NOT_FOUND: the topic does not exist. INVALID: as in
 * dt_schedule_recurrence; or, if too_many is set, one of the maker's prefixes has limits.prefix_schedules schedules
 * already. */
struct dt_schedule_put {
    const struct dt_schedule *schedule;
    bool set_paused;
    /* out: created: the schedule is new; too_many, with INVALID: the token has too many schedules */
    bool created, too_many;
};
dt_status dt_store_schedule_put(struct dt_fire_maker *maker, struct dt_schedule_put *put, struct dt_schedule *out,
                                struct dt_error *err);
/* Pauses or resumes a schedule. NOT_FOUND: there is no such schedule. */
dt_status dt_store_schedule_pause(struct dt_fire_maker *maker, struct dt_str name, bool paused, struct dt_schedule *out,
                                  struct dt_error *err);
/* Deletes a schedule. If `cancel` is not set, the job of its next fire is kept. NOT_FOUND: there is no such
 * schedule. */
dt_status dt_store_schedule_delete(struct dt_fire_maker *maker, struct dt_str name, bool cancel, struct dt_error *err);
/* Makes a job of the schedule that is due at once. NOT_FOUND: there is no such schedule. INVALID: the job cannot be
 * stored. */
dt_status dt_store_schedule_run_now(struct dt_fire_maker *maker, struct dt_str name, struct dt_job *job,
                                    struct dt_error *err);
/* Reads a schedule. NOT_FOUND: there is no such schedule. */
dt_status dt_store_schedule_get(dt_store *store, struct dt_str name, struct dt_arena *arena, struct dt_schedule *out,
                                struct dt_error *err);
struct dt_schedule_list {
    struct dt_schedule *v; /* in the arena, without payloads */
    size_t n;
    bool more; /* there may be further schedules after the last one */
};
/* Lists schedules whose names are above `after`, in byte order, up to the end of the page. */
dt_status dt_store_schedule_list(dt_store *store, struct dt_str after, struct dt_page_end end, struct dt_arena *arena,
                                 struct dt_schedule_list *out, struct dt_error *err);
