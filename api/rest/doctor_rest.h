/* The findings of GET /v1/doctor, computed from facts that the caller has read. Only the limits of topics are read from
 * MySQL here (explain_rest.h). The command `duetime doctor` adds findings of its own (cli/run_status.c). */
#pragma once

#include "explain_rest.h"
#include "features/doctor/finding.h"
#include "features/doctor/process_findings.h"
#include "features/figures/figures.h"
#include "index/index.h"
#include "request/topic_cache.h"
#include "store/processes.h"
#include "store/store.h"

/* The facts that findings are computed from. A fact that could not be read is absent. */
struct dt_examined {
    int64_t now_ms;  /* MySQL's clock */
    int64_t host_ms; /* clock of the API's host, when MySQL's clock was read */
    int64_t took_ms; /* how long reading MySQL's clock took */
    struct dt_server_settings mysql;
    bool replicas; /* true if mysql.hosts names several servers */
    struct dt_semi_sync semi_sync;
    const struct dt_ending_numbers *ending;
    size_t n_ending;
    size_t payload_max; /* bytes of the largest payload that the API accepts */
    const struct dt_live_process *processes;
    size_t n_processes;
    struct dt_waiting *waiting; /* snapshots; also says what due jobs wait for */
    int64_t late_ms;            /* a finding is reported if a job has been due for longer than this */
    const struct dt_topic_overdue *overdue;
    size_t n_overdue;
    int64_t inbox_errors;
    const struct dt_process_finding *told; /* findings that dispatchers reported */
    size_t n_told;
    const struct dt_config *config; /* has the paths of the certificates to check */
    int64_t shown_ends_ms;          /* when the certificate that the API presents expires; 0: it presents none */
    const struct dt_index_memory *redis;
    size_t n_redis;
    const char *redis_trouble; /* why Redis does not work; NULL: it works */
};

struct dt_finding {
    enum dt_finding_kind kind, cause; /* cause: the kind of finding that causes this one; DT_FINDING_KINDS: none */
    const char *subject, *detail;     /* what the finding is about, and the evidence */
    const char *action;               /* what to do, with names and addresses filled in */
    int64_t at_ms;                    /* when the problem was found */
};
typedef void dt_heard_fn(void *arg, const struct dt_finding *finding);
/* Passes all findings to `heard`, the most severe first. Each finding is followed by the findings that it causes. */
void dt_findings_judge(const struct dt_examined *examined, dt_heard_fn *heard, void *arg);
