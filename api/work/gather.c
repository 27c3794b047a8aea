/* The rule of gather.h. */
#include "gather.h"

int64_t dt_gather_begin_at(const struct dt_gather *gather, size_t queued)
{
    if (queued == 0)
        return DT_GATHER_NEVER;
    if (queued >= (gather->busy < 2 ? DT_GATHER_ROWS : DT_GATHER_MANY))
        return 0;
    if (gather->busy)
        return gather->begun_us + (gather->busy < 2 ? DT_GATHER_SLOW_US : DT_GATHER_HUNG_US);
    return queued >= gather->expected ? 0 : gather->until_us;
}

void dt_gather_begun(struct dt_gather *gather, int64_t now_us)
{
    gather->busy++;
    gather->begun_us = now_us;
}

void dt_gather_over(struct dt_gather *gather, size_t rows, int64_t begun_us, size_t queued, int64_t now_us)
{
    int64_t patience_us = (now_us - begun_us) / 2;
    gather->busy--;
    gather->expected = rows + queued;
    gather->until_us = now_us + (patience_us < DT_GATHER_SLOW_US ? patience_us : DT_GATHER_SLOW_US);
}
