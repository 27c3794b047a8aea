/*
 * Alerts: one process at a time judges them and sends their messages, by webhook and to Kafka. Two chores: one
 * judges, and a sender of the outbox sends. Neither waits for the other.
 */
#ifndef DT_ALERTS_ALERTS_CHORES_H
#define DT_ALERTS_ALERTS_CHORES_H

#include "base/chores.h"
#include "base/config.h"

struct dt_outbox_kafka; /* features/outbox/outbox.h */
typedef struct dt_alerts dt_alerts;

/* Shared parts; must outlive the alerts. */
struct dt_alerts_env {
    dt_chores *chores;
    const struct dt_config *config;
    const dt_clock *clock;
    dt_refclock *ref;
    const char *installation;            /* not used where there is no Kafka */
    const struct dt_outbox_kafka *kafka; /* NULL: this process does not write to Kafka */
    int64_t process;                     /* processes.id: its row says that it lives, and whether it is a dispatcher */
};

/* INVALID: alerts.url or alerts.secret is none; err says why. */
DT_MUST_CHECK dt_status dt_alerts_start(const struct dt_alerts_env *env, dt_alerts **out, struct dt_error *err);
/* They judge no more. Accepts NULL. */
void dt_alerts_leave(dt_alerts *alerts);
/* Accepts NULL. */
void dt_alerts_stop(dt_alerts *alerts);

#endif
