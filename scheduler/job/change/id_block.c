/* Owns one block of sequence numbers. See id_block.h. */
#include "id_block.h"
#include "jobs.h"

#include <sys/random.h>

#ifndef BLOCK_IDS
#define BLOCK_IDS INT64_C(20000)
#endif

static dt_status take_block(struct dt_id_block *block, dt_store *store, size_t n, struct dt_error *err)
{
    int64_t want = (int64_t)n > BLOCK_IDS ? (int64_t)n : BLOCK_IDS;
    int64_t first = 0;
    uint64_t random = 0;
    if (getrandom(&random, sizeof(random), 0) != (ssize_t)sizeof(random))
        return dt_fail(err, DT_SYSTEM, "no random numbers from the system");
    dt_status status = dt_store_reserve_ids(store, want, &first, err);
    if (status != DT_OK)
        return status;
    *block = (struct dt_id_block){.next = first, .end = first + want, .maker = (int64_t)(random >> 1)};
    return DT_OK;
}

dt_status dt_id_block_reserve(struct dt_id_block *block, dt_store *store, size_t n, struct dt_error *err)
{
    return block->end - block->next >= (int64_t)n ? DT_OK : take_block(block, store, n, err);
}

void dt_id_block_refill(struct dt_id_block *block, dt_store *store, size_t n)
{
    if (block->end - block->next < (int64_t)n)
        (void)!take_block(block, store, n, NULL);
}

void dt_id_block_drop(struct dt_id_block *block)
{
    block->next = block->end = 0;
}
