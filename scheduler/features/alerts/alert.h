/*
 * Alerts: their kinds, what a topic says about them, and how they are told. Pure.
 *
 * An alert is about one kind of one topic, or of the installation (its topic is absent then). It stands while its
 * figure is not below its limit. The setting of a topic is stored as a JSON object with numbers (column
 * topics.alerts).
 */
#ifndef DT_ALERTS_ALERT_H
#define DT_ALERTS_ALERT_H

#include "base/text/json_table.h"

/* Numbers are those of the ENUMs in MySQL. Kinds of topics come first. */
enum dt_alert_kind {
    DT_ALERT_OVERDUE = 1,      /* ms since the oldest job that waits for its dispatch was due */
    DT_ALERT_BACKLOG,          /* jobs that are due and not dispatched */
    DT_ALERT_DEAD,             /* jobs in that state */
    DT_ALERT_UNREPORTED,       /* ms since the oldest dispatch that nothing was reported of */
    DT_ALERT_SHARD_HALTED,     /* shards */
    DT_ALERT_NO_LEADER,        /* shards */
    DT_ALERT_KAFKA_UNWRITABLE, /* dispatchers whose leaders wait for Kafka */
    DT_ALERT_INDEX_INCOMPLETE, /* processes that cannot write to Redis, and shards whose set is not whole */
    DT_ALERT_INBOX_ERRORS,     /* rows of job_inbox */
    DT_ALERT_AUDIT_CORRECTED,  /* jobs that the latest recounts found in another state than counted */
    DT_ALERT_NO_DISPATCHER,    /* 1 if none lives */
    DT_ALERT_KINDS_END
};
#define DT_ALERT_TOPIC_KINDS        4 /* the kinds of topics are 1 to this */
#define DT_ALERT_INSTALLATION_KINDS (DT_ALERT_KINDS_END - 1 - DT_ALERT_TOPIC_KINDS)

/* "overdue"; NULL for a number that is none. */
const char *dt_alert_kind_name(enum dt_alert_kind kind);
/* Says whether the figure of the kind is a time in ms. */
static inline bool dt_alert_is_time(enum dt_alert_kind kind)
{
    return kind == DT_ALERT_OVERDUE || kind == DT_ALERT_UNREPORTED;
}

#define DT_ALERT_DEFAULT (-1) /* as a limit: the configuration's */

/* A topic's setting of its alerts. limits[kind - 1]: 0 = never. */
struct dt_alert_setting {
    int64_t limits[DT_ALERT_TOPIC_KINDS];
    struct dt_str url, secret; /* absent: there is none */
    int64_t mute_until_ms;     /* 0 = not muted */
};

/*
 * Reads a stored setting; an absent text has none. Texts are copied into the arena; json is scratch. Members that a
 * manual edit has spoiled count as absent, and so does all of a text that is no object. NOMEM.
 */
DT_MUST_CHECK dt_status dt_alert_setting_read(dt_json *json, struct dt_str text, struct dt_arena *arena,
                                              struct dt_alert_setting *out);
/* Writes a setting as it is stored; nothing where all is absent. */
void dt_alert_setting_write(struct dt_strbuf *out, const struct dt_alert_setting *setting);

struct dt_alert {
    int64_t id;
    struct dt_str topic; /* absent: of the installation */
    enum dt_alert_kind kind;
    int64_t value, limit, began_at_ms;
    int64_t told_at_ms;        /* of its latest message; 0 = nobody was told yet */
    int64_t silenced_until_ms; /* 0 = not silenced */
};

/* Numbers are those of the ENUM in MySQL. */
enum dt_alert_event { DT_ALERT_BEGAN = 1, DT_ALERT_REMINDED, DT_ALERT_ENDED };

/* Adds the members of an alert that messages and answers have in common, without braces: "id":"7","topic":… A figure
 * that is a time is written as a duration. out->failed: memory is out. */
void dt_alert_add_members(struct dt_strbuf *out, const struct dt_alert *alert);
/* Adds the body of a message: {"type":"alert.began","timestamp":…,"data":{…}}. */
void dt_alert_add_message(struct dt_strbuf *out, const struct dt_alert *alert, enum dt_alert_event event,
                          int64_t made_at_ms);

#endif
