/* The overview, and dead letters by topic and error, as JSON. Pure: everything was read before. */
#include "job/delivery.h"
#include "job/job_encode.h"
#include "jobs/shard_json.h"
#include "overview/overview_parts.h"

void dt_rates_add(struct dt_strbuf *out, const int64_t n[DT_TALLIES], double seconds)
{
    for (int i = 0; i < DT_TALLIES; i++)
        dt_strbuf_addf(out, "%c\"%s\":%.6g", i ? ',' : '{', dt_series_names[i], (double)n[i] / seconds);
    dt_strbuf_addc(out, '}');
}

static void add_number(struct dt_strbuf *out, const char *name, int64_t v)
{
    dt_strbuf_addf(out, ",\"%s\":%lld", name, (long long)v);
}

static void add_text(struct dt_strbuf *out, const char *name, struct dt_str value)
{
    dt_strbuf_addf(out, ",\"%s\":", name);
    dt_json_add_string_or_null(out, value.n ? value : DT_STR_NONE);
}

/* Since when, as an age; null where nothing is. */
static void add_age(struct dt_strbuf *out, const char *name, int64_t since_ms, int64_t now_ms)
{
    dt_strbuf_addf(out, ",\"%s\":", name);
    if (since_ms)
        dt_strbuf_add_i64(out, dt_later(now_ms - since_ms, 0));
    else
        dt_strbuf_adds(out, "null");
}

/* ---- figures ---- */

static void add_lateness(struct dt_strbuf *out, const struct dt_overview_view *view)
{
    int64_t attempts = 0;
    for (size_t i = 0; i < view->n_lateness; i++)
        attempts += view->lateness[i].attempts;
    if (!attempts) {
        dt_strbuf_adds(out, ",\"lateness_ms\":null");
        return;
    }
    dt_strbuf_addf(out, ",\"lateness_ms\":{\"p50\":%.4g,\"p99\":%.4g,\"attempts\":%lld}",
                   dt_lateness_ms(view->lateness, view->n_lateness, 0.5),
                   dt_lateness_ms(view->lateness, view->n_lateness, 0.99), (long long)attempts);
}

static void add_due(struct dt_strbuf *out, const struct dt_overview_view *view, const char *name, int64_t jobs,
                    int64_t since_ms)
{
    dt_strbuf_addf(out, ",\"%s\":{\"count\":%lld,\"at_least\":%s", name, (long long)jobs,
                   view->more_due ? "true" : "false");
    add_age(out, "oldest_ms", since_ms, view->now_ms);
    dt_strbuf_addc(out, '}');
}

static void add_topics(struct dt_strbuf *out, const struct dt_overview_view *view)
{
    size_t n = view->n_lines < DT_OVERVIEW_TOPICS ? view->n_lines : DT_OVERVIEW_TOPICS;
    dt_strbuf_adds(out, ",\"topics\":[");
    for (size_t i = 0; i < n; i++) {
        const struct dt_topic_line *line = &view->lines[i];
        const struct dt_topic_settings *settings = dt_view_topic(view->view, line->topic);
        dt_strbuf_adds(out, i ? ",{\"topic\":" : "{\"topic\":");
        dt_json_add_string(out, line->topic);
        dt_strbuf_addf(out,
                       ",\"paused\":%s,\"delivery\":\"%s\",\"rates\":", settings && settings->paused ? "true" : "false",
                       settings ? dt_delivery_id_name(settings->delivery) : "kafka");
        dt_rates_add(out, line->n, (double)view->window_ms / 1000);
        add_number(out, "scheduled", line->jobs[DT_SCHEDULED]);
        add_number(out, "dispatched", line->jobs[DT_DISPATCHED]);
        add_number(out, "dead", line->jobs[DT_DEAD]);
        add_number(out, "overdue", line->overdue);
        add_age(out, "oldest_overdue_ms", line->since_ms, view->now_ms);
        add_number(out, "held", line->held);
        dt_strbuf_addc(out, '}');
    }
    dt_strbuf_addf(out, "],\"topics_more\":%zu", view->n_lines - n);
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

static void add_part(struct dt_strbuf *out, const char *part, bool there, const char *trouble, int64_t at_ms)
{
    dt_strbuf_addf(out, "%s{\"part\":\"%s\",\"state\":\"%s\"", strcmp(part, "mysql") == 0 ? "" : ",", part,
                   !there    ? "none"
                   : trouble ? "degraded"
                             : "ok");
    add_text(out, "detail", there ? dt_str(trouble) : DT_STR_NONE);
    dt_strbuf_adds(out, ",\"at\":");
    dt_json_add_time(out, at_ms);
    dt_strbuf_addc(out, '}');
}

static void add_parts(struct dt_strbuf *out, const struct dt_api *api, const struct dt_overview_view *view)
{
    const struct dt_health_state *health = &view->health;
    const struct dt_dispatchers *dispatchers = &view->shards->dispatchers;
    const char *mysql = health->mysql_text[0] ? health->mysql_text : "MySQL is not well";
    const char *redis = health->redis_text[0] ? health->redis_text : "Redis is not well";
    const int64_t now_us = dt_clock_mono_us(api->clock);
    const int64_t at_ms = dispatchers->now_ms;
    dt_strbuf_adds(out, ",\"parts\":[");
    add_part(out, "mysql", true, health->mysql == DT_OK ? NULL : mysql,
             view->now_ms - (now_us - health->mysql_us) / 1000);
    add_part(out, "redis", dt_index_configured(api->config),
             health->redis ? wait_for(view, "redis", dispatchers->waits_redis, "a leader waits for Redis") : redis,
             at_ms);
    add_part(out, "kafka", dt_config_has_kafka(api->config),
             wait_for(view, "kafka", dispatchers->waits_kafka, "a dispatcher waits for Kafka"), at_ms);
    add_part(out, "zookeeper", api->config->zookeeper_servers[0],
             count_shards(view, DT_SHARD_NO_LEADER) ? "dispatchers run, and shards are without a leader" : NULL, at_ms);
    add_part(out, "dispatchers", true, dispatchers->n ? NULL : "none was seen for four seconds", at_ms);
    dt_strbuf_addc(out, ']');
}

static void add_shards_and_processes(struct dt_strbuf *out, const struct dt_overview_view *view)
{
    dt_strbuf_adds(out, ",\"processes\":[");
    for (size_t i = 0; i < view->n_processes; i++) {
        const struct dt_live_process *process = &view->processes[i];
        unsigned led = 0;
        dt_strbuf_adds(out, i ? ",{\"name\":" : "{\"name\":");
        dt_json_add_string(out, process->name);
        dt_strbuf_addf(out, ",\"kind\":\"%s\"", process->dispatcher ? "dispatcher" : "api");
        add_text(out, "version", process->version);
        dt_strbuf_adds(out, ",\"started_at\":");
        dt_json_add_time(out, process->started_at_ms);
        add_number(out, "seen_ms_ago", process->seen_ms_ago);
        dt_strbuf_adds(out, ",\"leads\":[");
        for (struct dt_str list = process->leads; list.n;) {
            struct dt_str element = dt_str_next_element(&list);
            if (element.n)
                dt_strbuf_addf(out, "%s%.*s", led++ ? "," : "", (int)element.n, element.p);
        }
        dt_strbuf_addc(out, ']');
        add_text(out, "waits_for", process->waits);
        dt_strbuf_addc(out, '}');
    }
    dt_strbuf_adds(out, "],\"shards\":[");
    for (size_t i = 0; i < view->shards->n; i++) {
        if (i)
            dt_strbuf_addc(out, ',');
        dt_shard_add_json(out, &view->shards->shards[i], &view->shards->dispatchers, view->now_ms);
    }
    dt_strbuf_addc(out, ']');
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
    dt_strbuf_adds(out, "{\"now\":");
    dt_json_add_time(out, view->now_ms);
    dt_strbuf_adds(out, ",\"version\":\"" DUETIME_VERSION "\",\"installation\":{\"name\":");
    dt_json_add_string(out, dt_str(view->view->installation.name));
    dt_strbuf_addf(out,
                   ",\"uuid\":\"%s\"},\"status\":\"%s\",\"window_ms\":%lld,\"rates\":", view->view->installation.uuid,
                   status_of(api, view), (long long)view->window_ms);
    dt_rates_add(out, view->all.n, (double)view->window_ms / 1000);
    add_lateness(out, view);
    dt_strbuf_adds(out, ",\"jobs\":{");
    for (int i = 0; i < DT_JOB_STATES; i++)
        dt_strbuf_addf(out, "%s\"%s\":%lld", i ? "," : "", dt_job_state_name((enum dt_job_state)i),
                       (long long)view->all.jobs[i]);
    dt_strbuf_addc(out, '}');
    add_due(out, view, "overdue", view->all.overdue, view->all.since_ms);
    add_due(out, view, "held", view->all.held, view->all.held_since_ms);
    if (view->next_hour < 0)
        dt_strbuf_adds(out, ",\"next_hour\":null");
    else
        dt_strbuf_addf(out, ",\"next_hour\":{\"due\":%lld,\"at_least\":%s}", (long long)view->next_hour,
                       view->next_is_more ? "true" : "false");
    add_topics(out, view);
    add_parts(out, api, view);
    add_shards_and_processes(out, view);
    dt_strbuf_addc(out, '}');
}

/* ---- dead letters ---- */

void dt_dead_add_json(struct dt_strbuf *out, const struct dt_dead_groups *groups)
{
    dt_strbuf_addf(out, "{\"jobs\":%lld,\"newest\":%s,\"groups\":[", (long long)groups->jobs,
                   groups->newest ? "true" : "false");
    for (size_t i = 0; i < groups->n; i++) {
        const struct dt_dead_group *group = &groups->v[i];
        dt_strbuf_adds(out, i ? ",{\"topic\":" : "{\"topic\":");
        dt_json_add_string(out, group->topic);
        dt_strbuf_adds(out, ",\"error_code\":");
        dt_json_add_string_or_null(out, group->error_code);
        dt_strbuf_adds(out, ",\"message\":");
        dt_json_add_string_or_null(out, group->message);
        dt_strbuf_addf(out, ",\"jobs\":%lld,\"job_id\":\"%lld\",\"last_at\":", (long long)group->jobs,
                       (long long)group->job_id);
        if (group->last_ms)
            dt_json_add_time(out, group->last_ms);
        else
            dt_strbuf_adds(out, "null");
        dt_strbuf_addc(out, '}');
    }
    dt_strbuf_addf(out, "],\"groups_more\":%zu}", groups->more);
}
