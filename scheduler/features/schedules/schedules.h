/*
 * Schedules, and the jobs of their fires. Each function is one transaction; statuses as in store/store.h.
 *
 * A fire is an ordinary job with the key `<name>@<its nominal time, ms>`. It is made ahead of its time: the next fire
 * always has a job, and so do the fires of the next DT_FIRES_AHEAD_MS, up to DT_FIRES_AHEAD. If fires must not overlap,
 * the next job is made when the previous job is finished, or when the fire's own time has passed.
 *
 * Each fire has exactly one job, whichever process makes it and wherever that process is killed: a transaction that
 * makes or changes jobs of a schedule locks the schedule's row of schedule_fires, and writes the schedule's progress
 * with the jobs.
 *
 * Fires spend the quotas of their owner's tokens (fire_quota.c). If a quota is used up, the fires wait. When the quota
 * has room again, the newest DT_FIRES_AHEAD of the fires that fell due are made. Owners take turns, so fires of other
 * owners do not wait.
 *
 * A change or a pause first makes the fires that are due, by the previous settings. Future fires are withdrawn: their
 * jobs become cancelled with the error code `withdrawn`. If the changed schedule also has such a fire, its job is
 * scheduled again. A maker is a chore or an API worker that makes fires. A look is a check of one schedule by a maker.
 */
#pragma once

#include "base/fair.h"
#include "base/text/zone.h"
#include "cron.h"
#include "job/job.h"
#include "job/list/list.h"
#include "store/store.h"

#define DT_CATCH_UP_MAX   1000           /* largest value of catch_up_max */
#define DT_FIRES_AHEAD_MS INT64_C(60000) /* if makers stop for less than this time, no fire is late */
#define DT_FIRES_AHEAD    100            /* most fires that a schedule has within DT_FIRES_AHEAD_MS */
#define DT_FIRES_AT_ONCE  500            /* most jobs of one transaction */

/* Values in the order of the ENUM schedules.overlap. */
enum dt_overlap { DT_OVERLAP_ALLOW, DT_OVERLAP_SKIP, DT_OVERLAP_CANCEL, DT_OVERLAPS };
extern const char *const dt_overlap_names[]; /* the last element is NULL */
const char *dt_overlap_name(enum dt_overlap overlap);

struct dt_schedule {
    struct dt_str name;
    struct dt_str cron, time_zone; /* cron absent: every_ms is used */
    int64_t every_ms, anchor_ms;
    bool has_start, has_end; /* whether the next two members are set */
    int64_t starts_at_ms, ends_at_ms;
    enum dt_overlap overlap;
    int64_t catch_up_ms, catch_up_max /* 0 = all */, jitter_ms;
    bool paused;
    int64_t created_at_ms, updated_at_ms, version;
    struct dt_new_job job; /* template of its jobs; retry absent or ack_timeout_ms 0 = the topic's values */
    /* The members below are the progress of the schedule. */
    int64_t next_fire_ms, last_fire_ms, last_job_id, zone_stamp, look_ms;
    int64_t owner;          /* owner of its topic */
    int64_t waits_since_ms; /* time since which fires wait for a quota; 0 = none waits */
    struct dt_str error;
    int64_t error_at_ms;
};

/* Fills *out from the schedule's settings. *out borrows *zone, which the caller must free. INVALID: the cron expression
 * or the time zone is unknown; the zone may have been removed from tzdata. */
DT_MUST_CHECK dt_status dt_schedule_recurrence(const struct dt_schedule *schedule, dt_zone_files *zones,
                                               struct dt_recurrence *out, dt_zone **zone, struct dt_error *err);

/* Makes fires for one chore or one API worker. Used by one thread at a time. */
struct dt_fire_maker {
    dt_store *store;
    dt_zone_files *zones;
    const struct dt_topic_bound *bound; /* topics of the caller's token; other topics are DENIED; NULL = all topics */
    int64_t number;                     /* random number for the column `maker` of its jobs */
    int64_t id, ids;                    /* reserved ids: the next one, and the number of those left; 0 at first */
    struct dt_arena *arena;             /* memory for all outputs */
    struct dt_job_move *moves;          /* out, in the arena */
    size_t n_moves;
    struct dt_turns had; /* when owners last had their turn; zero at first */
};

struct dt_fires_made {
    size_t schedules; /* number of schedules that were due for a look */
    size_t made, skipped, returned;
    int64_t next_look_ms; /* time of the next look at any schedule; 0 = unknown */
};
/* Makes the fires of a bounded number of schedules that are due for a look. Several processes may call it at the same
 * time. */
DT_MUST_CHECK dt_status dt_store_make_fires(struct dt_fire_maker *maker, struct dt_fires_made *out,
                                            struct dt_error *err);

struct dt_schedule_zones {
    struct dt_str *v; /* in the arena */
    size_t n;
};
DT_MUST_CHECK dt_status dt_store_schedule_zones(dt_store *store, struct dt_arena *arena, struct dt_schedule_zones *out,
                                                struct dt_error *err);
/* Makes the schedules of a zone due for a look if their fires were computed with another version of tzdata. stamp: the
 * current version. *n: the number of these schedules. */
DT_MUST_CHECK dt_status dt_store_schedule_zone_is(dt_store *store, struct dt_str zone, int64_t stamp, uint64_t *n,
                                                  struct dt_error *err);

/* Creates or replaces a schedule, and makes its first fires. If set_paused is false, `paused` keeps its value. *out:
 * the schedule after the change, in the arena. NOT_FOUND: the topic does not exist. INVALID: as in
 * dt_schedule_recurrence; or, with too_many, one of the maker's prefixes has limits.prefix_schedules schedules
 * already. */
struct dt_schedule_put {
    const struct dt_schedule *schedule;
    bool set_paused;
    bool created, too_many; /* out */
};
DT_MUST_CHECK dt_status dt_store_schedule_put(struct dt_fire_maker *maker, struct dt_schedule_put *put,
                                              struct dt_schedule *out, struct dt_error *err);
/* Pauses or resumes a schedule. NOT_FOUND: there is no such schedule. */
DT_MUST_CHECK dt_status dt_store_schedule_pause(struct dt_fire_maker *maker, struct dt_str name, bool paused,
                                                struct dt_schedule *out, struct dt_error *err);
/* Deletes a schedule. The job of its next fire is kept, unless `cancel` is set. NOT_FOUND: there is no such
 * schedule. */
DT_MUST_CHECK dt_status dt_store_schedule_delete(struct dt_fire_maker *maker, struct dt_str name, bool cancel,
                                                 struct dt_error *err);
/* Makes a job of the schedule that is due now. NOT_FOUND: there is no such schedule. INVALID: the job cannot be
 * stored. */
DT_MUST_CHECK dt_status dt_store_schedule_run_now(struct dt_fire_maker *maker, struct dt_str name, struct dt_job *job,
                                                  struct dt_error *err);
/* Reads a schedule. NOT_FOUND: there is no such schedule. */
DT_MUST_CHECK dt_status dt_store_schedule_get(dt_store *store, struct dt_str name, struct dt_arena *arena,
                                              struct dt_schedule *out, struct dt_error *err);
struct dt_schedule_list {
    struct dt_schedule *v; /* in the arena, without payloads */
    size_t n;
    bool more; /* there may be further schedules after the last one */
};
/* Lists schedules with names above `after`, in byte order, up to the end of the page. */
DT_MUST_CHECK dt_status dt_store_schedule_list(dt_store *store, struct dt_str after, struct dt_page_end end,
                                               struct dt_arena *arena, struct dt_schedule_list *out,
                                               struct dt_error *err);
