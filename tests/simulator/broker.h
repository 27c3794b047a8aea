/* The broker behind dispatcher/deliver/kafka/kafka.h in the simulator: what the nemesis, consumers and oracles do with it. */
#pragma once

#include "base/text/strbuf.h"
#include "simulator/world.h"

extern int64_t ledger_age; /* offsets that each ledger has used up before the story begins */

void broker_begin(unsigned shards);
void broker_down(int64_t until_us);             /* nobody reaches it */
void broker_results_late(int64_t until_us);     /* whoever reads results gets none */
void broker_coordinator_down(int64_t until_us); /* transactions cannot begin or end */
void broker_cut_replies(struct proc *proc, int64_t until_us);
void broker_topic_missing(struct dt_str topic, int64_t until_us); /* it cannot be written */
void broker_trim_ledger(unsigned shard);                          /* its records below some offset are gone */
void broker_recreate_ledger(unsigned shard, bool filled);         /* filled: by others, about as far as it was */
void broker_recreate_ledger_up_to(unsigned shard, int64_t end);   /* … by others, up to there */
bool broker_filled_ledger(void);                                  /* that has happened */
void broker_strangers(unsigned shard, unsigned n);                /* so many records of others are in its ledger */
bool broker_lost_young_ledger(void);                              /* it was made anew, and its offsets were small */
void broker_poison(int64_t job_id, int64_t until_us);             /* this job's messages are refused */

/* The ways by which an attempt may reach somebody. */
enum way { BY_KAFKA, BY_CALLBACK, BY_POP };

/* A record of a job's topic or of the ledger, as a read_committed reader gets it; or what came another way (arrivals.h):
 * produced and committed are then when it was put on the wire, or handed out. */
struct broker_record {
    enum way way;
    struct dt_str topic, key, value;
    int64_t job, attempt, due_ms; /* of a message to a consumer */
    int64_t deadline_ms;          /* of a pop */
    bool succeeded;               /* a callback that was answered so, and the client heard of it */
    int64_t offset, produced_us, committed_us;
    unsigned shard; /* whose transaction it was in */
};
/* The committed records of all topics of jobs from the n-th on, in the order of their commits: NULL at the end. */
const struct broker_record *broker_message(size_t n);
size_t broker_messages(void);
int64_t broker_time_of(struct dt_str text); /* RFC 3339, in ms */
/* Committed records of a shard's ledger, whatever was trimmed: NULL at the end. */
const struct broker_record *broker_ledger(unsigned shard, size_t n);
/* The running fiber is woken when there is a new one. */
void broker_subscribe(void);
/* Was this attempt refused, alone in its batch? */
bool broker_refused_alone(int64_t job, int64_t attempt);
bool broker_letter_sent(int64_t job, int64_t attempt);
/* A consumer reports. */
void broker_report(struct dt_str key, struct dt_str value);
/* Somebody says a message to the commands topic, which has two partitions; how many lie in one. */
void broker_command(unsigned partition, struct dt_str key, struct dt_str value);
int64_t broker_commands(unsigned partition);
void broker_report_nonsense(void);    /* what no reader of results understands */
bool broker_nonsense_put_aside(void); /* all of it was offered to the topic for that, which may have refused it */
bool broker_results_read(void);       /* all reports were applied, and their offsets committed */
