/*
 * The inside of an elector by leases in MySQL, shared by its files and nobody else. Each calls only those above it in
 * this list.
 *
 *   lease_link.c     the thread that talks to MySQL; one order at a time
 *   elector_mysql.c    the other members: since when each of them has not renewed itself
 *   elector_mysql.c    the shards: which lease is ours, which is led, which is being given back
 *   elector_mysql.c  the step: answers, the plan, the next order; what elector_kind.h asks for
 *
 * All of it but lease_link.c runs on the elector's thread, or in a test that calls dt_elector_step.
 */
#ifndef DT_DISPATCHER_LEASE_PARTS_H
#define DT_DISPATCHER_LEASE_PARTS_H

#include "base/outage.h"
#include "elector_kind.h"
#include "lease_link.h"

/* Where a shard stands here; elector_mysql.c draws the ways. */
enum dt_hold { DT_HOLD_NONE, DT_HOLD_LED, DT_HOLD_RELEASING, DT_HOLD_DROPPING };

/* Another member, as it was seen. */
struct dt_lease_watch {
    struct dt_election_member member;
    int64_t seen_us; /* mono: when this number of renewals was seen first */
    /* Mono: when MySQL's clock will say that its timeout has passed; that was so already: in the past. */
    int64_t over_us;
};

typedef struct dt_mysql_elector {
    struct dt_elector base;

    /* set once */
    dt_lease_link *link;
    char *owner;
    int64_t timeout_us;

    /* this membership */
    int64_t member; /* its id; 0: none was drawn */
    bool joined;
    bool told_leaving; /* others know */
    bool known;        /* the view is of this membership */
    struct dt_election view;
    unsigned n_members, rank; /* of those who take shards */
    enum dt_hold holds[DT_SHARDS_MAX];
    struct dt_lease_watch watches[DT_ELECTION_MEMBERS];
    size_t n_watches;

    /* when to ask */
    int64_t renewed_us; /* mono: the latest renewal was ordered */
    int64_t asked_us;   /* mono: the latest order */
    int64_t pause_us;   /* between looks while this member leads less than its share; 0: it does not */
    bool took;          /* the latest order took shards: what it did not get is not asked for again at once */
    bool drops;         /* something is to be given back */
    bool tells;         /* the latest order gives something back, or begins to leave: others are told when it is done */
    int64_t not_before_us; /* after trouble */
    int64_t backoff_us;
    struct dt_outage_part outage;
} dt_mysql_elector;

/* ---- elector_mysql.c ---- */

/* Takes over what a view says of the others; read_us: when it had come. */
void dt_watches_update(dt_mysql_elector *e, int64_t read_us);
/* Collects who may be ended now into `over`; returns how many they are. */
size_t dt_watches_over(const dt_mysql_elector *e, int64_t now_us, struct dt_election_member *over);
/* Mono: when the first of them may be ended, unless it renews itself; INT64_MAX: there is none. */
int64_t dt_watches_next_us(const dt_mysql_elector *e);

/* ---- elector_mysql.c ---- */

/* Gains and loses what the view says. now_us: as the lease is judged. */
void dt_holds_update(dt_mysql_elector *e, int64_t now_us);
/* LED: events.release. */
void dt_holds_release(dt_mysql_elector *e, unsigned shard);
/* events.lost for all that are led. What was being given back still is. */
void dt_holds_lose_all(dt_mysql_elector *e, const char *why);
/* The membership has ended, and all its leases with it. */
void dt_holds_forget(dt_mysql_elector *e);
/* Gives back the shards that loops have released. True: something is to be given back. */
bool dt_holds_serve(dt_mysql_elector *e);
/* Lists the shards to be given back, ascending; returns how many they are. */
size_t dt_holds_dropping(const dt_mysql_elector *e, int64_t *shards);
/* The shards, as the plan sees them; both DT_SHARDS_MAX long. */
void dt_holds_view(const dt_mysql_elector *e, bool *mine, bool *taken);

#endif
