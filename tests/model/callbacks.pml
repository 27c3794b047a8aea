/*
 * Callbacks: which process puts an attempt on the wire, and who ends it when that process is gone.
 *
 * Owns: the life of an attempt of a topic whose delivery is `http`, between the claim and the outcome, and everybody who
 * may come between. One job; its attempts; two dispatchers. The fence of a shard is shard.pml's business: here a leader
 * transaction is one step that a deposed leader cannot take. The network, the receiver and the time-out of a request are
 * one thing: an answer that comes, or a process that does not live to hear it.
 *
 * The mechanism.
 *
 *   hands      A table with one row for each attempt that a process has in its hands: (job, attempt, shard, owner). The
 *              row is written in the leader transaction that claims the attempt. The transaction that records the
 *              outcome deletes it, and writes nothing when the row is not there.
 *   owner      A random number that a process gives itself. It is a lease in MySQL: the process renews it, and others
 *              take it for gone when it was not renewed for a whole time-out. The process itself counts two thirds of
 *              the time-out on its monotonic clock from before it sent the last renewal that was confirmed. After that
 *              it puts nothing of this number on the wire, never renews it again, and gives itself a new number.
 *   wire       An attempt is put on the wire by the process that claimed it, after the commit was confirmed, once, and
 *              while the lease of its owner number lasts.
 *   lost       The leader of the shard ends what is in the hands of an owner that is gone, in a leader transaction: the
 *              attempt is `lost`, spends no failure, and the next attempt is claimed in the same transaction, unless the
 *              topic is closed (paused, at its limit, no longer `http`) or the retries were cancelled.
 *   orphans    A claim whose commit is in doubt is not sent. Before the process claims anything again for the shard, and
 *              also when it does not lead the shard any more, it locks the shard's row (so the transaction in doubt has
 *              ended) and gives away what stands in its hands and its memory does not know: owner 0, which is gone.
 *
 * "Once" needs no clock. An attempt number is written by one committed transaction, a process sends only what its own
 * transaction was confirmed to have written, and forgets it as it sends it; a successor claims a higher number. So the
 * pair (job, attempt) is unique even beside a process that was stopped and goes on later.
 *
 * "None after `cancelled`" needs the lease. A job whose attempt is lost may be `scheduled`, and a cancel of it is
 * answered `cancelled`; a process that was stopped before its write would write afterwards. The product looks at the lease
 * on the thread that writes, as the last thing before the head is written (scheduler/base/http/http_client.h,
 * may_send). That leaves a window: the process may be stopped between the look and the write, for longer than the third of
 * the time-out that lies between its own end of the lease and the others'. A timer of the kernel closes it
 * (scheduler/base/http/wire_guard.h: timer_create, SIGEV_THREAD_ID, CLOCK_BOOTTIME), armed for the end of the lease and moved by each renewal: a thread that
 * was stopped, or not chosen, handles its signal before its next instruction, and the handler shuts the sending side of
 * the process's callback connections. OUT_CALL_TIMER takes the timer out, and shows what happens in that window. In the model the end of the lease takes away what was looked at (`ready`) together with what
 * was held. What remains with a timer is a machine whose clocks stand still together with its processes and go on as if
 * nothing had been; no sender can know of that. Nor is the receiver's reading covered: what was written before the end
 * may reach it at any time later.
 *
 * A leader that is deposed and lives keeps what it has in hands: its owner number is not gone.
 *
 * Left out: the shard of a row of `hands` (a shard that the map no longer names is led until it has no rows there,
 * as moving.pml shows for the list); places and bytes of a process; what the answer's status means.
 */
#ifndef FAULTS          /* crashes, commits in doubt, ends of a lease */
#define FAULTS 2
#endif
#ifndef FOREIGN         /* takeovers by the dispatcher that the election does not settle on in the end */
#define FOREIGN 1
#endif
#ifndef EVENTS          /* cancels, changes, pauses, redrives, manual edits */
#define EVENTS 2
#endif
#ifndef EDITS           /* manual edits and forged reports */
#define EDITS 0
#endif
#define LAST   7        /* attempts of the job that the model has room for */
#define BUDGET 2        /* failures after which the job is dead */

#define BIT(a) (1 << (a))
#define ALL    254

/* ---- MySQL ---- */
#define SCHEDULED  0
#define DISPATCHED 1
#define SUCCEEDED  2
#define DEAD       3
#define CANCELLED  4
byte state, attempt, failures;
bit due = 1;
bit passed;             /* the deadline of the latest attempt */
bit no_retries;
bit open = 1;           /* the topic is `http`, not paused, and has room */
byte leader = 2;        /* whose fence stands in the shard's row; 2 = nobody's */
byte hands[8];          /* by attempt: 0 = no row, LIVE(p), OLD(p): a number of p that is gone, or GONE */
#define LIVE(p) (1 + (p))
#define OLD(p)  (3 + (p))
#define GONE    5
#define NO_HANDS (!hands[1] && !hands[2] && !hands[3] && !hands[4] && !hands[5] && !hands[6] && !hands[7])

/* ---- memory of a dispatcher ---- */
bit leads[2];           /* it believes so */
bit unsure[2];          /* the commit of a claim was in doubt, and nothing was given away yet */
bit chosen[2];          /* a due scan found the job */
byte held[2];           /* claimed and confirmed, not on the wire yet */
byte ready[2];          /* the lease was looked at: this attempt is written next; 0 = none */
byte asked[2];          /* on the wire, the outcome is not recorded */
byte doubt[2];          /* a claim that MySQL may still commit: whose number it carries; 0 = none */

/* ---- the wire, and what was promised ---- */
byte wired, claimed, forbidden;
byte failed;            /* failures that somebody reported, or that a deadline made */
bit slipped;            /* an attempt was lost, and nobody claimed the next although the topic was open */

byte faults = FAULTS, foreign = FOREIGN, events = EVENTS;
bit redriven;

inline fail()
{
    passed = 0; failures++; failed++;
    if
    :: no_retries -> state = CANCELLED
    :: !no_retries && failures >= BUDGET -> state = DEAD
    :: else -> state = SCHEDULED; due = 1
    fi
}

/* Writes the claim of the next attempt, by a transaction that carries this owner number. */
inline write_claim(owner)
{
    assert(state == SCHEDULED && due);                          /* C4: never early, never what was cancelled */
    assert(attempt < LAST);
    attempt++; state = DISPATCHED; due = 0; passed = 0; slipped = 0;
    hands[attempt] = owner; claimed = claimed | BIT(attempt)
}

inline lose(p, a)
{
    hands[a] = 0;
    if
    :: state == DISPATCHED && attempt == a ->
        passed = 0;
#ifdef OUT_CALL_LOST_IS_FREE
        failures++;
#endif
        if
        :: no_retries -> state = CANCELLED
        :: else ->
            state = SCHEDULED; due = 1; slipped = open;
#ifndef OUT_CALL_LOST_CLAIMS_NEXT
            if
            :: open && NO_HANDS -> write_claim(LIVE(p)); held[p] = held[p] | BIT(attempt)
            :: else
            fi
#endif
        fi
    :: else
    fi
}

/* Ends what nobody has in hands any more. */
#ifdef OUT_CALL_OWNER_GONE
#define IS_GONE(p, a) (hands[a] != 0 && hands[a] != LIVE(p))
#else
#define IS_GONE(p, a) (hands[a] == OLD(0) || hands[a] == OLD(1) || hands[a] == GONE)
#endif
#define SOME_GONE(p) (IS_GONE(p, 1) || IS_GONE(p, 2) || IS_GONE(p, 3) || IS_GONE(p, 4) || IS_GONE(p, 5) || IS_GONE(p, 6) || IS_GONE(p, 7))
inline sweep(p, a)
{
    a = 1;
    do
    :: a > LAST -> break
    :: a <= LAST && IS_GONE(p, a) -> lose(p, a); a++
    :: else -> a++
    od;
    a = 0
}
inline give_away(p, a)
{
    a = 1;
    do
    :: a > LAST -> break
    :: a <= LAST && (hands[a] == LIVE(p) || hands[a] == OLD(p)) && !((held[p] | asked[p]) & BIT(a)) -> hands[a] = GONE; a++
    :: else -> a++
    od;
    a = 0
}

inline rename(a, from, to) { if :: hands[a] == from -> hands[a] = to :: else fi }
inline rename_all(from, to)
{
    rename(1, from, to); rename(2, from, to); rename(3, from, to); rename(4, from, to);
    rename(5, from, to); rename(6, from, to); rename(7, from, to);
    if :: doubt[0] == from -> doubt[0] = to :: else fi;
    if :: doubt[1] == from -> doubt[1] = to :: else fi
}

#ifdef OUT_CALL_EARLIER_IN_HANDS
#define NONE_EARLIER true
#else
#define NONE_EARLIER NO_HANDS
#endif
#define MAY_CLAIM (state == SCHEDULED && due && open && NONE_EARLIER)
#ifdef OUT_CALL_CLAIM_CONDITION
#define CLAIM_HOLDS true
#else
#define CLAIM_HOLDS MAY_CLAIM
#endif
#ifdef OUT_CALL_TIMEOUT_IN_HANDS
#define OUT_OF_HANDS true
#else
#define OUT_OF_HANDS (hands[attempt] == 0)
#endif

/* The outcome's transaction: is the attempt still in the hands that it was claimed for? */
#if defined(OUT_CALL_OUTCOME)
#define STILL_MINE(p, a) true
#define STILL_THIS(a)    (state == DISPATCHED)
#else
#define STILL_MINE(p, a) (hands[a] == LIVE(p) || hands[a] == OLD(p))
#define STILL_THIS(a)    (state == DISPATCHED && attempt == a)
#endif
#define OK_ANSWER 0
#define FAILURE   1
#define TAKEN     2     /* 202 */
inline record(p, a, answer)
{
    if
    :: STILL_MINE(p, a) ->
        hands[a] = 0;
        if
        :: STILL_THIS(a) ->
            assert(attempt == a);                               /* C6: an outcome ends its own attempt */
            if
            :: answer == OK_ANSWER -> state = SUCCEEDED; passed = 0; forbidden = forbidden | (ALL & ~wired)
            :: answer == FAILURE -> fail()
            :: else
            fi
        :: else
        fi
    :: else
    fi
}
#define FIRST(bits) ((bits) & 2 -> 1 : ((bits) & 4 -> 2 : ((bits) & 8 -> 3 : ((bits) & 16 -> 4 : ((bits) & 32 -> 5 : ((bits) & 64 -> 6 : 7))))))

inline wire(p)
{
    assert(claimed & BIT(ready[p]));                            /* C1: what MySQL has claimed */
    assert(!(wired & BIT(ready[p])));                           /* C1: once */
    assert(!(forbidden & BIT(ready[p])));                       /* C3: nothing after `cancelled` */
    wired = wired | BIT(ready[p]); asked[p] = asked[p] | BIT(ready[p])
}

proctype Dispatcher(byte p)
{
    byte a;
    do
    :: d_step { !leads[p] && !unsure[p] && (p == 0 || foreign > 0) ->
        if :: p == 1 -> foreign-- :: else fi;
        leader = p; leads[p] = 1; chosen[p] = 0;
        doubt[p ^ 1] = 0 }
    :: d_step { unsure[p] ->
        unsure[p] = 0;
#ifndef OUT_CALL_DOUBT_HAS_ENDED
        doubt[p] = 0;
#endif
#ifndef OUT_CALL_ORPHANS
        give_away(p, a)
#endif
        }
    :: d_step { leads[p] && leader != p -> leads[p] = 0; chosen[p] = 0 }
    /* leading */
    :: d_step { leads[p] && leader == p && SOME_GONE(p) -> sweep(p, a) }
    :: d_step { leads[p] && leader == p && !chosen[p] && MAY_CLAIM -> chosen[p] = 1 }
    :: d_step { leads[p] && leader == p && chosen[p] ->
        chosen[p] = 0;
        if :: CLAIM_HOLDS -> write_claim(LIVE(p)); held[p] = held[p] | BIT(attempt) :: else fi }
    /* … whose commit is in doubt: it was made, or it is made later, or never */
    :: d_step { faults > 0 && leads[p] && leader == p && chosen[p] ->
        faults--; chosen[p] = 0; leads[p] = 0; unsure[p] = 1; doubt[p] = LIVE(p);
#ifdef OUT_CALL_CONFIRMED
        held[p] = held[p] | BIT(attempt + 1)
#endif
        }
    :: d_step { doubt[p] != 0 ->
        if :: MAY_CLAIM -> write_claim(doubt[p]) :: else fi;
        doubt[p] = 0 }
    :: d_step { doubt[p] != 0 -> doubt[p] = 0 }
    :: d_step { leads[p] && leader == p && state == DISPATCHED && passed && OUT_OF_HANDS ->
        assert(wired & BIT(attempt));                           /* C5: a timeout is of what was sent */
        fail() }
    /* the wire: the lease is looked at, then the request is written */
    :: d_step { held[p] && !ready[p] -> ready[p] = FIRST(held[p]) }
    :: d_step { ready[p] -> wire(p);
#ifndef OUT_CALL_SENT_ONCE
        held[p] = held[p] & ~BIT(ready[p]);
#endif
        ready[p] = 0 }
    /* the outcome */
    :: d_step { asked[p] -> a = FIRST(asked[p]); asked[p] = asked[p] & ~BIT(a); record(p, a, OK_ANSWER); a = 0 }
    :: d_step { asked[p] -> a = FIRST(asked[p]); asked[p] = asked[p] & ~BIT(a); record(p, a, FAILURE); a = 0 }
    :: d_step { asked[p] -> a = FIRST(asked[p]); asked[p] = asked[p] & ~BIT(a); record(p, a, TAKEN); a = 0 }
    /* … whose commit is in doubt: it is written again */
    :: d_step { faults > 0 && asked[p] -> faults--; a = FIRST(asked[p]); record(p, a, FAILURE); a = 0 }
    /* the lease of its number ends: others may take the number for gone from now on */
    :: d_step { faults > 0 -> faults--;
        rename_all(OLD(p), GONE);
        rename_all(LIVE(p), OLD(p));
#ifndef OUT_CALL_LEASE
#ifndef OUT_CALL_TIMER
        ready[p] = 0;
#endif
        held[p] = 0
#endif
        }
    :: d_step { faults > 0 -> faults--;
        rename_all(OLD(p), GONE);
        rename_all(LIVE(p), GONE);
        leads[p] = 0; unsure[p] = 0; chosen[p] = 0; held[p] = 0; ready[p] = 0; asked[p] = 0 }
    od
}

#ifdef OUT_CALL_CANCEL_LOOKS_AT_HANDS
#define FREE_TO_CANCEL true
#else
#define FREE_TO_CANCEL NO_HANDS
#endif

proctype Outside()
{
    do
    /* cancel, on the locked row of the job */
    :: d_step { events > 0 && (state == SCHEDULED || state == CANCELLED) && FREE_TO_CANCEL -> events--;
        assert(!slipped);                                       /* C7: nothing slips between lost and the next attempt */
        state = CANCELLED; forbidden = forbidden | (ALL & ~wired) }
    :: d_step { events > 0 && state == DISPATCHED && !no_retries -> events--; no_retries = 1 }   /* too_late, attempt n */
    /* reports by REST, of what was sent; before the callback is answered or after it */
    :: d_step { state == DISPATCHED && (wired & BIT(attempt)) -> state = SUCCEEDED; passed = 0; forbidden = forbidden | (ALL & ~wired) }
    :: d_step { state == DISPATCHED && (wired & BIT(attempt)) -> fail() }
    /* time */
    :: d_step { state == DISPATCHED && !passed -> passed = 1 }
    :: d_step { state == SCHEDULED && !due -> due = 1 }                                           /* run-now as well */
    /* PATCH, pause and resume (change of delivery, limit), redrive */
    :: d_step { events > 0 && state == SCHEDULED && due -> events--; due = 0; slipped = 0 }
    :: d_step { events > 0 && open -> events--; open = 0; slipped = 0 }
    :: d_step { !open -> open = 1 }
    :: d_step { events > 0 && !redriven && (state == DEAD || state == CANCELLED) && FREE_TO_CANCEL -> events--; redriven = 1;
        state = SCHEDULED; due = 1; failures = 0; failed = 0; no_retries = 0;
        forbidden = forbidden & (BIT(attempt + 1) - 1) }
    /* manual edits: dispatched -> scheduled, or a forged report */
    :: d_step { EDITS && events > 0 && state == DISPATCHED -> events--; state = SCHEDULED; due = 1; passed = 0 }
    :: d_step { EDITS && events > 0 && state == DISPATCHED -> events--; fail() }
    :: d_step { EDITS && events > 0 && state == DISPATCHED -> events--; state = CANCELLED; passed = 0 }
    :: timeout -> d_step {
        assert(NO_HANDS);                                       /* C2: nothing stays in nobody's hands */
        assert(state != DISPATCHED && state != SCHEDULED);      /* C2: every attempt ends */
        assert(failures == failed) }                            /* C8: a lost attempt spends no failure */
        break
    od
}

init { atomic { run Dispatcher(0); run Dispatcher(1); run Outside() } }
