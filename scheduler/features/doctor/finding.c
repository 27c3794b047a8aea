/* The table of findings (finding.h): severity, meaning, action, and page of the runbook for each kind. */
#include "finding.h"

#define PAGE(name) "deploy/runbook/" name ".md"
#define DAYS       30
#define DAY_S      86400

const char *const dt_severity_names[] = {"error", "warning", "note"};

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
                              "The jobs of this shard are not dispatched: the dispatchers cannot elect a leader.",
                              "look for outages in the dispatchers' logs: ZooKeeper, or MySQL where there is none",
                              PAGE("shards/shard-without-leader")},
    [DT_FINDING_OVERDUE] = {"overdue", DT_SEVERITY_ERROR, "Jobs of the topic are due for longer than they should be.",
                            "duetime jobs list --overdue --topic TOPIC --limit 1", PAGE("jobs/overdue")},
    [DT_FINDING_NOT_POPPED] = {"not-popped", DT_SEVERITY_ERROR,
                               "Workers have to pop the jobs of this topic, and none does, or too few.",
                               "duetime pop TOPIC", PAGE("jobs/not-popped")},
    [DT_FINDING_KAFKA_AWAY] = {"kafka-away", DT_SEVERITY_ERROR,
                               "A dispatcher gets no answer from Kafka: jobs that go there are late until it does.",
                               "kafka-broker-api-versions.sh --bootstrap-server KAFKA; then the broker's log",
                               PAGE("kafka/kafka-away")},
    [DT_FINDING_CHORE_STUCK] = {"chore-stuck", DT_SEVERITY_ERROR,
                                "A periodic piece of a dispatcher's work does not return, and delays what it does.",
                                "look for outages in the dispatcher's log; then restart it",
                                PAGE("processes/chore-stuck")},
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
                                   "echo srvr | nc ZOOKEEPER, from the dispatcher's machine",
                                   PAGE("zookeeper/zookeeper-away")},
    [DT_FINDING_ASSERTION] =
        {"assertion", DT_SEVERITY_ERROR,
         "A dispatcher or an API ended itself within the last hour, because an invariant did not hold. After "
         "three such ends of one shard within a minute, no dispatcher leads that shard for a minute.",
         "report it as a bug of duetime, with the lines around \"an invariant does not hold\" in "
         "its log",
         PAGE("processes/assertion")},
    [DT_FINDING_DISPATCHER_CLOCK] = {"dispatcher-clock", DT_SEVERITY_WARNING,
                                     "The clock of a dispatcher's machine differs from MySQL's. Due times are judged "
                                     "by MySQL's, logs and certificates are not.",
                                     "timedatectl status, on both machines", PAGE("processes/dispatcher-clock")},
    [DT_FINDING_CERTIFICATE] =
        {"certificate-file-ends", DT_SEVERITY_WARNING, "When it has ended, no new connection is made with it.",
         "put a renewed one into the file (mv, so that no process reads half of it): each new connection reads it",
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
    [DT_FINDING_MOVING] = {"shards-moving", DT_SEVERITY_NOTE,
                           "The number of shards was changed, and these are not through yet; that takes seconds.",
                           "duetime shards list --output wide", PAGE("shards/shards-moving")},
    [DT_FINDING_PAUSED] = {"paused-and-due", DT_SEVERITY_NOTE, "The topic is paused, and holds jobs that are due.",
                           "duetime topics resume TOPIC", PAGE("jobs/paused-and-due")},

    /* findings of `duetime doctor` itself, not of the API */
    [DT_FINDING_UNREACHED] = {"api-unreached", DT_SEVERITY_ERROR,
                              "No API answers there: it does not run, or the address is another one.",
                              "check DUETIME_URL or the context; on its machine: systemctl status duetime-api",
                              PAGE("way/api-unreached")},
    [DT_FINDING_NOT_AN_API] =
        {"not-an-api", DT_SEVERITY_ERROR,
         "Something answers there that is no API of duetime, or one behind a proxy that is not well.",
         "check DUETIME_URL or the context", PAGE("way/not-an-api")},
    [DT_FINDING_TOKEN] =
        {"token-refused", DT_SEVERITY_ERROR,
         "There is no token, it is revoked, or it may not read what concerns all topics; the rest cannot be looked at.",
         "duetime-api --new-token NAME --scopes read, and its output into the file of --token-file",
         PAGE("way/token-refused")},
    [DT_FINDING_CLEAR_TOKEN] = {"token-in-the-clear", DT_SEVERITY_WARNING,
                                "The token goes over the network unencrypted: anyone who reads it can use it.",
                                "give the API a certificate ([http] tls_cert), and DUETIME_URL https://",
                                PAGE("way/token-in-the-clear")},
    [DT_FINDING_API_CERTIFICATE] = {"certificate-ends", DT_SEVERITY_WARNING,
                                    "When it has ended, no client that checks certificates is served.",
                                    "renew the certificate of the server before the API", PAGE("way/certificate-ends")},
    [DT_FINDING_VERSIONS_DIFFER] = {"versions-differ", DT_SEVERITY_WARNING,
                                    "This program may ask for what the API does not know, and the other way round.",
                                    "install the same version of both: duetime version", PAGE("way/versions-differ")},
    [DT_FINDING_CALLER_CLOCK] =
        {"clock-skew", DT_SEVERITY_WARNING,
         "Times that are given as run_at mean something else here than there; delays are not concerned.",
         "timedatectl status, here and on MySQL's machine", PAGE("way/clock-skew")},
    [DT_FINDING_DRAINING] = {"api-draining", DT_SEVERITY_NOTE,
                             "This API process is about to end, and finishes what is under way.",
                             "systemctl status duetime-api", PAGE("processes/api-draining")},
    [DT_FINDING_MYSQL_AWAY] =
        {"mysql-away", DT_SEVERITY_ERROR,
         "Nothing can be accepted or claimed; what was accepted is safe, and goes on when MySQL is back.",
         "systemctl status mariadb; mysqladmin ping, with the account of the API", PAGE("mysql/mysql-away")},
    [DT_FINDING_SCHEMA] = {"schema-differs", DT_SEVERITY_ERROR,
                           "The database has not the schema that the API was built for, so it takes no jobs.",
                           "duetime-api --migrate", PAGE("mysql/schema-differs")},
    [DT_FINDING_READ_ONLY] =
        {"mysql-read-only", DT_SEVERITY_ERROR, "MySQL takes no writes, so no job can be accepted or claimed.",
         "mysql -e 'SHOW VARIABLES LIKE \"read_only\"'; connect the API with the server that is the writer",
         PAGE("mysql/mysql-read-only")},
};

enum dt_finding_kind dt_finding_named(struct dt_str name)
{
    int kind = 0;
    while (kind < DT_FINDING_KINDS && !dt_str_is(name, dt_finding_kinds[kind].name))
        kind++;
    return (enum dt_finding_kind)kind;
}

bool dt_finding_certificate(const char *what, int64_t ends_s, int64_t now_s, char *out, size_t size)
{
    const int64_t left_s = ends_s - now_s;
    if (left_s < 0)
        snprintf(out, size, "%s has ended", what);
    else
        snprintf(out, size, "%s ends in %lld days", what, (long long)(left_s / DAY_S));
    return left_s < (int64_t)DAYS * DAY_S;
}
