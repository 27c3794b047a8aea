/*
 * Alerts: judged by one process at a time, told by webhook and Kafka. Two threads: one that judges, one that sends.
 * Neither waits for the other, and nothing else waits for them.
 */
#ifndef DT_DISPATCHER_ALERTS_H
#define DT_DISPATCHER_ALERTS_H

#include "base/clock.h"
#include "base/config.h"
#include "kafka/kafka.h"

typedef struct dt_alerts dt_alerts;

/* Shared parts; must outlive the alerts. */
struct dt_alerts_env {
    const struct dt_config *config;
    const char *installation;
    const dt_clock *clock;
    dt_refclock *ref;
    dt_notice_producer *notices; /* NULL without Kafka */
};

/* INVALID: alerts.url or alerts.secret is none; err says why. */
DT_MUST_CHECK dt_status dt_alerts_start(const struct dt_alerts_env *env, dt_alerts **out, struct dt_error *err);
/* They begin nothing new, and what waits in MySQL ends. Accepts NULL. */
void dt_alerts_leave(dt_alerts *alerts);
/* Joins, frees. Accepts NULL. */
void dt_alerts_stop(dt_alerts *alerts);

#endif
