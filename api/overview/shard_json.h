/* A shard as operators see it. */
#ifndef DT_API_SHARD_JSON_H
#define DT_API_SHARD_JSON_H

#include "store/store.h"

/* One word for how a shard is: halted, no-leader, silent, waiting, ok. */
const char *dt_shard_health(const struct dt_shard_info *shard, int64_t now_ms);
/* Since when its oldest job has been due, in ms before now; 0: none is. */
int64_t dt_shard_oldest_ms(const struct dt_shard_info *shard, int64_t now_ms);
/* Appends the shard. */
void dt_shard_add_json(struct dt_strbuf *out, const struct dt_shard_info *shard, int64_t now_ms);

#endif
