/*
 * GET /v1/overview and /v1/dead-letters. Owns the cached answers. Some parts of the overview are slow to count; they
 * are cached for longer.
 *
 *   every second          topics, shards, processes, the figures of the window      small tables
 *   every two seconds     due jobs by topic                                         10,000 rows at most
 *   every five seconds    jobs by topic and state                                   counters; less often if slow
 *   every ten seconds     jobs that become due in the next hour                     a forecast of one step
 *   on request            dead letters by topic and error; forecasts                bounded; less often if slow
 */
#include "overview_rest.h"

#include "answer.h"
#include "base/assert.h"
#include "dispatch/shards.h"
#include "explain_rest.h"
#include "features/forecast/forecast.h"
#include "handlers.h"
#include "health.h"
#include "job/delivery.h"
#include "job/results/dead.h"
#include "request/topic_cache.h"
#include "store/processes.h"

#define ANSWER_BYTES ((size_t)512 << 10) /* bytes of an answer: 100 topics, and the texts of shards and processes */
#define DEAD_BYTES   ((size_t)1 << 20)   /* bytes reserved for the groups of dead letters, as rows and in the answer */
#define TOPICS_MAX   100
#define COUNTED_MAX  10000 /* maximal number of due jobs that are counted */
#define WINDOW_MS    INT64_C(10000)
#define ANSWER_US    INT64_C(1000000)
#define OVERDUE_US   INT64_C(2000000)
#define NEXT_US      INT64_C(10000000)
#define LOADS_US     INT64_C(5000000)
#define SHARE        50 /* if reading a part took t, the part is not read again for SHARE * t */
#define SLOW_SHARE   20
#define HOUR_MS      INT64_C(3600000)
#define BEHIND_MS    1000 /* figures of a step may be written this long after the step ends, at most */
#define ALL_SLOTS    INT64_C(1000000000000000)

const char *const dt_series_names[DT_SERIES_METRICS] = {"created",   "dispatched",   "succeeded",    "failed", "dead",
                                                        "cancelled", "lateness_p50", "lateness_p99", "overdue"};

/* A part of the overview that is cached for longer than the answer. The arena holds the part's rows. */
struct part {
    struct dt_arena arena;
    int64_t again_us; /* mono: when the part may be read again */
    int64_t every_us;
};

struct dt_overview {
    struct dt_api *api;
    /* Two caches, so that quick answers do not wait until a slow one is made. */
    dt_kept *quick, *slow;
    /* Members below: used only by the thread that makes the answer. */
    struct part loads_part, overdue_part, next_part;
    struct dt_topic_load *loads;
    size_t n_loads;
    struct dt_topic_overdue *overdue;
    size_t n_overdue;
    int64_t next_hour; /* jobs that become due in the next hour; -1: not known */
    bool next_is_more; /* next_hour is an estimate */
};

struct topic_line {
    struct dt_str topic;
    int64_t jobs[DT_JOB_STATES];
    int64_t n[DT_TALLIES];
    int64_t overdue, since_ms;
    int64_t held, held_since_ms; /* held: number of due jobs, if the topic is paused; such jobs are not overdue */
};

/* The data of one answer. Its rows are in the arena, or in the snapshots. */
struct overview_view {
    struct dt_arena arena;
    struct dt_view *view;
    struct dt_shards_view *shards;
    struct dt_health_state health;
    int64_t now_ms;
    struct topic_line all;    /* sums over all topics: events of the overview's period, and jobs as they are now */
    struct topic_line *lines; /* topics, the most important first */
    size_t n_lines;
    bool more_due; /* more jobs may be due than were counted */
    struct dt_lateness *lateness;
    size_t n_lateness;
    struct dt_live_process *processes;
    size_t n_processes;
};

/* ---- life ---- */

dt_status dt_overview_new(struct dt_api *api, dt_overview **out)
{
    dt_overview *o = calloc(1, sizeof(*o));
    *out = o;
    if (!o)
        return DT_NOMEM;
    o->api = api;
    o->loads_part.every_us = LOADS_US;
    o->overdue_part.every_us = OVERDUE_US;
    o->next_part.every_us = NEXT_US;
    o->next_hour = -1;
    dt_status status = dt_kept_new(api->clock, 0, &o->quick);
    DT_THEN(status, dt_kept_new(api->clock, SLOW_SHARE, &o->slow));
    if (status != DT_OK) {
        dt_overview_free(o);
        *out = NULL;
    }
    return status;
}

void dt_overview_free(dt_overview *o)
{
    if (!o)
        return;
    dt_kept_free(o->quick);
    dt_kept_free(o->slow);
    dt_arena_clear(&o->loads_part.arena);
    dt_arena_clear(&o->overdue_part.arena);
    dt_arena_clear(&o->next_part.arena);
    free(o);
}

/* ---- answers that are kept ---- */

enum dt_next dt_answer_kept(struct dt_request *req, dt_store *store, const struct dt_kept_ask *ask)
{
    const dt_overview *o = req->api->overview;
    struct dt_making making = {.req = req, .store = store};
    struct dt_strbuf key = {.failed = !ask->key.p};
    struct dt_error err = {0};
    if (!dt_hold_more(&req->hold, ask->room))
        return dt_request_no_room(req);
    dt_strbuf_addf(&key, "%.*s %.*s", (int)ask->key.n, ask->key.p ? ask->key.p : "", (int)ask->topic.n,
                   ask->topic.p ? ask->topic.p : "");
    for (size_t i = 0; ask->bound && i < ask->bound->n; i++)
        dt_strbuf_addf(&key, " %.*s", (int)ask->bound->prefixes[i].n, ask->bound->prefixes[i].p);
    dt_strbuf_adds(&key, ask->bound ? " bound" : "");
    dt_strbuf_reset(&req->out);
    dt_status status = key.failed ? DT_NOMEM : DT_OK;
    if (status == DT_OK && ask->keep == DT_KEEP_NOT)
        status = ask->make(&making, &req->out, &err);
    else if (status == DT_OK)
        status = dt_kept_answer(ask->keep == DT_KEEP_SLOW ? o->slow : o->quick, dt_strbuf_str(&key),
                                ask->keep == DT_KEEP_SLOW ? 0 : ANSWER_US, ask->make, &making, &req->out, &err);
    dt_strbuf_clear(&key);
    if (making.no_room)
        return dt_request_no_room(req);
    if (status != DT_OK)
        return dt_answer_status(req, status, NULL, &err);
    req->status = 200;
    return DT_REPLY;
}

/* ---- parts that are read less often ---- */

static void set_next_read_time(dt_overview *o, struct part *part, int64_t begun_us)
{
    int64_t now_us = dt_clock_mono_us(o->api->clock);
    part->again_us = now_us + dt_later(part->every_us, SHARE * (now_us - begun_us));
}

/* Reads the jobs by topic and state, and the due jobs by topic, if it is time to read them again. */
static dt_status read_topics(dt_overview *o, dt_store *store, int64_t now_ms, struct dt_error *err)
{
    int64_t begun_us = dt_clock_mono_us(o->api->clock);
    struct part *loads = &o->loads_part;
    struct part *overdue = &o->overdue_part;
    dt_status status = DT_OK;
    if (begun_us >= loads->again_us) {
        dt_arena_reset(&loads->arena);
        o->n_loads = 0;
        status = dt_store_topic_loads(store, &loads->arena, &o->loads, &o->n_loads, err);
        if (status == DT_OK)
            set_next_read_time(o, loads, begun_us);
    }
    begun_us = dt_clock_mono_us(o->api->clock);
    if (status == DT_OK && begun_us >= overdue->again_us) {
        dt_arena_reset(&overdue->arena);
        o->n_overdue = 0;
        status = dt_store_topics_overdue(store, now_ms, COUNTED_MAX, &overdue->arena, &o->overdue, &o->n_overdue, err);
        if (status == DT_OK)
            set_next_read_time(o, overdue, begun_us);
    }
    return status;
}

static dt_status read_next_hour(dt_overview *o, dt_store *store, int64_t now_ms, struct dt_error *err)
{
    int64_t begun_us = dt_clock_mono_us(o->api->clock);
    struct dt_forecast forecast = {0};
    const struct dt_forecast_ask ask = {.from_ms = now_ms, .step_ms = HOUR_MS, .steps = 1, .zones = o->api->zones};
    if (begun_us < o->next_part.again_us)
        return DT_OK;
    dt_arena_reset(&o->next_part.arena);
    o->next_hour = -1;
    dt_status status = dt_store_forecast(store, &ask, &o->next_part.arena, &forecast, err);
    if (status != DT_OK)
        return status;
    o->next_hour = forecast.due[0];
    o->next_is_more = forecast.counted_until_ms < now_ms + HOUR_MS;
    set_next_read_time(o, &o->next_part, begun_us);
    return DT_OK;
}

/* ---- topics ---- */

struct lines {
    struct topic_line *v;
    size_t n;
};

static struct topic_line *add_topic_line(struct lines *lines, struct dt_str topic)
{
    struct topic_line *line = &lines->v[lines->n++];
    *line = (struct topic_line){.topic = topic};
    return line;
}

static int compare_lines_by_topic(const void *a, const void *b)
{
    return dt_str_order(((const struct topic_line *)a)->topic, ((const struct topic_line *)b)->topic);
}

static void add_line_to_sum(struct topic_line *sum, const struct topic_line *line)
{
    for (int i = 0; i < DT_JOB_STATES; i++)
        sum->jobs[i] += line->jobs[i];
    for (int i = 0; i < DT_TALLIES; i++)
        sum->n[i] += line->n[i];
    sum->overdue += line->overdue;
    sum->held += line->held;
    sum->since_ms = dt_older(sum->since_ms, line->since_ms);
    sum->held_since_ms = dt_older(sum->held_since_ms, line->held_since_ms);
}

static int64_t count_events_of(const struct topic_line *line)
{
    int64_t sum = 0;
    for (int i = 0; i < DT_TALLIES; i++)
        sum += line->n[i];
    return sum;
}

static int compare_lines_by_overdue(const void *a, const void *b)
{
    const struct topic_line *x = a;
    const struct topic_line *y = b;
    int order = DT_ORDER(y->overdue, x->overdue);
    if (!order)
        order = DT_ORDER(count_events_of(y), count_events_of(x));
    if (!order)
        order =
            DT_ORDER(y->jobs[DT_SCHEDULED] + y->jobs[DT_DISPATCHED], x->jobs[DT_SCHEDULED] + x->jobs[DT_DISPATCHED]);
    return order ? order : compare_lines_by_topic(a, b);
}

/* Joins three sources by topic: jobs by state, due jobs, figures. The row of `figures` with the empty topic is the sum
 * of all topics. */
static dt_status join_topic_lines(const dt_overview *o, struct overview_view *view,
                                  const struct dt_figures_row *figures, size_t n_figures)
{
    size_t kept = 0;
    const size_t most = o->n_loads + o->n_overdue + n_figures;
    struct lines lines = {.v = dt_arena_alloc(&view->arena, (most + 1) * sizeof(*lines.v))};
    if (!lines.v)
        return DT_NOMEM;
    for (size_t i = 0; i < o->n_loads; i++)
        memcpy(add_topic_line(&lines, o->loads[i].topic)->jobs, o->loads[i].jobs, sizeof(lines.v->jobs));
    for (size_t i = 0; i < o->n_overdue; i++) {
        const struct dt_topic_overdue *due = &o->overdue[i];
        struct topic_line *line = add_topic_line(&lines, due->topic);
        *(due->paused ? &line->held : &line->overdue) = due->jobs;
        *(due->paused ? &line->held_since_ms : &line->since_ms) = due->since_ms;
    }
    for (size_t i = 0; i < lines.n; i++)
        add_line_to_sum(&view->all, &lines.v[i]);
    for (size_t i = 0; i < n_figures; i++)
        memcpy(figures[i].topic.n ? add_topic_line(&lines, figures[i].topic)->n : view->all.n, figures[i].n,
               sizeof(view->all.n));
    dt_assert_cmp(lines.n, <=, most);
    qsort(lines.v, lines.n, sizeof(*lines.v), compare_lines_by_topic);
    for (size_t i = 0; i < lines.n; i++) {
        if (kept && dt_str_eq(lines.v[kept - 1].topic, lines.v[i].topic))
            add_line_to_sum(&lines.v[kept - 1], &lines.v[i]);
        else
            lines.v[kept++] = lines.v[i];
    }
    qsort(lines.v, kept, sizeof(*lines.v), compare_lines_by_overdue);
    view->lines = lines.v;
    view->n_lines = kept;
    view->more_due = view->all.overdue + view->all.held >= COUNTED_MAX;
    return DT_OK;
}

/* ---- JSON ---- */

static void put_event_rates(struct dt_strbuf *out, const int64_t n[DT_TALLIES])
{
    dt_json_begin_object(out, "rates");
    for (int i = 0; i < DT_TALLIES; i++)
        dt_json_put_double(out, dt_series_names[i], 6, (double)n[i] / (WINDOW_MS / 1000));
    dt_json_end_object(out);
}

/* Adds the time since since_ms; null if since_ms is 0. */
static void put_age(struct dt_strbuf *out, const char *name, int64_t since_ms, int64_t now_ms)
{
    dt_json_put_int_or_null(out, name, since_ms != 0, dt_later(now_ms - since_ms, 0));
}

static void put_lateness(struct dt_strbuf *out, const struct overview_view *view)
{
    int64_t attempts = 0;
    for (size_t i = 0; i < view->n_lateness; i++)
        attempts += view->lateness[i].attempts;
    if (!attempts) {
        dt_json_put_null(out, "lateness_ms");
        return;
    }
    dt_json_begin_object(out, "lateness_ms");
    dt_json_put_double(out, "p50", 4, dt_lateness_ms(view->lateness, view->n_lateness, 0.5));
    dt_json_put_double(out, "p99", 4, dt_lateness_ms(view->lateness, view->n_lateness, 0.99));
    dt_json_put_int(out, "attempts", attempts);
    dt_json_end_object(out);
}

static void put_due_jobs(struct dt_strbuf *out, const struct overview_view *view, const char *name, int64_t jobs,
                         int64_t since_ms)
{
    dt_json_begin_object(out, name);
    dt_json_put_int(out, "count", jobs);
    dt_json_put_bool(out, "at_least", view->more_due);
    put_age(out, "oldest_ms", since_ms, view->now_ms);
    dt_json_end_object(out);
}

static void put_topics(struct dt_strbuf *out, const struct overview_view *view)
{
    size_t n = view->n_lines < TOPICS_MAX ? view->n_lines : TOPICS_MAX;
    dt_json_begin_array(out, "topics");
    for (size_t i = 0; i < n; i++) {
        const struct topic_line *line = &view->lines[i];
        const struct dt_topic_settings *settings = dt_view_topic(view->view, line->topic);
        dt_json_begin_object(out, NULL);
        dt_json_put_string(out, "topic", line->topic);
        dt_json_put_bool(out, "paused", settings && settings->paused);
        dt_json_put_word(out, "delivery", settings ? dt_delivery_id_name(settings->delivery) : "kafka");
        put_event_rates(out, line->n);
        dt_json_put_int(out, "scheduled", line->jobs[DT_SCHEDULED]);
        dt_json_put_int(out, "dispatched", line->jobs[DT_DISPATCHED]);
        dt_json_put_int(out, "dead", line->jobs[DT_DEAD]);
        dt_json_put_int(out, "overdue", line->overdue);
        put_age(out, "oldest_overdue_ms", line->since_ms, view->now_ms);
        dt_json_put_int(out, "held", line->held);
        dt_json_end_object(out);
    }
    dt_json_end_array(out);
    dt_json_put_int(out, "topics_more", (int64_t)(view->n_lines - n));
}

/* Returns how many shards of the map do not dispatch for the reason `why`. */
static unsigned count_shards(const struct overview_view *view, enum dt_shard_why why)
{
    unsigned n = 0;
    for (unsigned shard = 0; shard < view->view->map.shards; shard++)
        n += dt_shard_judge(dt_shards_find(view->shards, shard), &view->shards->dispatchers, view->now_ms).why == why;
    return n;
}

/* Returns why shards or dispatchers wait for the server; NULL if `any` is false, because none waits. */
static const char *wait_reason(const struct overview_view *view, const char *server, bool any, const char *otherwise)
{
    for (size_t i = 0; any && i < view->shards->n; i++) {
        const struct dt_shard_info *shard = &view->shards->shards[i];
        if (dt_str_is(shard->waiting, server) && shard->detail.n)
            return shard->detail.p;
    }
    return any ? otherwise : NULL;
}

static void put_part_state(struct dt_strbuf *out, const char *part, bool there, const char *trouble, int64_t at_ms)
{
    dt_json_begin_object(out, NULL);
    dt_json_put_word(out, "part", part);
    dt_json_put_word(out, "state", !there ? "none" : trouble ? "degraded" : "ok");
    dt_json_put_filled(out, "detail", there ? dt_str(trouble) : DT_STR_NONE);
    dt_json_put_time(out, "at", at_ms);
    dt_json_end_object(out);
}

static void put_part_states(struct dt_strbuf *out, const struct dt_api *api, const struct overview_view *view)
{
    const struct dt_health_state *health = &view->health;
    const struct dt_dispatchers *dispatchers = &view->shards->dispatchers;
    const char *mysql = health->mysql_text[0] ? health->mysql_text : "MySQL is not healthy";
    const char *redis = health->redis_text[0] ? health->redis_text : "Redis is not healthy";
    const int64_t now_us = dt_clock_mono_us(api->clock);
    const int64_t at_ms = dispatchers->now_ms;
    dt_json_begin_array(out, "parts");
    put_part_state(out, "mysql", true, health->mysql == DT_OK ? NULL : mysql,
                   view->now_ms - (now_us - health->mysql_us) / 1000);
    put_part_state(out, "redis", dt_index_configured(api->config),
                   health->redis ? wait_reason(view, "redis", dispatchers->waits_redis, "a leader waits for Redis")
                                 : redis,
                   at_ms);
    put_part_state(out, "kafka", dt_config_has_kafka(api->config),
                   wait_reason(view, "kafka", dispatchers->waits_kafka, "a dispatcher waits for Kafka"), at_ms);
    put_part_state(out, "zookeeper", api->config->zookeeper_servers[0],
                   count_shards(view, DT_SHARD_NO_LEADER) ? "dispatchers run, but shards have no leader" : NULL, at_ms);
    put_part_state(out, "dispatchers", true, dispatchers->n ? NULL : "no dispatcher was seen for four seconds", at_ms);
    dt_json_end_array(out);
}

static void put_processes(struct dt_strbuf *out, const struct overview_view *view)
{
    dt_json_begin_array(out, "processes");
    for (size_t i = 0; i < view->n_processes; i++) {
        const struct dt_live_process *process = &view->processes[i];
        dt_json_begin_object(out, NULL);
        dt_json_put_string(out, "name", process->name);
        dt_json_put_word(out, "kind", process->dispatcher ? "dispatcher" : "api");
        dt_json_put_filled(out, "version", process->version);
        dt_json_put_time(out, "started_at", process->started_at_ms);
        dt_json_put_int(out, "seen_ms_ago", process->seen_ms_ago);
        dt_json_begin_array(out, "leads");
        for (struct dt_str list = process->leads; list.n;) {
            struct dt_str shard = dt_str_next_element(&list);
            if (shard.n)
                dt_json_put_raw(out, NULL, shard);
        }
        dt_json_end_array(out);
        dt_json_put_filled(out, "waits_for", process->waits);
        dt_json_end_object(out);
    }
    dt_json_end_array(out);
}

static const char *overall_status_of(const struct dt_api *api, const struct overview_view *view)
{
    const struct dt_health_state *health = &view->health;
    if (health->mysql != DT_OK || health->draining)
        return "unready";
    bool redis = !dt_index_configured(api->config) || health->redis;
    const struct dt_dispatchers *dispatchers = &view->shards->dispatchers;
    bool waits = dispatchers->waits_redis || dispatchers->waits_kafka;
    unsigned without = count_shards(view, DT_SHARD_NO_LEADER) + count_shards(view, DT_SHARD_NO_DISPATCHER);
    return redis && !waits && !without ? "ready" : "degraded";
}

static void add_overview(const dt_overview *o, const struct overview_view *view, struct dt_strbuf *out)
{
    dt_json_begin_object(out, NULL);
    dt_json_put_time(out, "now", view->now_ms);
    dt_json_put_word(out, "version", DUETIME_VERSION);
    dt_json_begin_object(out, "installation");
    dt_json_put_word(out, "name", view->view->installation.name);
    dt_json_put_word(out, "uuid", view->view->installation.uuid);
    dt_json_end_object(out);
    dt_json_put_word(out, "status", overall_status_of(o->api, view));
    dt_json_put_int(out, "window_ms", WINDOW_MS);
    put_event_rates(out, view->all.n);
    put_lateness(out, view);
    dt_json_begin_object(out, "jobs");
    for (int i = 0; i < DT_JOB_STATES; i++)
        dt_json_put_int(out, dt_job_state_name((enum dt_job_state)i), view->all.jobs[i]);
    dt_json_end_object(out);
    put_due_jobs(out, view, "overdue", view->all.overdue, view->all.since_ms);
    put_due_jobs(out, view, "held", view->all.held, view->all.held_since_ms);
    if (o->next_hour < 0) {
        dt_json_put_null(out, "next_hour");
    } else {
        dt_json_begin_object(out, "next_hour");
        dt_json_put_int(out, "due", o->next_hour);
        dt_json_put_bool(out, "at_least", o->next_is_more);
        dt_json_end_object(out);
    }
    put_topics(out, view);
    put_part_states(out, o->api, view);
    put_processes(out, view);
    dt_json_begin_array(out, "shards");
    for (size_t i = 0; i < view->shards->n; i++)
        dt_shard_put(out, NULL, &view->shards->shards[i], &view->shards->dispatchers, view->now_ms);
    dt_json_end_array(out);
    dt_json_end_object(out);
}

/* ---- reading ---- */

static dt_status read_overview(dt_overview *o, dt_store *store, struct overview_view *view, struct dt_error *err)
{
    struct dt_api *api = o->api;
    struct dt_figures_row *figures = NULL;
    size_t n = 0;
    dt_status status = dt_topic_cache_refresh(api->topics, DT_SNAPSHOT_TOPICS_AND_SHARDS, store, err);
    if (status != DT_OK)
        return status;
    view->view = dt_topic_cache_view(api->topics);
    view->shards = dt_topic_cache_shards(api->topics);
    dt_assert(view->view && view->shards); /* the refresh above has published the snapshots */
    view->now_ms = dt_refclock_earliest_ms(api->ref);
    dt_health_get(api->health, &view->health);
    status = read_topics(o, store, view->now_ms, err);
    DT_THEN(status, read_next_hour(o, store, view->now_ms, err));
    DT_THEN(status, dt_store_processes(store, &view->arena, &view->processes, &view->n_processes, err));
    int64_t to_ms = view->now_ms - BEHIND_MS;
    to_ms -= to_ms % DT_FINE_MS;
    const struct dt_figures_range range = {
        .step_ms = DT_FINE_MS, .from_ms = to_ms - WINDOW_MS, .to_ms = to_ms, .slot_ms = ALL_SLOTS};
    DT_THEN(status, dt_store_figures_of_topics(store, &range, &view->arena, &figures, &n, err));
    DT_THEN(status, dt_store_lateness(store, &range, &view->arena, &view->lateness, &view->n_lateness, err));
    return status == DT_OK ? join_topic_lines(o, view, figures, n) : status;
}

static dt_status make_overview(void *arg, struct dt_strbuf *out, struct dt_error *err)
{
    const struct dt_making *making = arg;
    dt_overview *o = making->req->api->overview;
    struct overview_view view = {0};
    dt_status status = read_overview(o, making->store, &view, err);
    if (status == DT_OK)
        add_overview(o, &view, out);
    dt_view_release(view.view);
    dt_shards_release(view.shards);
    dt_arena_clear(&view.arena);
    return status;
}

enum dt_next dt_handle_overview(struct dt_request *req, dt_store *store)
{
    return dt_answer_kept(
        req, store, &(struct dt_kept_ask){.room = ANSWER_BYTES, .key = DT_STR_LIT("overview"), .make = make_overview});
}

/* ---- dead letters ---- */

static dt_status make_dead_letters(void *arg, struct dt_strbuf *out, struct dt_error *err)
{
    const struct dt_making *making = arg;
    struct dt_dead_groups groups;
    struct dt_arena arena = {0};
    dt_status status = dt_store_dead_groups(making->store, making->req->state, &arena, &groups, err);
    if (status == DT_OK) {
        dt_json_begin_object(out, NULL);
        dt_json_put_int(out, "jobs", groups.jobs);
        dt_json_put_bool(out, "newest", groups.newest);
        dt_json_begin_array(out, "groups");
        for (size_t i = 0; i < groups.n; i++) {
            const struct dt_dead_group *group = &groups.v[i];
            dt_json_begin_object(out, NULL);
            dt_json_put_string(out, "topic", group->topic);
            dt_json_put_string(out, "error_code", group->error_code);
            dt_json_put_string(out, "message", group->message);
            dt_json_put_int(out, "jobs", group->jobs);
            dt_json_put_id(out, "job_id", group->job_id);
            dt_json_put_time(out, "last_at", group->last_ms);
            dt_json_end_object(out);
        }
        dt_json_end_array(out);
        dt_json_put_int(out, "groups_more", (int64_t)groups.more);
        dt_json_end_object(out);
    }
    dt_arena_clear(&arena);
    return status;
}

static enum dt_next answer_dead_letters(struct dt_request *req, dt_store *store)
{
    struct dt_dead_ask *ask = req->state;
    ask->now_ms = dt_refclock_earliest_ms(req->api->ref);
    return dt_answer_kept(
        req, store,
        &(struct dt_kept_ask){.keep = DT_KEEP_SLOW,
                              .room = DEAD_BYTES,
                              .key = dt_arena_printf(&req->arena, "dead %d %lld %lld", ask->failed.given,
                                                     (long long)ask->failed.from_ms, (long long)ask->failed.to_ms),
                              .topic = ask->topic,
                              .bound = ask->bound,
                              .make = make_dead_letters});
}

enum dt_next dt_handle_dead_letters(struct dt_request *req)
{
    struct dt_dead_ask *ask = dt_answer_state(req, sizeof(*ask));
    if (!ask || !dt_answer_clock(req))
        return DT_REPLY;
    struct dt_faults faults = {.arena = &req->arena};
    *ask = (struct dt_dead_ask){.failed = dt_answer_times(req, "failed_from", "failed_to", &faults),
                                .bound = dt_wall_bound(req)};
    ask->topic = dt_answer_topic(req, &faults);
    return dt_answer_submit(req, &faults, answer_dead_letters);
}
