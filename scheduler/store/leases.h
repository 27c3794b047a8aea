/*
 * Leases in MySQL: elections without ZooKeeper, and work that only one process should do at a time.
 *
 * No lease protects what its holder writes: if a holder was stopped for long, it may continue while the next holder
 * works. Leaders are fenced by the epoch of the shard's row (dispatch/fence.h), which rises with each takeover, whether
 * ZooKeeper or leases elect. Work under a work lease is guarded by versions, or is harmless if done twice.
 */
#pragma once

#include "job/shard.h"
#include "store.h"

/* ---- elections: a dispatcher joins as a member, renews its row, and takes shards that no member holds. If a member
 * does not renew its row within its timeout, by MySQL's clock, any other may end it; its leases are then free. A
 * member that has ended never becomes live again: its dispatcher joins again under another id. Each function is one
 * statement that commits by itself, except dt_store_election_join, which has two. ---- */

/* An installation has at most DT_SHARDS_MAX shards, so further members would lead nothing. */
#define DT_ELECTION_MEMBERS DT_SHARDS_MAX

struct dt_election_member {
    int64_t id;
    int64_t renewals; /* changed by each renewal; compare for equality */
    int64_t age_ms;   /* time since the last renewal, by MySQL's clock; negative if MySQL's clock was set back */
    int64_t timeout_ms;
    bool leaving;
};

/* The rows of the election, all as committed at the same moment. */
struct dt_election {
    struct dt_election_member members[DT_ELECTION_MEMBERS]; /* members that have not ended, in order of joining */
    size_t n;
    int64_t holder[DT_SHARDS_MAX]; /* the member that holds the shard; 0: none */
    bool elsewhere;                /* a live dispatcher is elected by ZooKeeper; false if n is 0 */
};

/* Adds a member; id is a new random number above 0. EXISTS: another member has this id; choose another. Also removes
 * members that ended long ago. */
dt_status dt_store_election_join(dt_store *store, int64_t id, const char *name, int64_t timeout_ms,
                                 struct dt_error *err);
/* Renews the member, and so all of its leases, and stores whether it is leaving. *there: whether the member is live;
 * false if it has ended. */
dt_status dt_store_election_renew(dt_store *store, int64_t id, bool leaving, bool *there, struct dt_error *err);
dt_status dt_store_election_leave(dt_store *store, int64_t id, struct dt_error *err);
/* Ends a member whose timeout has passed by MySQL's clock, unless its `renewals` have changed. */
dt_status dt_store_election_end(dt_store *store, int64_t id, int64_t renewals, struct dt_error *err);
/* Frees the leases of members that have ended. */
dt_status dt_store_election_free(dt_store *store, struct dt_error *err);
/* Takes the shards (ascending; each has a row in `shards`), which dt_store_election_look returned as free. If another
 * member has taken one of them meanwhile, takes none and returns EXISTS. */
dt_status dt_store_election_take(dt_store *store, int64_t id, const int64_t *shards, size_t n, struct dt_error *err);
/* Releases the shards (ascending) that the member holds. */
dt_status dt_store_election_release(dt_store *store, int64_t id, const int64_t *shards, size_t n, struct dt_error *err);
dt_status dt_store_election_look(dt_store *store, struct dt_election *out, struct dt_error *err);
/* Does the work of dt_store_election_renew and dt_store_election_look in one statement: a CALL of a procedure, for
 * which the account needs the privilege EXECUTE. */
dt_status dt_store_election_renew_and_look(dt_store *store, int64_t id, bool leaving, bool *there,
                                           struct dt_election *out, struct dt_error *err);

/* ---- work leases, for seconds or minutes: partitions, an advance of the test clock. A lease is a row of work_leases.
 * The holder renews it while it works; if the holder dies, the lease expires. ---- */

struct dt_work_lease {
    const char *work;   /* in: name of the work; borrowed */
    int64_t ms;         /* in: duration of the lease, from when it was taken or renewed */
    int64_t holder;     /* a random number that identifies the holder */
    int64_t renewed_us; /* monotonic time when the lease was taken or renewed; 0: not held */
};
/* Takes the lease. BUSY: another process holds it. */
dt_status dt_work_lease_take(dt_store *store, struct dt_work_lease *lease, struct dt_error *err);
/* Renews the lease if a third of its time has passed. BUSY: the lease had expired, and another process holds it. */
dt_status dt_work_lease_keep(dt_store *store, struct dt_work_lease *lease, struct dt_error *err);
/* Releases the lease if it is held. If that fails, the lease expires by itself. */
void dt_work_lease_release(dt_store *store, struct dt_work_lease *lease);
