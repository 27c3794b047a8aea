/*
 * The other ways in: rows of job_inbox that applications write in transactions of their own, messages to the commands
 * topic, operations on sets of jobs. What is asked is remembered here, and judged by what stands in MySQL in the end.
 *
 *   stories.c   jobs that are made and changed by rows, or by messages: each has one effect, in its order
 *   sets.c      jobs that operations change: each once
 *   intake.c    which worlds have what
 */
#pragma once

#include "simulator/deliveries/workload_parts.h"
#include "simulator/sql/sql.h"

void intake_forget(void); /* a world begins */
/* Draws what there is, and begins to ask. */
void intake_begin(const struct dt_config *config);
bool intake_done(void); /* nothing more will be asked */
/* Is there still something to do? A reason; NULL: nothing is. */
const char *intake_unrest(void);
void intake_judge(void);
void intake_committed(void);              /* a transaction was */
bool intake_knows(const struct row *job); /* it is one of those that are asked for here */

/* Which dispatchers have something to do for. */
bool intake_is_used(void);      /* rows of the inbox, or operations */
bool intake_has_commands(void); /* messages */
bool intake_takes_ids(void);    /* somebody takes ids a thousand at once */

/* ---- for the servers ---- */
bool intake_rows_open(void); /* committed, to be carried out */
/* Dispatchers may not call dt_wait: each looks by itself. */
bool intake_without_watch(void);
bool intake_operation_due(void);
/* A message that was refused has arrived where such messages go; why, in JSON. */
void intake_rejected(struct dt_str value, struct dt_str problem);

/* ---- for the files of this folder ---- */
extern struct proc *intake_proc; /* applications, and people: nobody kills it */
extern const struct dt_config *intake_config;
const struct row *intake_find_job(unsigned topic, const char *key, unsigned *n); /* n: so many there are */

void stories_forget(void);
void stories_begin(bool rows, bool messages);
bool stories_done(void);
const char *stories_unrest(void);
void stories_judge(void);

void sets_forget(void);
void sets_begin(void);
bool sets_done(void);
const char *sets_unrest(void);
void sets_judge(void);
void sets_committed(void);
