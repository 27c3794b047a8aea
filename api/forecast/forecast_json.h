/* A forecast (store/forecast) as the JSON that GET /v1/forecast and GET /v1/forecast/spikes answer. Pure. */
#ifndef DT_API_FORECAST_JSON_H
#define DT_API_FORECAST_JSON_H

#include "store/forecast/forecast.h"

/* Appends {"from":…,"to":…,"step":…,"steps":[{"from":…,"due":…,"topics":[…]},…],…}. */
void dt_forecast_add_json(struct dt_strbuf *out, const struct dt_forecast_ask *ask, const struct dt_forecast *forecast);
/*
 * Appends {"spikes":[{"from":…,"due":…,"drains":…,"takes":…},…],"measured":…}: the steps that exceed what is drained in
 * one. takes: until a step's jobs have gone, those included that steps before it left over.
 */
struct dt_drains {
    int64_t per_second; /* > 0 */
    bool measured;
};
void dt_spikes_add_json(struct dt_strbuf *out, const struct dt_forecast_ask *ask, const struct dt_forecast *forecast,
                        struct dt_drains drains);
/* The most bytes that either of the two may append for this forecast. */
size_t dt_forecast_json_room(const struct dt_forecast_ask *ask, const struct dt_forecast *forecast);

#endif
