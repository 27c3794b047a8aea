/*
 * One shard of duetime, from the claim in MySQL to the message in Kafka, with everybody who may interfere.
 *
 * Owns: the order of the steps, and what each step may rely on. Each step is atomic; between two steps anything else
 * may happen, so a pause of any length, and a process that wakes up from one with an old memory, need no steps of
 * their own. Refuses to know: Redis (hints may be anything, so a claim here picks any jobs that are due), time but for
 * "has passed" and "has not", more than one shard.
 *
 *   Dispatcher   the shard loop: takeover, batch, rest (dispatcher/shard/shard_loop.c, scheduler/dispatch/leader.c,
 *                fence_store.c, dispatcher/deliver/kafka/kafka_txn_producer.c)
 *   Hands        what the leader does without Kafka, from the first step of a takeover on, while the sender waits (only
 *                with HANDS)
 *   Broker       the transaction coordinator, and requests that the network held back
 *   Outside      callers, consumers, time, operators with SQL (jobs_store.c, results_store.c, job_state.c)
 *   Backup       a MySQL that goes back to an earlier state, once (only with RESTORE)
 *
 * Who elects is no part of the model: a takeover begins whenever a dispatcher likes (FOREIGN times, and number 0 as often as
 * it wants), as if any election, ZooKeeper's or by leases in MySQL, named both at once. P1 to P9 hold nevertheless, because
 * each transaction of a leader locks the shard's row and compares the epoch that its own takeover raised, and because its
 * takeover fenced the producer of the one before. So a lease that ends early, late or twice (a clock that jumps, a copy of
 * MySQL that lacks the last leases, a process that was stopped) can cost time and takeovers, which is liveness; it cannot
 * cost or double an attempt. Only "settles in the end" is asked of an election: FOREIGN takeovers are finite.
 *
 * What is promised is asserted where it would break: "P1" … "P9" below, explained in README.md. OUT_… takes one guard
 * out; `check` has the list, and `check --guards` shows that each is needed.
 */
#ifndef JOBS
#define JOBS 1
#endif
#ifndef FAULTS          /* crashes, lost answers, held requests, transaction timeouts, refusals that did not last */
#define FAULTS 2
#endif
#ifndef EVENTS          /* cancels, changes, extensions, deadlines that pass, hand edits */
#define EVENTS 2
#endif
#ifndef FOREIGN         /* takeovers by the dispatcher that the election does not settle on in the end */
#define FOREIGN 1
#endif
#ifndef POISON          /* attempts (bits) that Kafka will never take */
#define POISON 0
#endif
#ifndef TRANSIENT       /* refusals that did not last are among the faults */
#define TRANSIENT 0
#endif
#ifndef EDITS           /* hand edits and forged results are among the events */
#define EDITS 0
#endif
#ifndef POLICY          /* late successes, extensions, changes of time, "no further attempts" and redrives are, too */
#define POLICY 0
#endif
#ifndef ANY_ID          /* a takeover begins with either of the two transactional ids, not always with the first */
#define ANY_ID 0
#endif
#ifndef STRANGERS       /* records that others may write into the ledger */
#define STRANGERS 0
#endif
#ifndef REPORTS         /* results lie in their topic before they are read */
#define REPORTS 0
#endif
#ifndef RESTORE         /* MySQL may go back */
#define RESTORE 0
#endif
#ifndef HANDS           /* times that a topic's delivery changes; jobs whose topic has another one go by hand */
#define HANDS 0
#endif
#define DISPATCHERS 2   /* number 0 is the one that the election settles on */
#define HANDLES     4   /* one for each dispatcher and id */
#define LAST 2          /* attempts of a job */
#define RECORDS 12      /* never reached: what nobody will read again is dropped */

/* ---- lists: sets of (job, attempt) as bits; their order is that of the jobs ---- */
#define BIT(j, a)       (1 << (2 * (j) + (a) - 1))
#define OF(j)           (3 << (2 * (j)))
#define LATEST(j)       (attempt[j] == 0 -> 0 : BIT(j, attempt[j]))
#define AFTER(j, a)     ((a) == 0 -> OF(j) : ((a) == 1 -> BIT(j, 2) : 0))
#define FIRST(list)     ((list) & (0 - (list)))
#define FIRST_TWO(list) (FIRST(list) | FIRST((list) & ~FIRST(list)))
#define HEAD(list, n)   ((n) == 1 -> FIRST(list) : ((n) == 2 -> FIRST_TWO(list) : (list)))
#define COUNT(l) (((l) & 1) + (((l) >> 1) & 1) + (((l) >> 2) & 1) + (((l) >> 3) & 1) + (((l) >> 4) & 1) + (((l) >> 5) & 1))

/* What went through decides how much goes next of what is left. */
#define DOUBLED(went, left) (2 * COUNT(went) < COUNT(left) -> 2 * COUNT(went) : COUNT(left))

/* ---- MySQL ---- */
#define SCHEDULED  0
#define DISPATCHED 1
#define SUCCEEDED  2
#define DEAD       3
#define CANCELLED  4
#define PASSED 0        /* next_at: has come; … has not; … was moved far ahead by an answered extension */
#define AHEAD  1
#define FAR    2
byte row_epoch, row_token, row_version; /* counted with RESTORE only: see `mine` */
byte row_offset, row_list, row_send;
bit row_halted;
byte state[JOBS], attempt[JOBS], next_at[JOBS];
bit no_retries[JOBS];
#if HANDS
bit by_hand[JOBS];      /* its topic's delivery is not Kafka */
#define BY_KAFKA(j) (!by_hand[j])
#else
#define BY_KAFKA(j) 1
#endif

/* ---- Kafka: two transactional ids, used by turns; one topic, the shard's partition of the ledger ---- */
#define IDS 2
#define NONE       0    /* no transaction */
#define OPEN       1
#define COMMITTING 2    /* decided, its record has its place, not yet to be seen */
#define ABORTING   3
byte transaction[IDS];
byte open_messages[IDS], open_kind[IDS], open_epoch[IDS], open_token[IDS], open_list[IDS]; /* what is in it */
#define BATCH   1
#define BARRIER 2
#define STRANGER 3      /* not a record of ours, and nothing like one */
byte kind[RECORDS], epoch[RECORDS], token[RECORDS], list_of[RECORDS], records, trimmed;

/* One request that the network holds back; it arrives whenever it likes. */
#define HELD_END      1
#define HELD_MESSAGES 2
#define HELD_RECORD   3
#define HELD_INIT     4
byte held, held_handle, held_list, held_id;

/* ---- what was promised, and what came of it ---- */
byte visible;           /* attempts that a read_committed consumer can see */
byte in_ledger;         /* attempts that the ledger has */
byte claimed;           /* attempts that MySQL says were dispatched */
byte undeliverable;     /* attempts that were recorded as such */
byte refused_alone;     /* attempts that Kafka refused with nothing beside them */
byte handed;            /* attempts that went by hand */
byte too_late;          /* attempts that a caller was told will be sent */
byte forbidden;         /* attempts that can never come: cancelled, or ended by a success */
bit extended[JOBS];     /* a caller's extension was answered, and its time has not come */
bit went_back;          /* MySQL did */

/* ---- the topic of results, and how far it has been read (dispatcher/deliver/kafka/results.c) ---- */
#if REPORTS
byte lying;             /* attempts with a report that came before their deadline, and is not applied yet */
byte mark_over;         /* of the last mark: attempts whose deadline had passed before it … */
byte mark_lying;        /* … and reports that lay there then */
byte read_up;           /* attempts whose deadline is not after the instant up to which all is read */
#define NOW_LATER(j) mark_over = mark_over & ~OF(j); read_up = read_up & ~OF(j)
#ifdef OUT_UNREAD
#define MAY_TIME_OUT(j) 1
#else
#define MAY_TIME_OUT(j) (read_up & LATEST(j))
#endif
#define UNREPORTED(j) (!(lying & LATEST(j)))
#else
#define NOW_LATER(j)    skip
#define MAY_TIME_OUT(j) 1
#define UNREPORTED(j)   1
#endif

#define DECIDED(id) (transaction[id] == COMMITTING -> open_messages[id] : 0)
#define DELIVERED   (visible | DECIDED(0) | DECIDED(1))

/* ---- memory of a dispatcher ---- */
byte my_epoch[DISPATCHERS], my_token[DISPATCHERS], my_version[DISPATCHERS], my_offset[DISPATCHERS];
bit mine[DISPATCHERS];      /* epoch, token and version in the row are those that it wrote last */
#define FENCED 1
#define NEWEST 2
byte handle[HANDLES];       /* its two producers, one an id: none, FENCED, or NEWEST */
bit id[DISPATCHERS];        /* whose turn it is */
byte flight[DISPATCHERS];   /* the row's list */
byte send_n[DISPATCHERS];
byte sent[DISPATCHERS];     /* the part of it that was committed */
byte sent_end[DISPATCHERS]; /* … and the offset after its record */
byte ahead[DISPATCHERS];    /* what it is about to claim: already handed to Kafka, in a transaction that is open */
byte hint[DISPATCHERS];     /* the list that Kafka refused: outlives the leadership, not the process */
bit awake[DISPATCHERS];     /* remembers a leadership */
byte barrier[DISPATCHERS];  /* token of the barrier that it waits for */
#ifdef OUT_CLAIM_CONDITION
byte looked[DISPATCHERS];
#endif
#ifdef OUT_DEADLINE_AGAIN
byte looked[DISPATCHERS];
#endif

byte deliveries = HANDS;
byte faults = FAULTS, events = EVENTS, foreign = FOREIGN, strangers = STRANGERS, tokens;
byte i_, n_, k_, found_;    /* scratch, 0 between steps */
bit problem_;

#if RESTORE
bit saved;
byte s_epoch, s_token, s_version, s_offset, s_list, s_send, s_state[JOBS], s_attempt[JOBS], s_next_at[JOBS];
#define SAVED_OFFSET (saved && !went_back -> s_offset : row_offset)
#else
#define SAVED_OFFSET row_offset
#endif

/*
 * Is the row what this leadership wrote last? A takeover writes an epoch and a token, each leader transaction raises
 * the version. While MySQL never goes back, that is the same as "nobody took over since", which needs no numbers: so
 * many histories are one state. With RESTORE epochs repeat, and the numbers are compared as the program compares them.
 */
#if RESTORE
#ifdef OUT_TOKEN
#define SAME_TOKEN(p) 1
#else
#define SAME_TOKEN(p) (row_token == my_token[p])
#endif
#ifdef OUT_VERSION
#define SAME_VERSION(p) 1
#else
#define SAME_VERSION(p) (row_version == my_version[p])
#endif
#define MINE(p)  (awake[p] && row_epoch == my_epoch[p] && SAME_TOKEN(p) && SAME_VERSION(p) && !row_halted)
#define WROTE(p) row_version++; my_version[p] = row_version
#define TAKE_ROW(p) \
	row_epoch++; tokens++; row_token = tokens; row_version++; \
	my_epoch[p] = row_epoch; my_token[p] = row_token; my_version[p] = row_version; barrier[p] = row_token
#else
#define MINE(p)     (mine[p] && !row_halted)
#define WROTE(p)    skip
#define TAKE_ROW(p) mine[0] = 0; mine[1] = 0; mine[p] = 1; barrier[p] = p + 1
#endif
#ifdef OUT_EPOCH_IN_LEADER_TXN
#define TXN_MAY_WRITE(p) 1
#else
#define TXN_MAY_WRITE(p) MINE(p)
#endif
#ifdef OUT_EPOCH_IN_TAKEOVER
#define TAKEOVER_MAY_WRITE(p) 1
#else
#define TAKEOVER_MAY_WRITE(p) MINE(p)
#endif
/* The barrier that a takeover waits for is known by its token. */
#ifdef OUT_BARRIER_TOKEN
#define IS_BARRIER(p, k) (kind[k] == BARRIER && epoch[k] == my_epoch[p] && k >= my_offset[p])
#else
#define IS_BARRIER(p, k) (kind[k] == BARRIER && epoch[k] == my_epoch[p] && token[k] == barrier[p] && k >= my_offset[p])
#endif
#define BARRIER_CAME_BY(p) (IS_BARRIER(p, 0) || IS_BARRIER(p, 1) || IS_BARRIER(p, 2) || IS_BARRIER(p, 3) || \
	IS_BARRIER(p, 4) || IS_BARRIER(p, 5) || IS_BARRIER(p, 6) || IS_BARRIER(p, 7) || \
	IS_BARRIER(p, 8) || IS_BARRIER(p, 9) || IS_BARRIER(p, 10) || IS_BARRIER(p, 11))
#ifdef OUT_BARRIER_TOKEN
#define NOBODYS_BARRIER(k) 0
#else
#define NOBODYS_BARRIER(k) (kind[k] == BARRIER && token[k] != barrier[0] && token[k] != barrier[1])
#endif
#ifdef OUT_BARRIER
#undef BARRIER_CAME_BY
#define BARRIER_CAME_BY(p) 1
#endif
/* What the ledger may hold of the batch in flight. */
#ifdef OUT_SEND_N_IN_LEDGER
#define EXPECTED(p) flight[p]
#else
#define EXPECTED(p) HEAD(flight[p], send_n[p])
#endif
/* Kafka takes requests of the newest producer only; InitProducerId makes one. */
#define HANDLE(p, id) handle[2 * (p) + (id)]
#define GOOD(p)       (HANDLE(p, id[p]) == NEWEST)
#define OPENED(p)     (transaction[id[p]] == OPEN)
#define MAY_BEGIN(p)  (transaction[id[p]] == NONE)
#define OLDER(h)      h = (h == NEWEST -> FENCED : h)
#define FENCE_ALL(id) \
	OLDER(HANDLE(0, id)); OLDER(HANDLE(1, id)); held_handle = (held_handle == NEWEST && held_id == id -> FENCED : held_handle)
/* Who reads committed messages sees nothing behind a transaction that is decided and not complete. */
#define NONE_DECIDED  (transaction[0] != COMMITTING && transaction[1] != COMMITTING)

#define DUE_BY_ANY(j) (state[j] == SCHEDULED && next_at[j] == PASSED && attempt[j] < LAST)
#define DUE(j)        (DUE_BY_ANY(j) && BY_KAFKA(j))
#define OVERDUE(j)    (state[j] == DISPATCHED && next_at[j] == PASSED && !(handed & LATEST(j)))
#if JOBS == 1
#define ANY_DUE      (DUE(0) || OVERDUE(0))
#elif JOBS == 2
#define ANY_DUE      (DUE(0) || OVERDUE(0) || DUE(1) || OVERDUE(1))
#else
#define ANY_DUE      (DUE(0) || OVERDUE(0) || DUE(1) || OVERDUE(1) || DUE(2) || OVERDUE(2))
#endif

/* A job with an attempt in the row's list is neither offered nor called, and its attempt does not time out. */
#if HANDS
#ifdef OUT_HANDS_LOOK_AT_LIST
#define LEFT_ALONE(j) 0
#else
#define LEFT_ALONE(j) (row_list & OF(j))
#endif
#define GOES_BY_HAND(j) (DUE_BY_ANY(j) && by_hand[j] && !LEFT_ALONE(j))
#define IS_LATE(j)      (state[j] == DISPATCHED && next_at[j] == PASSED && (LATEST(j) & handed) && !LEFT_ALONE(j))
#if JOBS == 1
#define SOME_BY_HAND (GOES_BY_HAND(0) || IS_LATE(0))
#else
#define SOME_BY_HAND (GOES_BY_HAND(0) || IS_LATE(0) || GOES_BY_HAND(1) || IS_LATE(1))
#endif
#else
#define SOME_BY_HAND 0
#endif

/* What was handed to Kafka ahead of its claim may still be claimed. */
#define AHEAD_IS_DUE(p, j) ((ahead[p] & OF(j)) == 0 || (DUE(j) && (ahead[p] & BIT(j, attempt[j] + 1))))
#if JOBS == 1
#define SOME_DUE         DUE(0)
#define ALL_AHEAD_DUE(p) AHEAD_IS_DUE(p, 0)
#elif JOBS == 2
#define SOME_DUE         (DUE(0) || DUE(1))
#define ALL_AHEAD_DUE(p) (AHEAD_IS_DUE(p, 0) && AHEAD_IS_DUE(p, 1))
#else
#define SOME_DUE         (DUE(0) || DUE(1) || DUE(2))
#define ALL_AHEAD_DUE(p) (AHEAD_IS_DUE(p, 0) && AHEAD_IS_DUE(p, 1) && AHEAD_IS_DUE(p, 2))
#endif

/* ---- the ledger: what nobody will read again is dropped, so that histories which differ in it only are one ---- */

#define LOWER_TO(bound) n_ = ((bound) < n_ -> (bound) : n_)
#define PASS_BY(offset) offset = (offset > k_ -> offset - 1 : offset)

inline drop_record()    /* number k_ */
{
	i_ = k_;
	do
	:: i_ + 1 < records ->
		kind[i_] = kind[i_ + 1]; epoch[i_] = epoch[i_ + 1]; token[i_] = token[i_ + 1]; list_of[i_] = list_of[i_ + 1]; i_++
	:: else -> break
	od;
	records--;
	kind[records] = 0; epoch[records] = 0; token[records] = 0; list_of[records] = 0;
	PASS_BY(row_offset); PASS_BY(trimmed);
	PASS_BY(my_offset[0]); PASS_BY(my_offset[1]); PASS_BY(sent_end[0]); PASS_BY(sent_end[1]);
#if RESTORE
	PASS_BY(s_offset);
#endif
	i_ = 0
}

inline tidy_ledger()
{
	d_step {
		n_ = row_offset;
		LOWER_TO(SAVED_OFFSET);
		if :: awake[0] -> LOWER_TO(my_offset[0]) :: else fi;
		if :: awake[1] -> LOWER_TO(my_offset[1]) :: else fi;
		k_ = 0;
		do
		:: k_ < records && (k_ < n_ || NOBODYS_BARRIER(k_)) ->
			n_ = (k_ < n_ -> n_ - 1 : n_);
			drop_record()
		:: k_ < records && !(k_ < n_ || NOBODYS_BARRIER(k_)) -> k_++
		:: k_ >= records -> break
		od;
		n_ = 0; k_ = 0
	}
}

#define begin_transaction() transaction[id[p]] = OPEN
#define add_messages(list)  open_messages[id[p]] = open_messages[id[p]] | (list)
#define add_record(what, list) \
	open_kind[id[p]] = what; open_epoch[id[p]] = my_epoch[p]; \
	open_token[id[p]] = (what == BARRIER -> barrier[p] : 0); open_list[id[p]] = list
#define OTHER_ID id[p] = 1 - id[p]

#define release() held = 0; held_handle = 0; held_list = 0; held_id = 0

/*
 * EndTxn arrives: from now on nothing else can come of it. Its record has its place in the ledger since it was produced;
 * that this is the same as the order of decisions, as here, rests on beginning nothing before EndTxn was answered.
 */
inline decide(which)
{
	transaction[which] = COMMITTING;
	if
	:: open_kind[which] != 0 ->
		assert(records < RECORDS);
		kind[records] = open_kind[which]; epoch[records] = open_epoch[which]; token[records] = open_token[which];
		list_of[records] = open_list[which]; records++;
		in_ledger = in_ledger | open_list[which]
	:: else
	fi
}

inline end_open(which)
{
	transaction[which] = NONE; open_messages[which] = 0; open_kind[which] = 0; open_epoch[which] = 0;
	open_token[which] = 0; open_list[which] = 0
}

/* A decided transaction becomes visible as a whole. */
inline complete(which)
{
	assert(!(open_messages[which] & visible));              /* P1: once */
	assert(!(open_messages[which] & undeliverable));        /* P1 */
	assert(!(open_messages[which] & (forbidden | handed))); /* P3: cancelled is never sent; P1: nor what went by hand */
	assert((open_messages[which] & ~claimed) == 0);         /* P1: nothing that MySQL does not know */
	visible = visible | open_messages[which];
	end_open(which);
	assert(DELIVERED == in_ledger)                          /* P6: the ledger is what the topic is */
}

#define hold(what, list) held = what; held_handle = HANDLE(p, id[p]); held_list = list; held_id = id[p]

/* A leadership ends: nothing is kept of it (the hint of a refusal is not of it). */
inline forget()
{
	d_step {
		my_epoch[p] = 0; my_token[p] = 0; my_version[p] = 0; my_offset[p] = 0; mine[p] = 0;
		HANDLE(p, 0) = 0; HANDLE(p, 1) = 0; id[p] = 0;
		flight[p] = 0; send_n[p] = 0; sent[p] = 0; sent_end[p] = 0; ahead[p] = 0; awake[p] = 0;
		barrier[p] = 0
	};
	tidy_ledger()
}

#define CRASH :: atomic { faults > 0 -> faults--; hint[p] = 0; goto lost }

/* Takeover 4: from the row's offset to the barrier. found_: what of the list it has; k_: the offset after the barrier. */
inline read_ledger()
{
#ifdef OUT_BARRIER
	k_ = my_offset[p];
	do
	:: k_ < records -> k_++
	:: break            /* an end of the partition that comes too early */
	od;
#else
	k_ = my_offset[p];
	do
	:: k_ < records && !IS_BARRIER(p, k_) -> k_++
	:: k_ < records && IS_BARRIER(p, k_) -> k_++; break
	:: k_ >= records -> break
	od;
#endif
	skip;
	d_step {
		n_ = 0;
		i_ = my_offset[p];
#ifdef OUT_OFFSET_RANGE
		i_ = (i_ < trimmed -> trimmed : i_);
#else
		problem_ = (i_ < trimmed);
#endif
		do
		:: i_ < k_ ->
			if
			:: kind[i_] == BATCH ->
				n_++;
				found_ = found_ | (list_of[i_] & flight[p]);
				problem_ = problem_ || n_ > 1 || list_of[i_] != EXPECTED(p)
			/* Of a stranger nothing follows. */
#ifdef OUT_PASS_STRANGERS
			:: kind[i_] == STRANGER -> problem_ = 1
#endif
#ifdef OUT_STRANGERS_PROVE_NOTHING
			:: kind[i_] == STRANGER -> found_ = found_ | EXPECTED(p)
#endif
			:: else
			fi;
			i_++
		:: else -> break
		od;
#ifdef OUT_LEDGER
		found_ = 0; problem_ = 0;
#endif
#ifdef OUT_COMPARE_LISTS
		problem_ = 0;
#endif
		i_ = 0; n_ = 0
	}
}

/* A failure of the job's latest attempt follows the retry policy. */
inline fails(j)
{
	if
	:: no_retries[j] -> state[j] = CANCELLED
	:: !no_retries[j] && attempt[j] < LAST -> state[j] = SCHEDULED
	:: !no_retries[j] && (attempt[j] == LAST || POLICY) -> state[j] = DEAD
	fi;
	next_at[j] = PASSED; extended[j] = 0
}

/* What was sent and is settled gets its deadline from now on, where the row still says so, never an earlier one. */
inline renew_deadlines(list)
{
	i_ = 0;
	do
	:: i_ < JOBS ->
		if
		:: state[i_] == DISPATCHED && ((list) & LATEST(i_)) ->
			NOW_LATER(i_);
#ifdef OUT_DEADLINE_NEVER_EARLIER
			next_at[i_] = AHEAD
#else
			next_at[i_] = (next_at[i_] == PASSED -> AHEAD : next_at[i_])
#endif
		:: else
		fi;
		i_++
	:: else -> break
	od;
	i_ = 0
}

/* ==== the shard loop ==== */

proctype Dispatcher(byte p)
{
idle:
	/* Takeover 1, MySQL: epoch + 1, a new token. A lost answer: start over, which is the crash after it. */
	atomic {
		!row_halted && (p == 0 || foreign > 0) ->
		if :: p != 0 -> foreign-- :: else fi;
		TAKE_ROW(p);
		my_offset[p] = row_offset; flight[p] = row_list; send_n[p] = row_send; awake[p] = 1;
		if :: true :: ANY_ID -> id[p] = 1 fi
	}

	/*
	 * Takeover 2, Kafka: InitProducerId ends the transaction of the producer before, and fences it; for both ids, one after
	 * the other (with ANY_ID in either order, and begun with either). Asked for at the same time, as the program does it,
	 * their steps touch nothing of each other's.
	 */
#ifdef OUT_FENCE
	atomic { HANDLE(p, 0) = NEWEST; HANDLE(p, 1) = NEWEST }
#else
fence:
	if
	:: atomic { OPENED(p) -> FENCE_ALL(id[p]); transaction[id[p]] = ABORTING }
	:: !OPENED(p)
	CRASH
	fi;
	if
	:: atomic {
		MAY_BEGIN(p) -> FENCE_ALL(id[p]); HANDLE(p, id[p]) = NEWEST; OTHER_ID;
#ifdef OUT_FENCE_BOTH
		HANDLE(p, id[p]) = NEWEST
#else
		if :: HANDLE(p, id[p]) == 0 -> goto fence :: else fi;
		if :: true :: ANY_ID -> OTHER_ID fi
#endif
	}
	:: atomic { faults > 0 && !held -> faults--; hold(HELD_INIT, 0); held_handle = NEWEST; goto lost }
	CRASH
	fi;
#endif

	/*
	 * Takeover 3: is the row still ours? Ends fights early; nothing rests on it, so that here it may be left out.
	 * Takeover 4, Kafka: a barrier in a transaction of its own …
	 */
#ifndef OUT_BARRIER
	if
	:: atomic { GOOD(p) && MAY_BEGIN(p) -> add_record(BARRIER, 0); decide(id[p]); OTHER_ID }
	:: atomic { !GOOD(p) || !MINE(p) -> goto lost }
	:: atomic {
		faults > 0 && !held && GOOD(p) && MAY_BEGIN(p) -> faults--; hold(HELD_END, 0);
		add_record(BARRIER, 0); decide(id[p]);
#ifdef OUT_TWO_ENDTXN
		OTHER_ID
#else
		goto lost
#endif
	}
	CRASH
	fi;
#endif

	/*
	 * … then the ledger from the row's offset to that barrier, read_committed: what stands there stays as it is, so that
	 * reading it is one step with what follows. Takeover 5, MySQL: what the ledger has is settled; the head that Kafka
	 * refused is halved, or is undeliverable. All else stays in flight and goes first.
	 */
	if
	:: atomic { !TAKEOVER_MAY_WRITE(p) -> goto lost }
	:: atomic {
#ifdef OUT_CHECK_BEFORE_HALT
		(BARRIER_CAME_BY(p) && NONE_DECIDED) || my_offset[p] < trimmed ->
#else
		TAKEOVER_MAY_WRITE(p) && ((BARRIER_CAME_BY(p) && NONE_DECIDED) || my_offset[p] < trimmed) ->
#endif
		read_ledger();
		if
#ifdef OUT_CHECK_BEFORE_HALT
		:: problem_ -> assert(TAKEOVER_MAY_WRITE(p));
#else
		:: problem_ ->
#endif
			assert(went_back);                              /* P8: only then */
			row_halted = 1; problem_ = 0; found_ = 0; k_ = 0; goto lost
		:: !problem_ && !TAKEOVER_MAY_WRITE(p) -> found_ = 0; k_ = 0; goto lost
		:: !problem_ && TAKEOVER_MAY_WRITE(p)
		fi;
#ifdef OUT_KEEP_EDITED
		i_ = 0;
		do
		:: i_ < JOBS ->
			if :: (flight[p] & OF(i_)) && state[i_] != DISPATCHED -> found_ = found_ | (flight[p] & OF(i_)) :: else fi;
			i_++
		:: else -> break
		od;
		i_ = 0;
#endif
		row_offset = k_; k_ = 0;
		d_step { renew_deadlines(found_) };
#ifdef OUT_HINT_AFTER_LEDGER
		n_ = HEAD(flight[p], send_n[p]);
#else
		n_ = (found_ -> 0 : HEAD(flight[p], send_n[p]));
#endif
		flight[p] = flight[p] & ~found_;
		if
#ifdef OUT_HINT_ENTRIES
		:: n_ && hint[p] && COUNT(hint[p]) == COUNT(n_) ->
#else
		:: n_ && hint[p] == n_ ->
#endif
			if
#ifndef OUT_HALVING
			:: COUNT(n_) > 1 -> send_n[p] = COUNT(n_) / 2
			:: COUNT(n_) == 1 ->
#else
			:: true ->
#endif
				assert(!(n_ & DELIVERED));                      /* P1: sent or undeliverable, not both */
				assert((n_ & ~refused_alone) == 0);             /* P7: for its own sake */
				flight[p] = flight[p] & ~n_;
				undeliverable = undeliverable | n_;
				i_ = 0;
				do
				:: i_ < JOBS ->
					if :: (n_ & LATEST(i_)) && state[i_] == DISPATCHED -> fails(i_) :: else fi;
					i_++
				:: else -> break
				od;
				i_ = 0;
				send_n[p] = (flight[p] -> 1 : 0)
			fi
		:: else -> send_n[p] = (found_ -> DOUBLED(found_, flight[p]) : send_n[p])
		fi;
		n_ = 0; found_ = 0;
		row_list = flight[p]; row_send = send_n[p]; my_offset[p] = row_offset;
		WROTE(p);
		barrier[p] = 0;
		tidy_ledger();
		if
		:: hint[p] && faults > 0 -> faults--; goto lost     /* the commit's answer was lost: the hint stays */
		:: true -> hint[p] = 0
		fi;
		if :: flight[p] != 0 -> goto send :: else fi
	}
	CRASH
	fi;

lead:
	if
	/* Looked at with every wake-up: deposed, or MySQL went back. */
	:: atomic { !MINE(p) && TXN_MAY_WRITE(p) == 0 -> goto lost }
	/*
	 * While the leader transaction is under way, what it is about to claim may go to Kafka, with its record, in a
	 * transaction that stays open. (Its rows are locked then. Here they are not, so that more can happen: a claim that
	 * does not find them as they were is rolled back, which ends the leadership.)
	 */
	:: atomic {
		!ahead[p] && TXN_MAY_WRITE(p) && SOME_DUE && (flight[p] & ~sent[p]) == 0 && GOOD(p) && MAY_BEGIN(p) ->
		i_ = 0;
		do
		:: i_ < JOBS ->
			if
			:: DUE(i_) -> n_ = n_ | BIT(i_, attempt[i_] + 1)
			:: true
			fi;
			i_++
		:: else -> break
		od;
		i_ = 0;
		if
		:: n_ != 0 ->
			ahead[p] = n_; n_ = 0;
			begin_transaction();
			if
			:: true
			:: add_messages(ahead[p] & ~POISON);
			:: !(ahead[p] & POISON) -> add_messages(ahead[p]); add_record(BATCH, ahead[p]);
#ifdef OUT_CLAIM_FIRST
				decide(id[p])
#endif
			fi
		:: else
		fi;
		goto lead
	}
	:: atomic { ahead[p] && !ALL_AHEAD_DUE(p) -> goto lost }
	/* The leader transaction: settle what was sent; with nothing left in flight time out and claim. */
#ifdef OUT_SETTLE_AT_REST
	:: atomic { TXN_MAY_WRITE(p) && ANY_DUE && ALL_AHEAD_DUE(p) ->
#else
	:: atomic { TXN_MAY_WRITE(p) && (sent[p] || ANY_DUE) && ALL_AHEAD_DUE(p) ->
#endif
		d_step {
			if
			:: sent[p] ->
				renew_deadlines(sent[p]);
				flight[p] = flight[p] & ~sent[p];
				send_n[p] = DOUBLED(sent[p], flight[p]);
				row_offset = sent_end[p]; my_offset[p] = row_offset; sent[p] = 0; sent_end[p] = 0;
				row_list = flight[p]; row_send = send_n[p];
				WROTE(p)
			:: else
			fi
		};
		tidy_ledger();
		n_ = 0;
		if
#ifdef OUT_CLAIM_AFTER_REST
		:: true ->
#else
		:: flight[p] != 0
		:: flight[p] == 0 ->
#endif
			i_ = 0;
			do
			:: i_ < JOBS ->
				if
#ifdef OUT_DEADLINE_AGAIN
				:: state[i_] == DISPATCHED && (looked[p] & LATEST(i_)) ->
#else
				:: OVERDUE(i_) && MAY_TIME_OUT(i_) ->
#endif
					assert(UNREPORTED(i_) || went_back);                     /* P9 */
					assert((LATEST(i_) & (DELIVERED | undeliverable)) || went_back);     /* P5: it was delivered */
					assert(next_at[i_] == PASSED && !extended[i_]);          /* P5: and its time is over */
					fails(i_)
#ifdef OUT_CLAIM_CONDITION
				:: (looked[p] & (1 << i_)) && !ahead[p] ->
#else
				:: DUE(i_) && (!ahead[p] || (ahead[p] & OF(i_))) ->
#endif
					assert(state[i_] == SCHEDULED && next_at[i_] == PASSED);  /* P4 */
					attempt[i_]++; state[i_] = DISPATCHED; next_at[i_] = AHEAD;
					assert(went_back || !(claimed & LATEST(i_)));
					claimed = claimed | LATEST(i_);
					n_ = n_ | LATEST(i_)
				:: !(ahead[p] & OF(i_))          /* no hint, or its row is locked */
				fi;
				i_++
			:: else -> break
			od;
			i_ = 0
		fi;
		if
		:: n_ != 0 ->
			flight[p] = n_; send_n[p] = COUNT(n_);
			row_list = n_; row_send = send_n[p];
			WROTE(p)
		:: else
		fi;
		n_ = 0;
#ifdef OUT_CLAIM_CONDITION
		looked[p] = 0;
#endif
#ifdef OUT_DEADLINE_AGAIN
		looked[p] = 0;
#endif
		if :: flight[p] == 0 -> goto lead :: else fi
	}
#ifdef OUT_CLAIM_CONDITION
	/* What the index said is believed. */
	:: atomic { !looked[p] && DUE(0) && !sent[p] -> looked[p] = 1; goto lead }
#endif
#ifdef OUT_DEADLINE_AGAIN
	:: atomic { !looked[p] && OVERDUE(0) && !sent[p] -> looked[p] = LATEST(0); goto lead }
#endif
	/* Rest: nothing in flight, nothing due. The producer goes; the shard is taken over again when there is something. */
	:: atomic {
		MINE(p) && flight[p] == 0 && !ahead[p] && !ANY_DUE ->
#if HANDS
		HANDLE(p, 0) = 0; HANDLE(p, 1) = 0; id[p] = 0;   /* what needs no Kafka continues */
#else
		forget();
#endif
		goto rest
	}
	CRASH
	fi;

send:
	/* Kafka: the first send_n messages of the list, unless they went ahead (then only what is still on its way) … */
	if
	:: atomic {
		ahead[p] && GOOD(p) && OPENED(p) && !(ahead[p] & POISON) ->
		assert(ahead[p] == HEAD(flight[p], send_n[p]));
		add_messages(ahead[p]); ahead[p] = 0
	}
	:: atomic { ahead[p] && GOOD(p) && OPENED(p) && (ahead[p] & POISON) -> goto refused }
	:: atomic { TRANSIENT && faults > 0 && ahead[p] && GOOD(p) && OPENED(p) -> faults--; goto refused }
	:: atomic {
		faults > 0 && !held && ahead[p] && GOOD(p) && OPENED(p) -> faults--;
		hold(HELD_MESSAGES, ahead[p] & ~POISON); goto lost
	}
	:: atomic { ahead[p] && !OPENED(p) -> goto lost }
	:: atomic {
		!ahead[p] && GOOD(p) && MAY_BEGIN(p) && !(HEAD(flight[p], send_n[p]) & POISON) ->
		begin_transaction(); add_messages(HEAD(flight[p], send_n[p]))
	}
	:: atomic { !GOOD(p) || (OPENED(p) && !ahead[p]) -> goto lost }
	/* … one of which Kafka refuses for good: remembered as a hint, some of the others may be in the open transaction … */
	:: atomic {
		!ahead[p] && GOOD(p) && MAY_BEGIN(p) && (HEAD(flight[p], send_n[p]) & POISON) -> begin_transaction();
refused:	hint[p] = HEAD(flight[p], send_n[p]); ahead[p] = 0;
		if :: COUNT(hint[p]) == 1 -> refused_alone = refused_alone | hint[p] :: else fi;
		if :: add_messages(hint[p] & ~POISON) :: true fi;
#ifdef OUT_REFUSAL
		hint[p] = 0;                             /* dropped, and on with the others */
		skip
#else
		goto lost
#endif
	}
	:: atomic {
		TRANSIENT && faults > 0 && !ahead[p] && GOOD(p) && MAY_BEGIN(p) -> faults--; begin_transaction();
		goto refused
	}
	/* … or which are on their way for longer than the process waits. */
	:: atomic {
		faults > 0 && !held && !ahead[p] && GOOD(p) && MAY_BEGIN(p) -> faults--; begin_transaction();
		hold(HELD_MESSAGES, HEAD(flight[p], send_n[p]) & ~POISON);
#ifndef OUT_DELIVERY_REPORTS
		goto lost
#endif
	}
	CRASH
	fi;

	/* … their record in the ledger … */
	if
	:: atomic { GOOD(p) && OPENED(p) -> add_record(BATCH, HEAD(flight[p], send_n[p])) }
	:: atomic { !GOOD(p) || !OPENED(p) -> goto lost }
	:: atomic {
		faults > 0 && !held && GOOD(p) && OPENED(p) -> faults--;
		hold(HELD_RECORD, HEAD(flight[p], send_n[p])); goto lost
	}
	CRASH
	fi;

	/* … EndTxn: clean, or in doubt. */
	if
	:: atomic {
		GOOD(p) && OPENED(p) -> decide(id[p]); OTHER_ID; sent[p] = HEAD(flight[p], send_n[p]); sent_end[p] = records; goto lead
	}
	:: atomic { !GOOD(p) || !OPENED(p) -> goto lost }
	/* done, its answer lost */
	:: atomic {
		faults > 0 && GOOD(p) && OPENED(p) -> faults--; decide(id[p]);
#ifdef OUT_DOUBT_IS_FAILURE
		OTHER_ID; goto send
#else
		goto lost
#endif
	}
	/* held; who knows what became of it? */
	:: atomic {
		faults > 0 && !held && GOOD(p) && OPENED(p) -> faults--; hold(HELD_END, 0);
#ifdef OUT_DOUBT_IS_SUCCESS
		OTHER_ID; sent[p] = HEAD(flight[p], send_n[p]); sent_end[p] = records; goto lead
#else
		goto lost
#endif
	}
	/* held, sent again by the client library, answered: the first one is still on its way */
	:: atomic {
		faults > 0 && !held && GOOD(p) && OPENED(p) -> faults--; hold(HELD_END, 0); decide(id[p]);
#ifdef OUT_TWO_ENDTXN
		OTHER_ID; sent[p] = HEAD(flight[p], send_n[p]); sent_end[p] = records; goto lead
#else
		goto lost
#endif
	}
	CRASH
	fi;

	atomic {
		false ->
lost:	/* crashed, deposed, fenced or in doubt: nothing is kept. (The same step still: from atomic into atomic.) */
		if
		:: GOOD(p) && OPENED(p) -> transaction[id[p]] = ABORTING        /* what is given up may be aborted at once */
		:: true
		fi;
		forget();
		goto idle
	}

rest:
	atomic { ANY_DUE || row_list != 0 || (p == 0 && !MINE(p) && SOME_BY_HAND) -> forget(); goto idle }
}

#if HANDS
/*
 * A leader transaction that needs no Kafka, at any moment after a takeover has written its epoch, and in any order with
 * the sender's steps: fencing, the ledger, a commit that hangs. It changes neither the row's list nor a job with an
 * attempt in the list, even if the job's topic has another delivery now.
 */
#ifdef OUT_EPOCH_IN_HANDS
#define HANDS_MAY_WRITE(p) awake[p]
#else
#define HANDS_MAY_WRITE(p) MINE(p)
#endif

inline claim_by_hand(j)
{
	assert(MINE(p));                                         /* P4: only who leads claims */
	attempt[j]++; state[j] = DISPATCHED; next_at[j] = AHEAD;
	assert(went_back || !((claimed | visible) & LATEST(j)));         /* P1: once */
	claimed = claimed | LATEST(j); handed = handed | LATEST(j);
	assert(!(handed & forbidden));                           /* P3 */
	WROTE(p)
}

inline time_out_by_hand(j)
{
	assert(!extended[j] && !(row_list & LATEST(j)));         /* P5 */
	fails(j);
	WROTE(p)
}

proctype Hands(byte p)
{
	do
	:: atomic { HANDS_MAY_WRITE(p) && GOES_BY_HAND(0) -> claim_by_hand(0) }
	:: atomic { HANDS_MAY_WRITE(p) && IS_LATE(0) -> time_out_by_hand(0) }
#if JOBS > 1
	:: atomic { HANDS_MAY_WRITE(p) && GOES_BY_HAND(1) -> claim_by_hand(1) }
	:: atomic { HANDS_MAY_WRITE(p) && IS_LATE(1) -> time_out_by_hand(1) }
#endif
	od
}
#endif

/* ==== Kafka ==== */

proctype Broker()
{
	do
	:: atomic { transaction[0] == COMMITTING -> complete(0) }
	:: atomic { transaction[1] == COMMITTING -> complete(1) }
	:: atomic { transaction[0] == ABORTING -> end_open(0) }
	:: atomic { transaction[1] == ABORTING -> end_open(1) }

	/* What the network held back. */
	:: atomic { held == HELD_END && held_handle == NEWEST && transaction[held_id] == OPEN -> decide(held_id); release() }
	:: atomic {
		held == HELD_MESSAGES && held_handle == NEWEST && transaction[held_id] == OPEN ->
		open_messages[held_id] = open_messages[held_id] | held_list; release()
	}
	:: atomic {
		held == HELD_RECORD && held_handle == NEWEST && transaction[held_id] == OPEN ->
		open_kind[held_id] = BATCH; open_list[held_id] = held_list; release()
	}
	:: atomic {
		held == HELD_INIT && (transaction[held_id] == OPEN || transaction[held_id] == NONE) ->
		FENCE_ALL(held_id); transaction[held_id] = (transaction[held_id] == OPEN -> ABORTING : NONE); release()
	}
	:: atomic { held && held != HELD_INIT && held_handle == FENCED -> release() }

	/* The transaction's timeout: the coordinator fences its producer. */
	:: atomic { faults > 0 && transaction[0] == OPEN -> faults--; FENCE_ALL(0); transaction[0] = ABORTING }
	:: atomic { faults > 0 && transaction[1] == OPEN -> faults--; FENCE_ALL(1); transaction[1] = ABORTING }

#if RESTORE
	/* The leader deletes what is far enough below its offset. */
	:: atomic {
		saved && trimmed < row_offset ->
		trimmed = row_offset; i_ = 0;
		do :: i_ < trimmed -> kind[i_] = 0; epoch[i_] = 0; token[i_] = 0; list_of[i_] = 0; i_++ :: else -> break od;
		i_ = 0
	}
#endif

#if STRANGERS
	/* Whoever may write there: not in a transaction, at any moment. */
	:: atomic {
		strangers > 0 -> strangers--;
		assert(records < RECORDS);
		kind[records] = STRANGER; records++;
		tidy_ledger()
	}
#endif

	/* No further trouble: what is left must come right by itself. */
	:: atomic {
		faults || foreign || events || strangers || deliveries ->
		faults = 0; foreign = 0; events = 0; strangers = 0; deliveries = 0
	}

	/* Nothing more can happen. P2: nothing was lost; P7: too_late was kept; all work is done. */
	:: timeout ->
		if
		:: !row_halted && transaction[0] == OPEN -> atomic { FENCE_ALL(0); transaction[0] = ABORTING }
		:: !row_halted && transaction[1] == OPEN -> atomic { FENCE_ALL(1); transaction[1] = ABORTING }
		:: else ->
			atomic {
				if
				:: row_halted -> assert(went_back)
				:: else ->
					assert(row_list == 0);
					i_ = 0;
					do
					:: i_ < JOBS -> assert(!DUE_BY_ANY(i_)); i_++
					:: else -> break
					od;
					assert(went_back || (claimed & ~(visible | undeliverable | handed)) == 0);
					assert(went_back || (too_late & ~(visible | undeliverable | handed)) == 0);
					assert(visible == in_ledger)
				fi
			}
			break
		fi
	od
}

/* ==== callers, consumers, time, operators ==== */

#define IN_FLIGHT(j) (row_list & OF(j))

/* cancelled: never again. In flight after a hand edit or a forged result, or dispatched: too late. */
inline cancel(j)
{
	if
#ifdef OUT_CANCEL_LOOKS_AT_LIST
	:: state[j] == SCHEDULED ->
#else
	:: state[j] == SCHEDULED && IN_FLIGHT(j) -> too_late = too_late | LATEST(j)
	:: state[j] == SCHEDULED && !IN_FLIGHT(j) ->
#endif
		state[j] = CANCELLED; forbidden = forbidden | (OF(j) & ~(DELIVERED | undeliverable))
	/* cancelled before, perhaps by hand: the answer is the same, unless an attempt of it is on its way */
#ifdef OUT_CANCELLED_LOOKS_AT_LIST
	:: state[j] == CANCELLED ->
#else
	:: state[j] == CANCELLED && IN_FLIGHT(j) -> too_late = too_late | LATEST(j)
	:: state[j] == CANCELLED && !IN_FLIGHT(j) ->
#endif
		forbidden = forbidden | (OF(j) & ~(DELIVERED | undeliverable))
	:: state[j] == DISPATCHED -> too_late = too_late | LATEST(j)
	:: state[j] == DISPATCHED && POLICY -> no_retries[j] = 1; forbidden = forbidden | AFTER(j, attempt[j])
	fi
}

inline events_of(j)
{
	/* A consumer reports what it has got: one statement on (job, attempt), settled or not. */
	if
	:: state[j] == DISPATCHED && (LATEST(j) & (visible | handed)) ->
		state[j] = SUCCEEDED; extended[j] = 0;
		/* after a restore an earlier attempt may come all the same: its claim may have gone with what MySQL lost */
		forbidden = forbidden | (went_back -> 0 : OF(j) & claimed & ~(LATEST(j) | DELIVERED | undeliverable | handed))
	:: state[j] == DISPATCHED && (LATEST(j) & (visible | handed)) -> fails(j)
#if HANDS
	:: deliveries > 0 -> deliveries--; by_hand[j] = 1 - by_hand[j]
#endif
#if POLICY
#ifndef OUT_RESULT_CONDITION
	:: state[j] == SCHEDULED && (LATEST(j) & visible) ->     /* late, while its retry waits */
		state[j] = SUCCEEDED; forbidden = forbidden | AFTER(j, attempt[j])
#endif
	:: events > 0 && state[j] == DISPATCHED && (LATEST(j) & visible) && !extended[j] ->
		events--; extended[j] = 1; next_at[j] = FAR; NOW_LATER(j)
	:: extended[j] && next_at[j] == FAR -> extended[j] = 0; next_at[j] = PASSED
	:: extended[j] && next_at[j] != FAR -> extended[j] = 0
	:: events > 0 && state[j] == SCHEDULED && next_at[j] == PASSED -> events--; next_at[j] = AHEAD      /* change */
	:: state[j] == SCHEDULED && next_at[j] != PASSED -> next_at[j] = PASSED
	:: events > 0 && state[j] == DEAD && attempt[j] < LAST -> events--; state[j] = SCHEDULED; next_at[j] = PASSED /* redrive */
#endif
	:: events > 0 && (state[j] == SCHEDULED || state[j] == DISPATCHED || (EDITS && state[j] == CANCELLED)) -> events--; cancel(j)
	:: events > 0 && state[j] == DISPATCHED && next_at[j] == AHEAD -> events--; next_at[j] = PASSED
#ifdef OUT_TIMEOUT_IN_FLIGHT
	/* a scan that does not know what is in flight */
	:: OVERDUE(j) ->
		assert(LATEST(j) & (DELIVERED | undeliverable));      /* P5 */
		fails(j)
#endif
#if EDITS
	/* Forged results and legal SQL. What is in flight is sent nevertheless; what was promised of later attempts ends. */
	:: events > 0 && state[j] == DISPATCHED -> events--; forbidden = forbidden & ~OF(j); extended[j] = 0; next_at[j] = PASSED;
		if
		:: state[j] = SUCCEEDED
		:: state[j] = DEAD
		:: state[j] = CANCELLED
		:: state[j] = SCHEDULED
		fi
	:: events > 0 && state[j] == SCHEDULED -> events--; state[j] = CANCELLED
	:: events > 0 && (state[j] == DEAD || state[j] == CANCELLED) ->
		events--; state[j] = SCHEDULED; next_at[j] = PASSED; no_retries[j] = 0; forbidden = forbidden & ~OF(j)
#endif
	fi
}

#if REPORTS
#if JOBS == 1
#define ALL_OVER (OVERDUE(0) -> LATEST(0) : 0)
#else
#define ALL_OVER ((OVERDUE(0) -> LATEST(0) : 0) | (OVERDUE(1) -> LATEST(1) : 0))
#endif
/* A report comes into the topic while there is time; it is read whenever the reader gets to it. */
inline reports_of(j)
{
	if
	:: state[j] == DISPATCHED && (LATEST(j) & visible) && next_at[j] != PASSED && UNREPORTED(j) -> lying = lying | LATEST(j)
	:: (lying & LATEST(j)) && state[j] == DISPATCHED -> lying = lying & ~OF(j); state[j] = SUCCEEDED; extended[j] = 0
	:: (lying & LATEST(j)) && state[j] == DISPATCHED -> lying = lying & ~OF(j); fails(j)
	:: (lying & OF(j)) && !((lying & LATEST(j)) && state[j] == DISPATCHED) -> lying = lying & ~OF(j)
	fi
}
#endif

#ifdef OUT_RESULT_CONDITION
byte late;              /* a success was read for this job's attempt, and will be written without looking again */
#endif

proctype Outside()
{
	do
	:: atomic { events_of(0) }
#if REPORTS
	:: atomic { reports_of(0) }
#if JOBS > 1
	:: atomic { reports_of(1) }
#endif
	/* The watch: where does the topic end, by now? Has everything been applied that lay there then? */
	:: atomic { !mark_over && (ALL_OVER & ~read_up) -> mark_over = ALL_OVER; mark_lying = lying }
#ifdef OUT_MARK
	/* … of the deadlines that have passed when it is answered, not when it was asked */
	:: atomic { mark_over && !(mark_lying & lying) -> read_up = read_up | ALL_OVER; mark_over = 0; mark_lying = 0 }
#else
	:: atomic { mark_over && !(mark_lying & lying) -> read_up = read_up | mark_over; mark_over = 0; mark_lying = 0 }
#endif
	:: atomic { !mark_over && mark_lying -> mark_lying = 0 }
#endif
#if JOBS > 1
	:: atomic { events_of(1) }
#endif
#if JOBS > 2
	:: atomic { events_of(2) }
#endif
#ifdef OUT_RESULT_CONDITION
	:: atomic { !late && state[0] == SCHEDULED && (LATEST(0) & visible) -> late = attempt[0] }
	:: atomic { late > 0 && late < 9 -> state[0] = SUCCEEDED; forbidden = forbidden | (AFTER(0, late) & ~visible); late = 9 }
#endif
	od
}

#if RESTORE
/* A copy of all of MySQL is made at some moment, and put back at some later one. */
proctype Backup()
{
	atomic {
		records > 0 || row_epoch > 0 ->
		saved = 1; s_epoch = row_epoch; s_token = row_token; s_version = row_version; s_offset = row_offset;
		s_list = row_list; s_send = row_send; i_ = 0;
		do
		:: i_ < JOBS -> s_state[i_] = state[i_]; s_attempt[i_] = attempt[i_]; s_next_at[i_] = next_at[i_]; i_++
		:: else -> break
		od;
		i_ = 0
	}
	atomic {
		!row_halted ->
		row_epoch = s_epoch; row_token = s_token; row_version = s_version; row_offset = s_offset;
		row_list = s_list; row_send = s_send; i_ = 0;
		do
		:: i_ < JOBS ->
			state[i_] = s_state[i_]; attempt[i_] = s_attempt[i_]; next_at[i_] = s_next_at[i_]; extended[i_] = 0; i_++
		:: else -> break
		od;
		i_ = 0;
		forbidden = 0; too_late = 0;             /* what was answered meanwhile, nobody can know */
		went_back = 1;
		s_epoch = 0; s_token = 0; s_version = 0; s_offset = 0; s_list = 0; s_send = 0
	}
}
#endif

init {
	atomic {
		run Dispatcher(0); run Dispatcher(1); run Broker(); run Outside();
#if HANDS
		run Hands(0); run Hands(1);
#endif
#if RESTORE
		run Backup()
#endif
	}
}
