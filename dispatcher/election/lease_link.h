/*
 * The elector's connection to MySQL: an urgent chore, which carries out one order after the other. The elector's thread
 * never waits for a server: it fills an order, asks, and gets a signal when the answer has arrived.
 *
 *   order = dt_lease_link_order(link); … dt_lease_link_ask(link)      no order may be under way
 *   answer = dt_lease_link_take(link)                                  NULL: it has not arrived yet
 *
 * Only the elector's thread calls these functions. Tests link others.
 */
#ifndef DT_DISPATCHER_LEASE_LINK_H
#define DT_DISPATCHER_LEASE_LINK_H

#include "base/chores.h"
#include "base/config.h"
#include "base/thread.h"
#include "elector_kind.h"
#include "job/shard.h"
#include "store/leases.h"

typedef struct dt_lease_link dt_lease_link;

/* The signal to the elector's mailbox: dt_lease_link_take has something. */
#define DT_LEASE_ANSWERED UINT32_C(1)

/* The things to be done, in this order; at the end the election is looked at. All zeroes but member: nothing else. */
struct dt_lease_order {
    int64_t member;                                      /* the member that asks */
    bool join;                                           /* it joins, or joined and the answer was lost */
    bool renew;                                          /* renews it */
    bool leaving;                                        /* what the renewal says */
    bool leave;                                          /* ends it instead of all else, and frees what it holds */
    struct dt_election_member over[DT_ELECTION_MEMBERS]; /* ended if MySQL's clock agrees: id and renewals count */
    bool free;                                           /* frees leases of the ended; with `over` it does so anyway */
    int64_t drop[DT_SHARDS_MAX];                         /* given back; ascending */
    int64_t take[DT_SHARDS_MAX];                         /* taken, if no member holds them; ascending */
    size_t n_over, n_drop, n_take;
};

struct dt_lease_answer {
    dt_status status; /* not OK: what was done of the order is not known, and there is no view */
    struct dt_error err;
    bool gone;       /* the member has ended; nothing else was done */
    int64_t read_us; /* mono: when the view arrived */
    struct dt_election view;
};

/* All borrowed until dt_lease_link_free. lease is extended in the tick as soon as a renewal is answered, from the time
 * before it was sent. */
struct dt_lease_link_env {
    dt_chores *urgent;
    const struct dt_config *config;
    const dt_clock *clock;
    const char *name; /* host:pid */
    dt_mailbox *box;  /* is signalled */
    struct dt_lease *lease;
};

DT_MUST_CHECK dt_status dt_lease_link_new(const struct dt_lease_link_env *env, dt_lease_link **out);
/* Waits for the order under way. NULL is accepted. */
void dt_lease_link_free(dt_lease_link *link);
/* The order to fill; it has what the last one had. Not while one is under way. */
struct dt_lease_order *dt_lease_link_order(dt_lease_link *link);
void dt_lease_link_ask(dt_lease_link *link);
/* Whether an order is under way, or its answer was not taken. */
bool dt_lease_link_busy(const dt_lease_link *link);
/* Valid until the next order is asked for. */
const struct dt_lease_answer *dt_lease_link_take(dt_lease_link *link);

#endif
