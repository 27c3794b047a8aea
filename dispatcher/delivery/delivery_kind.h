/*
 * The functions that a delivery implements: one struct dt_delivery_kind, which stands in the table of delivery.c. Each
 * member does what the function dt_delivery_<member> of delivery.h promises, and its arguments are the same.
 */
#ifndef DT_DISPATCHER_DELIVERY_KIND_H
#define DT_DISPATCHER_DELIVERY_KIND_H

#include "delivery/delivery.h"

struct dt_delivery_kind {
    const char *name;
    enum dt_outage_of server;
    dt_status (*new)(const struct dt_delivery_env *env, dt_delivery **out);
    void (*free)(dt_delivery *delivery); /* never NULL */
    void (*forget)(dt_delivery *delivery);
    dt_status (*fence)(dt_delivery *delivery, const struct dt_fence *fence, struct dt_error *err);
    dt_status (*read)(dt_delivery *delivery, const struct dt_fence *fence, const struct dt_inflight *inflight,
                      struct dt_delivery_findings *findings, struct dt_error *err);
    void (*settled)(dt_delivery *delivery, const struct dt_delivery_findings *findings);
    void (*forget_refusal)(dt_delivery *delivery);
    dt_status (*start)(dt_delivery *delivery, dt_store *store, struct dt_fence *fence, struct dt_error *err);
    void (*clear)(dt_delivery *delivery);
    void (*begin_ahead)(dt_delivery *delivery, const struct dt_delivery_batch *batch);
    void (*begin)(dt_delivery *delivery, const struct dt_delivery_batch *batch);
    bool (*begun)(const dt_delivery *delivery);
    dt_status (*begin_status)(const dt_delivery *delivery, struct dt_error *err);
    dt_status (*commit)(dt_delivery *delivery, struct dt_error *err);
    dt_status (*finish)(dt_delivery *delivery, dt_status status, const struct dt_fence *fence,
                        const struct dt_inflight *inflight, struct dt_delivered *out, struct dt_error *err);
    enum dt_writable (*writable)(dt_delivery *delivery, struct dt_str topic, int64_t owner, int64_t bytes);
    bool (*resolve)(dt_delivery *delivery);
    bool (*finding_out)(const dt_delivery *delivery);
    dt_status (*tend)(dt_delivery *delivery, dt_store *store, struct dt_fence *fence, struct dt_error *err);
    const char *(*trouble)(dt_delivery *delivery);
    void (*notice)(const dt_delivery *delivery, char *text, size_t size);
    bool (*worth_closing)(const dt_delivery *delivery);
    void (*close)(dt_delivery *delivery);
};

/* Every delivery begins with this; its `new` fills it in. */
struct dt_delivery {
    const struct dt_delivery_kind *kind;
};

/* The rows of the table, each defined in a folder of its own. */
extern const struct dt_delivery_kind dt_delivery_kafka;
extern const struct dt_delivery_kind dt_delivery_absent; /* stands in where there is no Kafka */

#endif
