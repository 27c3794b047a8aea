/*
 * Topics: settings, pause, counts; and what leaders say about their shards.
 *
 * Every change of a topic is made under a lock on the installation row and raises installation.topics_version in the
 * same transaction. So changes come one after the other (two new topics whose Kafka names clash cannot both get in),
 * and whoever keeps settings in memory sees by one number that they are old: a claim that begins after a pause was
 * answered reads the raised number.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/hooks/guard.h"
#include "store/events/event_of.h"
#include "store/jobs/change_txn.h"
#include "store/limits/topic_gate.h"
#include "store/sql/statements.h"
#include "store/store_internal.h"
#include "store/topics_version.h"

#define OVERDUE_ROWS 20000

static dt_status read_callback(const dt_db *db, struct dt_arena *arena, struct dt_topic_callback *out)
{
    enum { FIRST = 10 };
    struct dt_str *texts[] = {&out->url, &out->headers, &out->secret};
    for (unsigned i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
        *texts[i] = dt_arena_copy(arena, dt_db_bytes(db, FIRST + i));
        if (!texts[i]->p && !dt_db_is_null(db, FIRST + i))
            return DT_NOMEM;
    }
    out->timeout_ms = dt_db_i64(db, FIRST + sizeof(texts) / sizeof(*texts));
    return DT_OK;
}

static dt_status read_topic(const dt_db *db, struct dt_arena *arena, void *row, void *arg)
{
    struct dt_topic *t = row;
    (void)arg;
    *t = (struct dt_topic){
        .name = dt_arena_copy(arena, dt_db_bytes(db, 0)),
        .kafka_topic = dt_arena_copy(arena, dt_db_bytes(db, 1)),
        .retry = dt_arena_copy(arena, dt_db_bytes(db, 2)),
        .ack_timeout_ms = dt_db_i64(db, 3),
        .retention_ms = dt_db_is_null(db, 4) ? -1 : dt_db_i64(db, 4),
        .paused = dt_db_i64(db, 5) != 0,
        .created_at_ms = dt_db_i64(db, 6),
        .updated_at_ms = dt_db_i64(db, 7),
        .version = dt_db_i64(db, 8),
        .delivery = (enum dt_delivery_id)dt_db_i64(db, 9),
        .max_in_flight = dt_db_i64(db, 14),
        .rate_limit = dt_arena_copy(arena, dt_db_bytes(db, 15)),
        .deletion = dt_db_i64(db, 16),
        .alerts = dt_arena_copy(arena, dt_db_bytes(db, 17)),
    };
    bool out_of_memory = !t->name.p || (!t->kafka_topic.p && !dt_db_is_null(db, 1)) ||
                         (!t->retry.p && !dt_db_is_null(db, 2)) || (!t->rate_limit.p && !dt_db_is_null(db, 15)) ||
                         (!t->alerts.p && !dt_db_is_null(db, 17));
    return out_of_memory ? DT_NOMEM : read_callback(db, arena, &t->callback);
}

static dt_status fetch_failed(dt_db *db, dt_status status, struct dt_error *err)
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
    status = dt_db_next(db) ? read_topic(db, arena, out, NULL) : DT_NOT_FOUND;
    return fetch_failed(db, status, err);
}

dt_status dt_store_topic_get(dt_store *store, struct dt_str name, struct dt_arena *arena, struct dt_topic *out,
                             struct dt_error *err)
{
    dt_db *db;
    dt_status status = dt_store_db(store, &db, err);
    return status == DT_OK ? dt_topic_read(db, name, arena, out, err) : status;
}

/* ---- pages of topics ---- */

#define RANGES_MAX 100 /* prefixes that one page looks at */

static int compare_names(const void *a, const void *b)
{
    const struct dt_str *x = a;
    const struct dt_str *y = b;
    int order = memcmp(x->p, y->p, x->n < y->n ? x->n : y->n);
    return order ? order : (x->n > y->n) - (x->n < y->n);
}

/* "in." -> what is above all names that begin with it: names have no byte above 0x7E. */
static struct dt_str above_prefix(struct dt_arena *arena, struct dt_str prefix)
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

/* The prefixes in order, without those that another one has in it: ranges that do not meet. */
static dt_status sort_prefixes(const struct dt_topic_filter *f, struct dt_arena *arena, struct dt_str **out, size_t *n)
{
    struct dt_str *v = dt_arena_alloc(arena, (f->n_prefixes + 1) * sizeof(*v));
    *out = v;
    *n = 0;
    if (!v)
        return DT_NOMEM;
    if (f->n_prefixes)
        memcpy(v, f->prefixes, f->n_prefixes * sizeof(*v));
    qsort(v, f->n_prefixes, sizeof(*v), compare_names);
    for (size_t i = 0; i < f->n_prefixes; i++)
        if (v[i].n > 0 && (*n == 0 || !dt_str_begins(v[i], v[*n - 1])))
            v[(*n)++] = v[i];
    return DT_OK;
}

/* A page being filled. */
struct topic_page {
    dt_db *db;
    struct dt_arena *arena;
    struct dt_topic *topics;
    size_t n, limit;
    struct dt_error *err;
};

static dt_status read_page(struct topic_page *p)
{
    dt_status status = DT_OK;
    while (status == DT_OK && dt_db_next(p->db))
        status = read_topic(p->db, p->arena, &p->topics[p->n++], NULL);
    return fetch_failed(p->db, status, p->err);
}

static dt_status read_all(struct topic_page *p, struct dt_str after)
{
    dt_status status = dt_db_query(p->db, dt_sql_select_topics, DT_PARAMS(DT_P_STR(after), DT_P_INT(p->limit)), p->err);
    return status != DT_OK ? status : read_page(p);
}

static dt_status read_range(struct topic_page *p, struct dt_str after, struct dt_str from, struct dt_str below)
{
    dt_status status =
        dt_db_query(p->db, dt_sql_select_topics_between,
                    DT_PARAMS(DT_P_STR(after), DT_P_STR(from), DT_P_STR(below), DT_P_INT(p->limit - p->n)), p->err);
    return status != DT_OK ? status : read_page(p);
}

static dt_status read_prefixes(struct topic_page *p, const struct dt_topic_filter *f, struct dt_topic_list *out)
{
    struct dt_str *prefixes;
    size_t n;
    size_t looks = 0;
    dt_status status = sort_prefixes(f, p->arena, &prefixes, &n);
    for (size_t i = 0; status == DT_OK && i < n && p->n < p->limit; i++) {
        struct dt_str below = above_prefix(p->arena, prefixes[i]);
        if (!below.p)
            status = DT_NOMEM;
        else if (compare_names(&f->after, &below) >= 0)
            continue;
        else if (looks++ == RANGES_MAX) {
            out->more = true;
            return DT_OK;
        } else
            status = read_range(p, f->after, prefixes[i], below);
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
    if (status == DT_OK)
        status = f.bound ? read_prefixes(&p, &f, out) : read_all(&p, f.after);
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

/* ---- changes ---- */

/* All changes of topics queue here. */
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

static char folded(char c)
{
    return c == '.' ? '_' : c;
}

static bool same_fold(struct dt_str a, struct dt_str b)
{
    for (size_t i = 0; i < a.n && a.n == b.n; i++) {
        if (folded(a.p[i]) != folded(b.p[i]))
            return false;
    }
    return a.n == b.n;
}

static dt_status refuse(struct dt_topic_terms *terms, enum dt_topic_refusal refusal, struct dt_error *err,
                        const char *why)
{
    if (terms)
        terms->refusal = refusal;
    return dt_fail(err, DT_INVALID, "%s", why);
}

static bool clashes_with_ours(struct dt_str kafka_name, const char *installation)
{
    static const char *const ours[] = {"ledger", "results", "results.rejected", "commands", "commands.rejected",
                                       "dead",   "alerts"};
    char name[140];
    size_t n = strlen(installation);
    if (kafka_name.n > n && memcmp(kafka_name.p, installation, n) == 0 && kafka_name.p[n] == '.')
        return true;
    for (size_t i = 0; i < sizeof(ours) / sizeof(*ours); i++) {
        snprintf(name, sizeof(name), "%s.%s", installation, ours[i]);
        if (same_fold(kafka_name, dt_str(name)))
            return true;
    }
    return false;
}

static dt_status refuse_internal(struct dt_str kafka_name, const char *installation, struct dt_topic_terms *terms,
                                 struct dt_error *err)
{
    if (!dt_kafka_topic_internal(kafka_name) && !clashes_with_ours(kafka_name, installation))
        return DT_OK;
    return refuse(terms, DT_TOPIC_INTERNAL, err, "its Kafka topic is internal to an installation");
}

static dt_status refuse_clash(dt_db *db, struct dt_str name, struct dt_str kafka_name, struct dt_topic_terms *terms,
                              struct dt_error *err)
{
    dt_status status = dt_db_query(db, dt_sql_find_kafka_clash,
                                   DT_PARAMS(DT_P_STR(kafka_name), DT_P_STR(kafka_name), DT_P_STR(name)), err);
    if (status != DT_OK)
        return status;
    bool clash = dt_db_next(db);
    status = dt_db_end(db, err);
    return status || !clash ? status
                            : refuse(terms, DT_TOPIC_CLASH, err, "its Kafka topic clashes with that of another topic");
}

static dt_status topic_exists(dt_db *db, struct dt_str name, bool *exists, struct dt_error *err)
{
    dt_status status = dt_db_query(db, dt_sql_find_topic, DT_PARAMS(DT_P_STR(name)), err);
    if (status != DT_OK)
        return status;
    *exists = dt_db_next(db);
    return dt_db_end(db, err);
}

/* A Kafka topic that is not the maker's to name may stay where somebody else put it. */
static dt_status refuse_foreign(dt_db *db, const struct dt_topic *t, struct dt_topic_terms *terms, struct dt_error *err)
{
    if (!terms || !terms->foreign)
        return DT_OK;
    dt_status status =
        dt_db_query(db, dt_sql_find_topic_as_named, DT_PARAMS(DT_P_STR(t->name), DT_P_STR(t->kafka_topic)), err);
    if (status != DT_OK)
        return status;
    bool stays = dt_db_next(db);
    status = dt_db_end(db, err);
    return status || stays ? status
                           : refuse(terms, DT_TOPIC_FOREIGN, err, "its Kafka topic is not the maker's to name");
}

/* ---- how many there may be: counted under the lock that all makers take, so the bounds are exact ---- */

static dt_status count_topics(dt_db *db, struct dt_str prefix, int64_t *n, struct dt_error *err)
{
    struct dt_arena arena;
    dt_arena_init(&arena);
    struct dt_str below = above_prefix(&arena, prefix);
    dt_status status = below.p ? dt_db_query(db, dt_sql_count_topics, DT_PARAMS(DT_P_STR(prefix), DT_P_STR(below)), err)
                               : dt_fail(err, DT_NOMEM, "out of memory");
    if (status == DT_OK) {
        *n = dt_db_next(db) ? dt_db_i64(db, 0) : 0;
        status = dt_db_end(db, err);
    }
    dt_arena_clear(&arena);
    return status;
}

static dt_status refuse_one_more(dt_db *db, struct dt_str name, struct dt_topic_terms *terms, struct dt_error *err)
{
    int64_t there = 0;
    dt_status status = DT_OK;
    if (terms && terms->topics_max)
        status = count_topics(db, DT_STR_LIT(""), &there, err);
    if (status == DT_OK && terms && terms->topics_max && there >= terms->topics_max)
        return refuse(terms, DT_TOPIC_LIMIT, err, "there are as many topics as there may be");
    for (size_t i = 0; status == DT_OK && terms && terms->prefix_topics_max && i < terms->n_prefixes; i++) {
        if (terms->prefixes[i].n == 0 || !dt_str_begins(name, terms->prefixes[i]))
            continue;
        status = count_topics(db, terms->prefixes[i], &there, err);
        if (status == DT_OK && there >= terms->prefix_topics_max)
            return refuse(terms, DT_TOPIC_PREFIX_LIMIT, err, "as many topics as may begin so begin with the prefix");
    }
    return status;
}

/* ---- writing ---- */

struct settings {
    struct dt_param delivery, kafka_topic, retry, ack_timeout, retention, paused, url, headers, secret, timeout;
    struct dt_param max_in_flight, rate_limit, alerts;
};

/* An unset delivery is the fallback. */
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
        .url = DT_P_STR_OR_NULL(t->callback.url),
        .headers = DT_P_STR_OR_NULL(t->callback.headers),
        .secret = DT_P_STR_OR_NULL(t->callback.secret),
        .timeout = DT_P_INT_OR_NULL(t->callback.timeout_ms),
    };
}

static dt_status insert_topic(dt_db *db, const struct dt_topic *t, enum dt_delivery_id fallback, int64_t now_ms,
                              struct dt_error *err)
{
    struct settings s = settings_of(t, fallback);
    return dt_db_run(db, dt_sql_insert_topic,
                     DT_PARAMS(DT_P_STR(t->name), s.delivery, s.kafka_topic, s.retry, s.ack_timeout, s.retention,
                               s.paused, s.url, s.headers, s.secret, s.timeout, s.max_in_flight, s.rate_limit, s.alerts,
                               DT_P_INT(now_ms), DT_P_INT(now_ms)),
                     NULL, err);
}

/* Writes nothing where nothing changed. */
static dt_status update_topic(dt_db *db, const struct dt_topic *t, bool set_paused, int64_t now_ms, uint64_t *changed,
                              struct dt_error *err)
{
    struct settings s = settings_of(t, DT_DELIVERY_UNSET);
    struct dt_param keep = DT_P_INT(!set_paused);
    return dt_db_run(db, dt_sql_update_topic,
                     DT_PARAMS(s.delivery, s.kafka_topic, s.retry, s.ack_timeout, s.retention, keep, s.paused, s.url,
                               s.headers, s.secret, s.timeout, s.max_in_flight, s.rate_limit, s.alerts,
                               DT_P_INT(now_ms), DT_P_STR(t->name), s.delivery, s.kafka_topic, s.retry, s.ack_timeout,
                               s.retention, keep, s.paused, s.url, s.headers, s.secret, s.timeout, s.max_in_flight,
                               s.rate_limit, s.alerts),
                     changed, err);
}

/* The topic before a change and after it: for an event, where there is somebody to name; and for whoever wants to see
 * it. */
struct topic_event {
    struct dt_str actor;
    struct dt_topic_now *now; /* NULL: nobody wants to */
    struct dt_arena arena;
    struct dt_topic before;
    bool existed;
};

static dt_status read_in_txn(dt_db *db, struct dt_str name, struct dt_arena *arena, struct dt_topic *out, bool *there,
                             struct dt_error *err)
{
    dt_status status = dt_db_query(db, dt_sql_select_topic, DT_PARAMS(DT_P_STR(name)), err);
    if (status != DT_OK)
        return status;
    *there = dt_db_next(db);
    status = *there ? read_topic(db, arena, out, NULL) : DT_OK;
    return fetch_failed(db, status, err);
}

static dt_status note_before(struct topic_event *e, dt_db *db, struct dt_str name, struct dt_error *err)
{
    e->existed = false;
    return e->actor.p ? read_in_txn(db, name, &e->arena, &e->before, &e->existed, err) : DT_OK;
}

/* Reads the topic after the change, and writes the event. */
static dt_status note_after(struct topic_event *e, dt_db *db, struct dt_str name, const char *action, int64_t now_ms,
                            struct dt_error *err)
{
    struct dt_topic_now unseen = {.arena = &e->arena};
    struct dt_topic_now *now = e->now ? e->now : &unseen;
    bool there = false;
    dt_status status = e->actor.p || e->now ? read_in_txn(db, name, now->arena, &now->topic, &there, err) : DT_OK;
    if (status != DT_OK || !there || !e->actor.p)
        return status;
    const struct dt_job_event event = {.at_ms = now_ms, .actor = e->actor, .action = dt_str(action)};
    return dt_event_of_topic(db, &event, e->existed ? &e->before : NULL, &now->topic, err);
}

/* A topic that is to be made or replaced. */
struct putting {
    struct topic_event event;
    const struct dt_topic *topic;
    enum { PUT_ALL, PUT_BUT_PAUSED, PUT_IF_ABSENT } how;
    struct dt_topic_terms *terms;
    enum dt_delivery_id fallback; /* of a topic that is made and does not say */
    bool created;                 /* out */
};

/* Whoever puts what it has read from a topic puts it onto that version of it. */
static dt_status refuse_changed(dt_db *db, struct dt_str name, struct dt_topic_terms *terms, struct dt_error *err)
{
    if (!terms || !terms->of_version)
        return DT_OK;
    dt_status status = dt_db_query(db, dt_sql_select_topic_version, DT_PARAMS(DT_P_STR(name)), err);
    if (status != DT_OK)
        return status;
    int64_t version = dt_db_next(db) ? dt_db_i64(db, 0) : 0;
    status = dt_db_end(db, err);
    return status || version == terms->version ? status
                                               : refuse(terms, DT_TOPIC_CHANGED, err, "it has another version by now");
}

/* Judges whether the topic may be as it is put; of several reasons the one counts that tells least of others. */
static dt_status judge(dt_db *db, const struct dt_topic *t, const char *installation, bool exists,
                       struct dt_topic_terms *terms, struct dt_error *err)
{
    struct dt_str kafka_name = t->kafka_topic.p ? t->kafka_topic : t->name;
    dt_status status = refuse_changed(db, t->name, terms, err);
    if (status == DT_OK)
        status = refuse_internal(kafka_name, installation, terms, err);
    if (status == DT_OK)
        status = refuse_foreign(db, t, terms, err);
    if (status == DT_OK && !exists)
        status = refuse_one_more(db, t->name, terms, err);
    return status != DT_OK ? status : refuse_clash(db, t->name, kafka_name, terms, err);
}

/* Locks the gate of a topic that has a limit from now on: a claim that begins after the answer knows it. */
static dt_status lock_gate(dt_db *db, const struct dt_topic *t, struct dt_error *err)
{
    bool limits = !DT_UNGUARDED(LIMIT_PUT_LOCKS_GATE) && (t->max_in_flight || t->rate_limit.p);
    return limits ? dt_topic_gate_make(db, t->name, err) : DT_OK;
}

static dt_status change_topic(dt_db *db, const struct putting *put, int64_t now_ms, uint64_t *changed,
                              struct dt_error *err)
{
    const struct dt_topic *t = put->topic;
    bool limits = t->max_in_flight || t->rate_limit.p;
    dt_status status = limits ? dt_topic_gate_close(db, t->name, now_ms, err) : DT_OK;
    return status == DT_OK ? update_topic(db, t, put->how == PUT_ALL, now_ms, changed, err) : status;
}

static dt_status put_locked(void *arg, dt_db *db, int64_t now_ms, struct dt_error *err)
{
    struct putting *put = arg;
    const struct dt_topic *t = put->topic;
    put->created = false;
    char installation[101];
    bool exists = false;
    uint64_t changed = 1;
    dt_status status = lock_gate(db, t, err);
    if (status == DT_OK)
        status = lock_topics(db, installation, err);
    if (status == DT_OK)
        status = topic_exists(db, t->name, &exists, err);
    if (status != DT_OK || (exists && put->how == PUT_IF_ABSENT))
        return status;
    status = judge(db, t, installation, exists, put->terms, err);
    if (status == DT_OK)
        status = note_before(&put->event, db, t->name, err);
    if (status == DT_OK)
        status =
            exists ? change_topic(db, put, now_ms, &changed, err) : insert_topic(db, t, put->fallback, now_ms, err);
    if (status == DT_OK && changed)
        status = dt_topics_raise_version(db, err);
    if (status == DT_OK)
        status = note_after(&put->event, db, t->name, exists ? "topic_change" : "topic_create", now_ms, err);
    put->created = !exists;
    return status;
}

static dt_status put_topic(dt_store *store, struct putting *put, struct dt_error *err)
{
    if (put->terms)
        put->terms->refusal = DT_TOPIC_FINE;
    put->fallback = dt_config_has_kafka(dt_store_config(store)) ? DT_DELIVERY_KAFKA : DT_DELIVERY_PULL;
    return dt_store_commit_work(store, NULL, put_locked, put, err);
}

dt_status dt_store_topic_put(dt_store *store, const struct dt_topic *topic, bool set_paused,
                             struct dt_topic_terms *terms, struct dt_topic_now *now, struct dt_error *err)
{
    struct putting put = {.event = {.actor = dt_store_actor(store), .now = now},
                          .topic = topic,
                          .how = set_paused ? PUT_ALL : PUT_BUT_PAUSED,
                          .terms = terms};
    dt_arena_init(&put.event.arena);
    dt_status status = put_topic(store, &put, err);
    dt_arena_clear(&put.event.arena);
    now->created = put.created;
    return status;
}

dt_status dt_store_topic_ensure(dt_store *store, struct dt_str name, struct dt_topic_terms *terms, struct dt_error *err)
{
    const struct dt_topic topic = {
        .name = name, .retention_ms = -1, .delivery = terms ? terms->delivery : DT_DELIVERY_UNSET};
    struct putting put = {.topic = &topic, .how = PUT_IF_ABSENT, .terms = terms};
    dt_db *db;
    bool exists = false;
    dt_status status = dt_store_db(store, &db, err);
    if (status == DT_OK)
        status = topic_exists(db, name, &exists, err);
    return status || exists ? status : put_topic(store, &put, err);
}

static dt_status set_paused(dt_db *db, int64_t now_ms, struct dt_str name, bool paused, struct dt_error *err)
{
    char installation[101];
    bool exists = false;
    uint64_t changed = 0;
    dt_status status = lock_topics(db, installation, err);
    if (status == DT_OK)
        status = topic_exists(db, name, &exists, err);
    if (status == DT_OK && !exists)
        status = dt_fail(err, DT_NOT_FOUND, "no such topic");
    if (status == DT_OK)
        status =
            dt_db_run(db, dt_sql_pause_topic,
                      DT_PARAMS(DT_P_INT(paused), DT_P_INT(now_ms), DT_P_STR(name), DT_P_INT(paused)), &changed, err);
    return status == DT_OK && changed ? dt_topics_raise_version(db, err) : status;
}

dt_status dt_topic_pause_in_txn(dt_db *db, int64_t now_ms, const struct dt_topic_pausing *p, struct dt_error *err)
{
    struct topic_event event = {.actor = p->actor, .now = p->now};
    dt_arena_init(&event.arena);
    dt_status status = note_before(&event, db, p->name, err);
    if (status == DT_OK)
        status = set_paused(db, now_ms, p->name, p->paused, err);
    if (status == DT_OK)
        status = note_after(&event, db, p->name, p->paused ? "topic_pause" : "topic_resume", now_ms, err);
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

/* ---- looking ---- */

static void add_counts(const dt_db *db, struct dt_topic_counts *out)
{
    int64_t state = dt_db_i64(db, 0) - 1;
    if (state >= 0 && state < DT_JOB_STATES)
        out->by_state[state] += dt_db_i64(db, 1);
    for (unsigned s = 0; state < 0 && s < DT_JOB_STATES; s++)
        out->by_state[s] += dt_db_i64(db, s + 1);
}

static dt_status count_states(dt_db *db, struct dt_str name, struct dt_topic_counts *out, struct dt_error *err)
{
    dt_status status = dt_db_query(db, dt_sql_select_topic_counts, DT_PARAMS(DT_P_STR(name), DT_P_STR(name)), err);
    if (status != DT_OK)
        return status;
    while (dt_db_next(db))
        add_counts(db, out);
    for (int s = 0; s < DT_JOB_STATES; s++) /* rows of manual edits count once the audit has found them */
        out->by_state[s] = out->by_state[s] > 0 ? out->by_state[s] : 0;
    return dt_db_end(db, err);
}

static dt_status find_overdue(dt_db *db, struct dt_str name, struct dt_topic_counts *out, struct dt_error *err)
{
    dt_status status = dt_db_query(db, dt_sql_select_overdue, DT_PARAMS(DT_P_STR(name), DT_P_INT(OVERDUE_ROWS)), err);
    if (status != DT_OK)
        return status;
    out->oldest_overdue_ms = dt_db_next(db) ? dt_db_i64(db, 0) : 0;
    return dt_db_end(db, err);
}

dt_status dt_store_topic_counts(dt_store *store, struct dt_str name, struct dt_topic_counts *out, struct dt_error *err)
{
    dt_db *db;
    memset(out, 0, sizeof(*out));
    dt_status status = dt_store_db(store, &db, err);
    if (status == DT_OK)
        status = count_states(db, name, out, err);
    if (status == DT_OK)
        status = find_overdue(db, name, out, err);
    return status;
}

static dt_status read_shard(const dt_db *db, struct dt_arena *arena, void *row, void *now_ms)
{
    struct dt_shard_info *s = row;
    *s = (struct dt_shard_info){
        .shard = (unsigned)dt_db_i64(db, 0),
        .epoch = dt_db_i64(db, 1),
        .owner = dt_arena_copy(arena, dt_db_bytes(db, 2)),
        .halted = dt_arena_copy(arena, dt_db_bytes(db, 3)),
        .inflight = dt_db_i64(db, 4),
        .seen_at_ms = dt_db_i64(db, 5),
        .waiting = dt_arena_copy(arena, dt_db_bytes(db, 6)),
        .detail = dt_arena_copy(arena, dt_db_bytes(db, 7)),
        .overdue = dt_db_i64(db, 8),
        .oldest_due_at_ms = dt_db_i64(db, 9),
        .drift_missing = dt_db_i64(db, 10),
        .drift_extra = dt_db_i64(db, 11),
        .drift_wrong = dt_db_i64(db, 12),
        .callbacks = dt_arena_copy(arena, dt_db_bytes(db, 14)),
    };
    bool out_of_memory = (!s->owner.p && !dt_db_is_null(db, 2)) || (!s->halted.p && !dt_db_is_null(db, 3)) ||
                         (!s->waiting.p && !dt_db_is_null(db, 6)) || (!s->detail.p && !dt_db_is_null(db, 7)) ||
                         (!s->callbacks.p && !dt_db_is_null(db, 14));
    s->generation = dt_db_i64(db, 13);
    *(int64_t *)now_ms = dt_db_i64(db, 15);
    return out_of_memory ? DT_NOMEM : DT_OK;
}

dt_status dt_store_shards(dt_store *store, struct dt_arena *arena, struct dt_shard_info **out, size_t *n,
                          int64_t *now_ms, struct dt_error *err)
{
    dt_db *db;
    *out = NULL;
    *n = 0;
    dt_status status = dt_store_db(store, &db, err);
    if (status == DT_OK)
        status = dt_db_query(db, dt_sql_select_shards, DT_PARAMS(DT_P_INT(DT_PROCESS_FRESH_MS)), err);
    if (status != DT_OK)
        return status;
    struct dt_rows shards = {.row_bytes = sizeof(**out), .read = read_shard, .arg = now_ms};
    status = dt_store_read_rows(db, arena, &shards, err);
    *out = shards.v;
    *n = shards.n;
    return status;
}
