/*
 * Deliveries: their names, how a leader deals with each, and what they require of a job. Pure. dispatcher/deliver/
 * sends attempts; the store's claim only uses the dealing of a delivery.
 */
#pragma once

#include "base/clock.h"
#include "base/text/strbuf.h"
#include "job.h"

/* In the order of the ENUM topics.delivery; UNSET: the setting is not given. */
enum dt_delivery_id { DT_DELIVERY_UNSET, DT_DELIVERY_KAFKA, DT_DELIVERY_HTTP, DT_DELIVERY_PULL };

/* How a leader deals with a due job. */
enum dt_dealing {
    DT_DEALING_LISTS, /* claims it into the shard's in-flight list, which is sent and settled as one batch */
    DT_DEALING_HANDS, /* claims it into the hands of one process, which ends each attempt separately */
    DT_DEALING_OFFERS /* offers it to clients that pop from the topic */
};

/* The names, by enum dt_delivery_id, and NULL after the last one. */
extern const char *const dt_delivery_names[];
/* Returns the name, static text; "" for UNSET. */
const char *dt_delivery_id_name(enum dt_delivery_id delivery);
/* Returns how a leader deals with the delivery's jobs; LISTS for UNSET. */
enum dt_dealing dt_delivery_dealing(enum dt_delivery_id delivery);

/*
 * ---- whether a job fits the delivery of its topic: its URL, its time for a result, its headers ----
 *
 * The answer is only valid now: the topic may change while its jobs wait.
 */

/* The settings of a topic that its jobs must fit. */
struct dt_callback_terms {
    enum dt_delivery_id delivery;
    bool has_url;
    int64_t timeout_ms; /* effective timeout, from dt_callback_timeout_ms */
};

/* What a job requires of its topic's delivery. Borrowed. */
struct dt_callback_asked {
    bool asks_url;          /* the job has a destination for callbacks: */
    struct dt_str url;      /* its own; absent: the topic's */
    int64_t ack_timeout_ms; /* 0 = not given */
    struct dt_header_fault header_fault;
};

struct dt_callback_misfit {
    const char *pointer;  /* "/callback_url"; static */
    struct dt_str member; /* the member of that object; absent: `pointer` is not an object */
    const char *reason;   /* static */
};

/* Returns true if all fits, and sets out->reason to NULL. Otherwise *out is the first member that does not fit. */
bool dt_callback_fits(const struct dt_callback_terms *topic, const struct dt_callback_asked *asked,
                      struct dt_callback_misfit *out);
struct dt_callback_asked dt_callback_asked_of(const struct dt_new_job *job);

/* ---- the time that a callback may take, from its request to the end of its answer ---- */

#define DT_CALLBACK_TIMEOUT_DEFAULT_MS INT64_C(10000)
#define DT_CALLBACK_TIMEOUT_MIN_MS     INT64_C(100)
#define DT_CALLBACK_TIMEOUT_MAX_MS     INT64_C(600000)

/* Returns the timeout of a topic's callbacks. timeout_ms: the topic's setting, 0 = none. The default is 10 seconds, or
 * half of the acknowledgement timeout if that is shorter. */
int64_t dt_callback_timeout_ms(int64_t timeout_ms, int64_t ack_timeout_ms);
