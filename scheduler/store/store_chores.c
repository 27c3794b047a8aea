/* See store_chores.h. */
#include "store_chores.h"

#include "mysql/db.h"

static dt_status open_store(void *arg, void **context, struct dt_error *err)
{
    const struct dt_store_source *source = arg;
    dt_store *store = NULL;
    const dt_status status = dt_store_new(source->config, source->ref, &store);
    *context = store;
    return status == DT_OK ? DT_OK : dt_fail(err, status, "out of memory");
}

static void close_store(void *context)
{
    dt_store_free(context);
    dt_db_thread_end();
}

static void cut_store(void *context)
{
    dt_store_cut(context);
}

static void check_store(const void *context)
{
    dt_store_assert_idle(context);
}

dt_status dt_store_chores_start(const struct dt_store_source *source, const dt_clock *clock, const char *name,
                                unsigned threads, dt_chores **out, struct dt_error *err)
{
    const struct dt_chores_env env = {.name = name,
                                      .threads = threads,
                                      .clock = clock,
                                      .open = open_store,
                                      .close = close_store,
                                      .cut = cut_store,
                                      .check = check_store,
                                      .arg = (void *)(uintptr_t)source};
    return dt_chores_start(&env, out, err);
}
