/*
 * The system's time zone files, read when a zone is first asked for, and again when its file has become another one (by
 * device, inode, time of change and size: a new tzdata). Every function is thread-safe.
 */
#ifndef DT_BASE_ZONE_FILES_H
#define DT_BASE_ZONE_FILES_H

#include "zone.h"

#define DT_ZONE_NAME_MAX 64
#define DT_ZONE_DIR      "/usr/share/zoneinfo"

typedef struct dt_zone_files dt_zone_files;

/* Zones from the files below dir, which is borrowed and outlives it; NULL: DT_ZONE_DIR. NOMEM. Freed by
 * dt_zone_files_free. */
DT_MUST_CHECK dt_status dt_zone_files_new(const char *dir, dt_zone_files **out);
/* Accepts NULL. Zones that somebody holds stay. */
void dt_zone_files_free(dt_zone_files *files);
/*
 * Gives the zone as its file is now; the caller holds it until dt_zone_free. "UTC" needs no file: *out is NULL with OK.
 * INVALID: there is no such zone, or the file of this name is none ("localtime", "posix/…"); err says which.
 * UNAVAILABLE: it cannot be read now. NOMEM. *out is NULL unless OK.
 */
DT_MUST_CHECK dt_status dt_zone_files_get(dt_zone_files *files, struct dt_str name, dt_zone **out,
                                          struct dt_error *err);

#endif
