/* The forecast as a whole: see forecast.h. */
#include "forecast_parts.h"
#include "mysql/statements.h"
#include "store/store_internal.h"

dt_status dt_store_forecast(dt_store *store, const struct dt_forecast_ask *ask, struct dt_arena *arena,
                            struct dt_forecast *out, struct dt_error *err)
{
    struct dt_forecasting f = {.store = store, .ask = ask, .out = out, .arena = arena, .err = err};
    size_t bytes = ask->steps * sizeof(*out->due);
    *out = (struct dt_forecast){
        .due = dt_arena_alloc(arena, bytes), .counted_until_ms = dt_forecast_end_ms(ask), .topics_counted = true};
    if (!out->due)
        return dt_fail(err, DT_NOMEM, "out of memory");
    memset(out->due, 0, bytes);
    dt_status status = dt_store_db(store, &f.db, err);
    if (status == DT_OK)
        status = dt_forecast_near(&f);
    if (status == DT_OK)
        status = dt_forecast_far(&f);
    if (status == DT_OK)
        status = dt_forecast_fires(&f);
    dt_status finished = dt_forecast_finish(&f);
    return status == DT_OK ? finished : status;
}

dt_status dt_store_drains(dt_store *store, int64_t *per_second, struct dt_error *err)
{
    dt_db *db;
    *per_second = 0;
    dt_status status = dt_store_db(store, &db, err);
    return status == DT_OK ? dt_db_read_number(db, dt_sql_select_drains, DT_NO_PARAMS, NULL, per_second, err) : status;
}
