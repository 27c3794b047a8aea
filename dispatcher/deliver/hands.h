/*
 * The port of deliveries by hands: a leader claims attempts into the hands of its process, which ends each of them by
 *                                  itself.
 * The shard loop knows no such delivery by name. http/pool.c implements the port; scheduler/dispatch/hands.h has its
 * SQL. tests/model/callbacks.pml is the protocol.
 *
 *   dt_hands         one a process: what it has in its hands, their lease, and their outcomes
 *   dt_hands_claims  one a leader: the places in these hands that a leader transaction takes
 *
 *   begin ─▶ (MySQL, inside the transaction: take, for each claim) ─▶ (MySQL: commit) ─▶ committed, or failed
 *
 * Invariants:
 *   - Nothing is sent before `committed`. Each attempt is sent once, and only during the lease that its claim was
 *     written under.
 *   - After `failed` nothing is claimed for the shard until it is known whether MySQL has committed that transaction.
 *   - Every committed attempt gets its outcome recorded, or is given away: then a leader ends it as lost.
 *   - No call waits for a server.
 */
#ifndef DT_DISPATCHER_HANDS_H
#define DT_DISPATCHER_HANDS_H

#include "base/chores.h"
#include "base/config.h"
#include "dispatch/leader.h"
#include "index/index.h"
#include "topic/topics.h"

typedef struct dt_hands dt_hands;
typedef struct dt_hands_claims dt_hands_claims;

/* The surroundings. Copied; what the members point at outlives the hands. Callbacks run in ticks, and on a thread of
 * the hands' own, and return at once. */
struct dt_hands_env {
    dt_chores *chores;
    dt_chores *urgent; /* of what renews leases */
    const struct dt_config *config;
    const char *installation;
    const char *name; /* host:pid */
    const dt_clock *clock;
    dt_refclock *ref;
    void *arg;
    uint64_t (*random)(void *arg);
    void (*map)(void *arg, struct dt_shard_map *out);
    void (*outbox)(void *arg, unsigned shard); /* the shard's outbox has something; it may be led elsewhere */
    void (*index_untold)(void *arg, const dt_index *index); /* entries were lost */
    /* Attempts of these jobs are in the hands of an owner that is gone: their leaders, here or elsewhere, should
     * look. */
    void (*lost)(void *arg, const int64_t *ids, size_t n);
    void (*ended)(void *arg);                /* attempts have ended: their topics may have room within their limits */
    void (*room)(void *arg, unsigned shard); /* there may be places again for the shard, which asked for some in vain */
};

/* INVALID: a setting that cannot be used; err says which. */
DT_MUST_CHECK dt_status dt_hands_start(const struct dt_hands_env *env, dt_hands **out, struct dt_error *err);
/* Takes nothing any more, waits a while for what is under way, gives the rest away, joins, frees. Accepts NULL. No
 * dt_hands_claims is left. */
void dt_hands_stop(dt_hands *hands);

/* ---- the leader's thread ---- */

DT_MUST_CHECK dt_status dt_hands_claims_new(dt_hands *hands, unsigned shard, dt_hands_claims **out);
void dt_hands_claims_free(dt_hands_claims *claims); /* accepts NULL */
/* How many attempts of a topic and its owner (topic/owners.h) may be claimed now, about. host: not 0 for the jobs of
 * the topic that name a host of this number (dt_callback_host_of) themselves. 0: its jobs wait; `room` is called when
 * it may be asked again. */
size_t dt_hands_claims_room(dt_hands_claims *claims, int64_t owner, struct dt_str topic,
                            const struct dt_topic_callback *callback, uint32_t host);
/* Whether this process takes any attempts into its hands. */
bool dt_hands_claims_open(const dt_hands_claims *claims);
void dt_hands_claims_begin(dt_hands_claims *claims);
/* For struct dt_leader_gate. `arg` is a dt_hands_claims. */
enum dt_hand_place dt_hands_claims_take(void *arg, const struct dt_hand_wanted *wanted, int64_t *owner);
/* The transaction is committed with these claims, which are in the order in which their places were taken: they go
 * out. Everything is borrowed for the call. */
void dt_hands_claims_committed(dt_hands_claims *claims, const struct dt_leader_batch *claimed,
                               const dt_topic_snapshot *topics);
/* The transaction ended without a known commit. */
void dt_hands_claims_failed(dt_hands_claims *claims);

#endif
