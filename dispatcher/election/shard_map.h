/*
 * The source of the shard map for every part of this process: how many shards there are, as MySQL says. An urgent
 * chore reads it, so that no other thread waits for MySQL. scheduler/dispatch/shards_store.c says what depends on the
 * map being the latest, and what does not.
 */
#ifndef DT_DISPATCHER_SHARD_MAP_H
#define DT_DISPATCHER_SHARD_MAP_H

#include "base/chores.h"
#include "base/config.h"
#include "dispatch/shards.h"
#include "job/shard.h"
#include "store/store.h"

typedef struct dt_shard_map_source dt_shard_map_source;

struct dt_shard_map_source_env {
    dt_chores *urgent;
    const struct dt_config *config;
    const dt_clock *clock;
    void *arg;
    /* Both in its ticks. There is another map: loops that sleep with the old one should read it. */
    void (*changed)(void *arg);
    /* The shards below `shards` are to be led from now on. */
    void (*led)(void *arg, unsigned shards);
};

/* inst and range: as they were just read, and before this process led a shard. */
DT_MUST_CHECK dt_status dt_shard_map_source_start(const struct dt_shard_map_source_env *env,
                                                  const struct dt_installation *inst,
                                                  const struct dt_shard_range *range, dt_shard_map_source **out);
/* Afterwards no callback is called, and the map stays as it was read last. NULL is accepted. */
void dt_shard_map_source_stop(dt_shard_map_source *source);
void dt_shard_map_source_free(dt_shard_map_source *source); /* of a source that was stopped, or NULL */

/* ---- any thread; none of them waits ---- */
void dt_shard_map_source_get(dt_shard_map_source *source, struct dt_shard_map *out);
/* Another generation was seen, or a change was announced: the row is read at once. */
void dt_shard_map_source_stale(dt_shard_map_source *source);
unsigned dt_shard_map_source_named(const dt_shard_map_source *source);
unsigned dt_shard_map_source_rows(const dt_shard_map_source *source);

#endif
