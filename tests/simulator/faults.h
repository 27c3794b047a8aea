/* What goes wrong. The kinds are the rows of the fault catalogue; a seed draws a few of them, or is told which one.
 * Fakes ask `fault` where something of a kind could hit; the nemesis (nemesis.c) strikes at random times with the rest.
 * After faults_heal nothing is injected any more. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* clang-format off */
#define FAULT_MAP(X)                                                                                                   \
    X(API_BEFORE_COMMIT, 1, "API killed before COMMIT")                                                                \
    X(API_AFTER_COMMIT, 2, "API killed after COMMIT, before the answer")                                               \
    X(COMMIT_CUT, 3, "COMMIT's reply cut")                                                                             \
    X(INDEX_WRITE, 4, "index write fails after COMMIT")                                                                \
    X(AFTER_CLAIM, 5, "dispatcher killed around the claim's COMMIT")                                                   \
    X(PRODUCING, 6, "dispatcher killed while producing")                                                               \
    X(AFTER_ENDTXN, 7, "dispatcher killed after EndTxn was sent")                                                      \
    X(AFTER_SEND, 8, "dispatcher killed after the commit, before settling")                                            \
    X(IN_TAKEOVER, 9, "dispatcher killed inside takeover; barrier not seen")                                           \
    X(PAUSE, 10, "leader stopped past its session, then continued")                                                    \
    X(PAUSE_IN_TXN, 11, "leader stopped past the transaction timeout")                                                 \
    X(TWO_LEADERS, 12, "two leaders at once")                                                                          \
    X(ENDTXN_CUT, 13, "EndTxn's reply cut")                                                                            \
    X(ENDTXN_HELD, 14, "EndTxn held, delivered in the next transaction")                                               \
    X(PRODUCE_HELD, 15, "Produce or AddPartitions held")                                                               \
    X(BROKER, 16, "broker killed, restarted")                                                                          \
    X(COORDINATOR, 17, "coordinator unreachable")                                                                      \
    X(REFUSED, 18, "messages refused for good")                                                                        \
    X(RESTORE, 19, "ledger trimmed; MySQL restored from an earlier copy")                                              \
    X(REDIS_FLUSH, 20, "Redis emptied")                                                                                \
    X(REDIS_OLD, 21, "an old copy of Redis comes back")                                                                \
    X(REDIS_STOP, 22, "Redis stopped, late commands")                                                                  \
    X(REDIS_FULL, 23, "Redis refuses writes")                                                                          \
    X(MYSQL_RESTART, 24, "MySQL killed, restarted")                                                                    \
    X(MYSQL_STOP, 25, "MySQL stopped in COMMIT; a dispatcher stopped inside its transaction")                          \
    X(LOCKS, 26, "deadlock, lock timeout: a second client holds rows")                                                 \
    X(CUT, 31, "one-way cut")                                                                                          \
    X(CLOCK, 32, "clocks of hosts an hour off")                                                                        \
    X(STORM, 33, "cancels and changes at the due instant")                                                             \
    X(RESULTS, 34, "duplicate, late, forged results")                                                                  \
    X(EARLY_RESULT, 35, "result before settling")                                                                      \
    X(RECONCILER, 36, "a dispatcher killed anywhere")                                                                  \
    X(RESHARD, 39, "the number of shards changes")                                                                     \
    X(STRANGERS, 41, "others write into the ledger")                                                                   \
    X(READERS, 42, "results are read late")                                                                            \
    X(LEDGER_ANEW, 43, "a ledger made anew, which others fill and a late request trims")                               \
    X(CALLING, 44, "dispatcher killed with callbacks in flight")                                                       \
    X(LEASE, 45, "dispatcher stopped past the lease of its callbacks")                                                 \
    X(RECEIVER, 46, "receivers dead, slow or busy")                                                                    \
    X(POPS, 47, "API killed or stopped with pops in flight")                                                           \
    X(DELIVERY, 48, "the delivery of topics changes")                                                                  \
    X(LIMITS, 49, "the limits of topics change")                                                                       \
    X(INBOX, 54, "dispatcher killed with rows of the inbox")                                                           \
    X(OPERATION, 55, "dispatcher killed in the middle of an operation")                                                \
    X(COMMANDS, 57, "dispatcher killed between the effects of messages and Kafka's offset")
/* clang-format on */

enum fault_kind {
#define X(name, row, text) F_##name = row,
    FAULT_MAP(X)
#undef X
        FAULT_KINDS = 58
};

extern uint64_t fault_counts[FAULT_KINDS]; /* injections, over all seeds */

void faults_begin(const int *kinds, unsigned n); /* n = 0: draws some */
/* Nothing goes wrong in this world but what callers do: it must be on time, too. */
bool faults_calm(void);
void faults_heal(void);
bool faults_on(void);
bool fault_drawn(enum fault_kind kind);
/* Does it hit here and now? One in n of the places, as long as the seed's budget lasts. Counted and told. */
bool fault(enum fault_kind kind, unsigned one_in_n);
void fault_count(enum fault_kind kind); /* for what the workload does */
const char *fault_text(int kind);

/* A request on its way to a server: takes its time, in which others run; the process may be stopped or die here. */
void op(const char *what);
