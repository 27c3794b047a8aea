/* The source of the shard map for every part of this process: the number of shards as stored in MySQL. An urgent chore
 * reads it, so that no other thread waits for MySQL. scheduler/dispatch/shards_store.c explains what needs the latest
 * map, and what does not. */
#pragma once

#include "dispatch/shards.h"
#include "process.h"
#include "store/store.h"

typedef struct dt_shard_map_source dt_shard_map_source;

/* Starts the chore. inst and range: as read just before, while this process led no shard. */
dt_status dt_shard_map_source_start(const struct dt_process_env *env, const struct dt_installation *inst,
                                    const struct dt_shard_range *range, dt_shard_map_source **out);
/* Stops the chore. Afterwards no callback is called, and the map stays as it was last read. Accepts NULL. */
void dt_shard_map_source_stop(dt_shard_map_source *source);
void dt_shard_map_source_free(dt_shard_map_source *source); /* frees a source that was stopped; accepts NULL */

/* ---- any thread; none of them waits ---- */
void dt_shard_map_source_get(dt_shard_map_source *source, struct dt_shard_map *out);
/* Called when another part of the process has seen another generation, or a change was announced: the chore reads the
 * row at once. */
void dt_shard_map_source_stale(dt_shard_map_source *source);
unsigned dt_shard_map_source_named(const dt_shard_map_source *source);
unsigned dt_shard_map_source_rows(const dt_shard_map_source *source);
