/*
 * The findings that the command `duetime doctor` makes by itself: of the way to an API, and of an API that cannot
 * answer GET /v1/doctor, which makes all others (api/doctor/findings.h). Pure: run_doctor.c asks, and shows.
 */
#ifndef DT_CLI_FINDINGS_H
#define DT_CLI_FINDINGS_H

#include "base/json.h"

enum dt_finding {
    DT_FOUND_UNREACHED,
    DT_FOUND_NOT_DUETIME,
    DT_FOUND_TOKEN,
    DT_FOUND_CLEAR_TOKEN,
    DT_FOUND_CERTIFICATE,
    DT_FOUND_VERSION,
    DT_FOUND_CLOCK,
    DT_FOUND_DRAINING,
    DT_FOUND_MYSQL,
    DT_FOUND_SCHEMA,
    DT_FOUND_READ_ONLY,
    DT_FINDINGS
};

struct dt_finding_text {
    const char *name;     /* "mysql-read-only" */
    const char *severity; /* "error", "warning", "note" */
    const char *means;    /* a sentence */
    const char *advice;
    const char *page; /* of the runbook: "deploy/runbook/mysql/mysql-read-only.md" */
};
extern const struct dt_finding_text dt_finding_texts[DT_FINDINGS];

/* Hears of a finding; detail is what it was seen by. */
typedef void dt_found_fn(void *arg, enum dt_finding finding, const char *detail);

/* Judges the answer of /readyz. */
void dt_judge_readiness(const dt_json *json, const struct dt_json_node *root, dt_found_fn *found, void *arg);
/* Judges the version and the clock in an answer of /v1/info, by our clock before and after the request. */
void dt_judge_info(const dt_json *json, const struct dt_json_node *root, int64_t before_ms, int64_t after_ms,
                   dt_found_fn *found, void *arg);

#endif
