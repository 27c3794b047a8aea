/* The findings of `duetime doctor`: severity, meaning, action, and page of the runbook. Pure. The API finds most of
 * them (GET /v1/doctor). Dispatchers find those that an API cannot see (process_findings.h). The command finds
 * problems with its connection to the API. */
#pragma once

#include "base/text/strbuf.h"

enum dt_severity { DT_SEVERITY_ERROR, DT_SEVERITY_WARNING, DT_SEVERITY_NOTE };

/* Kinds of the same severity have the order in which GET /v1/doctor lists them: a cause precedes its consequences. */
enum dt_finding_kind {
    DT_FINDING_NO_DISPATCHER,
    DT_FINDING_ZOOKEEPER_AWAY,
    DT_FINDING_ASSERTION,
    DT_FINDING_KAFKA_AWAY,
    DT_FINDING_CHORE_STUCK,
    DT_FINDING_KAFKA_TOPIC,
    DT_FINDING_KAFKA_JOB_TOPIC,
    DT_FINDING_HALTED,
    DT_FINDING_NO_LEADER,
    DT_FINDING_NOT_POPPED,
    DT_FINDING_OVERDUE,
    DT_FINDING_MYSQL_FLUSH,
    DT_FINDING_NUMBERS,
    DT_FINDING_KAFKA_MIN_ISR,
    DT_FINDING_KAFKA_UNCLEAN,
    DT_FINDING_KAFKA_REPLICATION,
    DT_FINDING_REDIS_AWAY,
    DT_FINDING_DISPATCHER_CLOCK,
    DT_FINDING_CERTIFICATE,
    DT_FINDING_MYSQL_BINLOG,
    DT_FINDING_PACKET,
    DT_FINDING_SEMI_SYNC,
    DT_FINDING_CLOCK,
    DT_FINDING_REDIS_POLICY,
    DT_FINDING_INDEX,
    DT_FINDING_WAITS,
    DT_FINDING_VERSIONS,
    DT_FINDING_INBOX,
    DT_FINDING_PAUSED,
    DT_FINDING_MOVING,
    /* Findings of the command `duetime doctor`, which the API does not return. */
    DT_FINDING_UNREACHED,
    DT_FINDING_NOT_AN_API,
    DT_FINDING_TOKEN,
    DT_FINDING_CLEAR_TOKEN,
    DT_FINDING_API_CERTIFICATE,
    DT_FINDING_VERSIONS_DIFFER,
    DT_FINDING_CALLER_CLOCK,
    DT_FINDING_DRAINING,
    DT_FINDING_MYSQL_AWAY,
    DT_FINDING_SCHEMA,
    DT_FINDING_READ_ONLY,
    DT_FINDING_KINDS
};

struct dt_finding_kind_text {
    const char *name; /* name of the kind, for example "mysql-flush" */
    enum dt_severity severity;
    const char *means, *action; /* action: what to do; the words TOPIC, SHARD, KAFKA and ZOOKEEPER are replaced by
                                 * names */
    const char *page;           /* page of the runbook, for example "deploy/runbook/mysql/mysql-flush.md" */
};
extern const struct dt_finding_kind_text dt_finding_kinds[DT_FINDING_KINDS];
extern const char *const dt_severity_names[]; /* names of the severities, such as "error" */

/* Returns the kind with this name, or DT_FINDING_KINDS if there is none. */
enum dt_finding_kind dt_finding_named(struct dt_str name);
/* Writes when a certificate ends ("mysql.cert_file expires in 3 days"). Returns whether that time has passed, or is
 * less than 30 days ahead. */
bool dt_finding_certificate(const char *what, int64_t ends_s, int64_t now_s, char *out, size_t size);
