/*
 * The transaction in which messages are carried out (commands.h).
 *
 *   lock the partitions' rows, which must have the expected offsets ─▶ decode ─▶ carry out one run after the other
 *   ─▶ raise the offsets ─▶ write answers
 *
 * A run is a sequence of messages that are carried out together: changes of jobs, reports, or one change of a topic.
 * All reports of a run are applied by the same statements. If one of their jobs is locked, they are applied again, one
 * by one.
 *
 * Answers: a refused message is sent unchanged to the topic of refused messages, with its problem in an additional
 * header. If a message names a topic for its answer, the body of REST's answer is sent to that topic, with the HTTP
 * status in a header.
 */
#include "base/assert.h"
#include "base/fail_point.h"
#include "base/guard.h"
#include "base/text/json_write.h"
#include "commands.h"
#include "intents.h"
#include "intents_txn.h"
#include "job/change/jobs.h"
#include "job/change/jobs_txn.h"
#include "job/job_json.h"
#include "job/job_state.h"
#include "job/results/results.h"
#include "mysql/id_in.h"
#include "mysql/statements.h"
#include "topic/topics.h"

#define REPLY_MAX 1000000 /* most bytes of an answer, below Kafka's default limit of a message */

struct carrying {
    struct dt_command_taker *taker;
    struct dt_command_batch *batch;
    bool refuse_all, singly, reports_singly;
    struct dt_command *commands; /* one for each message, in the order of the batch */
    struct dt_intent *intents;
    struct dt_apply *reports; /* memory for the reports that one run (messages carried out together) applies at once */
    /* for intents; each run (messages carried out together) passes its part of the intents */
    struct dt_intents_txn txn;
    struct dt_counts counts;
    struct dt_command_answers answers; /* answers, at most two for each message */
    struct dt_str topic;               /* topic that was read last for an answer; absent: none yet */
    bool paused;                       /* the last topic is paused */
    enum dt_dealing dealing;
    struct dt_job_move *moves;
    size_t n_moves;
    size_t agreed; /* number of partitions whose row in MySQL has the expected offset */
    dt_db *db;
    int64_t now_ms;
    struct dt_error *err;
};

/* ---- the partitions' rows ---- */

static dt_status compare_stored_offset(void *arg)
{
    struct carrying *c = arg;
    for (size_t i = 0; i < c->batch->n_places; i++)
        if (c->batch->places[i].partition == dt_db_i64(c->db, 0))
            c->agreed += c->batch->places[i].next == dt_db_i64(c->db, 1);
    return DT_OK;
}

static dt_status lock_partition_offsets(struct carrying *c)
{
    struct dt_command_batch *b = c->batch;
    int64_t *ids = dt_arena_alloc(&c->taker->arena, (b->n_places + 1) * sizeof(*ids));
    size_t n = 0;
    if (!ids)
        return dt_fail(c->err, DT_NOMEM, "out of memory");
    for (size_t i = 0; i < b->n_places; i++) {
        b->places[i].touched = b->places[i].stopped = false;
        b->places[i].up_to = NULL;
    }
    for (size_t i = 0; i < b->n; i++)
        b->v[i].place->touched = true;
    for (size_t i = 0; i < b->n_places; i++)
        if (b->places[i].touched)
            ids[n++] = b->places[i].partition;
    c->agreed = 0;
    dt_status status = dt_id_in_read(c->db, &dt_sql_lock_command_offsets, DT_NO_PARAMS, DT_IDS(ids, n),
                                     compare_stored_offset, c, c->err);
    return status == DT_OK && !DT_GUARD(COMMAND_PLACE, c->agreed == n)
               ? dt_fail(c->err, DT_DEPOSED, "another reader has advanced the offset")
               : status;
}

static dt_status advance_partition_offsets(struct carrying *c)
{
    struct dt_strbuf list = {0};
    uint64_t changed = 0;
    uint64_t n = 0;
    dt_json_begin_array(&list, NULL);
    for (size_t i = 0; i < c->batch->n_places; i++) {
        const struct dt_command_place *place = &c->batch->places[i];
        const struct dt_command_message *m = place->up_to;
        unsigned char digest[16];
        if (!m)
            continue;
        dt_command_digest(m->key, m->value, m->timestamp_ms, digest);
        dt_json_begin_array(&list, NULL);
        dt_json_put_int(&list, NULL, place->partition);
        dt_json_put_int(&list, NULL, place->next);
        dt_json_put_int(&list, NULL, m->offset + 1);
        dt_json_put_int(&list, NULL, m->offset);
        dt_json_put_hex(&list, NULL, (struct dt_str){(const char *)digest, sizeof(digest)});
        dt_json_end_array(&list);
        n++;
    }
    dt_json_end_array(&list);
    dt_status status = DT_OK;
    if (n > 0)
        status = dt_db_run(c->db, dt_sql_set_command_offsets, DT_PARAMS(DT_P_BUF(&list), DT_P_INT(c->now_ms)), &changed,
                           c->err);
    dt_strbuf_clear(&list);
    return status == DT_OK && !DT_GUARD(COMMAND_PLACE, changed == n)
               ? dt_fail(c->err, DT_DEPOSED, "another reader has advanced the offset")
               : status;
}

/* ---- decoding ---- */

static void refuse_command(struct dt_intent *x, enum dt_problem_type type, struct dt_str detail)
{
    x->outcome = DT_INTENT_REFUSED;
    x->problem = (struct dt_problem){.type = type, .detail = detail};
}

/* Returns why no answer may be sent to this topic, because a reader of the topic could take the answer for a message of
 * another service. NULL: answers may be sent to it. */
static const char *check_reply_to(const struct carrying *c, struct dt_str topic)
{
    const char *allowed = dt_store_config(c->taker->store)->kafka_allow_topics;
    const char *reason = dt_topic_check(topic, c->taker->rules.installation);
    if (reason)
        return reason;
    if (dt_kafka_topic_internal(topic))
        return "is internal to an installation";
    bool fine = dt_str_ends(topic, DT_STR_LIT(".replies")) || dt_topic_listed(allowed, topic);
    return fine ? NULL : "must end with .replies, or be among kafka.allow_topics";
}

static dt_status decode_commands(struct carrying *c)
{
    struct dt_command_taker *t = c->taker;
    const struct dt_config *config = dt_store_config(t->store);
    const struct dt_intent_decoder with = {
        .rules = &t->rules, .json = t->json, .arena = &t->arena, .now_ms = c->now_ms};
    dt_status status = DT_OK;
    for (size_t i = 0; i < c->batch->n && status == DT_OK; i++) {
        const struct dt_command_message *m = &c->batch->v[i];
        /* With a test clock, delays count from now_ms, because the sender's timestamp is in real time. */
        const struct dt_command_text text = {.value = m->value,
                                             .timestamp_ms = config->installation_test_clock ? 0 : m->timestamp_ms};
        struct dt_intent *x = &c->intents[i];
        c->commands[i].intent = x;
        status = dt_command_message_decode(&with, &text, &c->commands[i]);
        const char *reason = status == DT_OK && m->reply_to.p ? check_reply_to(c, m->reply_to) : NULL;
        if (reason) { /* the sender would wait for ever for an answer that may not be sent, so nothing is carried out */
            const struct dt_str detail = dt_arena_printf(&t->arena, "header reply_to: %s", reason);
            refuse_command(x, DT_PROBLEM_INVALID, detail);
            status = detail.p ? DT_OK : DT_NOMEM;
        }
        if (c->refuse_all)
            refuse_command(x, DT_PROBLEM_INTERNAL, DT_STR_LIT("the message cannot be processed"));
        x->patient = m->patient;
        x->stopped = &m->place->stopped;
    }
    return status == DT_OK ? status : dt_fail(c->err, status, "%s", dt_status_text(status));
}

/* ---- reports ---- */

/* Returns whether to carry the message out: it is not refused, and no earlier message of its partition waits. */
static bool may_carry_out(struct dt_intent *x)
{
    if (*x->stopped)
        x->outcome = DT_INTENT_WAITS;
    return !*x->stopped && x->outcome != DT_INTENT_REFUSED;
}

/* Finds the job that a report is for. If there is no such job, refuses the command. */
static dt_status find_reported_job(struct carrying *c, struct dt_command *command)
{
    struct dt_intent *x = command->intent;
    dt_status status = DT_OK;
    if (!command->result.job_id)
        status = dt_key_find(c->db, x->topic, x->key, &command->result.job_id, c->err);
    else if (x->topic.p) { /* if the command has both an id and a topic, the job must be in that topic */
        const struct dt_change_txn txn = {.store = c->taker->store, .db = c->db, .arena = &c->taker->arena};
        struct dt_job job;
        status = dt_job_read_in_txn(&txn, command->result.job_id, &job, c->err);
        if (status == DT_OK && !dt_str_eq(job.topic, x->topic))
            status = DT_NOT_FOUND;
    }
    if (status == DT_NOT_FOUND)
        refuse_command(x, DT_PROBLEM_NOT_FOUND, DT_STR_LIT("no such job"));
    return status == DT_NOT_FOUND ? DT_OK : status;
}

static void settle_report(struct carrying *c, struct dt_command *command, const struct dt_apply *a)
{
    struct dt_intent *x = command->intent;
    command->outcome = a->outcome;
    x->outcome = DT_INTENT_DONE;
    if (a->outcome == DT_OUTCOME_UNKNOWN_JOB)
        refuse_command(x, DT_PROBLEM_NOT_FOUND, DT_STR_LIT("no such job"));
    if (a->outcome == DT_OUTCOME_BUSY) {
        x->outcome = DT_INTENT_WAITS;
        *x->stopped = true;
    }
    if (a->outcome != DT_OUTCOME_APPLIED)
        return;
    dt_assert_cmp(c->batch->n_dead, <, c->batch->n);
    if (a->outbox)
        c->batch->dead[c->batch->n_dead++] = a->result.job_id;
    for (size_t k = 0; k < DT_WAS_MAX; k++)
        if (k == 0 || a->was_ms[k])
            c->moves[c->n_moves++] =
                (struct dt_job_move){.id = a->result.job_id, .due_ms = a->next_at_ms, .was_ms = a->was_ms[k]};
}

static dt_status run_reports(struct carrying *c, size_t from, size_t n)
{
    const struct dt_results_txn txn = {.db = c->db,
                                       .config = dt_store_config(c->taker->store),
                                       .map = &c->batch->map,
                                       .now_ms = c->now_ms,
                                       .locking = DT_LOCK_PASSING_BY,
                                       .counts = &c->counts,
                                       .arena = &c->taker->arena};
    struct dt_apply *v = &c->reports[from];
    size_t n_open = 0;
    size_t k = 0;
    dt_status status = DT_OK;
    for (size_t i = from; i < from + n && status == DT_OK; i++) {
        if (!may_carry_out(&c->intents[i]))
            continue;
        status = find_reported_job(c, &c->commands[i]);
        if (c->intents[i].outcome != DT_INTENT_REFUSED)
            v[n_open++] = (struct dt_apply){.result = c->commands[i].result};
    }
    if (status == DT_OK && n_open)
        status = dt_results_apply_within(&txn, v, n_open, c->err);
    for (size_t i = 0; i < n_open && n_open > 1 && status == DT_OK; i++)
        if (v[i].outcome == DT_OUTCOME_BUSY) {
            c->reports_singly = true;
            return dt_fail(c->err, DT_BUSY, "a job is locked");
        }
    for (size_t i = from; i < from + n && status == DT_OK; i++)
        if (c->intents[i].outcome != DT_INTENT_REFUSED && c->intents[i].outcome != DT_INTENT_WAITS)
            settle_report(c, &c->commands[i], &v[k++]);
    dt_assert(status != DT_OK || k == n_open);
    return status;
}

/* ---- runs of messages ---- */

enum kind { CHANGES, TOPIC, REPORTS };

static enum kind run_kind_of(const struct dt_command *command)
{
    if (command->intent->outcome == DT_INTENT_REFUSED || command->action <= DT_COMMAND_RUN_NOW)
        return CHANGES;
    return command->action == DT_COMMAND_REPORT ? REPORTS : TOPIC;
}

static dt_status carry_out_runs(struct carrying *c)
{
    dt_status status = DT_OK;
    for (size_t from = 0, n; from < c->batch->n && status == DT_OK; from += n) {
        const enum kind kind = run_kind_of(&c->commands[from]);
        n = 1;
        if (kind == CHANGES || (kind == REPORTS && !c->reports_singly))
            while (from + n < c->batch->n && run_kind_of(&c->commands[from + n]) == kind)
                n++;
        struct dt_intent *x = &c->intents[from];
        if (kind == REPORTS)
            status = run_reports(c, from, n);
        else if (kind == CHANGES) {
            c->txn.v = x;
            c->txn.n = n;
            status = dt_intents_in_txn(&c->txn, c->err);
        } else if (may_carry_out(x)) {
            const struct dt_topic_pausing pausing = {.name = x->topic,
                                                     .paused = c->commands[from].action == DT_COMMAND_PAUSE,
                                                     .actor = dt_store_actor(c->taker->store)};
            status = dt_topic_pause_in_txn(c->db, c->now_ms, &pausing, c->err);
            x->outcome = DT_INTENT_DONE;
            c->batch->topics = true;
            if (status == DT_NOT_FOUND) {
                refuse_command(x, DT_PROBLEM_NOT_FOUND, DT_STR_LIT("no such topic"));
                status = DT_OK;
            }
        }
    }
    return status;
}

/* ---- answers ---- */

static struct dt_command_answer *new_answer(struct carrying *c)
{
    const size_t room = 2 * c->batch->n;
    if (!c->answers.v)
        c->answers.v = dt_arena_alloc(&c->taker->arena, room * sizeof(*c->answers.v));
    dt_assert_cmp(c->answers.n, <, room);
    return c->answers.v ? &c->answers.v[c->answers.n++] : NULL;
}

static struct dt_str copy_answer_text(struct carrying *c, struct dt_strbuf *text)
{
    struct dt_str kept = text->failed ? DT_STR_NONE : dt_arena_copy(&c->taker->arena, dt_strbuf_str(text));
    dt_strbuf_clear(text);
    return kept;
}

/* Returns whether the command made a job: a create does, and a replace does if the job did not exist. */
static bool has_made_job(const struct dt_command *command)
{
    return command->action == DT_COMMAND_CREATE ||
           (command->action == DT_COMMAND_REPLACE && command->intent->insert.replace);
}

/* Finds the job for the answer. NOT_FOUND: the job was removed meanwhile. */
static dt_status find_job(struct carrying *c, const struct dt_command *command, struct dt_job *job)
{
    const struct dt_change_txn txn = {
        .store = c->taker->store, .db = c->db, .now_ms = c->now_ms, .arena = &c->taker->arena};
    struct dt_intent *x = command->intent;
    if (command->action == DT_COMMAND_REPORT) {
        dt_status status = dt_job_read_in_txn(&txn, command->result.job_id, &x->job, c->err);
        *job = x->job;
        return status;
    }
    if (has_made_job(command) && x->insert.outcome == DT_INSERT_SAME)
        return dt_job_read_in_txn(&txn, x->insert.existing_id, job, c->err);
    if (has_made_job(command))
        dt_job_from_new(job, &x->insert.job, c->now_ms);
    else
        *job = x->job;
    return DT_OK;
}

/* Finds the value of `waiting_for`. REST would show the same, unless a leader is missing or a limit is reached. */
static dt_status find_wait_reason(struct carrying *c, const struct dt_job *job, const char **out)
{
    dt_status status = DT_OK;
    /* The topic that was read last is kept, because most answers are about the same topic. */
    if (dt_job_is_due(job, c->now_ms) && !(c->topic.p && dt_str_eq(c->topic, job->topic))) {
        struct dt_topic topic = {.paused = false};
        status = dt_topic_read(c->db, job->topic, &c->taker->arena, &topic, c->err);
        c->topic = dt_arena_copy(&c->taker->arena, job->topic);
        c->paused = status == DT_OK && topic.paused;
        c->dealing = status == DT_OK ? dt_delivery_dealing(topic.delivery) : DT_DEALING_LISTS;
    }
    const struct dt_wait_facts facts = {.now_ms = c->now_ms, .led = true, .paused = c->paused, .dealing = c->dealing};
    *out = dt_job_waits_for(job, &facts);
    return status == DT_NOT_FOUND ? DT_OK : status;
}

static const char *outcome_word(const struct dt_command *command)
{
    if (command->action != DT_COMMAND_REPORT)
        return NULL;
    return command->outcome == DT_OUTCOME_APPLIED     ? "applied"
           : command->outcome == DT_OUTCOME_DUPLICATE ? "duplicate"
                                                      : "stale";
}

/* Makes the body of REST's answer after success: the job, or some members of the topic. */
static dt_status make_answer_body(struct carrying *c, const struct dt_command *command, struct dt_str *out)
{
    struct dt_strbuf text = {0};
    dt_status status;
    if (command->action != DT_COMMAND_PAUSE && command->action != DT_COMMAND_RESUME) {
        struct dt_job job;
        struct dt_job_view view = {.payload = true, .outcome = outcome_word(command), .check = c->taker->json};
        status = find_job(c, command, &job);
        DT_THEN(status, find_wait_reason(c, &job, &view.waiting_for));
        if (status == DT_OK)
            dt_job_add(&text, &job, &view);
        if (status == DT_OK && text.n > REPLY_MAX) { /* too large for Kafka, so the payload is left out */
            dt_strbuf_reset(&text);
            view.payload = false;
            dt_job_add(&text, &job, &view);
        }
        /* The retention is zero, so the job was removed as soon as the report was applied. */
        if (status == DT_NOT_FOUND && command->action == DT_COMMAND_REPORT) {
            dt_json_begin_object(&text, NULL);
            dt_json_put_id(&text, "id", command->result.job_id);
            dt_json_put_word(&text, "outcome", outcome_word(command));
            dt_json_end_object(&text);
        }
        status = status == DT_NOT_FOUND ? DT_OK : status;
    } else {
        struct dt_topic topic;
        status = dt_topic_read(c->db, command->intent->topic, &c->taker->arena, &topic, c->err);
        if (status == DT_OK) {
            dt_json_begin_object(&text, NULL);
            dt_json_put_string(&text, "name", topic.name);
            dt_json_put_bool(&text, "paused", topic.paused);
            dt_json_put_time(&text, "updated_at", topic.updated_at_ms);
            dt_json_put_int(&text, "version", topic.version);
            dt_json_end_object(&text);
        }
    }
    *out = copy_answer_text(c, &text);
    return status == DT_OK && !out->p ? DT_NOMEM : status;
}

/* Returns the topic of a command; absent if it is not valid or not known. If the command names only a job, the topic is
 * known after the job was read. */
static struct dt_str topic_of_intent(const struct carrying *c, const struct dt_intent *x)
{
    const struct dt_str named = x->topic.p ? x->topic : x->job.topic;
    return dt_topic_check(named, c->taker->rules.installation) ? DT_STR_NONE : named;
}

static dt_status answer_command(struct carrying *c, const struct dt_command_message *m,
                                const struct dt_command *command)
{
    struct dt_arena *arena = &c->taker->arena;
    const struct dt_intent *x = command->intent;
    const bool refused = m->outcome == DT_INTENT_REFUSED;
    const bool replies = m->reply_to.p && !check_reply_to(c, m->reply_to);
    struct dt_str body = DT_STR_NONE;
    dt_status status = DT_OK;
    int http = has_made_job(command) && x->insert.outcome == DT_INSERT_CREATED ? 201 : 200;
    if (refused) {
        struct dt_command_answer *a = new_answer(c);
        struct dt_message_header *headers = dt_arena_alloc(arena, (m->n_headers + 1) * sizeof(*headers));
        struct dt_strbuf text = {0};
        dt_problem_add(&text, &x->problem, DT_STR_NONE);
        body = copy_answer_text(c, &text);
        http = dt_problem_http_status(x->problem.type);
        if (!a || !headers || !body.p)
            return dt_fail(c->err, DT_NOMEM, "out of memory");
        if (m->n_headers)
            memcpy(headers, m->headers, m->n_headers * sizeof(*headers));
        headers[m->n_headers] = (struct dt_message_header){DT_STR_LIT("problem"), body};
        *a = (struct dt_command_answer){.of_topic = topic_of_intent(c, x),
                                        .topic = dt_str(c->taker->rejected),
                                        .key = m->key,
                                        .value = m->value,
                                        .headers = headers,
                                        .n_headers = m->n_headers + 1};
    } else if (replies)
        status = make_answer_body(c, command, &body);
    if (status == DT_OK && replies) {
        struct dt_command_answer *a = new_answer(c);
        struct dt_message_header *header = dt_arena_alloc(arena, sizeof(*header));
        const struct dt_str number = dt_arena_printf(arena, "%d", http);
        if (!a || !header || !number.p)
            return dt_fail(c->err, DT_NOMEM, "out of memory");
        *header = (struct dt_message_header){DT_STR_LIT("status"), number};
        *a = (struct dt_command_answer){.of_topic = topic_of_intent(c, x),
                                        .topic = m->reply_to,
                                        .key = m->key,
                                        .value = body,
                                        .headers = header,
                                        .n_headers = 1};
    }
    return status == DT_NOMEM ? dt_fail(c->err, status, "out of memory") : status;
}

static dt_status add_all_answers(struct carrying *c)
{
    struct dt_command_batch *b = c->batch;
    dt_status status = DT_OK;
    for (size_t i = 0; i < b->n; i++) {
        struct dt_command_message *m = &b->v[i];
        struct dt_intent *x = &c->intents[i];
        if (x->outcome == DT_INTENT_WAITS && m->last_try)
            refuse_command(x, DT_PROBLEM_UNAVAILABLE,
                           DT_STR_LIT("another session keeps the job locked; nothing was changed"));
        m->outcome = x->outcome;
        b->waiting += m->outcome == DT_INTENT_WAITS;
        b->done += m->outcome == DT_INTENT_DONE;
        b->refused += m->outcome == DT_INTENT_REFUSED;
        if (m->outcome != DT_INTENT_WAITS)
            m->place->up_to = m;
    }
    dt_assert_cmp(b->done + b->refused + b->waiting, ==, b->n);
    for (size_t i = 0; i < b->n && status == DT_OK; i++)
        if (b->v[i].outcome != DT_INTENT_WAITS)
            status = answer_command(c, &b->v[i], &c->commands[i]);
    if (status == DT_OK && c->answers.n)
        status = dt_command_answers_insert(c->db, &c->taker->arena, b->v[0].place->partition, c->now_ms, &c->answers,
                                           c->err);
    return status;
}

/* ---- the transaction of a batch ---- */

static dt_status allocate_lists(struct carrying *c)
{
    struct dt_command_taker *t = c->taker;
    struct dt_arena *arena = &t->arena;
    size_t room = c->batch->n + 1;
    dt_arena_reset(arena);
    c->batch->done = c->batch->refused = c->batch->waiting = 0;
    c->batch->topics = false;
    c->commands = dt_arena_alloc(arena, room * sizeof(*c->commands));
    c->intents = dt_arena_alloc(arena, room * sizeof(*c->intents));
    c->reports = dt_arena_alloc(arena, room * sizeof(*c->reports));
    c->moves = dt_arena_alloc(arena, room * (DT_WAS_MAX + 1) * sizeof(*c->moves));
    c->batch->dead = dt_arena_alloc(arena, room * sizeof(*c->batch->dead));
    c->n_moves = c->batch->n_dead = 0;
    c->answers = (struct dt_command_answers){0};
    c->topic = DT_STR_NONE;
    c->txn = (struct dt_intents_txn){.store = t->store,
                                     .db = c->db,
                                     .now_ms = c->now_ms,
                                     .counts = &c->counts,
                                     .arena = arena,
                                     .ids = &t->ids,
                                     .topics = &t->topics,
                                     .singly = c->singly,
                                     .v = c->intents,
                                     .n = c->batch->n};
    if (!c->commands || !c->intents || !c->reports || !c->moves || !c->batch->dead)
        return dt_fail(c->err, DT_NOMEM, "out of memory");
    return dt_intents_init(&c->txn, 0, c->err);
}

static dt_status try_carry_out(struct carrying *c)
{
    dt_counts_init(&c->counts);
    dt_status status = dt_store_begin(c->taker->store, &c->db, &c->now_ms, c->err);
    DT_THEN(status, allocate_lists(c));
    DT_THEN(status, lock_partition_offsets(c));
    DT_THEN(status, decode_commands(c));
    DT_THEN(status, carry_out_runs(c));
    DT_FAIL_POINT_STATUS("commands.carried_out", status, c->err);
    DT_THEN(status, add_all_answers(c));
    DT_THEN(status, advance_partition_offsets(c));
    DT_FAIL_POINT_STATUS("commands.raised", status, c->err);
    status = dt_counts_commit(c->db, &c->counts, status, c->err);
    DT_FAIL_POINT_STATUS("commands.committed", status, c->err);
    return status;
}

dt_status dt_store_carry_out(struct dt_command_taker *t, struct dt_command_batch *b, bool refuse_all,
                             struct dt_error *err)
{
    struct carrying c = {.taker = t, .batch = b, .refuse_all = refuse_all, .err = err};
    b->moves = NULL;
    b->n_moves = b->n_dead = 0;
    b->answers = (struct dt_command_answers){0};
    struct dt_again again = {0};
    dt_status status;
    do {
        status = dt_id_block_reserve(&t->ids, t->store, b->n, err);
        DT_THEN(status, dt_intents_ended(try_carry_out(&c), &t->ids, &c.singly));
    } while (dt_store_again(&again, status));
    if (status != DT_OK) {
        b->done = b->refused = b->waiting = 0;
        return status;
    }
    for (size_t i = 0; i < b->n_places; i++) { /* sets the offsets that the reader must expect in MySQL next time */
        struct dt_command_place *place = &b->places[i];
        if (!place->up_to)
            continue;
        place->next = place->up_to->offset + 1;
        place->last = place->up_to->offset;
    }
    /* Jobs whose time was changed by reports come first, then those that intents changed. */
    if (c.txn.n_moves)
        memcpy(&c.moves[c.n_moves], c.txn.moves, c.txn.n_moves * sizeof(*c.moves));
    b->moves = c.moves;
    b->n_moves = c.n_moves + c.txn.n_moves;
    b->answers = c.answers;
    b->again = t->topics.n_wanted > 0;
    return DT_OK;
}
