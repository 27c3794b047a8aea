/* A shard as operators see it: its health in one word, how late it is, and its JSON in GET /v1/overview and
 * GET /v1/jobs/{id}/explain. Pure: the caller has read the shard. */
#ifndef DT_API_SHARD_JSON_H
#define DT_API_SHARD_JSON_H

#include "store/store.h"

/* One word for how a shard is: halted, no-leader, silent, waiting, ok. */
const char *dt_shard_health(const struct dt_shard_info *shard, int64_t now_ms);
/* For how many ms its oldest due job has been due; 0: none is due. */
int64_t dt_shard_oldest_ms(const struct dt_shard_info *shard, int64_t now_ms);
/* Says whether its leader finds due jobs in Redis, where the shard's set is whole; without Redis that is so, too. */
bool dt_shard_has_index(const struct dt_shard_info *shard);
/* Appends the shard. */
void dt_shard_add_json(struct dt_strbuf *out, const struct dt_shard_info *shard, int64_t now_ms);

#endif
