/*
 * Reads and writes rows of the tables `schedules` and `schedule_fires`. For files of schedules/ that have a connection
 * already, and for forecast/, which reads schedules.
 */
#pragma once

#include "schedules.h"
#include "store/store_internal.h"

/* Reads the schedule with its payload, in the caller's transaction or outside of one. NOT_FOUND. */
DT_MUST_CHECK dt_status dt_schedule_read(dt_db *db, struct dt_str name, struct dt_arena *arena, struct dt_schedule *out,
                                         struct dt_error *err);
/* Writes the settings of a schedule, without its progress. */
DT_MUST_CHECK dt_status dt_schedule_write(dt_db *db, const struct dt_schedule *s, struct dt_error *err);
/* The progress of a schedule, and when to look at it again (0 = never). */
struct dt_schedule_progress {
    const struct dt_schedule *schedule; /* its next_fire_ms, last_…, zone_stamp, error */
    int64_t look_ms;
};
/* Writes progress in one statement, with scratch memory of the arena. If a schedule is listed twice, the later one
 * counts. */
DT_MUST_CHECK dt_status dt_schedule_write_progress(dt_db *db, struct dt_arena *arena,
                                                   const struct dt_schedule_progress *v, size_t n,
                                                   struct dt_error *err);
/* Reads the current row of select_schedule, for dt_store_read_rows too. */
DT_MUST_CHECK dt_status dt_schedule_take(const dt_db *db, struct dt_arena *arena, void *row, void *arg);
