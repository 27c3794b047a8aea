/* The table of findings (finding.h): severity, meaning, action, and page of the runbook for each kind. */
#include "finding.h"

#define PAGE(name) "deploy/runbook/" name ".md"
#define DAYS       30
#define DAY_S      86400

const char *const dt_severity_names[] = {"error", "warning", "note"};

const struct dt_finding_kind_text dt_finding_kinds[DT_FINDING_KINDS] = {
    [DT_FINDING_MYSQL_FLUSH] = {"mysql-flush", DT_SEVERITY_ERROR,
                                "If MySQL's machine fails, accepted jobs may be lost, and attempts may be sent twice.",
                                "SET @@GLOBAL.innodb_flush_log_at_trx_commit = 1; and so in MySQL's configuration file",
                                PAGE("mysql/mysql-flush")},
    [DT_FINDING_NUMBERS] = {"mysql-numbers", DT_SEVERITY_ERROR,
                            "If the AUTO_INCREMENT of a table reaches its end, no row can be inserted: for job_inbox, "
                            "transactions of applications fail.",
                            "give rows with too large ids smaller ids, then set AUTO_INCREMENT after the largest id "
                            "that is left, as the page says",
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
                                "A chore (periodic work) of a dispatcher has not returned, so its work is late.",
                                "look for outages in the dispatcher's log; then restart it",
                                PAGE("processes/chore-stuck")},
    [DT_FINDING_KAFKA_TOPIC] =
        {"kafka-topic-missing", DT_SEVERITY_ERROR,
         "A Kafka topic of duetime itself is missing. Without the ledger, shards halt at the next takeover; without "
         "another one, reports, commands or dead letters are not delivered.",
         "restart a dispatcher: it creates the topic, or logs why it cannot", PAGE("kafka/kafka-topic-missing")},
    [DT_FINDING_KAFKA_JOB_TOPIC] =
        {"kafka-job-topic-missing", DT_SEVERITY_ERROR,
         "Jobs wait, because their Kafka topic does not exist and cannot be created, or may not be written.",
         "kafka-topics.sh --bootstrap-server KAFKA --create --topic TOPIC, with as many partitions as its consumers "
         "want; or kafka.auto_create_partitions and the right to make topics",
         PAGE("kafka/kafka-job-topic-missing")},
    [DT_FINDING_KAFKA_MIN_ISR] = {"kafka-min-isr", DT_SEVERITY_ERROR,
                                  "If it is too high, nothing can be written. If it is too low, a message that only "
                                  "one broker has counts as written, and is lost with that broker.",
                                  "kafka-configs.sh --bootstrap-server KAFKA --alter --entity-type topics "
                                  "--entity-name TOPIC --add-config min.insync.replicas=N, of 3 replicas 2",
                                  PAGE("kafka/kafka-min-isr")},
    [DT_FINDING_KAFKA_UNCLEAN] = {"kafka-unclean-election", DT_SEVERITY_ERROR,
                                  "A broker that lacks messages may become the topic's leader: these messages are "
                                  "lost, and attempts may be sent twice.",
                                  "kafka-configs.sh --bootstrap-server KAFKA --alter --entity-type topics "
                                  "--entity-name TOPIC --add-config unclean.leader.election.enable=false",
                                  PAGE("kafka/kafka-unclean-election")},
    [DT_FINDING_KAFKA_REPLICATION] = {"kafka-replication", DT_SEVERITY_WARNING,
                                      "If a broker is lost, messages that only this broker has are lost.",
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
        {"certificate-file-ends", DT_SEVERITY_WARNING,
         "When the certificate has expired, new connections that use it fail.",
         "put a renewed one into the file (mv, so that no process reads half of it): each new connection reads it",
         PAGE("processes/certificate-file-ends")},
    [DT_FINDING_MYSQL_BINLOG] =
        {"mysql-binlog", DT_SEVERITY_WARNING,
         "A replica, or a restore from the binary log, may lack commits that MySQL had confirmed.",
         "SET @@GLOBAL.sync_binlog = 1; and so in MySQL's configuration file", PAGE("mysql/mysql-binlog")},
    [DT_FINDING_SEMI_SYNC] = {"mysql-semi-sync", DT_SEVERITY_WARNING,
                              "A replica that is promoted may lack commits that MySQL had confirmed: jobs are lost, "
                              "and attempts are sent twice.",
                              "deploy/disaster/mysql-primary-lost.md, before it happens",
                              PAGE("mysql/mysql-semi-sync")},
    [DT_FINDING_CLOCK] =
        {"api-clock", DT_SEVERITY_WARNING,
         "The clock of the API's machine differs from MySQL's. Due times are judged by MySQL's, logs are not.",
         "timedatectl status, on both machines", PAGE("processes/api-clock")},
    [DT_FINDING_REDIS_POLICY] =
        {"redis-policy", DT_SEVERITY_WARNING,
         "Redis may drop entries of the index when its memory is full: their jobs are late until repaired.",
         "redis-cli CONFIG SET maxmemory-policy noeviction; and so in redis.conf", PAGE("redis/redis-policy")},
    [DT_FINDING_REDIS_AWAY] =
        {"redis-away", DT_SEVERITY_WARNING,
         "The index of due jobs in Redis does not answer; leaders read due jobs from MySQL, which costs more.",
         "redis-cli ping, from the API's machine", PAGE("redis/redis-away")},
    [DT_FINDING_INDEX] =
        {"index-incomplete", DT_SEVERITY_WARNING,
         "The index of due jobs in Redis is incomplete; until it is complete, leaders read due jobs from MySQL, which "
         "costs more.",
         "redis-cli ping, from the machine of the process that is named; a shard's set fills by itself within seconds",
         PAGE("redis/index-incomplete")},
    [DT_FINDING_WAITS] = {"shard-waits", DT_SEVERITY_WARNING, "The leader of the shard waits for a server.",
                          "duetime shards list --output wide", PAGE("shards/shard-waits")},
    [DT_FINDING_VERSIONS] = {"process-versions", DT_SEVERITY_WARNING,
                             "Processes of different versions run: fine during an upgrade, not for long.",
                             "install one version everywhere, and restart what runs another",
                             PAGE("processes/process-versions")},
    [DT_FINDING_INBOX] = {"inbox-errors", DT_SEVERITY_WARNING, "Rows of job_inbox could not be carried out.",
                          "read the view v_inbox_errors; correct the rows of job_inbox, and set their error to NULL",
                          PAGE("intake/inbox-errors")},
    [DT_FINDING_MOVING] = {"shards-moving", DT_SEVERITY_NOTE,
                           "The number of shards was changed, and the change is not complete yet; that takes seconds.",
                           "duetime shards list --output wide", PAGE("shards/shards-moving")},
    [DT_FINDING_PAUSED] = {"paused-and-due", DT_SEVERITY_NOTE, "The topic is paused, and holds jobs that are due.",
                           "duetime topics resume TOPIC", PAGE("jobs/paused-and-due")},

    /* findings of `duetime doctor` itself, not of the API */
    [DT_FINDING_UNREACHED] = {"api-unreached", DT_SEVERITY_ERROR,
                              "No API answers at this address: it does not run, or it has another address.",
                              "check DUETIME_URL or the context; on its machine: systemctl status duetime-api",
                              PAGE("way/api-unreached")},
    [DT_FINDING_NOT_AN_API] = {"not-an-api", DT_SEVERITY_ERROR,
                               "The server at this address is not an API of duetime, or a proxy before the API fails.",
                               "check DUETIME_URL or the context", PAGE("way/not-an-api")},
    [DT_FINDING_TOKEN] = {"token-refused", DT_SEVERITY_ERROR,
                          "The request had no token, the token is revoked, or it may not read data of all topics; "
                          "doctor could not check the rest.",
                          "duetime-api --new-token NAME --scopes read, and its output into the file of --token-file",
                          PAGE("way/token-refused")},
    [DT_FINDING_CLEAR_TOKEN] = {"token-in-the-clear", DT_SEVERITY_WARNING,
                                "The token goes over the network unencrypted: anyone who reads it can use it.",
                                "give the API a certificate ([http] tls_cert), and DUETIME_URL https://",
                                PAGE("way/token-in-the-clear")},
    [DT_FINDING_API_CERTIFICATE] =
        {"certificate-ends", DT_SEVERITY_WARNING,
         "When the certificate has expired, clients that verify certificates cannot connect.",
         "renew the certificate of the server before the API", PAGE("way/certificate-ends")},
    [DT_FINDING_VERSIONS_DIFFER] =
        {"versions-differ", DT_SEVERITY_WARNING,
         "This program may use requests that the API does not know, or not understand its answers.",
         "install the same version of both: duetime version", PAGE("way/versions-differ")},
    [DT_FINDING_CALLER_CLOCK] =
        {"clock-skew", DT_SEVERITY_WARNING,
         "A run_at that is computed from this machine's clock is wrong by the difference; a delay is not.",
         "timedatectl status, here and on MySQL's machine", PAGE("way/clock-skew")},
    [DT_FINDING_DRAINING] = {"api-draining", DT_SEVERITY_NOTE,
                             "This API process is shutting down, and finishes running requests.",
                             "systemctl status duetime-api", PAGE("processes/api-draining")},
    [DT_FINDING_MYSQL_AWAY] =
        {"mysql-away", DT_SEVERITY_ERROR,
         "No job can be accepted or claimed. Accepted jobs are safe, and are dispatched when MySQL answers again.",
         "systemctl status mariadb; mysqladmin ping, with the account of the API", PAGE("mysql/mysql-away")},
    [DT_FINDING_SCHEMA] =
        {"schema-differs", DT_SEVERITY_ERROR,
         "The database does not have the schema of this version of the API, so the API accepts no jobs.",
         "duetime-api --migrate", PAGE("mysql/schema-differs")},
    [DT_FINDING_READ_ONLY] =
        {"mysql-read-only", DT_SEVERITY_ERROR, "MySQL is read-only, so no job can be accepted or claimed.",
         "mysql -e 'SHOW VARIABLES LIKE \"read_only\"'; connect the API to the server that accepts writes",
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
        snprintf(out, size, "%s has expired", what);
    else
        snprintf(out, size, "%s expires in %lld days", what, (long long)(left_s / DAY_S));
    return left_s < (int64_t)DAYS * DAY_S;
}
