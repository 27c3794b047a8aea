/* Small parts of base/ as the simulator has them: mailboxes on fibers, logs as lines of the trace, no metrics. And what
 * db.h does in one round trip and may do in two. */

#include "base/log.h"
#include "base/metrics.h"
#include "base/thread.h"
#include "deliver/kafka/kafka_parts.h"
#include "features/features.h"
#include "mysql/db.h"
#include "simulator/world.h"

/* ---- thread.h ---- */

struct dt_mailbox {
    uint32_t bits;
    struct fiber *owner;
};

dt_status dt_mailbox_new(dt_mailbox **out)
{
    *out = calloc(1, sizeof **out);
    return *out ? DT_OK : DT_NOMEM;
}

void dt_mailbox_free(dt_mailbox *box)
{
    free(box);
}

void dt_mailbox_signal(dt_mailbox *box, uint32_t bits)
{
    box->bits |= bits;
    if (box->owner)
        fiber_wake(box->owner);
}

uint32_t dt_mailbox_pause(dt_mailbox *box, int64_t until_us, uint32_t ends)
{
    box->owner = fiber_self();
    while (!(box->bits & ends) && until_us > now_us)
        fiber_block(until_us);
    box->owner = NULL;
    uint32_t bits = box->bits;
    box->bits = 0;
    return bits;
}

uint32_t dt_mailbox_wait(dt_mailbox *box, int64_t until_us)
{
    return dt_mailbox_pause(box, until_us, UINT32_MAX);
}

/* ---- log.h ---- */

STUB(void, dt_log_set_level, (enum dt_log_level level), )
STUB(void, dt_log_configure, (const char *level, const char *format), )
STUB(bool, dt_log_enabled, (enum dt_log_level level), tracing)
bool dt_log_allows(struct dt_log_limit *, struct dt_str, int64_t *suppressed)
{
    *suppressed = 0;
    return true;
}

void dt_log_write(enum dt_log_level, const char *component, const char *msg, const struct dt_field *fields)
{
    char line[600];
    int n = snprintf(line, sizeof line, "LOG %s: %s", component, msg);
    for (; fields->name && n > 0 && (size_t)n < sizeof line - 100; fields++) {
        if (fields->type == DT_FIELD_INT)
            n += snprintf(line + n, sizeof line - (size_t)n, " %s=%lld", fields->name, (long long)fields->i);
        else
            n += snprintf(line + n, sizeof line - (size_t)n, " %s=%.*s", fields->name,
                          (int)(fields->s.n < 200 ? fields->s.n : 200), fields->s.p ? fields->s.p : "");
    }
    trace("%s", line);
}

/* ---- metrics.h: a NULL handle does nothing ---- */

STUB(dt_metric *, dt_counter, (const char *name, const char *help, const char *labels), NULL)
dt_metric *dt_gauge(const char *name, const char *help, const char *labels)
{
    return dt_counter(name, help, labels);
}
dt_metric *dt_histogram(const char *name, const char *help, const char *labels)
{
    return dt_counter(name, help, labels);
}
dt_metric *dt_histogram_count(const char *name, const char *help, const char *labels)
{
    return dt_counter(name, help, labels);
}
STUB(void, dt_metric_add, (dt_metric * metric, int64_t n), )
STUB(void, dt_metric_set, (dt_metric * metric, double v), )
STUB(void, dt_metric_observe, (dt_metric * metric, double v), )
STUB(double, dt_metric_value, (const dt_metric *metric), 0)
STUB(void, dt_metrics_write, (struct dt_strbuf * out), )

/* ---- db.h ---- */

dt_status dt_db_commit_with(dt_db *db, const char *sql, struct dt_param_rows rows, struct dt_error *err)
{
    dt_status status = dt_db_run_many(db, sql, rows, NULL, err);
    return status == DT_OK ? dt_db_commit(db, err) : status;
}

/* ---- features/features.h: no world has alerts or figures ---- */

dt_status dt_features_start(const struct dt_features_env *, dt_features **out, struct dt_error *)
{
    *out = NULL;
    return DT_OK;
}
STUB(void, dt_features_leave, (dt_features * features), )
STUB(void, dt_features_stop, (dt_features * features), )

/* ---- deliver/kafka/kafka_parts.h: nobody asks a doctor ---- */

dt_status dt_examiner_start(const struct dt_process_env *, dt_examiner **out)
{
    *out = NULL;
    return DT_OK;
}
STUB(void, dt_examiner_stop, (dt_examiner * examiner), )
