/*
 * Where this process starts to read a partition, by the offset in the partition's row of command_offsets:
 *
 *   the offset is within Kafka's range      at the offset. If Kafka still has the message before it, that message is
 *                                           read first, and must be the one that was carried out last
 *   it is below the first message           at the first message. The messages between were removed before they were
 *                                           read, which is logged and counted
 *   it is above the end, or the message     nowhere: the topic was created again, or has lost its end. It is unknown
 *   before it is a different one            which messages were carried out, so an operator decides where to continue
 *
 * After any other failure the reader gives up its partitions, and reads their offsets from MySQL again.
 */
#include "command_reader.h"

#include "base/assert.h"
#include "base/fail_point.h"
#include "base/guard.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/outage.h"
#include "base/text/json.h"
#include "base/thread.h"
#include "features/intents/commands.h"
#include "features/outbox/outbox.h"
#include "intake.h"
#include "kafka.h"

#define POLL_BYTES ((size_t)8 << 20)
/* Longest wait for messages; after it, the thread checks whether its share of the partitions has changed. */
#define WAIT_MS         1000
#define LINGER_MS       5
#define PAUSE_FIRST_US  INT64_C(50000)
#define PAUSE_MAX_US    INT64_C(2000000)
#define SOON_US         INT64_C(5000)     /* pause between two tries if all messages that were read have to wait */
#define SETTLED_US      INT64_C(200000)   /* longest time that a message waits for a job in an unsettled batch */
#define LOCKED_US       INT64_C(2000000)  /* longest time that a message waits for a row that another session locked */
#define LOOK_US         INT64_C(60000000) /* time between two comparisons of our offsets with those in MySQL */
#define HALTED_US       INT64_C(10000000) /* time between two checks of halted partitions */
#define LOCK_TIMEOUT_MS 1000

struct partition {
    bool check; /* the first message that arrives must be the message that was carried out last */
    bool halted;
    int64_t since_us; /* mono: since when the partition's first message waits; 0: it does not wait */
};

struct dt_command_reader {
    const struct dt_process_env *env;
    struct dt_config config; /* the process's configuration, with a shorter timeout for locks */
    struct dt_thread thread;
    dt_mailbox *mailbox; /* used only for interruptible sleeps */
    dt_kafka_reader *consumer;
    dt_index *index;
    dt_store *store;
    struct dt_command_taker taker;
    dt_outbox *sender; /* sender of the outbox for answers to commands */
    struct dt_outbox_kafka to_kafka;
    dt_notice_producer *notices;
    dt_kafka_asker *asker;
    pthread_mutex_t lock; /* protects `sender`, `answered` and `n_answered`, which other threads read */
    int64_t *answered;    /* partitions whose answers this process sends */
    size_t n_answered;
    struct dt_arena arena; /* memory for one poll */
    char rejected[150];
    struct dt_command_place *places; /* positions of the partitions that are read; ascending */
    struct partition *partitions;    /* parallel to `places`: partitions[i] belongs to places[i] */
    size_t n_places;
    size_t n_halted;
    int64_t look_us, halted_us;
    struct dt_command_message *messages;
    struct dt_outage_part outage;
    dt_metric *done, *refused, *lag, *halted, *lost, *batch_size, *seconds;
};

/* ---- the positions of partitions ---- */

/* Stores in the partition's row why the partition is halted, or, if reason is NULL, that it is not. A failure to store
 * does not matter, because only operators read the reason. */
static void store_halt_reason(dt_command_reader *r, struct dt_command_place *place, const char *reason)
{
    struct dt_error err = {0};
    place->halted = reason != NULL;
    if (dt_store_halt_commands(r->store, place, reason, &err) != DT_OK)
        DT_LOG(DEBUG, "commands", "the halt was not stored", DT_S("reason", err.text));
}

static void halt_partition(dt_command_reader *r, size_t i, const char *reason)
{
    dt_assert(i < r->n_places && !r->partitions[i].halted);
    r->partitions[i].halted = true;
    r->n_halted++;
    r->halted_us = dt_clock_mono_us(r->env->clock) + HALTED_US;
    dt_metric_set(r->halted, (double)r->n_halted);
    if (r->places[i].halted) /* an operator halted the partition */
        return;
    DT_LOG(ERROR, "commands", "a partition of the commands topic is not read: see command_offsets",
           DT_I("partition", r->places[i].partition), DT_I("next_offset", r->places[i].next), DT_S("reason", reason));
    store_halt_reason(r, &r->places[i], reason);
}

static void check_partition_position(dt_command_reader *r, size_t i, struct dt_kafka_start *start)
{
    struct dt_command_place *place = &r->places[i];
    start->next = -1;
    if (place->next > start->end) {
        halt_partition(
            r, i,
            "the topic ends before the next offset to read: the topic was created again, or lost its last messages");
    } else if (place->next < start->first) {
        start->next = start->first;
        if (place->last >= 0 || place->next > 0) { /* messages from before the installation do not count as lost */
            DT_LOG(WARN, "commands", "messages were removed from the topic before they were read",
                   DT_I("partition", place->partition), DT_I("from", place->next), DT_I("to", start->first));
            dt_metric_add(r->lost, start->first - place->next);
        }
    } else {
        r->partitions[i].check = place->last >= start->first;
        start->next = r->partitions[i].check ? place->last : place->next;
    }
    if (place->halted && start->next >= 0 && !r->partitions[i].check)
        store_halt_reason(r, place, NULL);
}

/* Determines the partitions whose answers this process sends: those that it reads. */
static dt_status set_answered_partitions(dt_command_reader *r, struct dt_error *err)
{
    int64_t *partitions = malloc((r->n_places + 1) * sizeof(*partitions));
    if (!partitions)
        return dt_fail(err, DT_NOMEM, "out of memory");
    for (size_t i = 0; i < r->n_places; i++)
        partitions[i] = r->places[i].partition;
    pthread_mutex_lock(&r->lock);
    free(r->answered);
    r->answered = partitions;
    r->n_answered = r->n_places;
    pthread_mutex_unlock(&r->lock);
    dt_outbox_wake(r->sender);
    return DT_OK;
}

static dt_status begin_partitions(void *arg, struct dt_kafka_start *v, size_t n, struct dt_error *err)
{
    dt_command_reader *r = arg;
    r->n_places = r->n_halted = 0;
    struct dt_command_place *places = realloc(r->places, (n + 1) * sizeof(*places));
    r->places = places ? places : r->places;
    struct partition *partitions = realloc(r->partitions, (n + 1) * sizeof(*partitions));
    r->partitions = partitions ? partitions : r->partitions;
    if (!places || !partitions)
        return dt_fail(err, DT_NOMEM, "out of memory");
    memset(partitions, 0, (n + 1) * sizeof(*partitions));
    for (size_t i = 0; i < n; i++)
        places[i] = (struct dt_command_place){.partition = v[i].partition};
    dt_status status = dt_store_command_places(r->store, places, n, err);
    if (status != DT_OK)
        return status;
    r->n_places = n;
    for (size_t i = 0; i < n; i++)
        check_partition_position(r, i, &v[i]);
    dt_metric_set(r->halted, (double)r->n_halted);
    return set_answered_partitions(r, err);
}

/* Compares the offsets at which this process continues with those in MySQL. This is needed because, if MySQL was
 * restored from an older copy, or an operator moved a partition, no message may arrive. DEPOSED: an offset differs, so
 * reading must start again. */
static dt_status compare_stored_offsets(dt_command_reader *r, struct dt_error *err)
{
    struct dt_command_place *now = dt_arena_alloc(&r->arena, (r->n_places + 1) * sizeof(*now));
    if (!now)
        return dt_fail(err, DT_NOMEM, "out of memory");
    for (size_t i = 0; i < r->n_places; i++)
        now[i] = (struct dt_command_place){.partition = r->places[i].partition};
    dt_status status = dt_store_command_places(r->store, now, r->n_places, err);
    for (size_t i = 0; i < r->n_places && status == DT_OK; i++)
        if (now[i].next != r->places[i].next)
            status = dt_fail(err, DT_DEPOSED, "MySQL has another offset for partition %d", now[i].partition);
    return status;
}

/* ---- carrying out ---- */

/* Returns whether one message of the batch may be the cause of the failure. If so, the caller carries out fewer
 * messages at a time, until the message at fault is alone. */
static bool may_message_be_at_fault(dt_status status)
{
    return status == DT_INTERNAL || status == DT_CORRUPT || status == DT_INVALID;
}

static dt_status carry_out_batch(dt_command_reader *r, struct dt_command_batch *b, size_t *most, struct dt_error *err)
{
    int64_t start_us = dt_clock_mono_us(r->env->clock);
    const struct dt_process_env *env = r->env;
    env->map(env->arg, &b->map);
    r->taker.rules = dt_store_job_rules(env->config, env->installation);
    dt_status status = dt_store_carry_out(&r->taker, b, false, err);
    if (may_message_be_at_fault(status) && b->n > 1) {
        *most = b->n / 2;
        b->n = 0;
        return DT_OK;
    }
    if (may_message_be_at_fault(status)) {
        DT_LOG(ERROR, "commands", "a message that cannot be carried out is refused", DT_I("offset", b->v[0].offset),
               DT_I("partition", b->v[0].place->partition), DT_S("reason", err->text));
        status = dt_store_carry_out(&r->taker, b, true, err);
    }
    if (status == DT_UNKNOWN && r->index) /* MySQL may have committed jobs that are not in the index */
        env->index_entries_lost(env->arg, r->index);
    dt_metric_observe(r->seconds, (double)(dt_clock_mono_us(r->env->clock) - start_us) / 1e6);
    if (status != DT_OK)
        return status;
    dt_metric_add(r->done, (int64_t)b->done);
    dt_metric_add(r->refused, (int64_t)b->refused);
    dt_metric_observe(r->batch_size, (double)(b->done + b->refused));
    dt_intake_tell_index(env, r->index, &r->arena, b->moves, b->n_moves);
    for (size_t i = 0; i < b->n_dead; i++)
        env->outbox(env->arg, dt_shard_of(&b->map, b->dead[i]));
    if (b->topics)
        env->announce(env->arg);
    if (b->answers.n)
        dt_outbox_wake(r->sender);
    return DT_OK;
}

static dt_status carry_out_messages(dt_command_reader *r, size_t n, struct dt_error *err)
{
    struct dt_command_message *v = r->messages;
    size_t most = n;
    dt_status status = DT_OK;
    while (n > 0 && status == DT_OK && !dt_thread_stopping(&r->thread)) {
        struct dt_command_batch b = {.v = v, .n = n < most ? n : most, .places = r->places, .n_places = r->n_places};
        int64_t now_us = dt_clock_mono_us(r->env->clock);
        /* Only the first message of a partition uses up SETTLED_US and LOCKED_US, because later messages are not tried
         * before the first is carried out. */
        for (size_t i = 0; i < r->n_places; i++)
            r->places[i].touched = false;
        for (size_t i = 0; i < n; i++) {
            struct partition *p = &r->partitions[v[i].place - r->places];
            bool first = !v[i].place->touched;
            v[i].place->touched = true;
            int64_t waited_us = first && p->since_us ? now_us - p->since_us : 0;
            v[i].patient = waited_us < SETTLED_US;
            v[i].last_try = waited_us > LOCKED_US;
        }
        status = carry_out_batch(r, &b, &most, err);
        if (status != DT_OK || b.n == 0)
            continue;
        dt_assert_cmp(b.n, <=, n);
        now_us = dt_clock_mono_us(r->env->clock);
        for (size_t i = 0; i < r->n_places; i++) {
            if (r->places[i].up_to)
                r->partitions[i].since_us = 0;
            if (r->places[i].stopped && !r->partitions[i].since_us)
                r->partitions[i].since_us = now_us;
        }
        size_t kept = 0; /* number of messages that must be tried again; their order does not change */
        for (size_t i = 0; i < n; i++)
            if (i >= b.n || v[i].outcome == DT_INTENT_WAITS)
                v[kept++] = v[i];
        n = kept;
        most = most < n ? 2 * most : most; /* `most` must not grow without bound while one message waits for long */
        status = dt_intent_topics_make(&r->taker.topics, r->store, dt_clock_mono_us(r->env->clock), err);
        if (status == DT_OK && b.done + b.refused == 0 && !b.again)
            dt_mailbox_pause(r->mailbox, dt_clock_mono_us(r->env->clock) + SOON_US, DT_THREAD_STOP);
    }
    return status;
}

/* Returns whether the message must be carried out. *place: the position of its partition. */
static bool must_carry_out(dt_command_reader *r, const struct dt_kafka_record *record, struct dt_command_place **place)
{
    size_t i = 0;
    while (i < r->n_places && r->places[i].partition != record->partition)
        i++;
    if (i == r->n_places)
        return false;
    struct dt_command_place *p = *place = &r->places[i];
    if (r->partitions[i].check) { /* checks that the first message is the message that was carried out last */
        unsigned char digest[16];
        r->partitions[i].check = false;
        dt_command_digest(record->key, record->value, record->timestamp_ms, digest);
        if (record->offset == p->last && memcmp(digest, p->digest, sizeof(digest)) != 0)
            halt_partition(r, i, "the message that was read last is not in the topic: the topic was created again");
        else if (p->halted)
            store_halt_reason(r, p, NULL);
    }
    return DT_GUARD(COMMAND_NEXT, record->offset >= p->next) && !r->partitions[i].halted;
}

static dt_status copy_new_messages(dt_command_reader *r, const struct dt_kafka_record *records, size_t n, size_t *taken,
                                   struct dt_error *err)
{
    *taken = 0;
    for (size_t i = 0; i < n; i++) {
        const struct dt_kafka_record *record = &records[i];
        struct dt_command_place *place;
        if (!must_carry_out(r, record, &place))
            continue;
        dt_assert_cmp(*taken, <, r->env->config->commands_batch);
        struct dt_command_message *m = &r->messages[(*taken)++];
        *m = (struct dt_command_message){.place = place,
                                         .offset = record->offset,
                                         .timestamp_ms = record->timestamp_ms,
                                         .key = record->key,
                                         .value = record->value};
        const struct dt_kafka_header *sent = NULL;
        struct dt_message_header *headers = NULL;
        dt_status status = dt_kafka_reader_headers(r->consumer, i, &r->arena, &sent, &m->n_headers);
        if (status == DT_OK && m->n_headers && !(headers = dt_arena_alloc(&r->arena, m->n_headers * sizeof(*headers))))
            status = DT_NOMEM;
        if (status != DT_OK)
            return dt_fail(err, DT_NOMEM, "out of memory");
        for (size_t k = 0; k < m->n_headers; k++) {
            headers[k] = (struct dt_message_header){sent[k].name, sent[k].value};
            if (dt_str_is(sent[k].name, "reply_to"))
                m->reply_to = sent[k].value;
        }
        m->headers = headers;
    }
    return DT_OK;
}

static dt_status poll_messages(dt_command_reader *r, struct dt_error *err)
{
    const struct dt_kafka_record *records;
    size_t n = 0;
    size_t taken = 0;
    dt_status status = dt_kafka_reader_poll(r->consumer, (size_t)r->env->config->commands_batch, WAIT_MS, LINGER_MS,
                                            &r->thread.stopping, &records, &n, err);
    dt_metric_set(r->lag, (double)dt_kafka_reader_lag(r->consumer));
    if (status != DT_OK || n == 0)
        return status;
    DT_FAIL_POINT("commands.read");
    size_t halted = r->n_halted;
    status = copy_new_messages(r, records, n, &taken, err);
    for (size_t i = 0; i < r->n_places && r->n_halted > halted; i++)
        if (r->partitions[i].halted)
            dt_kafka_reader_leave(r->consumer, r->places[i].partition);
    DT_THEN(status, carry_out_messages(r, taken, err));
    if (status != DT_OK || dt_thread_stopping(&r->thread))
        return status;
    return dt_kafka_reader_commit(r->consumer, err);
}

static dt_status serve_partitions(dt_command_reader *r, struct dt_error *err)
{
    unsigned rank;
    unsigned members;
    bool some = false;
    dt_arena_reset(&r->arena);
    dt_status status = DT_OK;
    if (!r->consumer) {
        const struct dt_kafka_reading reading = {.suffix = "commands",
                                                 .bytes = POLL_BYTES,
                                                 .begin = begin_partitions,
                                                 .arg = r,
                                                 .stop = &r->thread.stopping};
        status = dt_kafka_reader_new(r->env->kafka, &reading, &r->consumer, err);
    }
    if (status == DT_OK) /* before the first election is seen, `place` gives no share, so nothing is read */
        some = r->env->place(r->env->arg, &rank, &members);
    if (some && r->n_halted > 0 && dt_clock_mono_us(r->env->clock) >= r->halted_us)
        dt_kafka_reader_restart(r->consumer);
    if (some)
        status = dt_kafka_reader_share(r->consumer, rank, members, err);
    const bool looks = some && dt_clock_mono_us(r->env->clock) >= r->look_us;
    if (status == DT_OK && looks) {
        status = compare_stored_offsets(r, err);
        r->look_us = dt_clock_mono_us(r->env->clock) + LOOK_US;
    }
    if (status == DT_OK && some)
        return poll_messages(r, err);
    if (status == DT_OK)
        dt_mailbox_pause(r->mailbox, dt_clock_mono_us(r->env->clock) + PAUSE_FIRST_US, DT_THREAD_STOP);
    return status;
}

static void run_reader(void *arg)
{
    dt_command_reader *r = arg;
    unsigned failures = 0;
    while (!dt_thread_stopping(&r->thread)) {
        struct dt_error err = {0};
        dt_status status = serve_partitions(r, &err);
        if (status == DT_OK) {
            dt_outage_over(&r->outage);
            failures = 0;
            continue;
        }
        int64_t pause_us = PAUSE_FIRST_US << (failures < 6 ? failures : 6);
        failures++;
        if (r->consumer && (status == DT_DEPOSED || dt_kafka_reader_must_restart(r->consumer)))
            dt_kafka_reader_restart(r->consumer);
        if (dt_thread_stopping(&r->thread))
            break;
        if (status == DT_DEPOSED)
            DT_LOG(INFO, "commands", "the reader of commands restarts", DT_S("reason", err.text));
        else
            dt_outage_failed(&r->outage, dt_store_lost(r->store) ? DT_OUTAGE_MYSQL : DT_OUTAGE_KAFKA, "commands",
                             "commands are not carried out", status, &err);
        pause_us = dt_earlier(pause_us, PAUSE_MAX_US);
        dt_mailbox_pause(r->mailbox, dt_clock_mono_us(r->env->clock) + pause_us, DT_THREAD_STOP);
    }
    dt_kafka_reader_free(r->consumer);
}

/* ---- the sender of answers ---- */

static bool sends_answers_of_partition(void *arg, int64_t partition)
{
    dt_command_reader *r = arg;
    bool any = false;
    pthread_mutex_lock(&r->lock);
    for (size_t i = 0; i < r->n_answered && !any; i++)
        any = r->answered[i] == partition;
    pthread_mutex_unlock(&r->lock);
    return any;
}

static dt_status send_to_kafka(void *arg, const struct dt_kafka_message *messages, size_t n, bool *sent, int timeout_ms,
                               struct dt_error *err)
{
    return dt_notice_producer_send(((dt_command_reader *)arg)->notices, messages, n, sent, timeout_ms, err);
}

/* Asks whether an answer can be sent to the topic. A topic with too few in-sync replicas accepts no message. */
static dt_status check_answer_topic(void *arg, struct dt_str topic, int64_t owner, struct dt_error *err)
{
    struct dt_kafka_topic_info info;
    dt_status status = dt_kafka_asker_ask(((dt_command_reader *)arg)->asker, topic, owner, &info, err);
    return status == DT_OK && info.replicas && info.min_in_sync > info.replicas ? DT_BUSY : status;
}

static void on_topic_known(void *arg)
{
    dt_command_reader *r = arg;
    pthread_mutex_lock(&r->lock); /* dt_command_reader_stop may set r->sender to NULL at the same time */
    dt_outbox_wake(r->sender);
    pthread_mutex_unlock(&r->lock);
}

static dt_status start_sender(dt_command_reader *r, struct dt_error *err)
{
    const struct dt_process_env *env = r->env;
    const char *sent = "duetime_command_answers_total";
    const char *about = "Answers to commands and refused commands, by whether Kafka accepted them.";
    r->to_kafka = (struct dt_outbox_kafka){.arg = r, .send = send_to_kafka, .ask = check_answer_topic};
    const struct dt_outbox_env answers = {.kind = &dt_outbox_answers,
                                          .chores = env->chores,
                                          .config = env->config,
                                          .clock = env->clock,
                                          .installation = env->installation,
                                          .kafka = &r->to_kafka,
                                          .sent = dt_counter(sent, about, "outcome=\"sent\""),
                                          .dropped = dt_counter(sent, about, "outcome=\"dropped\""),
                                          .arg = r,
                                          .ours = sends_answers_of_partition};
    dt_status status = dt_notice_producer_new(env->kafka, &r->notices, err);
    DT_THEN(status, dt_kafka_asker_new(env->kafka->admin, on_topic_known, r, &r->asker));
    dt_outbox *sender = NULL;
    DT_THEN(status, dt_outbox_start(&answers, &sender));
    pthread_mutex_lock(&r->lock);
    r->sender = sender;
    pthread_mutex_unlock(&r->lock);
    return status;
}

/* ---- life ---- */

static dt_status init_command_taker(dt_command_reader *r)
{
    char actor[DT_ACTOR_MAX + 1];
    snprintf(actor, sizeof(actor), "commands:%.80s.commands", r->env->installation);
    dt_store_act_as(r->store, dt_str(actor));
    snprintf(r->rejected, sizeof(r->rejected), "%s.commands.rejected", r->env->installation);
    r->taker = (struct dt_command_taker){.store = r->store, .rejected = r->rejected};
    return dt_json_new(&r->taker.json);
}

dt_status dt_command_reader_start(const struct dt_process_env *env, dt_command_reader **out, struct dt_error *err)
{
    dt_command_reader *r = calloc(1, sizeof(*r));
    if (!r)
        return DT_NOMEM;
    r->env = env;
    r->config = *env->config;
    r->config.mysql_lock_timeout = dt_earlier(r->config.mysql_lock_timeout, LOCK_TIMEOUT_MS);
    pthread_mutex_init(&r->lock, NULL);
    const char *name = "duetime_commands_total";
    const char *help = "Messages of the commands topic, by outcome.";
    r->done = dt_counter(name, help, "outcome=\"done\"");
    r->refused = dt_counter(name, help, "outcome=\"refused\"");
    r->lag = dt_gauge("duetime_commands_lag",
                      "Messages of the commands topic that this process has not carried out yet.", "");
    r->halted = dt_gauge("duetime_commands_halted", "Partitions of the commands topic that wait for an operator.", "");
    r->lost = dt_counter("duetime_commands_lost_total", "Commands that Kafka removed before they were read.", "");
    r->batch_size = dt_histogram_count("duetime_commands_batch", "Messages carried out in one transaction.", "");
    r->seconds = dt_histogram("duetime_commands_seconds", "Duration of carrying out one batch of messages.", "");
    r->messages = calloc((size_t)env->config->commands_batch, sizeof(*r->messages));
    dt_status status = r->messages ? dt_mailbox_new(&r->mailbox) : DT_NOMEM;
    DT_THEN(status, dt_store_new(&r->config, env->ref, &r->store));
    DT_THEN(status, init_command_taker(r));
    DT_THEN(status, start_sender(r, err));
    DT_THEN(status, dt_index_new(env->config, env->installation, env->clock, &r->index, err));
    DT_THEN(status, dt_thread_start(&r->thread, "commands", run_reader, r, err));
    if (status == DT_OK)
        *out = r;
    else
        dt_command_reader_stop(r);
    return status;
}

void dt_command_reader_stop(dt_command_reader *r)
{
    if (!r)
        return;
    dt_thread_stop(&r->thread, r->mailbox);
    pthread_mutex_lock(&r->lock); /* the asker, freed after the sender, wakes r->sender under this lock */
    dt_outbox *sender = r->sender;
    r->sender = NULL;
    pthread_mutex_unlock(&r->lock);
    dt_outbox_stop(sender);
    dt_kafka_asker_free(r->asker);
    dt_notice_producer_free(r->notices);
    pthread_mutex_destroy(&r->lock);
    free(r->answered);
    dt_arena_clear(&r->taker.arena);
    dt_json_free(r->taker.json);
    dt_index_free(r->index);
    dt_store_free(r->store);
    dt_mailbox_free(r->mailbox);
    dt_arena_clear(&r->arena);
    free(r->places);
    free(r->partitions);
    free(r->messages);
    free(r);
}
