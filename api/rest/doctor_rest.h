/*
 * The findings of GET /v1/doctor: each with how grave it is, what it means, what to do, and which other finding
 * explains it. The other files of this folder have read what is judged; the store is asked for limits of topics alone
 * (rest/explain_rest.h). (cli/run_status.c has the findings that the command `duetime doctor` makes from outside of an
 * API.)
 */
#ifndef DT_API_DOCTOR_REST_H
#define DT_API_DOCTOR_REST_H

#include "explain_rest.h"
#include "features/doctor/finding.h"
#include "features/doctor/process_findings.h"
#include "features/figures/figures.h"
#include "index/index.h"
#include "request/topic_cache.h"
#include "store/processes.h"
#include "store/server_settings.h"

/* The facts to judge; those that could not be read are absent. */
struct dt_examined {
    int64_t now_ms;  /* MySQL's clock */
    int64_t host_ms; /* of the API's host, when MySQL was asked for its own */
    int64_t took_ms; /* that question */
    struct dt_server_settings mysql;
    bool replicas; /* mysql.hosts names several servers */
    struct dt_semi_sync semi_sync;
    const struct dt_ending_numbers *ending;
    size_t n_ending;
    size_t payload_max; /* bytes of a payload that are taken */
    const struct dt_live_process *processes;
    size_t n_processes;
    struct dt_waiting *waiting; /* the snapshots of topics and shards, and what jobs wait for */
    int64_t late_ms;            /* jobs may be due for so long */
    const struct dt_topic_overdue *overdue;
    size_t n_overdue;
    int64_t inbox_errors;
    const struct dt_process_finding *told; /* by dispatchers */
    size_t n_told;
    const struct dt_config *config; /* its certificates are looked at */
    int64_t shown_ends_ms;          /* the certificate that callers of the API are shown now; 0 = none is */
    const struct dt_index_memory *redis;
    size_t n_redis;
    const char *redis_trouble; /* NULL: none */
};

struct dt_finding {
    enum dt_finding_kind kind, cause; /* cause: DT_FINDING_KINDS = none of the others */
    const char *subject, *detail;     /* what it is about, and what it was seen by */
    const char *action;               /* with names in their places */
    int64_t at_ms;                    /* when it was found */
};
typedef void dt_heard_fn(void *arg, const struct dt_finding *finding);
/* Reports all findings: the gravest first, and after each kind the findings that it explains. */
void dt_findings_judge(const struct dt_examined *examined, dt_heard_fn *heard, void *arg);

#endif
