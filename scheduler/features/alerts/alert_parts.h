/*
 * What the files of alerts share. Only for this folder.
 *
 *   alerts_chores.c   starts and stops the chores
 *   alert_judge.c     the chore that begins and ends alerts
 *   alert_topics.c    the watched topics and their figures
 */
#pragma once

#include <stdatomic.h>

#include "alerts.h"
#include "base/hash.h"
#include "base/metrics.h"

/* ---- alert_topics.c, for the judge ---- */

/* A topic with a limit, and its figures as far as they are known. */
struct dt_watched_topic {
    struct dt_str name;
    struct dt_alert_setting setting;       /* setting, completed by the configuration's defaults */
    int64_t jobs, dead;                    /* scheduled and dispatched; dead */
    int64_t due, oldest_ms, unreported_ms; /* as far as they are known */
    bool due_known, unreported_known;      /* the figure is from a complete walk, so an alert may end by it */
    struct dt_alert_walked pass;           /* figures of the current walk */
    struct dt_alert *standing[DT_ALERT_TOPIC_KINDS];
    UT_hash_handle hh;
};

struct dt_watched_topics {
    const struct dt_config *config;
    const dt_clock *clock;
    dt_json *json;
    struct dt_arena arena; /* memory of the topics */
    struct dt_arena rows;  /* memory for one call of dt_watched_topics_look */
    struct dt_watched_topic *v;
    size_t n;
    struct dt_watched_topic *by_name;
    int leg; /* leg of the walk (alert_topics.c) */
    bool walking;
    struct dt_alert_walk walk;
};

DT_MUST_CHECK dt_status dt_watched_topics_init(struct dt_watched_topics *topics, const struct dt_config *config,
                                               const dt_clock *clock);
void dt_watched_topics_clear(struct dt_watched_topics *topics);
/* Reads the topics again and forgets their figures. The first topic of each owner comes before the second of any:
 * topics are judged in this order, and each alert that begins is a transaction. */
DT_MUST_CHECK dt_status dt_watched_topics_read(struct dt_watched_topics *topics, dt_store *store, struct dt_error *err);
/* Returns NULL if the topic is not watched. */
struct dt_watched_topic *dt_watched_topics_find(struct dt_watched_topics *topics, struct dt_str name);
/* Reads the figures, for half a second at most; the next call continues a longer walk. */
DT_MUST_CHECK dt_status dt_watched_topics_look(struct dt_watched_topics *topics, dt_store *store, int64_t now_ms,
                                               struct dt_error *err);
/* Returns the figure of a kind, by the server's clock. */
int64_t dt_watched_figure(const struct dt_watched_topic *topic, enum dt_alert_kind kind, int64_t now_ms);
/* Returns whether the figure is from a complete walk, so that an alert may end by it. */
bool dt_watched_is_known(const struct dt_watched_topic *topic, enum dt_alert_kind kind);

/* ---- alerts_chores.c ---- */

struct dt_alerts {
    struct dt_alerts_env env;
    _Atomic bool ours; /* this process judges, and sends */

    /* used by the judge */
    struct dt_chore judge;
    dt_store *judge_store; /* the store of the running tick */
    struct dt_watched_topics topics;
    struct dt_arena rows;
    struct dt_alert_watched was;
    bool knows;                                    /* `was` is set */
    bool frees;                                    /* the previous judge is dead, so its messages must be freed */
    int64_t since_us[DT_ALERT_INSTALLATION_KINDS]; /* when the figure rose above 0 */
    int64_t values_us;                             /* when the figures of active alerts were last written */
    size_t n_standing;
    dt_metric *standing[DT_ALERT_KINDS_END];

    struct dt_outbox *sender; /* features/outbox/outbox.h */
};

/* ---- alert_judge.c: a tick ---- */

int64_t dt_alerts_judge(void *alerts, void *store);
