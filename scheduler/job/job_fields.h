/*
 * The members of a job as a body gave them, each with a bit that says whether it was there, so that "absent" and "null"
 * stay apart until somebody decides what they mean. For those that decode bodies only. Pure.
 */
#ifndef DT_JOB_JOB_FIELDS_H
#define DT_JOB_JOB_FIELDS_H

#include "base/text/json.h"
#include "problem.h"

/* Bits in the order of the rows of the table (job_decode.c). */
enum dt_job_member {
    DT_MEMBER_TOPIC = 1 << 0,
    DT_MEMBER_KEY = 1 << 1,
    DT_MEMBER_RUN_AT = 1 << 2,
    DT_MEMBER_DELAY = 1 << 3,
    DT_MEMBER_PAYLOAD = 1 << 4,
    DT_MEMBER_PAYLOAD_BASE64 = 1 << 5,
    DT_MEMBER_CONTENT_TYPE = 1 << 6,
    DT_MEMBER_PARTITION_KEY = 1 << 7,
    DT_MEMBER_RETRY = 1 << 8,
    DT_MEMBER_ACK_TIMEOUT = 1 << 9,
    DT_MEMBER_HEADERS = 1 << 10,
    DT_MEMBER_CALLBACK_URL = 1 << 11,
};

struct dt_header_pair {
    struct dt_str name, value;
};

/* A member that is absent, or null where null is allowed, has the empty value. */
struct dt_job_fields {
    unsigned has; /* enum dt_job_member, or-ed */
    int64_t delay_ms;
    struct dt_header_pair *pairs; /* of the headers */
    size_t n_pairs;
    struct dt_new_job job; /* payload: of either kind; run_at as it was given */
};

/* Computes the digest of the request, which is the job's (job_decode.h says what it has in it). Sorts the pairs by
 * name. */
void dt_job_digest(struct dt_job_fields *fields);

#endif
