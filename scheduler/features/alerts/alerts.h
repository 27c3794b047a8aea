/*
 * Alerts: their kinds, the settings of topics, their messages as text; alerts in MySQL; the judge, which is the process
 * that begins and ends alerts.
 *
 * An alert is of one kind, for one topic or, if its topic is absent, for the installation. It is active while its
 * figure is at or above its limit. The alert settings of a topic are stored as a JSON object (column topics.alerts).
 */
#pragma once

#include "base/text/json_table.h"
#include "features/features.h"
#include "features/outbox/outbox.h"
#include "job/job.h"
#include "store/store.h"

/* The numbers are those of the ENUMs in MySQL. Kinds of alerts about topics come first. The comment of a kind says what
 * its figure is. */
enum dt_alert_kind {
    DT_ALERT_OVERDUE = 1,      /* ms since the oldest job that is due but not dispatched fell due */
    DT_ALERT_BACKLOG,          /* number of jobs that are due but not dispatched */
    DT_ALERT_DEAD,             /* number of dead jobs */
    DT_ALERT_UNREPORTED,       /* ms since the oldest dispatch without a report */
    DT_ALERT_SHARD_HALTED,     /* number of halted shards */
    DT_ALERT_NO_LEADER,        /* number of shards without a leader */
    DT_ALERT_KAFKA_UNWRITABLE, /* number of dispatchers whose leaders wait for Kafka */
    DT_ALERT_INDEX_INCOMPLETE, /* number of processes that cannot write to Redis, and of shards whose index is
                                * incomplete */
    DT_ALERT_INBOX_ERRORS,     /* number of rows of job_inbox with an error */
    DT_ALERT_AUDIT_CORRECTED,  /* number of jobs that the counters had wrong in the last recount of each piece */
    DT_ALERT_NO_DISPATCHER,    /* 1 if no dispatcher is live */
    DT_ALERT_KINDS_END
};
#define DT_ALERT_TOPIC_KINDS        4 /* kinds about topics are numbered from 1 to this number */
#define DT_ALERT_INSTALLATION_KINDS (DT_ALERT_KINDS_END - 1 - DT_ALERT_TOPIC_KINDS)

/* Returns the name, such as "overdue". NULL: no kind has this number. */
const char *dt_alert_kind_name(enum dt_alert_kind kind);
/* Returns whether the figure of this kind is a time in ms. */
static inline bool dt_alert_is_time(enum dt_alert_kind kind)
{
    return kind == DT_ALERT_OVERDUE || kind == DT_ALERT_UNREPORTED;
}

#define DT_ALERT_DEFAULT (-1) /* value of a limit that the topic does not set: the configuration's limit applies */

/* The alert settings of a topic. limits[kind - 1]: 0 = no alert of this kind. */
struct dt_alert_setting {
    int64_t limits[DT_ALERT_TOPIC_KINDS];
    struct dt_str url, secret; /* absent: not set */
    int64_t mute_until_ms;     /* 0 = not muted */
};

/* Reads stored alert settings. Texts are copied into the arena; `json` is the parser to use. A member with a wrong
 * value (after a manual edit) is read as absent. If the text is absent or not an object, all members are absent.
 * Returns NOMEM if memory runs out. */
dt_status dt_alert_setting_read(dt_json *json, struct dt_str text, struct dt_arena *arena,
                                struct dt_alert_setting *out);
/* Writes the settings in the form in which they are stored. Writes nothing if all members are absent. */
void dt_alert_setting_write(struct dt_strbuf *out, const struct dt_alert_setting *setting);

struct dt_alert {
    int64_t id;
    struct dt_str topic; /* absent: the alert is about the installation */
    enum dt_alert_kind kind;
    int64_t value, limit, began_at_ms;
    int64_t told_at_ms;        /* time at which the latest message about the alert was written; 0 = no message yet */
    int64_t silenced_until_ms; /* no messages before this time; 0 = not silenced */
};

/* What happened to an alert. The numbers are those of the ENUM in MySQL. */
enum dt_alert_event { DT_ALERT_BEGAN = 1, DT_ALERT_REMINDED, DT_ALERT_ENDED };

/* Adds the members that messages and answers of the API have in common, without braces: "id":"7","topic":… A figure
 * that is a time is written as a duration. out->failed: memory ran out. */
void dt_alert_add_members(struct dt_strbuf *out, const struct dt_alert *alert);
/* Adds the JSON body of a message: {"type":"alert.began","timestamp":…,"data":{…}}. */
void dt_alert_add_message(struct dt_strbuf *out, const struct dt_alert *alert, enum dt_alert_event event,
                          int64_t made_at_ms);

/*
 * ---- alerts in MySQL ----
 *
 *     watch ─▶ topics, figures ─▶ begin, remind, end (one transaction: the alert and its messages) ─▶ the outbox sends
 *
 * An alert and its messages are written together, so a crash never leaves an active alert without a message. One
 * process at a time is the judge, under a lease in MySQL. Each change checks the lease: if a process was stopped and
 * continues after its lease has ended, it cannot change anything.
 */

/* ---- figures (alerts_store.c) ---- */

struct dt_alert_watched {
    bool ours;        /* this process is the judge; if not, only lease_ms is set */
    int64_t lease_ms; /* remaining time of the judge's lease; 0: this process is not live */
    bool from_dead;   /* this call took the lease over from a judge that has died */
    int64_t now_ms, topics_version;
    int64_t figures[DT_ALERT_INSTALLATION_KINDS]; /* figures of the installation: [kind - DT_ALERT_TOPIC_KINDS - 1] */
};
/* Takes the lease if no live process holds it. If this process is the judge, reads the figures. process: processes.id.
 * FORBIDDEN: the account may not call the procedure. */
dt_status dt_store_watch_alerts(dt_store *store, int64_t process, struct dt_alert_watched *out, struct dt_error *err);

struct dt_alert_topic {
    struct dt_str name, alerts;
    int64_t owner; /* number of the topic's owner (topic/owners.h) */
};
struct dt_alert_topics {
    struct dt_alert_topic *v; /* in the arena */
    size_t n;
};
/* Reads the topics with alert settings; if `all` is set, every topic. */
dt_status dt_store_alert_topics(dt_store *store, bool all, struct dt_arena *arena, struct dt_alert_topics *out,
                                struct dt_error *err);

struct dt_alert_count {
    struct dt_str topic;
    int64_t scheduled, dispatched, dead;
};
struct dt_alert_counts {
    struct dt_alert_count *v; /* in the arena; if a topic has two entries, their numbers must be added */
    size_t n;
};
/* Reads the numbers of jobs of topics from the counters. names: names of the topics as a JSON list. */
dt_status dt_store_alert_counts(dt_store *store, struct dt_str names, struct dt_arena *arena,
                                struct dt_alert_counts *out, struct dt_error *err);

struct dt_alert_walked {
    struct dt_str topic;   /* borrowed until `found` returns */
    int64_t due;           /* number of jobs that are due but not dispatched */
    int64_t oldest_ms;     /* time at which the oldest of these jobs fell due; 0 = none */
    int64_t unreported_ms; /* time of the oldest dispatch without a report; 0 = none */
};
/* A walk over the due index up to two days ahead, in the order of due_key and id. */
struct dt_alert_walk {
    int64_t from_key, behind_id; /* the walk continues at the row after this due_key and this id */
    int64_t to_key;              /* in: the walk ends at this due_key */
    int64_t now_ms;              /* in: a job is due if its time is not after this time */
    bool over;                   /* out: every row up to to_key was read */
    /* Called for each topic in a slice of rows. If a topic is in several slices, the caller must add the numbers. */
    void (*found)(void *arg, const struct dt_alert_walked *walked);
    void *arg;
};
/* Continues the walk until it ends, or until the monotonic clock reaches until_us. A call reads one snapshot, so a job
 * that moves in the index during the call is counted once. */
dt_status dt_store_alert_walk(dt_store *store, struct dt_alert_walk *walk, const dt_clock *clock, int64_t until_us,
                              struct dt_error *err);

/* ---- active alerts (alerts_store.c) ---- */

struct dt_alert_list {
    struct dt_alert *v; /* in the arena */
    size_t n;
};
/* Lists at most `limit` active alerts with ids above after_id, in order of ids. */
dt_status dt_store_alerts(dt_store *store, int64_t after_id, unsigned limit, struct dt_arena *arena,
                          struct dt_alert_list *out, struct dt_error *err);
/* Suppresses the messages of an alert until a time. NOT_FOUND: there is no such alert, or `bound` does not have its
 * topic (NULL = all topics). *out: the alert after the change, in the arena. */
struct dt_alert_silence {
    int64_t id, until_ms;
    const struct dt_topic_bound *bound;
};
dt_status dt_store_alert_silence(dt_store *store, const struct dt_alert_silence *ask, struct dt_arena *arena,
                                 struct dt_alert *out, struct dt_error *err);

/* Targets to which messages are sent, as bits. */
enum dt_alert_target { DT_ALERT_TO_TOPIC = 1, DT_ALERT_TO_INSTALLATION = 2, DT_ALERT_TO_KAFKA = 4 };
struct dt_alert_change {
    int64_t judge; /* processes.id of the process that judges */
    enum dt_alert_event event;
    struct dt_alert alert; /* the alert; for a new one without id and times; otherwise with told_at_ms as it was read */
    unsigned targets;      /* targets of the message; 0: no message */
};
/* Begins, reminds of, or ends an alert, and writes the messages. The event BEGAN for an alert that is active already
 * (with an id) sends its first message. Unless OK, nothing was changed. DEPOSED: the judge's lease has ended. EXISTS:
 * the alert is active already. VERSION: the alert has changed since it was read. */
dt_status dt_store_alert_change(dt_store *store, const struct dt_alert_change *change, struct dt_error *err);
dt_status dt_store_alert_values(dt_store *store, const struct dt_alert *alerts, size_t n, struct dt_error *err);

/* ---- messages ---- */

extern const struct dt_outbox_kind dt_alert_messages;
/* Makes the messages that the previous judge was sending due now, instead of at the end of their leases. Must be called
 * if that judge has died, and only then, because otherwise those messages would arrive twice. */
dt_status dt_store_free_alert_messages(dt_store *store, struct dt_error *err);

#define DT_ALERT_MESSAGES_MAX INT64_C(10000) /* most waiting webhooks, and most waiting messages for Kafka */
/* an owner may have this number of waiting messages even if the maximum is reached */
#define DT_ALERT_MESSAGES_OF_OWNER INT64_C(100)

/* 
 * ---- for features/features.c: the chore that judges, and the sender of its messages; neither waits for the other
 * ---- */

/* Starts the chores. INVALID: alerts.url or alerts.secret cannot be used; err has the reason. */
dt_status dt_alerts_start(const struct dt_features_env *env, void **out, struct dt_error *err);
/* Stops judging; messages are still sent. */
void dt_alerts_leave(void *alerts);
/* Stops and frees the chores. */
void dt_alerts_stop(void *alerts);
