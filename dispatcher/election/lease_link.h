/*
 * The elector's connection to MySQL: an urgent chore, which carries out one order after the other. The elector's thread
 * never waits for a server: it fills in an order, submits it, and gets a signal when the answer has arrived.
 *
 *   order = dt_lease_link_order(link); … dt_lease_link_ask(link)      only while no order runs
 *   answer = dt_lease_link_take(link)                                  NULL: the answer has not arrived yet
 *
 * Only the elector's thread calls these functions. Tests link their own versions.
 */
#pragma once

#include "base/chores.h"
#include "base/config.h"
#include "base/thread.h"
#include "elector_kind.h"
#include "job/shard.h"
#include "store/leases.h"

typedef struct dt_lease_link dt_lease_link;

/* Signal to the elector's mailbox: dt_lease_link_take returns an answer. */
#define DT_LEASE_ANSWERED UINT32_C(1)

/* An order: what to do, in the order of the members. After that, the view (members and leases in MySQL) is read. If all
 * members are zero except `member`, only the view is read. */
struct dt_lease_order {
    int64_t member; /* id of the member that gives the order */
    bool join;      /* the member joins; also if it may have joined before, but the answer was lost */
    bool renew;     /* renews the member's lease */
    bool leaving;   /* the renewal stores that the member is leaving */
    bool leave;     /* ends the member and frees its leases, and does nothing else */
    /* Members to end if MySQL's clock agrees: their ids and counts of renewals. */
    struct dt_election_member over[DT_ELECTION_MEMBERS];
    /* Frees the leases of all members that have ended; always done if `over` has members. */
    bool free;
    int64_t drop[DT_SHARDS_MAX]; /* shards to give back; ascending */
    int64_t take[DT_SHARDS_MAX]; /* shards to take if no member holds them; ascending */
    size_t n_over, n_drop, n_take;
};

struct dt_lease_answer {
    dt_status status; /* not OK: it is unknown which actions were done, and the view is undefined */
    struct dt_error err;
    bool gone;       /* the member had ended before, so no action was done */
    int64_t read_us; /* mono: when MySQL's answer with the view arrived */
    struct dt_election view;
};

/* All borrowed until dt_lease_link_free. If a renewal is answered, the tick extends `lease` at once, counted from
 * before the renewal was sent. */
struct dt_lease_link_env {
    dt_chores *urgent;
    const struct dt_config *config;
    const dt_clock *clock;
    const char *name; /* host:pid */
    dt_mailbox *box;  /* mailbox that gets the signal DT_LEASE_ANSWERED */
    struct dt_lease *lease;
};

dt_status dt_lease_link_new(const struct dt_lease_link_env *env, dt_lease_link **out);
/* Waits for the running order, and frees the link. Accepts NULL. */
void dt_lease_link_free(dt_lease_link *link);
/* Returns the order to fill in; it has the values of the last order. Must not be called while an order runs. */
struct dt_lease_order *dt_lease_link_order(dt_lease_link *link);
void dt_lease_link_ask(dt_lease_link *link);
/* Returns whether an order runs, or its answer was not taken yet. */
bool dt_lease_link_busy(const dt_lease_link *link);
/* Returns the answer, valid until the next order is submitted; NULL: no answer has arrived. */
const struct dt_lease_answer *dt_lease_link_take(dt_lease_link *link);
