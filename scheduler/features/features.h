/*
 * The features that have chores of their own, in APIs and dispatchers alike: features.c has the table. Chores that only
 * one program runs are started by that program.
 */
#pragma once

#include "base/chores.h"
#include "base/config.h"

struct dt_outbox_kafka; /* features/outbox/outbox.h */

/* Shared parts; must outlive the features. */
struct dt_features_env {
    dt_chores *chores;
    const struct dt_config *config;
    const dt_clock *clock;
    dt_refclock *ref;
    const char *installation;            /* not used without Kafka */
    const struct dt_outbox_kafka *kafka; /* NULL: this process does not write to Kafka */
    int64_t process;                     /* processes.id: its row says that it lives, and whether it is a dispatcher */
};

typedef struct dt_features dt_features;

/* Starts all features, or none. */
DT_MUST_CHECK dt_status dt_features_start(const struct dt_features_env *env, dt_features **out, struct dt_error *err);
/* The process is about to end: another one takes over what only one process does. Accepts NULL. */
void dt_features_leave(dt_features *features);
/* Accepts NULL. */
void dt_features_stop(dt_features *features);
