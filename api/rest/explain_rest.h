/*
 * Why shards do not dispatch, and what jobs wait for: for explain, the doctor, the overview and every answer that shows
 * a job.
 */
#pragma once

#include "dispatch/shards.h"
#include "job/job.h"
#include "request/topic_cache.h"
#include "store/processes.h"
#include "store/store.h"

/* Why a shard does not dispatch: the first reason that holds. The view v_shards has the same words. */
enum dt_shard_why {
    DT_SHARD_HALTED,
    DT_SHARD_NO_DISPATCHER, /* it has no leader, because no dispatcher runs */
    DT_SHARD_NO_LEADER,
    DT_SHARD_SILENT, /* its leader has reported nothing for 15 s */
    DT_SHARD_WAITS,  /* its leader waits for a server; or dispatchers do, before they elect a leader */
    DT_SHARD_OK
};
struct dt_shard_cause {
    enum dt_shard_why why;
    struct dt_str waits, detail; /* of WAITS: the server ("kafka"), and the reason */
};
/* shard: NULL if it has no row. now_ms: MySQL's clock. Pure, like the next four functions. */
struct dt_shard_cause dt_shard_judge(const struct dt_shard_info *shard, const struct dt_dispatchers *dispatchers,
                                     int64_t now_ms);
/* How long the oldest due job has been due; 0: none is due. */
int64_t dt_shard_oldest_ms(const struct dt_shard_info *shard, int64_t now_ms);
/* Returns true if the leader's set of due jobs is complete in Redis, or the installation has no Redis. */
bool dt_shard_has_index(const struct dt_shard_info *shard);
/* Adds the shard as JSON; name: of the member, or NULL. */
void dt_shard_put(struct dt_strbuf *out, const char *name, const struct dt_shard_info *shard,
                  const struct dt_dispatchers *dispatchers, int64_t now_ms);
/* Adds the members about the shard's index, and when its leader was seen. */
void dt_shard_put_drift(struct dt_strbuf *out, const struct dt_shard_info *shard);

/*
 * What a job waits for (job/job_state.h), from its row and from snapshots that are at most a second old. MySQL is read
 * only for dispatched jobs of a shard whose leader waits for Kafka, and for topics with limits.
 */

#define DT_WAITING_LIMITS                                                                                              \
    16 /* number of topics with limits that one answer reads; further ones count as below their limit */

/* References to snapshots; both are NULL before MySQL was first reached. MySQL's clock is between now_ms and
 * latest_ms. */
struct dt_waiting {
    struct dt_view *view;
    struct dt_shards_view *shards;
    int64_t now_ms, latest_ms;
    dt_store *store; /* NULL: MySQL is not read */
    struct dt_waiting_limit {
        struct dt_str topic; /* borrowed from the snapshot */
        bool full;
    } limits[DT_WAITING_LIMITS]; /* topics that were read */
    size_t n_limits;
};
/* Takes references to the current snapshots; dt_waiting_clear releases them. store is borrowed until then. */
void dt_waiting_init(struct dt_waiting *waiting, dt_topic_cache *cache, const dt_refclock *ref, dt_store *store);
void dt_waiting_clear(struct dt_waiting *waiting);
/* Returns the word: static text; NULL: the job is finished. */
const char *dt_waiting_for(struct dt_waiting *waiting, const struct dt_job *job);

/* The data that explain a job's state. */
struct dt_explained {
    const struct dt_job *job;
    const char *waiting_for;               /* as dt_waiting_for returned it */
    int64_t now_ms;                        /* MySQL's clock */
    const struct dt_topic_settings *topic; /* NULL: there is no such topic */
    unsigned shard_number;                 /* of the shard that must dispatch it */
    const struct dt_shard_info *shard;     /* NULL: it has no row */
    /* The shard whose leader claimed the latest attempt; NULL: none, or it has no row. */
    const struct dt_shard_info *claimed;
    const struct dt_dispatchers *dispatchers;
    struct dt_shard_cause cause; /* why the shard does not dispatch */
};
/* Borrows everything. waiting_for: as dt_waiting_for returned it. */
struct dt_explained dt_explained_of(const struct dt_waiting *waiting, const struct dt_job *job,
                                    const char *waiting_for);

/* Appends what an operator can do about it. Appends nothing if nothing needs to be done. */
void dt_explain_action(const struct dt_explained *explained, struct dt_strbuf *out);
