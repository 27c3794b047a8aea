/*
 * Schedules, and the jobs of their fires. Each function is one transaction; statuses as in store.h.
 *
 * A fire is an ordinary job with the key `<name>@<its nominal time, ms>`. It is made ahead of its time: there is always
 * the next one, and all of the next DT_FIRES_AHEAD_MS, DT_FIRES_AHEAD at most; where fires must not overlap, the next
 * one once the one before is finished, or its own time has come. A process that makes or changes anything of a schedule
 * holds its row of schedule_fires and writes how far it is with the jobs, in one transaction: each fire has one job,
 * whichever process makes it, and whatever dies.
 *
 * Fires spend the quotas of their owner's tokens (fire_quota.c). If one is used up, they wait: those that fall due
 * meanwhile are made when there is room, the newest DT_FIRES_AHEAD of them. Owners take turns, so only their own wait.
 *
 * A change or a pause makes what is due first, as it was to be. Fires that lie ahead are withdrawn: they are cancelled
 * jobs with the error code `withdrawn`, and go back to scheduled when their fire is wanted again.
 */
#ifndef DT_SCHEDULES_SCHEDULES_H
#define DT_SCHEDULES_SCHEDULES_H

#include "base/fair.h"
#include "base/text/zone_files.h"
#include "job/fire_key.h"
#include "job/job.h"
#include "job/list/list.h"
#include "cron.h"
#include "store/store.h"

#define DT_CATCH_UP_MAX   1000           /* of catch_up_max */
#define DT_FIRES_AHEAD_MS INT64_C(60000) /* an outage of the makers that is no longer delays nothing */
#define DT_FIRES_AHEAD    100            /* of one schedule; a quick one has so many, and not all of that time */
#define DT_FIRES_AT_ONCE  500            /* jobs that one transaction makes, and their ids */

/* In the order of the ENUM schedules.overlap. */
enum dt_overlap { DT_OVERLAP_ALLOW, DT_OVERLAP_SKIP, DT_OVERLAP_CANCEL, DT_OVERLAPS };
extern const char *const dt_overlap_names[]; /* ends with NULL */
const char *dt_overlap_name(enum dt_overlap overlap);

struct dt_schedule {
    struct dt_str name;
    struct dt_str cron, time_zone; /* cron absent: every_ms */
    int64_t every_ms, anchor_ms;
    bool has_start, has_end; /* whether the next two are set */
    int64_t starts_at_ms, ends_at_ms;
    enum dt_overlap overlap;
    int64_t catch_up_ms, catch_up_max /* 0 = all */, jitter_ms;
    bool paused;
    int64_t created_at_ms, updated_at_ms, version;
    /* Members of its jobs: topic, retry (absent = the topic's), ack_timeout_ms (0 = the topic's), digest, … */
    struct dt_new_job job;
    /* How far it is. */
    int64_t next_fire_ms, last_fire_ms, last_job_id, zone_stamp, look_ms;
    int64_t owner;          /* of its topic */
    int64_t waits_since_ms; /* since when fires wait for a quota; 0 = none does */
    struct dt_str error;
    int64_t error_at_ms;
};

/* Puts together what a schedule's fires are reckoned from. The zone that *out borrows is held in *zone by the caller.
 * INVALID: an expression or a zone that cannot be understood (any more). */
DT_MUST_CHECK dt_status dt_schedule_recurrence(const struct dt_schedule *schedule, dt_zone_files *zones,
                                               struct dt_recurrence *out, dt_zone **zone, struct dt_error *err);

/* Whoever makes fires: its connection, zones, and a block of ids. One thread at a time. */
struct dt_fire_maker {
    dt_store *store;
    dt_zone_files *zones;
    const struct dt_topic_bound
        *bound;                /* of the caller's token, or NULL: changes of other topics' schedules are DENIED */
    int64_t number;            /* random: the `maker` of its jobs */
    int64_t id, ids;           /* the next sequence number, and how many are left; 0 at first */
    struct dt_arena *arena;    /* of what comes out */
    struct dt_job_move *moves; /* out, in the arena */
    size_t n_moves;
    struct dt_turns had; /* owners' last turns; zero to begin with */
};

/* The outcome of looking at the schedules that were to be looked at. */
struct dt_fires_made {
    size_t schedules; /* that were looked at */
    size_t made, skipped, returned;
    int64_t next_look_ms; /* when the next look is due; 0 = not known to be */
};
/* Makes the fires of schedules whose look is due, a bounded number at once; others may do so at the same time. */
DT_MUST_CHECK dt_status dt_store_make_fires(struct dt_fire_maker *maker, struct dt_fires_made *out,
                                            struct dt_error *err);

/* The zones that schedules name. */
struct dt_schedule_zones {
    struct dt_str *v; /* in the arena */
    size_t n;
};
DT_MUST_CHECK dt_status dt_store_schedule_zones(dt_store *store, struct dt_arena *arena, struct dt_schedule_zones *out,
                                                struct dt_error *err);
/* Has all schedules of a zone looked at whose fires were reckoned with another tzdata than that with this stamp. *n:
 * how many. */
DT_MUST_CHECK dt_status dt_store_schedule_zone_is(dt_store *store, struct dt_str zone, int64_t stamp, uint64_t *n,
                                                  struct dt_error *err);

/* Makes the schedule, or replaces it, and makes its first fires. paused counts if set_paused; else it stays as it is.
 * *created: it was not there. *out: as it is now, in the arena. NOT_FOUND: its topic is not there. INVALID: as of
 * dt_schedule_recurrence; or too_many: the bound of the maker permits limits.prefix_schedules for each prefix. */
struct dt_schedule_put {
    const struct dt_schedule *schedule;
    bool set_paused;
    bool created, too_many; /* out */
};
DT_MUST_CHECK dt_status dt_store_schedule_put(struct dt_fire_maker *maker, struct dt_schedule_put *put,
                                              struct dt_schedule *out, struct dt_error *err);
/* Pauses the schedule, or resumes it. NOT_FOUND. */
DT_MUST_CHECK dt_status dt_store_schedule_pause(struct dt_fire_maker *maker, struct dt_str name, bool paused,
                                                struct dt_schedule *out, struct dt_error *err);
/* Removes the schedule. The next fire that has a job stays unless cancel. NOT_FOUND. */
DT_MUST_CHECK dt_status dt_store_schedule_delete(struct dt_fire_maker *maker, struct dt_str name, bool cancel,
                                                 struct dt_error *err);
/* Makes a job for this very moment. NOT_FOUND; INVALID: it cannot be stored. */
DT_MUST_CHECK dt_status dt_store_schedule_run_now(struct dt_fire_maker *maker, struct dt_str name, struct dt_job *job,
                                                  struct dt_error *err);
/* Reads a schedule. NOT_FOUND. */
DT_MUST_CHECK dt_status dt_store_schedule_get(dt_store *store, struct dt_str name, struct dt_arena *arena,
                                              struct dt_schedule *out, struct dt_error *err);
struct dt_schedule_list {
    struct dt_schedule *v; /* in the arena, without payloads */
    size_t n;
    bool more; /* there may be more behind the last one */
};
/* Lists schedules with names above `after` in byte order, up to the end of the page. */
DT_MUST_CHECK dt_status dt_store_schedule_list(dt_store *store, struct dt_str after, struct dt_page_end end,
                                               struct dt_arena *arena, struct dt_schedule_list *out,
                                               struct dt_error *err);

#endif
