/* Deliveries: their names, how a leader deals with the jobs of each, and what each requires of a job. Pure functions.
 * dispatcher/deliver/ sends attempts; the claim in MySQL needs only the dealing (enum dt_dealing). */
#pragma once

#include "base/clock.h"
#include "base/text/strbuf.h"
#include "job.h"

/* Values in the order of the ENUM topics.delivery. UNSET: the topic or request does not set a delivery. */
enum dt_delivery_id { DT_DELIVERY_UNSET, DT_DELIVERY_KAFKA, DT_DELIVERY_HTTP, DT_DELIVERY_PULL };

/* What a leader does with a due job. */
enum dt_dealing {
    DT_DEALING_LISTS, /* the leader claims the job into the shard's in-flight list; the list is sent and settled in
                       * batches */
    DT_DEALING_HANDS, /* the leader claims the job for one process, which sends its callback and ends the attempt */
    DT_DEALING_OFFERS /* the leader offers the job to clients that pop from the topic */
};

/* The names, indexed by enum dt_delivery_id, with a NULL at the end. */
extern const char *const dt_delivery_names[];
/* Returns the name, static text; "" for UNSET. */
const char *dt_delivery_id_name(enum dt_delivery_id delivery);
/* Returns how a leader deals with the delivery's jobs; LISTS for UNSET. */
enum dt_dealing dt_delivery_dealing(enum dt_delivery_id delivery);

/*
 * ---- whether a job fits the delivery of its topic: its URL, its time for a result, its headers ----
 *
 * The answer is valid only at the moment of the call, because the topic may change while its jobs wait.
 */

/* The settings of a topic that its jobs must fit. */
struct dt_callback_terms {
    enum dt_delivery_id delivery;
    bool has_url;
    int64_t timeout_ms; /* effective timeout, from dt_callback_timeout_ms */
};

/* What a job requires of its topic's delivery. Borrowed. */
struct dt_callback_asked {
    bool asks_url;          /* the job needs a URL for its callback */
    struct dt_str url;      /* URL of the job itself; absent: the topic's URL */
    int64_t ack_timeout_ms; /* time for a result; 0 = not given */
    struct dt_header_fault header_fault;
};

struct dt_callback_misfit {
    const char *pointer;  /* JSON pointer of the misfit, such as "/callback_url"; static */
    struct dt_str member; /* name of the member in the object at `pointer`; absent: `pointer` is the member itself */
    const char *reason;   /* reason for the caller, static text */
};

/* Returns true if the job fits, and sets out->reason to NULL. Otherwise *out is the first member that does not fit. */
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
