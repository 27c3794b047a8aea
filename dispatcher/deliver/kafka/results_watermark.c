/*
 * mark (where do the partitions end now, at T?) ─▶ has the group committed its offsets up to there? ─▶ read up to T
 *
 * Offsets are committed after MySQL, and results of locked rows stand in MySQL by then, so what lies below a committed
 * offset has had its effect, whoever read it. T is a lower bound of MySQL's clock, taken before the question: what was
 * in the topic when MySQL's clock said T lies below the ends. Other clocks play no part.
 *
 * While the group is not that far the mark stays, and is compared again. While a leader waits without a break, no
 * deadline is waited for longer than WAIT_MS: then the reader is behind, or Kafka does not answer. For attempts that
 * Kafka delivered that time begins again when Kafka answers after a failure: while it is away the reader cannot catch
 * up. A leader that was silent for a while was not waiting (its MySQL was away, say, as the reader's was), and begins
 * again.
 *
 * Invariant: kafka_up_to_ms <= other_up_to_ms.
 */
#include "results_watermark.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "base/assert.h"
#include "base/log.h"
#include "job/shard.h"

#define WAIT_MS     INT64_C(30000)
#define SILENCE_US  INT64_C(3000000) /* leaders that wait say so once a second */
#define PAUSE_FIRST INT64_C(5000)    /* us between two looks, doubled up to: */
#define PAUSE_MOST  INT64_C(50000)
#define RETRY_US    INT64_C(200000) /* Kafka did not answer */
#define SHARD_WORDS (DT_SHARDS_MAX / 32)

struct dt_results_watermark {
    struct dt_results_watermark_env env;
    struct dt_chore chore;
    dt_result_lag *lag;
    _Atomic int64_t kafka_up_to_ms, other_up_to_ms, wanted_ms;
    _Atomic int64_t asked_us; /* mono: when a leader said last that it waits */
    _Atomic uint32_t waiting[SHARD_WORDS];

    /* the tick's */
    bool serves;        /* leaders wait */
    int64_t since_us;   /* mono, from where give_up counts: leaders began to wait, or the last mark was reached, then;
                           moved by the time in which no tick looked */
    int64_t answers_us; /* mono: Kafka has answered every question since then; INT64_MAX = not the last one */
    int64_t mark_ms;    /* of the mark that is compared; 0 = there is none */
    int64_t mark_us;    /* mono */
    int64_t pause_us;
    int64_t looked_us; /* mono */
    bool told;         /* that it waits long */
};

static void rise(_Atomic int64_t *to, int64_t value)
{
    int64_t was = *to;
    while (was < value && !atomic_compare_exchange_weak(to, &was, value))
        ;
}

/* ---- for leaders ---- */

struct dt_read_up_to dt_results_watermark_up_to(const dt_results_watermark *w)
{
    return (struct dt_read_up_to){.kafka_ms = w->kafka_up_to_ms, .other_ms = w->other_up_to_ms};
}

void dt_results_watermark_want(dt_results_watermark *w, unsigned shard, int64_t deadline_ms)
{
    dt_assert_cmp(shard, <, DT_SHARDS_MAX);
    rise(&w->wanted_ms, deadline_ms);
    w->asked_us = dt_clock_mono_us(w->env.clock);
    atomic_fetch_or(&w->waiting[shard / 32], UINT32_C(1) << (shard % 32));
    dt_chore_wake(&w->chore);
}

/* ---- one look ---- */

static void has_read(dt_results_watermark *w)
{
    rise(&w->other_up_to_ms, w->mark_ms);
    rise(&w->kafka_up_to_ms, w->mark_ms);
    dt_assert_cmp(w->kafka_up_to_ms, <=, w->other_up_to_ms);
    w->since_us = w->since_us > w->mark_us ? w->since_us : w->mark_us;
    w->mark_ms = 0;
    w->pause_us = PAUSE_FIRST;
    w->told = false;
}

/* OK also when the reader is not that far. */
static dt_status look(dt_results_watermark *w, struct dt_error *err)
{
    bool passed = false;
    dt_status status = DT_OK;
    if (!w->mark_ms) { /* the clocks are read before the question */
        int64_t us = dt_clock_mono_us(w->env.clock);
        int64_t ms = dt_refclock_earliest_ms(w->env.ref);
        status = dt_result_lag_mark(w->lag, err);
        w->mark_ms = status == DT_OK ? ms : 0;
        w->mark_us = us;
    }
    if (status == DT_OK)
        status = dt_result_lag_passed(w->lag, &passed, err);
    if (status == DT_OK && passed)
        has_read(w);
    if (status == DT_UNAVAILABLE)
        w->answers_us = INT64_MAX;
    else if (w->answers_us == INT64_MAX)
        w->answers_us = dt_clock_mono_us(w->env.clock);
    return status;
}

/* Deadlines that leaders have waited for long enough. */
static void give_up(dt_results_watermark *w)
{
    const int64_t missed_us = dt_clock_missed_us(&w->looked_us, dt_clock_mono_us(w->env.clock), SILENCE_US);
    w->since_us += missed_us;
    w->answers_us += w->answers_us == INT64_MAX ? 0 : missed_us;
    const int64_t enough_us = dt_clock_mono_us(w->env.clock) - WAIT_MS * 1000;
    const int64_t up_to_ms = dt_refclock_earliest_ms(w->env.ref) - WAIT_MS;
    if (w->since_us > enough_us)
        return;
    if (!w->told)
        DT_LOG(WARN, "results",
               "attempts time out though results may be unread: their reader is behind, or Kafka does not answer");
    w->told = true;
    rise(&w->other_up_to_ms, up_to_ms);
    if (w->answers_us <= enough_us)
        rise(&w->kafka_up_to_ms, up_to_ms);
    dt_assert_cmp(w->kafka_up_to_ms, <=, w->other_up_to_ms);
}

static int64_t tick(void *arg, void *store)
{
    dt_results_watermark *w = arg;
    struct dt_error err = {0};
    (void)store;
    const bool begins = !w->serves;
    w->serves = w->wanted_ms > w->kafka_up_to_ms && dt_clock_mono_us(w->env.clock) - w->asked_us < SILENCE_US;
    if (!w->serves)
        return INT64_MAX;
    if (begins) {
        w->since_us = w->answers_us = w->looked_us = dt_clock_mono_us(w->env.clock);
        w->mark_ms = 0;
        w->pause_us = PAUSE_FIRST;
        w->told = false;
    }
    const int64_t was_ms = w->other_up_to_ms + w->kafka_up_to_ms;
    const dt_status status = look(w, &err);
    if (status != DT_OK)
        DT_LOG(DEBUG, "results", "Kafka does not tell how far results are read", DT_S("reason", err.text));
    give_up(w);
    if (w->other_up_to_ms + w->kafka_up_to_ms > was_ms) {
        for (unsigned i = 0; i < SHARD_WORDS; i++) {
            uint32_t bits = atomic_exchange(&w->waiting[i], 0);
            for (unsigned k = 0; bits; k++, bits >>= 1)
                if (bits & 1)
                    w->env.wake(w->env.arg, i * 32 + k);
        }
        return 0;
    }
    const int64_t pause_us = status == DT_OK ? w->pause_us : RETRY_US;
    w->pause_us = dt_earlier(w->pause_us * 2, PAUSE_MOST);
    return w->chore.not_before_us = dt_clock_mono_us(w->env.clock) + pause_us;
}

/* ---- life ---- */

dt_status dt_results_watermark_start(const struct dt_results_watermark_env *env, dt_results_watermark **out,
                                     struct dt_error *err)
{
    dt_results_watermark *w = calloc(1, sizeof(*w));
    if (!w)
        return DT_NOMEM;
    w->env = *env;
    w->asked_us = INT64_MIN / 2;
    const dt_status status = dt_result_lag_new(env->kafka, &w->lag, err);
    if (status != DT_OK) {
        dt_results_watermark_stop(w);
        return status;
    }
    /* Ticks wait for Kafka, but timeouts wait for ticks: no other chore's wait for Kafka keeps them from a thread. */
    w->chore = (struct dt_chore){.name = "watermark", .tick = tick, .arg = w};
    dt_chores_add(env->chores, &w->chore);
    *out = w;
    return DT_OK;
}

void dt_results_watermark_stop(dt_results_watermark *w)
{
    if (!w)
        return;
    dt_chore_remove(&w->chore);
    dt_result_lag_free(w->lag);
    free(w);
}
