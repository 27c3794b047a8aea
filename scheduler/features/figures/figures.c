/*
 * The chore that writes the figures of the process, in APIs and dispatchers. It keeps the figures that are not written
 * yet, and a copy of the histograms of lateness at the last write.
 *
 * The chore is due at the end of each step of five seconds, by MySQL's clock, so that a steady load gives steady
 * figures. If nothing happened, it sends no statement. If a write fails, the figures of the step are lost, because they
 * must not be added to the next step.
 */
#include "figures.h"

#include <math.h>
#include <sys/random.h>

#include "base/assert.h"
#include "base/log.h"

#define BUCKETS    32
#define EXPIRE_MS  INT64_C(300000)      /* pause between two deletions of old rows; without events nothing is deleted */
#define EXPIRED    5000                 /* most rows in one deletion */
#define LATEST_US  INT64_C(86400000000) /* upper bound that is written for the last bucket */
#define BACKLOG_US INT64_C(10000000)    /* pause between two counts of due jobs by topic, while there are due jobs */
#define LATENESSES 3

/* Names of the histograms of lateness. A process has only some of them. */
static const char *const lateness[LATENESSES] = {"duetime_dispatch_lateness_seconds",
                                                 "duetime_callback_lateness_seconds", "duetime_pop_lateness_seconds"};

typedef struct {
    struct dt_features_env env;
    int64_t writer;
    struct dt_chore chore;
    int64_t begins_ms; /* beginning of the current step; 0: no step has begun */
    struct dt_tally tally;
    struct dt_backlog backlog;
    int64_t backlog_us; /* mono: earliest time of the next count of due jobs */
    dt_metric *happened[DT_TALLIES];
    uint64_t seen[LATENESSES][BUCKETS]; /* numbers in the buckets at the last write */
    int64_t expired_ms;                 /* time of the last deletion */
    bool failed;                        /* the last write failed */
} dt_figures;

/* Returns by how much each bucket has grown since the last call, summed over all histograms. All histograms have the
 * same bounds. */
static size_t take_lateness_growth(dt_figures *f, struct dt_lateness out[static BUCKETS])
{
    size_t n = 0;
    for (size_t i = 0; i < BUCKETS; i++) {
        double bound = 0;
        uint64_t grown = 0;
        for (size_t k = 0; k < LATENESSES; k++) {
            const dt_metric *metric = dt_metric_find(lateness[k]);
            if (!metric || i >= dt_metric_buckets(metric))
                continue;
            const uint64_t now = dt_metric_bucket(metric, i, &bound);
            dt_assert_cmp(f->seen[k][i], <=, now);
            grown += now - f->seen[k][i];
            f->seen[k][i] = now;
        }
        if (grown)
            out[n++] = (struct dt_lateness){.up_to_us = isinf(bound) ? LATEST_US : llround(bound * 1e6),
                                            .attempts = (int64_t)grown};
    }
    return n;
}

/* Writes the figures since the last write, into the rows of the step that contains at_ms. */
static void write_figures_step(dt_figures *f, dt_store *store, int64_t at_ms)
{
    struct dt_lateness late[BUCKETS];
    struct dt_error err = {0};
    const int64_t now_us = dt_clock_mono_us(f->env.clock);
    bool moved = dt_tally_take(&f->tally);
    struct dt_figures_step step = {.at_ms = at_ms, .writer = f->writer, .tally = &f->tally, .lateness = late};
    step.n_lateness = take_lateness_growth(f, late);
    step.overdue = (int64_t)dt_metric_value(dt_metric_find("duetime_overdue_jobs")); /* 0 in a process that leads no
                                                                                      * shard */
    for (int i = 0; i < DT_TALLIES; i++)
        dt_metric_add(f->happened[i], f->tally.all[i]);
    if (now_us >= f->backlog_us) {
        f->backlog_us = now_us + BACKLOG_US;
        if (dt_backlog_tell(&f->backlog, store, at_ms + DT_FINE_MS, step.overdue) != DT_OK)
            DT_LOG(DEBUG, "figures", "due jobs could not be counted by topic");
    }
    if (!moved && step.n_lateness == 0 && step.overdue == 0)
        return;
    dt_status status = dt_store_figures_add(store, &step, &err);
    if (status != DT_OK && !f->failed && !dt_chore_stopping(&f->chore))
        DT_LOG(WARN, "figures", "figures could not be written", DT_S("reason", err.text));
    f->failed = status != DT_OK;
    if (status != DT_OK || at_ms - f->expired_ms < EXPIRE_MS)
        return;
    /* Rows that another process is deleting are left to the next call. */
    f->expired_ms = at_ms;
    for (bool more = true; more && status == DT_OK && !dt_chore_stopping(&f->chore);)
        status = dt_store_figures_expire(store, at_ms, EXPIRED, &more, NULL);
}

static int64_t tick_figures(void *arg, void *store)
{
    dt_figures *f = arg;
    const int64_t now_ms = dt_refclock_earliest_ms(f->env.ref);
    const int64_t begins_ms = now_ms - now_ms % DT_FINE_MS;
    if (f->begins_ms && begins_ms > f->begins_ms)
        write_figures_step(f, store, f->begins_ms);
    f->begins_ms = begins_ms;
    return dt_refclock_mono_us_at(f->env.ref, begins_ms + DT_FINE_MS);
}

dt_status dt_figures_start(const struct dt_features_env *env, void **out, struct dt_error *err)
{
    static const char *const words[DT_TALLIES] = {"created", "dispatched", "succeeded", "failed", "dead", "cancelled"};
    dt_figures *f = *out = calloc(1, sizeof(*f));
    if (!f)
        return dt_fail(err, DT_NOMEM, "out of memory");
    f->env = *env;
    if (getrandom(&f->writer, sizeof(f->writer), 0) != (ssize_t)sizeof(f->writer))
        f->writer = (int64_t)(uintptr_t)f;
    f->writer &= INT64_MAX;
    for (int i = 0; i < DT_TALLIES; i++) {
        char label[32];
        snprintf(label, sizeof(label), "of=\"%s\"", words[i]);
        f->happened[i] = dt_counter("duetime_figures_total",
                                    "What this process committed: jobs created, attempts dispatched and failed, jobs "
                                    "succeeded, dead and cancelled.",
                                    label);
    }
    f->chore = (struct dt_chore){.name = "figures", .tick = tick_figures, .arg = f};
    dt_chores_add(env->chores, &f->chore);
    return DT_OK;
}

void dt_figures_stop(void *figures)
{
    dt_figures *f = figures;
    dt_chore_remove(&f->chore);
    dt_arena_clear(&f->backlog.arena);
    free(f);
}
