/*
 * The interface of deliveries by hands: a leader claims attempts into the hands of its process, and the process ends
 * each of them. The shard loop does not depend on the kind of delivery. http/pool.c implements the interface;
 * scheduler/dispatch/hands.h has its SQL. tests/model/callbacks.pml models the protocol.
 *
 *   dt_hands         one per process: the attempts in its hands, the lease under which it has them, and their outcomes
 *   dt_hands_claims  one per leader: the places that a leader transaction takes for attempts
 *
 *   begin ─▶ (MySQL, inside the transaction: take, for each claim) ─▶ (MySQL: commit) ─▶ committed, or failed
 *
 * Invariants:
 *   - Nothing is sent before dt_hands_claims_committed. Each attempt is sent once, and only during the lease under
 *     which its claim was written.
 *   - After dt_hands_claims_failed no job is claimed for the shard until it is known whether MySQL has committed the
 *     transaction.
 *   - Every committed attempt gets an outcome, or its owner is removed in MySQL. Then a leader ends it as lost.
 *   - No call waits for a server.
 */
#pragma once

#include "process.h"
#include "topic/topics.h"

typedef struct dt_hands dt_hands;
typedef struct dt_hands_claims dt_hands_claims;

/* Starts the hands of a process. INVALID: a setting is unusable; err names the setting. */
dt_status dt_hands_start(const struct dt_process_env *env, dt_hands **out, struct dt_error *err);
/* Accepts no more claims, waits a while for running callbacks, and removes this process as the owner of all other
 * attempts, so that leaders end them as lost. Then joins the threads, and frees the hands. All dt_hands_claims must be
 * freed before. Accepts NULL. */
void dt_hands_stop(dt_hands *hands);

/* ---- the leader's thread ---- */

dt_status dt_hands_claims_new(dt_hands *hands, unsigned shard, dt_hands_claims **out);
void dt_hands_claims_free(dt_hands_claims *claims); /* accepts NULL */
/* Returns about how many attempts of a topic and its owner (topic/owners.h) may be claimed now. 0: the topic's jobs
 * wait until the loop is told DT_LOOP_PLACES. If host is not 0, only jobs of the topic that name the host with this
 * number count (dt_callback_host_of). */
size_t dt_hands_claims_room(dt_hands_claims *claims, int64_t owner, struct dt_str topic,
                            const struct dt_topic_callback *callback, uint32_t host);
/* Returns whether callbacks are enabled in this process. If not, it accepts no attempts. */
bool dt_hands_claims_open(const dt_hands_claims *claims);
void dt_hands_claims_begin(dt_hands_claims *claims);
/* Takes a place for an attempt. For struct dt_leader_gate; `arg` is a dt_hands_claims. */
enum dt_hand_place dt_hands_claims_take(void *arg, const struct dt_hand_wanted *wanted, int64_t *owner);
/* Called after MySQL has committed the transaction with these claims: sends the attempts. The claims are in the order
 * in which their places were taken. All arguments are borrowed for the call. */
void dt_hands_claims_committed(dt_hands_claims *claims, const struct dt_leader_batch *claimed,
                               const dt_topic_snapshot *topics);
/* Called if the transaction failed, and also if it is unknown whether MySQL committed it. */
void dt_hands_claims_failed(dt_hands_claims *claims);
