/* What the outside does: clients of the API, consumers, people with SQL. Keeps the journal of what was asked and
 * answered, which is all that the oracles believe besides what stands in MySQL, Kafka and Redis. */
#pragma once

#include "base/config.h"
#include "job/job_state.h"
#include "job/shard.h"
#include "simulator/broker.h"

#define JOBS_MAX    64
#define ANSWERS_MAX 2048
#define TOPICS      3

enum ask {
    ASK_CREATE,
    ASK_CANCEL,
    ASK_CANCEL_RETRIES,
    ASK_PATCH,
    ASK_RUN_NOW,
    ASK_REDRIVE,
    ASK_REPORT,
    ASK_PAUSE,
    ASK_RESUME,
    ASK_TOPIC,
    ASK_EDIT
};

struct answer {
    enum ask ask;
    unsigned job;                  /* place in the journal; topic of ASK_PAUSE, ASK_RESUME and ASK_TOPIC */
    int64_t asked_us, answered_us; /* answered 0: never */
    int status;                    /* dt_status */
    int64_t attempt;               /* of the job as it was answered; of the report */
    enum dt_job_state state;
    int64_t next_at_ms, run_at_ms;
    enum dt_result_status result; /* ASK_REPORT */
    enum dt_outcome outcome;
    bool revives;  /* ASK_EDIT: makes a job scheduled again */
    bool by_kafka; /* ASK_REPORT: it lay in the topic at asked_us, and nobody answers it */
};

struct journal_job {
    int64_t id;        /* 0: nobody knows of it */
    bool accepted;     /* answered 2xx */
    int64_t run_at_ms; /* as asked and answered */
    unsigned topic;
    bool keyed;
    char key[16];
    bool edited, revived; /* by hand; or redriven */
    bool poisoned;
};

/* Settings of a topic, as they were asked for. */
struct topic_setting {
    enum way way;
    int64_t max_in_flight; /* 0 = none */
    const char *rate;      /* NULL = none */
    int64_t timeout_ms;    /* of callbacks */
};

/* A schedule with a fixed step. */
struct journal_schedule {
    char name[16];
    int64_t step_ms, starts_ms, ends_ms;
};
#define SCHEDULES_MAX 2

struct journal {
    struct journal_schedule schedules[SCHEDULES_MAX];
    unsigned n_schedules;
    struct journal_job jobs[JOBS_MAX];
    unsigned n_jobs;
    struct answer answers[ANSWERS_MAX];
    unsigned n_answers;
    struct dt_shard_map map;
    struct topic_setting topics[TOPICS]; /* the latest */
    unsigned ways[TOPICS];               /* bits: by which its jobs may have gone */
    bool limited[TOPICS];                /* it has, or had, a limit */
    bool rated[TOPICS];                  /* the same rate all the time */
    bool hot;                            /* topic 0 has far more due at one instant than a batch */
    int64_t batch;                       /* dispatch.batch_jobs */
};
extern struct journal *journal;

void workload_begin(const struct dt_config *config, unsigned shards);
void workload_api_died(struct proc *proc);
/* Somebody asks for another number of shards. */
void workload_reshard(unsigned shards);
bool workload_map_rests(void); /* nobody sends what the latest map gives to another shard */
/* From now on consumers report success, and topics are resumed. */
void workload_heal(void);
bool workload_done(void); /* nothing more will be asked */
struct dt_str workload_topic(unsigned i);
uint64_t workload_messages(void);
/* A receiver reports on an attempt, in a while. */
void workload_report(int64_t job, int64_t attempt, enum dt_result_status result, int64_t in_us);
/* Somebody changes the delivery of a topic, or its limits. */
void workload_change_topic(bool limits);
/* Jobs of this topic go by Kafka only, and nothing limits them. */
bool workload_plain(unsigned topic);
