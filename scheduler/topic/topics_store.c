/*
 * Topics: reading them, and changing their settings; pauses; topics that are made by their first job.
 *
 * Every change of a topic locks the installation's row, and raises installation.topics_version in the same transaction.
 * So changes are made one after the other: two new topics whose Kafka names clash cannot both be made. A process that
 * has settings in memory compares this version to find out whether they are outdated. If a claim begins after the
 * answer to a pause, it reads the raised version, and so claims no job of the paused topic.
 */

#include "base/assert.h"
#include "base/guard.h"
#include "events/events.h"
#include "job/change/jobs_txn.h"
#include "limits.h"
#include "mysql/statements.h"
#include "owners.h"
#include "store/store_internal.h"
#include "topics.h"

#define OVERDUE_ROWS 20000

static dt_status read_topic_row(const dt_db *db, struct dt_arena *arena, struct dt_topic *out)
{
    bool ok = true;
    *out = (struct dt_topic){
        .name = dt_store_text(db, 0, arena, &ok),
        .kafka_topic = dt_store_text(db, 1, arena, &ok),
        .retry = dt_store_text(db, 2, arena, &ok),
        .ack_timeout_ms = dt_db_i64(db, 3),
        .retention_ms = dt_db_is_null(db, 4) ? -1 : dt_db_i64(db, 4),
        .paused = dt_db_i64(db, 5) != 0,
        .created_at_ms = dt_db_i64(db, 6),
        .updated_at_ms = dt_db_i64(db, 7),
        .version = dt_db_i64(db, 8),
        .delivery = (enum dt_delivery_id)dt_db_i64(db, 9),
        .callback = {.places = {.url = dt_store_text(db, 10, arena, &ok), .hosts = dt_store_text(db, 11, arena, &ok)},
                     .headers = dt_store_text(db, 12, arena, &ok),
                     .secret = dt_store_text(db, 13, arena, &ok),
                     .timeout_ms = dt_db_i64(db, 14)},
        .max_in_flight = dt_db_i64(db, 15),
        .rate_limit = dt_store_text(db, 16, arena, &ok),
        .deletion = dt_db_i64(db, 17),
        .alerts = dt_store_text(db, 18, arena, &ok),
        .owner = dt_db_i64(db, 19) > 0 ? dt_db_i64(db, 19) : dt_owner_by_name(dt_db_bytes(db, 0)),
    };
    return ok && out->name.p ? DT_OK : DT_NOMEM;
}

static dt_status end_failed_fetch(dt_db *db, dt_status status, struct dt_error *err)
{
    dt_status ended = dt_db_end(db, err);
    return status != DT_OK ? dt_fail(err, status, "%s", dt_status_text(status)) : ended;
}

dt_status dt_topic_read(dt_db *db, struct dt_str name, struct dt_arena *arena, struct dt_topic *out,
                        struct dt_error *err)
{
    dt_status status = dt_db_query(db, dt_sql_select_topic, DT_PARAMS(DT_P_STR(name)), err);
    if (status != DT_OK)
        return status;
    status = dt_db_next(db) ? read_topic_row(db, arena, out) : DT_NOT_FOUND;
    return end_failed_fetch(db, status, err);
}

dt_status dt_store_topic_get(dt_store *store, struct dt_str name, struct dt_arena *arena, struct dt_topic *out,
                             struct dt_error *err)
{
    dt_db *db;
    dt_status status = dt_store_db(store, &db, err);
    return status == DT_OK ? dt_topic_read(db, name, arena, out, err) : status;
}

/* ---- pages of topics ---- */

#define RANGES_MAX 100 /* most prefixes that one page reads */

static int compare_names(const void *a, const void *b)
{
    return dt_str_order(*(const struct dt_str *)a, *(const struct dt_str *)b);
}

struct dt_str dt_topic_above_prefix(struct dt_arena *arena, struct dt_str prefix)
{
    char *p = dt_arena_alloc(arena, prefix.n + 2);
    if (!p)
        return DT_STR_NONE;
    if (prefix.n)
        memcpy(p, prefix.p, prefix.n);
    p[prefix.n] = 0x7F;
    p[prefix.n + 1] = '\0';
    return (struct dt_str){p, prefix.n + 1};
}

struct topic_page {
    dt_db *db;
    struct dt_arena *arena;
    struct dt_topic *topics;
    size_t n, limit;
    struct dt_error *err;
};

static dt_status read_topics_page(struct topic_page *p, const char *sql, struct dt_params params)
{
    dt_status status = dt_db_query(p->db, sql, params, p->err);
    if (status != DT_OK)
        return status;
    while (status == DT_OK && dt_db_next(p->db))
        status = read_topic_row(p->db, p->arena, &p->topics[p->n++]);
    return end_failed_fetch(p->db, status, p->err);
}

/* Reads the topics with these prefixes, in order. A prefix that begins with another of the prefixes is skipped, so that
 * no topic is read twice. */
static dt_status read_prefixes(struct topic_page *p, const struct dt_topic_filter *f, struct dt_topic_list *out)
{
    struct dt_str *prefixes = dt_arena_alloc(p->arena, (f->n_prefixes + 1) * sizeof(*prefixes));
    size_t n = 0;
    size_t looks = 0;
    dt_status status = prefixes ? DT_OK : DT_NOMEM;
    if (prefixes && f->n_prefixes) {
        memcpy(prefixes, f->prefixes, f->n_prefixes * sizeof(*prefixes));
        qsort(prefixes, f->n_prefixes, sizeof(*prefixes), compare_names);
    }
    for (size_t i = 0; status == DT_OK && i < f->n_prefixes; i++)
        if (prefixes[i].n > 0 && (n == 0 || !dt_str_begins(prefixes[i], prefixes[n - 1])))
            prefixes[n++] = prefixes[i];
    for (size_t i = 0; status == DT_OK && i < n && p->n < p->limit; i++) {
        const struct dt_str below = dt_topic_above_prefix(p->arena, prefixes[i]);
        if (!below.p)
            return DT_NOMEM;
        if (compare_names(&f->after, &below) >= 0)
            continue;
        if (looks++ == RANGES_MAX) {
            out->more = true;
            return DT_OK;
        }
        status = read_topics_page(
            p, dt_sql_select_topics_between,
            DT_PARAMS(DT_P_STR(f->after), DT_P_STR(prefixes[i]), DT_P_STR(below), DT_P_INT(p->limit - p->n)));
        out->last = below;
    }
    return status;
}

dt_status dt_store_topic_list(dt_store *store, const struct dt_topic_filter *filter, struct dt_arena *arena,
                              struct dt_topic_list *out, struct dt_error *err)
{
    struct topic_page p = {.arena = arena, .limit = filter->limit, .err = err};
    struct dt_topic_filter f = *filter;
    *out = (struct dt_topic_list){0};
    f.after = f.after.p ? f.after : DT_STR_LIT("");
    p.topics = dt_arena_alloc(arena, (p.limit + 1) * sizeof(*p.topics));
    if (!p.topics)
        return dt_fail(err, DT_NOMEM, "out of memory");
    dt_status status = dt_store_db(store, &p.db, err);
    DT_THEN(status, f.bound
                        ? read_prefixes(&p, &f, out)
                        : read_topics_page(&p, dt_sql_select_topics, DT_PARAMS(DT_P_STR(f.after), DT_P_INT(p.limit))));
    if (status != DT_OK) {
        *out = (struct dt_topic_list){0};
        return status;
    }
    if (p.n == p.limit) {
        out->more = true;
        out->last = p.topics[p.n - 1].name;
    }
    out->v = p.topics;
    out->n = p.n;
    return DT_OK;
}

dt_status dt_store_topic_counts(dt_store *store, struct dt_str name, struct dt_topic_counts *out, struct dt_error *err)
{
    dt_db *db;
    memset(out, 0, sizeof(*out));
    dt_status status =
        dt_store_query(store, &db, dt_sql_select_topic_counts, DT_PARAMS(DT_P_STR(name), DT_P_STR(name)), err);
    if (status != DT_OK)
        return status;
    /* A row with a state has the number of archived jobs in that state. The row without a state has the counters of
     * `jobs`. */
    while (dt_db_next(db)) {
        int64_t state = dt_db_i64(db, 0) - 1;
        if (state >= 0 && state < DT_JOB_STATES)
            out->by_state[state] += dt_db_i64(db, 1);
        for (unsigned s = 0; state < 0 && s < DT_JOB_STATES; s++)
            out->by_state[s] += dt_db_i64(db, s + 1);
    }
    for (int s = 0; s < DT_JOB_STATES; s++) /* after a manual edit a counter may be below zero until the next audit */
        out->by_state[s] = out->by_state[s] > 0 ? out->by_state[s] : 0;
    status = dt_db_end(db, err);
    DT_THEN(status, dt_db_read_number(db, dt_sql_select_overdue, DT_PARAMS(DT_P_STR(name), DT_P_INT(OVERDUE_ROWS)),
                                      NULL, &out->oldest_overdue_ms, err));
    return status;
}

void dt_topic_refusal_text(enum dt_topic_refusal refusal, const struct dt_config *config,
                           char text[DT_TOPIC_REFUSAL_MAX])
{
    static const char *const texts[DT_TOPIC_REFUSALS] = {
        [DT_TOPIC_CLASH] = "the name clashes in Kafka with that of another topic (\".\" and \"_\" are the same there)",
        [DT_TOPIC_INTERNAL] = "the Kafka topic is internal to this installation or to another one (see kafka_topic)",
        [DT_TOPIC_FOREIGN] = "is outside of the token's prefixes, and not among the Kafka topics of kafka.allow_topics",
        [DT_TOPIC_CHANGED] = "was changed by another request meanwhile"};
    dt_assert_cmp(refusal, <, DT_TOPIC_REFUSALS);
    if (refusal == DT_TOPIC_LIMIT)
        snprintf(text, DT_TOPIC_REFUSAL_MAX, "no topic can be created: limits.topics (%lld) is reached",
                 (long long)config->limits_topics);
    else if (refusal == DT_TOPIC_PREFIX_LIMIT)
        snprintf(text, DT_TOPIC_REFUSAL_MAX,
                 "no topic can be created: limits.prefix_topics (%lld) is reached for the token's prefix",
                 (long long)config->limits_prefix_topics);
    else
        snprintf(text, DT_TOPIC_REFUSAL_MAX, "%s",
                 texts[refusal] ? texts[refusal] : "the topic cannot be stored as it is");
}

#define ENSURED_AT_ONCE 16 /* most topics that one transaction makes: other changes of topics wait for it */

/* Locks the installation's row. All changes of topics lock it. */
static dt_status lock_topics(dt_db *db, char installation[101], struct dt_error *err)
{
    dt_status status = dt_db_query(db, dt_sql_lock_topics, DT_NO_PARAMS, err);
    if (status != DT_OK)
        return status;
    struct dt_str name = dt_db_next(db) ? dt_db_bytes(db, 0) : DT_STR_NONE;
    bool fits = name.n > 0 && name.n <= 100;
    if (fits) {
        memcpy(installation, name.p, name.n);
        installation[name.n] = '\0';
    }
    status = dt_db_end(db, err);
    return status || fits ? status : dt_fail(err, DT_SCHEMA, "the installation row is missing");
}

static char fold_dot(char c)
{
    return c == '.' ? '_' : c;
}

static dt_status refuse_topic_terms(struct dt_topic_terms *terms, enum dt_topic_refusal refusal, struct dt_error *err,
                                    const char *why)
{
    if (terms)
        terms->refusal = refusal;
    return dt_fail(err, DT_INVALID, "%s", why);
}

static bool clashes_with_ours(struct dt_str kafka_name, const char *installation)
{
    char name[140];
    size_t n = strlen(installation);
    if (kafka_name.n > n && memcmp(kafka_name.p, installation, n) == 0 && kafka_name.p[n] == '.')
        return true;
    for (size_t i = 0; i < DT_KAFKA_OWN_TOPICS; i++) {
        size_t same = 0;
        snprintf(name, sizeof(name), "%s.%s", installation, dt_kafka_own_topics[i]);
        while (same < kafka_name.n && name[same] && fold_dot(kafka_name.p[same]) == fold_dot(name[same]))
            same++;
        if (same == kafka_name.n && !name[same])
            return true;
    }
    return false;
}

/* Reads the delivery of a topic; UNSET if there is no such topic. */
static dt_status find_delivery(dt_db *db, struct dt_str name, enum dt_delivery_id *delivery, struct dt_error *err)
{
    int64_t number;
    dt_status status = dt_db_read_number(db, dt_sql_find_topic, DT_PARAMS(DT_P_STR(name)), NULL, &number, err);
    *delivery = (enum dt_delivery_id)number;
    return status;
}

/* ---- limits; exact, since topics are counted under the lock of all changes ---- */

static dt_status count_topics(dt_db *db, struct dt_str prefix, int64_t *n, struct dt_error *err)
{
    struct dt_arena arena = {0};
    struct dt_str below = dt_topic_above_prefix(&arena, prefix);
    dt_status status =
        below.p ? dt_db_read_number(db, dt_sql_count_topics, DT_PARAMS(DT_P_STR(prefix), DT_P_STR(below)), NULL, n, err)
                : dt_fail(err, DT_NOMEM, "out of memory");
    dt_arena_clear(&arena);
    return status;
}

static dt_status refuse_topic_beyond_limit(dt_db *db, struct dt_str name, struct dt_topic_terms *terms,
                                           struct dt_error *err)
{
    int64_t there = 0;
    dt_status status = DT_OK;
    if (terms && terms->topics_max)
        status = count_topics(db, DT_STR_LIT(""), &there, err);
    if (status == DT_OK && terms && terms->topics_max && there >= terms->topics_max)
        return refuse_topic_terms(terms, DT_TOPIC_LIMIT, err, "the limit of topics is reached");
    for (size_t i = 0; status == DT_OK && terms && terms->prefix_topics_max && i < terms->n_prefixes; i++) {
        if (terms->prefixes[i].n == 0 || !dt_str_begins(name, terms->prefixes[i]))
            continue;
        status = count_topics(db, terms->prefixes[i], &there, err);
        if (status == DT_OK && there >= terms->prefix_topics_max)
            return refuse_topic_terms(terms, DT_TOPIC_PREFIX_LIMIT, err,
                                      "the limit of topics with this prefix is reached");
    }
    return status;
}

/* ---- writing a topic ---- */

struct settings {
    struct dt_param delivery, kafka_topic, retry, ack_timeout, retention, paused, url, hosts, headers, secret, timeout;
    struct dt_param max_in_flight, rate_limit, alerts;
};

/* fallback: delivery for a topic that sets none. */
static struct settings settings_of(const struct dt_topic *t, enum dt_delivery_id fallback)
{
    enum dt_delivery_id delivery = t->delivery ? t->delivery : fallback;
    bool own_name = !t->kafka_topic.p || dt_str_eq(t->kafka_topic, t->name);
    return (struct settings){
        .delivery = delivery ? DT_P_STR(dt_str(dt_delivery_id_name(delivery))) : DT_P_NULL,
        .kafka_topic = own_name ? DT_P_NULL : DT_P_STR(t->kafka_topic),
        .retry = DT_P_STR_OR_NULL(t->retry),
        .ack_timeout = DT_P_INT_OR_NULL(t->ack_timeout_ms),
        .retention = t->retention_ms < 0 ? DT_P_NULL : DT_P_INT(t->retention_ms),
        .max_in_flight = DT_P_INT_OR_NULL(t->max_in_flight),
        .rate_limit = DT_P_STR_OR_NULL(t->rate_limit),
        .alerts = DT_P_STR_OR_NULL(t->alerts),
        .paused = DT_P_INT(t->paused),
        .url = DT_P_STR_OR_NULL(t->callback.places.url),
        .hosts = DT_P_STR_OR_NULL(t->callback.places.hosts),
        .headers = DT_P_STR_OR_NULL(t->callback.headers),
        .secret = DT_P_STR_OR_NULL(t->callback.secret),
        .timeout = DT_P_INT_OR_NULL(t->callback.timeout_ms),
    };
}

/* The topic before and after a change. Used for the event, if there is an actor, and for the caller's `now`. */
struct topic_event {
    struct dt_str actor;
    struct dt_topic_now *now; /* out: the topic after the change; may be NULL */
    struct dt_arena arena;
    struct dt_topic before;
    bool existed;
};

static dt_status read_topic_if_present(dt_db *db, struct dt_str name, struct dt_arena *arena, struct dt_topic *out,
                                       bool *there, struct dt_error *err)
{
    dt_status status = dt_topic_read(db, name, arena, out, err);
    *there = status == DT_OK;
    return status == DT_NOT_FOUND ? DT_OK : status;
}

static dt_status record_topic_before(struct topic_event *e, dt_db *db, struct dt_str name, struct dt_error *err)
{
    e->existed = false;
    return e->actor.p ? read_topic_if_present(db, name, &e->arena, &e->before, &e->existed, err) : DT_OK;
}

/* Reads the topic after the change. If there is an actor, writes the event. */
static dt_status record_topic_after(struct topic_event *e, dt_db *db, struct dt_str name, const char *action,
                                    int64_t now_ms, struct dt_error *err)
{
    struct dt_topic_now unseen = {.arena = &e->arena};
    struct dt_topic_now *now = e->now ? e->now : &unseen;
    bool there = false;
    dt_status status =
        e->actor.p || e->now ? read_topic_if_present(db, name, now->arena, &now->topic, &there, err) : DT_OK;
    if (status != DT_OK || !there || !e->actor.p)
        return status;
    const struct dt_job_event event = {.at_ms = now_ms, .actor = e->actor, .action = dt_str(action)};
    return dt_event_of_topic(db, &event, e->existed ? &e->before : NULL, &now->topic, err);
}

struct putting {
    struct topic_event event;
    const struct dt_topic *topic;
    enum { PUT_ALL, PUT_BUT_PAUSED, PUT_IF_ABSENT } how;
    struct dt_topic_terms *terms;
    enum dt_delivery_id fallback; /* delivery of a new topic whose settings have none */
    struct dt_new_owners *owners;
    bool created; /* out: the topic did not exist before */
};

/* Checks whether the topic may be made or changed. If several reasons are against it, returns the one that reveals
 * least about topics of other callers. */
static dt_status check_put(dt_db *db, const struct putting *put, const char *installation, enum dt_delivery_id was,
                           struct dt_error *err)
{
    const struct dt_topic *t = put->topic;
    struct dt_topic_terms *terms = put->terms;
    const struct dt_str kafka_name = t->kafka_topic.p ? t->kafka_topic : t->name;
    const enum dt_delivery_id delivery = t->delivery ? t->delivery : was ? was : put->fallback;
    const struct dt_param name = DT_P_STR(t->name);
    const struct dt_param kafka = DT_P_STR(kafka_name);
    int64_t version = 0;
    bool found = false;
    dt_status status = DT_OK;
    /* If the caller has read the topic, its version must still be the one that was read. */
    if (terms && terms->of_version) {
        status = dt_db_read_number(db, dt_sql_select_topic_version, DT_PARAMS(name), NULL, &version, err);
        if (status == DT_OK && version != terms->version)
            return refuse_topic_terms(terms, DT_TOPIC_CHANGED, err, "its version has changed");
    }
    /* A topic without a kafka_topic uses its own name in Kafka, but only if its jobs are sent to Kafka. */
    if (status == DT_OK && (t->kafka_topic.p || delivery == DT_DELIVERY_KAFKA) &&
        (dt_kafka_topic_internal(kafka_name) || clashes_with_ours(kafka_name, installation)))
        return refuse_topic_terms(terms, DT_TOPIC_INTERNAL, err, "its Kafka topic is internal to an installation");
    /* If the topic already has a Kafka topic that the caller has no right to, it may keep it. */
    if (status == DT_OK && terms && terms->foreign) {
        status = dt_db_read_number(db, dt_sql_find_topic_as_named, DT_PARAMS(name, DT_P_STR(t->kafka_topic)), &found,
                                   NULL, err);
        if (status == DT_OK && !found)
            return refuse_topic_terms(terms, DT_TOPIC_FOREIGN, err, "the caller has no right to its Kafka topic");
    }
    if (status == DT_OK && !was)
        status = refuse_topic_beyond_limit(db, t->name, terms, err);
    if (status != DT_OK)
        return status;
    status = dt_db_read_number(db, dt_sql_find_kafka_clash, DT_PARAMS(kafka, kafka, name), &found, NULL, err);
    return status == DT_OK && found
               ? refuse_topic_terms(terms, DT_TOPIC_CLASH, err, "its Kafka topic clashes with that of another topic")
               : status;
}

/* Writes the topic if a setting changed. */
static dt_status change_topic(dt_db *db, const struct putting *put, int64_t now_ms, uint64_t *changed,
                              struct dt_error *err)
{
    const struct dt_topic *t = put->topic;
    const struct settings s = settings_of(t, DT_DELIVERY_UNSET);
    const struct dt_param keep = DT_P_INT(put->how != PUT_ALL);
    const bool limits = t->max_in_flight || t->rate_limit.p;
    dt_status status = limits ? dt_topic_gate_close(db, t->name, now_ms, err) : DT_OK;
    if (status != DT_OK)
        return status;
    return dt_db_run(db, dt_sql_update_topic,
                     DT_PARAMS(s.delivery, s.kafka_topic, s.retry, s.ack_timeout, s.retention, keep, s.paused, s.url,
                               s.hosts, s.headers, s.secret, s.timeout, s.max_in_flight, s.rate_limit, s.alerts,
                               DT_P_INT(now_ms), DT_P_STR(t->name), s.delivery, s.kafka_topic, s.retry, s.ack_timeout,
                               s.retention, keep, s.paused, s.url, s.hosts, s.headers, s.secret, s.timeout,
                               s.max_in_flight, s.rate_limit, s.alerts),
                     changed, err);
}

/* Makes or changes the topic. Must be called while the installation's row is locked. *changed: something was
 * written. */
static dt_status store_topic(struct putting *put, dt_db *db, int64_t now_ms, const char *installation, bool *changed,
                             struct dt_error *err)
{
    const struct dt_topic *t = put->topic;
    const struct dt_param name = DT_P_STR(t->name);
    const struct dt_param now = DT_P_INT(now_ms);
    const struct settings s = settings_of(t, put->fallback);
    enum dt_delivery_id was = DT_DELIVERY_UNSET;
    uint64_t rows = 1;
    int64_t owner = 0;
    put->created = *changed = false;
    dt_status status = find_delivery(db, t->name, &was, err);
    const bool exists = was != DT_DELIVERY_UNSET;
    if (status != DT_OK || (exists && put->how == PUT_IF_ABSENT))
        return status;
    status = check_put(db, put, installation, was, err);
    if (status == DT_OK && !exists)
        status = dt_topic_owner_of_new(db, put->owners, t->name, &owner, err);
    DT_THEN(status, record_topic_before(&put->event, db, t->name, err));
    if (status == DT_OK && exists)
        status = change_topic(db, put, now_ms, &rows, err);
    else if (status == DT_OK)
        status = dt_db_run(db, dt_sql_insert_topic,
                           DT_PARAMS(name, s.delivery, s.kafka_topic, s.retry, s.ack_timeout, s.retention, s.paused,
                                     s.url, s.hosts, s.headers, s.secret, s.timeout, s.max_in_flight, s.rate_limit,
                                     s.alerts, DT_P_INT(owner), now, now),
                           NULL, err);
    DT_THEN(status,
            record_topic_after(&put->event, db, t->name, exists ? "topic_change" : "topic_create", now_ms, err));
    put->created = !exists;
    *changed = status == DT_OK && rows > 0;
    return status;
}

static dt_status put_topic_in_txn(void *arg, dt_db *db, int64_t now_ms, struct dt_error *err)
{
    struct putting *put = arg;
    const struct dt_topic *t = put->topic;
    char installation[101];
    bool changed = false;
    dt_status status = DT_OK;
    put->owners->read = false;
    /* If the topic gets a limit, locks its row of topic_gates, so that a claim that begins after the answer knows the
     * limit. */
    if (!DT_UNGUARDED(LIMIT_PUT_LOCKS_GATE) && (t->max_in_flight || t->rate_limit.p))
        status = dt_topic_gate_make(db, t->name, err);
    DT_THEN(status, lock_topics(db, installation, err));
    DT_THEN(status, store_topic(put, db, now_ms, installation, &changed, err));
    return status == DT_OK && changed ? dt_topics_raise_version(db, err) : status;
}

/* Returns the delivery of a new topic whose settings have none. */
static enum dt_delivery_id default_delivery(dt_store *store)
{
    return dt_config_has_kafka(dt_store_config(store)) ? DT_DELIVERY_KAFKA : DT_DELIVERY_PULL;
}

dt_status dt_store_topic_put(dt_store *store, const struct dt_topic *topic, bool set_paused,
                             struct dt_topic_terms *terms, struct dt_topic_now *now, struct dt_error *err)
{
    struct dt_new_owners owners = {.read = false};
    struct putting put = {.event = {.actor = dt_store_actor(store), .now = now},
                          .owners = &owners,
                          .topic = topic,
                          .how = set_paused ? PUT_ALL : PUT_BUT_PAUSED,
                          .terms = terms,
                          .fallback = default_delivery(store)};
    if (terms)
        terms->refusal = DT_TOPIC_FINE;
    dt_status status = dt_store_commit_work(store, NULL, put_topic_in_txn, &put, err);
    dt_arena_clear(&put.event.arena);
    dt_arena_clear(&owners.arena);
    now->created = put.created;
    return status;
}

/* ---- topics that are made by their first job ---- */

struct ensuring {
    struct dt_topic_ensure *v;
    size_t n;
    enum dt_delivery_id fallback;
};

static dt_status ensure_topics_in_txn(void *arg, dt_db *db, int64_t now_ms, struct dt_error *err)
{
    const struct ensuring *e = arg;
    struct dt_new_owners owners = {.read = false};
    char installation[101];
    bool any = false;
    dt_status status = lock_topics(db, installation, err);
    for (size_t i = 0; status == DT_OK && i < e->n; i++) {
        struct dt_topic_ensure *wanted = &e->v[i];
        struct dt_topic_terms *terms = wanted->terms;
        const struct dt_topic topic = {
            .name = wanted->name, .retention_ms = -1, .delivery = terms ? terms->delivery : DT_DELIVERY_UNSET};
        struct putting put = {
            .topic = &topic, .how = PUT_IF_ABSENT, .terms = terms, .fallback = e->fallback, .owners = &owners};
        bool changed;
        if (wanted->there)
            continue;
        if (terms)
            terms->refusal = DT_TOPIC_FINE;
        wanted->status = status = store_topic(&put, db, now_ms, installation, &changed, err);
        any |= changed;
        if (status == DT_INVALID) /* the caller may not make this topic; the other topics are made */
            status = DT_OK;
    }
    dt_arena_clear(&owners.arena);
    return status == DT_OK && any ? dt_topics_raise_version(db, err) : status;
}

dt_status dt_store_topics_ensure(dt_store *store, struct dt_topic_ensure *v, size_t n, struct dt_error *err)
{
    struct ensuring e = {.v = v, .fallback = default_delivery(store)};
    dt_db *db;
    if (n == 0)
        return DT_OK;
    /* Reads the topics without a lock first. If all exist, the caller waits for no lock. */
    dt_status status = dt_store_db(store, &db, err);
    for (size_t i = 0; status == DT_OK && i < n; i++) {
        enum dt_delivery_id delivery = DT_DELIVERY_UNSET;
        v[i].status = DT_OK;
        status = find_delivery(db, v[i].name, &delivery, err);
        v[i].there = delivery != DT_DELIVERY_UNSET;
    }
    for (; status == DT_OK && e.v < v + n; e.v += e.n) {
        size_t missing = 0;
        for (e.n = 0; e.v + e.n < v + n && missing < ENSURED_AT_ONCE; e.n++)
            missing += !e.v[e.n].there;
        if (missing)
            status = dt_store_commit_work(store, NULL, ensure_topics_in_txn, &e, err);
    }
    return status;
}

dt_status dt_store_topic_ensure(dt_store *store, struct dt_str name, struct dt_topic_terms *terms, struct dt_error *err)
{
    struct dt_topic_ensure one = {.name = name, .terms = terms};
    dt_status status = dt_store_topics_ensure(store, &one, 1, err);
    return status == DT_OK ? one.status : status;
}

/* ---- pauses ---- */

dt_status dt_topic_pause_in_txn(dt_db *db, int64_t now_ms, const struct dt_topic_pausing *p, struct dt_error *err)
{
    struct topic_event event = {.actor = p->actor, .now = p->now};
    char installation[101];
    enum dt_delivery_id delivery = DT_DELIVERY_UNSET;
    uint64_t changed = 0;
    dt_status status = record_topic_before(&event, db, p->name, err);
    DT_THEN(status, lock_topics(db, installation, err));
    DT_THEN(status, find_delivery(db, p->name, &delivery, err));
    if (status == DT_OK && !delivery)
        status = dt_fail(err, DT_NOT_FOUND, "no such topic");
    DT_THEN(status, dt_db_run(db, dt_sql_pause_topic,
                              DT_PARAMS(DT_P_INT(p->paused), DT_P_INT(now_ms), DT_P_STR(p->name), DT_P_INT(p->paused)),
                              &changed, err));
    if (status == DT_OK && changed)
        status = dt_topics_raise_version(db, err);
    DT_THEN(status, record_topic_after(&event, db, p->name, p->paused ? "topic_pause" : "topic_resume", now_ms, err));
    dt_arena_clear(&event.arena);
    return status;
}

static dt_status pause_topic(void *arg, dt_db *db, int64_t now_ms, struct dt_error *err)
{
    return dt_topic_pause_in_txn(db, now_ms, arg, err);
}

dt_status dt_store_topic_pause(dt_store *store, struct dt_str name, bool paused, struct dt_topic_now *now,
                               struct dt_error *err)
{
    struct dt_topic_pausing pausing = {.name = name, .paused = paused, .actor = dt_store_actor(store), .now = now};
    return dt_store_commit_work(store, NULL, pause_topic, &pausing, err);
}
