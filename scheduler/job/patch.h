/* A change of a scheduled job that a caller asks for (PATCH, or an intent): the members that it sets. Pure. */
#ifndef DT_JOB_PATCH_H
#define DT_JOB_PATCH_H

#include "job.h"

#define DT_PATCH_MEMBER(kind, member, column)                                                                          \
    bool has_##member;                                                                                                 \
    DT_COLUMN_TYPE_##kind member; /* absent = none */
/* The members of a job that change; only those whose has_… is set. */
struct dt_patch {
    int64_t if_version; /* the change is for this version of the row only (VERSION otherwise); 0 = any */
    bool has_run_at, has_payload, has_retry, has_ack_timeout;
    int64_t run_at_ms;
    bool run_at_is_delay; /* then run_at_ms is the delay, counted from MySQL's clock */
    struct dt_str payload;
    DT_JOB_COLUMNS(DT_COLUMN_NONE, DT_COLUMN_MEMBER, DT_PATCH_MEMBER) /* CONTENT: with has_payload */
    struct dt_str retry;                                              /* absent = the topic's */
    int64_t ack_timeout_ms;                                           /* 0 = the topic's */
    struct dt_header_fault header_fault;                              /* of headers; the store does not look at it */
};

#endif
