/* Topics: their settings, and the numbers of their jobs. */
#pragma once

#include "base/http/callback_rules.h"
#include "job/delivery.h"
#include "job/job.h"
#include "mysql/db.h"
#include "store/store.h"

/* The settings of a topic's callbacks. The API never shows the values of headers and secrets. */
struct dt_topic_callback {
    struct dt_callback_places places;
    struct dt_str headers, secret; /* headers: a JSON object with strings as values; absent: not set */
    int64_t timeout_ms;            /* 0 = the default */
};
/* The settings of a topic, as stored: a setting that is not set has no default value here. */
struct dt_topic {
    struct dt_str name, kafka_topic /* absent = own name */, retry /* absent = default */;
    int64_t ack_timeout_ms, retention_ms; /* ack_timeout_ms: 0 = default; retention_ms: -1 = default, 0 is a value */
    /* UNSET in a change: the delivery stays; a new topic gets kafka, or pull if Kafka is not configured. */
    enum dt_delivery_id delivery;
    int64_t max_in_flight;    /* most attempts that are in flight, until their result is reported; 0 = no limit */
    struct dt_str rate_limit; /* attempts per time, as text (topic/limits.h); absent = no limit */
    bool paused;
    struct dt_str alerts; /* alert settings, as stored (features/alerts/alerts.h); absent = the defaults */
    struct dt_topic_callback callback;
    int64_t deletion; /* out: id of the operation that deletes the topic; 0 = none */
    int64_t owner;    /* out: number of the topic's owner (topic/owners.h) */
    int64_t created_at_ms, updated_at_ms, version;
};
struct dt_topic_counts {
    int64_t by_state[DT_JOB_STATES]; /* numbers of jobs by state; exact except for manual edits since the last audit */
    int64_t oldest_overdue_ms;       /* age of the oldest overdue job; 0 = none */
};
/* Reads a topic and its settings. NOT_FOUND: there is no such topic. */
dt_status dt_store_topic_get(dt_store *store, struct dt_str name, struct dt_arena *arena, struct dt_topic *out,
                             struct dt_error *err);
/* Counts the jobs of a topic, which need not have a row in `topics`. */
dt_status dt_store_topic_counts(dt_store *store, struct dt_str name, struct dt_topic_counts *out, struct dt_error *err);
/* Reasons why a topic cannot be made or changed. */
enum dt_topic_refusal {
    DT_TOPIC_FINE,
    DT_TOPIC_CLASH,        /* its Kafka name clashes with that of another topic: Kafka cannot distinguish a_b and a.b */
    DT_TOPIC_INTERNAL,     /* its Kafka name is that of an installation's internal topic, or clashes with one */
    DT_TOPIC_FOREIGN,      /* the caller has no right to the Kafka topic */
    DT_TOPIC_CHANGED,      /* the topic has another version than the caller expects (struct dt_topic_terms) */
    DT_TOPIC_LIMIT,        /* the installation has topics_max topics already */
    DT_TOPIC_PREFIX_LIMIT, /* one of the caller's prefixes has prefix_topics_max topics already */
    DT_TOPIC_REFUSALS
};
/* The rights and conditions of a caller who makes or changes topics. The two limits apply only to new topics. */
struct dt_topic_terms {
    int64_t topics_max, prefix_topics_max; /* 0 = no limit */
    const struct dt_str *prefixes;         /* prefixes of the caller's token; prefix_topics_max is checked for each
                                            * prefix that the topic's name begins with */
    size_t n_prefixes;
    bool of_version; /* the topic must have the version `version`; if that is 0, the topic must not exist */
    int64_t version;
    enum dt_delivery_id delivery;  /* delivery of a topic that is made by its first job; UNSET = the default */
    bool foreign;                  /* the caller has no right to kafka_topic: a change may keep kafka_topic, but not set
                                    * it */
    enum dt_topic_refusal refusal; /* out, with INVALID: the reason */
};
struct dt_topic_now {
    struct dt_arena *arena; /* in: memory for the texts in `topic` */
    struct dt_topic topic;
    bool created; /* out: the topic did not exist before */
};
/* Makes a topic, or replaces all its settings; `paused` is replaced only with set_paused. INVALID: see terms->refusal;
 * err does not name topics that the caller may not see. terms may be NULL: no limits. */
dt_status dt_store_topic_put(dt_store *store, const struct dt_topic *topic, bool set_paused,
                             struct dt_topic_terms *terms, struct dt_topic_now *now, struct dt_error *err);
struct dt_topic_ensure {
    struct dt_str name;
    struct dt_topic_terms *terms; /* in: the caller's rights and limits; out: the reason, with INVALID */
    dt_status status;             /* out. OK: the topic exists. INVALID: the caller may not make the topic */
    bool there;                   /* out: the topic existed before this call */
};
/* Makes the topics that do not exist, with default settings. Each transaction makes a few topics, because after each
 * transaction all processes read the settings again. After any status but OK, some topics may have been made. */
dt_status dt_store_topics_ensure(dt_store *store, struct dt_topic_ensure *v, size_t n, struct dt_error *err);
/* Makes a topic if it does not exist. INVALID: it may not be made; terms->refusal has the reason. */
dt_status dt_store_topic_ensure(dt_store *store, struct dt_str name, struct dt_topic_terms *terms,
                                struct dt_error *err);
/* Pauses or resumes a topic. *now (may be NULL): the topic after the change. NOT_FOUND: there is no such topic. */
dt_status dt_store_topic_pause(dt_store *store, struct dt_str name, bool paused, struct dt_topic_now *now,
                               struct dt_error *err);
struct dt_topic_filter {
    struct dt_str after; /* only names after this one, in byte order; absent: all */
    bool bound;          /* only names that begin with one of the prefixes; an empty prefix, or no prefix, matches no
                          * name */
    const struct dt_str *prefixes;
    size_t n_prefixes;
    unsigned limit;
};
struct dt_topic_list {
    struct dt_topic *v; /* in the arena */
    size_t n;
    bool more;          /* there may be further topics after `last` */
    struct dt_str last; /* if `more`: value of `after` for the next page; in the arena */
};
/* Lists topics in byte order of their names. Reads a bounded number of prefixes, and no rows of other topics. The list
 * is empty unless OK. */
dt_status dt_store_topic_list(dt_store *store, const struct dt_topic_filter *filter, struct dt_arena *arena,
                              struct dt_topic_list *out, struct dt_error *err);

#define DT_TOPIC_REFUSAL_MAX 200 /* size of the buffer for the reason */
/* Writes the reason for the caller to read, with the limits and the names of the settings that determine them. The text
 * ends with NUL. */
void dt_topic_refusal_text(enum dt_topic_refusal refusal, const struct dt_config *config,
                           char text[DT_TOPIC_REFUSAL_MAX]);

/* Raises the version of the topics, installation.topics_version, by a random step, inside the caller's transaction.
 * SYSTEM: the system gave no random number. */
dt_status dt_topics_raise_version(dt_db *db, struct dt_error *err);
