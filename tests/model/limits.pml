/*
 * The limit of a topic: `max_in_flight`, over all shards, dispatchers and APIs.
 *
 * Owns: who may claim how many jobs of a topic that has a limit. A job is a number here; two leaders of shards, and an API
 * with a pop: more claimers than the limit allows.
 *
 * The mechanism (topic/limits.h): a gate and a count, no shares.
 *   gate       One row a topic with a limit (`topic_gates`). A transaction that claims of such a topic locks it and keeps
 *              the lock until its commit. So the claims of one topic come one after the other. Nobody waits for it who
 *              holds other locks: whose try is refused (SKIP LOCKED) leaves the topic's jobs where they are, for some
 *              milliseconds.
 *   order      A leader has the rows of its jobs locked when it comes to the gate: it learns only from them which topics
 *              it is about. A pop has its gate first, and passes by rows that others hold. Since nobody waits, either
 *              order is right; what matters is that the count is read after the gate was locked.
 *   count      What is in flight is what `job_counts` says: `dispatched`, summed over the topic's rows. It is changed
 *              already in each transaction that changes a job, so it costs nothing more, and a report, a timeout or a
 *              lost attempt frees its place without the gate. It is read in a statement of its own after the gate was
 *              locked: it has all claims of earlier holders, and at most lacks places that are just being freed, those
 *              that the claimer's own transaction frees among them.
 *   limit      Read after the gate was locked as well; a PUT that changes it locks the gate, waiting for it, before all
 *              else. So a claim that begins after the PUT was answered knows the new limit; what is in flight stays.
 *   first      A claimer that began before the topic's first limit does not know of it, and passes the gate by. So the
 *              gate is closed for half a second with the first limit (`opens_at`): by then those are through. The
 *              half second is an assumption: here the gate opens when nobody is under way who does not know (FIRST).
 * Nothing is handed out to shards in advance. So any shard or API can use all of the room: with all the backlog in one of
 * them, and with a limit that is smaller than their number. A holder that is stopped keeps its topic waiting until the
 * server ends its session (seconds), and costs no other topic anything.
 *
 * `rate_limit` is arithmetic on a column of the same row (GCRA, topic/limits.h), compared and moved under the gate. It is not
 * order, and not modelled.
 */
#define LEADERS 2       /* the third claimer is a pop */
#define CLAIMERS 3
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
#ifndef FIRST           /* the topic has no limit at first */
#define FIRST 0
#endif

byte backlog = BACKLOG, in_flight, counted;     /* counted: what job_counts says, as committed */
byte locked;                                    /* rows of the backlog that claimers hold */
byte limit = LIMIT;
bit limited = !FIRST, closed;                   /* closed: opens_at has not come */
byte gate;                                      /* 1 + who */
#define IDLE  0
#define ROWS  1         /* a leader that has locked rows, and comes to the gate */
#define GATED 2
#define KNOWS 3         /* it has read limit and count */
#define BLIND 4         /* it began without a limit: no gate */
#define LATE  5         /* claimed, and not counted yet: only with a guard out */
#define DEAD  6         /* only with a guard out */
byte at[CLAIMERS], room[CLAIMERS], rows[CLAIMERS];
bit refused[CLAIMERS];  /* the gate was another's: it comes again when that one is through */
bit knowing;            /* something was claimed under the limit */
byte faults = FAULTS, changes = CHANGES, kept;
bit stuck;              /* what is in flight is never reported from now on: is the room used? */

#ifdef OUT_LIMIT_GATE
#define GATE_FREE true
#else
#define GATE_FREE (gate == 0)
#endif
#ifdef OUT_LIMIT_FIRST_WAITS
#define OPEN true
#else
#define OPEN (closed == 0)
#endif
#define FREE (backlog - locked)
#define HAS_WORK(p) (FREE > 0 && (!ONE_SHARD || p == 0))
#define MAY_COME(p) (at[p] == IDLE && HAS_WORK(p) && (!refused[p] || GATE_FREE))
#define IS_LEADER(p) (p < LEADERS)
#ifdef OUT_LIMIT_LOWERED
#define ROOM (OPEN -> (limit + kept) - counted : 0)
#else
#define ROOM ((OPEN && limit > counted) -> limit - counted : 0)
#endif
/* What a claimer sees that does not come for nothing (the product looks without locks, and remembers). */
#define WORTH_IT (!limited || ROOM > 0)

inline lock_rows(p, n) { rows[p] = n; locked = locked + n }
inline unlock_rows(p) { locked = locked - rows[p]; rows[p] = 0 }
inline leave(p)
{
    unlock_rows(p);
    if :: gate == 1 + p -> gate = 0 :: else fi;
    at[p] = IDLE; room[p] = 0
}
inline claim(p, n)
{
    if
    :: at[p] == BLIND -> assert(!knowing)                       /* L3: who does not know the first limit is through first */
    :: else -> assert(in_flight + n <= limit); knowing = 1      /* L1: a claim never goes over the limit that is in force */
    fi;
    backlog = backlog - n; in_flight = in_flight + n;
#ifdef OUT_LIMIT_COUNTED_WITH_CLAIM
    if :: gate == 1 + p -> gate = 0 :: else fi;
    at[p] = LATE; room[p] = n; unlock_rows(p)
#else
    counted = counted + n;
    leave(p)
#endif
}

proctype Claimer(byte p)
{
    do
    /* It begins, and knows of the limit, or does not. A leader has rows by then. */
    :: d_step { MAY_COME(p) && WORTH_IT && IS_LEADER(p) -> lock_rows(p, 1); refused[p] = 0;
        at[p] = (limited -> ROWS : BLIND) }
    :: d_step { MAY_COME(p) && WORTH_IT && IS_LEADER(p) && FREE > 1 -> lock_rows(p, 2); refused[p] = 0;
        at[p] = (limited -> ROWS : BLIND) }
    :: d_step { MAY_COME(p) && WORTH_IT && !IS_LEADER(p) -> refused[p] = 0; at[p] = (limited -> ROWS : BLIND) }
#ifdef OUT_LIMIT_COUNT_AFTER_GATE
    :: d_step { at[p] == ROWS -> room[p] = ROOM; at[p] = GATED }
    :: d_step { at[p] == GATED && GATE_FREE -> gate = 1 + p; at[p] = KNOWS }
    :: d_step { at[p] == GATED && !GATE_FREE -> refused[p] = 1; leave(p) }
#else
    :: d_step { at[p] == ROWS && GATE_FREE -> gate = 1 + p; at[p] = GATED }
    :: d_step { at[p] == ROWS && !GATE_FREE -> refused[p] = 1; leave(p) }
    :: d_step { at[p] == GATED -> room[p] = ROOM; at[p] = KNOWS }
#endif
    /* A pop locks rows under the gate, and passes by those of others. */
    :: d_step { (at[p] == KNOWS || at[p] == BLIND) && rows[p] == 0 && FREE > 0 && (at[p] == BLIND || room[p] > 0) -> lock_rows(p, 1) }
    :: d_step { at[p] == KNOWS && rows[p] == 0 && FREE > 1 && room[p] > 1 -> lock_rows(p, 2) }
    :: d_step { (at[p] == KNOWS || at[p] == BLIND) && rows[p] == 0 && (FREE == 0 || (at[p] == KNOWS && room[p] == 0)) -> leave(p) }
    /* It claims what it has rows and room for. */
    :: d_step { at[p] == BLIND && rows[p] > 0 -> claim(p, rows[p]) }
    :: d_step { at[p] == KNOWS && rows[p] > 0 && room[p] >= rows[p] -> claim(p, rows[p]) }
    :: d_step { at[p] == KNOWS && rows[p] > 1 && room[p] == 1 -> claim(p, 1) }
    :: d_step { at[p] == KNOWS && rows[p] > 0 && room[p] == 0 -> leave(p) }
    :: d_step { at[p] == LATE -> counted = counted + room[p]; at[p] = IDLE; room[p] = 0 }
    /* it dies, or is stopped: the server ends its session, and rolls back */
    :: d_step { faults > 0 && at[p] >= ROWS && at[p] <= BLIND -> faults--;
#ifdef OUT_LIMIT_SESSION_ENDS
        at[p] = DEAD
#else
        leave(p)
#endif
        }
    od
}

#define SOME_BLIND (at[0] == BLIND || at[1] == BLIND || at[2] == BLIND)

inline put()
{
    changes--; kept = limit;
    if
    :: !limited -> limited = 1; closed = 1
    :: else -> limit = (limit == 1 -> LIMIT : 1)
    fi
}

proctype Outside()
{
    do
    :: d_step { !stuck && in_flight > 0 && counted > 0 -> in_flight--; counted-- }  /* a report, a timeout, a lost attempt */
    :: d_step { !stuck && in_flight > 0 && counted > 0 && backlog < BACKLOG -> in_flight--; counted--; backlog++ }  /* a retry */
#ifdef OUT_LIMIT_PUT_LOCKS_GATE
    :: d_step { changes > 0 -> put() }
#else
    :: d_step { changes > 0 && !gate -> put() }
#endif
    :: d_step { changes > 0 && limited -> changes = 0 }
    :: d_step { closed && !SOME_BLIND -> closed = 0 }           /* half a second is over */
    :: d_step { faults > 0 -> faults = 0 }
    :: d_step { !stuck -> stuck = 1 }
    :: timeout -> d_step {
        assert(backlog == 0 || in_flight >= limit);             /* L2: no room is left unused while somebody has work */
        assert(counted == in_flight && !gate && locked == 0) }
        break
    od
}

init {
    atomic { byte p;
        do :: p < CLAIMERS -> run Claimer(p); p++ :: else -> break od;
        run Outside() }
}
