/* The server behind index/index.h in the simulator: what the nemesis and the oracles do with it. */
#pragma once

#include "simulator/world.h"

void redis_begin(void);
void redis_flush(void);
void redis_lose_some(void); /* single entries vanish */
void redis_copy(void);
bool redis_has_copy(void);
void redis_restore(void);
void redis_down(int64_t until_us);
void redis_read_only(int64_t until_us);
void redis_cut_replies(struct proc *proc, int64_t until_us);
/* The entry of a job: its score, 0 = none, -1 = it has several; held: in a held set. */
int64_t redis_score(unsigned shard, int64_t job, bool *held);
/* The n-th entry of the shard's due set; false at the end. */
bool redis_entry(unsigned shard, size_t n, int64_t *job, int64_t *score);
