/*
 * Leases in MySQL: how dispatchers without ZooKeeper find out who tries to lead which shard. See store.h for what a
 * dt_store is; each function is one statement that commits by itself, but for dt_store_election_join's two.
 *
 * A dispatcher joins as a member, renews its row, and takes shards that nobody holds. A member that does not renew
 * itself for its timeout, by MySQL's clock, may be ended by any other; its leases are nobody's from then on. A member
 * that has ended never comes back: its dispatcher joins anew, under another id.
 *
 * Nothing here protects what leaders write. That is done by the epoch of the shard's row (dispatch/fence.h), which
 * rises with each takeover, whatever elected the leader.
 */
#ifndef DT_STORE_LEASES_H
#define DT_STORE_LEASES_H

#include "job/shard.h"
#include "store.h"

/* Members beyond these lead nothing: there are no more shards. */
#define DT_ELECTION_MEMBERS DT_SHARDS_MAX

struct dt_election_member {
    int64_t id;
    int64_t renewals;   /* another number with each renewal */
    int64_t age_ms;     /* since its renewal, by MySQL's clock; negative: that clock was set back */
    int64_t timeout_ms; /* its own */
    bool leaving;
};

/* As it is committed at one moment. */
struct dt_election {
    struct dt_election_member members[DT_ELECTION_MEMBERS]; /* that have not ended, in order of joining */
    size_t n;
    int64_t holder[DT_SHARDS_MAX]; /* the member that holds the shard; 0: nobody */
    bool elsewhere;                /* a dispatcher that lives is elected by ZooKeeper. False when n is 0 */
};

/* id: a random number above 0, a new one for each time. EXISTS: draw another one. Removes members that ended long
 * ago. */
DT_MUST_CHECK dt_status dt_store_election_join(dt_store *store, int64_t id, const char *name, int64_t timeout_ms,
                                               struct dt_error *err);
/* Renews the member and so all of its leases, and says whether it is leaving. *there: false when it has ended. */
DT_MUST_CHECK dt_status dt_store_election_renew(dt_store *store, int64_t id, bool leaving, bool *there,
                                                struct dt_error *err);
/* Ends the member. */
DT_MUST_CHECK dt_status dt_store_election_leave(dt_store *store, int64_t id, struct dt_error *err);
/* Ends a member whose timeout has passed by MySQL's clock, if it has renewed itself `renewals` times and no more. */
DT_MUST_CHECK dt_status dt_store_election_end(dt_store *store, int64_t id, int64_t renewals, struct dt_error *err);
/* Removes the leases of members that have ended, so that they can be taken. */
DT_MUST_CHECK dt_status dt_store_election_free(dt_store *store, struct dt_error *err);
/* Takes those of the shards (ascending; each has a row in `shards`) that nobody holds; a look tells which. EXISTS:
 * somebody took one of them meanwhile, and this member has taken none. */
DT_MUST_CHECK dt_status dt_store_election_take(dt_store *store, int64_t id, const int64_t *shards, size_t n,
                                               struct dt_error *err);
/* Gives back those of the shards (ascending) that the member holds. */
DT_MUST_CHECK dt_status dt_store_election_release(dt_store *store, int64_t id, const int64_t *shards, size_t n,
                                                  struct dt_error *err);
DT_MUST_CHECK dt_status dt_store_election_look(dt_store *store, struct dt_election *out, struct dt_error *err);
/* Renews as dt_store_election_renew does, and looks then, in one statement: a procedure, which needs EXECUTE. */
DT_MUST_CHECK dt_status dt_store_election_renew_and_look(dt_store *store, int64_t id, bool leaving, bool *there,
                                                         struct dt_election *out, struct dt_error *err);

/*
 * Leases for what one process at a time does, in seconds or minutes: partitions, an advance of the test clock. A lease
 * is a row of work_leases. The holder renews it while it works; if the holder dies, the lease expires. It protects
 * nothing: a holder that was stopped for long may go on beside the next one, so what is written is guarded by versions,
 * or may be written twice without harm. Which dispatcher leads a shard: store_leases.h.
 */

struct dt_work_lease {
    const char *work;   /* in: its name; borrowed */
    int64_t ms;         /* in: how long the lease lasts after it was taken or renewed */
    int64_t holder;     /* a random number */
    int64_t renewed_us; /* mono: when it was taken or renewed; 0 = it is not held */
};
/* Takes the lease. BUSY: somebody else has it. */
DT_MUST_CHECK dt_status dt_work_lease_take(dt_store *store, struct dt_work_lease *lease, struct dt_error *err);
/* Renews it if a third of its time has passed. BUSY: it had ended, and somebody else has it. */
DT_MUST_CHECK dt_status dt_work_lease_keep(dt_store *store, struct dt_work_lease *lease, struct dt_error *err);
/* Ends it if it is held. A lease that cannot be released ends by itself. */
void dt_work_lease_release(dt_store *store, struct dt_work_lease *lease);

#endif
