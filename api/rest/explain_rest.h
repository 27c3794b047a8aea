/* Computes why shards do not dispatch, and what jobs wait for. Used by explain, the doctor, the overview, and every
 * answer that shows a job. */
#pragma once

#include "dispatch/shards.h"
#include "job/job.h"
#include "request/topic_cache.h"
#include "store/processes.h"
#include "store/store.h"

/* Why a shard does not dispatch: the first of these reasons that applies. The view v_shards uses the same words. */
enum dt_shard_why {
    DT_SHARD_HALTED,
    DT_SHARD_NO_DISPATCHER, /* the shard has no leader, because no dispatcher runs */
    DT_SHARD_NO_LEADER,
    DT_SHARD_SILENT, /* the shard's leader has reported nothing for 15 s */
    DT_SHARD_WAITS,  /* the leader waits for a server; or dispatchers wait for a server before they elect a leader */
    DT_SHARD_OK
};
struct dt_shard_cause {
    enum dt_shard_why why;
    struct dt_str waits, detail; /* if why is WAITS: the server ("kafka"), and the reason */
};
/* Judges why a shard does not dispatch. shard: NULL if MySQL has no row of it. now_ms: MySQL's clock. This function and
 * the next four are pure. */
struct dt_shard_cause dt_shard_judge(const struct dt_shard_info *shard, const struct dt_dispatchers *dispatchers,
                                     int64_t now_ms);
/* Returns how long the oldest due job has been due; 0 if none is due. */
int64_t dt_shard_oldest_ms(const struct dt_shard_info *shard, int64_t now_ms);
/* Returns true if Redis has all due jobs of the leader, or if the installation has no Redis. */
bool dt_shard_has_index(const struct dt_shard_info *shard);
/* Adds the shard as a JSON object. name: name of the member; NULL: the object is an element or the whole text. */
void dt_shard_put(struct dt_strbuf *out, const char *name, const struct dt_shard_info *shard,
                  const struct dt_dispatchers *dispatchers, int64_t now_ms);
/* Adds the members about the shard's index, and when its leader last reported. */
void dt_shard_put_drift(struct dt_strbuf *out, const struct dt_shard_info *shard);

/* What a job waits for (job/job_state.h) is computed from the job's row, and from snapshots that are at most a second
 * old. MySQL is read only for dispatched jobs of a shard whose leader waits for Kafka, and for topics with limits. */

#define DT_WAITING_LIMITS                                                                                              \
    16 /* number of topics whose limits one answer reads; further topics count as below their limits */

/* References to the snapshots of topics and shards, both NULL before this process first reached MySQL; and the bounds
 * of MySQL's clock, which is between now_ms and latest_ms. */
struct dt_waiting {
    struct dt_view *view;
    struct dt_shards_view *shards;
    int64_t now_ms, latest_ms;
    dt_store *store; /* NULL: do not read MySQL */
    struct dt_waiting_limit {
        struct dt_str topic; /* name, borrowed from the snapshot */
        bool full;
    } limits[DT_WAITING_LIMITS]; /* topics whose limits were read from MySQL */
    size_t n_limits;
};
/* Takes references to the current snapshots; dt_waiting_clear releases them. Borrows store until then. */
void dt_waiting_init(struct dt_waiting *waiting, dt_topic_cache *cache, const dt_refclock *ref, dt_store *store);
void dt_waiting_clear(struct dt_waiting *waiting);
/* Returns the word for what the job waits for: static text; NULL if the job is finished. */
const char *dt_waiting_for(struct dt_waiting *waiting, const struct dt_job *job);

/* The facts that explain the state of a job. */
struct dt_explained {
    const struct dt_job *job;
    const char *waiting_for;               /* result of dt_waiting_for */
    int64_t now_ms;                        /* MySQL's clock */
    const struct dt_topic_settings *topic; /* settings of the job's topic; NULL: the topic does not exist */
    unsigned shard_number;                 /* number of the shard that must dispatch the job */
    const struct dt_shard_info *shard;     /* last report of the shard's leader; NULL: MySQL has no row of the shard */
    /* The shard whose leader claimed the latest attempt. NULL: no attempt was claimed, or the shard has no row. */
    const struct dt_shard_info *claimed;
    const struct dt_dispatchers *dispatchers;
    struct dt_shard_cause cause; /* why the shard does not dispatch */
};
/* Collects the facts; borrows all arguments. waiting_for: the result of dt_waiting_for. */
struct dt_explained dt_explained_of(const struct dt_waiting *waiting, const struct dt_job *job,
                                    const char *waiting_for);

/* Appends what an operator can do about the job's state; nothing if nothing needs to be done. */
void dt_explain_action(const struct dt_explained *explained, struct dt_strbuf *out);
