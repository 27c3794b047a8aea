/* See findings.h. */
#include "findings.h"

#include <stdio.h>
#include <string.h>

#include "base/text/timetext.h"

#define PAGE(name) "deploy/runbook/" name ".md"

const struct dt_finding_text dt_finding_texts[DT_FINDINGS] = {
    [DT_FOUND_UNREACHED] = {"api-unreached", "No API answers there: it does not run, or the address is another one.",
                            "check DUETIME_URL or the context; on its machine: systemctl status duetime-api",
                            PAGE("way/api-unreached")},
    [DT_FOUND_NOT_DUETIME] =
        {"not-an-api", "Something answers there that is no API of duetime, or one behind a proxy that is not well.",
         "check DUETIME_URL or the context", PAGE("way/not-an-api")},
    [DT_FOUND_TOKEN] =
        {"token-refused",
         "There is no token, it is revoked, or it may not read what concerns all topics; the rest cannot be looked at.",
         "duetime-api --new-token NAME --scopes read, and its output into the file of --token-file",
         PAGE("way/token-refused")},
    [DT_FOUND_CLEAR_TOKEN] = {"token-in-the-clear",
                              "The token goes over the network unencrypted: whoever hears it can use it.",
                              "give the API a certificate ([http] tls_cert), and DUETIME_URL https://",
                              PAGE("way/token-in-the-clear")},
    [DT_FOUND_CERTIFICATE] = {"certificate-ends", "When it has ended, no client that checks certificates is served.",
                              "renew the certificate of the server before the API", PAGE("way/certificate-ends")},
    [DT_FOUND_VERSION] = {"versions-differ",
                          "This program may ask for what the API does not know, and the other way round.",
                          "install the same version of both: duetime version", PAGE("way/versions-differ")},
    [DT_FOUND_CLOCK] = {"clock-skew",
                        "Times that are given as run_at mean something else here than there; delays are not concerned.",
                        "timedatectl status, here and on MySQL's machine", PAGE("way/clock-skew")},
    [DT_FOUND_DRAINING] = {"api-draining", "This API process is about to end, and finishes what is under way.",
                           "systemctl status duetime-api", PAGE("processes/api-draining")},
    [DT_FOUND_MYSQL] =
        {"mysql-away", "Nothing can be accepted or claimed; what was accepted is safe, and goes on when MySQL is back.",
         "systemctl status mariadb; mysqladmin ping, with the account of the API", PAGE("mysql/mysql-away")},
    [DT_FOUND_SCHEMA] = {"schema-differs",
                         "The database has not the schema that the API was built for, so it takes no jobs.",
                         "duetime-api --migrate", PAGE("mysql/schema-differs")},
    [DT_FOUND_READ_ONLY] =
        {"mysql-read-only", "MySQL takes no writes, so no job can be accepted or claimed.",
         "mysql -e 'SHOW VARIABLES LIKE \"read_only\"'; connect the API with the server that is the writer",
         PAGE("mysql/mysql-read-only")},
    [DT_FOUND_REDIS] = {"redis-degraded",
                        "The index of due jobs takes no changes; dispatch goes on from MySQL, at more cost.",
                        "redis-cli ping; redis-cli INFO memory, and its maxmemory-policy must be noeviction",
                        PAGE("redis/redis-degraded")},
    [DT_FOUND_KAFKA] = {"kafka-degraded", "A leader waits for Kafka; its jobs are late until it answers.",
                        "duetime shards list --output wide; kafka-topics.sh --describe --under-min-isr-partitions",
                        PAGE("kafka/kafka-degraded")},
    [DT_FOUND_LEADER] = {"shard-without-leader",
                         "Nobody dispatches the jobs of these shards: no dispatcher runs, or they cannot elect one.",
                         "systemctl start duetime-dispatcher; duetime shards list --output wide",
                         PAGE("shards/shard-without-leader")},
    [DT_FOUND_HALTED] = {"shard-halted",
                         "The shard dispatches nothing until a person has decided what became of its last batch.",
                         "sql/README.md, a halted shard; then CALL dt_clear_halt(SHARD, 'resend', NULL)",
                         PAGE("shards/shard-halted")},
    [DT_FOUND_WAITING] = {"shard-waits", "The leader of the shard cannot go on before a server answers.",
                          "duetime shards list --output wide", PAGE("shards/shard-waits")},
    [DT_FOUND_MOVING] = {"shards-moving",
                         "The number of shards was changed, and these are not through yet; that takes seconds.",
                         "duetime shards list --output wide", PAGE("shards/shards-moving")},
    [DT_FOUND_OVERDUE] = {"overdue", "Jobs are due for longer than they should be.",
                          "duetime jobs list --overdue --limit 20", PAGE("jobs/overdue")},
    [DT_FOUND_PAUSED] = {"paused-and-due", "The topic is paused and has jobs that are due.",
                         "duetime topics resume TOPIC", PAGE("jobs/paused-and-due")},
};

/* ---- members ---- */

static const struct dt_json_node *member(const dt_json *json, const struct dt_json_node *node, const char *name)
{
    return node && node->type == DT_JSON_OBJECT ? dt_json_member(json, node, name) : NULL;
}

static struct dt_str text(const dt_json *json, const struct dt_json_node *node, const char *name)
{
    const struct dt_json_node *m = member(json, node, name);
    return m && m->type == DT_JSON_STRING ? m->str : DT_STR_NONE;
}

static int64_t number(const dt_json *json, const struct dt_json_node *node, const char *name)
{
    const struct dt_json_node *m = member(json, node, name);
    return m && m->type == DT_JSON_INT ? m->i : 0;
}

static bool is(const dt_json *json, const struct dt_json_node *node, const char *name, const char *word)
{
    return dt_str_is(text(json, node, name), word);
}

/* ---- readiness ---- */

static enum dt_finding finding_of(struct dt_str mysql)
{
    return dt_str_is(mysql, "schema")      ? DT_FOUND_SCHEMA
           : dt_str_is(mysql, "read-only") ? DT_FOUND_READ_ONLY
                                           : DT_FOUND_MYSQL;
}

void dt_judge_readiness(const dt_json *json, const struct dt_json_node *root, dt_found_fn *found, void *arg)
{
    char detail[128];
    const struct dt_json_node *draining = member(json, root, "draining");
    struct dt_str mysql = text(json, root, "mysql");
    if (draining && draining->type == DT_JSON_BOOL && draining->b)
        found(arg, DT_FOUND_DRAINING, "it says so");
    if (!dt_str_is(mysql, "ok")) {
        snprintf(detail, sizeof(detail), "MySQL is %.*s", (int)(mysql.n < 64 ? mysql.n : 64), mysql.p ? mysql.p : "");
        found(arg, finding_of(mysql), detail);
    }
    if (is(json, root, "redis", "degraded"))
        found(arg, DT_FOUND_REDIS, "Redis, or a leader's way to it, is degraded");
    if (is(json, root, "kafka", "degraded"))
        found(arg, DT_FOUND_KAFKA, "a leader waits for Kafka");
}

/* ---- the installation ---- */

static void judge_leader(const dt_json *json, const struct dt_json_node *shard, int64_t count, dt_found_fn *found,
                         void *arg)
{
    char detail[512];
    int64_t n = number(json, shard, "shard");
    struct dt_str halted = text(json, shard, "halted");
    struct dt_str waiting = text(json, shard, "waiting_for");
    struct dt_str why = text(json, shard, "detail");
    if (halted.n > 0) {
        snprintf(detail, sizeof(detail), "shard %lld: %.*s", (long long)n, (int)(halted.n < 400 ? halted.n : 400),
                 halted.p);
        found(arg, DT_FOUND_HALTED, detail);
    } else if (text(json, shard, "leader").n == 0 && n < count) {
        snprintf(detail, sizeof(detail), "shard %lld", (long long)n);
        found(arg, DT_FOUND_LEADER, detail);
    } else if (waiting.n > 0) {
        snprintf(detail, sizeof(detail), "shard %lld waits for %.*s%s%.*s", (long long)n,
                 (int)(waiting.n < 40 ? waiting.n : 40), waiting.p, why.n ? ": " : "", (int)(why.n < 300 ? why.n : 300),
                 why.p ? why.p : "");
        found(arg, DT_FOUND_WAITING, detail);
    }
}

static void judge_shard(const dt_json *json, const struct dt_json_node *shard, const struct dt_info_limits *limits,
                        dt_found_fn *found, void *arg)
{
    char detail[160];
    long long n = number(json, shard, "shard");
    long long oldest = number(json, shard, "oldest_overdue_ms");
    if (oldest > limits->late_ms) {
        snprintf(detail, sizeof(detail), "shard %lld: %lld jobs, the oldest for %lld s", n,
                 (long long)number(json, shard, "overdue"), oldest / 1000);
        found(arg, DT_FOUND_OVERDUE, detail);
    }
}

static void judge_clock(const dt_json *json, const struct dt_json_node *root, const struct dt_info_limits *limits,
                        dt_found_fn *found, void *arg)
{
    char detail[128];
    int64_t now_ms = 0;
    if (dt_time_parse(text(json, root, "now"), &now_ms) != DT_OK)
        return;
    int64_t ahead = limits->before_ms - now_ms;
    int64_t behind = now_ms - limits->after_ms;
    if (ahead <= limits->skew_ms && behind <= limits->skew_ms)
        return;
    snprintf(detail, sizeof(detail), "this clock is %lld ms %s MySQL's", (long long)(ahead > behind ? ahead : behind),
             ahead > behind ? "ahead of" : "behind");
    found(arg, DT_FOUND_CLOCK, detail);
}

static void judge_moving(const dt_json *json, const struct dt_json_node *map, dt_found_fn *found, void *arg)
{
    char detail[160];
    const struct dt_json_node *moving = member(json, map, "moving");
    if (!moving || moving->type != DT_JSON_ARRAY || moving->n == 0)
        return;
    snprintf(detail, sizeof(detail), "shards %.*s", (int)(moving->raw.n < 120 ? moving->raw.n : 120), moving->raw.p);
    found(arg, DT_FOUND_MOVING, detail);
}

void dt_judge_info(const dt_json *json, const struct dt_json_node *root, const struct dt_info_limits *limits,
                   dt_found_fn *found, void *arg)
{
    char detail[128];
    const struct dt_json_node *map = member(json, root, "shard_map");
    const struct dt_json_node *shards = member(json, root, "shards");
    int64_t count = number(json, map, "count");
    struct dt_str version = text(json, root, "version");
    if (!dt_str_is(version, DUETIME_VERSION)) {
        snprintf(detail, sizeof(detail), "the API is %.*s, this program %s", (int)(version.n < 40 ? version.n : 40),
                 version.p ? version.p : "", DUETIME_VERSION);
        found(arg, DT_FOUND_VERSION, detail);
    }
    judge_clock(json, root, limits, found, arg);
    judge_moving(json, map, found, arg);
    if (!shards || shards->type != DT_JSON_ARRAY)
        return;
    if (shards->n == 0)
        found(arg, DT_FOUND_LEADER, "no shard was ever led");
    for (const struct dt_json_node *shard = dt_json_first(json, shards); shard;
         shard = dt_json_sibling(json, shards, shard)) {
        judge_leader(json, shard, count, found, arg);
        judge_shard(json, shard, limits, found, arg);
    }
}
