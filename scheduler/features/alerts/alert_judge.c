/*
 * read figures ─▶ compare with active alerts ─▶ begin, remind, end ─▶ wake the sender
 *
 * A chore of APIs and dispatchers. One process judges, under a lease in MySQL: a dispatcher or, if no dispatcher lives,
 * an API. If its lease ends, another process continues with the alerts in MySQL. If no alert is active and no topic is
 * watched, this costs one statement in five seconds.
 */
#include "alert_parts.h"

#include "base/assert.h"
#include "base/fail_point.h"
#include "base/log.h"
#include "features/outbox/outbox.h"

#define REST_US      INT64_C(5000000) /* pause between two rounds */
#define WATCH_US     INT64_C(2000000) /* the pause if topics are watched, or an alert is active */
#define SETTLE_US    INT64_C(1000000) /* the pause if a figure has been above 0 for less than HOLDS_US */
#define RETRY_US     INT64_C(1000000)
#define FORBIDDEN_US INT64_C(30000000)
#define VALUES_US    INT64_C(5000000) /* pause between two writes of the figures of active alerts */
/* A figure must be above 0 for this time, because a takeover raises it for a moment. */
#define HOLDS_US     INT64_C(3000000)
#define LIST_AT_ONCE 1000

struct round {
    dt_alerts *a;
    int64_t now_ms;
    struct dt_alert *standing; /* in the arena, room for `cap` */
    size_t n;
    struct dt_alert **changed; /* alerts whose figures have changed */
    size_t n_changed;
    unsigned kinds[DT_ALERT_KINDS_END]; /* number of active alerts by kind */
    struct dt_error *err;
};

static int64_t mono_us(const dt_alerts *a)
{
    return dt_clock_mono_us(a->env.clock);
}

static dt_status read_standing(struct round *r)
{
    dt_alerts *a = r->a;
    struct dt_alert_list page = {.n = LIST_AT_ONCE};
    int64_t after = 0;
    dt_status status = DT_OK;
    while (status == DT_OK && page.n == LIST_AT_ONCE) {
        status = dt_store_alerts(a->judge_store, after, LIST_AT_ONCE, &a->rows, &page, r->err);
        if (status != DT_OK || page.n == 0)
            break;
        after = page.v[page.n - 1].id;
        struct dt_alert *all = dt_arena_alloc(&a->rows, (r->n + page.n) * sizeof(*all));
        if (!all)
            return dt_fail(r->err, DT_NOMEM, "out of memory");
        if (r->n)
            memcpy(all, r->standing, r->n * sizeof(*all));
        memcpy(all + r->n, page.v, page.n * sizeof(*all));
        r->standing = all;
        r->n += page.n;
    }
    r->changed = dt_arena_alloc(&a->rows, (r->n + 1) * sizeof(struct dt_alert *));
    return status == DT_OK && !r->changed ? dt_fail(r->err, DT_NOMEM, "out of memory") : status;
}

/* If another process changed the alert first, that is not a failure. */
static dt_status make_change(struct round *r, struct dt_alert_change *change)
{
    const struct dt_alert *alert = &change->alert;
    change->judge = r->a->env.process;
    dt_status status = dt_store_alert_change(r->a->judge_store, change, r->err);
    DT_FAIL_POINT("alerts.changed");
    if (status == DT_EXISTS || status == DT_VERSION)
        return DT_OK;
    if (status != DT_OK)
        return status;
    if (change->event == DT_ALERT_ENDED)
        DT_LOG(INFO, "alerts", "alert ended", DT_S("kind", dt_alert_kind_name(alert->kind)),
               DT_B("topic", alert->topic), DT_I("value", alert->value));
    else if (!alert->id)
        DT_LOG(WARN, "alerts", "alert began", DT_S("kind", dt_alert_kind_name(alert->kind)),
               DT_B("topic", alert->topic), DT_I("value", alert->value), DT_I("limit", alert->limit));
    if (change->targets)
        dt_outbox_wake(r->a->sender);
    return DT_OK;
}

struct judged {
    struct dt_alert alert; /* with its present figure; id 0: it is not active */
    struct dt_alert *row;  /* the alert as it is in MySQL; NULL: it is not active */
    const struct dt_watched_topic *topic;
    bool known;
};

static dt_status judge_one(struct round *r, struct judged *j, int64_t value, int64_t limit)
{
    const dt_alerts *a = r->a;
    const enum dt_alert_kind kind = j->alert.kind;
    const struct dt_str topic = j->alert.topic;
    const bool stands = limit > 0 && value >= limit;
    dt_assert(kind > 0 && kind < DT_ALERT_KINDS_END);
    if (j->row)
        j->alert = *j->row;
    j->alert.kind = kind;
    j->alert.topic = topic;
    j->alert.value = value;
    j->alert.limit = limit > 0 ? limit : j->alert.limit;
    if (!stands && (!j->row || (!j->known && limit > 0))) { /* the figure is not known yet, so nothing changes */
        r->kinds[kind] += j->row != NULL;
        return DT_OK;
    }
    const int64_t told_ms = j->alert.told_at_ms;
    unsigned targets = j->topic && j->topic->setting.url.p ? DT_ALERT_TO_TOPIC : 0;
    targets |= a->env.config->alerts_url[0] ? DT_ALERT_TO_INSTALLATION : 0;
    targets |= dt_config_has_kafka(a->env.config) ? DT_ALERT_TO_KAFKA : 0;
    if (!stands) { /* a topic that is no longer watched may still have a URL, which the sender reads */
        targets |= topic.p && !j->topic ? DT_ALERT_TO_TOPIC : 0;
        struct dt_alert_change end = {.event = DT_ALERT_ENDED, .alert = j->alert, .targets = told_ms ? targets : 0};
        return make_change(r, &end);
    }
    r->kinds[kind]++;
    if ((j->topic && j->topic->setting.mute_until_ms > r->now_ms) || j->alert.silenced_until_ms > r->now_ms)
        targets = 0;
    if (told_ms && !a->env.kafka) /* an API cannot send them: they would accumulate until a dispatcher lives */
        targets &= ~(unsigned)DT_ALERT_TO_KAFKA;
    if (!j->row || (targets && (!told_ms || told_ms + a->env.config->alerts_remind <= r->now_ms))) {
        struct dt_alert_change change = {
            .event = told_ms ? DT_ALERT_REMINDED : DT_ALERT_BEGAN, .alert = j->alert, .targets = targets};
        return make_change(r, &change);
    }
    if (j->row->value != value || j->row->limit != j->alert.limit) {
        dt_assert_cmp(r->n_changed, <, r->n); /* each row is judged once */
        *j->row = j->alert;
        r->changed[r->n_changed++] = j->row;
    }
    return DT_OK;
}

static dt_status judge_topics(struct round *r)
{
    struct dt_watched_topics *topics = &r->a->topics;
    dt_status status = DT_OK;
    for (size_t i = 0; i < topics->n; i++)
        memset(topics->v[i].standing, 0, sizeof(topics->v[i].standing));
    for (size_t i = 0; i < r->n && status == DT_OK; i++) { /* ends alerts about what is not watched any more */
        struct dt_alert *row = &r->standing[i];
        if (!row->topic.p || row->kind < 1 || row->kind >= DT_ALERT_KINDS_END) /* the kind is of a later version */
            continue;
        struct dt_watched_topic *topic = dt_watched_topics_find(topics, row->topic);
        if (topic && row->kind <= DT_ALERT_TOPIC_KINDS) {
            topic->standing[row->kind - 1] = row;
        } else {
            struct judged j = {.alert = {.kind = row->kind, .topic = row->topic}, .row = row};
            status = judge_one(r, &j, 0, 0);
        }
    }
    for (size_t i = 0; i < topics->n; i++) {
        struct dt_watched_topic *topic = &topics->v[i];
        for (int k = 0; k < DT_ALERT_TOPIC_KINDS && status == DT_OK; k++) {
            const enum dt_alert_kind kind = (enum dt_alert_kind)(k + 1);
            struct judged j = {.alert = {.kind = kind, .topic = topic->name},
                               .row = topic->standing[k],
                               .topic = topic,
                               .known = dt_watched_is_known(topic, kind)};
            topic->standing[k] = NULL;
            status = judge_one(r, &j, dt_watched_figure(topic, kind, r->now_ms), topic->setting.limits[k]);
        }
    }
    return status;
}

/* Returns whether the installation has the part that the alert is about: Redis, or Kafka. */
static bool has_part(const dt_alerts *a, enum dt_alert_kind kind)
{
    return kind == DT_ALERT_INDEX_INCOMPLETE   ? a->env.config->redis_endpoints[0] != '\0'
           : kind == DT_ALERT_KAFKA_UNWRITABLE ? dt_config_has_kafka(a->env.config)
                                               : true;
}

static enum dt_alert_kind kind_of_figure(unsigned i)
{
    return (enum dt_alert_kind)(i + 1 + DT_ALERT_TOPIC_KINDS);
}

static int64_t figure_of(const dt_alerts *a, unsigned i)
{
    return has_part(a, kind_of_figure(i)) ? a->was.figures[i] : 0;
}

/* Returns the figure, or 0 until it has been above 0 for HOLDS_US. */
static int64_t settled_figure(dt_alerts *a, unsigned i)
{
    const enum dt_alert_kind kind = kind_of_figure(i);
    /* without a dispatcher no shard has a leader, which is not a second alert */
    const bool follows =
        kind == DT_ALERT_NO_LEADER && a->was.figures[DT_ALERT_NO_DISPATCHER - 1 - DT_ALERT_TOPIC_KINDS] > 0;
    const int64_t figure = follows ? 0 : figure_of(a, i);
    if (figure == 0)
        a->since_us[i] = 0;
    else if (!a->since_us[i])
        a->since_us[i] = mono_us(a);
    const bool comes_and_goes = kind == DT_ALERT_NO_LEADER || kind == DT_ALERT_KAFKA_UNWRITABLE ||
                                kind == DT_ALERT_INDEX_INCOMPLETE || kind == DT_ALERT_NO_DISPATCHER;
    bool stays = figure && (!comes_and_goes || mono_us(a) - a->since_us[i] >= HOLDS_US);
    return stays ? figure : 0;
}

static dt_status judge_installation(struct round *r)
{
    dt_status status = DT_OK;
    for (unsigned i = 0; i < DT_ALERT_INSTALLATION_KINDS && status == DT_OK; i++) {
        const enum dt_alert_kind kind = kind_of_figure(i);
        struct judged j = {.alert = {.kind = kind}, .known = true};
        for (size_t row = 0; row < r->n && !j.row; row++)
            if (!r->standing[row].topic.p && r->standing[row].kind == kind)
                j.row = &r->standing[row];
        /* an active alert lasts until the figure is 0; only its beginning waits for HOLDS_US */
        int64_t figure = settled_figure(r->a, i);
        if (j.row && has_part(r->a, kind))
            figure = r->a->was.figures[i];
        status = judge_one(r, &j, figure, 1);
    }
    return status;
}

static dt_status judge(dt_alerts *a, struct dt_error *err)
{
    struct round r = {.a = a, .now_ms = a->was.now_ms, .err = err};
    dt_assert(a->knows && atomic_load(&a->ours));
    dt_arena_reset(&a->rows);
    dt_status status = dt_watched_topics_look(&a->topics, a->judge_store, a->was.now_ms, err);
    if (status == DT_OK)
        status = read_standing(&r);
    if (status == DT_OK)
        status = judge_topics(&r);
    if (status == DT_OK)
        status = judge_installation(&r);
    if (status == DT_OK && r.n_changed > 0 && mono_us(a) >= a->values_us) {
        struct dt_alert *rows = dt_arena_alloc(&a->rows, r.n_changed * sizeof(*rows));
        if (!rows)
            return dt_fail(err, DT_NOMEM, "out of memory");
        for (size_t i = 0; i < r.n_changed; i++)
            rows[i] = *r.changed[i];
        a->values_us = mono_us(a) + VALUES_US;
        status = dt_store_alert_values(a->judge_store, rows, r.n_changed, err);
    }
    if (status != DT_OK)
        return status;
    a->n_standing = 0;
    for (int kind = 1; kind < DT_ALERT_KINDS_END; kind++) {
        dt_metric_set(a->standing[kind], r.kinds[kind]);
        a->n_standing += r.kinds[kind];
    }
    return DT_OK;
}

static bool something_settles(const dt_alerts *a)
{
    bool any = false;
    for (unsigned i = 0; i < DT_ALERT_INSTALLATION_KINDS; i++)
        any = any || figure_of(a, i);
    return any;
}

static dt_status watch_figures(dt_alerts *a, struct dt_error *err)
{
    struct dt_alert_watched now = {0};
    dt_status status = dt_store_watch_alerts(a->judge_store, a->env.process, a->knows ? &a->was : NULL, 0, &now, err);
    if (status != DT_OK)
        return status;
    if (!now.ours) {
        if (atomic_exchange(&a->ours, false))
            DT_LOG(INFO, "alerts", "another process judges alerts");
        a->knows = a->frees = false;
        a->n_standing = 0;
        for (int kind = 1; kind < DT_ALERT_KINDS_END; kind++)
            dt_metric_set(a->standing[kind], 0);
        return DT_OK;
    }
    a->frees = a->frees || now.from_dead;
    if (!atomic_load(&a->ours)) { /* becomes the judge */
        status = a->frees ? dt_store_free_alert_messages(a->judge_store, err) : DT_OK;
        if (status != DT_OK)
            return status;
        a->frees = false;
        atomic_store(&a->ours, true);
        DT_LOG(INFO, "alerts", "this process judges alerts");
        memset(a->since_us, 0, sizeof(a->since_us));
        dt_outbox_wake(a->sender);
    }
    /* Judges again if a figure has changed, or may have. */
    const bool again = !a->knows || now.topics_version != a->was.topics_version;
    const bool news = again || memcmp(now.figures, a->was.figures, sizeof(now.figures)) != 0;
    status = again ? dt_watched_topics_read(&a->topics, a->judge_store, err) : DT_OK;
    if (status != DT_OK)
        return status;
    a->was = now;
    a->knows = true;
    return news || a->topics.n || a->n_standing || something_settles(a) ? judge(a, err) : DT_OK;
}

int64_t dt_alerts_judge(void *alerts, void *store)
{
    dt_alerts *a = alerts;
    struct dt_error err = {0};
    a->judge_store = store;
    const dt_status status = watch_figures(a, &err);
    if (status != DT_OK)
        a->knows = false;
    if (status == DT_DEPOSED) /* the next tick reads which process has the lease */
        return 0;
    if (status != DT_OK)
        return dt_chore_failed(&a->judge, DT_OUTAGE_MYSQL, "alerts are not judged", status, &err,
                               status == DT_FORBIDDEN ? FORBIDDEN_US : RETRY_US);
    if (!atomic_load(&a->ours))
        return mono_us(a) + WATCH_US;
    return mono_us(a) + (something_settles(a) ? SETTLE_US : a->topics.n || a->n_standing ? WATCH_US : REST_US);
}
