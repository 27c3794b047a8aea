/*
 * Alerts: their kinds, the settings of topics, their messages as text; alerts in MySQL; the judge.
 *
 * An alert is of one kind, for one topic or, if its topic is absent, for the installation. It is active while its
 * figure is at or above its limit. A topic's setting is stored as a JSON object with numbers (column topics.alerts).
 */
#pragma once

#include "base/text/json_table.h"
#include "features/features.h"
#include "features/outbox/outbox.h"
#include "job/job.h"
#include "store/store.h"

/* Numbers are those of the ENUMs in MySQL. Kinds of alerts about topics come first. Comments say what the figure is. */
enum dt_alert_kind {
    DT_ALERT_OVERDUE = 1,      /* ms since the oldest job that is due and not dispatched fell due */
    DT_ALERT_BACKLOG,          /* jobs that are due and not dispatched */
    DT_ALERT_DEAD,             /* dead jobs */
    DT_ALERT_UNREPORTED,       /* ms since the oldest dispatch without a report */
    DT_ALERT_SHARD_HALTED,     /* halted shards */
    DT_ALERT_NO_LEADER,        /* shards without a leader */
    DT_ALERT_KAFKA_UNWRITABLE, /* dispatchers whose leaders wait for Kafka */
    DT_ALERT_INDEX_INCOMPLETE, /* processes that cannot write to Redis, and shards whose set is incomplete */
    DT_ALERT_INBOX_ERRORS,     /* rows of job_inbox with an error */
    DT_ALERT_AUDIT_CORRECTED,  /* jobs that the last recounts found missing or superfluous in counters */
    DT_ALERT_NO_DISPATCHER,    /* 1 if no dispatcher lives */
    DT_ALERT_KINDS_END
};
#define DT_ALERT_TOPIC_KINDS        4 /* kinds about topics have the numbers 1 to this one */
#define DT_ALERT_INSTALLATION_KINDS (DT_ALERT_KINDS_END - 1 - DT_ALERT_TOPIC_KINDS)

/* Returns the name, such as "overdue"; NULL for an unknown number. */
const char *dt_alert_kind_name(enum dt_alert_kind kind);
/* Returns whether the figure of the kind is a time in ms. */
static inline bool dt_alert_is_time(enum dt_alert_kind kind)
{
    return kind == DT_ALERT_OVERDUE || kind == DT_ALERT_UNREPORTED;
}

#define DT_ALERT_DEFAULT (-1) /* a limit that is not set: the configuration's value applies */

/* A topic's settings of its alerts. limits[kind - 1]: 0 = no alert. */
struct dt_alert_setting {
    int64_t limits[DT_ALERT_TOPIC_KINDS];
    struct dt_str url, secret; /* absent: not set */
    int64_t mute_until_ms;     /* 0 = not muted */
};

/* Reads a stored setting. Texts are copied into the arena; json is used as scratch. A member with a wrong value (a
 * manual edit) is absent. If the text is absent or not an object, all members are absent. Returns NOMEM if memory runs
 * out. */
DT_MUST_CHECK dt_status dt_alert_setting_read(dt_json *json, struct dt_str text, struct dt_arena *arena,
                                              struct dt_alert_setting *out);
/* Writes a setting as it is stored. Writes nothing if all members are absent. */
void dt_alert_setting_write(struct dt_strbuf *out, const struct dt_alert_setting *setting);

struct dt_alert {
    int64_t id;
    struct dt_str topic; /* absent: the alert is about the installation */
    enum dt_alert_kind kind;
    int64_t value, limit, began_at_ms;
    int64_t told_at_ms;        /* time at which its last message was written; 0 = none yet */
    int64_t silenced_until_ms; /* 0 = not silenced */
};

/* Numbers are those of the ENUM in MySQL. */
enum dt_alert_event { DT_ALERT_BEGAN = 1, DT_ALERT_REMINDED, DT_ALERT_ENDED };

/* Adds the members that both messages and answers have, without braces: "id":"7","topic":… A figure that is a time is
 * written as a duration. out->failed: memory ran out. */
void dt_alert_add_members(struct dt_strbuf *out, const struct dt_alert *alert);
/* Adds the body of a message: {"type":"alert.began","timestamp":…,"data":{…}}. */
void dt_alert_add_message(struct dt_strbuf *out, const struct dt_alert *alert, enum dt_alert_event event,
                          int64_t made_at_ms);

/*
 * ---- alerts in MySQL ----
 *
 *     watch ─▶ topics, figures ─▶ begin, remind, end (one transaction: the alert and its messages) ─▶ the outbox sends
 *
 * An alert and its messages are written together, so a crash never leaves an active alert without a message. One
 * process judges, under a lease in MySQL. Each change checks the lease: a process that was stopped and continues after
 * its lease cannot change anything.
 */

/* ---- figures (alerts_store.c) ---- */

struct dt_alert_watched {
    bool ours;        /* this process judges; if not, only lease_ms is set */
    int64_t lease_ms; /* time for which the judge's lease still holds; 0: this process is not live */
    bool from_dead;   /* this call took the lease of a judge that has died */
    int64_t now_ms, topics_version;
    int64_t figures[DT_ALERT_INSTALLATION_KINDS]; /* [kind - DT_ALERT_TOPIC_KINDS - 1] */
};
/* Takes the lease if no live process holds it, and reads the figures. process: processes.id. FORBIDDEN: the account may
 * not call the procedure. */
DT_MUST_CHECK dt_status dt_store_watch_alerts(dt_store *store, int64_t process, struct dt_alert_watched *out,
                                              struct dt_error *err);

struct dt_alert_topic {
    struct dt_str name, alerts;
    int64_t owner; /* owner of the topic (topic/owners.h) */
};
struct dt_alert_topics {
    struct dt_alert_topic *v; /* in the arena */
    size_t n;
};
/* Reads the topics with settings of alerts; with `all`, every topic. */
DT_MUST_CHECK dt_status dt_store_alert_topics(dt_store *store, bool all, struct dt_arena *arena,
                                              struct dt_alert_topics *out, struct dt_error *err);

struct dt_alert_count {
    struct dt_str topic;
    int64_t scheduled, dispatched, dead;
};
struct dt_alert_counts {
    struct dt_alert_count *v; /* in the arena; a topic may have two entries, whose numbers are to be added */
    size_t n;
};
/* Counts the jobs of topics from the counters. names: a JSON list of topics. */
DT_MUST_CHECK dt_status dt_store_alert_counts(dt_store *store, struct dt_str names, struct dt_arena *arena,
                                              struct dt_alert_counts *out, struct dt_error *err);

struct dt_alert_walked {
    struct dt_str topic;   /* borrowed during the call of `found` */
    int64_t due;           /* jobs that are due and not dispatched */
    int64_t oldest_ms;     /* time at which the oldest of these jobs fell due; 0 = none */
    int64_t unreported_ms; /* time of the oldest dispatch without a report; 0 = none */
};
/* A walk over the due index up to two days ahead, in the order of the index. */
struct dt_alert_walk {
    int64_t from_key, behind_id; /* the next row has this key and a higher id, or a higher key */
    int64_t to_key;              /* in: last key of the walk */
    int64_t now_ms;              /* in: jobs with a time up to this one are due */
    bool over;                   /* out: the walk has reached to_key */
    /* Called for each topic of a slice of rows. If a topic is in several slices, the numbers are to be added. */
    void (*found)(void *arg, const struct dt_alert_walked *walked);
    void *arg;
};
/* Continues the walk to its end, or until the clock reaches until_us. A call reads one snapshot, so a job that moves
 * during the call is counted once. */
DT_MUST_CHECK dt_status dt_store_alert_walk(dt_store *store, struct dt_alert_walk *walk, const dt_clock *clock,
                                            int64_t until_us, struct dt_error *err);

/* ---- active alerts (alerts_store.c) ---- */

struct dt_alert_list {
    struct dt_alert *v; /* in the arena */
    size_t n;
};
/* Lists at most `limit` active alerts with ids above after_id, in the order of ids. */
DT_MUST_CHECK dt_status dt_store_alerts(dt_store *store, int64_t after_id, unsigned limit, struct dt_arena *arena,
                                        struct dt_alert_list *out, struct dt_error *err);
/* Silences an alert until a time. NOT_FOUND: there is no such alert, or its topic is not in `bound` (NULL = all
 * topics). *out: the alert after the change, in the arena. */
struct dt_alert_silence {
    int64_t id, until_ms;
    const struct dt_topic_bound *bound;
};
DT_MUST_CHECK dt_status dt_store_alert_silence(dt_store *store, const struct dt_alert_silence *silence,
                                               struct dt_arena *arena, struct dt_alert *out, struct dt_error *err);

/* Targets of messages, as bits. */
enum dt_alert_target { DT_ALERT_TO_TOPIC = 1, DT_ALERT_TO_INSTALLATION = 2, DT_ALERT_TO_KAFKA = 4 };
struct dt_alert_change {
    int64_t judge; /* processes.id of the process that judges */
    enum dt_alert_event event;
    struct dt_alert alert; /* to begin an alert: without id and times; otherwise with told_at_ms as it was read */
    unsigned targets;      /* 0: no message */
};
/* Begins, reminds of, or ends an alert, and writes its messages. BEGAN for an active alert (with an id) sends its first
 * message. Unless OK, nothing was changed. DEPOSED: the lease has ended. EXISTS: the alert is active already. VERSION:
 * the alert has changed since it was read. */
DT_MUST_CHECK dt_status dt_store_alert_change(dt_store *store, const struct dt_alert_change *change,
                                              struct dt_error *err);
DT_MUST_CHECK dt_status dt_store_alert_values(dt_store *store, const struct dt_alert *alerts, size_t n,
                                              struct dt_error *err);

/* ---- messages ---- */

extern const struct dt_outbox_kind dt_alert_messages;
/* Must be called if the previous judge has died: makes the messages that it was sending due now, instead of at the end
 * of their leases. If it is alive, it must not be called, because those messages would arrive twice. */
DT_MUST_CHECK dt_status dt_store_free_alert_messages(dt_store *store, struct dt_error *err);

#define DT_ALERT_MESSAGES_MAX      INT64_C(10000) /* most webhooks, and most messages for Kafka */
#define DT_ALERT_MESSAGES_OF_OWNER INT64_C(100)   /* an owner may have so many even at the limit */

/* 
 * ---- a line in features/features.c: the chore that judges, and a sender of the outbox; neither waits for the other
 * ---- */

/* Starts the chores. INVALID: alerts.url or alerts.secret cannot be used; err has the reason. */
DT_MUST_CHECK dt_status dt_alerts_start(const struct dt_features_env *env, void **out, struct dt_error *err);
/* Stops judging. */
void dt_alerts_leave(void *alerts);
/* Stops the chores. */
void dt_alerts_stop(void *alerts);
