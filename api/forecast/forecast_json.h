/* A forecast as JSON. */
#ifndef DT_API_FORECAST_JSON_H
#define DT_API_FORECAST_JSON_H

#include "store/forecast/forecast.h"

/* Appends {"from":…,"to":…,"step":…,"steps":[{"from":…,"due":…,"topics":[…]},…],…}. */
void dt_forecast_add_json(struct dt_strbuf *out, const struct dt_forecast_ask *ask, const struct dt_forecast *forecast);
/* Bytes that it may append. */
size_t dt_forecast_json_room(const struct dt_forecast_ask *ask, const struct dt_forecast *forecast);

#endif
