/* The heartbeat: an urgent chore that writes once a second into MySQL that the process is alive, what elects it and
 * which shards it leads. From the same table it reads whether every process that changes jobs can write to the index;
 * only then may a leader trust the index. A lost entry is known at once if this process lost it, or if the process that
 * lost it can announce the loss through any Redis; otherwise it is known within a second. */
#pragma once

#include "process.h"

typedef struct dt_heartbeat dt_heartbeat;

dt_status dt_heartbeat_start(const struct dt_process_env *env, dt_heartbeat **out);
/* Stops the heartbeat, and frees it. If the row says that the process is elected, and MySQL has answered lately, first
 * writes that it is not elected. Accepts NULL. */
void dt_heartbeat_stop(dt_heartbeat *heartbeat);

/* ---- any thread; none of them waits; NULL is accepted ---- */
/* Records that a change could not be written to the index. down: the endpoints that failed (dt_index_failing). */
void dt_heartbeat_lost(dt_heartbeat *heartbeat, const char *down);
/* Runs the tick now, because a leadership began or ended, or another process sent an announcement. */
void dt_heartbeat_news(dt_heartbeat *heartbeat);
/* Makes other processes do their periodic checks now. The call may wait for Redis. */
void dt_heartbeat_announce(dt_heartbeat *heartbeat);
/* Returns whether some process that changes jobs cannot write to the index at this endpoint ("host:port"). */
bool dt_heartbeat_owed(dt_heartbeat *heartbeat, const char *endpoint);
