/*
 * Owns:            a shard's two transactional ids, each with its producer (a line), and the transactions of a line:
 *                  the messages of a batch and their ledger record; at the end, which line is used next.
 * Refuses to know: what the messages mean, and the outcome of a transaction in doubt (the ledger shows it).
 *
 * Invariants:
 *   - OK means: every delivery report is in and good, one EndTxn request was sent, no connection that carried a part of
 *     the transaction was closed before the commit was answered, the commit was answered with success, and the record's
 *     offset is known.
 *   - After any other status the handle sends nothing more: the caller must call free_line, and take over.
 *     free_line aborts the open transaction, unless its commit may have been requested.
 *   - librdkafka's threads use `watch`, and the members that choose_partition reads, which do not change while a
 *     transaction is open. Everything else belongs to the owner's thread, and after free_line to the thread
 *     that destroys the handle.
 */
#include "kafka.h"

#include "kafka_common.h"

#include "base/assert.h"
#include "base/fail_point.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/metrics.h"

enum {
    CAUSE_WAIT_US = 500000,
    /* After this time without delivery reports, the producer checks whether the transaction's topics still exist. */
    SILENCE_US = 1500000,
    LOOKS_MAX = 16,
    /* A transaction writes this many messages without a key to a partition, then uses another partition. */
    PARTITION_FILL = 100,
    ABORT_WAIT_MS = 500,
    METADATA_WAIT_MS = 1000,
    METADATA_TRIES = 3,
    MEET_WAIT_MS = 200, /* short: the loop's thread waits for the lookup, and no batch needs these topics yet */
};

struct topic {
    UT_hash_handle hh;
    rd_kafka_topic_t *rkt;
    size_t limit;     /* size limit of the topic's batches */
    size_t in_flight; /* bytes of messages that librdkafka has and whose delivery report is missing */
    uint32_t loose;   /* number of messages without a key in the open batch */
    size_t name_n;
    char name[];
};

/* The message to which a delivery report belongs. */
struct report {
    struct topic *topic; /* NULL: the ledger record */
    size_t bytes;
};

struct line {
    const struct dt_kafka_env *env;
    unsigned shard;
    rd_kafka_t *rk;
    rd_kafka_topic_t *ledger;
    struct topic *topics; /* hash table by name */
    int64_t transaction_timeout_us;
    dt_metric *too_soon;
    bool failed;
    bool uncommitted; /* a transaction is open, and its commit was not requested */
    bool fenced;      /* init_transactions is done */
    const _Atomic bool *stop;
    /* Number of the pair's transaction; determines the partition with which messages without a key begin. */
    uint32_t nth;
    struct dt_kafka_watch watch;

    /* State of the open transaction, written when delivery reports are served, on the owner's thread. */
    size_t outstanding;              /* number of messages that librdkafka has and whose delivery report is missing */
    rd_kafka_resp_err_t first_error; /* first error in a delivery report, that of the ledger record included */
    char first_topic[DT_KAFKA_TOPIC_MAX + 1];
    /* Why Kafka permanently refused a message; other messages of the transaction fail because of it. */
    rd_kafka_resp_err_t refusal;
    char refused[DT_KAFKA_TOPIC_MAX + 1];
    int64_t ledger_offset;
    struct topic **open_topics; /* topic of each message of the transaction */
    struct report *reports;     /* one for each message, then one for the ledger record */
    size_t n_open;
    int64_t deadline_us;
    int64_t look_us; /* mono: when to check whether the topics still exist */
};

/* ---- librdkafka's threads ---- */

static int on_socket_close(int fd, void *opaque)
{
    return dt_kafka_watch_close_socket(&((struct line *)opaque)->watch, fd);
}

static void on_log(const rd_kafka_t *rk, int level, const char *facility, const char *text)
{
    struct line *p = rk ? rd_kafka_opaque(rk) : NULL;
    if (p)
        dt_kafka_watch_log(&p->watch, facility, text);
    dt_kafka_on_log(rk, level, facility, text);
}

/* ---- delivery reports, served by rd_kafka_poll on the owner's thread ---- */

static void record_refusal(struct line *p, rd_kafka_resp_err_t code, const char *topic)
{
    if (p->refusal != RD_KAFKA_RESP_ERR_NO_ERROR)
        return;
    p->refusal = code;
    snprintf(p->refused, sizeof(p->refused), "%s", topic);
}

static void on_delivery_report(rd_kafka_t *, const rd_kafka_message_t *m, void *opaque)
{
    struct line *p = opaque;
    struct report *r = m->_private;
    if (p->failed || !r)
        return; /* the report belongs to a purged message, and no thread waits for it */
    dt_assert_cmp(p->outstanding, >, 0);
    p->outstanding--;
    if (r->topic) {
        dt_assert_cmp(r->topic->in_flight, >=, r->bytes);
        r->topic->in_flight -= r->bytes;
    }
    if (m->err == RD_KAFKA_RESP_ERR_NO_ERROR) {
        if (!r->topic)
            p->ledger_offset = m->offset;
        return;
    }
    if (p->first_error == RD_KAFKA_RESP_ERR_NO_ERROR) {
        p->first_error = m->err;
        snprintf(p->first_topic, sizeof(p->first_topic), "%s", m->rkt ? rd_kafka_topic_name(m->rkt) : "?");
    }
    if (r->topic && dt_kafka_refuses_message(m->err))
        record_refusal(p, m->err, r->topic->name);
}

static void on_error(rd_kafka_t *, int code, const char *reason, void *)
{
    DT_LOG(DEBUG, "kafka", reason, DT_S("error", rd_kafka_err2name((rd_kafka_resp_err_t)code)));
}

/* ---- partitions ---- */

/* Chooses the partition of a message without a key. Each partition of a transaction costs a request to join the
 * transaction and one to write. The broker handles these one after the other, so a small batch over four partitions
 * takes twice as long as over one. So messages without a key fill one partition after the other, and the next batch
 * begins with the next partition. (librdkafka would choose by time, without calling this function:
 * sticky.partitioning.linger.ms is 0.) */
static int32_t choose_partition(const rd_kafka_topic_t *rkt, const void *key, size_t key_n, int32_t partitions,
                                void *topic_opaque, void *message_opaque)
{
    const struct line *p = topic_opaque;
    const struct report *r = message_opaque;
    int32_t chosen = rd_kafka_msg_partitioner_murmur2_random(rkt, key, key_n, partitions, topic_opaque, message_opaque);
    if (!r || key)
        return chosen;
    const uint32_t spread = (r->topic->loose + PARTITION_FILL - 1) / PARTITION_FILL;
    if (spread >= (uint32_t)partitions)
        return chosen;
    return (int32_t)((p->nth + (uint32_t)chosen % spread) % (uint32_t)partitions);
}

/* Changes the status of a failure to DOUBT, unless it is REFUSED. After any failure the producer must not be used
 * again. */
static dt_status mark_failed_in_doubt(struct line *p, dt_status status, struct dt_error *err)
{
    if (status == DT_OK)
        return DT_OK;
    p->failed = true;
    if (status == DT_REFUSED)
        return status;
    if (err)
        err->status = DT_DOUBT; /* err->text still gives the reason */
    return DT_DOUBT;
}

/* ---- topics ---- */

static struct topic *find_topic(const struct line *p, struct dt_str name)
{
    struct topic *t = NULL;
    HASH_FIND(hh, p->topics, name.p, name.n, t);
    return t;
}

/* Adds a topic, unless the line has it already; a list of new topics may have duplicates. */
static dt_status add_topic(struct line *p, struct dt_str name, struct topic **out, struct dt_error *err)
{
    struct topic *t = *out = find_topic(p, name);
    if (t)
        return DT_OK;
    t = calloc(1, sizeof(*t) + name.n + 1);
    if (!t)
        return dt_fail(err, DT_NOMEM, "kafka producer: out of memory for a topic");
    memcpy(t->name, name.p, name.n);
    t->name_n = name.n;
    t->limit = DT_KAFKA_BATCH_BYTES;
    t->rkt = rd_kafka_topic_new(p->rk, t->name, NULL);
    if (t->rkt)
        HASH_ADD_KEYPTR(hh, p->topics, t->name, t->name_n, t);
    if (t->hh.tbl) {
        *out = t;
        return DT_OK;
    }
    dt_status status = t->rkt ? dt_fail(err, DT_NOMEM, "kafka producer: out of memory for a topic")
                              : dt_kafka_fail(err, rd_kafka_last_error(), t->name);
    if (t->rkt)
        rd_kafka_topic_destroy(t->rkt);
    free(t);
    return status;
}

/* Reads the topic's size limit. If the limit is below the size of our batches, the topic gets smaller batches. */
static void refresh_topic_limit(struct line *p, struct topic *t)
{
    struct dt_kafka_topic_info info;
    if (!p->env->admin || !dt_kafka_admin_known(p->env->admin, (struct dt_str){t->name, t->name_n}, &info))
        return;
    t->limit = info.max_message_bytes < DT_KAFKA_BATCH_BYTES ? (size_t)info.max_message_bytes : DT_KAFKA_BATCH_BYTES;
}

/* Records that the topic was refused: it is missing, or we have no right to it. Both are recorded as a missing
 * topic. */
static void refuse_topic(struct line *p, struct dt_str topic)
{
    p->refusal = RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART;
    snprintf(p->refused, sizeof(p->refused), "%.*s", (int)topic.n, topic.p);
}

static bool is_topic_of_previous(const struct dt_kafka_message *messages, size_t i)
{
    return i > 0 && dt_str_eq(messages[i].topic, messages[i - 1].topic);
}

/* Topics that this producer has not used yet, possibly with duplicates. */
struct strangers {
    struct dt_str *names;
    size_t n, n_unsure; /* n_unsure: how many names at the front may lack metadata */
};

/* Makes librdkafka fetch the metadata of all new topics in one request, by asking for the offsets of a list of topics.
 * Otherwise each topic costs a request, and each check whether its metadata has arrived costs another. If topics were
 * just created, the first try fails, but starts the fetch. */
static void fetch_metadata(struct line *p, struct strangers *s, unsigned max_tries, int wait_ms)
{
    for (unsigned tries = 0; s->n_unsure > 1 && tries < max_tries; tries++) {
        rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new((int)s->n_unsure);
        for (size_t i = 0; i < s->n_unsure; i++) {
            char name[DT_KAFKA_TOPIC_MAX + 1];
            snprintf(name, sizeof(name), "%.*s", (int)s->names[i].n, s->names[i].p);
            rd_kafka_topic_partition_list_add(list, name, 0)->offset = RD_KAFKA_OFFSET_END;
        }
        (void)rd_kafka_offsets_for_times(p->rk, list, wait_ms);
        /* Moves the topics for which no end offset was returned to the front. The metadata of all other topics has
         * arrived. */
        s->n_unsure = 0;
        for (int i = 0; i < list->cnt; i++) {
            const struct dt_str name = s->names[i];
            if (list->elems[i].err == RD_KAFKA_RESP_ERR_NO_ERROR && list->elems[i].offset >= 0)
                continue;
            s->names[i] = s->names[s->n_unsure];
            s->names[s->n_unsure++] = name;
        }
        rd_kafka_topic_partition_list_destroy(list);
    }
}

/* Fetches metadata before the first use of topics: without it, the first transaction to a topic stalls for a second. */
static dt_status look_up_new_topics(struct line *p, struct strangers *s, struct dt_error *err)
{
    dt_status status = DT_OK;
    size_t at_fault;
    /* Checks in one request whether all new topics exist, and reads their limits. */
    if (p->env->admin) {
        status = dt_kafka_admin_topics(p->env->admin, s->names, s->n, &at_fault, err);
        if (status == DT_REFUSED)
            refuse_topic(p, s->names[at_fault]);
    }
    if (status == DT_OK)
        fetch_metadata(p, s, METADATA_TRIES, METADATA_WAIT_MS);
    for (size_t i = 0; status == DT_OK && i < s->n; i++) {
        struct topic *topic;
        const bool unsure = i < s->n_unsure && !find_topic(p, s->names[i]);
        status = add_topic(p, s->names[i], &topic, err);
        if (status == DT_OK && unsure)
            status = dt_kafka_await_topic(p->rk, topic->rkt, dt_kafka_now_us() + p->transaction_timeout_us / 2, p->stop,
                                          NULL, err);
        if (status == DT_REFUSED)
            refuse_topic(p, s->names[i]);
    }
    return status;
}

/* Makes sure that the messages' topics and their size limits are known: looks up unknown topics. */
static dt_status learn_topics(struct line *p, const struct dt_kafka_message *messages, size_t n, struct dt_error *err)
{
    struct strangers s = {0};
    dt_status status = DT_OK;
    for (size_t i = 0; status == DT_OK && i < n; i++) {
        if (is_topic_of_previous(messages, i) || find_topic(p, messages[i].topic))
            continue;
        if (!s.names && (s.names = calloc(n - i, sizeof(*s.names))) == NULL)
            status = dt_fail(err, DT_NOMEM, "kafka producer: out of memory for the topics of a batch");
        else
            s.names[s.n++] = messages[i].topic;
    }
    s.n_unsure = s.n;
    if (status == DT_OK && s.n > 0)
        status = look_up_new_topics(p, &s, err);
    free(s.names);
    for (size_t i = 0; status == DT_OK && i < n; i++) {
        if (!is_topic_of_previous(messages, i))
            refresh_topic_limit(p, find_topic(p, messages[i].topic));
    }
    return mark_failed_in_doubt(p, status, err);
}

/* Looks up existing topics before their first message, in one request. Ignores failures, because learn_topics looks up
 * unknown topics again. */
static void meet_topics(struct line *p, const struct dt_str *names, size_t n)
{
    struct strangers s = {.names = calloc(n ? n : 1, sizeof(*s.names))};
    for (size_t i = 0; s.names && i < n; i++) {
        if (!find_topic(p, names[i]))
            s.names[s.n++] = names[i];
    }
    s.n_unsure = s.n;
    fetch_metadata(p, &s, 1, MEET_WAIT_MS);
    for (size_t i = s.n_unsure; i < s.n; i++) {
        struct topic *topic;
        struct dt_error ignored;
        if (add_topic(p, s.names[i], &topic, &ignored) == DT_OK)
            refresh_topic_limit(p, topic);
    }
    free(s.names);
}

/* ---- one transaction ---- */

static dt_status fail_with_kafka_error(struct dt_error *err, const char *what, rd_kafka_error_t *error)
{
    dt_status status = dt_fail(err, DT_DOUBT, "%s: %s", what, rd_kafka_error_string(error));
    rd_kafka_error_destroy(error);
    return status;
}

static dt_status check_reports(struct line *p, struct dt_error *err)
{
    if (p->refusal != RD_KAFKA_RESP_ERR_NO_ERROR)
        return dt_fail(err, DT_REFUSED, "delivery to %s: %s", p->refused, rd_kafka_err2str(p->refusal));
    if (p->first_error != RD_KAFKA_RESP_ERR_NO_ERROR)
        return dt_fail(err, DT_DOUBT, "delivery to %s: %s", p->first_topic, rd_kafka_err2str(p->first_error));
    if (dt_kafka_watch_broken(&p->watch))
        return dt_fail(err, DT_DOUBT, "transaction: a connection that carried it was closed");
    return DT_OK;
}

/* Checks whether a topic of the transaction was deleted. librdkafka would try to add it until the transaction times
 * out; this check finds out earlier. */
static void check_for_deleted_topics(struct line *p)
{
    unsigned looks = 0;
    p->look_us = INT64_MAX;
    for (size_t i = 0; p->env->admin && i < p->n_open && looks < LOOKS_MAX; i++) {
        const struct topic *t = p->open_topics[i];
        const struct dt_str name = {t->name, t->name_n};
        struct dt_kafka_topic_info info;
        if (t->in_flight == 0 || (i > 0 && t == p->open_topics[i - 1]))
            continue;
        looks++;
        dt_kafka_admin_forget(p->env->admin, name);
        dt_status status = dt_kafka_admin_topic(p->env->admin, name, &info, NULL);
        if (status == DT_REFUSED)
            refuse_topic(p, name);
        if (status != DT_OK)
            return;
    }
}

/* Serves delivery reports until *count <= most. */
static dt_status await_reports(struct line *p, const size_t *count, size_t most, int64_t deadline_us,
                               struct dt_error *err)
{
    for (;;) {
        dt_status status = check_reports(p, err);
        if (status != DT_OK || *count <= most)
            return status;
        if (p->stop && *p->stop)
            return dt_fail(err, DT_DOUBT, "transaction: stopped while delivery reports were missing");
        if (dt_kafka_now_us() >= deadline_us)
            return dt_fail(err, DT_DOUBT, "transaction: delivery reports are missing at its timeout");
        if (dt_kafka_now_us() >= p->look_us)
            check_for_deleted_topics(p);
        else
            rd_kafka_poll(p->rk, 100);
    }
}

/* Finds the cause of a failed transaction. When one message fails, librdkafka refuses further messages of the
 * transaction and makes others fail, so the report with the cause may not have arrived yet. Waits briefly for that
 * report; returns a permanent refusal as REFUSED. */
static dt_status find_cause(struct line *p, dt_status status, struct dt_error *err)
{
    const int64_t until_us = dt_kafka_now_us() + CAUSE_WAIT_US;
    while (p->refusal == RD_KAFKA_RESP_ERR_NO_ERROR && p->outstanding > 0 && !dt_kafka_watch_broken(&p->watch) &&
           dt_kafka_now_us() < until_us)
        rd_kafka_poll(p->rk, 10);
    if (p->refusal == RD_KAFKA_RESP_ERR_NO_ERROR) {
        /* Finds out whether a message's topic was not admitted to the transaction. In an open transaction
         * rd_kafka_begin_transaction returns the transaction's error, or __STATE if the transaction has not failed, and
         * does nothing else. */
        char topic[DT_KAFKA_TOPIC_MAX + 1];
        rd_kafka_error_t *error = rd_kafka_begin_transaction(p->rk);
        rd_kafka_resp_err_t code = error ? rd_kafka_error_code(error) : RD_KAFKA_RESP_ERR__STATE;
        rd_kafka_error_destroy(error);
        dt_kafka_watch_unjoined(&p->watch, topic, sizeof(topic));
        if (topic[0] != '\0' && code != RD_KAFKA_RESP_ERR__STATE && dt_kafka_refuses_message(code) &&
            strcmp(topic, rd_kafka_topic_name(p->ledger)) != 0)
            record_refusal(p, code, topic);
    }
    return p->refusal != RD_KAFKA_RESP_ERR_NO_ERROR ? check_reports(p, err) : status;
}

/* Gives a copy of the message to librdkafka; if librdkafka's queue is full, serves delivery reports and tries again. */
static dt_status produce_message(struct line *p, rd_kafka_topic_t *rkt, int32_t partition,
                                 const struct dt_kafka_message *m, struct report *report, int64_t deadline_us,
                                 struct dt_error *err)
{
    const rd_kafka_vu_t where = {.vtype = RD_KAFKA_VTYPE_RKT, .u.rkt = rkt};
    rd_kafka_error_t *error;
    dt_status status = DT_OK;
    while (status == DT_OK && (error = dt_kafka_produce(p->rk, where, partition, m, report))) {
        const rd_kafka_resp_err_t code = rd_kafka_error_code(error);
        if (code == RD_KAFKA_RESP_ERR__QUEUE_FULL && dt_kafka_now_us() < deadline_us) {
            rd_kafka_poll(p->rk, 10);
            status = check_reports(p, err);
        } else {
            /* Kafka or librdkafka refused the message at once. If the message is the ledger record, the status is
             * DOUBT. */
            const bool refused = rkt != p->ledger && dt_kafka_refuses_message(code);
            if (refused)
                record_refusal(p, code, rd_kafka_topic_name(rkt));
            status = dt_fail(err, refused ? DT_REFUSED : DT_DOUBT, "%s: %s", rd_kafka_topic_name(rkt),
                             rd_kafka_error_string(error));
        }
        rd_kafka_error_destroy(error);
    }
    p->outstanding += status == DT_OK;
    return status;
}

/* Opens the transaction and gives all messages to librdkafka, which sends them by itself. */
static dt_status produce_batch(struct line *p, const struct dt_kafka_message *messages, size_t n,
                               const struct dt_kafka_message *record, struct dt_error *err)
{
    rd_kafka_error_t *error = rd_kafka_begin_transaction(p->rk);
    dt_status status = DT_OK;
    if (error)
        return fail_with_kafka_error(err, "begin", error);
    p->uncommitted = true;
    p->look_us = dt_kafka_now_us() + SILENCE_US;
    for (size_t i = 0; status == DT_OK && i < n; i++) {
        struct topic *t = p->open_topics[i];
        struct report *r = &p->reports[i];
        *r = (struct report){.topic = t, .bytes = dt_kafka_message_size(&messages[i])};
        /* If a topic's limit is below the size of our batches, the topic gets only as many messages at a time as its
         * limit allows. */
        if (t->limit < DT_KAFKA_BATCH_BYTES && t->in_flight + r->bytes > t->limit)
            status =
                await_reports(p, &t->in_flight, t->limit > r->bytes ? t->limit - r->bytes : 0, p->deadline_us, err);
        DT_THEN(status, produce_message(p, t->rkt, RD_KAFKA_PARTITION_UA, &messages[i], r, p->deadline_us, err));
        if (status == DT_OK) {
            t->in_flight += r->bytes;
            DT_FAIL_POINT_STATUS("produce.message", status, err);
        }
    }
    DT_THEN(status, produce_message(p, p->ledger, (int32_t)p->shard, record, &p->reports[n], p->deadline_us, err));
    DT_FAIL_POINT_STATUS("produce.record", status, err);
    return status == DT_DOUBT ? find_cause(p, status, err) : status;
}

/* Waits for all delivery reports, then commits the transaction (EndTxn). */
static dt_status finish_transaction(struct line *p, struct dt_error *err)
{
    /* Restarts the period after which missing reports are a problem, because reports that arrived since the begin have
     * not been served yet. */
    p->look_us = dt_kafka_now_us() + SILENCE_US;
    dt_status status = await_reports(p, &p->outstanding, 0, p->deadline_us, err);
    if (status == DT_DOUBT)
        status = find_cause(p, status, err);
    if (status == DT_OK && p->ledger_offset < 0)
        status = dt_fail(err, DT_DOUBT, "transaction: the ledger record's offset is not known");
    DT_FAIL_POINT_STATUS("endtxn.before", status, err);
    if (status == DT_OK) {
        dt_assert_cmp(p->outstanding, ==, 0);
        dt_assert(p->uncommitted);
        p->uncommitted = false;
        /* All delivery reports have been served, so the commit need not serve any. */
        rd_kafka_error_t *error = rd_kafka_commit_transaction(p->rk, -1);
        while (error && rd_kafka_error_is_retriable(error) && dt_kafka_now_us() < p->deadline_us) {
            rd_kafka_error_destroy(error);
            error = rd_kafka_commit_transaction(p->rk, -1);
        }
        status = error ? fail_with_kafka_error(err, "commit", error) : DT_OK;
    }
    DT_FAIL_POINT_STATUS("endtxn.after", status, err);
    return status;
}

static void clear_open_transaction(struct line *p)
{
    free(p->open_topics);
    free(p->reports);
    p->open_topics = NULL;
    p->reports = NULL;
    p->n_open = 0;
}

/* Returns whether all topics of the messages are known, and each of them accepts our largest batch. Sends no
 * request. */
static bool is_line_ready(struct line *p, const struct dt_kafka_message *messages, size_t n)
{
    if (p->failed)
        return false;
    for (size_t i = 0; i < n; i++) {
        if (is_topic_of_previous(messages, i))
            continue;
        struct topic *t = find_topic(p, messages[i].topic);
        if (!t)
            return false;
        refresh_topic_limit(p, t);
        if (t->limit < DT_KAFKA_BATCH_BYTES)
            return false;
    }
    return true;
}

/* Begins the nth transaction, counted over both lines. All topics of the messages must be known. */
static dt_status begin_on_line(struct line *p, uint32_t nth, const struct dt_kafka_message *messages, size_t n,
                               const struct dt_kafka_message *record, struct dt_error *err)
{
    if (p->failed || p->reports)
        return mark_failed_in_doubt(p, dt_fail(err, DT_DOUBT, "kafka producer: an earlier call failed"), err);
    p->open_topics = calloc(n + 1, sizeof(*p->open_topics));
    p->reports = calloc(n + 1, sizeof(*p->reports));
    if (!p->open_topics || !p->reports)
        return mark_failed_in_doubt(
            p, dt_fail(err, DT_NOMEM, "kafka producer: out of memory for a batch of %zu messages", n), err);
    p->n_open = n;
    p->nth = nth;
    for (size_t i = 0; i < n; i++) {
        p->open_topics[i] =
            is_topic_of_previous(messages, i) ? p->open_topics[i - 1] : find_topic(p, messages[i].topic);
        dt_assert(p->open_topics[i]); /* learn_topics must be called first */
        p->open_topics[i]->loose = 0;
    }
    for (size_t i = 0; i < n; i++)
        p->open_topics[i]->loose += messages[i].key.p == NULL;
    while (rd_kafka_poll(p->rk, 0) > 0)
        ;
    p->outstanding = 0;
    p->first_error = p->refusal = RD_KAFKA_RESP_ERR_NO_ERROR;
    p->refused[0] = '\0';
    p->ledger_offset = -1;
    p->deadline_us = dt_kafka_now_us() + p->transaction_timeout_us;
    dt_kafka_watch_open(&p->watch);
    return mark_failed_in_doubt(p, produce_batch(p, messages, n, record, err), err);
}

static dt_status commit_on_line(struct line *p, int64_t *ledger_offset, struct dt_error *err)
{
    dt_status status = p->failed || !p->reports ? dt_fail(err, DT_DOUBT, "kafka producer: no transaction is open")
                                                : finish_transaction(p, err);
    const struct dt_kafka_watched seen = dt_kafka_watch_close(&p->watch);
    if (!seen.clean && status == DT_OK)
        status = dt_fail(err, DT_DOUBT, "commit: outcome unknown (%u EndTxn requests, or a connection closed)",
                         seen.end_txns);
    dt_metric_add(p->too_soon, seen.too_soon);
    if (status == DT_OK) {
        *ledger_offset = p->ledger_offset;
        clear_open_transaction(p);
    }
    return mark_failed_in_doubt(p, status, err);
}

static void abort_open_transaction(void *arg)
{
    struct line *p = arg;
    /*
     * Aborts the open transaction. Otherwise it blocks all readers of committed messages until Kafka's transaction
     * timeout, unless a leader takes the shard over before. Its commit was never requested, so aborting it is safe,
     * however late the request arrives: the next producer has another epoch. (At worst librdkafka requests a new epoch
     * after the abort, which fences the next producer: a doubt, and one more takeover.) Also, librdkafka 2.0.2 may fail
     * an assertion (txn_req_cnt) if a handle is destroyed while partitions wait to join a transaction; after the abort,
     * answered or not, none waits.
     *
     * If a connection that carried part of the transaction broke, the transaction is not aborted: a message may still
     * arrive, and only the markers that the next producer's fencing writes, with a newer epoch, keep that message out.
     */
    rd_kafka_error_t *error = p->uncommitted ? rd_kafka_abort_transaction(p->rk, ABORT_WAIT_MS) : NULL;
    rd_kafka_error_destroy(error);
    rd_kafka_purge(p->rk, RD_KAFKA_PURGE_F_QUEUE | RD_KAFKA_PURGE_F_INFLIGHT | RD_KAFKA_PURGE_F_NON_BLOCKING);
    for (const struct topic *t = p->topics; t; t = t->hh.next)
        rd_kafka_topic_destroy(t->rkt);
    if (p->ledger)
        rd_kafka_topic_destroy(p->ledger);
}

/* Frees the memory. Called when librdkafka's threads, which read `reports` and `topics`, have ended. */
static void free_producer(void *arg)
{
    struct line *p = arg;
    struct topic *topic;
    struct topic *next;
    HASH_ITER(hh, p->topics, topic, next)
    {
        HASH_DEL(p->topics, topic);
        free(topic);
    }
    clear_open_transaction(p);
    dt_kafka_watch_clear(&p->watch);
    free(p);
}

static void free_line(struct line *p)
{
    if (!p)
        return;
    p->failed = true;
    p->uncommitted = p->uncommitted && !dt_kafka_watch_broken(&p->watch);
    (void)dt_kafka_watch_close(&p->watch);
    if (!p->rk)
        free_producer(p);
    else
        dt_kafka_reap(p->rk, abort_open_transaction, free_producer, p);
}

static dt_status add_callbacks(rd_kafka_conf_t *conf, void *opaque, struct dt_error *err)
{
    struct line *p = opaque;
    /* Sets the partitioner here, because it is a setting of topics. */
    rd_kafka_topic_conf_t *topic_conf = rd_kafka_conf_get_default_topic_conf(conf);
    rd_kafka_topic_conf_set_partitioner_cb(topic_conf, choose_partition);
    rd_kafka_topic_conf_set_opaque(topic_conf, p);
    rd_kafka_conf_set_dr_msg_cb(conf, on_delivery_report);
    rd_kafka_conf_set_error_cb(conf, on_error);
    rd_kafka_conf_set_log_cb(conf, on_log);
    rd_kafka_conf_set_closesocket_cb(conf, on_socket_close);
    return dt_kafka_watch_requests(&p->watch, conf, err);
}

static dt_status open_line(struct line *p, const char *suffix, struct dt_error *err)
{
    char id[512];
    char timeout[24];
    const struct dt_kafka_setting settings[] = {
        {"transactional.id", id},
        {"transaction.timeout.ms", timeout},
        {"message.timeout.ms", timeout},
        {"enable.idempotence", "true"},
        {"acks", "all"},
        {"linger.ms", "0"},
        {"sticky.partitioning.linger.ms", "0"},
        {"message.max.bytes", DT_KAFKA_TEXT(DT_KAFKA_MESSAGE_MAX)},
        {"batch.size", DT_KAFKA_TEXT(DT_KAFKA_BATCH_BYTES)},
        {"batch.num.messages", "10000"},
        {"queue.buffering.max.messages", "100000"},
        {"queue.buffering.max.kbytes", "131072"},
        {NULL, NULL},
    };
    const struct dt_kafka_handle how = {.settings = settings, .adds = add_callbacks};
    snprintf(id, sizeof(id), "%s-%s-%u%s", p->env->installation, p->env->uuid, p->shard, suffix);
    snprintf(timeout, sizeof(timeout), "%lld", (long long)p->env->config->kafka_transaction_timeout);
    return dt_kafka_handle_new(p->env, &how, p, &p->rk, err);
}

/* Requests to fence older producers. If the request needs longer than timeout_ms, it continues in the background, and
 * *again becomes true: the caller must call again. */
static dt_status request_fencing(struct line *p, int timeout_ms, bool *again, struct dt_error *err)
{
    rd_kafka_error_t *error = rd_kafka_init_transactions(p->rk, timeout_ms);
    *again = error && rd_kafka_error_is_retriable(error);
    p->fenced = error == NULL;
    rd_kafka_poll(p->rk, 0);
    if (!error)
        return DT_OK;
    bool refused = !*again && dt_kafka_error_status(rd_kafka_error_code(error)) == DT_REFUSED;
    dt_status status =
        dt_fail(err, refused ? DT_REFUSED : DT_UNAVAILABLE, "init_transactions: %s", rd_kafka_error_string(error));
    rd_kafka_error_destroy(error);
    return status;
}

/* Waits for the ledger's metadata (without a connection, librdkafka's request for the coordinator takes half a second
 * longer). Then begins to fence older producers with this transactional id and to complete their transactions, without
 * waiting for that. After *stop is set, calls wait only for the answer to a commit. */
static dt_status start_line(struct line *p, int64_t deadline_us, const _Atomic bool *stop, struct dt_error *err)
{
    char name[DT_KAFKA_TOPIC_MAX + 1];
    struct dt_kafka_topic_info info = {0};
    bool again;
    dt_status status = dt_kafka_topic_name(p->env, "ledger", name, err);
    p->stop = stop;
    if (status != DT_OK)
        return status;
    p->ledger = rd_kafka_topic_new(p->rk, name, NULL);
    if (!p->ledger)
        return dt_kafka_fail(err, rd_kafka_last_error(), name);
    status = dt_kafka_await_topic(p->rk, p->ledger, deadline_us, stop, &info, err);
    if (status == DT_OK && info.partitions <= (int)p->shard)
        status = dt_fail(err, DT_REFUSED, "%s has %d partitions, none for shard %u", name, info.partitions, p->shard);
    if (status != DT_OK)
        return status;
    status = request_fencing(p, 1, &again, err);
    return status != DT_OK && again ? DT_OK : status;
}

static dt_status await_fenced(struct line *p, int64_t deadline_us, const _Atomic bool *stop, struct dt_error *err)
{
    while (!p->fenced) {
        bool again;
        if (stop && *stop)
            return dt_fail(err, DT_SHUTDOWN, "kafka producer: stopped while taking over");
        dt_status status = request_fencing(p, 100, &again, err);
        if (status != DT_OK && (!again || dt_kafka_now_us() >= deadline_us))
            return status;
    }
    dt_kafka_watch_nice(&p->watch);
    return DT_OK;
}

/* Connects in the background. *out is set whatever the status, unless memory ran out. */
static dt_status make_line(const struct dt_kafka_env *env, unsigned shard, const char *suffix, struct line **out,
                           struct dt_error *err)
{
    struct line *p = calloc(1, sizeof(*p));
    *out = p;
    if (!p)
        return dt_fail(err, DT_NOMEM, "kafka producer: out of memory");
    p->env = env;
    p->shard = shard;
    dt_kafka_watch_init(&p->watch);
    p->too_soon = dt_counter("duetime_kafka_too_soon_total",
                             "Transactions that waited 20 ms for Kafka to end the previous one under their id.", "");
    p->transaction_timeout_us = env->config->kafka_transaction_timeout * 1000;
    return open_line(p, suffix, err);
}

/*
 * ---- the pair ----
 *
 * Kafka answers EndTxn before it has written the transaction's markers. A producer that continues with the same
 * transactional id before that gets CONCURRENT_TRANSACTIONS, and librdkafka then waits for 20 ms. With two ids used
 * alternately, Kafka writes the markers of one transaction while the next transaction is open.
 *
 * Invariants:
 *   - One transaction is open at a time, over both ids. It begins only after a clean commit of the transaction before,
 *     so that ledger offsets rise. In a partition to which both transactions wrote (always the ledger), a reader of
 *     committed messages sees nothing of the second before the marker of the first.
 *   - A pair exists only when both ids are fenced: then no earlier transaction, under either id, can be committed.
 *   - After a status other than OK neither line is used again: the turn stays with the line that failed.
 *
 * Each line has its own metadata, refreshed every five minutes. So in the five minutes after a topic got more
 * partitions, the two lines may choose different partitions for a key.
 */

enum { LINES = 2 };
/* Suffixes of the transactional ids. A takeover fences the producers of all of them. A version that knows fewer
 * suffixes must not run beside this one, because it would not fence the others. */
static const char *const suffixes[LINES] = {"", "-b"};

struct dt_producer {
    struct line *lines[LINES];
    uint32_t begun; /* number of transactions that were begun */
    unsigned turn;  /* index of the line to use next; after a failure: the line that failed */
    bool ready;     /* both lines know the topics of the next transaction's messages */
};

static struct line *current_line(const dt_producer *p)
{
    dt_assert_cmp(p->turn, <, LINES);
    return p->lines[p->turn];
}

static void switch_line(dt_producer *p)
{
    p->turn = (p->turn + 1) % LINES;
}

void dt_producer_meet(dt_producer *p, const struct dt_str *topics, size_t n)
{
    for (unsigned i = 0; i < LINES; i++)
        meet_topics(p->lines[i], topics, n);
}

bool dt_producer_ready(dt_producer *p, const struct dt_kafka_message *messages, size_t n)
{
    p->ready = is_line_ready(current_line(p), messages, n);
    return p->ready;
}

dt_status dt_producer_begin(dt_producer *p, const struct dt_kafka_message *messages, size_t n, struct dt_str record_key,
                            struct dt_str record_value, struct dt_error *err)
{
    const struct dt_kafka_message record = {.key = record_key, .value = record_value};
    dt_status status = DT_OK;
    /* Both lines look up the topics; otherwise the next transaction would have to wait for a lookup as well. After
     * a failure, the line that failed stays the current one. */
    for (unsigned i = 0; !p->ready && status == DT_OK && i < LINES; i++) {
        status = learn_topics(current_line(p), messages, n, err);
        if (status == DT_OK)
            switch_line(p);
    }
    p->ready = false;
    return status == DT_OK ? begin_on_line(current_line(p), p->begun++, messages, n, &record, err) : status;
}

dt_status dt_producer_commit(dt_producer *p, int64_t *ledger_offset, struct dt_error *err)
{
    dt_status status = commit_on_line(current_line(p), ledger_offset, err);
    if (status == DT_OK)
        switch_line(p);
    return status;
}

dt_status dt_producer_send(dt_producer *p, const struct dt_kafka_message *messages, size_t n, struct dt_str record_key,
                           struct dt_str record_value, int64_t *ledger_offset, struct dt_error *err)
{
    dt_status status = dt_producer_begin(p, messages, n, record_key, record_value, err);
    return status == DT_OK ? dt_producer_commit(p, ledger_offset, err) : status;
}

struct dt_kafka_refusal dt_producer_refusal(const dt_producer *p)
{
    const struct line *line = current_line(p);
    return (struct dt_kafka_refusal){.topic = line->refused, .whole_topic = dt_kafka_refuses_topic(line->refusal)};
}

void dt_producer_free(dt_producer *p)
{
    if (!p)
        return;
    for (unsigned i = 0; i < LINES; i++, switch_line(p))
        free_line(current_line(p)); /* first the current line, because an open transaction of it blocks readers */
    free(p);
}

dt_status dt_producer_new(const struct dt_kafka_env *env, unsigned shard, const _Atomic bool *stop, dt_producer **out,
                          struct dt_error *err)
{
    const int64_t deadline_us = dt_kafka_now_us() + env->config->kafka_transaction_timeout * 1000;
    dt_producer *p = calloc(1, sizeof(*p));
    dt_status status = DT_OK;
    *out = p;
    if (!p)
        return dt_fail(err, DT_NOMEM, "kafka producer: out of memory");
    /* Both lines connect and wait for open transactions of older producers at the same time, so that the waits do
     * not add up. */
    for (unsigned i = 0; status == DT_OK && i < LINES; i++)
        status = make_line(env, shard, suffixes[i], &p->lines[i], err);
    for (unsigned i = 0; status == DT_OK && i < LINES; i++)
        status = start_line(p->lines[i], deadline_us, stop, err);
    for (unsigned i = 0; status == DT_OK && i < LINES; i++) {
        status = await_fenced(p->lines[i], deadline_us, stop, err);
        if (i == 0)
            DT_FAIL_POINT_STATUS("takeover.fenced_one", status, err);
    }
    if (status != DT_OK) {
        dt_producer_free(p);
        *out = NULL;
    }
    return status;
}
