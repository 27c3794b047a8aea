/*
 * The limit of a topic: `max_in_flight`, over all shards, dispatchers and APIs.
 *
 * Owns: who may claim how many jobs of a topic that has a limit. A job is a number here; three claimers (leaders of
 * shards, and APIs with a pop), more than the limit allows.
 *
 * The mechanism: a gate and a count, no shares.
 *   gate       One row a topic with a limit (`topic_gates`). A transaction that claims of such a topic locks it first,
 *              SKIP LOCKED, and keeps the lock until its commit; whose lock is refused leaves the topic's jobs where
 *              they are, for some milliseconds. So the claims of one topic come one after the other, and nobody waits.
 *   count      What is in flight is what `job_counts` says: `dispatched`, summed over the topic's rows. It is changed
 *              already in each transaction that changes a job, so it costs nothing more, and a report, a timeout or a
 *              lost attempt frees its place without the gate. It is read in a statement of its own after the gate was
 *              locked: it has all claims of earlier holders, and at most lacks places that are just being freed.
 *   limit      Read after the gate was locked as well; a PUT that changes it locks the gate. So a claim that begins after
 *              the PUT was answered knows the new limit; what is in flight stays.
 * Nothing is handed out to shards in advance. So any shard or API can use all of the room: with all the backlog in one of
 * them, and with a limit that is smaller than their number. A holder that is stopped keeps its topic waiting until the
 * server ends its session (seconds), and costs no other topic anything.
 *
 * `rate_limit` is a column of the same row: the time at which the next claim would be on schedule (GCRA, burst
 * max(0.9 r, 1)), compared and moved under the gate. It is arithmetic, not order, and not modelled.
 */
#ifndef CLAIMERS
#define CLAIMERS 3
#endif
#ifndef LIMIT
#define LIMIT 2
#endif
#ifndef BACKLOG
#define BACKLOG 4
#endif
#ifndef FAULTS          /* claimers that die inside a transaction: the server rolls it back */
#define FAULTS 1
#endif
#ifndef CHANGES         /* of the limit */
#define CHANGES 2
#endif
#ifndef ONE_SHARD       /* all the backlog is claimer 0's */
#define ONE_SHARD 0
#endif

byte backlog = BACKLOG, in_flight, counted;     /* counted: what job_counts says, as committed */
byte limit = LIMIT;
byte gate;                                      /* 1 + who; 9 = a PUT */
#define IDLE  0
#define GATED 1
#define KNOWS 2         /* it has read limit and count */
#define LATE  3         /* claimed, and not counted yet: only with a guard out */
byte at[CLAIMERS], room[CLAIMERS];
bit raised[CLAIMERS];   /* a limit that allowed more was in force since it locked the gate: only with a guard out */
byte faults = FAULTS, changes = CHANGES, kept;
bit stuck;              /* what is in flight is never reported from now on: is the room used? */

#ifdef OUT_LIMIT_GATE
#define GATE_FREE true
#else
#define GATE_FREE !gate
#endif
#define HAS_WORK(p) (backlog > 0 && (!ONE_SHARD || p == 0))
#ifdef OUT_LIMIT_LOWERED
#define ROOM ((limit + kept) - counted)
#else
#define ROOM (limit > counted -> limit - counted : 0)
#endif

inline begin(p) { at[p] = GATED; gate = 1 + p }
inline read_room(p) { room[p] = ROOM; at[p] = KNOWS }
inline leave(p) { if :: gate == 1 + p -> gate = 0 :: else fi; at[p] = IDLE; room[p] = 0 }
inline claim(p, n)
{
    assert(in_flight + n <= limit);                             /* L1: a claim never goes over the limit that is in force */
    backlog = backlog - n; in_flight = in_flight + n;
#ifdef OUT_LIMIT_COUNTED_WITH_CLAIM
    if :: gate == 1 + p -> gate = 0 :: else fi;
    at[p] = LATE; room[p] = n
#else
    counted = counted + n;
    leave(p)
#endif
}

proctype Claimer(byte p)
{
    do
#ifdef OUT_LIMIT_COUNT_AFTER_GATE
    :: d_step { at[p] == IDLE && HAS_WORK(p) && ROOM > 0 -> room[p] = ROOM; at[p] = GATED }
    :: d_step { at[p] == GATED && GATE_FREE -> gate = 1 + p; at[p] = KNOWS }
#else
    :: d_step { at[p] == IDLE && HAS_WORK(p) && GATE_FREE && ROOM > 0 -> begin(p) }
    :: d_step { at[p] == GATED -> read_room(p) }
#endif
    :: d_step { at[p] == KNOWS && room[p] > 0 && backlog > 0 -> claim(p, 1) }
    :: d_step { at[p] == KNOWS && room[p] > 1 && backlog > 1 -> claim(p, 2) }
    :: d_step { at[p] == KNOWS && (room[p] == 0 || backlog == 0) -> leave(p) }
    :: d_step { at[p] == LATE -> counted = counted + room[p]; at[p] = IDLE; room[p] = 0 }
    /* it dies, or is stopped: the server ends its session, and rolls back */
    :: d_step { faults > 0 && (at[p] == GATED || at[p] == KNOWS) -> faults--;
#ifdef OUT_LIMIT_SESSION_ENDS
        at[p] = 7
#else
        leave(p)
#endif
        }
    od
}

proctype Outside()
{
    do
    :: d_step { !stuck && in_flight > 0 && counted > 0 -> in_flight--; counted-- }  /* a report, a timeout, a lost attempt */
    :: d_step { !stuck && in_flight > 0 && counted > 0 && backlog < BACKLOG -> in_flight--; counted--; backlog++ }  /* a retry */
#ifdef OUT_LIMIT_PUT_LOCKS_GATE
    :: d_step { changes > 0 -> changes--; kept = limit; limit = (limit == 1 -> LIMIT : 1) }
#else
    :: d_step { changes > 0 && !gate -> changes--; kept = limit; limit = (limit == 1 -> LIMIT : 1) }
#endif
    :: d_step { changes > 0 -> changes = 0 }
    :: d_step { faults > 0 -> faults = 0 }
    :: d_step { !stuck -> stuck = 1 }
    :: timeout -> d_step {
        assert(backlog == 0 || in_flight >= limit);             /* L2: no room is left unused while somebody has work */
        assert(counted == in_flight && !gate) }
        break
    od
}

init {
    atomic { byte p;
        do :: p < CLAIMERS -> run Claimer(p); p++ :: else -> break od;
        run Outside() }
}
