/*
 * Topics: their settings, and the numbers of their jobs.
 */
#ifndef DT_TOPIC_TOPICS_H
#define DT_TOPIC_TOPICS_H

#include "base/http/callback_rules.h"
#include "job/delivery.h"
#include "job/job.h"
#include "mysql/db.h"
#include "store/store.h"

/* Settings of a topic's callbacks. Values of headers and secrets are told to nobody. */
struct dt_topic_callback {
    struct dt_callback_places places;
    struct dt_str headers, secret; /* absent: there is none; headers: a JSON object of strings */
    int64_t timeout_ms;            /* 0 = the default */
};
/* A topic's settings as they were set. */
struct dt_topic {
    struct dt_str name, kafka_topic /* absent = own name */, retry /* absent = default */;
    int64_t ack_timeout_ms, retention_ms; /* 0 / -1 = default; retention 0 is a value */
    /* UNSET in a setting: as it is; of a topic that is made kafka, or pull without Kafka. */
    enum dt_delivery_id delivery;
    int64_t max_in_flight;    /* attempts that may be dispatched and not reported; 0 = any number */
    struct dt_str rate_limit; /* topic/limits.h; absent = any number of attempts may begin */
    bool paused;
    struct dt_str alerts; /* features/alerts/alert.h, as it is stored; absent = the defaults */
    struct dt_topic_callback callback;
    int64_t deletion; /* out: the operation that deletes the topic; 0 = none */
    int64_t owner;    /* out: topic/owners.h */
    int64_t created_at_ms, updated_at_ms, version;
};
struct dt_topic_counts {
    int64_t by_state[DT_JOB_STATES]; /* exact, but for what manual edits have changed since the audit came by */
    int64_t oldest_overdue_ms;       /* age of it, 0 = none */
};
/* Reads a topic. NOT_FOUND. */
DT_MUST_CHECK dt_status dt_store_topic_get(dt_store *store, struct dt_str name, struct dt_arena *arena,
                                           struct dt_topic *out, struct dt_error *err);
/* Counts the jobs of a topic, whether or not it has a row. */
DT_MUST_CHECK dt_status dt_store_topic_counts(dt_store *store, struct dt_str name, struct dt_topic_counts *out,
                                              struct dt_error *err);
/* The reason why a topic cannot be made, or not be as it is put. */
enum dt_topic_refusal {
    DT_TOPIC_FINE,
    DT_TOPIC_CLASH,        /* its Kafka topic and another topic's are one name to Kafka: a_b beside a.b */
    DT_TOPIC_INTERNAL,     /* its Kafka topic is, or clashes with, one that is internal to an installation */
    DT_TOPIC_FOREIGN,      /* its Kafka topic is not the maker's to name */
    DT_TOPIC_CHANGED,      /* it is not the version that the terms name */
    DT_TOPIC_LIMIT,        /* there are topics_max already */
    DT_TOPIC_PREFIX_LIMIT, /* prefix_topics_max begin with one of the maker's prefixes already */
    DT_TOPIC_REFUSALS
};
/* The rights of a maker of topics. Both bounds are of topics that are made: those that are there may be changed. */
struct dt_topic_terms {
    int64_t topics_max, prefix_topics_max; /* 0 = no bound */
    const struct dt_str *prefixes;         /* of the maker; topics are counted for each that the name begins with */
    size_t n_prefixes;
    bool of_version; /* the topic must have this version, 0: not be there */
    int64_t version;
    enum dt_delivery_id delivery;  /* of a topic that is made by its first job; UNSET = the default */
    bool foreign;                  /* kafka_topic is not the maker's to name: it may stay as it is, and no more */
    enum dt_topic_refusal refusal; /* out, with INVALID */
};
/* A topic as a change leaves it. */
struct dt_topic_now {
    struct dt_arena *arena; /* in: of its texts */
    struct dt_topic topic;
    bool created; /* it was not there before */
};
/* Makes a topic, or replaces all its settings but paused (unless set_paused). INVALID: terms->refusal says why; nobody
 * else's topic is named in err. terms may be NULL: no bounds. */
DT_MUST_CHECK dt_status dt_store_topic_put(dt_store *store, const struct dt_topic *topic, bool set_paused,
                                           struct dt_topic_terms *terms, struct dt_topic_now *now,
                                           struct dt_error *err);
/* A topic that the first of its jobs makes. */
struct dt_topic_ensure {
    struct dt_str name;
    struct dt_topic_terms *terms; /* as of dt_store_topic_put */
    dt_status status;             /* out: OK: it is there now. INVALID: it may not be made */
    bool there;                   /* out: it was there before */
};
/* Makes those topics with defaults that do not exist (auto-creation), a few in a transaction: processes that keep
 * settings in memory read them anew after each. Any status but OK: some may have been made. */
DT_MUST_CHECK dt_status dt_store_topics_ensure(dt_store *store, struct dt_topic_ensure *v, size_t n,
                                               struct dt_error *err);
/* Makes one. INVALID as of dt_store_topic_put. */
DT_MUST_CHECK dt_status dt_store_topic_ensure(dt_store *store, struct dt_str name, struct dt_topic_terms *terms,
                                              struct dt_error *err);
/* Pauses or resumes a topic. now may be NULL: nobody wants to see it. NOT_FOUND. */
DT_MUST_CHECK dt_status dt_store_topic_pause(dt_store *store, struct dt_str name, bool paused, struct dt_topic_now *now,
                                             struct dt_error *err);
struct dt_topic_filter {
    struct dt_str after; /* names above it in byte order */
    bool bound;          /* names must start with one of the prefixes; an empty one, or none at all, fits nothing */
    const struct dt_str *prefixes;
    size_t n_prefixes;
    unsigned limit;
};
struct dt_topic_list {
    struct dt_topic *v; /* in the arena */
    size_t n;
    bool more;          /* there may be more, above … */
    struct dt_str last; /* … this name, in the arena */
};
/* Lists topics in byte order. Looks at nothing outside of the prefixes, and at a bounded number of them. The list is
 * empty unless OK. */
DT_MUST_CHECK dt_status dt_store_topic_list(dt_store *store, const struct dt_topic_filter *filter,
                                            struct dt_arena *arena, struct dt_topic_list *out, struct dt_error *err);

/* The reason why a topic cannot be made, in words for whoever asked for it. Pure. */

#define DT_TOPIC_REFUSAL_MAX 200 /* room for a text */
/* Writes the text, terminated, with limits and their settings. */
void dt_topic_refusal_text(enum dt_topic_refusal refusal, const struct dt_config *config,
                           char text[DT_TOPIC_REFUSAL_MAX]);

/* The version of all topics together, by which processes know that what they have read of topics is old. */

/* Raises installation.topics_version by a random step, inside the caller's transaction. SYSTEM: no random numbers. */
DT_MUST_CHECK dt_status dt_topics_raise_version(dt_db *db, struct dt_error *err);

#endif
