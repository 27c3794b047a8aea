/*
 * The watermark (first part: up to when results have been read), and the reader of results (second part).
 *
 *   mark (where do the partitions end now, at T?) ─▶ has the group committed its offsets up to there? ─▶ read up to T
 *
 * Offsets are committed after MySQL has committed the results, including results of locked rows, which are stored for
 * later. So every message below a committed offset has had its effect, whichever process read it. T is a lower bound of
 * MySQL's clock, taken before Kafka is asked: messages that were in the topic when MySQL's clock said T are below the
 * ends that Kafka returns. Other clocks do not matter.
 *
 * If the group has not committed that far, the mark is kept, and compared again later. While leaders wait without a
 * break, no deadline is delayed by more than GIVE_UP_MS: after that, the reader is too late, or Kafka does not answer.
 * This period restarts if no leader renewed its request for a while (because neither leaders nor reader reached MySQL,
 * for example). For attempts that Kafka delivered, it also restarts when Kafka answers after a failure, because the
 * reader could not read before.
 *
 * Invariant: kafka_up_to_ms <= other_up_to_ms.
 */
#include "kafka_parts.h"

#include <stdatomic.h>

#include "base/assert.h"
#include "base/fail_point.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/outage.h"
#include "base/text/json.h"
#include "base/thread.h"
#include "job/results/results.h"
#include "shard/shard_loop.h"
#include "store/store.h"

#define GIVE_UP_MS INT64_C(30000)
#define SILENCE_US INT64_C(3000000) /* if no leader has repeated its request for this time, no leader waits */
/* First pause between two checks of a mark (T above), in us; doubled up to PAUSE_MOST. */
#define PAUSE_FIRST INT64_C(5000)
#define PAUSE_MOST  INT64_C(50000)
#define RETRY_US    INT64_C(200000) /* pause after Kafka did not answer */
#define SHARD_WORDS (DT_SHARDS_MAX / 32)

struct dt_results_watermark {
    const struct dt_process_env *env;
    struct dt_chore chore;
    dt_result_lag *lag;
    _Atomic int64_t kafka_up_to_ms, other_up_to_ms, wanted_ms;
    _Atomic int64_t asked_us; /* mono: when a leader last called dt_results_watermark_want */
    _Atomic uint32_t waiting[SHARD_WORDS];

    /* used only by the tick */
    bool serves; /* a leader waits for the watermarks */
    /* mono: begin of the period that raise_watermark_without_reader limits: when leaders began to wait, or when the
     * last mark that the reader has reached was taken (T above). Later by the time for which the process was
     * stopped. */
    int64_t since_us;
    int64_t answers_us; /* mono: since when Kafka has answered every request; INT64_MAX: the last request failed */
    int64_t mark_ms;    /* MySQL's time, or slightly less, when the current mark was taken (T above); 0: no mark */
    int64_t mark_us;    /* mono: when the current mark was taken */
    int64_t pause_us;
    int64_t looked_us; /* mono: when raise_watermark_without_reader last ran */
    bool told;         /* the long wait was logged */
};

static void raise_to(_Atomic int64_t *to, int64_t value)
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
    raise_to(&w->wanted_ms, deadline_ms);
    w->asked_us = dt_clock_mono_us(w->env->clock);
    atomic_fetch_or(&w->waiting[shard / 32], UINT32_C(1) << (shard % 32));
    dt_chore_wake(&w->chore);
}

/* ---- one look ---- */

/* Takes a mark (T above) if there is none, and compares it with the committed offsets. If the group has not committed
 * that far, returns OK, and the mark is kept. */
static dt_status compare_mark_with_offsets(dt_results_watermark *w, struct dt_error *err)
{
    bool passed = false;
    dt_status status = DT_OK;
    /* Both clocks are read before Kafka's ends, so that all messages up to this time are below the ends. */
    if (!w->mark_ms) {
        int64_t us = dt_clock_mono_us(w->env->clock);
        int64_t ms = dt_refclock_earliest_ms(w->env->ref);
        status = dt_result_lag_mark(w->lag, err);
        w->mark_ms = status == DT_OK ? ms : 0;
        w->mark_us = us;
    }
    DT_THEN(status, dt_result_lag_passed(w->lag, &passed, err));
    if (status == DT_OK && passed) {
        raise_to(&w->other_up_to_ms, w->mark_ms);
        raise_to(&w->kafka_up_to_ms, w->mark_ms);
        dt_assert_cmp(w->kafka_up_to_ms, <=, w->other_up_to_ms);
        w->since_us = dt_later(w->since_us, w->mark_us);
        w->mark_ms = 0;
        w->pause_us = PAUSE_FIRST;
        w->told = false;
    }
    if (status == DT_UNAVAILABLE)
        w->answers_us = INT64_MAX;
    else if (w->answers_us == INT64_MAX)
        w->answers_us = dt_clock_mono_us(w->env->clock);
    return status;
}

/* Stops waiting for the reader if leaders have waited for GIVE_UP_MS: raises the watermarks without it. */
static void raise_watermark_without_reader(dt_results_watermark *w)
{
    const int64_t missed_us = dt_clock_missed_us(&w->looked_us, dt_clock_mono_us(w->env->clock), SILENCE_US);
    w->since_us += missed_us;
    w->answers_us += w->answers_us == INT64_MAX ? 0 : missed_us;
    const int64_t enough_us = dt_clock_mono_us(w->env->clock) - GIVE_UP_MS * 1000;
    const int64_t up_to_ms = dt_refclock_earliest_ms(w->env->ref) - GIVE_UP_MS;
    if (w->since_us > enough_us)
        return;
    if (!w->told)
        DT_LOG(WARN, "results",
               "attempts time out although results may be unread: the reader lags, or Kafka does not answer");
    w->told = true;
    raise_to(&w->other_up_to_ms, up_to_ms);
    if (w->answers_us <= enough_us)
        raise_to(&w->kafka_up_to_ms, up_to_ms);
    dt_assert_cmp(w->kafka_up_to_ms, <=, w->other_up_to_ms);
}

static int64_t tick_watermark(void *arg, void *)
{
    dt_results_watermark *w = arg;
    struct dt_error err = {0};
    const bool begins = !w->serves;
    w->serves = w->wanted_ms > w->kafka_up_to_ms && dt_clock_mono_us(w->env->clock) - w->asked_us < SILENCE_US;
    if (!w->serves)
        return INT64_MAX;
    if (begins) {
        w->since_us = w->answers_us = w->looked_us = dt_clock_mono_us(w->env->clock);
        w->mark_ms = 0;
        w->pause_us = PAUSE_FIRST;
        w->told = false;
    }
    const int64_t was_ms = w->other_up_to_ms + w->kafka_up_to_ms;
    const dt_status status = compare_mark_with_offsets(w, &err);
    if (status != DT_OK)
        DT_LOG(DEBUG, "results", "Kafka does not say how far results have been read", DT_S("reason", err.text));
    raise_watermark_without_reader(w);
    if (w->other_up_to_ms + w->kafka_up_to_ms > was_ms) {
        for (unsigned i = 0; i < SHARD_WORDS; i++) {
            uint32_t bits = atomic_exchange(&w->waiting[i], 0);
            for (unsigned k = 0; bits; k++, bits >>= 1)
                if (bits & 1)
                    w->env->tell(w->env->arg, i * 32 + k, DT_LOOP_DUE);
        }
        return 0;
    }
    const int64_t pause_us = status == DT_OK ? w->pause_us : RETRY_US;
    w->pause_us = dt_earlier(w->pause_us * 2, PAUSE_MOST);
    return w->chore.not_before_us = dt_clock_mono_us(w->env->clock) + pause_us;
}

dt_status dt_results_watermark_start(const struct dt_process_env *env, dt_results_watermark **out, struct dt_error *err)
{
    dt_results_watermark *w = calloc(1, sizeof(*w));
    if (!w)
        return DT_NOMEM;
    w->env = env;
    w->asked_us = INT64_MIN / 2;
    const dt_status status = dt_result_lag_new(env->kafka, &w->lag, err);
    if (status != DT_OK) {
        dt_results_watermark_stop(w);
        return status;
    }
    /* Although its ticks wait for Kafka, this chore does not set `waits` (base/chores.h): timeouts of attempts depend
     * on it, so it must get a thread even if chores with `waits` use all threads that they may use. */
    w->chore = (struct dt_chore){.name = "watermark", .tick = tick_watermark, .arg = w};
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

/*
 * ---- the reader ----
 *
 * poll ─▶ decode ─▶ apply (MySQL, one transaction) ─▶ tell the index ─▶ commit offsets
 *
 * If the process is killed, the batch is read again, because offsets are committed last. Applying is idempotent on
 * (job, attempt), so a repeated result is a `duplicate` or `stale`. While MySQL is down the batch waits; it is never
 * skipped.
 *
 * A job whose row another session keeps locked must not delay other jobs of its partition. The transaction stores the
 * results of such jobs in MySQL, however many they are. The reader retries these results, a page at a time, until their
 * rows are unlocked. So no result waits in memory, and offsets are committed only for results in MySQL.
 */

#define LINGER_MS      10
#define PAUSE_FIRST_US INT64_C(50000)
#define PAUSE_MAX_US   INT64_C(2000000)
#define REJECT_MS      10000
#define REASON_MAX     300
#define LOCK_MS        1000 /* longest wait for a job's row; then its results are stored for later */
/* Longest wait for records; after it, the thread checks whether its share of the partitions has changed. */
#define WAIT_MS       1000
#define DEFERRED_US   INT64_C(100000)   /* pause between two tries of stored results whose rows are still locked */
#define DEFERRED_COST 10                /* retries get one part in this many of the thread's time */
#define ASK_US        INT64_C(30000000) /* stored results are looked for at least this often */
#define DEFERRED_MAX  1000000           /* if this many results are stored, no more records are read */
#define REJECTED_MAX  500000 /* maximal bytes of a rejected key, or value: both fit into Kafka's default limit */

struct rejected {
    const struct dt_kafka_record *record;
    struct dt_str reason;
};

struct dt_results {
    const struct dt_process_env *env;
    dt_notice_producer *notices;
    struct dt_thread thread;
    dt_mailbox *mailbox;       /* used only for interruptible sleeps */
    dt_kafka_reader *consumer; /* NULL: there is no Kafka, or it was not reached yet */
    dt_store *store;
    dt_index *index;
    dt_json *json;
    struct dt_config config; /* the process's configuration, with a shorter timeout for locks */
    struct dt_arena arena;
    struct dt_apply *batch; /* capacity: kafka's largest batch of results */
    size_t n;
    struct deferred {
        bool some;        /* results may be stored in MySQL, perhaps by the process that read the partitions before */
        int64_t after_id; /* job id up to which the running walk over stored results has read */
        size_t met;       /* number of results that the running walk skipped because their job's row was locked */
        /* About how many results are stored: those that the last walk skipped, and those stored since that walk. */
        size_t stored;
        int64_t next_us; /* mono: when the walk over stored results continues */
    } deferred;
    unsigned rank, members; /* this process's share of the partitions, as last taken */
    struct rejected *rejected;
    size_t n_rejected;
    struct dt_outage_part outage;
    dt_metric *outcomes[DT_OUTCOME_BUSY + 1], *refused, *waiting, *batch_size, *seconds;
};

/* ---- decode ---- */

static dt_status reject_record(dt_results *r, const struct dt_kafka_record *record, struct dt_str reason)
{
    dt_assert_cmp(r->n + r->n_rejected, <, r->env->config->results_batch);
    struct rejected *rejected = &r->rejected[r->n_rejected++];
    *rejected = (struct rejected){record, dt_arena_copy(&r->arena, reason)};
    dt_metric_add(r->refused, 1);
    return rejected->reason.p ? DT_OK : DT_NOMEM;
}

static dt_status decode_record(dt_results *r, const struct dt_kafka_record *record)
{
    struct dt_json_limits limits = {.depth = (unsigned)r->env->config->limits_json_depth};
    struct dt_error err = {0};
    struct dt_result result = {.job_id = -1};
    struct dt_faults faults = {.arena = &r->arena};
    if (!record->value.p)
        return reject_record(r, record, DT_STR_LIT("no value"));
    dt_status status = dt_json_parse(r->json, record->value, &limits, &err);
    if (status == DT_NOMEM)
        return status;
    if (status != DT_OK)
        return reject_record(r, record, dt_str(err.text));
    status = dt_result_decode(r->json, dt_json_root(r->json), NULL, &faults, &result);
    if (status == DT_INVALID) { /* builds the reason, "pointer reason; …", from the faults */
        struct dt_strbuf text = {0};
        for (size_t i = 0; i < faults.n && i < DT_FAULTS_MAX && text.n < REASON_MAX; i++)
            dt_strbuf_addf(&text, "%s%s %s", i ? "; " : "", faults.v[i].pointer.p, faults.v[i].reason.p);
        status = text.failed ? DT_NOMEM : reject_record(r, record, dt_strbuf_str(&text));
        dt_strbuf_clear(&text);
        return status;
    }
    dt_assert_cmp(r->n + r->n_rejected, <, r->env->config->results_batch);
    if (status == DT_OK)
        r->batch[r->n++] = (struct dt_apply){.result = result};
    return status;
}

/* ---- what follows from applied results ---- */

/* Counts the outcomes for metrics. Returns how many results wait for a locked row. */
static size_t count_outcomes(dt_results *r, const struct dt_apply *v, size_t n)
{
    size_t busy = 0;
    for (size_t i = 0; i < n; i++) {
        dt_metric_add(r->outcomes[v[i].outcome], 1);
        busy += v[i].outcome == DT_OUTCOME_BUSY;
    }
    return busy;
}

static void update_index(dt_results *r, const struct dt_shard_map *map, const struct dt_apply *v, size_t n_results)
{
    size_t n = 0;
    struct dt_entry *entries = dt_arena_alloc(&r->arena, (DT_WAS_MAX * n_results + 1) * sizeof(*entries));
    for (size_t i = 0; entries && i < n_results; i++)
        n += dt_process_entries_of(r->env, map, &v[i], &entries[n]);
    dt_process_tell_index(r->env, r->index, map, entries, entries ? n : n_results, true);
}

static dt_status publish_rejected_results(dt_results *r, struct dt_error *err)
{
    if (r->n_rejected == 0)
        return DT_OK;
    char topic[150];
    snprintf(topic, sizeof(topic), "%s.results.rejected", r->env->kafka->installation);
    struct dt_kafka_message *messages = dt_arena_alloc(&r->arena, r->n_rejected * sizeof(*messages));
    struct dt_kafka_header *headers = dt_arena_alloc(&r->arena, r->n_rejected * sizeof(*headers));
    bool *sent = dt_arena_alloc(&r->arena, r->n_rejected * sizeof(*sent));
    if (!messages || !headers || !sent)
        return DT_NOMEM;
    for (size_t i = 0; i < r->n_rejected; i++) {
        headers[i] = (struct dt_kafka_header){DT_STR_LIT("reason"), r->rejected[i].reason};
        struct dt_str value = r->rejected[i].record->value;
        struct dt_str key = r->rejected[i].record->key;
        /* If a very large message was moved with its reason added, Kafka would refuse it, and the results after it
         * would wait. So long keys and values are cut. */
        value.n = value.n < REJECTED_MAX ? value.n : REJECTED_MAX;
        key.n = key.n < REJECTED_MAX ? key.n : REJECTED_MAX;
        messages[i] = (struct dt_kafka_message){
            .topic = dt_str(topic), .key = key, .value = value, .headers = &headers[i], .n_headers = 1};
    }
    dt_status status = dt_notice_producer_send(r->notices, messages, r->n_rejected, sent, REJECT_MS, err);
    if (status != DT_REFUSED)
        return status;
    /* If Kafka permanently refuses a rejected record, the record is only logged: it is still in the topic from which it
     * was read, and waiting would delay all results. */
    for (size_t i = 0; i < r->n_rejected; i++) {
        const struct dt_kafka_record *record = r->rejected[i].record;
        if (!sent[i])
            DT_LOG_PER_TOPIC(ERROR, "results",
                             "an invalid result was dropped, because Kafka refuses to store it in the rejected topic",
                             dt_str(topic), DT_I("partition", record->partition), DT_I("offset", record->offset),
                             DT_S("error", err->text));
    }
    return DT_OK;
}

/* ---- results of locked jobs ---- */

/* Applies one page of the stored results. If some of them could be applied, the next page follows at once. */
static dt_status apply_deferred(dt_results *r, struct dt_error *err)
{
    struct deferred *d = &r->deferred;
    struct dt_shard_map map;
    struct dt_deferred_page page = {.limit = (size_t)r->env->config->results_batch, .after_id = d->after_id};
    int64_t start_us = dt_clock_mono_us(r->env->clock);
    dt_arena_reset(&r->arena);
    r->env->map(r->env->arg, &map);
    dt_status status = dt_store_apply_deferred(r->store, &map, &r->arena, &page, err);
    if (status != DT_OK)
        return status;
    size_t busy = count_outcomes(r, page.v, page.n);
    d->after_id = page.after_id;
    update_index(r, &map, page.v, page.n);
    d->met += busy;
    if (page.n < page.limit) { /* the walk has reached the end; another walk begins if this walk skipped results */
        d->some = d->met > 0;
        d->stored = d->met;
        d->met = 0;
        d->after_id = 0;
        dt_metric_set(r->waiting, (double)d->stored);
    }
    int64_t now_us = dt_clock_mono_us(r->env->clock);
    int64_t took_us = now_us - start_us;
    int64_t pause_us = took_us * DEFERRED_COST > DEFERRED_US ? took_us * DEFERRED_COST : DEFERRED_US;
    d->next_us = busy < page.n ? now_us : now_us + (d->some ? pause_us : ASK_US);
    return DT_OK;
}

static dt_status apply_records(dt_results *r, const struct dt_kafka_record *records, size_t n, struct dt_error *err)
{
    struct deferred *d = &r->deferred;
    struct dt_shard_map map;
    int64_t start_us = dt_clock_mono_us(r->env->clock);
    r->env->map(r->env->arg, &map);
    dt_status status = DT_OK;
    r->n = r->n_rejected = 0;
    dt_arena_reset(&r->arena);
    for (size_t i = 0; status == DT_OK && i < n; i++)
        status = decode_record(r, &records[i]);
    if (status == DT_OK && r->n)
        status = dt_store_apply_or_defer(r->store, &map, r->batch, r->n, r->deferred.some, err);
    DT_THEN(status, publish_rejected_results(r, err));
    if (status != DT_OK)
        return status;
    size_t busy = count_outcomes(r, r->batch, r->n);
    dt_room_news(r->env->room);
    dt_metric_observe(r->batch_size, (double)r->n);
    update_index(r, &map, r->batch, r->n);
    dt_metric_observe(r->seconds, (double)(dt_clock_mono_us(r->env->clock) - start_us) / 1e6);
    if (busy == 0)
        return DT_OK;
    int64_t soon_us = dt_clock_mono_us(r->env->clock) + DEFERRED_US;
    if (!d->some)
        DT_LOG(WARN, "results", "results wait for jobs that another session keeps locked", DT_I("results", busy));
    d->stored += busy;
    d->some = true;
    if (d->next_us > soon_us) /* while no results were stored, the next walk was planned for much later */
        d->next_us = soon_us;
    return DT_OK;
}

static dt_status open_consumer(dt_results *r, struct dt_error *err)
{
    struct dt_kafka_reading reading = DT_KAFKA_READS_RESULTS;
    reading.stop = &r->thread.stopping;
    dt_status status = r->env->kafka->topics_ready ? DT_OK : dt_kafka_admin_prepare(r->env->kafka->admin, err);
    return DT_THEN(status, dt_kafka_reader_new(r->env->kafka, &reading, &r->consumer, err));
}

/* Continues the walk over stored results if it is due, then reads a batch of records. Without Kafka, sleeps until the
 * walk is due. */
static dt_status serve_results(dt_results *r, struct dt_error *err)
{
    const struct dt_kafka_record *records;
    size_t n = 0;
    unsigned rank;
    unsigned members;
    const bool opens = !r->consumer && dt_config_has_kafka(r->env->kafka->config);
    dt_status status = opens ? open_consumer(r, err) : DT_OK;
    if (status != DT_OK)
        return status;
    /* Before the process has seen an election, it has no share of the partitions, and reads nothing. */
    if (r->env->place(r->env->arg, &rank, &members)) {
        /* A process that read these partitions before may have stored results in MySQL. New results of the same jobs
         * must not be applied before the stored ones. */
        if (rank != r->rank || members != r->members) {
            r->deferred.some = true;
            r->deferred.next_us = 0;
        }
        r->rank = rank;
        r->members = members;
        status = r->consumer ? dt_kafka_reader_share(r->consumer, rank, members, err) : DT_OK;
    }
    if (status == DT_OK && dt_clock_mono_us(r->env->clock) >= r->deferred.next_us)
        status = apply_deferred(r, err);
    if (status != DT_OK)
        return status;
    if (!r->consumer) {
        dt_mailbox_pause(r->mailbox, r->deferred.next_us, DT_THREAD_STOP);
        return DT_OK;
    }
    if (r->deferred.stored > DEFERRED_MAX)
        return dt_fail(err, DT_BUSY, "too many results wait for jobs that are locked");
    /* Waits for records, but not beyond the time when the walk over stored results is due. */
    int64_t left_us = dt_later(r->deferred.next_us - dt_clock_mono_us(r->env->clock), 0);
    int wait_ms = left_us == 0 ? 0 : (int)dt_earlier(left_us / 1000 + 1, WAIT_MS);
    status = dt_kafka_reader_poll(r->consumer, (size_t)r->env->config->results_batch, wait_ms, LINGER_MS,
                                  &r->thread.stopping, &records, &n, err);
    if (status != DT_OK || n == 0)
        return status;
    DT_FAIL_POINT("results.read");
    status = apply_records(r, records, n, err);
    DT_FAIL_POINT_STATUS("results.applied", status, err);
    if (status != DT_OK) {
        dt_kafka_reader_rewind(r->consumer);
        return status;
    }
    return dt_kafka_reader_commit(r->consumer, err);
}

static void run_results(void *arg)
{
    dt_results *r = arg;
    unsigned failures = 0;
    while (!dt_thread_stopping(&r->thread)) {
        struct dt_error err = {0};
        dt_status status = serve_results(r, &err);
        if (status == DT_OK) {
            dt_outage_over(&r->outage);
            failures = 0;
            continue;
        }
        if (!dt_thread_stopping(&r->thread))
            dt_outage_failed(&r->outage, dt_store_lost(r->store) ? DT_OUTAGE_MYSQL : DT_OUTAGE_KAFKA, "results",
                             "results wait", status, &err);
        const int64_t pause_us = dt_earlier(PAUSE_FIRST_US << (failures < 6 ? failures : 6), PAUSE_MAX_US);
        failures++;
        dt_mailbox_pause(r->mailbox, dt_clock_mono_us(r->env->clock) + pause_us, DT_THREAD_STOP);
    }
    dt_kafka_reader_free(r->consumer);
}

dt_status dt_results_start(const struct dt_process_env *env, dt_notice_producer *notices, dt_results **out,
                           struct dt_error *err)
{
    dt_results *r = calloc(1, sizeof(*r));
    if (!r)
        return DT_NOMEM;
    r->env = env;
    r->notices = notices;
    r->config = *env->config;
    r->config.mysql_lock_timeout = dt_earlier(r->config.mysql_lock_timeout, LOCK_MS);
    const char *name = "duetime_results_total";
    const char *help = "Results read from Kafka, by outcome.";
    r->outcomes[DT_OUTCOME_APPLIED] = dt_counter(name, help, "outcome=\"applied\"");
    r->outcomes[DT_OUTCOME_DUPLICATE] = dt_counter(name, help, "outcome=\"duplicate\"");
    r->outcomes[DT_OUTCOME_STALE] = dt_counter(name, help, "outcome=\"stale\"");
    r->outcomes[DT_OUTCOME_UNKNOWN_JOB] = dt_counter(name, help, "outcome=\"unknown_job\"");
    r->outcomes[DT_OUTCOME_BUSY] = dt_counter(name, help, "outcome=\"busy\"");
    r->refused = dt_counter(name, help, "outcome=\"rejected\"");
    r->waiting = dt_gauge("duetime_results_deferred", "Results that wait in MySQL for locked jobs.", "");
    r->batch_size = dt_histogram_count("duetime_results_batch", "Results applied in one transaction.", "");
    r->seconds = dt_histogram("duetime_results_apply_seconds", "Duration of applying one batch of results.", "");
    r->batch = calloc((size_t)env->config->results_batch, sizeof(*r->batch));
    r->rejected = calloc((size_t)env->config->results_batch, sizeof(*r->rejected));
    dt_status status = r->batch && r->rejected ? dt_mailbox_new(&r->mailbox) : DT_NOMEM;
    DT_THEN(status, dt_store_new(&r->config, env->ref, &r->store));
    DT_THEN(status, dt_index_new(env->config, env->kafka->installation, env->clock, &r->index, err));
    DT_THEN(status, dt_json_new(&r->json));
    DT_THEN(status, dt_thread_start(&r->thread, "results", run_results, r, err));
    if (status == DT_OK)
        *out = r;
    else
        dt_results_stop(r);
    return status;
}

void dt_results_stop(dt_results *r)
{
    if (!r)
        return;
    dt_thread_stop(&r->thread, r->mailbox);
    dt_json_free(r->json);
    dt_index_free(r->index);
    dt_store_free(r->store);
    dt_mailbox_free(r->mailbox);
    dt_arena_clear(&r->arena);
    free(r->batch);
    free(r->rejected);
    free(r);
}
