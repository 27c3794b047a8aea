/*
 * The sender of the outbox. A round:
 *
 *   record outcomes ─▶ list due messages of our senders ─▶ choose, take, send, record: repeated for up to a second
 *
 * Messages are sent at least once: if the process is killed after it has sent a message and before it has deleted it,
 * the message is sent again with the same id. A round usually starts because the chore was woken. The chore of each
 * kind also starts regular rounds, for messages of processes that died.
 *
 * All retries follow one rule: a message that did not arrive is put off in MySQL, each time for twice as long. Messages
 * that were never tried are sent first. If a Kafka topic did not accept an answer in time, other answers for this topic
 * wait until that answer is due again.
 *
 * No message waits for long:
 * - Senders take turns: a round starts reading after the last sender whose message was sent, and reads a limited number
 *   of messages.
 * - Owners take turns among the messages that were read; for dead letters, shards take turns.
 * - A webhook occupies a place until its receiver answers, or until a timeout. So webhooks to URLs of topics and to the
 *   URL of the installation have separate places, owners share the places of topics, and the hosts of an owner share
 *   the owner's places. If there is no place for a message, it waits in MySQL.
 *
 * Messages of kinds that go to webhooks are put off in MySQL before they are sent, as by a lease, because another
 * process may become their sender while webhooks are under way.
 */

#include "base/fail_point.h"
#include "base/http/callback_rules.h"
#include "base/log.h"
#include "outbox_parts.h"

#define ROUND_US      INT64_C(1000000) /* longest time of a round; further messages wait for the next round */
#define FAILED_US     INT64_C(1000000) /* pause after a failure of MySQL, or if all places for a webhook were taken */
#define GATHER_US     INT64_C(250000)  /* shortest pause after a round in which all places for a webhook were taken */
#define ASK_US        INT64_C(200000)  /* pause while the program finds out whether Kafka topics can be written */
#define LEASE_MS      INT64_C(15000)   /* lease of a message; longer than a webhook or a send to Kafka may take */
#define TOPIC_KEPT_MS INT64_C(3600000) /* an answer is dropped if its Kafka topic cannot be written for this time */
#define WAITING       2048             /* most answers of an owner that wait for Kafka topics */
/* an owner's answers beyond WAITING are dropped only if Kafka has answered for at least this time */
#define CROWDED_US INT64_C(60000000)

const struct dt_outbox_kind dt_outbox_letters = {.kind = DT_MESSAGE_DEAD,
                                                 .chore = "outbox",
                                                 .waits = "dead letters are not sent to Kafka",
                                                 .listed = 2000,
                                                 .together = 500,
                                                 .timeout_ms = 10000,
                                                 .look_us = 10000000,
                                                 .failed_us = 500000,
                                                 .again_ms = 500,
                                                 .again_most_ms = 10000};
const struct dt_outbox_kind dt_outbox_answers = {.kind = DT_MESSAGE_ANSWERS,
                                                 .chore = "command-answers",
                                                 .waits = "answers to commands are not sent",
                                                 .listed = 16384,
                                                 .together = 16,
                                                 .timeout_ms = 10000,
                                                 .look_us = 60000000,
                                                 .failed_us = 1000000,
                                                 .again_ms = 5000,
                                                 .again_most_ms = 20000};

static int64_t mono_us(const dt_outbox *o)
{
    return dt_clock_mono_us(o->env.clock);
}

/* Returns the monotonic time of at_ms, but not later than the next regular round: after a manual edit, at_ms may be any
 * time. */
static int64_t next_round_at_us(const dt_outbox *o, int64_t now_ms, int64_t at_ms)
{
    const int64_t look_ms = o->kind->look_us / 1000;
    const int64_t left_ms = at_ms < now_ms ? 0 : dt_earlier(at_ms, now_ms + look_ms) - now_ms;
    return mono_us(o) + 1000 * left_ms;
}

/* ---- places of webhooks ---- */

static void release_places(dt_outbox *o, const struct dt_flight *f)
{
    if (!dt_outbox_is_webhook(&f->row))
        return;
    dt_shares_give_back(&o->places[f->row.target], f->row.owner, 1);
    if (f->row.target == DT_TO_TOPICS_URL)
        dt_shares_give_back(&o->at_host, f->host, 1);
}

/* Takes the places that a webhook needs (a place is one webhook under way). Returns false if the owner or
 * the host already uses all places that it may have. */
static bool reserve_places(dt_outbox *o, struct dt_flight *f)
{
    struct dt_outbox_way way = {.url = DT_STR_NONE};
    struct dt_shares *places = &o->places[f->row.target];
    if (!dt_shares_take(places, f->row.owner, 1, mono_us(o)))
        return false;
    if (f->row.target == DT_TO_OUR_URL)
        return true;
    const bool read = o->kind->way(o->env.config, o->json, &f->row, &o->round, &way) == DT_OK;
    dt_callback_secret_wipe(&way.secret);
    f->host = f->row.owner ^ ((int64_t)dt_callback_host_of(read ? way.url : DT_STR_NONE) << 31);
    if (dt_shares_take(&o->at_host, f->host, 1, mono_us(o)))
        return true;
    dt_shares_give_back(places, f->row.owner, 1);
    return false;
}

/* ---- outcomes of messages ---- */

static void log_dropped(dt_outbox *o, struct dt_str topic, const char *why, int64_t n)
{
    DT_LOG_PER_TOPIC(WARN, "commands", "an answer to a command is dropped", topic, DT_S("reason", why));
    dt_metric_add(o->env.dropped, n);
}

static void count_outcome(dt_outbox *o, const struct dt_flight *f)
{
    const bool failed = f->outcome == DT_OUTBOX_FAILED;
    dt_metric_add(o->env.sent, f->arrived);
    if (o->kind->kind == DT_MESSAGE_ANSWERS && f->refused)
        log_dropped(o, dt_str(f->topic), f->why, f->refused);
    if (!o->kind->text || !failed)
        return;
    dt_metric_add(o->env.failed, 1);
    if (f->row.tries == 0)
        DT_LOG_PER_TOPIC(WARN, o->kind->area, o->kind->failed, dt_str(f->topic), DT_I("message", f->row.id),
                         DT_S("reason", f->why));
}

static void run_fail_points(const dt_outbox *o, dt_status *status, struct dt_error *err)
{
    (void)status, (void)err;
    if (o->kind->kind == DT_MESSAGE_DEAD)
        DT_FAIL_POINT("outbox.sent");
    else if (o->kind->kind == DT_MESSAGE_ANSWERS)
        DT_FAIL_POINT_STATUS("commands.answered", *status, err);
    else
        DT_FAIL_POINT("messages.sent");
}

/* Records the outcomes of the messages whose sending has ended. *any (any may be NULL): set if there were such
 * messages. If an outcome cannot be recorded, its message is sent again later. */
static dt_status record_outcomes(dt_outbox *o, bool *any, struct dt_error *err)
{
    size_t n = 0;
    size_t n_gone = 0;
    size_t n_failed = 0;
    pthread_mutex_lock(&o->lock);
    struct dt_flight *ended = o->ended;
    o->ended = NULL;
    pthread_mutex_unlock(&o->lock);
    for (const struct dt_flight *f = ended; f; f = f->next)
        n++;
    if (any)
        *any |= n > 0;
    int64_t *gone = dt_arena_alloc(&o->texts, (n + 1) * sizeof(*gone));
    struct dt_message_try *failed = dt_arena_alloc(&o->texts, (n + 1) * sizeof(*failed));
    for (struct dt_flight *f = ended; f; f = f->next) {
        release_places(o, f);
        count_outcome(o, f);
        if (f->outcome == DT_OUTBOX_GONE && gone)
            gone[n_gone++] = f->row.id;
        if (f->outcome == DT_OUTBOX_GONE || !failed)
            continue;
        const int64_t longer_ms = o->kind->again_ms << (f->row.tries < 0 ? 0 : f->row.tries < 16 ? f->row.tries : 16);
        const int64_t pause_ms = dt_earlier(longer_ms, o->kind->again_most_ms);
        const bool taken = o->kind->text; /* postpone_messages has counted this try already */
        failed[n_failed++] = (struct dt_message_try){.id = f->row.id,
                                                     .tries = f->row.tries + taken,
                                                     .counts = !taken,
                                                     .after_ms = pause_ms,
                                                     .why = dt_str(f->why)};
    }
    dt_status status = gone && failed ? DT_OK : dt_fail(err, DT_NOMEM, "out of memory");
    if (n_gone)
        run_fail_points(o, &status, err);
    DT_THEN(status, dt_store_delete_messages(o->store, gone, n_gone, err));
    DT_THEN(status, dt_store_put_off_messages(o->store, failed, n_failed, err));
    status = status == DT_VERSION ? DT_OK : status;
    for (struct dt_flight *next; ended; ended = next) {
        next = ended->next;
        free(ended);
    }
    return status;
}

/* ---- which messages may be sent ---- */

/* The number of an owner's answers that wait for Kafka topics. */
struct waiting {
    UT_hash_handle hh;
    int64_t owner;
    size_t n;
};

struct round {
    const struct dt_message_row **v; /* messages that may be sent, in the order of their turns */
    /* at: index of the next message to send; each earlier message was sent, or has to wait for a place */
    size_t n, room, at;
    int64_t now_ms;  /* MySQL's clock */
    int64_t next_us; /* mono: when the next round must begin at the latest, according to the messages read so far */
    /* waits: an answer waits for its Kafka topic; answered: Kafka has answered about at least one topic */
    bool waits, answered;
    bool crowded;           /* a webhook could not be sent, because all places were taken */
    bool progress;          /* due messages may be left to read, so another round begins at once */
    bool asked;             /* a message was sent to Kafka */
    struct waiting *owners; /* owners with waiting answers; in the arena */
    struct dt_error *err;
};

enum verdict { SEND, WAIT, DROP };

/* Decides whether the answers in a row of the outbox can be sent now: their Kafka topic may not exist yet. */
static enum verdict judge_answers(dt_outbox *o, struct round *r, const struct dt_message_row *m)
{
    struct dt_error why = {0};
    struct waiting *w = NULL;
    /* A row that an earlier version wrote has no Kafka topic; each of its answers names one. */
    const dt_status asked = m->barred_ms       ? DT_BUSY
                            : m->kafka_topic.n ? o->env.kafka->ask(o->env.kafka->arg, m->kafka_topic, m->owner, &why)
                                               : DT_OK;
    const int64_t heard_us = mono_us(o) - o->silent_us;
    const char *reason = asked == DT_REFUSED ? why.text : NULL;
    r->answered |= asked == DT_OK || asked == DT_REFUSED;
    if (asked == DT_OK)
        return SEND;
    if (!reason && r->now_ms - m->made_ms > TOPIC_KEPT_MS && heard_us > 1000 * TOPIC_KEPT_MS)
        reason = "its topic could not be written for an hour";
    if (!reason)
        HASH_FIND(hh, r->owners, &m->owner, sizeof(m->owner), w);
    if (!reason && !w && (w = dt_arena_alloc(&o->round, sizeof(*w)))) {
        *w = (struct waiting){.owner = m->owner};
        HASH_ADD(hh, r->owners, owner, sizeof(w->owner), w);
    }
    if (w && ++w->n > WAITING && heard_us > CROWDED_US)
        reason = "too many answers of its owner wait for topics";
    if (reason) {
        log_dropped(o, m->kafka_topic, reason, 1);
        return DROP;
    }
    r->waits = true;
    r->next_us =
        dt_earlier(r->next_us, m->barred_ms ? next_round_at_us(o, r->now_ms, m->barred_ms) : mono_us(o) + ASK_US);
    return WAIT;
}

static enum verdict judge_message(dt_outbox *o, struct round *r, const struct dt_message_row *m)
{
    if (o->kind->kind == DT_MESSAGE_ANSWERS)
        return judge_answers(o, r, m);
    if (!o->kind->text || r->now_ms - m->made_ms <= o->kind->kept_ms)
        return dt_outbox_is_webhook(m) || o->env.kafka ? SEND : DROP;
    dt_metric_add(o->env.dropped, 1);
    DT_LOG_PER_TOPIC(WARN, o->kind->area, o->kind->given_up, m->topic, DT_I("message", m->id), DT_I("alert", m->alert),
                     DT_I("tries", m->tries));
    return DROP;
}

/* Adds the messages of a page that may be sent to r->v, and deletes those that are dropped. Stops at the first message
 * that is not due yet. */
static dt_status judge_page(dt_outbox *o, struct round *r, struct dt_message_page *page)
{
    int64_t *dropped = dt_arena_alloc(&o->round, (page->n + 1) * sizeof(*dropped));
    size_t n_dropped = 0;
    if (r->n + page->n > r->room) {
        r->room = 2 * (r->n + page->n);
        const struct dt_message_row **v = dt_arena_alloc(&o->round, r->room * sizeof(*v));
        if (v && r->n)
            memcpy(v, r->v, r->n * sizeof(*v));
        r->v = v;
    }
    if (!dropped || (page->n && !r->v))
        return dt_fail(r->err, DT_NOMEM, "out of memory");
    for (size_t i = 0; i < page->n; i++) {
        const struct dt_message_row *m = &page->v[i];
        if (m->next_ms > r->now_ms) {
            r->next_us = dt_earlier(r->next_us, next_round_at_us(o, r->now_ms, m->next_ms));
            page->more = false;
            break;
        }
        const enum verdict verdict = judge_message(o, r, m);
        if (verdict == SEND)
            r->v[r->n++] = m;
        else if (verdict == DROP)
            dropped[n_dropped++] = m->id;
    }
    r->progress |= n_dropped > 0;
    return dt_store_delete_messages(o->store, dropped, n_dropped, r->err);
}

static int compare_messages_by_id(const void *a, const void *b)
{
    const int64_t x = (*(const struct dt_message_row *const *)a)->id;
    const int64_t y = (*(const struct dt_message_row *const *)b)->id;
    return DT_ORDER(x, y);
}

static int64_t owner_of_turn(const dt_outbox *o, const struct dt_message_row *m)
{
    return o->kind->kind == DT_MESSAGE_DEAD ? m->sender : m->owner;
}

/* Sorts the messages so that owners take turns. The answers of an owner are sent in the order of the commands, even if
 * an answer was put off. */
static dt_status sort_by_turns(dt_outbox *o, struct round *r)
{
    struct dt_turn *turns = dt_arena_alloc(&o->round, (r->n + 1) * sizeof(*turns));
    const struct dt_message_row **v = dt_arena_alloc(&o->round, (r->n + 1) * sizeof(*v));
    if (!turns || !v)
        return dt_fail(r->err, DT_NOMEM, "out of memory");
    if (o->kind->kind == DT_MESSAGE_ANSWERS && r->n)
        qsort(r->v, r->n, sizeof(*r->v), compare_messages_by_id);
    for (size_t i = 0; i < r->n; i++)
        turns[i] = (struct dt_turn){.owner = owner_of_turn(o, r->v[i]), .at = i};
    dt_turns_sort(&o->turns, turns, r->n);
    for (size_t i = 0; i < r->n; i++)
        v[i] = r->v[turns[i].at];
    r->v = v;
    return DT_OK;
}

static dt_status list_messages(dt_outbox *o, struct round *r)
{
    struct dt_senders senders;
    size_t first = 0;
    dt_status status = dt_store_senders(o->store, o->kind->kind, &o->round, &senders, r->err);
    if (status != DT_OK)
        return status;
    r->now_ms = senders.now_ms;
    while (first < senders.n && senders.v[first].sender <= o->after)
        first++;
    for (size_t i = 0; i < senders.n && status == DT_OK && !dt_chore_stopping(&o->chore); i++) {
        const struct dt_sender *s = &senders.v[(first + i) % senders.n];
        /* Messages for Kafka wait for a process that writes to Kafka. If the installation has no Kafka, every process
         * reads them, and drops them. */
        struct dt_message_page page = {.kind = o->kind->kind,
                                       .sender = s->sender,
                                       .now_ms = r->now_ms,
                                       .kafka = o->env.kafka || !dt_config_has_kafka(o->env.config),
                                       .more = true};
        if (!o->env.ours(o->env.arg, s->sender))
            continue;
        if (s->next_ms > r->now_ms)
            r->next_us = dt_earlier(r->next_us, next_round_at_us(o, r->now_ms, s->next_ms));
        while (s->next_ms <= r->now_ms && page.more && r->n < o->kind->listed && status == DT_OK) {
            status = dt_store_messages(o->store, &page, &o->round, r->err);
            if (o->kind->kind == DT_MESSAGE_DEAD)
                DT_FAIL_POINT_STATUS("outbox.read", status, r->err);
            DT_THEN(status, judge_page(o, r, &page));
        }
        r->progress |= page.more && s->next_ms <= r->now_ms;
    }
    return status == DT_OK ? sort_by_turns(o, r) : status;
}

/* ---- sending messages ---- */

/* Chooses the messages that are sent together, and makes a flight (a message that is being sent) for each. */
static dt_status choose_messages(dt_outbox *o, struct round *r, struct dt_flight **flights, size_t *n)
{
    size_t for_kafka = 0;
    for (; r->at < r->n; r->at++) {
        const struct dt_message_row *m = r->v[r->at];
        struct dt_flight f = {.outbox = o, .row = *m};
        const struct dt_str topic = o->kind->kind == DT_MESSAGE_ANSWERS ? m->kafka_topic : m->topic;
        const bool webhook = dt_outbox_is_webhook(m);
        if (!webhook && for_kafka == o->kind->together)
            break;
        if (webhook && !reserve_places(o, &f)) {
            r->crowded = true;
            continue;
        }
        snprintf(f.topic, sizeof(f.topic), "%.*s", (int)topic.n, topic.n ? topic.p : "");
        if (!(flights[*n] = malloc(sizeof(f)))) {
            release_places(o, &f);
            return dt_fail(r->err, DT_NOMEM, "out of memory");
        }
        *flights[(*n)++] = f;
        for_kafka += !webhook;
        dt_turns_note(&o->turns, owner_of_turn(o, m), 0);
        o->after = m->sender;
    }
    r->asked |= for_kafka > 0;
    return DT_OK;
}

static int compare_flights_by_id(const void *a, const void *b)
{
    const int64_t x = (*(struct dt_flight *const *)a)->row.id;
    const int64_t y = (*(struct dt_flight *const *)b)->row.id;
    return DT_ORDER(x, y);
}

/* Puts the messages off before they are sent, so that no other process sends them meanwhile. */
static dt_status postpone_messages(dt_outbox *o, struct dt_flight *const *flights, size_t n, struct dt_error *err)
{
    struct dt_message_try *v = dt_arena_alloc(&o->texts, (n + 1) * sizeof(*v));
    if (!v)
        return dt_fail(err, DT_NOMEM, "out of memory");
    for (size_t i = 0; i < n; i++)
        v[i] = (struct dt_message_try){
            .id = flights[i]->row.id, .tries = flights[i]->row.tries, .counts = true, .after_ms = LEASE_MS};
    return dt_store_put_off_messages(o->store, v, n, err);
}

/* Sends the next messages. *kafka: status of the send to Kafka; why: its error. */
static dt_status send_next_messages(dt_outbox *o, struct round *r, dt_status *kafka, struct dt_error *why)
{
    size_t n = 0;
    dt_arena_reset(&o->texts);
    struct dt_flight **flights = dt_arena_alloc(&o->texts, (r->n - r->at) * sizeof(struct dt_flight *));
    dt_status status = flights ? choose_messages(o, r, flights, &n) : dt_fail(r->err, DT_NOMEM, "out of memory");
    if (n)
        qsort(flights, n, sizeof(struct dt_flight *), compare_flights_by_id);
    if (status == DT_OK && o->kind->text)
        status = postpone_messages(o, flights, n, r->err);
    DT_THEN(status, dt_outbox_send(o, flights, n, r->now_ms, kafka, why, r->err));
    if (status == DT_OK)
        return record_outcomes(o, &r->progress, r->err);
    for (size_t i = 0; i < n; i++) {
        release_places(o, flights[i]);
        free(flights[i]);
    }
    return status;
}

static int64_t tick_outbox(void *arg, void *store)
{
    dt_outbox *o = arg;
    const int64_t began_us = mono_us(o);
    struct dt_error err = {0};
    struct dt_error why = {0};
    struct round r = {.next_us = began_us + o->kind->look_us, .err = &err};
    dt_status kafka = DT_OK;
    o->store = store;
    dt_arena_reset(&o->round);
    dt_arena_reset(&o->texts);
    /* Records the webhooks that ended since the last round. If there were some, that does not cause another round. */
    dt_status status = record_outcomes(o, NULL, &err);
    DT_THEN(status, list_messages(o, &r));
    HASH_CLEAR(hh, r.owners);
    while (status == DT_OK && (kafka == DT_OK || kafka == DT_REFUSED) && r.at < r.n &&
           mono_us(o) - began_us < ROUND_US && !dt_chore_stopping(&o->chore))
        status = send_next_messages(o, &r, &kafka, &why);
    if (r.waits && !r.answered)
        o->silent_us = mono_us(o);
    if (status != DT_OK && status != DT_VERSION)
        return dt_chore_failed(&o->chore, DT_OUTAGE_MYSQL, o->kind->waits, status, &err, FAILED_US);
    if (status == DT_VERSION || r.crowded)
        r.next_us = dt_earlier(r.next_us, mono_us(o) + FAILED_US);
    o->chore.not_before_us = r.crowded ? mono_us(o) + GATHER_US : 0;
    if (r.asked)
        o->kafka_failed = kafka != DT_OK;
    /* An outage of Kafka lasts until a message was sent to Kafka. A round without one does not change it. */
    o->chore.idle = o->kafka_failed && !r.asked;
    if (kafka != DT_OK) /* REFUSED: Kafka refused only some messages, so others may be sent at once */
        return dt_chore_failed(&o->chore, DT_OUTAGE_KAFKA, o->kind->waits, kafka, &why,
                               kafka == DT_REFUSED ? 0 : o->kind->failed_us);
    return r.at < r.n || r.progress ? mono_us(o) : r.next_us;
}

void dt_outbox_wake(dt_outbox *o)
{
    if (o)
        dt_chore_wake(&o->chore);
}

dt_status dt_outbox_start(const struct dt_outbox_env *env, dt_outbox **out)
{
    dt_outbox *o = *out = calloc(1, sizeof(*o));
    if (!o)
        return DT_NOMEM;
    o->env = *env;
    o->kind = env->kind;
    o->after = INT64_MIN;
    o->silent_us = mono_us(o);
    pthread_mutex_init(&o->lock, NULL);
    o->places[DT_TO_TOPICS_URL] = o->places[DT_TO_OUR_URL] = o->at_host =
        (struct dt_shares){.total = DT_OUTBOX_PLACES, .part = 2};
    o->chore = (struct dt_chore){.name = o->kind->chore, .tick = tick_outbox, .arg = o, .waits = true};
    dt_status status = dt_json_new(&o->json);
    if (status == DT_OK) {
        dt_chores_add(env->chores, &o->chore);
    } else {
        dt_outbox_stop(o);
        *out = NULL;
    }
    return status;
}

void dt_outbox_stop(dt_outbox *o)
{
    if (!o)
        return;
    dt_chore_remove(&o->chore);
    dt_http_client_free(o->client); /* ends all webhooks that are under way */
    for (struct dt_flight *next; o->ended; o->ended = next) {
        next = o->ended->next;
        free(o->ended);
    }
    dt_shares_clear(&o->places[DT_TO_TOPICS_URL]);
    dt_shares_clear(&o->places[DT_TO_OUR_URL]);
    dt_shares_clear(&o->at_host);
    dt_json_free(o->json);
    dt_arena_clear(&o->round);
    dt_arena_clear(&o->texts);
    pthread_mutex_destroy(&o->lock);
    free(o);
}
