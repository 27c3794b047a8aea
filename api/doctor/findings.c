/* See findings.h. */
#include "doctor/findings.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/connection/certificates.h"
#include "overview/shard_json.h"

#define LATE_MS      60000
#define SKEW_MS      1000
#define DETAIL       600
#define DAYS         INT64_C(30)
#define DAY_S        86400
#define LONG_MS      INT64_C(86400000) /* a server that waits so long for a replica never goes on alone */
#define PACKET_BYTES INT64_C(16777216) /* every batch of the default configuration fits */
#define PAGE(name)   "deploy/runbook/" name ".md"

const struct dt_finding_kind_text dt_finding_kinds[DT_FINDING_KINDS] = {
    [DT_FINDING_MYSQL_FLUSH] =
        {"mysql-flush", DT_SEVERITY_ERROR,
         "Jobs that were accepted may be gone, and attempts be sent twice, after MySQL's machine fails.",
         "SET @@GLOBAL.innodb_flush_log_at_trx_commit = 1; and so in MySQL's configuration file",
         PAGE("mysql/mysql-flush")},
    [DT_FINDING_NUMBERS] = {"mysql-numbers", DT_SEVERITY_ERROR,
                            "When the AUTO_INCREMENT of a table has ended, no row is inserted any more: transactions "
                            "of applications fail if it is job_inbox.",
                            "give rows with such an id another one, and let the table count from the largest that is "
                            "left, as the page says",
                            PAGE("mysql/mysql-numbers")},
    [DT_FINDING_PACKET] = {"mysql-packet", DT_SEVERITY_WARNING,
                           "Larger payloads are refused, batches are cut, and a statement that does not fit fails.",
                           "SET @@GLOBAL.max_allowed_packet = 16777216; or more, and so in MySQL's configuration file",
                           PAGE("mysql/mysql-packet")},
    [DT_FINDING_NO_DISPATCHER] = {"no-dispatcher", DT_SEVERITY_ERROR,
                                  "Jobs are accepted and kept, and none is dispatched.",
                                  "systemctl start duetime-dispatcher", PAGE("processes/no-dispatcher")},
    [DT_FINDING_HALTED] = {"shard-halted", DT_SEVERITY_ERROR,
                           "The shard dispatches nothing until a person has decided what became of its last batch.",
                           "sql/README.md, a halted shard; then CALL dt_clear_halt(SHARD, 'resend', NULL)",
                           PAGE("shards/shard-halted")},
    [DT_FINDING_NO_LEADER] = {"shard-without-leader", DT_SEVERITY_ERROR,
                              "Nobody dispatches the jobs of this shard: the dispatchers cannot elect a leader.",
                              "look for outages in the dispatchers' logs: ZooKeeper, or MySQL where there is none",
                              PAGE("shards/shard-without-leader")},
    [DT_FINDING_OVERDUE] = {"overdue", DT_SEVERITY_ERROR, "Jobs of the topic are due for longer than they should be.",
                            "duetime jobs list --overdue --topic TOPIC --limit 1; then duetime jobs explain ID",
                            PAGE("jobs/overdue")},
    [DT_FINDING_KAFKA_AWAY] = {"kafka-away", DT_SEVERITY_ERROR,
                               "A dispatcher gets no answer from Kafka: jobs that go there are late until it does.",
                               "kafka-broker-api-versions.sh --bootstrap-server KAFKA; then the broker's log",
                               PAGE("kafka/kafka-away")},
    [DT_FINDING_KAFKA_TOPIC] = {"kafka-topic-missing", DT_SEVERITY_ERROR,
                                "A topic of duetime's own is missing. Of the ledger, shards halt at the next takeover; "
                                "of the others, reports, commands or dead letters go nowhere.",
                                "restart a dispatcher: it makes what is missing, or says why it may not",
                                PAGE("kafka/kafka-topic-missing")},
    [DT_FINDING_KAFKA_JOB_TOPIC] =
        {"kafka-job-topic-missing", DT_SEVERITY_ERROR,
         "Jobs go to a topic of Kafka that is not there and cannot be made, or that may not be written: they wait.",
         "kafka-topics.sh --bootstrap-server KAFKA --create --topic TOPIC, with as many partitions as its consumers "
         "want; or kafka.auto_create_partitions and the right to make topics",
         PAGE("kafka/kafka-job-topic-missing")},
    [DT_FINDING_KAFKA_MIN_ISR] = {"kafka-min-isr", DT_SEVERITY_ERROR,
                                  "Too high, nothing can be written; too low, what one broker alone has taken counts "
                                  "as written, and is gone with it.",
                                  "kafka-configs.sh --bootstrap-server KAFKA --alter --entity-type topics "
                                  "--entity-name TOPIC --add-config min.insync.replicas=N, of 3 replicas 2",
                                  PAGE("kafka/kafka-min-isr")},
    [DT_FINDING_KAFKA_UNCLEAN] = {"kafka-unclean-election", DT_SEVERITY_ERROR,
                                  "A broker that lacks messages may become the topic's leader: what it lacks is lost, "
                                  "and attempts may be sent twice.",
                                  "kafka-configs.sh --bootstrap-server KAFKA --alter --entity-type topics "
                                  "--entity-name TOPIC --add-config unclean.leader.election.enable=false",
                                  PAGE("kafka/kafka-unclean-election")},
    [DT_FINDING_KAFKA_REPLICATION] = {"kafka-replication", DT_SEVERITY_WARNING,
                                      "The end of one broker is the end of messages that only it has.",
                                      "kafka-reassign-partitions.sh, with three replicas of each partition; and "
                                      "kafka.replication_factor = 3 for topics to come",
                                      PAGE("kafka/kafka-replication")},
    [DT_FINDING_ZOOKEEPER_AWAY] = {"zookeeper-away", DT_SEVERITY_ERROR,
                                   "A dispatcher has no session with ZooKeeper, and leads nothing until it has one.",
                                   "echo srvr | nc ZOOKEEPER 2181, from the dispatcher's machine",
                                   PAGE("zookeeper/zookeeper-away")},
    [DT_FINDING_DISPATCHER_CLOCK] = {"dispatcher-clock", DT_SEVERITY_WARNING,
                                     "The clock of a dispatcher's machine differs from MySQL's. Due times are judged "
                                     "by MySQL's, logs and certificates are not.",
                                     "timedatectl status, on both machines", PAGE("processes/dispatcher-clock")},
    [DT_FINDING_CERTIFICATE] =
        {"certificate-file-ends", DT_SEVERITY_WARNING, "When it has ended, no new connection is made with it.",
         "put a renewed one into the file (mv, so that nobody reads half of it): each new connection reads it",
         PAGE("processes/certificate-file-ends")},
    [DT_FINDING_MYSQL_BINLOG] = {"mysql-binlog", DT_SEVERITY_WARNING,
                                 "A replica, or a restore from the binary log, may lack commits that were answered.",
                                 "SET @@GLOBAL.sync_binlog = 1; and so in MySQL's configuration file",
                                 PAGE("mysql/mysql-binlog")},
    [DT_FINDING_SEMI_SYNC] =
        {"mysql-semi-sync", DT_SEVERITY_WARNING,
         "A replica that is promoted may lack commits that were answered: jobs are lost, attempts sent twice.",
         "deploy/disaster/mysql-primary-lost.md, before it happens", PAGE("mysql/mysql-semi-sync")},
    [DT_FINDING_CLOCK] =
        {"api-clock", DT_SEVERITY_WARNING,
         "The clock of the API's machine differs from MySQL's. Due times are judged by MySQL's, logs are not.",
         "timedatectl status, on both machines", PAGE("processes/api-clock")},
    [DT_FINDING_REDIS_POLICY] =
        {"redis-policy", DT_SEVERITY_WARNING,
         "Redis may drop entries of the index when its memory is full: their jobs are late until repaired.",
         "redis-cli CONFIG SET maxmemory-policy noeviction; and so in redis.conf", PAGE("redis/redis-policy")},
    [DT_FINDING_REDIS_AWAY] = {"redis-away", DT_SEVERITY_WARNING,
                               "The index of due jobs cannot be asked; dispatch goes on from MySQL, at more cost.",
                               "redis-cli ping, from the API's machine", PAGE("redis/redis-away")},
    [DT_FINDING_INDEX] =
        {"index-incomplete", DT_SEVERITY_WARNING,
         "The index of due jobs in Redis is not whole; leaders read due jobs from MySQL until it is, at more cost.",
         "redis-cli ping, from the machine of the process that is named; a shard's set fills by itself within seconds",
         PAGE("redis/index-incomplete")},
    [DT_FINDING_WAITS] = {"shard-waits", DT_SEVERITY_WARNING,
                          "The leader of the shard cannot go on before a server answers.",
                          "duetime shards list --output wide", PAGE("shards/shard-waits")},
    [DT_FINDING_VERSIONS] = {"process-versions", DT_SEVERITY_WARNING,
                             "Processes of different versions run: fine during an upgrade, not for long.",
                             "install one version everywhere, and restart what runs another",
                             PAGE("processes/process-versions")},
    [DT_FINDING_INBOX] = {"inbox-errors", DT_SEVERITY_WARNING,
                          "Rows of job_inbox could not be carried out: what they ask for was not done.",
                          "look into the view v_inbox_errors; mend the rows of job_inbox, and set their error to NULL",
                          PAGE("intake/inbox-errors")},
    [DT_FINDING_PAUSED] = {"paused-and-due", DT_SEVERITY_NOTE, "The topic is paused and has jobs that are due.",
                           "duetime topics resume TOPIC", PAGE("jobs/paused-and-due")},
};

struct judging {
    const struct dt_examined *examined;
    dt_heard_fn *heard;
    void *arg;
    enum dt_finding_kind kind; /* what is looked for just now */
};

static void DT_PRINTF(3, 4) tell(const struct judging *j, const char *subject, const char *fmt, ...)
{
    char detail[DETAIL];
    va_list args;
    va_start(args, fmt);
    vsnprintf(detail, sizeof(detail), fmt, args);
    va_end(args);
    j->heard(j->arg, j->kind, subject, detail);
}

static int bytes(struct dt_str s)
{
    return (int)(s.n < 400 ? s.n : 400);
}

/* ---- servers ---- */

static void look_at_replicas(const struct judging *j)
{
    const struct dt_semi_sync *s = &j->examined->semi_sync;
    if (j->kind != DT_FINDING_SEMI_SYNC || !j->examined->replicas)
        return;
    if (!s->waits)
        tell(j, "mysql", "commits wait for no replica");
    else if (!s->before_seen)
        tell(j, "mysql", "commits wait for a replica after others have seen them: the wait point is not AFTER_SYNC");
    else if (s->alone_ms < LONG_MS)
        tell(j, "mysql", "without a replica the primary goes on alone after %lld ms", (long long)s->alone_ms);
}

static void look_at_server(const struct judging *j)
{
    const struct dt_examined *e = j->examined;
    if (j->kind == DT_FINDING_MYSQL_FLUSH && e->mysql.flush != 1)
        tell(j, "mysql", "innodb_flush_log_at_trx_commit is %lld", (long long)e->mysql.flush);
    if (j->kind == DT_FINDING_MYSQL_BINLOG && e->mysql.has_binlog && e->mysql.sync_binlog != 1)
        tell(j, "mysql", "sync_binlog is %lld", (long long)e->mysql.sync_binlog);
    if (j->kind == DT_FINDING_PACKET && e->mysql.packet < PACKET_BYTES)
        tell(j, "mysql", "max_allowed_packet is %lld, and payloads may have %zu bytes", (long long)e->mysql.packet,
             e->payload_max);
    for (size_t i = 0; j->kind == DT_FINDING_NUMBERS && i < e->n_ending; i++)
        tell(j, e->ending[i].table.p, "its next AUTO_INCREMENT is %.*s, the last is 9223372036854775807",
             bytes(e->ending[i].next), e->ending[i].next.p);
    int64_t apart_ms = e->host_ms - e->mysql.now_ms;
    if (j->kind == DT_FINDING_CLOCK && (apart_ms > SKEW_MS + e->took_ms || apart_ms < -SKEW_MS - e->took_ms))
        tell(j, "mysql", "the API's clock is %lld ms %s MySQL's", (long long)(apart_ms < 0 ? -apart_ms : apart_ms),
             apart_ms > 0 ? "ahead of" : "behind");
    if (j->kind == DT_FINDING_REDIS_AWAY && e->redis_trouble)
        tell(j, "redis", "%s", e->redis_trouble);
    for (size_t i = 0; j->kind == DT_FINDING_REDIS_POLICY && i < e->n_redis; i++)
        if (e->redis[i].policy[0] && strcmp(e->redis[i].policy, "noeviction") != 0)
            tell(j, e->redis[i].endpoint, "maxmemory-policy is %s", e->redis[i].policy);
}

/* ---- processes and shards ---- */

static void look_at_index_of(const struct judging *j, const struct dt_live_process *p)
{
    struct dt_str down = dt_str_is(p->index_down, "*") ? DT_STR_LIT("any Redis") : p->index_down;
    if (j->kind == DT_FINDING_INDEX && down.n)
        tell(j, p->name.p, "it cannot write to %.*s", bytes(down), down.p);
}

static void look_at_processes(const struct judging *j)
{
    const struct dt_examined *e = j->examined;
    size_t dispatchers = 0;
    for (size_t i = 0; i < e->n_processes; i++) {
        const struct dt_live_process *p = &e->processes[i];
        dispatchers += p->dispatcher;
        look_at_index_of(j, p);
        if (j->kind == DT_FINDING_VERSIONS && !dt_str_is(p->version, DUETIME_VERSION))
            tell(j, p->name.p, "it is of version %.*s, the API that answers of " DUETIME_VERSION, bytes(p->version),
                 p->version.p ? p->version.p : "");
    }
    if (j->kind == DT_FINDING_NO_DISPATCHER && dispatchers == 0)
        tell(j, "dispatchers", "none was seen for four seconds");
}

static void look_at_shard(const struct judging *j, const struct dt_shard_info *shard)
{
    char subject[32];
    bool named = shard->shard < j->examined->view->map.shards;
    snprintf(subject, sizeof(subject), "shard %u", shard->shard);
    if (j->kind == DT_FINDING_HALTED && shard->halted.p)
        tell(j, subject, "%.*s", bytes(shard->halted), shard->halted.p);
    if (j->kind == DT_FINDING_NO_LEADER && named && !shard->halted.p && !shard->owner.p)
        tell(j, subject, "no process that lives leads it");
    if (j->kind == DT_FINDING_INDEX && named && shard->owner.p && !dt_shard_has_index(shard))
        tell(j, subject, "its set is being filled, or its leader cannot reach Redis");
    if (j->kind == DT_FINDING_WAITS && shard->owner.p && shard->waiting.p)
        tell(j, subject, "it waits for %.*s%s%.*s", bytes(shard->waiting), shard->waiting.p,
             shard->detail.n ? ": " : "", bytes(shard->detail), shard->detail.p ? shard->detail.p : "");
}

/* ---- jobs ---- */

static bool is_paused(const struct dt_examined *e, struct dt_str topic)
{
    const struct dt_topic_settings *settings = dt_view_topic(e->view, topic);
    return settings && settings->paused;
}

static void look_at_topic(const struct judging *j, const struct dt_topic_overdue *topic)
{
    int64_t late_ms = topic->since_ms ? j->examined->now_ms - topic->since_ms : 0;
    bool paused = is_paused(j->examined, topic->topic);
    bool told = j->kind == DT_FINDING_PAUSED ? paused : j->kind == DT_FINDING_OVERDUE && !paused && late_ms > LATE_MS;
    if (told)
        tell(j, topic->topic.p, "%lld jobs are due, the oldest for %lld s", (long long)topic->jobs,
             (long long)(late_ms / 1000));
}

/* ---- what dispatchers told, and certificates ---- */

static void look_at_told(const struct judging *j, const struct dt_process_finding *told)
{
    if (dt_str_is(told->finding, dt_finding_kinds[j->kind].name))
        tell(j, told->subject.p, "%.*s (seen by %.*s)", bytes(told->detail), told->detail.p, bytes(told->process),
             told->process.p);
}

static void hear_certificate(void *arg, const char *key, const char *file, int64_t ends_s)
{
    const struct judging *j = arg;
    int64_t left_s = ends_s - j->examined->host_ms / 1000;
    if (left_s < 0)
        tell(j, file, "%s of the API has ended", key);
    else if (left_s < DAYS * DAY_S)
        tell(j, file, "%s of the API ends in %lld days", key, (long long)(left_s / DAY_S));
}

static void look_for(const struct judging *j)
{
    const struct dt_examined *e = j->examined;
    look_at_server(j);
    look_at_replicas(j);
    look_at_processes(j);
    for (size_t i = 0; i < e->shards->n; i++)
        look_at_shard(j, &e->shards->shards[i]);
    for (size_t i = 0; i < e->n_overdue; i++)
        look_at_topic(j, &e->overdue[i]);
    for (size_t i = 0; i < e->n_told; i++)
        look_at_told(j, &e->told[i]);
    if (j->kind == DT_FINDING_CERTIFICATE && e->config)
        dt_certificates_look(e->config, hear_certificate, (void *)j);
    if (j->kind == DT_FINDING_CERTIFICATE && e->shown_ends_ms)
        hear_certificate((void *)j, "the certificate that is shown to callers", "http.tls_cert",
                         e->shown_ends_ms / 1000);
    if (j->kind == DT_FINDING_INBOX && e->inbox_errors)
        tell(j, "job_inbox", "%lld rows are kept with an error", (long long)e->inbox_errors);
}

void dt_findings_judge(const struct dt_examined *examined, dt_heard_fn *heard, void *arg)
{
    struct judging j = {.examined = examined, .heard = heard, .arg = arg};
    for (int severity = 0; severity <= DT_SEVERITY_NOTE; severity++)
        for (int kind = 0; kind < DT_FINDING_KINDS; kind++)
            if (dt_finding_kinds[kind].severity == (enum dt_severity)severity) {
                j.kind = (enum dt_finding_kind)kind;
                look_for(&j);
            }
}
