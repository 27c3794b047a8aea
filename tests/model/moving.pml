/*
 * Two shards, and a number of shards that changes while attempts are in flight.
 *
 * Owns: who may claim, time out and cancel a job whose slot has moved, and how long a shard is led that the map no longer
 * names (scheduler/dispatch/shards_store.c, leader.c, jobs_store.c, dispatcher/election/shard_map.c). The inside of a shard is
 * shard.pml's business; here fencing is one step, and a Kafka transaction commits in one step while its producer is the
 * newest, or never. A step is atomic; a row that stays locked over more than one step is so in `locked` and `busy`.
 *
 *   Dispatcher   a leader of a shard, or a zombie that still thinks so: two for each
 *   Outside      changes of the number, callers, consumers, time, hand edits
 *
 * Job 0 is in a slot that always belongs to the last shard, job 1 in one that stays in shard 0. P1 … P7 as in README.md.
 */
#ifndef JOBS
#define JOBS 1
#endif
#ifndef CHANGES         /* of the number of shards */
#define CHANGES 2
#endif
#ifndef FAULTS          /* crashes, lost answers */
#define FAULTS 1
#endif
#ifndef EVENTS          /* cancels, deadlines that pass, hand edits */
#define EVENTS 2
#endif
#ifndef FOREIGN         /* takeovers by those that the election does not settle on in the end */
#define FOREIGN 1
#endif
#ifndef EDITS           /* dispatched -> scheduled by hand, or by a forged result */
#define EDITS 0
#endif
#define SHARDS 2
#define LAST   2        /* attempts of a job */

#define BIT(j, a)   (1 << (2 * (j) + (a) - 1))
#define OF(j)       (3 << (2 * (j)))
#define LATEST(j)   (attempt[j] == 0 -> 0 : BIT(j, attempt[j]))
#define OWNER(j, n) ((j) == 0 -> (n) - 1 : 0)   /* whose slot, by a map of n shards */
#define SHARD(p)    ((p) & 1)
#define RIVAL(p)    ((p) ^ 2)

/* ---- MySQL ---- */
#define SCHEDULED  0
#define DISPATCHED 1
#define SUCCEEDED  2
#define DEAD       3
#define CANCELLED  4
byte number = SHARDS, generation;
byte row_list[SHARDS];
byte state[JOBS], attempt[JOBS], claim_shard[JOBS];
byte locked[JOBS];      /* the job's row: 1 + who; 5 = a cancel */
bit passed[JOBS];       /* the deadline of the latest attempt */

/* ---- Kafka ---- */
byte ledger[SHARDS];    /* what the shard's partition has from ledger_offset on */
byte visible;

/* ---- what was promised ---- */
byte claimed, too_late, forbidden;

/* ---- memory of a dispatcher ---- */
#define IDLE   0
#define FENCE  1
#define SETTLE 2
#define LEAD   3
#define IN_TXN 4        /* its transaction has read the generation */
#define DECIDE 5        /* … holds the shard's row and the job's */
#define SEND   6
byte at[4], flight[4], sent[4], my_number[4], my_generation[4], victim[4];
bit mine[4], newest[4];

byte faults = FAULTS, events = EVENTS, foreign = FOREIGN, changes = CHANGES;
byte cancel_list;       /* what a cancel has read */

#define BUSY(s) (at[s] == DECIDE || at[(s) ^ 2] == DECIDE)      /* the shard's row is locked */

inline forget(p)
{
    if :: at[p] == DECIDE -> locked[victim[p]] = 0 :: else fi;
    at[p] = IDLE; flight[p] = 0; sent[p] = 0; mine[p] = 0; newest[p] = 0; my_number[p] = 0; my_generation[p] = 0; victim[p] = 0
}

inline settle(p)
{
    row_list[SHARD(p)] = row_list[SHARD(p)] & ~sent[p];
    ledger[SHARD(p)] = ledger[SHARD(p)] & ~sent[p];
    flight[p] = row_list[SHARD(p)];
    sent[p] = 0
}

inline fail(j)
{
    passed[j] = 0;
    if :: attempt[j] < LAST -> state[j] = SCHEDULED :: else -> state[j] = DEAD fi
}

/* A shard that the map names, or that has something in flight: it is read from the rows, not from anybody's memory. */
#ifdef OUT_LED_UNTIL_EMPTY
#define LED(s) ((s) < number)
#else
#define LED(s) ((s) < number || row_list[s] != 0)
#endif

/* The list that says whether an earlier attempt of the job is in flight: that of the shard that claimed it. */
#define ELSEWHERE(j, p) (attempt[j] > 0 && claim_shard[j] != SHARD(p) && (row_list[claim_shard[j]] & OF(j)))
#ifdef OUT_CLAIM_ELSEWHERE
#define FREE_TO_CLAIM(j, p) true
#else
#define FREE_TO_CLAIM(j, p) !ELSEWHERE(j, p)
#endif
#ifdef OUT_TIMEOUT_ELSEWHERE
#define FREE_TO_TIME_OUT(j, p) true
#else
#define FREE_TO_TIME_OUT(j, p) !ELSEWHERE(j, p)
#endif
#define TO_CLAIM(j)    (state[j] == SCHEDULED && attempt[j] < LAST)
#define TO_TIME_OUT(j) (state[j] == DISPATCHED && passed[j])

/* In the transaction, settled, nothing of its own in flight, the job's row locked: what becomes of it. */
inline decide(p, j)
{
    if
    :: TO_TIME_OUT(j) && FREE_TO_TIME_OUT(j, p) ->
        assert(!((row_list[0] | row_list[1]) & LATEST(j)));     /* P5 */
        fail(j)
    :: TO_CLAIM(j) && FREE_TO_CLAIM(j, p) ->
        attempt[j] = attempt[j] + 1; state[j] = DISPATCHED; claim_shard[j] = SHARD(p);
        row_list[SHARD(p)] = BIT(j, attempt[j]);
        claimed = claimed | BIT(j, attempt[j])
    :: else
    fi;
    locked[j] = 0; victim[p] = 0;
    flight[p] = row_list[SHARD(p)]
}

proctype Dispatcher(byte p)
{
    do
    :: d_step { at[p] == IDLE && !BUSY(SHARD(p)) && LED(SHARD(p)) && (p < SHARDS || foreign > 0) ->
        if :: p >= SHARDS -> foreign-- :: else fi;
        mine[p] = 1; mine[RIVAL(p)] = 0; at[p] = FENCE }
    :: d_step { at[p] == FENCE -> newest[p] = 1; newest[RIVAL(p)] = 0; at[p] = SETTLE }
    :: d_step { at[p] == SETTLE && !BUSY(SHARD(p)) ->
        if
        :: !mine[p] -> forget(p)
        :: else ->
            row_list[SHARD(p)] = row_list[SHARD(p)] & ~ledger[SHARD(p)]; ledger[SHARD(p)] = 0;
            flight[p] = row_list[SHARD(p)];
            my_number[p] = number; my_generation[p] = generation;
            at[p] = (flight[p] -> SEND : LEAD)
        fi }
    /* leading */
    :: d_step { at[p] == LEAD && !mine[p] -> forget(p) }
    :: d_step { at[p] == LEAD && my_generation[p] != generation -> my_number[p] = number; my_generation[p] = generation }
    :: d_step { at[p] == LEAD && mine[p] && sent[p] && !BUSY(SHARD(p)) -> settle(p) }
    :: d_step { at[p] == LEAD && mine[p] && SHARD(p) >= my_number[p] && !flight[p] -> forget(p) }   /* steps down */
    /* its transaction reads the generation, and may then wait for its row while the number changes */
    :: d_step { at[p] == LEAD && mine[p] && my_generation[p] == generation && OWNER(0, my_number[p]) == SHARD(p) &&
                (TO_CLAIM(0) || TO_TIME_OUT(0)) && !ELSEWHERE(0, p) -> at[p] = IN_TXN; victim[p] = 0 }
#if JOBS > 1
    :: d_step { at[p] == LEAD && mine[p] && my_generation[p] == generation && OWNER(1, my_number[p]) == SHARD(p) &&
                (TO_CLAIM(1) || TO_TIME_OUT(1)) && !ELSEWHERE(1, p) -> at[p] = IN_TXN; victim[p] = 1 }
#endif
#if defined(OUT_CLAIM_ELSEWHERE) || defined(OUT_TIMEOUT_ELSEWHERE)
    :: d_step { at[p] == LEAD && mine[p] && my_generation[p] == generation && OWNER(0, my_number[p]) == SHARD(p) &&
                (TO_CLAIM(0) || TO_TIME_OUT(0)) -> at[p] = IN_TXN; victim[p] = 0 }
#endif
    :: d_step { at[p] == IN_TXN && !BUSY(SHARD(p)) ->
        if
        :: !mine[p] -> forget(p)
        :: else ->
            settle(p);
            if :: locked[victim[p]] -> at[p] = LEAD; victim[p] = 0      /* skipped */
               :: else -> locked[victim[p]] = 1 + p; at[p] = DECIDE
            fi
        fi }
    :: d_step { at[p] == DECIDE -> decide(p, victim[p]); at[p] = (flight[p] -> SEND : LEAD) }
    :: d_step { faults > 0 && at[p] == DECIDE -> faults--; decide(p, victim[p]); at[p] = LEAD; forget(p) }  /* COMMIT's answer lost */
    /* Kafka */
    :: d_step { at[p] == SEND && !newest[p] -> forget(p) }
    :: d_step { at[p] == SEND && newest[p] ->
        assert(!(visible & flight[p]));                         /* P1 */
        assert(!(forbidden & flight[p]));                       /* P3 */
        assert(!(flight[p] & ~claimed));
        visible = visible | flight[p]; ledger[SHARD(p)] = ledger[SHARD(p)] | flight[p]; sent[p] = flight[p]; at[p] = LEAD }
    :: d_step { faults > 0 && at[p] == SEND && newest[p] -> faults--;       /* committed, and nobody knows */
        assert(!(visible & flight[p])); assert(!(forbidden & flight[p]));
        visible = visible | flight[p]; ledger[SHARD(p)] = ledger[SHARD(p)] | flight[p]; forget(p) }
    :: d_step { faults > 0 && at[p] != IDLE -> faults--; forget(p) }
    od
}

#ifdef OUT_CANCEL_ELSEWHERE
#define CANCEL_LIST(j) (row_list[OWNER(j, number)] & OF(j))
#else
#define CANCEL_LIST(j) (row_list[claim_shard[j]] & OF(j))
#endif

proctype Outside()
{
    do
    :: d_step { changes > 0 -> changes--; generation++; number = (number == 1 -> 2 : 1) }
    :: d_step { changes > 0 -> changes = 0 }
    :: d_step { !locked[0] && state[0] == DISPATCHED && (visible & LATEST(0)) ->
        state[0] = SUCCEEDED; passed[0] = 0; forbidden = forbidden | (OF(0) & ~visible) }
    :: d_step { !locked[0] && state[0] == DISPATCHED && (visible & LATEST(0)) -> fail(0) }
#if JOBS > 1
    :: d_step { !locked[1] && state[1] == DISPATCHED && (visible & LATEST(1)) -> state[1] = SUCCEEDED; passed[1] = 0 }
#endif
    :: d_step { events > 0 && state[0] == DISPATCHED && !passed[0] -> events--; passed[0] = 1 }
    :: d_step { EDITS && events > 0 && !locked[0] && state[0] == DISPATCHED && attempt[0] < LAST -> events--; state[0] = SCHEDULED; passed[0] = 0 }
    /* a cancel: the job's row is locked, then the list is read, then it is decided */
#ifdef OUT_READ_AFTER_LOCK
    :: d_step { events > 0 && !locked[0] && state[0] != SUCCEEDED && !cancel_list -> events--; cancel_list = 128 | CANCEL_LIST(0) }
    :: d_step { cancel_list && !locked[0] -> locked[0] = 5 }
#else
    :: d_step { events > 0 && !locked[0] && state[0] != SUCCEEDED -> events--; locked[0] = 5 }
    :: d_step { locked[0] == 5 && !cancel_list -> cancel_list = 128 | CANCEL_LIST(0) }
#endif
    :: d_step { locked[0] == 5 && cancel_list ->
        if
        :: state[0] == SCHEDULED && !(cancel_list & OF(0)) -> state[0] = CANCELLED; forbidden = forbidden | (OF(0) & ~visible)
        :: state[0] == SCHEDULED && (cancel_list & OF(0)) -> too_late = too_late | (cancel_list & OF(0))
        :: state[0] == DISPATCHED -> too_late = too_late | LATEST(0)
        :: else
        fi;
        locked[0] = 0; cancel_list = 0 }
    :: d_step { events > 0 && !locked[0] -> events = 0 }
    :: d_step { faults > 0 -> faults = 0 }
    :: d_step { foreign > 0 -> foreign = 0 }
    :: timeout -> d_step {
        assert(row_list[0] == 0 && row_list[1] == 0);           /* P2 */
        assert(state[0] != SCHEDULED && state[JOBS - 1] != SCHEDULED);
        assert(!(claimed & ~visible));
        assert(!(visible & ~claimed));                          /* P1 */
        assert(!(too_late & ~visible)) }                        /* P7 */
        break
    od
}

init { atomic { run Dispatcher(0); run Dispatcher(1); run Dispatcher(2); run Dispatcher(3); run Outside() } }
