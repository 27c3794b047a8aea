/*
 * Names, texts and classes of the status table, and the one way to fill an error.
 * Owns no state; refuses to know what the codes are used for.
 */
#include "status.h"

#include <stdarg.h>
#include <stdio.h>

static const struct {
    const char *name, *text;
    enum dt_class class;
} rows[] = {
#define X(name, cls, text) [DT_##name] = {#name, text, DT_CLASS_##cls},
    DT_STATUS_MAP(X)
#undef X
};

#define ROWS (sizeof(rows) / sizeof(rows[0]))

/* A number that is no status can only come from a bug; it is answered as INTERNAL rather than read out of bounds. */
static unsigned row_of(dt_status status)
{
    return (unsigned)status < ROWS ? (unsigned)status : DT_INTERNAL;
}

const char *dt_status_name(dt_status status)
{
    return rows[row_of(status)].name;
}

const char *dt_status_text(dt_status status)
{
    return rows[row_of(status)].text;
}

enum dt_class dt_status_class(dt_status status)
{
    return rows[row_of(status)].class;
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
