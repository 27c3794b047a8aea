/*
 * A block of sequence numbers for new jobs, taken from MySQL as a whole, so that ids are known before the insert. Each
 * thread that makes jobs has a block of its own.
 *
 * A server that was put back to an older copy goes on above the blocks that it has forgotten (dt_store_reserve_ids),
 * unless its clock went back as well, or the block was taken within the last second or so. Then two processes have the
 * same block. So each block has a random number, its maker, which is written into the rows: by it a process tells its
 * own rows from those of the other.
 */
#ifndef DT_JOB_ID_BLOCK_H
#define DT_JOB_ID_BLOCK_H

#include "store/store.h"

/* Zero at first. */
struct dt_id_block {
    int64_t next, end; /* numbers left: [next, end) */
    int64_t maker;
};

/* Sees to it that n numbers can be taken, all of one block; a block that is too small is given up. Statuses as of
 * store/store.h. */
DT_MUST_CHECK dt_status dt_id_block_reserve(struct dt_id_block *block, dt_store *store, size_t n, struct dt_error *err);
/* Takes a new block beforehand when fewer than n are left, off the answer's path; a failure is left to reserve. */
void dt_id_block_refill(struct dt_id_block *block, dt_store *store, size_t n);
/* Takes a number; there is one. */
static inline int64_t dt_id_block_next(struct dt_id_block *block)
{
    return block->next++;
}
/* Gives the block up, which is not ours alone: the next reserve takes another one. */
void dt_id_block_drop(struct dt_id_block *block);

#endif
