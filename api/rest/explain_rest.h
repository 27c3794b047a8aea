/* A shard as operators see it: why it dispatches or does not, how late it is, and its JSON in GET /v1/overview and
 * GET /v1/jobs/{id}/explain. Pure: the caller has read the shard. */
#ifndef DT_API_EXPLAIN_REST_H
#define DT_API_EXPLAIN_REST_H

#include "dispatch/shards.h"
#include "job/job.h"
#include "request/topic_cache.h"
#include "store/processes.h"
#include "store/store.h"

/* Why a shard does not dispatch, the first that holds. This judge serves explain, the doctor, the overview, and what a
 * job waits for. The view v_shards has the same words. */
enum dt_shard_why {
    DT_SHARD_HALTED,
    DT_SHARD_NO_DISPATCHER, /* it has no leader, as no dispatcher lives */
    DT_SHARD_NO_LEADER,
    DT_SHARD_SILENT, /* its leader has said nothing for 15 s */
    DT_SHARD_WAITS,  /* its leader waits for a server, or dispatchers do before they elect one */
    DT_SHARD_OK
};
struct dt_shard_cause {
    enum dt_shard_why why;
    struct dt_str waits, detail; /* of WAITS: the server ("kafka"), and what was said of it */
};
/* shard: NULL if nothing is known of it. now_ms: MySQL's clock. */
struct dt_shard_cause dt_shard_judge(const struct dt_shard_info *shard, const struct dt_dispatchers *dispatchers,
                                     int64_t now_ms);
/* For how many ms its oldest due job has been due; 0: none is due. */
int64_t dt_shard_oldest_ms(const struct dt_shard_info *shard, int64_t now_ms);
/* Says whether its leader finds due jobs in Redis, where the shard's set is whole; without Redis that is so, too. */
bool dt_shard_has_index(const struct dt_shard_info *shard);
/* Adds the shard; name: NULL, or that of a member. */
void dt_shard_put(struct dt_strbuf *out, const char *name, const struct dt_shard_info *shard,
                  const struct dt_dispatchers *dispatchers, int64_t now_ms);
/* Adds the members about its index, and when its leader was seen. */
void dt_shard_put_drift(struct dt_strbuf *out, const struct dt_shard_info *shard);

/*
 * What a job waits for (job/job_wait.h), from its row and from what the leaders said about their shards a second
 * ago at most. Reads snapshots; asks the store only about dispatched jobs of a shard whose leader waits for Kafka, and
 * about topics with limits.
 */

#define DT_WAITING_LIMITS 16 /* topics with limits that one answer asks about; of others it is not said */

/* References to snapshots; either may be NULL (MySQL was not reached yet). now_ms, latest_ms: MySQL's clock, at least
 * and at most. */
struct dt_waiting {
    struct dt_view *view;
    struct dt_shards_view *shards;
    int64_t now_ms, latest_ms;
    dt_store *store; /* NULL = cannot be asked */
    struct dt_waiting_limit {
        struct dt_str topic; /* borrowed of its job's view */
        bool full;
    } limits[DT_WAITING_LIMITS]; /* topics that were asked about */
    size_t n_limits;
};
/* Takes references to the present snapshots; clear gives them back. store: borrowed until then. */
void dt_waiting_init(struct dt_waiting *waiting, dt_topic_cache *cache, const dt_refclock *ref, dt_store *store);
void dt_waiting_clear(struct dt_waiting *waiting);
/* Chooses the word: static text; NULL when the job is finished. */
const char *dt_waiting_for(struct dt_waiting *waiting, const struct dt_job *job);

/*
 * Why a job is where it is, in sentences for somebody who does not know the product, from what a request has read.
 * Pure: the word (waiting.h) says what the job waits for, and everything else here says the same at length.
 */

struct dt_explained {
    const struct dt_job *job;
    const char *waiting_for;               /* as of dt_waiting_for */
    int64_t now_ms;                        /* MySQL's clock */
    const struct dt_topic_settings *topic; /* NULL: there is no such topic */
    unsigned shard_number;                 /* of the shard whose leader dispatches it */
    const struct dt_shard_info *shard;     /* NULL: nothing is known of it */
    /* The shard that its latest attempt was claimed by; NULL: none, or not known. */
    const struct dt_shard_info *claimed;
    const struct dt_dispatchers *dispatchers;
    struct dt_shard_cause cause; /* why the shard does not dispatch */
};
/* What explains the job from the snapshots; waiting_for: as of dt_waiting_for. All is borrowed. */
struct dt_explained dt_explained_of(const struct dt_waiting *waiting, const struct dt_job *job,
                                    const char *waiting_for);

/* Its entry in the index. */
enum dt_entry_state {
    DT_ENTRY_THERE,
    DT_ENTRY_MISSING,
    DT_ENTRY_DIFFERS,
    DT_ENTRY_NOT_NEEDED,
    DT_ENTRY_NONE, /* there is no index */
    DT_ENTRY_UNKNOWN
};

/* Appends a sentence: why. */
void dt_explain_reason(const struct dt_explained *explained, struct dt_strbuf *out);
/* Appends what somebody can do about it; nothing is appended where nothing needs to be done. */
void dt_explain_action(const struct dt_explained *explained, struct dt_strbuf *out);
/* Appends the answer as JSON. entry_ms: the time of the entry; 0 = none. */
void dt_explain_add_json(const struct dt_explained *explained, enum dt_entry_state entry, int64_t entry_ms,
                         struct dt_strbuf *out);

#endif
