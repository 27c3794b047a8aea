/* A shard as operators see it: why it dispatches or does not, how late it is, and its JSON in GET /v1/overview and
 * GET /v1/jobs/{id}/explain. Pure: the caller has read the shard. */
#ifndef DT_API_SHARD_JSON_H
#define DT_API_SHARD_JSON_H

#include "dispatch/shards.h"
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

#endif
