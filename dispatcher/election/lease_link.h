/*
 * The elector's connection to MySQL: an urgent chore, which carries out one order after the other. The elector's thread
 * never waits for a server: it fills in an order, submits it, and gets a signal when the answer has arrived.
 *
 *   order = dt_lease_link_order(link); … dt_lease_link_ask(link)      no order may be under way
 *   answer = dt_lease_link_take(link)                                  NULL: it has not arrived yet
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

/* The signal to the elector's mailbox: dt_lease_link_take returns an answer. */
#define DT_LEASE_ANSWERED UINT32_C(1)

/* The actions, in this order; the election is read after them. If all are zero except member, it is only read. */
struct dt_lease_order {
    int64_t member; /* the member that gives the order */
    bool join;      /* it joins, or joined and the answer was lost */
    bool renew;     /* renews the member */
    bool leaving;   /* the renewal stores that it is leaving */
    bool leave;     /* instead of all other actions: ends the member, and frees what it holds */
    struct dt_election_member over[DT_ELECTION_MEMBERS]; /* ended if MySQL's clock agrees: id, count of renewals */
    bool free;                   /* frees leases of members that have ended; with `over` that is done anyway */
    int64_t drop[DT_SHARDS_MAX]; /* shards to give back; ascending */
    int64_t take[DT_SHARDS_MAX]; /* taken, if no member holds them; ascending */
    size_t n_over, n_drop, n_take;
};

struct dt_lease_answer {
    dt_status status; /* not OK: it is unknown which actions were done, and there is no view */
    struct dt_error err;
    bool gone;       /* the member has ended; no other action was done */
    int64_t read_us; /* mono: when the view arrived */
    struct dt_election view;
};

/* All borrowed until dt_lease_link_free. As soon as a renewal is answered, the tick extends lease, counted from before
 * it was sent. */
struct dt_lease_link_env {
    dt_chores *urgent;
    const struct dt_config *config;
    const dt_clock *clock;
    const char *name; /* host:pid */
    dt_mailbox *box;  /* gets the signal */
    struct dt_lease *lease;
};

DT_MUST_CHECK dt_status dt_lease_link_new(const struct dt_lease_link_env *env, dt_lease_link **out);
/* Waits for the running order. NULL is accepted. */
void dt_lease_link_free(dt_lease_link *link);
/* The order to fill in; it starts with the values of the last one. Not while one runs. */
struct dt_lease_order *dt_lease_link_order(dt_lease_link *link);
void dt_lease_link_ask(dt_lease_link *link);
/* Whether an order runs, or its answer was not taken yet. */
bool dt_lease_link_busy(const dt_lease_link *link);
/* Valid until the next order is submitted. */
const struct dt_lease_answer *dt_lease_link_take(dt_lease_link *link);
