/*
 * Pop: attempts that API processes claim for their clients, beside the leader that times them out.
 *
 * Owns: the conditions under which a claim that no leader makes hands out each (job, attempt) once. One job, two API
 * processes, two leaders (the job's slot may move: each is fenced in its own shard, so here a leader is one step).
 *
 * No fence is needed. A fence ends the authority that a leader keeps between its transactions: a list that it may send
 * again, a producer that is open. A pop keeps none. Its claim is one transaction on the job's row, decided under the row's
 * lock; what it hands out afterwards is what that transaction was confirmed to have written, once, and nothing is ever
 * handed out again from memory. An API that is killed, or does not hear of its commit, hands out nothing: that attempt's
 * deadline passes, and its leader ends it like any other.
 *
 * The claim, in one transaction (READ COMMITTED):
 *   1. read the topic: `pull`, not paused; so a pause holds for every claim that begins after it was answered;
 *   2. lock the job's row, SKIP LOCKED, and read it: `scheduled`, due by MySQL's clock, and no earlier attempt of it in a
 *      list or in hands (a topic that was `kafka` or `http` before), which is read after the lock;
 *   3. write `dispatched`, attempt + 1, deadline = now + ttr, claim_shard = -1 (no list has it); commit.
 * What was read under the lock is what is written, so state and time need not stand in the UPDATE again; they are
 * repeated there for the reader. A claim that reads without the lock (UNLOCKED) needs state, time and version in
 * the UPDATE: version alone does not see manual edits, state alone does not see a payload that was changed. The attempt
 * need not stand there: nothing raises it without raising the version.
 *
 * The answer goes out before the deadline by the API's own clock, counted from before the transaction began: an API that
 * was stopped does not hand out what timed out meanwhile and may have been cancelled. Between that look and the
 * write the same window remains as in callbacks.pml; there is no timer here, since the client has the deadline in its
 * answer. In the model look and write are one step.
 *
 * Left out: the limit of a topic (limits.pml); hints, which may say anything; ttr; the client that leaves.
 */
#ifndef FAULTS          /* crashes, commits in doubt */
#define FAULTS 1
#endif
#ifndef EVENTS          /* cancels, changes, pauses, manual edits */
#define EVENTS 2
#endif
#ifndef EDITS
#define EDITS 0
#endif
#ifndef UNLOCKED        /* a claim that reads without locking, and puts all of it into the UPDATE */
#define UNLOCKED 0
#endif
#define LAST 7
#define BUDGET 2
#define BIT(a) (1 << (a))
#define ALL 254

#define SCHEDULED  0
#define DISPATCHED 1
#define SUCCEEDED  2
#define DEAD       3
#define CANCELLED  4
byte state, attempt, failures, version, payload;
bit due = 1, passed;
bit open = 1;           /* `pull`, and not paused */
bit listed;             /* the first attempt is in a list of Kafka's: claimed when the topic was `kafka` */
byte lock;              /* of the job's row: 1 + who */

/* An API's claim. */
#define IDLE   0
#define BEGUN  1        /* its transaction has begun */
#define OPENED 2        /* … and has read the topic */
#define READ   3        /* … and the job (locked, unless UNLOCKED) */
#define ANSWER 4        /* confirmed */
byte at[2], saw_attempt[2], saw_version[2], saw_payload[2], has[2];
bit in_time[2];         /* its own clock has not reached the deadline of what it has */
bit was_open[2];        /* the topic was open at some moment since the transaction began */

byte handed, claimed, forbidden;
byte faults = FAULTS, events = EVENTS;

inline fail()
{
    passed = 0; failures++; version++;
    if :: failures >= BUDGET -> state = DEAD :: else -> state = SCHEDULED; due = 1 fi
}
inline unlock(p) { if :: lock == 1 + p -> lock = 0 :: else fi }
inline forget(p)
{
    unlock(p);
    at[p] = IDLE; saw_attempt[p] = 0; saw_version[p] = 0; saw_payload[p] = 0; has[p] = 0; in_time[p] = 0; was_open[p] = 0
}

#ifdef OUT_POP_TOPIC
#define TOPIC_OPEN true
#else
#define TOPIC_OPEN open
#endif
#if defined(OUT_POP_STATE) || defined(OUT_POP_UPDATE_STATE)
#define SCHEDULED_STILL true
#else
#define SCHEDULED_STILL (state == SCHEDULED)
#endif
#if defined(OUT_POP_DUE) || defined(OUT_POP_UPDATE_DUE)
#define DUE_STILL true
#else
#define DUE_STILL due
#endif
#ifdef OUT_POP_LIST
#define UNLISTED true
#else
#define UNLISTED !listed
#endif
#ifdef OUT_POP_UPDATE_VERSION
#define SAME_VERSION(p) true
#else
#define SAME_VERSION(p) (version == saw_version[p])
#endif
/* Under the lock nobody changes what was read. Without it the UPDATE must see that nobody did. */
#if UNLOCKED
#define MAY_READ(p) (state == SCHEDULED && due && UNLISTED)
#define HOLDS(p)    (!lock && SCHEDULED_STILL && DUE_STILL && SAME_VERSION(p))
#else
#define MAY_READ(p) (!lock && SCHEDULED_STILL && DUE_STILL && UNLISTED)
#define HOLDS(p)    true
#endif

inline write_claim(p)
{
    assert(state == SCHEDULED && due);                          /* D3: never early, never what was cancelled */
    assert(saw_attempt[p] == attempt && saw_payload[p] == payload); /* D4: what is handed out is what the row says */
    assert(was_open[p]);                                        /* D5: a pause that was answered before holds */
    assert(!listed);                                            /* D6: no attempt overtakes an earlier one that is in flight */
    assert(attempt < LAST);
    attempt++; version++; state = DISPATCHED; due = 0; passed = 0;
    claimed = claimed | BIT(attempt)
}

proctype Api(byte p)
{
    do
    :: d_step { at[p] == IDLE && state == SCHEDULED -> at[p] = BEGUN; was_open[p] = open }
    :: d_step { at[p] == BEGUN -> if :: TOPIC_OPEN -> at[p] = OPENED :: else -> forget(p) fi }
    :: d_step { at[p] == OPENED ->
        if
        :: MAY_READ(p) ->
            at[p] = READ; saw_attempt[p] = attempt; saw_version[p] = version; saw_payload[p] = payload;
#if !UNLOCKED && !defined(OUT_POP_LOCK)
            lock = 1 + p
#endif
        :: else -> forget(p)
        fi }
    :: d_step { at[p] == READ && HOLDS(p) ->
        write_claim(p); unlock(p);
        has[p] = saw_attempt[p] + 1; in_time[p] = 1; at[p] = ANSWER }
    :: d_step { at[p] == READ && !HOLDS(p) -> forget(p) }
    /* its commit is in doubt: made, or not */
    :: d_step { faults > 0 && at[p] == READ && HOLDS(p) -> faults--; write_claim(p); forget(p) }
    :: d_step { faults > 0 && at[p] == READ -> faults--;
#ifdef OUT_POP_CONFIRMED
        has[p] = saw_attempt[p] + 1; in_time[p] = 1; unlock(p); at[p] = ANSWER
#else
        forget(p)
#endif
        }
    :: d_step { at[p] == ANSWER &&
#ifdef OUT_POP_IN_TIME
        true
#else
        in_time[p]
#endif
        ->
        assert(claimed & BIT(has[p]));                          /* D1: what MySQL has claimed */
        assert(!(handed & BIT(has[p])));                        /* D1: once */
        assert(!(forbidden & BIT(has[p])));                     /* D2: nothing after `cancelled` */
        handed = handed | BIT(has[p]); forget(p) }
    :: d_step { at[p] == ANSWER && !in_time[p] -> forget(p) }
    :: d_step { faults > 0 && at[p] != IDLE -> faults--; forget(p) }
    od
}

proctype Leader()       /* of the shard that the slot belongs to, or of the one that it belonged to */
{
    do
    :: d_step { !lock && state == DISPATCHED && passed -> fail() }
    od
}

proctype Outside()
{
    do
    :: d_step { listed -> listed = 0; assert(!(forbidden & BIT(1))); handed = handed | BIT(1) }     /* Kafka has it */
    :: d_step { events > 0 && !lock && state == SCHEDULED && !listed -> events--; version++;
        state = CANCELLED; forbidden = forbidden | (ALL & ~handed) }
    :: d_step { events > 0 && !lock && state == SCHEDULED && due -> events--; version++; due = 0 }
    :: d_step { events > 0 && !lock && state == SCHEDULED -> events--; version++; payload++ }
    :: d_step { events > 0 && open -> events--; open = 0 }
    :: d_step { !open -> open = 1; was_open[0] = (at[0] != IDLE); was_open[1] = (at[1] != IDLE) }
    :: d_step { state == SCHEDULED && !due && !lock -> due = 1 }
    /* the API's clock reaches a deadline before MySQL's: it began to count earlier */
    :: d_step { state == DISPATCHED && !passed -> passed = 1;
        if :: has[0] == attempt -> in_time[0] = 0 :: else fi;
        if :: has[1] == attempt -> in_time[1] = 0 :: else fi }
    :: d_step { !lock && state == DISPATCHED && (handed & BIT(attempt)) -> version++; state = SUCCEEDED; passed = 0 }
    :: d_step { !lock && state == DISPATCHED && (handed & BIT(attempt)) -> fail() }
    /* manual edits raise no version */
    :: d_step { EDITS && events > 0 && !lock && state == SCHEDULED && due -> events--; due = 0 }
    :: d_step { EDITS && events > 0 && !lock && state == SCHEDULED && !listed -> events--; state = CANCELLED }
    :: timeout -> d_step {
        assert(state != DISPATCHED && state != SCHEDULED);      /* D7: every attempt ends, and no due job waits */
        assert(lock == 0) }
        break
    od
}

init {
    atomic {
        if
        :: true
        :: EDITS -> listed = 1; attempt = 1; version = 1; claimed = BIT(1)  /* edited back to scheduled while in flight */
        fi;
        run Api(0); run Api(1); run Leader(); run Outside() }
}
