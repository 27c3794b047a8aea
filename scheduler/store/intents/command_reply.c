/*
 * A message that is refused goes as it came to the topic of what is refused, with its problem as one header more.
 * Whoever said where gets the body that REST answers, with its status as a header.
 */
#include "store/intents/command_reply.h"

#include "job/job_encode.h"
#include "job/wait/job_wait.h"
#include "store/jobs/change_txn.h"

/* The topic that a command is about, as far as it is known. */
static struct dt_str topic_of(const struct dt_command_replies *r, const struct dt_intent *x)
{
    const struct dt_str named = x->topic.p ? x->topic : x->job.topic;
    return dt_topic_check(named, r->installation) ? DT_STR_NONE : named;
}

/* An answer must not be taken for another service's message. */
const char *dt_command_reply_check(struct dt_str topic, struct dt_str installation, const char *allowed)
{
    const char *reason = dt_topic_check(topic, installation);
    if (reason)
        return reason;
    if (dt_kafka_topic_internal(topic))
        return "is internal to an installation";
    bool fine = dt_str_ends(topic, DT_STR_LIT(".replies")) || dt_topic_listed(allowed, topic);
    return fine ? NULL : "must end with .replies, or be among kafka.allow_topics";
}

#define REPLY_MAX 1000000 /* bytes, below Kafka's default limit of a message */

/* ---- the list ---- */

static struct dt_command_answer *new_answer(struct dt_command_replies *r)
{
    struct dt_command_answers *list = &r->answers;
    if (list->n == r->room) {
        size_t room = r->room ? 2 * r->room : 16;
        struct dt_command_answer *v = dt_arena_alloc(r->arena, room * sizeof(*v));
        if (!v)
            return NULL;
        if (list->n)
            memcpy(v, list->v, list->n * sizeof(*v));
        list->v = v;
        r->room = room;
    }
    return &list->v[list->n++];
}

static struct dt_str keep_text(struct dt_command_replies *r, struct dt_strbuf *text)
{
    struct dt_str kept = text->failed ? DT_STR_NONE : dt_arena_copy(r->arena, dt_strbuf_str(text));
    dt_strbuf_clear(text);
    return kept;
}

static struct dt_str problem_text(struct dt_command_replies *r, const struct dt_intent *x)
{
    struct dt_strbuf text;
    dt_strbuf_init(&text);
    dt_problem_add(&text, &x->problem, DT_STR_NONE);
    return keep_text(r, &text);
}

/* ---- what was refused ---- */

static dt_status tell_rejected(struct dt_command_replies *r, const struct dt_command_message *m, struct dt_str of_topic,
                               struct dt_str problem)
{
    struct dt_command_answer *a = new_answer(r);
    struct dt_message_header *headers = dt_arena_alloc(r->arena, (m->n_headers + 1) * sizeof(*headers));
    if (!a || !headers)
        return DT_NOMEM;
    if (m->n_headers)
        memcpy(headers, m->headers, m->n_headers * sizeof(*headers));
    headers[m->n_headers] = (struct dt_message_header){DT_STR_LIT("problem"), problem};
    *a = (struct dt_command_answer){.of_topic = of_topic,
                                    .topic = dt_str(r->rejected),
                                    .key = m->key,
                                    .value = m->value,
                                    .headers = headers,
                                    .n_headers = m->n_headers + 1};
    return DT_OK;
}

/* ---- replies ---- */

/* The job that the answer shows; NOT_FOUND: it is not there any more. */
static dt_status find_job(struct dt_command_replies *r, const struct dt_command *command, struct dt_job *job,
                          struct dt_error *err)
{
    const struct dt_change_txn txn = {.store = r->store, .db = r->db, .now_ms = r->now_ms, .arena = r->arena};
    struct dt_intent *x = command->intent;
    bool body = command->action == DT_COMMAND_CREATE || (command->action == DT_COMMAND_REPLACE && x->insert.replace);
    if (command->action == DT_COMMAND_REPORT) {
        dt_status status = dt_job_read_in_txn(&txn, command->result.job_id, &x->job, err);
        *job = x->job;
        return status;
    }
    if (body && x->insert.outcome == DT_INSERT_SAME)
        return dt_job_read_in_txn(&txn, x->insert.existing_id, job, err);
    if (body)
        dt_job_from_new(job, &x->insert.job, r->now_ms);
    else
        *job = x->job;
    return DT_OK;
}

/* Mostly the topic is the one that was asked for last. */
static dt_status look_at_topic(struct dt_command_replies *r, struct dt_str name, struct dt_error *err)
{
    struct dt_topic topic = {.paused = false};
    if (r->topic.p && dt_str_eq(r->topic, name))
        return DT_OK;
    dt_status status = dt_topic_read(r->db, name, r->arena, &topic, err);
    r->topic = dt_arena_copy(r->arena, name);
    r->paused = status == DT_OK && topic.paused;
    r->dealing = status == DT_OK ? dt_delivery_dealing(topic.delivery) : DT_DEALING_LISTS;
    return status == DT_NOT_FOUND ? DT_OK : status;
}

/* Sets what the job waits for, as a request would see it in this moment where leaders are well and limits wide. */
static dt_status find_wait(struct dt_command_replies *r, const struct dt_job *job, const char **out,
                           struct dt_error *err)
{
    struct dt_wait_facts facts = {.now_ms = r->now_ms, .led = true};
    dt_status status = dt_job_is_due(job, r->now_ms) ? look_at_topic(r, job->topic, err) : DT_OK;
    facts.paused = r->paused;
    facts.dealing = r->dealing;
    *out = dt_job_waits_for(job, &facts);
    return status;
}

static const char *outcome_word(const struct dt_command *command)
{
    if (command->action != DT_COMMAND_REPORT)
        return NULL;
    return command->outcome == DT_OUTCOME_APPLIED     ? "applied"
           : command->outcome == DT_OUTCOME_DUPLICATE ? "duplicate"
                                                      : "stale";
}

static int http_status(const struct dt_command *command)
{
    const struct dt_intent *x = command->intent;
    bool body = command->action == DT_COMMAND_CREATE || (command->action == DT_COMMAND_REPLACE && x->insert.replace);
    return body && x->insert.outcome == DT_INSERT_CREATED ? 201 : 200;
}

/* Adds the job; without its payload where that, as text, makes the answer larger than Kafka takes. */
static void add_view(struct dt_strbuf *text, const struct dt_job *job, struct dt_job_view *view)
{
    dt_job_add(text, job, view);
    if (text->n <= REPLY_MAX)
        return;
    dt_strbuf_reset(text);
    view->payload = false;
    dt_job_add(text, job, view);
}

/* A report counted, also when its job was removed at once (a retention of zero). */
static dt_status add_job(struct dt_command_replies *r, const struct dt_command *command, struct dt_strbuf *text,
                         struct dt_error *err)
{
    struct dt_job job;
    struct dt_job_view view = {.payload = true, .outcome = outcome_word(command), .check = r->json};
    dt_status status = find_job(r, command, &job, err);
    if (status == DT_OK)
        status = find_wait(r, &job, &view.waiting_for, err);
    if (status == DT_OK)
        add_view(text, &job, &view);
    if (status == DT_NOT_FOUND && command->action == DT_COMMAND_REPORT)
        dt_strbuf_addf(text, "{\"id\":\"%lld\",\"outcome\":\"%s\"}", (long long)command->result.job_id,
                       outcome_word(command));
    return status == DT_NOT_FOUND ? DT_OK : status;
}

/* The members that the command is about. */
static dt_status add_topic(struct dt_command_replies *r, const struct dt_command *command, struct dt_strbuf *text,
                           struct dt_error *err)
{
    struct dt_topic topic;
    dt_status status = dt_topic_read(r->db, command->intent->topic, r->arena, &topic, err);
    if (status != DT_OK)
        return status;
    dt_strbuf_adds(text, "{\"name\":");
    dt_json_add_string(text, topic.name);
    dt_strbuf_addf(text, ",\"paused\":%s,\"updated_at\":", topic.paused ? "true" : "false");
    dt_json_add_time(text, topic.updated_at_ms);
    dt_strbuf_addf(text, ",\"version\":%lld}", (long long)topic.version);
    return status;
}

/* The body that REST answers with when it was done. */
static dt_status body_of(struct dt_command_replies *r, const struct dt_command *command, struct dt_str *out,
                         struct dt_error *err)
{
    struct dt_strbuf text;
    bool topic = command->action == DT_COMMAND_PAUSE || command->action == DT_COMMAND_RESUME;
    dt_strbuf_init(&text);
    dt_status status = topic ? add_topic(r, command, &text, err) : add_job(r, command, &text, err);
    *out = keep_text(r, &text);
    return status == DT_OK && !out->p ? DT_NOMEM : status;
}

static dt_status tell_reply(struct dt_command_replies *r, const struct dt_command_message *m, struct dt_str of_topic,
                            struct dt_str body, int http)
{
    struct dt_command_answer *a = new_answer(r);
    struct dt_message_header *header = dt_arena_alloc(r->arena, sizeof(*header));
    struct dt_str number = dt_arena_printf(r->arena, "%d", http);
    if (!a || !header || !number.p)
        return DT_NOMEM;
    *header = (struct dt_message_header){DT_STR_LIT("status"), number};
    *a = (struct dt_command_answer){
        .of_topic = of_topic, .topic = m->reply_to, .key = m->key, .value = body, .headers = header, .n_headers = 1};
    return DT_OK;
}

dt_status dt_command_tell(struct dt_command_replies *r, const struct dt_command_told *told, struct dt_error *err)
{
    const struct dt_command_message *m = told->message;
    const struct dt_intent *x = told->command->intent;
    bool refused = m->outcome == DT_INTENT_REFUSED;
    bool replies = m->reply_to.p &&
                   !dt_command_reply_check(m->reply_to, r->installation, dt_store_config(r->store)->kafka_allow_topics);
    struct dt_str body = DT_STR_NONE;
    dt_status status = DT_OK;
    if (refused) {
        body = problem_text(r, x);
        status = body.p ? tell_rejected(r, m, topic_of(r, x), body) : DT_NOMEM;
    } else if (replies)
        status = body_of(r, told->command, &body, err);
    if (status == DT_OK && replies)
        status = tell_reply(r, m, topic_of(r, x), body,
                            refused ? dt_problem_http_status(x->problem.type) : http_status(told->command));
    return status == DT_NOMEM ? dt_fail(err, status, "out of memory") : status;
}
