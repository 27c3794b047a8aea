/* Reads and writes rows of the tables `schedules` and `schedule_fires`. For the files of this folder that have a
 * connection, and for features/forecast/, which reads schedules. */
#pragma once

#include "schedules.h"
#include "store/store_internal.h"

/* Reads a schedule with its payload, in a transaction or without one. NOT_FOUND: there is no such schedule. */
dt_status dt_schedule_read(dt_db *db, struct dt_str name, struct dt_arena *arena, struct dt_schedule *out,
                           struct dt_error *err);
/* Writes the settings of a schedule, without its progress. */
dt_status dt_schedule_write(dt_db *db, const struct dt_schedule *s, struct dt_error *err);
/* The progress of a schedule that is to be written. look_ms: time of the next check; 0 = never. */
struct dt_schedule_progress {
    const struct dt_schedule *schedule; /* its next_fire_ms, last_fire_ms, last_job_id, zone_stamp and error are
                                         * written */
    int64_t look_ms;
};
/* Writes progress in one statement. Uses memory of the arena. If v has a schedule twice, the later entry is written. */
dt_status dt_schedule_write_progress(dt_db *db, struct dt_arena *arena, const struct dt_schedule_progress *v, size_t n,
                                     struct dt_error *err);
/* Reads the current row of the statement select_schedule, or of another one with the same columns. May be passed to
 * dt_store_read_rows. */
dt_status dt_schedule_take(const dt_db *db, struct dt_arena *arena, void *row, void *arg);
