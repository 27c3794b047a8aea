/*
 * Whether what a caller asks of a job fits the delivery of its topic: a URL of its own, its time for a result, its
 * headers. Pure. The judgement is about the moment at which it is asked: a topic may change while its jobs wait.
 */
#ifndef DT_JOB_CALLBACK_FIT_H
#define DT_JOB_CALLBACK_FIT_H

#include "delivery.h"
#include "job.h"

/* The settings of a topic that its jobs must fit. */
struct dt_callback_terms {
    enum dt_delivery_id delivery;
    bool has_url;
    int64_t timeout_ms; /* that holds (dt_callback_timeout_ms) */
};

/* The demands on a job that its topic's delivery has to fit. Borrowed. */
struct dt_callback_asked {
    bool asks_url;          /* where callbacks go is asked for: */
    struct dt_str url;      /* there; absent: wherever the topic says */
    int64_t ack_timeout_ms; /* 0 = not asked for */
    struct dt_header_fault header_fault;
};

/* The member that does not fit. */
struct dt_callback_misfit {
    const char *pointer;  /* "/callback_url"; static */
    struct dt_str member; /* the member of that one, when it is an object; else absent */
    const char *reason;   /* static */
};

/* Says whether all fits: then the reason is NULL; else *out names the first that does not. */
bool dt_callback_fits(const struct dt_callback_terms *topic, const struct dt_callback_asked *asked,
                      struct dt_callback_misfit *out);
/* The demands that a caller makes on a new job. */
struct dt_callback_asked dt_callback_asked_of(const struct dt_new_job *job);

#endif
