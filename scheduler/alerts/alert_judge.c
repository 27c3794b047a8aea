/*
 * watch (the server waits) ─▶ figures ─▶ which alerts stand ─▶ begin, remind, end ─▶ the sender is woken
 *
 * One process judges, by a lease in MySQL: a dispatcher, or an API while no dispatcher does. When the lease ends, the
 * next one begins, with what stands in MySQL. If nothing stands and no topic is watched, all of it is one statement in
 * twenty seconds.
 */
#include "alert_parts.h"

#include "base/hooks/fail_point.h"
#include "base/log.h"

#define REST_MS      INT64_C(20000) /* of the wait in the server */
#define WATCH_MS     INT64_C(2000)  /* while topics are watched, or something stands */
#define SETTLE_MS    INT64_C(1000)  /* while a figure has not stayed for HOLDS_US */
#define RETRY_US     INT64_C(1000000)
#define FORBIDDEN_US INT64_C(30000000)
#define VALUES_US    INT64_C(5000000) /* figures of standing alerts are written no more often */
#define HOLDS_US     INT64_C(3000000) /* a figure that comes and goes with a takeover must stay for so long */
#define LIST_AT_ONCE 1000

struct round {
    dt_alerts *a;
    int64_t now_ms;
    struct dt_alert *standing; /* in the arena, room for `cap` */
    size_t n;
    struct dt_alert **changed; /* whose figures are others */
    size_t n_changed;
    unsigned kinds[DT_ALERT_KINDS_END]; /* how many stand */
    struct dt_error *err;
};

static int64_t mono_us(const dt_alerts *a)
{
    return dt_clock_mono_us(a->env.clock);
}

/* ---- what stands ---- */

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

/* ---- changes ---- */

static unsigned targets_of(const dt_alerts *a, const struct dt_watched_topic *topic)
{
    unsigned targets = topic && topic->setting.url.p ? DT_ALERT_TO_TOPIC : 0;
    targets |= a->env.config->alerts_url[0] ? DT_ALERT_TO_INSTALLATION : 0;
    return targets | (dt_config_has_kafka(a->env.config) ? DT_ALERT_TO_KAFKA : 0);
}

static void log_change(const struct dt_alert_change *change)
{
    const struct dt_alert *alert = &change->alert;
    if (change->event == DT_ALERT_ENDED)
        DT_LOG(INFO, "alerts", "alert ended", DT_S("kind", dt_alert_kind_name(alert->kind)),
               DT_B("topic", alert->topic), DT_I("value", alert->value));
    else if (!alert->id)
        DT_LOG(WARN, "alerts", "alert began", DT_S("kind", dt_alert_kind_name(alert->kind)),
               DT_B("topic", alert->topic), DT_I("value", alert->value), DT_I("limit", alert->limit));
}

/* Somebody else who changed it first is no failure. */
static dt_status make_change(struct round *r, struct dt_alert_change *change)
{
    change->judge = r->a->env.process;
    dt_status status = dt_store_alert_change(r->a->judge_store, change, r->err);
    DT_FAIL_POINT("alerts.changed");
    if (status == DT_EXISTS || status == DT_VERSION)
        return DT_OK;
    if (status == DT_OK)
        log_change(change);
    if (status == DT_OK && change->targets)
        dt_mailbox_signal(r->a->sender_mailbox, DT_ALERT_NEWS);
    return status;
}

/* One alert, judged: what it is about, and how it is. */
struct judged {
    struct dt_alert alert; /* as it would stand now; id 0: it does not */
    struct dt_alert *row;  /* as it stands; NULL: it does not */
    const struct dt_watched_topic *topic;
    bool known;
};

static bool is_muted(const struct round *r, const struct judged *j)
{
    return (j->topic && j->topic->setting.mute_until_ms > r->now_ms) || j->alert.silenced_until_ms > r->now_ms;
}

/* Tells of an alert that goes on: for the first time, or once more. */
static dt_status go_on(struct round *r, const struct judged *j)
{
    const int64_t told_ms = j->alert.told_at_ms;
    unsigned targets = is_muted(r, j) ? 0 : targets_of(r->a, j->topic);
    if (told_ms && !r->a->env.publish) /* an API cannot send them: they would pile up until a dispatcher lives */
        targets &= ~(unsigned)DT_ALERT_TO_KAFKA;
    struct dt_alert_change change = {
        .event = told_ms ? DT_ALERT_REMINDED : DT_ALERT_BEGAN, .alert = j->alert, .targets = targets};
    r->kinds[j->alert.kind]++;
    if (change.targets && (!told_ms || told_ms + r->a->env.config->alerts_remind <= r->now_ms))
        return make_change(r, &change);
    if (j->row->value != j->alert.value || j->row->limit != j->alert.limit) {
        *j->row = j->alert;
        r->changed[r->n_changed++] = j->row;
    }
    return DT_OK;
}

static dt_status begin(struct round *r, const struct judged *j)
{
    struct dt_alert_change change = {
        .event = DT_ALERT_BEGAN, .alert = j->alert, .targets = is_muted(r, j) ? 0 : targets_of(r->a, j->topic)};
    r->kinds[j->alert.kind]++;
    return make_change(r, &change);
}

/* A topic that is not watched any more may have a URL still: the sender looks. */
static dt_status end(struct round *r, const struct judged *j)
{
    unsigned targets = targets_of(r->a, j->topic) | (j->alert.topic.p && !j->topic ? DT_ALERT_TO_TOPIC : 0);
    struct dt_alert_change change = {
        .event = DT_ALERT_ENDED, .alert = j->alert, .targets = j->alert.told_at_ms ? targets : 0};
    return make_change(r, &change);
}

static dt_status judge_one(struct round *r, struct judged *j, int64_t value, int64_t limit)
{
    enum dt_alert_kind kind = j->alert.kind;
    struct dt_str topic = j->alert.topic;
    if (j->row)
        j->alert = *j->row;
    j->alert.kind = kind;
    j->alert.topic = topic;
    j->alert.value = value;
    j->alert.limit = limit > 0 ? limit : j->alert.limit;
    bool stands = limit > 0 && value >= limit;
    if (stands)
        return j->row ? go_on(r, j) : begin(r, j);
    if (j->row && !j->known && limit > 0) /* not known yet: it stands as it did */
        r->kinds[kind]++;
    else if (j->row)
        return end(r, j);
    return DT_OK;
}

/* ---- topics ---- */

/* Says which alerts of watched topics stand; what is not watched any more ends. */
static dt_status sort_standing(struct round *r)
{
    dt_status status = DT_OK;
    for (size_t i = 0; i < r->n && status == DT_OK; i++) {
        struct dt_alert *row = &r->standing[i];
        struct dt_watched_topic *topic = row->topic.p ? dt_watched_topics_find(&r->a->topics, row->topic) : NULL;
        if (topic && row->kind <= DT_ALERT_TOPIC_KINDS) {
            topic->standing[row->kind - 1] = row;
        } else if (row->topic.p) {
            struct judged j = {.alert = {.kind = row->kind, .topic = row->topic}, .row = row};
            status = judge_one(r, &j, 0, 0);
        }
    }
    return status;
}

static dt_status judge_topic(struct round *r, struct dt_watched_topic *topic)
{
    dt_status status = DT_OK;
    for (int kind = 1; kind <= DT_ALERT_TOPIC_KINDS && status == DT_OK; kind++) {
        struct judged j = {.alert = {.kind = (enum dt_alert_kind)kind, .topic = topic->name},
                           .row = topic->standing[kind - 1],
                           .topic = topic,
                           .known = dt_watched_is_known(topic, (enum dt_alert_kind)kind)};
        topic->standing[kind - 1] = NULL;
        status = judge_one(r, &j, dt_watched_figure(topic, (enum dt_alert_kind)kind, r->now_ms),
                           topic->setting.limits[kind - 1]);
    }
    return status;
}

static dt_status judge_topics(struct round *r)
{
    for (size_t i = 0; i < r->a->topics.n; i++)
        memset(r->a->topics.v[i].standing, 0, sizeof(r->a->topics.v[i].standing));
    dt_status status = sort_standing(r);
    for (size_t i = 0; i < r->a->topics.n && status == DT_OK; i++)
        status = judge_topic(r, &r->a->topics.v[i]);
    return status;
}

/* ---- the installation ---- */

static bool comes_and_goes(enum dt_alert_kind kind)
{
    return kind == DT_ALERT_NO_LEADER || kind == DT_ALERT_KAFKA_UNWRITABLE || kind == DT_ALERT_INDEX_INCOMPLETE ||
           kind == DT_ALERT_NO_DISPATCHER;
}

/* What there is not cannot fail. */
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

/* The figure as it counts: 0 until it has stayed. */
static int64_t settled_figure(dt_alerts *a, unsigned i)
{
    const enum dt_alert_kind kind = kind_of_figure(i);
    /* without a dispatcher no shard has a leader, which is no second alert */
    const bool follows =
        kind == DT_ALERT_NO_LEADER && a->was.figures[DT_ALERT_NO_DISPATCHER - 1 - DT_ALERT_TOPIC_KINDS] > 0;
    const int64_t figure = follows ? 0 : figure_of(a, i);
    if (figure == 0)
        a->since_us[i] = 0;
    else if (!a->since_us[i])
        a->since_us[i] = mono_us(a);
    bool stays = figure && (!comes_and_goes(kind) || mono_us(a) - a->since_us[i] >= HOLDS_US);
    return stays ? figure : 0;
}

static struct dt_alert *find_standing(const struct round *r, enum dt_alert_kind kind)
{
    for (size_t i = 0; i < r->n; i++)
        if (!r->standing[i].topic.p && r->standing[i].kind == kind)
            return &r->standing[i];
    return NULL;
}

static dt_status judge_installation(struct round *r)
{
    dt_status status = DT_OK;
    for (unsigned i = 0; i < DT_ALERT_INSTALLATION_KINDS && status == DT_OK; i++) {
        const enum dt_alert_kind kind = kind_of_figure(i);
        struct judged j = {.alert = {.kind = kind}, .row = find_standing(r, kind)};
        /* what stands goes on until the figure itself is 0; only a beginning waits for it to settle */
        int64_t figure = settled_figure(r->a, i);
        if (j.row && has_part(r->a, kind))
            figure = r->a->was.figures[i];
        j.known = true;
        status = judge_one(r, &j, figure, 1);
    }
    return status;
}

/* ---- a round ---- */

static dt_status write_values(struct round *r)
{
    if (r->n_changed == 0 || mono_us(r->a) < r->a->values_us)
        return DT_OK;
    struct dt_alert *rows = dt_arena_alloc(&r->a->rows, r->n_changed * sizeof(*rows));
    if (!rows)
        return dt_fail(r->err, DT_NOMEM, "out of memory");
    for (size_t i = 0; i < r->n_changed; i++)
        rows[i] = *r->changed[i];
    r->a->values_us = mono_us(r->a) + VALUES_US;
    return dt_store_alert_values(r->a->judge_store, rows, r->n_changed, r->err);
}

static void publish(struct round *r)
{
    r->a->n_standing = 0;
    for (int kind = 1; kind < DT_ALERT_KINDS_END; kind++) {
        dt_metric_set(r->a->standing[kind], r->kinds[kind]);
        r->a->n_standing += r->kinds[kind];
    }
}

static dt_status judge(dt_alerts *a, struct dt_error *err)
{
    struct round r = {.a = a, .now_ms = a->was.now_ms, .err = err};
    dt_arena_reset(&a->rows);
    dt_status status = dt_watched_topics_look(&a->topics, a->judge_store, a->was.now_ms, err);
    if (status == DT_OK)
        status = read_standing(&r);
    if (status == DT_OK)
        status = judge_topics(&r);
    if (status == DT_OK)
        status = judge_installation(&r);
    if (status == DT_OK)
        status = write_values(&r);
    if (status == DT_OK)
        publish(&r);
    return status;
}

/* ---- the loop ---- */

static bool something_settles(const dt_alerts *a)
{
    bool any = false;
    for (unsigned i = 0; i < DT_ALERT_INSTALLATION_KINDS; i++)
        any = any || figure_of(a, i);
    return any;
}

static int64_t wait_ms(const dt_alerts *a)
{
    if (!atomic_load(&a->ours))
        return REST_MS;
    if (!a->knows) /* it may have lost the lease */
        return 0;
    return something_settles(a) ? SETTLE_MS : a->topics.n || a->n_standing ? WATCH_MS : REST_MS;
}

static void hand_over(dt_alerts *a)
{
    if (atomic_exchange(&a->ours, false))
        DT_LOG(INFO, "alerts", "another process judges alerts");
    a->knows = a->frees = false;
    a->n_standing = 0;
    for (int kind = 1; kind < DT_ALERT_KINDS_END; kind++)
        dt_metric_set(a->standing[kind], 0);
}

static dt_status take_over(dt_alerts *a, const struct dt_alert_watched *now, struct dt_error *err)
{
    a->frees = a->frees || now->from_dead;
    if (atomic_load(&a->ours))
        return DT_OK;
    dt_status status = a->frees ? dt_store_alerts_free(a->judge_store, err) : DT_OK;
    if (status != DT_OK)
        return status;
    a->frees = false;
    atomic_store(&a->ours, true);
    DT_LOG(INFO, "alerts", "this process judges alerts");
    memset(a->since_us, 0, sizeof(a->since_us));
    dt_mailbox_signal(a->sender_mailbox, DT_ALERT_NEWS);
    return DT_OK;
}

static dt_status take_news(dt_alerts *a, const struct dt_alert_watched *now, struct dt_error *err)
{
    const bool first = !a->knows;
    const bool again = first || now->topics_version != a->was.topics_version;
    const bool news = again || memcmp(now->figures, a->was.figures, sizeof(now->figures)) != 0;
    dt_status status = again ? dt_watched_topics_read(&a->topics, a->judge_store, err) : DT_OK;
    if (status != DT_OK)
        return status;
    a->was = *now;
    a->knows = true;
    return news || a->topics.n || a->n_standing || something_settles(a) ? judge(a, err) : DT_OK;
}

static dt_status watch(dt_alerts *a, struct dt_error *err)
{
    struct dt_alert_watched now = {0};
    atomic_store(&a->waits, true);
    dt_status status =
        dt_thread_stopping(&a->judge)
            ? DT_SHUTDOWN
            : dt_store_watch_alerts(a->judge_store, a->env.process, a->knows ? &a->was : NULL, wait_ms(a), &now, err);
    atomic_store(&a->waits, false);
    if (status != DT_OK)
        return status;
    if (!now.ours) {
        hand_over(a);
        return DT_OK;
    }
    status = take_over(a, &now, err);
    return status == DT_OK ? take_news(a, &now, err) : status;
}

void dt_alerts_judge(void *arg)
{
    dt_alerts *a = arg;
    while (!dt_thread_stopping(&a->judge)) {
        struct dt_error err = {0};
        dt_status status = watch(a, &err);
        if (status == DT_DEPOSED) /* the next watch says whose the lease is */
            a->knows = false;
        if (status == DT_OK || status == DT_DEPOSED) {
            dt_outage_over(&a->judge_outage);
            continue;
        }
        if (dt_thread_stopping(&a->judge)) /* the wait was cut */
            break;
        a->knows = false;
        dt_outage_failed(&a->judge_outage, DT_OUTAGE_MYSQL, "alerts", "alerts are not judged", status, &err);
        dt_mailbox_pause(a->judge_mailbox, mono_us(a) + (status == DT_FORBIDDEN ? FORBIDDEN_US : RETRY_US),
                         DT_THREAD_STOP);
    }
}
