/*
 * Alerts: one process at a time judges them and sends their messages, by webhook and to Kafka. Two chores: one
 * judges, one sends. Neither waits for the other.
 */
#ifndef DT_ALERTS_H
#define DT_ALERTS_H

#include "base/chores.h"
#include "base/config.h"
#include "base/strbuf.h"

typedef struct dt_alerts dt_alerts;

/* A message as it leaves. */
struct dt_alert_text {
    struct dt_str alert; /* its id: messages of an alert keep their order */
    struct dt_str id;    /* webhook-id */
    struct dt_str body;  /* JSON */
};
/* Sends messages to Kafka, and waits; sent[i] says which arrived. Not OK: err says why some did not. */
typedef dt_status dt_alerts_publish_fn(void *arg, const struct dt_alert_text *texts, size_t n, bool *sent,
                                       struct dt_error *err);

/* Shared parts; must outlive the alerts. */
struct dt_alerts_env {
    dt_chores *chores;
    const struct dt_config *config;
    const dt_clock *clock;
    dt_refclock *ref;
    dt_alerts_publish_fn *publish; /* NULL: this process does not write to Kafka */
    void *publish_arg;
    int64_t process; /* processes.id: its row says that it lives, and whether it is a dispatcher */
};

/* INVALID: alerts.url or alerts.secret is none; err says why. */
DT_MUST_CHECK dt_status dt_alerts_start(const struct dt_alerts_env *env, dt_alerts **out, struct dt_error *err);
/* They judge no more. Accepts NULL. */
void dt_alerts_leave(dt_alerts *alerts);
/* Accepts NULL. */
void dt_alerts_stop(dt_alerts *alerts);

#endif
