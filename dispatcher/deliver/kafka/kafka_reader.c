/*
 * Owns: a consumer of one of the installation's own topics, its share of the partitions, and its offsets. Refuses to
 * know: what a record means, and what happens with it.
 *
 * Invariants: an offset is committed only for records that the caller has applied (dt_kafka_reader_commit). Offsets are
 * not committed after each batch, because a commit costs the broker as much as a small batch. After a rewind, a
 * rebalance or a crash, records are read again, which the caller must tolerate. A caller that stores offsets itself
 * sets where reading begins.
 *
 * If a partition was read to its end, the offset of that end is committed, because markers of transactions may follow
 * the last record, and kafka_lag.c compares the committed offset with the partition's end. The offset is committed
 * again now and then, because another process that had been stopped may have committed an older offset since.
 *
 * A handle of librdkafka is assigned partitions once; for other partitions the reader takes a new handle. librdkafka
 * aborts if partitions are taken from a handle that has not yet stopped reading them after an earlier change
 * (rd_kafka_assignment_partition_stopped, issue 5573), and it does not report when it has stopped.
 */
#include "kafka_common.h"

#include "base/assert.h"
#include "base/log.h"

/* Timeouts and periods of looking up partitions. LOOK_TIMEOUT_US is long, because if a reader gave up on a busy broker,
 * it would only repeat the request. LOOK_AGAIN_US is short, because the reader already has partitions, and must soon
 * continue to read them. */
enum {
    LOOK_EVERY_US = 5000000,
    LOOK_TIMEOUT_US = 10000000,
    LOOK_AGAIN_US = 500000,
    COMMIT_EVERY_US = 100000,
    SILENCE_US = 60000000
};
/* Timeout of a seek in ms. librdkafka before 2.1 interprets the number as microseconds. */
#define SEEK_MS (rd_kafka_version() < 0x02010000 ? 5000000 : 5000)

struct dt_kafka_reader {
    const struct dt_kafka_env *env;
    struct dt_kafka_reading how;
    unsigned generation; /* generation of the settings that the handle was created with */
    /* mono: when Kafka first failed to report partitions, without any record since; 0: Kafka answers. */
    int64_t silent_us;
    /* Why the last dt_kafka_reader_share got no partitions, reported by the next poll; status OK: nothing to report. */
    struct dt_error unsaid;
    rd_kafka_t *rk;
    rd_kafka_topic_t *topic;
    bool assigned;          /* partitions were assigned to rk */
    unsigned rank, members; /* members = 0: no partition is read yet */
    int partitions;
    int64_t looked_us; /* mono: when the partitions were last counted */
    /* By partition: offset after the last applied record; -1: the offset that the group committed, or a partition that
     * is not read. */
    int64_t *next;
    rd_kafka_topic_partition_list_t *applied; /* offsets to commit with the next commit; NULL: none */
    int64_t committed_us;
    rd_kafka_message_t **messages; /* records of the last poll */
    struct dt_kafka_record *records;
    size_t n, cap, bytes;
    int64_t *ends; /* by partition: the end that the last poll reached; -1: not reached */
    bool owed;     /* records of the last poll were neither applied nor rewound, so `ends` is not committed yet */
    bool lost;     /* an offset to continue from does not exist any more: polls fail until dt_kafka_reader_restart */
    bool failed;   /* Kafka refused a request since the last poll began */
};

static bool is_partition_ours(unsigned partition, unsigned rank, unsigned members)
{
    return members > 0 && partition % members == rank;
}

static void forget_end_offsets(struct dt_kafka_reader *c)
{
    for (int i = 0; i < c->partitions; i++)
        c->ends[i] = -1;
}

static void drop_records(struct dt_kafka_reader *c)
{
    for (size_t i = 0; i < c->n; i++)
        rd_kafka_message_destroy(c->messages[i]);
    c->n = c->bytes = 0;
    forget_end_offsets(c);
}

static dt_status reserve_records(struct dt_kafka_reader *c, size_t max, struct dt_error *err)
{
    if (c->cap >= max)
        return DT_OK;
    rd_kafka_message_t **messages = realloc(c->messages, max * sizeof(*messages));
    if (messages)
        c->messages = messages;
    struct dt_kafka_record *records = realloc(c->records, max * sizeof(*records));
    if (records)
        c->records = records;
    if (!messages || !records)
        return dt_fail(err, DT_NOMEM, "out of memory");
    c->cap = max;
    return DT_OK;
}

/* Stores a record, or returns the error that librdkafka delivered instead of one. Takes ownership of m. */
static dt_status store_message(struct dt_kafka_reader *c, rd_kafka_message_t *m, struct dt_error *err)
{
    dt_status status = DT_OK;
    if (m->err == RD_KAFKA_RESP_ERR_NO_ERROR || m->err == RD_KAFKA_RESP_ERR__PARTITION_EOF)
        c->silent_us = 0;
    /* The caller has left the partition, or reading.begin excluded it: drops the record. */
    if (c->how.begin && m->partition >= 0 && m->partition < c->partitions && c->next[m->partition] < 0) {
        rd_kafka_message_destroy(m);
        return DT_OK;
    }
    if (m->err == RD_KAFKA_RESP_ERR_NO_ERROR) {
        rd_kafka_timestamp_type_t type;
        int64_t ms = rd_kafka_message_timestamp(m, &type);
        dt_assert_cmp(c->n, <, c->cap);
        c->records[c->n] =
            (struct dt_kafka_record){.key = {m->key, m->key_len},
                                     .value = {m->payload, m->len},
                                     .partition = m->partition,
                                     .offset = m->offset,
                                     .timestamp_ms = type == RD_KAFKA_TIMESTAMP_NOT_AVAILABLE || ms < 0 ? 0 : ms};
        c->bytes += m->key_len + m->len;
        c->messages[c->n++] = m;
        return DT_OK;
    }
    c->lost = c->lost || m->err == RD_KAFKA_RESP_ERR__AUTO_OFFSET_RESET;
    if (m->err == RD_KAFKA_RESP_ERR__PARTITION_EOF && m->partition < c->partitions)
        c->ends[m->partition] = m->offset;
    else if (m->err != RD_KAFKA_RESP_ERR__PARTITION_EOF)
        status = dt_fail(err, DT_UNAVAILABLE, "%s: %s", rd_kafka_topic_name(c->topic), rd_kafka_message_errstr(m));
    c->failed = c->failed || status != DT_OK;
    rd_kafka_message_destroy(m);
    return status;
}

/* Takes all records that have arrived, and those that arrive within linger_ms. */
static void poll_more_records(struct dt_kafka_reader *c, size_t max, int linger_ms)
{
    const int64_t until_us = dt_kafka_now_us() + linger_ms * INT64_C(1000);
    while (c->n < max && (!c->how.bytes || c->bytes < c->how.bytes)) {
        int64_t left_us = until_us - dt_kafka_now_us();
        rd_kafka_message_t *m = rd_kafka_consumer_poll(c->rk, left_us > 0 ? (int)(left_us / 1000) + 1 : 0);
        if (!m && left_us <= 0)
            return;
        if (m && store_message(c, m, NULL) != DT_OK)
            return; /* if the error lasts, the next poll returns it */
    }
}

static rd_kafka_topic_partition_t *find_or_add_partition(rd_kafka_topic_partition_list_t *list, const char *topic,
                                                         int32_t partition)
{
    rd_kafka_topic_partition_t *at = rd_kafka_topic_partition_list_find(list, topic, partition);
    if (at)
        return at;
    at = rd_kafka_topic_partition_list_add(list, topic, partition);
    at->offset = RD_KAFKA_OFFSET_INVALID;
    return at;
}

static void record_applied_offset(struct dt_kafka_reader *c, int32_t partition, int64_t offset)
{
    if (partition < c->partitions && c->next[partition] == offset)
        return;
    if (!c->applied)
        c->applied = rd_kafka_topic_partition_list_new(4);
    find_or_add_partition(c->applied, rd_kafka_topic_name(c->topic), partition)->offset = offset;
    if (partition < c->partitions)
        c->next[partition] = offset;
}

/* Commits the offsets of records that were applied since the last commit, without waiting for the answer. */
static dt_status commit_applied_offsets(struct dt_kafka_reader *c, struct dt_error *err)
{
    if (!c->applied)
        return DT_OK;
    rd_kafka_resp_err_t code = rd_kafka_commit(c->rk, c->applied, 1);
    rd_kafka_topic_partition_list_destroy(c->applied);
    c->applied = NULL;
    c->committed_us = dt_kafka_now_us();
    return code == RD_KAFKA_RESP_ERR_NO_ERROR ? DT_OK : dt_kafka_fail(err, code, "committing offsets");
}

/* Commits the ends that the last poll reached, if all records before an end are applied. */
static dt_status commit_end_offsets(struct dt_kafka_reader *c, struct dt_error *err)
{
    for (int i = 0; i < c->partitions; i++) {
        if (c->ends[i] > c->next[i] && !c->owed)
            record_applied_offset(c, i, c->ends[i]);
        c->ends[i] = -1;
    }
    return dt_kafka_now_us() - c->committed_us < COMMIT_EVERY_US ? DT_OK : commit_applied_offsets(c, err);
}

/* ---- headers ---- */

dt_status dt_kafka_reader_headers(const dt_kafka_reader *c, size_t i, struct dt_arena *arena,
                                  const struct dt_kafka_header **out, size_t *n)
{
    rd_kafka_headers_t *headers;
    const char *name;
    const void *value;
    size_t size;
    *n = 0;
    *out = NULL;
    if (rd_kafka_message_headers(c->messages[i], &headers) != RD_KAFKA_RESP_ERR_NO_ERROR)
        return DT_OK;
    struct dt_kafka_header *v = dt_arena_alloc(arena, (rd_kafka_header_cnt(headers) + 1) * sizeof(*v));
    if (!v)
        return DT_NOMEM;
    while (rd_kafka_header_get_all(headers, *n, &name, &value, &size) == RD_KAFKA_RESP_ERR_NO_ERROR)
        v[(*n)++] = (struct dt_kafka_header){dt_str(name), {value, size}};
    *out = v;
    return DT_OK;
}

dt_status dt_kafka_reader_poll(dt_kafka_reader *c, size_t max, int wait_ms, int linger_ms, const _Atomic bool *stop,
                               const struct dt_kafka_record **records, size_t *n, struct dt_error *err)
{
    *records = NULL;
    *n = 0;
    drop_records(c);
    /* librdkafka asks the group once for the offset of an assigned partition. If Kafka refuses, for instance because
     * the coordinator has moved, librdkafka reports the error and does not retry, so the partition would not be read
     * until it is assigned again. */
    bool unheard = false; /* a partition that is read from the group's offset may wait for that offset */
    for (int i = 0; i < c->partitions && c->failed && !c->how.begin; i++)
        unheard = unheard || (is_partition_ours((unsigned)i, c->rank, c->members) && c->next[i] < 0);
    c->failed = false;
    if (unheard) {
        dt_kafka_reader_restart(c);
        return DT_OK;
    }
    if (c->lost)
        return dt_fail(err, DT_UNAVAILABLE, "%s: the next messages were removed, or never existed",
                       rd_kafka_topic_name(c->topic));
    dt_status status = reserve_records(c, max, err);
    if (status == DT_OK && !(stop && *stop)) {
        /* Waits for the first record or error, but not longer than until the next commit of offsets is due. */
        int64_t left_us = c->committed_us + COMMIT_EVERY_US - dt_kafka_now_us();
        if (c->applied && left_us < wait_ms * INT64_C(1000))
            wait_ms = left_us > 0 ? (int)(left_us / 1000) + 1 : 0;
        rd_kafka_message_t *m = rd_kafka_consumer_poll(c->rk, wait_ms);
        status = m ? store_message(c, m, err) : DT_OK;
    }
    if (status != DT_OK)
        return status;
    if (c->n > 0)
        poll_more_records(c, max, linger_ms);
    else
        status = commit_end_offsets(c, err);
    if (status == DT_OK && c->n == 0 && c->unsaid.status != DT_OK)
        status = dt_fail(err, c->unsaid.status, "%s", c->unsaid.text);
    c->owed |= c->n > 0;
    *records = c->records;
    *n = c->n;
    return status;
}

dt_status dt_kafka_reader_commit(dt_kafka_reader *c, struct dt_error *err)
{
    if (c->n == 0)
        return DT_OK;
    c->owed = false;
    /* Offsets ascend within a partition, so the offset of its last record is stored last. */
    for (size_t i = 0; i < c->n; i++)
        record_applied_offset(c, c->messages[i]->partition, c->messages[i]->offset + 1);
    return commit_end_offsets(c, err);
}

/* If seeking back fails, gives up the partitions until the next dt_kafka_reader_share, because reading on would lose
 * records. */
void dt_kafka_reader_rewind(dt_kafka_reader *c)
{
    if (c->n == 0)
        return;
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(4);
    for (size_t i = 0; i < c->n; i++) {
        rd_kafka_topic_partition_t *at =
            find_or_add_partition(list, rd_kafka_topic_name(c->topic), c->messages[i]->partition);
        if (at->offset == RD_KAFKA_OFFSET_INVALID)
            at->offset = c->messages[i]->offset;
    }
    drop_records(c);
    rd_kafka_error_t *error = rd_kafka_seek_partitions(c->rk, list, SEEK_MS);
    rd_kafka_resp_err_t code = error ? rd_kafka_error_code(error) : RD_KAFKA_RESP_ERR_NO_ERROR;
    for (int i = 0; code == RD_KAFKA_RESP_ERR_NO_ERROR && i < list->cnt; i++) /* the outcome is reported by partition */
        code = list->elems[i].err;
    if (code != RD_KAFKA_RESP_ERR_NO_ERROR) {
        DT_LOG(WARN, "kafka", "cannot seek back to the last committed offset", DT_S("topic", list->elems[0].topic),
               DT_S("error", rd_kafka_err2str(code)));
        dt_kafka_reader_restart(c); /* the next dt_kafka_reader_share assigns partitions at the last applied offsets */
    }
    c->owed = false;
    rd_kafka_error_destroy(error);
    rd_kafka_topic_partition_list_destroy(list);
}

void dt_kafka_reader_restart(dt_kafka_reader *c)
{
    drop_records(c);
    c->members = 0; /* the next dt_kafka_reader_share opens a new handle */
    c->owed = c->lost = false;
}

bool dt_kafka_reader_must_restart(const dt_kafka_reader *c)
{
    return c->owed || c->lost;
}

int64_t dt_kafka_reader_lag(const dt_kafka_reader *c)
{
    int64_t lag = 0;
    for (int i = 0; i < c->partitions; i++) {
        int64_t low;
        int64_t high;
        if (c->next[i] >= 0 && rd_kafka_get_watermark_offsets(c->rk, rd_kafka_topic_name(c->topic), i, &low, &high) ==
                                   RD_KAFKA_RESP_ERR_NO_ERROR)
            lag += high > c->next[i] ? high - c->next[i] : 0;
    }
    return lag;
}

/* ---- the handle ---- */

/* Opens a handle with the current settings and files, into *out. */
static dt_status open_handle(const struct dt_kafka_reader *c, struct dt_kafka_reader *out, struct dt_error *err)
{
    char topic[DT_KAFKA_TOPIC_MAX + 1];
    const struct dt_kafka_setting settings[] = {
        {"isolation.level", "read_committed"},
        {"enable.auto.commit", "false"},
        {"enable.auto.offset.store", "false"},
        {"auto.offset.reset", c->how.begin ? "error" : "earliest"},
        {"enable.partition.eof", "true"},
        /* longest time that the broker waits before it answers an empty fetch; partitions that were just assigned have
         * to wait for that answer, too */
        {"fetch.wait.max.ms", "1000"},
        {"fetch.error.backoff.ms", "50"},
        /* librdkafka fetches more records of a partition at once only while it holds fewer than this, otherwise after a
         * second; no reader applies as many in a second */
        {"queued.min.messages", "100000"},
        {"queued.max.messages.kbytes", "32768"},
        {NULL, NULL},
    };
    const struct dt_kafka_handle how = {.type = RD_KAFKA_CONSUMER, .group = c->how.suffix, .settings = settings};
    dt_status status = dt_kafka_topic_name(c->env, c->how.suffix, topic, err);
    DT_THEN(status, dt_kafka_handle_new(c->env, &how, NULL, &out->rk, err));
    if (status != DT_OK)
        return status;
    rd_kafka_poll_set_consumer(out->rk);
    out->topic = rd_kafka_topic_new(out->rk, topic, NULL);
    return out->topic ? DT_OK : dt_kafka_fail(err, rd_kafka_last_error(), topic);
}

static void close_consumer(void *arg)
{
    struct dt_kafka_reader *c = arg;
    struct dt_error err = {0};
    if (commit_applied_offsets(c, &err) != DT_OK)
        DT_LOG(DEBUG, "kafka", "offsets were not committed", DT_S("reason", err.text));
    rd_kafka_consumer_close(c->rk); /* waits until the running commits of offsets have ended */
    if (c->topic)
        rd_kafka_topic_destroy(c->topic);
}

static void free_consumer(void *arg)
{
    struct dt_kafka_reader *c = arg;
    free(c->messages);
    free(c->records);
    free(c->next);
    free(c->ends);
    free(c);
}

/* Replaces the handle. The new handle reads from the first record that was not applied. The old handle commits the
 * offset of that record and is destroyed in the background. If no new handle can be opened, the old handle stays. */
static dt_status reopen_handle(struct dt_kafka_reader *c, struct dt_error *err)
{
    struct dt_kafka_reader *other = calloc(1, sizeof(*other));
    dt_status status = other ? open_handle(c, other, err) : dt_fail(err, DT_NOMEM, "out of memory");
    c->generation = dt_kafka_client_generation();
    c->silent_us = 0;
    if (status == DT_OK) {
        struct dt_kafka_reader new = *other;
        dt_kafka_reader_restart(c);
        *other = (struct dt_kafka_reader){.rk = c->rk, .topic = c->topic, .applied = c->applied};
        c->rk = new.rk;
        c->topic = new.topic;
        c->applied = NULL;
        c->assigned = false;
    }
    dt_kafka_reader_free(other);
    return status;
}

/* ---- shares ---- */

static dt_status begin_partitions(struct dt_kafka_reader *c, struct dt_error *err)
{
    struct dt_kafka_start *v = calloc((size_t)c->partitions + 1, sizeof(*v));
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(c->partitions);
    dt_status status = DT_OK;
    int n = 0;
    for (int i = 0; v && i < c->partitions; i++) {
        c->next[i] = -1;
        if (!is_partition_ours((unsigned)i, c->rank, c->members))
            continue;
        v[n++].partition = i;
        rd_kafka_topic_partition_list_add(list, rd_kafka_topic_name(c->topic), i);
    }
    if (n > 0)
        status = dt_kafka_ask_offsets(c->rk, list, RD_KAFKA_OFFSET_BEGINNING, err);
    for (int i = 0; i < n; i++)
        v[i].first = list->elems[i].offset;
    if (n > 0 && status == DT_OK)
        status = dt_kafka_ask_offsets(c->rk, list, RD_KAFKA_OFFSET_END, err);
    for (int i = 0; i < n; i++)
        v[i].end = list->elems[i].offset;
    if (!v)
        status = dt_fail(err, DT_NOMEM, "out of memory");
    DT_THEN(status, c->how.begin(c->how.arg, v, (size_t)n, err));
    for (int i = 0; i < n && status == DT_OK; i++)
        c->next[v[i].partition] = v[i].next;
    rd_kafka_topic_partition_list_destroy(list);
    free(v);
    return status;
}

/* Takes this process's share of the topic's partitions. Forgets offsets of partitions that another process reads
 * now. */
static dt_status choose_own_partitions(struct dt_kafka_reader *c, int partitions, unsigned rank, unsigned members,
                                       struct dt_error *err)
{
    /* The arrays never shrink. If only one realloc succeeds, c->partitions is still right for both arrays. */
    const int room = partitions > c->partitions ? partitions : c->partitions;
    const size_t bytes = (size_t)(room > 0 ? room : 1) * sizeof(int64_t);
    int64_t *next = realloc(c->next, bytes);
    if (!next)
        return dt_fail(err, DT_NOMEM, "out of memory");
    c->next = next;
    int64_t *ends = realloc(c->ends, bytes);
    if (!ends)
        return dt_fail(err, DT_NOMEM, "out of memory");
    c->ends = ends;
    for (int i = 0; i < partitions; i++) {
        if (i >= c->partitions || !is_partition_ours((unsigned)i, rank, members))
            next[i] = -1;
    }
    c->partitions = partitions;
    forget_end_offsets(c);
    c->rank = rank;
    c->members = members;
    dt_status status = c->how.begin ? begin_partitions(c, err) : DT_OK;
    if (status != DT_OK) {
        dt_kafka_reader_restart(c);
        return status;
    }
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(c->partitions);
    for (int i = 0; i < c->partitions; i++) {
        if (is_partition_ours((unsigned)i, c->rank, c->members) && (c->next[i] >= 0 || !c->how.begin))
            rd_kafka_topic_partition_list_add(list, rd_kafka_topic_name(c->topic), i)->offset =
                c->next[i] >= 0 ? c->next[i] : RD_KAFKA_OFFSET_STORED;
    }
    rd_kafka_resp_err_t code = rd_kafka_assign(c->rk, list);
    c->assigned = true;
    DT_LOG(INFO, "kafka", "partitions assigned", DT_S("topic", rd_kafka_topic_name(c->topic)),
           DT_I("partitions", list->cnt), DT_I("of", c->partitions));
    rd_kafka_topic_partition_list_destroy(list);
    if (code == RD_KAFKA_RESP_ERR_NO_ERROR)
        return DT_OK;
    dt_kafka_reader_restart(c);
    return dt_kafka_fail(err, code, rd_kafka_topic_name(c->topic));
}

void dt_kafka_reader_leave(dt_kafka_reader *c, int32_t partition)
{
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(1);
    size_t kept = 0;
    for (size_t i = 0; i < c->n; i++) {
        if (c->messages[i]->partition == partition)
            rd_kafka_message_destroy(c->messages[i]);
        else
            c->messages[kept++] = c->messages[i];
    }
    c->n = kept;
    c->owed = c->owed && kept > 0;
    if (partition < c->partitions)
        c->next[partition] = c->ends[partition] = -1;
    /* Pausing only avoids useless fetches: records of the partition that still arrive are dropped. */
    rd_kafka_topic_partition_list_add(list, rd_kafka_topic_name(c->topic), partition);
    (void)!rd_kafka_pause_partitions(c->rk, list);
    rd_kafka_topic_partition_list_destroy(list);
}

dt_status dt_kafka_reader_share(dt_kafka_reader *c, unsigned rank, unsigned members, struct dt_error *err)
{
    const int64_t now_us = dt_kafka_now_us();
    struct dt_kafka_topic_info info = {0};
    dt_status status;
    /* Kafka may answer a new handle if the settings changed, or if files changed that the settings name. */
    bool outdated =
        c->generation != dt_kafka_client_generation() || (c->silent_us > 0 && now_us > c->silent_us + SILENCE_US);
    if (outdated && reopen_handle(c, &c->unsaid) != DT_OK)
        DT_LOG(WARN, "kafka", "the consumer could not be opened again with new settings: it keeps its connections",
               DT_S("reason", c->unsaid.text));
    c->unsaid.status = DT_OK;
    bool same = rank == c->rank && members == c->members;
    if (!same && c->assigned) {
        status = reopen_handle(c, err);
        if (status != DT_OK)
            return status;
    }
    if (same && now_us < c->looked_us + LOOK_EVERY_US)
        return DT_OK;
    status = dt_kafka_await_topic(c->rk, c->topic, now_us + (same ? LOOK_AGAIN_US : LOOK_TIMEOUT_US), c->how.stop,
                                  &info, &c->unsaid);
    if (status == DT_UNAVAILABLE && info.partitions > 0 && !c->how.begin)
        /* Partitions without a leader do not matter: librdkafka waits for their leaders, and reads the others. */
        status = c->unsaid.status = DT_OK;
    c->silent_us = status == DT_OK ? 0 : c->silent_us ? c->silent_us : now_us;
    c->looked_us = dt_kafka_now_us();
    if (status == DT_UNAVAILABLE && same && c->silent_us == now_us)
        c->unsaid.status = DT_OK; /* one unanswered request is normal with a busy broker; the second is reported */
    if (status == DT_UNAVAILABLE && same)
        return DT_OK;
    if (status != DT_OK)
        return dt_fail(err, status, "%s", c->unsaid.text);
    if (!same)
        return choose_own_partitions(c, info.partitions, rank, members, err);
    if (info.partitions != c->partitions) {
        dt_kafka_reader_restart(c);
        return DT_OK;
    }
    for (int i = 0; i < c->partitions; i++) { /* commits once more what this reader has applied */
        int64_t offset = c->next[i];
        if (offset < 0)
            continue;
        c->next[i] = -1;
        record_applied_offset(c, i, offset);
    }
    return DT_OK;
}

dt_status dt_kafka_reader_new(const struct dt_kafka_env *env, const struct dt_kafka_reading *how, dt_kafka_reader **out,
                              struct dt_error *err)
{
    struct dt_kafka_reader *c = calloc(1, sizeof(*c));
    *out = NULL;
    if (!c)
        return dt_fail(err, DT_NOMEM, "out of memory");
    c->env = env;
    c->how = *how;
    c->generation = dt_kafka_client_generation();
    dt_status status = open_handle(c, c, err);
    if (status == DT_OK)
        *out = c;
    else
        dt_kafka_reader_free(c);
    return status;
}

void dt_kafka_reader_free(dt_kafka_reader *c)
{
    if (!c)
        return;
    drop_records(c);
    if (!c->rk)
        free_consumer(c);
    else
        dt_kafka_reap(c->rk, close_consumer, free_consumer, c);
}
