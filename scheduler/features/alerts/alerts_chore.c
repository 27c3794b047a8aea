/*
 * The chore that judges alerts, in APIs and dispatchers, and the sender of their messages (features/outbox/outbox.h):
 *
 *   read figures ─▶ compare with active alerts ─▶ begin, remind, end ─▶ wake the sender
 *
 * One process judges, under a lease in MySQL: a dispatcher, or an API while no dispatcher lives. If its lease ends,
 * another process continues with the alerts in MySQL. If no alert is active and no topic has limits, the judge sends
 * one statement every five seconds. Each other process sends one every four seconds, when the lease would end.
 *
 * The figures of topics come from counters, and from a walk over the due index with two legs:
 *
 *   leg 1   jobs that are due, offered or not    gives the number of due jobs and the time of the oldest
 *   leg 2   jobs that are due within two days    gives the oldest attempt that waits for its report
 *
 * A call of read_figures counts the jobs of one snapshot. A walk that does not end within a call continues in the next
 * call. Until it ends, figures can only rise; only a complete walk lowers a figure.
 */
#include "alerts.h"

#include <limits.h>
#include <stdatomic.h>

#include "base/assert.h"
#include "base/fail_point.h"
#include "base/fair.h"
#include "base/hash.h"
#include "base/http/callback_rules.h"
#include "base/http/webhook.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/text/json_write.h"

#define REST_US      INT64_C(5000000) /* pause between two rounds of the judge */
#define WATCH_US     INT64_C(2000000) /* pause if topics have limits, or an alert is active */
#define SETTLE_US    INT64_C(1000000) /* pause while a figure of the installation is above 0 */
#define RENEWED_US   INT64_C(250000)  /* pause after the end of another process's lease, which it renews earlier */
#define RETRY_US     INT64_C(1000000)
#define FORBIDDEN_US INT64_C(30000000)
#define VALUES_US    INT64_C(5000000) /* pause between two writes of the figures of active alerts */
/* A figure must be above 0 for this time before an alert begins, because each takeover raises it for a moment. */
#define HOLDS_US      INT64_C(3000000)
#define LOOK_US       INT64_C(500000)
#define NAMES_AT_ONCE 500
enum { LEG_DUE, LEG_AHEAD };

/* A topic that has a limit, with its figures. */
struct watched_topic {
    struct dt_str name;
    struct dt_alert_setting setting; /* the topic's settings, with the configuration's defaults */
    int64_t jobs, dead;              /* jobs: number of scheduled and dispatched jobs; dead: number of dead jobs */
    /* figures of the last complete walk, or those of the running walk if they are higher */
    int64_t due, oldest_ms, unreported_ms;
    /* the figure comes from a complete walk over the due index, so it may end an alert */
    bool due_known, unreported_known;
    struct dt_alert_walked pass; /* sums of the running walk */
    struct dt_alert *active[DT_ALERT_TOPIC_KINDS];
    UT_hash_handle hh;
};

struct watched_topics {
    const struct dt_config *config;
    const dt_clock *clock;
    dt_json *json;
    struct dt_arena arena; /* memory of the topics and their settings */
    struct dt_arena rows;  /* memory for one call of read_figures */
    struct watched_topic *v;
    size_t n;
    struct watched_topic *by_name;
    int leg; /* part of the walk that runs: LEG_DUE or LEG_AHEAD */
    bool walking;
    struct dt_alert_walk walk;
};

typedef struct {
    struct dt_features_env env;
    _Atomic bool ours; /* this process is the judge: it judges and sends */

    /* Only the judge uses the members below. */
    struct dt_chore judge;
    dt_store *judge_store; /* MySQL store of the chore's running tick */
    struct watched_topics topics;
    struct dt_arena rows;
    struct dt_alert_watched read;                  /* the figures that were read last */
    bool has_read;                                 /* `read` has figures */
    bool frees;                                    /* the previous judge has died, so its messages must be made due */
    int64_t since_us[DT_ALERT_INSTALLATION_KINDS]; /* for each figure of the installation, when it rose above 0; 0: it
                                                    * is 0 */
    int64_t values_us;                             /* time at which the figures of active alerts were last written */
    size_t n_active;
    dt_metric *active[DT_ALERT_KINDS_END];

    dt_outbox *sender;
} dt_alerts;

/* ---- watched topics ---- */

/* Adds a topic, unless all its limits are 0 with the configuration's defaults. */
static dt_status add_watched_topic(struct watched_topics *t, const struct dt_alert_topic *row)
{
    const struct dt_config *c = t->config;
    const int64_t defaults[DT_ALERT_TOPIC_KINDS] = {c->alerts_overdue, c->alerts_backlog, c->alerts_dead,
                                                    c->alerts_unreported};
    struct watched_topic *topic = &t->v[t->n];
    bool any = false;
    *topic = (struct watched_topic){0};
    dt_status status = dt_alert_setting_read(t->json, row->alerts, &t->arena, &topic->setting);
    if (status != DT_OK)
        return status;
    for (int i = 0; i < DT_ALERT_TOPIC_KINDS; i++) {
        int64_t *limit = &topic->setting.limits[i];
        *limit = *limit == DT_ALERT_DEFAULT ? defaults[i] : *limit;
        any = any || *limit > 0;
    }
    if (!any)
        return DT_OK;
    topic->name = dt_arena_copy(&t->arena, row->name);
    if (!topic->name.p)
        return DT_NOMEM;
    HASH_ADD_KEYPTR(hh, t->by_name, topic->name.p, topic->name.n, topic);
    t->n += topic->hh.tbl != NULL;
    return topic->hh.tbl ? DT_OK : DT_NOMEM;
}

/* Reads the topics again and forgets their figures. Sorts them so that one topic of each owner precedes the second
 * topic of any owner. Topics are judged in this order, and each alert that begins is a transaction. */
static dt_status read_topics(struct watched_topics *t, dt_store *store, struct dt_error *err)
{
    const struct dt_config *c = t->config;
    bool all = c->alerts_overdue || c->alerts_backlog || c->alerts_dead || c->alerts_unreported;
    struct dt_alert_topics topics;
    dt_arena_reset(&t->rows);
    dt_status status = dt_store_alert_topics(store, all, &t->rows, &topics, err);
    if (status != DT_OK)
        return status;
    HASH_CLEAR(hh, t->by_name);
    dt_arena_reset(&t->arena);
    t->n = 0;
    t->walking = false;
    t->v = dt_arena_alloc(&t->arena, (topics.n + 1) * sizeof(*t->v));
    struct dt_turn *turns = dt_arena_alloc(&t->rows, (topics.n + 1) * sizeof(*turns));
    status = t->v && turns ? DT_OK : DT_NOMEM;
    for (size_t i = 0; i < topics.n && status == DT_OK; i++)
        turns[i] = (struct dt_turn){.owner = topics.v[i].owner, .at = i};
    if (status == DT_OK)
        dt_turns_sort(NULL, turns, topics.n);
    for (size_t i = 0; i < topics.n && status == DT_OK; i++)
        status = add_watched_topic(t, &topics.v[turns[i].at]);
    return status == DT_OK ? status : dt_fail(err, status, "out of memory");
}

/* Returns the topic with this name. NULL: the topic has no alert limit. */
static struct watched_topic *find_watched_topic(struct watched_topics *t, struct dt_str name)
{
    struct watched_topic *found = NULL;
    HASH_FIND(hh, t->by_name, name.p, name.n, found);
    return found;
}

static dt_status count_topic_jobs(struct watched_topics *t, dt_store *store, struct dt_error *err)
{
    dt_status status = DT_OK;
    for (size_t i = 0; i < t->n; i++)
        t->v[i].jobs = t->v[i].dead = 0;
    for (size_t from = 0; from < t->n && status == DT_OK; from += NAMES_AT_ONCE) {
        struct dt_strbuf names = {0};
        struct dt_alert_counts counts = {.n = 0};
        dt_json_begin_array(&names, NULL);
        for (size_t i = from; i < t->n && i < from + NAMES_AT_ONCE; i++)
            dt_json_put_string(&names, NULL, t->v[i].name);
        dt_json_end_array(&names);
        status = names.failed ? dt_fail(err, DT_NOMEM, "out of memory")
                              : dt_store_alert_counts(store, dt_strbuf_str(&names), &t->rows, &counts, err);
        dt_strbuf_clear(&names);
        for (size_t i = 0; status == DT_OK && i < counts.n; i++) {
            struct watched_topic *topic = find_watched_topic(t, counts.v[i].topic);
            if (topic) {
                topic->jobs += counts.v[i].scheduled + counts.v[i].dispatched;
                topic->dead += counts.v[i].dead;
            }
        }
    }
    return status;
}

/* Returns whether a topic with live jobs has an alert limit whose figure needs a walk over the due index; if `ahead` is
 * set, over jobs that are due later (leg 2). */
static bool any_limit_needs_walk(const struct watched_topics *t, bool ahead)
{
    for (size_t i = 0; i < t->n; i++) {
        const int64_t *limits = t->v[i].setting.limits;
        if (t->v[i].jobs > 0 && (limits[DT_ALERT_UNREPORTED - 1] > 0 ||
                                 (!ahead && (limits[DT_ALERT_OVERDUE - 1] > 0 || limits[DT_ALERT_BACKLOG - 1] > 0))))
            return true;
    }
    return false;
}

static void add_walked_counts(void *arg, const struct dt_alert_walked *w)
{
    struct watched_topic *topic = find_watched_topic(arg, w->topic);
    if (!topic)
        return;
    struct dt_alert_walked *p = &topic->pass;
    p->due += w->due;
    p->oldest_ms = dt_older(p->oldest_ms, w->oldest_ms);
    p->unreported_ms = dt_older(p->unreported_ms, w->unreported_ms);
    topic->due = dt_later(topic->due, p->due);
    topic->oldest_ms = dt_older(topic->oldest_ms, p->oldest_ms);
    topic->unreported_ms = dt_older(topic->unreported_ms, p->unreported_ms);
}

/* Ends a leg (one of the two parts of the walk): the sums of the walk become the topics' figures. */
static void end_walk_leg(struct watched_topics *t, int leg)
{
    for (size_t i = 0; i < t->n; i++) {
        struct watched_topic *topic = &t->v[i];
        if (leg == LEG_DUE) {
            topic->due = topic->pass.due;
            topic->oldest_ms = topic->pass.oldest_ms;
            topic->due_known = true;
        } else {
            topic->unreported_ms = topic->pass.unreported_ms;
            topic->unreported_known = true;
            topic->pass = (struct dt_alert_walked){0};
        }
    }
    t->walking = t->walking && leg == LEG_DUE;
}

static void begin_walk_leg(struct watched_topics *t, int leg)
{
    struct dt_alert_walk *w = &t->walk;
    dt_assert(t->walking && t->n > 0);
    t->leg = leg;
    *w = (struct dt_alert_walk){.from_key = leg == LEG_AHEAD ? w->now_ms : INT64_MIN,
                                .behind_id = leg == LEG_AHEAD ? INT64_MAX : 0,
                                .to_key = leg == LEG_DUE ? w->now_ms : INT64_MAX,
                                .now_ms = w->now_ms,
                                .found = add_walked_counts,
                                .arg = t};
}

/* Reads the figures of topics for at most half a second. If the walk over the due index takes longer, the next call
 * continues it. */
static dt_status read_figures(struct watched_topics *t, dt_store *store, int64_t now_ms, struct dt_error *err)
{
    if (t->n == 0)
        return DT_OK;
    dt_arena_reset(&t->rows);
    dt_status status = count_topic_jobs(t, store, err);
    if (status != DT_OK)
        return status;
    const bool wanted = any_limit_needs_walk(t, false);
    if (!wanted || !t->walking)
        for (size_t i = 0; i < t->n; i++)
            t->v[i].pass = (struct dt_alert_walked){0};
    if (!wanted) { /* no topic with live jobs has an alert limit whose figure needs a walk */
        end_walk_leg(t, LEG_DUE);
        end_walk_leg(t, LEG_AHEAD);
        return DT_OK;
    }
    if (!t->walking) {
        t->walking = true;
        t->walk.now_ms = now_ms;
        begin_walk_leg(t, LEG_DUE);
    }
    const int64_t until_us = dt_clock_mono_us(t->clock) + LOOK_US;
    while (status == DT_OK && t->walking && dt_clock_mono_us(t->clock) < until_us) {
        status = dt_store_alert_walk(store, &t->walk, t->clock, until_us, err);
        if (status != DT_OK || !t->walk.over)
            continue;
        const int ended = t->leg;
        end_walk_leg(t, ended);
        if (ended == LEG_DUE && any_limit_needs_walk(t, true))
            begin_walk_leg(t, LEG_AHEAD);
        else if (ended == LEG_DUE)
            end_walk_leg(t, LEG_AHEAD);
    }
    if (status != DT_OK)
        t->walking = false;
    return status;
}

static int64_t age_ms(int64_t since_ms, int64_t now_ms)
{
    return since_ms > 0 && since_ms < now_ms ? now_ms - since_ms : 0;
}

static int64_t topic_figure(const struct watched_topic *topic, enum dt_alert_kind kind, int64_t now_ms)
{
    switch (kind) {
    case DT_ALERT_OVERDUE:
        return age_ms(topic->oldest_ms, now_ms);
    case DT_ALERT_BACKLOG:
        return topic->due;
    case DT_ALERT_DEAD:
        return topic->dead;
    case DT_ALERT_UNREPORTED:
        return age_ms(topic->unreported_ms, now_ms);
    default:
        return 0;
    }
}

/* ---- the judge ---- */

struct round {
    dt_alerts *a;
    int64_t now_ms;
    struct dt_alert *active; /* active alerts as they are in MySQL; in the arena, like `changed` */
    size_t n;
    struct dt_alert **changed; /* alerts that only need another figure or limit in MySQL */
    size_t n_changed;
    unsigned kinds[DT_ALERT_KINDS_END]; /* number of active alerts by kind */
    struct dt_error *err;
};

static int64_t mono_us(const dt_alerts *a)
{
    return dt_clock_mono_us(a->env.clock);
}

/* Makes a change and logs it. Returns OK if another process changed the alert first. */
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
    struct dt_alert alert; /* the alert with its current figure; id 0: no such alert is active */
    struct dt_alert *row;  /* the active alert as it is in MySQL; NULL: none */
    const struct watched_topic *topic;
    bool known; /* the figure comes from a complete walk over the due index, so the alert may end */
};

static dt_status judge_figure(struct round *r, struct judged *j, int64_t value, int64_t limit)
{
    const dt_alerts *a = r->a;
    const enum dt_alert_kind kind = j->alert.kind;
    const struct dt_str topic = j->alert.topic;
    const bool reached = limit > 0 && value >= limit;
    dt_assert(kind > 0 && kind < DT_ALERT_KINDS_END);
    if (j->row)
        j->alert = *j->row;
    j->alert.kind = kind;
    j->alert.topic = topic;
    j->alert.value = value;
    j->alert.limit = limit > 0 ? limit : j->alert.limit;
    /* Returns if no alert is active that could end, or if the figure is not final, because the walk may still raise
     * it. */
    if (!reached && (!j->row || (!j->known && limit > 0))) {
        r->kinds[kind] += j->row != NULL;
        return DT_OK;
    }
    const int64_t told_ms = j->alert.told_at_ms;
    unsigned targets = j->topic && j->topic->setting.url.p ? DT_ALERT_TO_TOPIC : 0;
    targets |= a->env.config->alerts_url[0] ? DT_ALERT_TO_INSTALLATION : 0;
    targets |= dt_config_has_kafka(a->env.config) ? DT_ALERT_TO_KAFKA : 0;
    if (!reached) { /* a topic without limits may still have a URL for its alerts, which the sender reads */
        targets |= topic.p && !j->topic ? DT_ALERT_TO_TOPIC : 0;
        struct dt_alert_change end = {.event = DT_ALERT_ENDED, .alert = j->alert, .targets = told_ms ? targets : 0};
        return make_change(r, &end);
    }
    r->kinds[kind]++;
    if ((j->topic && j->topic->setting.mute_until_ms > r->now_ms) || j->alert.silenced_until_ms > r->now_ms)
        targets = 0;
    /* An API cannot send to Kafka, so reminders would pile up until a dispatcher is live. */
    if (told_ms && !a->env.kafka)
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
    struct watched_topics *topics = &r->a->topics;
    dt_status status = DT_OK;
    for (size_t i = 0; i < topics->n; i++)
        memset(topics->v[i].active, 0, sizeof(topics->v[i].active));
    for (size_t i = 0; i < r->n && status == DT_OK; i++) { /* ends alerts of topics that have no limit any more */
        struct dt_alert *row = &r->active[i];
        /* Skips alerts of the installation, and kinds of later versions. */
        if (!row->topic.p || row->kind < 1 || row->kind >= DT_ALERT_KINDS_END)
            continue;
        struct watched_topic *topic = find_watched_topic(topics, row->topic);
        if (topic && row->kind <= DT_ALERT_TOPIC_KINDS) {
            topic->active[row->kind - 1] = row;
        } else {
            struct judged j = {.alert = {.kind = row->kind, .topic = row->topic}, .row = row};
            status = judge_figure(r, &j, 0, 0);
        }
    }
    for (size_t i = 0; i < topics->n; i++) {
        struct watched_topic *topic = &topics->v[i];
        for (int k = 0; k < DT_ALERT_TOPIC_KINDS && status == DT_OK; k++) {
            const enum dt_alert_kind kind = (enum dt_alert_kind)(k + 1);
            struct judged j = {.alert = {.kind = kind, .topic = topic->name},
                               .row = topic->active[k],
                               .topic = topic,
                               .known = kind == DT_ALERT_DEAD         ? true
                                        : kind == DT_ALERT_UNREPORTED ? topic->unreported_known
                                                                      : topic->due_known};
            topic->active[k] = NULL;
            status = judge_figure(r, &j, topic_figure(topic, kind, r->now_ms), topic->setting.limits[k]);
        }
    }
    return status;
}

/* Returns whether the installation has the server (Redis or Kafka) that alerts of this kind are about. */
static bool has_server_of_alert(const dt_alerts *a, enum dt_alert_kind kind)
{
    return kind == DT_ALERT_INDEX_INCOMPLETE   ? a->env.config->redis_endpoints[0] != '\0'
           : kind == DT_ALERT_KAFKA_UNWRITABLE ? dt_config_has_kafka(a->env.config)
                                               : true;
}

static enum dt_alert_kind kind_of_figure(unsigned i)
{
    return (enum dt_alert_kind)(i + 1 + DT_ALERT_TOPIC_KINDS);
}

static int64_t installation_figure(const dt_alerts *a, unsigned i)
{
    return has_server_of_alert(a, kind_of_figure(i)) ? a->read.figures[i] : 0;
}

/* Returns a figure of the installation. Some kinds count as 0 until they have been above 0 for HOLDS_US. */
static int64_t confirmed_figure(dt_alerts *a, unsigned i)
{
    const enum dt_alert_kind kind = kind_of_figure(i);
    /* Shards have no leader while no dispatcher lives, or while dispatchers wait for Kafka before they elect leaders.
     * That must not begin a second alert. */
    const bool follows =
        kind == DT_ALERT_NO_LEADER && (a->read.figures[DT_ALERT_NO_DISPATCHER - 1 - DT_ALERT_TOPIC_KINDS] > 0 ||
                                       a->read.figures[DT_ALERT_KAFKA_UNWRITABLE - 1 - DT_ALERT_TOPIC_KINDS] > 0);
    const int64_t figure = follows ? 0 : installation_figure(a, i);
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
            if (!r->active[row].topic.p && r->active[row].kind == kind)
                j.row = &r->active[row];
        /* An active alert lasts until the figure itself is 0, because only its beginning waits for HOLDS_US. */
        int64_t figure = confirmed_figure(r->a, i);
        if (j.row && has_server_of_alert(r->a, kind))
            figure = r->a->read.figures[i];
        status = judge_figure(r, &j, figure, 1);
    }
    return status;
}

static dt_status judge_all_figures(dt_alerts *a, struct dt_error *err)
{
    struct round r = {.a = a, .now_ms = a->read.now_ms, .err = err};
    struct dt_alert_list found = {.n = 0};
    dt_assert(a->has_read && atomic_load(&a->ours));
    dt_arena_reset(&a->rows);
    dt_status status = read_figures(&a->topics, a->judge_store, a->read.now_ms, err);
    DT_THEN(status, dt_store_alerts(a->judge_store, 0, UINT_MAX, &a->rows, &found, err));
    r.active = found.v;
    r.n = found.n;
    r.changed = dt_arena_alloc(&a->rows, (r.n + 1) * sizeof(struct dt_alert *));
    if (status == DT_OK && !r.changed)
        status = dt_fail(err, DT_NOMEM, "out of memory");
    DT_THEN(status, judge_topics(&r));
    DT_THEN(status, judge_installation(&r));
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
    a->n_active = 0;
    for (int kind = 1; kind < DT_ALERT_KINDS_END; kind++) {
        dt_metric_set(a->active[kind], r.kinds[kind]);
        a->n_active += r.kinds[kind];
    }
    return DT_OK;
}

static bool has_figure_above_zero(const dt_alerts *a)
{
    bool any = false;
    for (unsigned i = 0; i < DT_ALERT_INSTALLATION_KINDS; i++)
        any = any || installation_figure(a, i);
    return any;
}

static dt_status read_watched_figures(dt_alerts *a, struct dt_alert_watched *now, struct dt_error *err)
{
    dt_status status = dt_store_watch_alerts(a->judge_store, a->env.process, now, err);
    if (status != DT_OK)
        return status;
    if (!now->ours) {
        if (atomic_exchange(&a->ours, false))
            DT_LOG(INFO, "alerts", "another process evaluates alerts");
        a->has_read = a->frees = false;
        a->n_active = 0;
        for (int kind = 1; kind < DT_ALERT_KINDS_END; kind++)
            dt_metric_set(a->active[kind], 0);
        return DT_OK;
    }
    a->frees = a->frees || now->from_dead;
    if (!atomic_load(&a->ours)) { /* this process is now the judge */
        status = a->frees ? dt_store_free_alert_messages(a->judge_store, err) : DT_OK;
        if (status != DT_OK)
            return status;
        a->frees = false;
        atomic_store(&a->ours, true);
        DT_LOG(INFO, "alerts", "this process evaluates alerts");
        memset(a->since_us, 0, sizeof(a->since_us));
        dt_outbox_wake(a->sender);
    }
    /* Judges only if a figure may have changed since the last tick. */
    const bool again = !a->has_read || now->topics_version != a->read.topics_version;
    const bool news = again || memcmp(now->figures, a->read.figures, sizeof(now->figures)) != 0;
    status = again ? read_topics(&a->topics, a->judge_store, err) : DT_OK;
    if (status != DT_OK)
        return status;
    a->read = *now;
    a->has_read = true;
    return news || a->topics.n || a->n_active || has_figure_above_zero(a) ? judge_all_figures(a, err) : DT_OK;
}

static int64_t judge_alerts(void *alerts, void *store)
{
    dt_alerts *a = alerts;
    struct dt_error err = {0};
    struct dt_alert_watched now;
    a->judge_store = store;
    const dt_status status = read_watched_figures(a, &now, &err);
    if (status != DT_OK)
        a->has_read = false;
    if (status == DT_DEPOSED) /* the next tick finds out which process has the lease */
        return 0;
    if (status != DT_OK)
        return dt_chore_failed(&a->judge, DT_OUTAGE_MYSQL, "alerts are not evaluated", status, &err,
                               status == DT_FORBIDDEN ? FORBIDDEN_US : RETRY_US);
    if (!now.ours)
        return mono_us(a) + (now.lease_ms > 0 ? 1000 * now.lease_ms + RENEWED_US : WATCH_US);
    return mono_us(a) + (has_figure_above_zero(a) ? SETTLE_US : a->topics.n || a->n_active ? WATCH_US : REST_US);
}

/* ---- life ---- */

/* Checks the installation's URL and secret. */
static dt_status check_alert_settings(const struct dt_config *config, struct dt_error *err)
{
    const char *reason = config->alerts_url[0] ? dt_callback_url_check(dt_str(config->alerts_url), NULL) : NULL;
    if (reason)
        return dt_fail(err, DT_INVALID, "[alerts] url: it %s", reason);
    struct dt_callback_secret secret;
    reason = config->alerts_secret[0] ? dt_callback_secret_read(dt_str(config->alerts_secret), &secret) : NULL;
    dt_callback_secret_wipe(&secret);
    if (reason)
        return dt_fail(err, DT_INVALID, "[alerts] secret: it %s", reason);
    return DT_OK;
}

static bool sends_alerts(void *arg, int64_t)
{
    dt_alerts *a = arg;
    return atomic_load(&a->ours);
}

dt_status dt_alerts_start(const struct dt_features_env *env, void **out, struct dt_error *err)
{
    const char *name = "duetime_alert_messages_total";
    const char *help = "Messages about alerts, by outcome; failed ones are retried.";
    dt_alerts *a = calloc(1, sizeof(*a));
    if (!a)
        return dt_fail(err, DT_NOMEM, "out of memory");
    a->env = *env;
    a->topics = (struct watched_topics){.config = env->config, .clock = env->clock};
    for (int kind = 1; kind < DT_ALERT_KINDS_END; kind++) {
        struct dt_strbuf label = {0};
        dt_strbuf_addf(&label, "kind=\"%s\"", dt_alert_kind_name((enum dt_alert_kind)kind));
        a->active[kind] =
            label.failed
                ? NULL
                : dt_gauge("duetime_alerts", "Current alerts if this process evaluates them, otherwise 0.", label.p);
        dt_strbuf_clear(&label);
    }
    const struct dt_outbox_env sender = {.kind = &dt_alert_messages,
                                         .chores = env->chores,
                                         .config = env->config,
                                         .clock = env->clock,
                                         .installation = env->installation,
                                         .kafka = env->kafka,
                                         .sent = dt_counter(name, help, "outcome=\"sent\""),
                                         .failed = dt_counter(name, help, "outcome=\"failed\""),
                                         .dropped = dt_counter(name, help, "outcome=\"given_up\""),
                                         .arg = a,
                                         .ours = sends_alerts};
    dt_status status = check_alert_settings(env->config, err);
    DT_THEN(status, dt_json_new(&a->topics.json));
    DT_THEN(status, dt_outbox_start(&sender, &a->sender));
    if (status != DT_OK) {
        dt_alerts_stop(a);
        return status;
    }
    a->judge = (struct dt_chore){.name = "alerts", .tick = judge_alerts, .arg = a};
    dt_chores_add(env->chores, &a->judge);
    *out = a;
    return DT_OK;
}

void dt_alerts_leave(void *alerts)
{
    dt_alerts *a = alerts;
    dt_chore_stop(&a->judge);
}

void dt_alerts_stop(void *alerts)
{
    dt_alerts *a = alerts;
    dt_chore_remove(&a->judge); /* before the sender, because the judge wakes the sender */
    dt_outbox_stop(a->sender);
    HASH_CLEAR(hh, a->topics.by_name);
    dt_arena_clear(&a->topics.arena);
    dt_arena_clear(&a->topics.rows);
    dt_json_free(a->topics.json);
    dt_arena_clear(&a->rows);
    free(a);
}
