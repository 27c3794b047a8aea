/* Looks at all queues in turn: see deadlines.h. */
#include "deadlines.h"

void dt_deadlines_expire(const struct dt_api *api, int64_t now_us)
{
    dt_workers_expire(api->workers, now_us);
    dt_committer_expire(api->committer, now_us);
    dt_results_batcher_expire(api->results, now_us);
    dt_gate_expire(api->gate, now_us);
}
