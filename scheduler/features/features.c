/* The table of features with chores. Each line has the functions that start and stop the chores of one feature, and the
 * function by which a process that ends leaves them to another process. */
#include "features.h"

#include "features/alerts/alerts.h"
#include "features/figures/figures.h"

static const struct feature {
    dt_status (*start)(const struct dt_features_env *env, void **out, struct dt_error *err);
    void (*leave)(void *feature); /* NULL: the chores run in every process, so no other process must take them over */
    void (*stop)(void *feature);
} table[] = {
    {dt_figures_start, NULL, dt_figures_stop},
    {dt_alerts_start, dt_alerts_leave, dt_alerts_stop},
};
#define FEATURES (sizeof(table) / sizeof(*table))

struct dt_features {
    void *v[FEATURES]; /* one for each line of the table; NULL: not started */
};

dt_status dt_features_start(const struct dt_features_env *env, dt_features **out, struct dt_error *err)
{
    dt_features *f = calloc(1, sizeof(*f));
    dt_status status = f ? DT_OK : dt_fail(err, DT_NOMEM, "out of memory");
    for (size_t i = 0; i < FEATURES && status == DT_OK; i++)
        status = table[i].start(env, &f->v[i], err);
    if (status == DT_OK)
        *out = f;
    else
        dt_features_stop(f);
    return status;
}

void dt_features_leave(dt_features *f)
{
    for (size_t i = 0; f && i < FEATURES; i++)
        if (table[i].leave)
            table[i].leave(f->v[i]);
}

void dt_features_stop(dt_features *f)
{
    for (size_t i = FEATURES; f && i-- > 0;)
        if (f->v[i])
            table[i].stop(f->v[i]);
    free(f);
}
