/*
 * Sends answers to commands to Kafka: a chore, with a producer of its own. The reader of commands waits for neither
 * Kafka nor a topic.
 *
 *   list rows ─▶ pass over those whose Kafka topic is not there yet ─▶ choose, owners in equal parts ─▶ read, send ─▶
 *   remove
 *
 * Each answer is sent at least once. Another thread makes missing topics meanwhile, as it does for jobs. An answer is
 * dropped if Kafka refuses it, if its topic cannot be written for an hour, or if too many of its owner wait.
 */
#include "command_reader.h"

#include <stdlib.h>

#include "base/assert.h"
#include "base/fair.h"
#include "base/hash.h"
#include "base/hooks/fail_point.h"
#include "base/log.h"
#include "base/metrics.h"
#include "job/job_id.h"

#define SEND_MS  10000
#define TOGETHER 16               /* rows that are sent together */
#define WAITING  2048             /* rows of an owner that may wait for topics, as many as its names may */
#define KEPT_MS  INT64_C(3600000) /* a row that waits for its topic for longer is dropped, … */
#define CROWDED_US                                                                                                     \
    INT64_C(60000000) /* … and so is one beyond WAITING, if Kafka has answered about topics for so long */
#define LOOK_US    INT64_C(60000000)      /* for answers of processes that died */
#define ASK_US     INT64_C(200000)        /* for topics that are being made */
#define AGAIN_US   INT64_C(1000000)       /* after a failure */
#define BAR_US     INT64_C(5000000)       /* a topic that did not take an answer in time is left alone so long … */
#define BAR_MAX_US (INT64_C(64) * BAR_US) /* … and twice as long each further time, up to this */

/* A Kafka topic that did not take an answer in time. */
struct bar {
    UT_hash_handle hh;
    int64_t pause_us, until_us;
    size_t n;
    char name[];
};

/* A row that can be sent. */
struct ready {
    int64_t owner, id;
};

struct dt_command_sender {
    struct dt_intake_env env;
    struct dt_chore chore;
    dt_store *store; /* of the tick */
    dt_json *json;
    dt_notice_producer *notices;
    dt_kafka_asker *asker;
    struct bar *bars;
    pthread_mutex_t lock; /* for the next two */
    int64_t *partitions;
    size_t n_partitions;
    struct dt_arena arena; /* of a round */
    struct dt_arena page;  /* of rows that are listed */
    struct ready *ready;   /* of a round … */
    size_t n_ready, room;
    bool waits, answered; /* … in which rows waited for topics; in which Kafka answered about a topic */
    int64_t silent_us;    /* mono: the last round in which Kafka answered about no topic; at first, the start */
    dt_metric *sent, *dropped;
};

/* ---- topics ---- */

static struct bar *bar_of(const dt_command_sender *s, struct dt_str topic)
{
    struct bar *bar;
    HASH_FIND(hh, s->bars, topic.p, topic.n, bar);
    return bar;
}

static void raise_bar(dt_command_sender *s, struct dt_str topic, bool longer)
{
    struct bar *bar = bar_of(s, topic);
    if (!bar && (bar = calloc(1, sizeof(*bar) + topic.n))) {
        memcpy(bar->name, topic.p, topic.n);
        bar->n = topic.n;
        HASH_ADD_KEYPTR(hh, s->bars, bar->name, bar->n, bar);
        if (!bar->hh.tbl) {
            free(bar);
            return;
        }
    }
    if (!bar || dt_clock_mono_us(s->env.clock) < bar->until_us)
        return;
    bar->pause_us = longer && bar->pause_us ? dt_earlier(2 * bar->pause_us, BAR_MAX_US) : BAR_US;
    bar->until_us = dt_clock_mono_us(s->env.clock) + bar->pause_us;
}

/* OK: the topic can be written. REFUSED: it cannot. BUSY: not now, or Kafka has not answered yet. */
static dt_status ask_topic(dt_command_sender *s, const struct dt_command_answers_row *row, struct dt_error *err)
{
    struct dt_kafka_topic_info info;
    const struct bar *bar = s->bars ? bar_of(s, row->topic) : NULL;
    if (!row->topic.n) /* written by a program before this one */
        return DT_OK;
    if (bar && dt_clock_mono_us(s->env.clock) < bar->until_us)
        return DT_BUSY;
    dt_status status = dt_kafka_asker_ask(s->asker, row->topic, row->owner, &info, err);
    if (status == DT_OK && info.replicas && info.min_in_sync > info.replicas) /* Kafka would take nothing */
        return DT_BUSY;
    return status == DT_OK || status == DT_REFUSED ? status : DT_BUSY;
}

/* ---- which rows ---- */

static void drop(dt_command_sender *s, struct dt_str topic, const char *why)
{
    DT_LOG_PER_TOPIC(WARN, "commands", "an answer is dropped", topic, DT_S("reason", why));
    dt_metric_add(s->dropped, 1);
}

/* Rows of an owner that wait for topics. */
struct waiting {
    UT_hash_handle hh;
    int64_t owner;
    size_t n;
};

/* Takes what can be sent, and removes what is dropped. */
static dt_status sort_out(dt_command_sender *s, const struct dt_command_answers_row *v, size_t n,
                          struct waiting **owners, struct dt_error *err)
{
    int64_t *dropped = dt_arena_alloc(&s->page, (n + 1) * sizeof(*dropped));
    size_t n_dropped = 0;
    dt_status status = dropped ? DT_OK : DT_NOMEM;
    for (size_t i = 0; i < n && status == DT_OK; i++) {
        struct dt_error why = {0};
        const dt_status asked = ask_topic(s, &v[i], &why);
        const char *reason = asked == DT_REFUSED ? why.text : NULL;
        const int64_t heard_us = dt_clock_mono_us(s->env.clock) - s->silent_us;
        s->answered |= asked != DT_BUSY;
        if (asked == DT_OK && s->n_ready == s->room) {
            const size_t room = s->room ? 2 * s->room : 256;
            struct ready *grown = realloc(s->ready, room * sizeof(*grown));
            s->ready = grown ? grown : s->ready;
            s->room = grown ? room : s->room;
            status = grown ? DT_OK : DT_NOMEM;
        }
        if (asked == DT_OK && status == DT_OK)
            s->ready[s->n_ready++] = (struct ready){v[i].owner, v[i].id};
        if (asked == DT_OK)
            continue;
        if (!reason && v[i].age_ms > KEPT_MS && heard_us > 1000 * KEPT_MS)
            reason = "its topic could not be written for an hour";
        struct waiting *w = NULL;
        if (!reason)
            HASH_FIND(hh, *owners, &v[i].owner, sizeof(v[i].owner), w);
        if (!reason && !w && (w = dt_arena_alloc(&s->arena, sizeof(*w)))) {
            *w = (struct waiting){.owner = v[i].owner};
            HASH_ADD(hh, *owners, owner, sizeof(w->owner), w);
        }
        if (w && ++w->n > WAITING && heard_us > CROWDED_US)
            reason = "too many answers of its owner wait for topics";
        s->waits |= !reason;
        if (!reason)
            continue;
        drop(s, v[i].topic, reason);
        dropped[n_dropped++] = v[i].id;
    }
    return status == DT_OK ? dt_store_command_answered(s->store, dropped, n_dropped, err)
                           : dt_fail(err, status, "out of memory");
}

static dt_status list_ready(dt_command_sender *s, struct dt_error *err)
{
    struct dt_command_answers_rows rows = {.more = true};
    struct waiting *owners = NULL;
    int64_t after = 0;
    dt_status status = DT_OK;
    s->n_ready = 0;
    s->waits = s->answered = false;
    pthread_mutex_lock(&s->lock);
    const size_t n = s->n_partitions;
    int64_t *partitions = dt_arena_alloc(&s->arena, (n + 1) * sizeof(*partitions));
    if (partitions && n)
        memcpy(partitions, s->partitions, n * sizeof(*partitions));
    pthread_mutex_unlock(&s->lock);
    if (!partitions)
        return dt_fail(err, DT_NOMEM, "out of memory");
    while (rows.more && status == DT_OK && !dt_chore_stopping(&s->chore)) {
        dt_arena_reset(&s->page);
        status = dt_store_list_command_answers(s->store, partitions, n, after, &s->page, &rows, err);
        after = rows.n ? rows.v[rows.n - 1].id : after;
        if (status == DT_OK)
            status = sort_out(s, rows.v, rows.n, &owners, err);
    }
    HASH_CLEAR(hh, owners);
    if (s->waits && !s->answered)
        s->silent_us = dt_clock_mono_us(s->env.clock);
    return status;
}

static int by_owner(const void *a, const void *b)
{
    const struct ready *x = a;
    const struct ready *y = b;
    return x->owner != y->owner ? (x->owner > y->owner ? 1 : -1) : (x->id > y->id) - (x->id < y->id);
}

/* An owner's rows. */
struct own {
    size_t first, n;
    int64_t id; /* of the first */
};

static int by_id(const void *a, const void *b)
{
    return (((const struct own *)a)->id > ((const struct own *)b)->id) -
           (((const struct own *)a)->id < ((const struct own *)b)->id);
}

/* Takes up to TOGETHER rows off `ready`, to send them together. Each owner gets an equal part, and sends its oldest
 * rows. */
static dt_status choose(dt_command_sender *s, int64_t ids[TOGETHER], size_t *n)
{
    size_t n_owners = 0;
    struct own *owners = dt_arena_alloc(&s->arena, (s->n_ready + 1) * sizeof(*owners));
    struct dt_fair_queue *queues = dt_arena_alloc(&s->arena, (s->n_ready + 1) * sizeof(*queues));
    *n = 0;
    if (!owners || !queues)
        return DT_NOMEM;
    if (s->n_ready)
        qsort(s->ready, s->n_ready, sizeof(*s->ready), by_owner);
    for (size_t i = 0; i < s->n_ready; i++) {
        if (i == 0 || s->ready[i].owner != s->ready[i - 1].owner)
            owners[n_owners++] = (struct own){.first = i, .id = s->ready[i].id};
        owners[n_owners - 1].n++;
    }
    if (n_owners)
        qsort(owners, n_owners, sizeof(*owners), by_id);
    for (size_t i = 0; i < n_owners; i++)
        queues[i] = (struct dt_fair_queue){.owner = s->ready[owners[i].first].owner, .waiting = owners[i].n};
    dt_fair_share(queues, n_owners, TOGETHER);
    for (size_t i = 0; i < n_owners; i++)
        for (size_t k = 0; k < queues[i].quota; k++) {
            dt_assert_cmp(*n, <, TOGETHER);
            ids[(*n)++] = s->ready[owners[i].first + k].id;
        }
    qsort(ids, *n, sizeof(*ids), dt_by_job_id);
    size_t left = 0;
    for (size_t i = 0; i < s->n_ready; i++)
        if (!bsearch(&s->ready[i].id, ids, *n, sizeof(*ids), dt_by_job_id))
            s->ready[left++] = s->ready[i];
    s->n_ready = left;
    return DT_OK;
}

/* ---- sending ---- */

/* Sends answers, and drops the ones that Kafka refuses. *stay: the rows with an answer that Kafka did not take. */
static dt_status send_answers(dt_command_sender *s, const struct dt_command_answers *answers, int64_t *stay,
                              size_t *n_stay, struct dt_error *err)
{
    struct dt_kafka_message *messages = dt_arena_alloc(&s->arena, (answers->n + 1) * sizeof(*messages));
    bool *sent = dt_arena_alloc(&s->arena, answers->n + 1);
    dt_status status = messages && sent ? DT_OK : DT_NOMEM;
    *n_stay = 0;
    for (size_t i = 0; i < answers->n && status == DT_OK; i++) {
        const struct dt_command_answer *a = &answers->v[i];
        struct dt_kafka_header *headers = dt_arena_alloc(&s->arena, (a->n_headers + 1) * sizeof(*headers));
        for (size_t k = 0; headers && k < a->n_headers; k++)
            headers[k] = (struct dt_kafka_header){a->headers[k].name, a->headers[k].value};
        messages[i] = (struct dt_kafka_message){
            .topic = a->topic, .key = a->key, .value = a->value, .headers = headers, .n_headers = a->n_headers};
        status = headers ? DT_OK : DT_NOMEM;
    }
    if (status != DT_OK)
        return dt_fail(err, status, "out of memory");
    memset(sent, 0, answers->n + 1);
    status = dt_notice_producer_send(s->notices, messages, answers->n, sent, SEND_MS, err);
    for (size_t i = 0; i < answers->n; i++) {
        struct bar *bar = sent[i] && s->bars ? bar_of(s, messages[i].topic) : NULL;
        dt_metric_add(s->sent, sent[i]);
        if (bar) {
            HASH_DEL(s->bars, bar);
            free(bar);
        }
        if (sent[i])
            continue;
        if (status == DT_REFUSED)
            drop(s, messages[i].topic, err->text);
        else if (*n_stay == 0 || stay[*n_stay - 1] != answers->v[i].row)
            stay[(*n_stay)++] = answers->v[i].row;
    }
    return status == DT_REFUSED ? DT_OK : status;
}

static dt_status send_some(dt_command_sender *s, struct dt_error *err)
{
    int64_t ids[TOGETHER];
    int64_t stay[TOGETHER];
    size_t n;
    size_t n_stay;
    struct dt_command_answers answers;
    dt_status status = choose(s, ids, &n);
    if (status != DT_OK)
        return dt_fail(err, status, "out of memory");
    if (!n)
        return DT_OK;
    status = dt_store_read_command_answers(s->store, s->json, ids, n, &s->arena, &answers, err);
    DT_FAIL_POINT_STATUS("commands.answer", status, err);
    if (status != DT_OK)
        return status;
    status = send_answers(s, &answers, stay, &n_stay, err);
    if (status != DT_OK && status != DT_UNAVAILABLE)
        return status;
    size_t kept = 0;
    for (size_t i = 0, k = 0; i < n; i++) { /* rows that stay are not removed; both lists ascend */
        if (k < n_stay && ids[i] == stay[k])
            k++;
        else
            ids[kept++] = ids[i];
    }
    n = kept;
    /* The topics of the rows that Kafka did not take are barred: longer each time if Kafka took other rows. */
    for (size_t i = 0, k = 0; i < answers.n && k < n_stay; i++) {
        if (answers.v[i].row != stay[k])
            continue;
        raise_bar(s, answers.v[i].topic, n > 0);
        k += i + 1 == answers.n || answers.v[i + 1].row != stay[k];
    }
    DT_FAIL_POINT_STATUS("commands.answered", status, err);
    dt_status removed = dt_store_command_answered(s->store, ids, n, err);
    return removed != DT_OK || n == 0 ? (removed != DT_OK ? removed : status) : DT_OK;
}

static int64_t tick(void *arg, void *store)
{
    dt_command_sender *s = arg;
    struct dt_error err = {0};
    const int64_t until_us = dt_clock_mono_us(s->env.clock) + AGAIN_US;
    s->store = store;
    dt_arena_reset(&s->arena);
    dt_status status = list_ready(s, &err);
    do {
        dt_arena_reset(&s->arena);
        if (status == DT_OK)
            status = send_some(s, &err);
    } while (status == DT_OK && s->n_ready && dt_clock_mono_us(s->env.clock) < until_us &&
             !dt_chore_stopping(&s->chore));
    if (status != DT_OK)
        return dt_chore_failed(&s->chore, dt_store_lost(store) ? DT_OUTAGE_MYSQL : DT_OUTAGE_KAFKA,
                               "answers to commands wait", status, &err, AGAIN_US);
    return s->n_ready ? 0 : dt_clock_mono_us(s->env.clock) + (s->waits ? ASK_US : LOOK_US);
}

/* ---- life ---- */

dt_status dt_command_sender_serve(dt_command_sender *s, const struct dt_command_place *places, size_t n)
{
    int64_t *partitions = malloc((n + 1) * sizeof(*partitions));
    if (!partitions)
        return DT_NOMEM;
    for (size_t i = 0; i < n; i++)
        partitions[i] = places[i].partition;
    pthread_mutex_lock(&s->lock);
    free(s->partitions);
    s->partitions = partitions;
    s->n_partitions = n;
    pthread_mutex_unlock(&s->lock);
    dt_command_sender_wake(s);
    return DT_OK;
}

void dt_command_sender_wake(dt_command_sender *s)
{
    dt_chore_wake(&s->chore);
}

static void on_topic_known(void *arg)
{
    dt_command_sender_wake(arg);
}

dt_status dt_command_sender_start(const struct dt_intake_env *intake, const struct dt_kafka_env *kafka,
                                  dt_command_sender **out, struct dt_error *err)
{
    const char *name = "duetime_command_answers_total";
    const char *help = "Answers to commands, and commands that were refused, by whether Kafka took them.";
    dt_command_sender *s = calloc(1, sizeof(*s));
    if (!s)
        return DT_NOMEM;
    s->env = *intake;
    s->silent_us = dt_clock_mono_us(s->env.clock);
    pthread_mutex_init(&s->lock, NULL);
    dt_arena_init(&s->arena);
    dt_arena_init(&s->page);
    s->sent = dt_counter(name, help, "outcome=\"sent\"");
    s->dropped = dt_counter(name, help, "outcome=\"dropped\"");
    s->chore = (struct dt_chore){.name = "command-answers", .tick = tick, .arg = s, .waits = true};
    dt_status status = dt_json_new(&s->json);
    if (status == DT_OK)
        status = dt_notice_producer_new(kafka, &s->notices, err);
    if (status == DT_OK)
        status = dt_kafka_asker_new(kafka->admin, on_topic_known, s, &s->asker);
    if (status != DT_OK) {
        dt_command_sender_stop(s);
        return status;
    }
    dt_chores_add(intake->chores, &s->chore);
    *out = s;
    return DT_OK;
}

void dt_command_sender_stop(dt_command_sender *s)
{
    if (!s)
        return;
    dt_chore_remove(&s->chore);
    struct bar *bar;
    struct bar *next;
    HASH_ITER(hh, s->bars, bar, next)
    {
        HASH_DEL(s->bars, bar);
        free(bar);
    }
    dt_kafka_asker_free(s->asker);
    dt_notice_producer_free(s->notices);
    dt_json_free(s->json);
    dt_arena_clear(&s->arena);
    dt_arena_clear(&s->page);
    free(s->ready);
    free(s->partitions);
    pthread_mutex_destroy(&s->lock);
    free(s);
}
