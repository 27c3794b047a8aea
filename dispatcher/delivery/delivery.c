/*
 * Owns:            the table of deliveries, and handing each call of the port to the delivery that it is for.
 * Refuses to know: how any of them works.
 */
#include "delivery_kind.h"

/* One line a delivery: who stands in where its servers are not configured, and whether they are. */
static const struct row {
    const struct dt_delivery_kind *kind, *absent;
    bool (*has)(const struct dt_config *config);
} rows[] = {
    {&dt_delivery_kafka, &dt_delivery_absent, dt_config_has_kafka},
};

dt_status dt_delivery_new(struct dt_str name, const struct dt_delivery_env *env, dt_delivery **out)
{
    *out = NULL;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const struct row *row = &rows[i];
        if (dt_str_is(name, row->kind->name))
            return (row->has(env->config) ? row->kind : row->absent)->new (env, out);
    }
    return DT_NOT_FOUND;
}

void dt_delivery_free(dt_delivery *delivery)
{
    if (delivery)
        delivery->kind->free(delivery);
}

const char *dt_delivery_name(const dt_delivery *delivery)
{
    return delivery->kind->name;
}

enum dt_outage_of dt_delivery_server(const dt_delivery *delivery)
{
    return delivery->kind->server;
}

enum dt_writable dt_delivery_writable(void *arg, struct dt_str topic, int64_t owner, int64_t bytes)
{
    dt_delivery *delivery = arg;
    return delivery->kind->writable(delivery, topic, owner, bytes);
}

void dt_delivery_forget(dt_delivery *delivery)
{
    delivery->kind->forget(delivery);
}

dt_status dt_delivery_fence(dt_delivery *delivery, const struct dt_fence *fence, struct dt_error *err)
{
    return delivery->kind->fence(delivery, fence, err);
}

dt_status dt_delivery_read(dt_delivery *delivery, const struct dt_fence *fence, const struct dt_inflight *inflight,
                           struct dt_delivery_findings *findings, struct dt_error *err)
{
    return delivery->kind->read(delivery, fence, inflight, findings, err);
}

void dt_delivery_settled(dt_delivery *delivery, const struct dt_delivery_findings *findings)
{
    delivery->kind->settled(delivery, findings);
}

void dt_delivery_forget_refusal(dt_delivery *delivery)
{
    delivery->kind->forget_refusal(delivery);
}

dt_status dt_delivery_start(dt_delivery *delivery, dt_store *store, struct dt_fence *fence, struct dt_error *err)
{
    return delivery->kind->start(delivery, store, fence, err);
}

void dt_delivery_clear(dt_delivery *delivery)
{
    delivery->kind->clear(delivery);
}

void dt_delivery_begin_ahead(dt_delivery *delivery, const struct dt_delivery_batch *batch)
{
    delivery->kind->begin_ahead(delivery, batch);
}

void dt_delivery_begin(dt_delivery *delivery, const struct dt_delivery_batch *batch)
{
    delivery->kind->begin(delivery, batch);
}

bool dt_delivery_begun(const dt_delivery *delivery)
{
    return delivery->kind->begun(delivery);
}

dt_status dt_delivery_begin_status(const dt_delivery *delivery, struct dt_error *err)
{
    return delivery->kind->begin_status(delivery, err);
}

dt_status dt_delivery_commit(dt_delivery *delivery, struct dt_error *err)
{
    return delivery->kind->commit(delivery, err);
}

dt_status dt_delivery_finish(dt_delivery *delivery, dt_status status, const struct dt_fence *fence,
                             const struct dt_inflight *inflight, struct dt_delivered *out, struct dt_error *err)
{
    return delivery->kind->finish(delivery, status, fence, inflight, out, err);
}

bool dt_delivery_resolve(dt_delivery *delivery)
{
    return delivery->kind->resolve(delivery);
}

bool dt_delivery_finding_out(const dt_delivery *delivery)
{
    return delivery->kind->finding_out(delivery);
}

dt_status dt_delivery_tend(dt_delivery *delivery, dt_store *store, struct dt_fence *fence, struct dt_error *err)
{
    return delivery->kind->tend(delivery, store, fence, err);
}

const char *dt_delivery_trouble(dt_delivery *delivery)
{
    return delivery->kind->trouble(delivery);
}

void dt_delivery_notice(const dt_delivery *delivery, char *text, size_t size)
{
    delivery->kind->notice(delivery, text, size);
}

bool dt_delivery_worth_closing(const dt_delivery *delivery)
{
    return delivery->kind->worth_closing(delivery);
}

void dt_delivery_close(dt_delivery *delivery)
{
    delivery->kind->close(delivery);
}
