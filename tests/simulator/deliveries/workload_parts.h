/*
 * The inside of the workload, shared by its files and nobody else.
 *
 *   workload.c             what is asked, and when; the API; people with SQL
 *   workload_consumers.c   who gets attempts by Kafka and by pops, and what is reported
 *   workload_topics.c      settings of topics, and their changes
 *   workload_schedules.c   schedules, whose fires the dispatchers make
 */
#pragma once

#include "dispatch/pop.h"
#include "index/index.h"
#include "simulator/workload.h"

struct op {
    enum ask ask;
    unsigned job;
    int64_t when_us;
    bool taken, done;
    /* of a report */
    int64_t attempt, retry_after_ms;
    enum dt_result_status result;
    int64_t delay_ms;             /* of a change: to run_at */
    bool payload;                 /* of a change: of the payload, too */
    struct topic_setting setting; /* of ASK_TOPIC */
};

struct worker {
    dt_store *store;
    dt_index *index;
    struct dt_arena arena;
    struct dt_error err;
    int64_t maker;
};

/* Connects it: what a thread of the API has. */
void workload_connect(struct worker *w);
/* Whatever is planned more than there is room for is forgotten. */
struct op *workload_plan(enum ask ask, unsigned job, int64_t when_us);
/* The journal: asked now; answered now. job may be NULL. */
struct answer *workload_ask(enum ask what, unsigned job);
void workload_answered(struct answer *a, dt_status status, const struct dt_job *job);
void workload_tell_index(struct worker *w, int64_t id, int64_t next_at_ms, int64_t was_ms);
bool workload_healed(void);

/* ---- workload_topics.c ---- */
void workload_make_topics(void);
void workload_put_topic(struct worker *w, struct op *op);

/* ---- workload_schedules.c ---- */
void workload_make_schedules(void);

/* ---- workload_consumers.c ---- */
void workload_consumers_begin(void);
void *workload_consume_by_kafka(void *arg); /* a fiber */
void *workload_consume_by_pop(void *arg);   /* a fiber of the API */
bool workload_anything_pops(void);
