/*
 * See outage.h. One lock protects all outages.
 *
 *   NONE --a part fails--> LASTS --no part fails any more--> NONE
 *
 * An outage that begins soon after the end of another one (DT_OUTAGE_PAUSE_US) is not logged at first.
 *
 * Invariants: `parts` counts the parts whose `of` and `generation` name this outage. Ending an outage for all parts at
 * once raises its generation, so that parts with the old one do not count any more. The end is logged only if the
 * beginning was logged.
 */
#include "outage.h"

#include <pthread.h>

#include "assert.h"
#include "clock.h"
#include "log.h"
#include "metrics.h"

static const char *const names[DT_OUTAGES] = {"none", "mysql", "redis", "kafka", "zookeeper"};

struct outage {
    unsigned parts;
    uint32_t generation;
    bool told, alarmed;
    int64_t since_us;  /* time of the outage's first failure */
    int64_t failed_us; /* time of the outage's latest failure */
    int64_t well_us;   /* latest success of the part that failed last; 0: it has had none */
    int64_t told_us;   /* time when a line about the outage was last logged */
    bool ever_told;
    int64_t tries;
    dt_metric *lasts, *alarm, *failures;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct outage outages[DT_OUTAGES];

static int64_t duration_s(const struct outage *o, int64_t until_us)
{
    return (until_us - o->since_us) / 1000000;
}

/* Ends an outage, and logs its end if its beginning was logged. until_us: end of the outage; now_us: the present. */
static void end_outage(enum dt_outage_of of, int64_t until_us, int64_t now_us)
{
    struct outage *o = &outages[of];
    dt_metric_set(o->lasts, 0);
    dt_metric_set(o->alarm, 0);
    if (o->told) {
        DT_LOG(INFO, "outage", "outage ended", DT_S("outage", names[of]), DT_I("tries", o->tries),
               DT_I("seconds", duration_s(o, until_us)));
        o->told_us = now_us;
    }
    o->told = o->alarmed = false;
    o->tries = 0;
    o->parts = 0;
}

static bool is_part_of_outage(const struct dt_outage_part *part, enum dt_outage_of of)
{
    return part->of == of && part->generation == outages[of].generation;
}

static void remove_part_from_outage(struct dt_outage_part *part, int64_t now_us)
{
    enum dt_outage_of of = part->of;
    if (is_part_of_outage(part, of) && of != DT_OUTAGE_NONE) {
        dt_assert_cmp(outages[of].parts, >, 0);
        if (--outages[of].parts == 0)
            end_outage(of, now_us, now_us);
    }
    part->of = DT_OUTAGE_NONE;
}

void dt_outage_failed_at(int64_t now_us, struct dt_outage_part *part, enum dt_outage_of of, const char *component,
                         const char *what, dt_status status, const struct dt_error *err)
{
    struct outage *o = &outages[of];
    const char *reason = err && err->text[0] ? err->text : dt_status_text(status);
    const enum dt_class class = dt_status_class(status);
    const bool alarm = class == DT_CLASS_PERMANENT || class == DT_CLASS_FATAL || (err && err->alarm);
    const enum dt_log_level level = alarm ? DT_LOG_ERROR : DT_LOG_WARN;
    char label[32];
    pthread_mutex_lock(&lock);
    if (!o->lasts) {
        snprintf(label, sizeof(label), "of=\"%s\"", names[of]);
        o->lasts = dt_gauge("duetime_outage", "1 while requests to the server fail.", label);
        o->alarm = dt_gauge("duetime_outage_alarm",
                            "1 while an outage lasts that an operator must end, because retries cannot.", label);
        o->failures = dt_counter("duetime_outage_failures_total", "Requests to the server that failed.", label);
    }
    if (!is_part_of_outage(part, of)) {
        remove_part_from_outage(part, now_us);
        if (o->parts++ == 0)
            o->since_us = now_us;
        *part = (struct dt_outage_part){.of = of, .generation = o->generation};
        dt_metric_set(o->lasts, 1);
    }
    part->tries = ++o->tries;
    o->failed_us = now_us;
    o->well_us = 0;
    dt_metric_add(o->failures, 1);
    const bool due = !o->ever_told || now_us - o->told_us >= (o->told ? DT_OUTAGE_MINUTE_US : DT_OUTAGE_PAUSE_US);
    if (due || (alarm && !o->alarmed)) { /* logs at once if an operator must act from now on */
        const char *begins = o->told ? "false" : "true";
        o->told = o->ever_told = true;
        o->alarmed = o->alarmed || alarm;
        o->told_us = now_us;
        dt_metric_set(o->alarm, o->alarmed);
        const struct dt_field fields[] = {DT_S("outage", names[of]), DT_S("begins", begins),
                                          DT_I("tries", o->tries),   DT_I("seconds", duration_s(o, now_us)),
                                          DT_I("parts", o->parts),   DT_S("status", dt_status_name(status)),
                                          DT_S("reason", reason),    {0}};
        if (dt_log_enabled(level))
            dt_log_write(level, component, what, fields);
    }
    pthread_mutex_unlock(&lock);
    DT_LOG(DEBUG, component, what, DT_S("outage", names[of]), DT_S("status", dt_status_name(status)),
           DT_S("reason", reason));
}

void dt_outage_over_at(int64_t now_us, struct dt_outage_part *part)
{
    if (part->of == DT_OUTAGE_NONE)
        return;
    pthread_mutex_lock(&lock);
    struct outage *o = &outages[part->of];
    const bool last = is_part_of_outage(part, part->of) && part->tries == o->tries;
    if (last && !o->well_us)
        o->well_us = now_us;
    if (!is_part_of_outage(part, part->of) || !o->alarmed)
        remove_part_from_outage(part, now_us);
    pthread_mutex_unlock(&lock);
}

void dt_outage_look(int64_t now_us)
{
    pthread_mutex_lock(&lock);
    for (enum dt_outage_of of = DT_OUTAGE_NONE + 1; of < DT_OUTAGES; of++) {
        struct outage *o = &outages[of];
        bool well = o->well_us && !o->alarmed && now_us - o->well_us >= DT_OUTAGE_WELL_US;
        if (o->parts == 0 || (!well && now_us - o->failed_us < DT_OUTAGE_QUIET_US))
            continue;
        o->generation++;
        end_outage(of, well ? o->well_us : o->failed_us, now_us);
    }
    pthread_mutex_unlock(&lock);
}

bool dt_outage_lasts(enum dt_outage_of of)
{
    pthread_mutex_lock(&lock);
    bool lasts = outages[of].parts > 0;
    pthread_mutex_unlock(&lock);
    return lasts;
}

void dt_outage_forget(void)
{
    pthread_mutex_lock(&lock);
    for (enum dt_outage_of of = DT_OUTAGE_NONE + 1; of < DT_OUTAGES; of++) {
        struct outage *o = &outages[of];
        *o = (struct outage){
            .generation = o->generation + 1, .lasts = o->lasts, .alarm = o->alarm, .failures = o->failures};
    }
    pthread_mutex_unlock(&lock);
}

void dt_outage_failed(struct dt_outage_part *part, enum dt_outage_of of, const char *component, const char *what,
                      dt_status status, const struct dt_error *err)
{
    dt_outage_failed_at(dt_clock_mono_us(dt_clock_system()), part, of, component, what, status, err);
}

void dt_outage_over(struct dt_outage_part *part)
{
    if (part->of != DT_OUTAGE_NONE)
        dt_outage_over_at(dt_clock_mono_us(dt_clock_system()), part);
}
