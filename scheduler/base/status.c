/* See status.h. */
#include "status.h"

#include <stdarg.h>

static const struct {
    const char *name, *text;
    enum dt_class class;
} rows[] = {
#define X(name, cls, text) [DT_##name] = {#name, text, DT_CLASS_##cls},
    DT_STATUS_MAP(X)
#undef X
};

#define ROWS (sizeof(rows) / sizeof(rows[0]))

/* Returns the row of a status. Only a bug can produce an invalid status; it becomes INTERNAL. */
static unsigned status_row(dt_status status)
{
    return (unsigned)status < ROWS ? (unsigned)status : DT_INTERNAL;
}

const char *dt_status_name(dt_status status)
{
    return rows[status_row(status)].name;
}

const char *dt_status_text(dt_status status)
{
    return rows[status_row(status)].text;
}

enum dt_class dt_status_class(dt_status status)
{
    return rows[status_row(status)].class;
}

dt_status dt_fail(struct dt_error *err, dt_status status, const char *fmt, ...)
{
    va_list args;
    if (!err)
        return status;
    err->status = status;
    err->alarm = false;
    va_start(args, fmt);
    vsnprintf(err->text, sizeof(err->text), fmt, args);
    va_end(args);
    return status;
}
