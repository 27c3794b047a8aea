/* Topics: their settings, and the numbers of their jobs. */
#pragma once

#include "base/http/callback_rules.h"
#include "job/delivery.h"
#include "job/job.h"
#include "mysql/db.h"
#include "store/store.h"

/* Settings of a topic's callbacks. The API never shows values of headers and secrets. */
struct dt_topic_callback {
    struct dt_callback_places places;
    struct dt_str headers, secret; /* absent: not set; headers: a JSON object of strings */
    int64_t timeout_ms;            /* 0 = the default */
};
/* The settings of a topic; default values are not filled in. */
struct dt_topic {
    struct dt_str name, kafka_topic /* absent = own name */, retry /* absent = default */;
    int64_t ack_timeout_ms, retention_ms; /* ack_timeout_ms 0 = default; retention_ms -1 = default, 0 is a value */
    /* In a change, UNSET keeps the delivery; a new topic then gets kafka, or pull if Kafka is not configured. */
    enum dt_delivery_id delivery;
    int64_t max_in_flight;    /* most attempts that are dispatched and not reported; 0 = no limit */
    struct dt_str rate_limit; /* see topic/limits.h; absent = no limit */
    bool paused;
    struct dt_str alerts; /* as stored (features/alerts/alerts.h); absent = the defaults */
    struct dt_topic_callback callback;
    int64_t deletion; /* out: the operation that deletes the topic; 0 = none */
    int64_t owner;    /* out: owner of the topic (topic/owners.h) */
    int64_t created_at_ms, updated_at_ms, version;
};
struct dt_topic_counts {
    int64_t by_state[DT_JOB_STATES]; /* exact, except for manual edits since the last audit */
    int64_t oldest_overdue_ms;       /* age of the oldest overdue job; 0 = none */
};
/* Reads a topic. NOT_FOUND: there is no such topic. */
DT_MUST_CHECK dt_status dt_store_topic_get(dt_store *store, struct dt_str name, struct dt_arena *arena,
                                           struct dt_topic *out, struct dt_error *err);
/* Counts the jobs with this topic, which need not have a row. */
DT_MUST_CHECK dt_status dt_store_topic_counts(dt_store *store, struct dt_str name, struct dt_topic_counts *out,
                                              struct dt_error *err);
/* Reasons why a topic cannot be made or changed. */
enum dt_topic_refusal {
    DT_TOPIC_FINE,
    DT_TOPIC_CLASH,        /* its Kafka name clashes with that of another topic: Kafka cannot distinguish a_b and a.b */
    DT_TOPIC_INTERNAL,     /* its Kafka name is that of an installation's internal topic, or clashes with one */
    DT_TOPIC_FOREIGN,      /* the caller has no right to its Kafka topic */
    DT_TOPIC_CHANGED,      /* its version is not that of the terms */
    DT_TOPIC_LIMIT,        /* there are topics_max topics already */
    DT_TOPIC_PREFIX_LIMIT, /* prefix_topics_max topics begin with one of the caller's prefixes already */
    DT_TOPIC_REFUSALS
};
/* The rights of a caller who makes or changes topics. The limits apply only to new topics. */
struct dt_topic_terms {
    int64_t topics_max, prefix_topics_max; /* 0 = no limit */
    const struct dt_str *prefixes;         /* prefixes of the caller's token; topics are counted for each prefix of
                                            * the name */
    size_t n_prefixes;
    bool of_version; /* the topic must have `version`; version 0: the topic must not exist */
    int64_t version;
    enum dt_delivery_id delivery;  /* delivery of a topic that is made by its first job; UNSET = the default */
    bool foreign;                  /* the caller has no right to kafka_topic, so kafka_topic may be kept but not set */
    enum dt_topic_refusal refusal; /* out, with INVALID: the reason */
};
struct dt_topic_now {
    struct dt_arena *arena; /* in: memory for the texts of `topic` */
    struct dt_topic topic;
    bool created; /* the topic did not exist before */
};
/* Makes a topic, or replaces all its settings; `paused` is replaced only with set_paused. INVALID: see terms->refusal;
 * err does not name topics that the caller may not see. terms may be NULL: no limits. */
DT_MUST_CHECK dt_status dt_store_topic_put(dt_store *store, const struct dt_topic *topic, bool set_paused,
                                           struct dt_topic_terms *terms, struct dt_topic_now *now,
                                           struct dt_error *err);
struct dt_topic_ensure {
    struct dt_str name;
    struct dt_topic_terms *terms; /* as in dt_store_topic_put */
    dt_status status;             /* out: OK: the topic exists. INVALID: it may not be made */
    bool there;                   /* out: the topic existed before */
};
/* Makes the topics that do not exist, with defaults. Each transaction makes a few of them, because after each
 * transaction processes read the settings again. After any status but OK, some topics may have been made. */
DT_MUST_CHECK dt_status dt_store_topics_ensure(dt_store *store, struct dt_topic_ensure *v, size_t n,
                                               struct dt_error *err);
/* Makes one topic if it does not exist. INVALID: as in dt_store_topic_put. */
DT_MUST_CHECK dt_status dt_store_topic_ensure(dt_store *store, struct dt_str name, struct dt_topic_terms *terms,
                                              struct dt_error *err);
/* Pauses or resumes a topic. now may be NULL. NOT_FOUND: there is no such topic. */
DT_MUST_CHECK dt_status dt_store_topic_pause(dt_store *store, struct dt_str name, bool paused, struct dt_topic_now *now,
                                             struct dt_error *err);
struct dt_topic_filter {
    struct dt_str after; /* only names after this one in byte order */
    bool bound;          /* only names that start with one of the prefixes; an empty prefix, or no prefix, matches no
                          * name */
    const struct dt_str *prefixes;
    size_t n_prefixes;
    unsigned limit;
};
struct dt_topic_list {
    struct dt_topic *v; /* in the arena */
    size_t n;
    bool more;          /* further topics may match */
    struct dt_str last; /* if `more`: value of `after` for the next page; in the arena */
};
/* Lists topics in byte order. Reads a bounded number of prefixes, and no rows outside of them. The list is empty
 * unless OK. */
DT_MUST_CHECK dt_status dt_store_topic_list(dt_store *store, const struct dt_topic_filter *filter,
                                            struct dt_arena *arena, struct dt_topic_list *out, struct dt_error *err);

#define DT_TOPIC_REFUSAL_MAX 200 /* size of a text */
/* Writes the reason for a caller, with the limits and the settings that determine them. The text ends with NUL. */
void dt_topic_refusal_text(enum dt_topic_refusal refusal, const struct dt_config *config,
                           char text[DT_TOPIC_REFUSAL_MAX]);

/* Raises the version of all topics, installation.topics_version, by a random step, inside the caller's transaction.
 * SYSTEM: the system gave no random number. */
DT_MUST_CHECK dt_status dt_topics_raise_version(dt_db *db, struct dt_error *err);
