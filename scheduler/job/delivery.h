/*
 * The ways in which a due job leaves, by name, and how a leader treats each. Pure. What carries an attempt out stands
 * in dispatcher/delivery; the store's claim knows a delivery by its dealing alone.
 */
#ifndef DT_JOB_DELIVERY_H
#define DT_JOB_DELIVERY_H

#include "base/clock.h"
#include "base/text/strbuf.h"
#include "job.h"

/* A delivery, as topics.delivery has it; UNSET: a setting that does not say. The order is that of the column's ENUM. */
enum dt_delivery_id { DT_DELIVERY_UNSET, DT_DELIVERY_KAFKA, DT_DELIVERY_HTTP, DT_DELIVERY_PULL };

/* A leader's dealing with a due job. */
enum dt_dealing {
    DT_DEALING_LISTS, /* claims it into the shard's in-flight list, which is sent as one batch and settled as one */
    DT_DEALING_HANDS, /* claims it into the hands of one process, which ends each attempt by itself */
    DT_DEALING_OFFERS /* leaves the claim to whoever asks for the topic's jobs */
};

/* The names, by their numbers, and NULL after the last one. */
extern const char *const dt_delivery_names[];
/* Its name; static text. Of UNSET: "". */
const char *dt_delivery_id_name(enum dt_delivery_id delivery);
/* The dealing with its jobs; LISTS for what is unset. */
enum dt_dealing dt_delivery_dealing(enum dt_delivery_id delivery);

/*
 * Whether what a caller asks of a job fits the delivery of its topic: a URL of its own, its time for a result, its
 * headers. Pure. The judgement is about the moment at which it is asked: a topic may change while its jobs wait.
 */

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

/* The time that a callback may take, from its request to the end of its answer: default, bounds, and a topic's own
 * setting. Pure. */

#define DT_CALLBACK_TIMEOUT_DEFAULT_MS INT64_C(10000)
#define DT_CALLBACK_TIMEOUT_MIN_MS     INT64_C(100)
#define DT_CALLBACK_TIMEOUT_MAX_MS     INT64_C(600000)

/* The timeout of a topic's callbacks; 0 stands for a setting that the topic does not have. The default is 10 seconds,
 * or half of a shorter acknowledgement timeout. */
static inline int64_t dt_callback_timeout_ms(int64_t timeout_ms, int64_t ack_timeout_ms)
{
    int64_t ack_ms = ack_timeout_ms > 0 ? ack_timeout_ms : DT_ACK_TIMEOUT_DEFAULT_MS;
    if (timeout_ms > 0)
        return timeout_ms;
    return dt_later(dt_earlier(DT_CALLBACK_TIMEOUT_DEFAULT_MS, ack_ms / 2), 1);
}

#endif
