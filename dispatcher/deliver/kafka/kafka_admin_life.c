/*
 * Owns the parts of an admin, and the order in which they begin and end: the handle of its requests (kafka_admin.c),
 * then what is known of topics (kafka_topics.c), which asks through it.
 */
#include <stdlib.h>

#include "kafka_admin_parts.h"

#define KEEP_HANDLE_MS 10000

static dt_status admin_conf(const struct dt_kafka_env *env, rd_kafka_conf_t **out, struct dt_error *err)
{
    return dt_kafka_conf_new(env, NULL, out, err);
}

static const struct dt_kafka_on_demand_ops on_demand_ops = {.conf = admin_conf};

dt_status dt_kafka_admin_new(const struct dt_kafka_env *env, dt_kafka_admin **out, struct dt_error *err)
{
    struct dt_kafka_admin *a = calloc(1, sizeof(*a));
    dt_status status;

    *out = NULL;
    if (!a)
        return dt_fail(err, DT_NOMEM, "kafka admin");
    a->env = env;
    pthread_mutex_init(&a->request_lock, NULL);
    status = dt_kafka_on_demand_new(env, &on_demand_ops, KEEP_HANDLE_MS, &a->handle, err);
    if (status == DT_OK)
        status = dt_kafka_lookups_new(a, err);
    if (status != DT_OK) {
        dt_kafka_admin_free(a);
        return status;
    }
    *out = a;
    return DT_OK;
}

void dt_kafka_admin_free(dt_kafka_admin *a)
{
    if (!a)
        return;
    dt_kafka_lookups_free(a->lookups);
    dt_kafka_on_demand_free(a->handle);
    pthread_mutex_destroy(&a->request_lock);
    free(a);
}
