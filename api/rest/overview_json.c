/* The overview, and dead letters by topic and error, as JSON. Pure: everything was read before. */
#include "base/text/json_write.h"
#include "dispatch/shards.h"
#include "job/delivery.h"
#include "job/job_encode.h"
#include "overview_parts.h"
#include "explain_rest.h"
#include "store/processes.h"

void dt_rates_put(struct dt_strbuf *out, const char *name, const int64_t n[DT_TALLIES], double seconds)
{
    dt_json_begin_object(out, name);
    for (int i = 0; i < DT_TALLIES; i++)
        dt_json_put_double(out, dt_series_names[i], 6, (double)n[i] / seconds);
    dt_json_end_object(out);
}

/* Since when, as an age; null if nothing is. */
static void put_age(struct dt_strbuf *out, const char *name, int64_t since_ms, int64_t now_ms)
{
    dt_json_put_int_or_null(out, name, since_ms != 0, dt_later(now_ms - since_ms, 0));
}

/* ---- figures ---- */

static void put_lateness(struct dt_strbuf *out, const struct dt_overview_view *view)
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

static void put_due(struct dt_strbuf *out, const struct dt_overview_view *view, const char *name, int64_t jobs,
                    int64_t since_ms)
{
    dt_json_begin_object(out, name);
    dt_json_put_int(out, "count", jobs);
    dt_json_put_bool(out, "at_least", view->more_due);
    put_age(out, "oldest_ms", since_ms, view->now_ms);
    dt_json_end_object(out);
}

static void put_topics(struct dt_strbuf *out, const struct dt_overview_view *view)
{
    size_t n = view->n_lines < DT_OVERVIEW_TOPICS ? view->n_lines : DT_OVERVIEW_TOPICS;
    dt_json_begin_array(out, "topics");
    for (size_t i = 0; i < n; i++) {
        const struct dt_topic_line *line = &view->lines[i];
        const struct dt_topic_settings *settings = dt_view_topic(view->view, line->topic);
        dt_json_begin_object(out, NULL);
        dt_json_put_string(out, "topic", line->topic);
        dt_json_put_bool(out, "paused", settings && settings->paused);
        dt_json_put_word(out, "delivery", settings ? dt_delivery_id_name(settings->delivery) : "kafka");
        dt_rates_put(out, "rates", line->n, (double)view->window_ms / 1000);
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

/* ---- parts ---- */

/* Counts shards of the map for which this is why they do not dispatch. */
static unsigned count_shards(const struct dt_overview_view *view, enum dt_shard_why why)
{
    unsigned n = 0;
    for (unsigned shard = 0; shard < view->view->map.shards; shard++)
        n += dt_shard_judge(dt_shards_find(view->shards, shard), &view->shards->dispatchers, view->now_ms).why == why;
    return n;
}

/* What is said of a server that a shard, or a dispatcher, waits for; NULL: none does. */
static const char *wait_for(const struct dt_overview_view *view, const char *server, bool any, const char *otherwise)
{
    for (size_t i = 0; any && i < view->shards->n; i++) {
        const struct dt_shard_info *shard = &view->shards->shards[i];
        if (dt_str_is(shard->waiting, server) && shard->detail.n)
            return shard->detail.p;
    }
    return any ? otherwise : NULL;
}

static void put_part(struct dt_strbuf *out, const char *part, bool there, const char *trouble, int64_t at_ms)
{
    dt_json_begin_object(out, NULL);
    dt_json_put_word(out, "part", part);
    dt_json_put_word(out, "state", !there ? "none" : trouble ? "degraded" : "ok");
    dt_json_put_filled(out, "detail", there ? dt_str(trouble) : DT_STR_NONE);
    dt_json_put_time(out, "at", at_ms);
    dt_json_end_object(out);
}

static void put_parts(struct dt_strbuf *out, const struct dt_api *api, const struct dt_overview_view *view)
{
    const struct dt_health_state *health = &view->health;
    const struct dt_dispatchers *dispatchers = &view->shards->dispatchers;
    const char *mysql = health->mysql_text[0] ? health->mysql_text : "MySQL is not well";
    const char *redis = health->redis_text[0] ? health->redis_text : "Redis is not well";
    const int64_t now_us = dt_clock_mono_us(api->clock);
    const int64_t at_ms = dispatchers->now_ms;
    dt_json_begin_array(out, "parts");
    put_part(out, "mysql", true, health->mysql == DT_OK ? NULL : mysql,
             view->now_ms - (now_us - health->mysql_us) / 1000);
    put_part(out, "redis", dt_index_configured(api->config),
             health->redis ? wait_for(view, "redis", dispatchers->waits_redis, "a leader waits for Redis") : redis,
             at_ms);
    put_part(out, "kafka", dt_config_has_kafka(api->config),
             wait_for(view, "kafka", dispatchers->waits_kafka, "a dispatcher waits for Kafka"), at_ms);
    put_part(out, "zookeeper", api->config->zookeeper_servers[0],
             count_shards(view, DT_SHARD_NO_LEADER) ? "dispatchers run, and shards are without a leader" : NULL, at_ms);
    put_part(out, "dispatchers", true, dispatchers->n ? NULL : "none was seen for four seconds", at_ms);
    dt_json_end_array(out);
}

static void put_processes(struct dt_strbuf *out, const struct dt_overview_view *view)
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

/* ---- the whole ---- */

static const char *status_of(const struct dt_api *api, const struct dt_overview_view *view)
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

void dt_overview_add_json(const struct dt_api *api, const struct dt_overview_view *view, struct dt_strbuf *out)
{
    dt_json_begin_object(out, NULL);
    dt_json_put_time(out, "now", view->now_ms);
    dt_json_put_word(out, "version", DUETIME_VERSION);
    dt_json_begin_object(out, "installation");
    dt_json_put_word(out, "name", view->view->installation.name);
    dt_json_put_word(out, "uuid", view->view->installation.uuid);
    dt_json_end_object(out);
    dt_json_put_word(out, "status", status_of(api, view));
    dt_json_put_int(out, "window_ms", view->window_ms);
    dt_rates_put(out, "rates", view->all.n, (double)view->window_ms / 1000);
    put_lateness(out, view);
    dt_json_begin_object(out, "jobs");
    for (int i = 0; i < DT_JOB_STATES; i++)
        dt_json_put_int(out, dt_job_state_name((enum dt_job_state)i), view->all.jobs[i]);
    dt_json_end_object(out);
    put_due(out, view, "overdue", view->all.overdue, view->all.since_ms);
    put_due(out, view, "held", view->all.held, view->all.held_since_ms);
    if (view->next_hour < 0) {
        dt_json_put_null(out, "next_hour");
    } else {
        dt_json_begin_object(out, "next_hour");
        dt_json_put_int(out, "due", view->next_hour);
        dt_json_put_bool(out, "at_least", view->next_is_more);
        dt_json_end_object(out);
    }
    put_topics(out, view);
    put_parts(out, api, view);
    put_processes(out, view);
    dt_json_begin_array(out, "shards");
    for (size_t i = 0; i < view->shards->n; i++)
        dt_shard_put(out, NULL, &view->shards->shards[i], &view->shards->dispatchers, view->now_ms);
    dt_json_end_array(out);
    dt_json_end_object(out);
}

/* ---- dead letters ---- */

void dt_dead_add_json(struct dt_strbuf *out, const struct dt_dead_groups *groups)
{
    dt_json_begin_object(out, NULL);
    dt_json_put_int(out, "jobs", groups->jobs);
    dt_json_put_bool(out, "newest", groups->newest);
    dt_json_begin_array(out, "groups");
    for (size_t i = 0; i < groups->n; i++) {
        const struct dt_dead_group *group = &groups->v[i];
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
    dt_json_put_int(out, "groups_more", (int64_t)groups->more);
    dt_json_end_object(out);
}
