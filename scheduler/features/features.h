/* The features whose chores run in APIs and in dispatchers; features.c has the table. If only one of the two programs
 * runs a chore, that program starts it. */
#pragma once

#include "base/chores.h"
#include "base/config.h"

struct dt_outbox_kafka; /* the functions of a program that writes to Kafka; defined in features/outbox/outbox.h */

/* What the features need from the process. Must outlive the features. */
struct dt_features_env {
    dt_chores *chores;
    const struct dt_config *config;
    const dt_clock *clock;
    dt_refclock *ref;
    const char *installation;            /* name of the installation; not used without Kafka */
    const struct dt_outbox_kafka *kafka; /* NULL: this process does not write to Kafka */
    int64_t process;                     /* processes.id of this process; the row shows that the process is live, and
                                          * whether it is a dispatcher */
};

typedef struct dt_features dt_features;

/* Starts all features. If one cannot be started, starts none. */
dt_status dt_features_start(const struct dt_features_env *env, dt_features **out, struct dt_error *err);
/* Must be called when the process is about to end, so that another process takes over the chores that only one process
 * at a time runs. Accepts NULL. */
void dt_features_leave(dt_features *features);
/* Stops all features. Accepts NULL. */
void dt_features_stop(dt_features *features);
