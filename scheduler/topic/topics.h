/*
 * Topics: their settings, and the numbers of their jobs.
 */
#pragma once

#include "base/http/callback_rules.h"
#include "job/delivery.h"
#include "job/job.h"
#include "mysql/db.h"
#include "store/store.h"

/* Settings of a topic's callbacks. Values of headers and secrets are never shown. */
struct dt_topic_callback {
    struct dt_callback_places places;
    struct dt_str headers, secret; /* absent: there is none; headers: a JSON object of strings */
    int64_t timeout_ms;            /* 0 = the default */
};
/* A topic's settings as they were set. */
struct dt_topic {
    struct dt_str name, kafka_topic /* absent = own name */, retry /* absent = default */;
    int64_t ack_timeout_ms, retention_ms; /* 0 / -1 = default; retention 0 is a value */
    /* UNSET in a setting: unchanged; for a new topic kafka, or pull if there is no Kafka. */
    enum dt_delivery_id delivery;
    int64_t max_in_flight;    /* limit of attempts that are dispatched and not reported; 0 = no limit */
    struct dt_str rate_limit; /* see topic/limits.h; absent = no limit */
    bool paused;
    struct dt_str alerts; /* as stored, see features/alerts/alerts.h; absent = the defaults */
    struct dt_topic_callback callback;
    int64_t deletion; /* out: the operation that deletes the topic; 0 = none */
    int64_t owner;    /* out: topic/owners.h */
    int64_t created_at_ms, updated_at_ms, version;
};
struct dt_topic_counts {
    int64_t by_state[DT_JOB_STATES]; /* exact, except for manual edits since the last audit */
    int64_t oldest_overdue_ms;       /* age of the oldest overdue job; 0 = none */
};
/* Reads a topic. NOT_FOUND. */
DT_MUST_CHECK dt_status dt_store_topic_get(dt_store *store, struct dt_str name, struct dt_arena *arena,
                                           struct dt_topic *out, struct dt_error *err);
/* Counts the jobs of a topic, whether or not it has a row. */
DT_MUST_CHECK dt_status dt_store_topic_counts(dt_store *store, struct dt_str name, struct dt_topic_counts *out,
                                              struct dt_error *err);
/* Why a topic cannot be made or changed. */
enum dt_topic_refusal {
    DT_TOPIC_FINE,
    DT_TOPIC_CLASH,        /* its Kafka name clashes with another topic's: Kafka cannot distinguish a_b and a.b */
    DT_TOPIC_INTERNAL,     /* its Kafka name is internal to an installation, or clashes with one that is */
    DT_TOPIC_FOREIGN,      /* the caller has no right to its Kafka topic */
    DT_TOPIC_CHANGED,      /* its version is not the one in the terms */
    DT_TOPIC_LIMIT,        /* there are topics_max topics already */
    DT_TOPIC_PREFIX_LIMIT, /* prefix_topics_max topics begin with one of the caller's prefixes already */
    DT_TOPIC_REFUSALS
};
/* The rights of a caller who makes or changes topics. The limits apply only to new topics. */
struct dt_topic_terms {
    int64_t topics_max, prefix_topics_max; /* 0 = no limit */
    const struct dt_str *prefixes;         /* of the caller; topics are counted for each prefix of the name */
    size_t n_prefixes;
    bool of_version; /* the topic must have this version; 0: it must not exist */
    int64_t version;
    enum dt_delivery_id delivery;  /* for a topic that its first job makes; UNSET = the default */
    bool foreign;                  /* the caller has no right to kafka_topic, so it may not be changed to that */
    enum dt_topic_refusal refusal; /* out, with INVALID: the reason */
};
struct dt_topic_now {
    struct dt_arena *arena; /* in: memory for its texts */
    struct dt_topic topic;
    bool created; /* it did not exist before */
};
/* Makes a topic, or replaces all its settings except paused (that too with set_paused). INVALID: see terms->refusal;
 * err does not name topics that the caller may not see. terms may be NULL: no limits. */
DT_MUST_CHECK dt_status dt_store_topic_put(dt_store *store, const struct dt_topic *topic, bool set_paused,
                                           struct dt_topic_terms *terms, struct dt_topic_now *now,
                                           struct dt_error *err);
struct dt_topic_ensure {
    struct dt_str name;
    struct dt_topic_terms *terms; /* as in dt_store_topic_put */
    dt_status status;             /* out: OK: it exists now. INVALID: it may not be made */
    bool there;                   /* out: it existed before */
};
/* Makes the topics that do not exist, with defaults, a few in each transaction: after each, processes read the
 * settings again. After any status but OK, some may have been made. */
DT_MUST_CHECK dt_status dt_store_topics_ensure(dt_store *store, struct dt_topic_ensure *v, size_t n,
                                               struct dt_error *err);
/* Makes one topic. INVALID as in dt_store_topic_put. */
DT_MUST_CHECK dt_status dt_store_topic_ensure(dt_store *store, struct dt_str name, struct dt_topic_terms *terms,
                                              struct dt_error *err);
/* Pauses or resumes a topic. now may be NULL. NOT_FOUND. */
DT_MUST_CHECK dt_status dt_store_topic_pause(dt_store *store, struct dt_str name, bool paused, struct dt_topic_now *now,
                                             struct dt_error *err);
struct dt_topic_filter {
    struct dt_str after; /* names above it in byte order */
    bool bound;          /* names must start with one of the prefixes; an empty prefix, or none, matches nothing */
    const struct dt_str *prefixes;
    size_t n_prefixes;
    unsigned limit;
};
struct dt_topic_list {
    struct dt_topic *v; /* in the arena */
    size_t n;
    bool more;          /* there may be more */
    struct dt_str last; /* if `more`: the next page begins after this name; in the arena */
};
/* Lists topics in byte order. Reads a bounded number of prefixes, and no rows outside of them. The list is empty
 * unless OK. */
DT_MUST_CHECK dt_status dt_store_topic_list(dt_store *store, const struct dt_topic_filter *filter,
                                            struct dt_arena *arena, struct dt_topic_list *out, struct dt_error *err);

#define DT_TOPIC_REFUSAL_MAX 200 /* room for a text */
/* Writes the reason for a caller, terminated, with limits and their settings. */
void dt_topic_refusal_text(enum dt_topic_refusal refusal, const struct dt_config *config,
                           char text[DT_TOPIC_REFUSAL_MAX]);

/* Raises the version of all topics, installation.topics_version, by a random step, inside the caller's transaction.
 * SYSTEM: no random numbers. */
DT_MUST_CHECK dt_status dt_topics_raise_version(dt_db *db, struct dt_error *err);
