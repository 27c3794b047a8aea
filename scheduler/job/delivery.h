/*
 * The ways in which a due job leaves, by name, and how a leader treats each. Pure. What carries an attempt out stands
 * in dispatcher/delivery; the store's claim knows a delivery by its dealing alone.
 */
#ifndef DT_JOB_DELIVERY_H
#define DT_JOB_DELIVERY_H

#include "base/text/strbuf.h"

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

#endif
