/*
 * The findings of the command `duetime doctor`: each with what it means and what to do, as a command where there is
 * one; and the judgement of what an API says of itself. Pure: run_doctor.c asks, and shows. (api/doctor/findings.h has
 * the findings that an API makes for GET /v1/doctor.)
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
    DT_FOUND_REDIS,
    DT_FOUND_KAFKA,
    DT_FOUND_LEADER,
    DT_FOUND_HALTED,
    DT_FOUND_WAITING,
    DT_FOUND_MOVING,
    DT_FOUND_OVERDUE,
    DT_FOUND_PAUSED,
    DT_FINDINGS
};

struct dt_finding_text {
    const char *name;  /* "mysql-read-only" */
    const char *means; /* a sentence */
    const char *advice;
    const char *page; /* of the runbook: "deploy/runbook/mysql/mysql-read-only.md" */
};
extern const struct dt_finding_text dt_finding_texts[DT_FINDINGS];

/* Hears of a finding; detail is what it was seen by. */
typedef void dt_found_fn(void *arg, enum dt_finding finding, const char *detail);

/* Judges the answer of /readyz. */
void dt_judge_readiness(const dt_json *json, const struct dt_json_node *root, dt_found_fn *found, void *arg);
/* The limits that an answer of /v1/info is judged by. */
struct dt_info_limits {
    int64_t before_ms, after_ms; /* our clock before and after the request */
    int64_t skew_ms;             /* clocks may differ by so much */
    int64_t late_ms;             /* jobs may be late by so much */
};
void dt_judge_info(const dt_json *json, const struct dt_json_node *root, const struct dt_info_limits *limits,
                   dt_found_fn *found, void *arg);

#endif
