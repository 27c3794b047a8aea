/*
 * The watched topics and their figures: counters, and a walk over the due index.
 *
 *   leg 1   jobs that are due, offered or not    due: the oldest comes first
 *   leg 2   jobs that are due within two days    attempts that wait for their report
 *
 * A call counts the jobs as of one moment. If a walk does not end within a call, the next call continues it. Until it
 * ends, a figure can only get worse; only a complete walk improves it.
 */
#include "alert_parts.h"
#include "base/assert.h"
#include "base/fair.h"
#include "base/text/json_write.h"

#define LOOK_US       INT64_C(500000)
#define NAMES_AT_ONCE 500
enum { LEG_DUE, LEG_AHEAD };

dt_status dt_watched_topics_init(struct dt_watched_topics *t, const struct dt_config *config, const dt_clock *clock)
{
    *t = (struct dt_watched_topics){.config = config, .clock = clock};
    return dt_json_new(&t->json);
}

void dt_watched_topics_clear(struct dt_watched_topics *t)
{
    HASH_CLEAR(hh, t->by_name);
    dt_arena_clear(&t->arena);
    dt_arena_clear(&t->rows);
    dt_json_free(t->json);
}

/* Adds a topic if it has a limit after the configuration's defaults are applied. */
static dt_status add_topic(struct dt_watched_topics *t, const struct dt_alert_topic *row)
{
    const struct dt_config *c = t->config;
    const int64_t defaults[DT_ALERT_TOPIC_KINDS] = {c->alerts_overdue, c->alerts_backlog, c->alerts_dead,
                                                    c->alerts_unreported};
    struct dt_watched_topic *topic = &t->v[t->n];
    bool any = false;
    *topic = (struct dt_watched_topic){0};
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

dt_status dt_watched_topics_read(struct dt_watched_topics *t, dt_store *store, struct dt_error *err)
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
        status = add_topic(t, &topics.v[turns[i].at]);
    return status == DT_OK ? status : dt_fail(err, status, "out of memory");
}

struct dt_watched_topic *dt_watched_topics_find(struct dt_watched_topics *t, struct dt_str name)
{
    struct dt_watched_topic *found = NULL;
    HASH_FIND(hh, t->by_name, name.p, name.n, found);
    return found;
}

static dt_status count_topic_jobs(struct dt_watched_topics *t, dt_store *store, struct dt_error *err)
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
            struct dt_watched_topic *topic = dt_watched_topics_find(t, counts.v[i].topic);
            if (topic) {
                topic->jobs += counts.v[i].scheduled + counts.v[i].dispatched;
                topic->dead += counts.v[i].dead;
            }
        }
    }
    return status;
}

/* Returns whether a topic with live jobs has a limit that needs a walk. ahead: its second leg. */
static bool any_wants(const struct dt_watched_topics *t, bool ahead)
{
    for (size_t i = 0; i < t->n; i++) {
        const int64_t *limits = t->v[i].setting.limits;
        if (t->v[i].jobs > 0 && (limits[DT_ALERT_UNREPORTED - 1] > 0 ||
                                 (!ahead && (limits[DT_ALERT_OVERDUE - 1] > 0 || limits[DT_ALERT_BACKLOG - 1] > 0))))
            return true;
    }
    return false;
}

static void take_found(void *arg, const struct dt_alert_walked *w)
{
    struct dt_watched_topic *topic = dt_watched_topics_find(arg, w->topic);
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

static void due_is_known(struct dt_watched_topics *t)
{
    for (size_t i = 0; i < t->n; i++) {
        struct dt_watched_topic *topic = &t->v[i];
        topic->due = topic->pass.due;
        topic->oldest_ms = topic->pass.oldest_ms;
        topic->due_known = true;
    }
}

static void all_is_known(struct dt_watched_topics *t)
{
    for (size_t i = 0; i < t->n; i++) {
        struct dt_watched_topic *topic = &t->v[i];
        topic->unreported_ms = topic->pass.unreported_ms;
        topic->unreported_known = true;
        topic->pass = (struct dt_alert_walked){0};
    }
    t->walking = false;
}

static void begin_leg(struct dt_watched_topics *t, int leg)
{
    struct dt_alert_walk *w = &t->walk;
    dt_assert(t->walking && t->n > 0);
    t->leg = leg;
    *w = (struct dt_alert_walk){.from_key = leg == LEG_AHEAD ? w->now_ms : INT64_MIN,
                                .behind_id = leg == LEG_AHEAD ? INT64_MAX : 0,
                                .to_key = leg == LEG_DUE ? w->now_ms : INT64_MAX,
                                .now_ms = w->now_ms,
                                .found = take_found,
                                .arg = t};
}

static dt_status walk(struct dt_watched_topics *t, dt_store *store, struct dt_error *err)
{
    const int64_t until_us = dt_clock_mono_us(t->clock) + LOOK_US;
    dt_status status = DT_OK;
    while (status == DT_OK && t->walking && dt_clock_mono_us(t->clock) < until_us) {
        status = dt_store_alert_walk(store, &t->walk, t->clock, until_us, err);
        if (status != DT_OK || !t->walk.over)
            continue;
        if (t->leg == LEG_DUE)
            due_is_known(t);
        if (t->leg == LEG_DUE && any_wants(t, true))
            begin_leg(t, LEG_AHEAD);
        else
            all_is_known(t);
    }
    return status;
}

dt_status dt_watched_topics_look(struct dt_watched_topics *t, dt_store *store, int64_t now_ms, struct dt_error *err)
{
    if (t->n == 0)
        return DT_OK;
    dt_arena_reset(&t->rows);
    dt_status status = count_topic_jobs(t, store, err);
    if (status != DT_OK)
        return status;
    const bool wanted = any_wants(t, false);
    if (!wanted || !t->walking)
        for (size_t i = 0; i < t->n; i++)
            t->v[i].pass = (struct dt_alert_walked){0};
    if (!wanted) { /* nothing is due */
        due_is_known(t);
        all_is_known(t);
        return DT_OK;
    }
    if (!t->walking) {
        t->walking = true;
        t->walk.now_ms = now_ms;
        begin_leg(t, LEG_DUE);
    }
    status = walk(t, store, err);
    if (status != DT_OK)
        t->walking = false;
    return status;
}

static int64_t age_ms(int64_t since_ms, int64_t now_ms)
{
    return since_ms > 0 && since_ms < now_ms ? now_ms - since_ms : 0;
}

int64_t dt_watched_figure(const struct dt_watched_topic *topic, enum dt_alert_kind kind, int64_t now_ms)
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

bool dt_watched_is_known(const struct dt_watched_topic *topic, enum dt_alert_kind kind)
{
    return kind == DT_ALERT_DEAD || (kind == DT_ALERT_UNREPORTED ? topic->unreported_known : topic->due_known);
}
