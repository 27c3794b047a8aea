/*
 * Deadlines of attempts that were sent. The time for a result begins with the claim; if sending took long, the leader
 * has it begin anew, in the transaction in which it settles the batch. For store/ only.
 */
#ifndef DT_DISPATCH_DEADLINES_H
#define DT_DISPATCH_DEADLINES_H

#include "job/inflight.h"
#include "leader_txn.h"
#include "mysql/db.h"

/*
 * Puts the deadlines of attempts that were sent to now_ms + their ack timeout, never earlier than they are, and only
 * where the row still says dispatched with that attempt. Rows that others hold locked are passed by. moved (may be
 * NULL; else with room for sent->n): gets the jobs whose deadline moved, from hint_ms to next_ms.
 */
DT_MUST_CHECK dt_status dt_deadlines_extend(dt_db *db, const struct dt_inflight *sent, int64_t now_ms,
                                            struct dt_seen_list *moved, struct dt_error *err);

#endif
