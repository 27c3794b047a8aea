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

/* Says whether the command makes a job: a replace does if there was none. */
static bool is_made(const struct dt_command *command)
{
    return command->action == DT_COMMAND_CREATE ||
           (command->action == DT_COMMAND_REPLACE && command->intent->insert.replace);
}

/* The job that the answer shows; NOT_FOUND: it is not there any more. */
static dt_status find_job(struct dt_command_replies *r, const struct dt_command *command, struct dt_job *job,
                          struct dt_error *err)
{
    const struct dt_change_txn txn = {.store = r->store, .db = r->db, .now_ms = r->now_ms, .arena = r->arena};
    struct dt_intent *x = command->intent;
    if (command->action == DT_COMMAND_REPORT) {
        dt_status status = dt_job_read_in_txn(&txn, command->result.job_id, &x->job, err);
        *job = x->job;
        return status;
    }
    if (is_made(command) && x->insert.outcome == DT_INSERT_SAME)
        return dt_job_read_in_txn(&txn, x->insert.existing_id, job, err);
    if (is_made(command))
        dt_job_from_new(job, &x->insert.job, r->now_ms);
    else
        *job = x->job;
    return DT_OK;
}

/* Sets what the job waits for, as a request would see it in this moment where leaders are well and limits wide. */
static dt_status find_wait(struct dt_command_replies *r, const struct dt_job *job, const char **out,
                           struct dt_error *err)
{
    dt_status status = DT_OK;
    /* Mostly the topic is the one that was asked for last. */
    if (dt_job_is_due(job, r->now_ms) && !(r->topic.p && dt_str_eq(r->topic, job->topic))) {
        struct dt_topic topic = {.paused = false};
        status = dt_topic_read(r->db, job->topic, r->arena, &topic, err);
        r->topic = dt_arena_copy(r->arena, job->topic);
        r->paused = status == DT_OK && topic.paused;
        r->dealing = status == DT_OK ? dt_delivery_dealing(topic.delivery) : DT_DEALING_LISTS;
    }
    const struct dt_wait_facts facts = {.now_ms = r->now_ms, .led = true, .paused = r->paused, .dealing = r->dealing};
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

/* The body that REST answers with when it was done: the job, or the members of the topic that the command is about. */
static dt_status body_of(struct dt_command_replies *r, const struct dt_command *command, struct dt_str *out,
                         struct dt_error *err)
{
    struct dt_strbuf text;
    dt_status status;
    dt_strbuf_init(&text);
    if (command->action != DT_COMMAND_PAUSE && command->action != DT_COMMAND_RESUME) {
        struct dt_job job;
        struct dt_job_view view = {.payload = true, .outcome = outcome_word(command), .check = r->json};
        status = find_job(r, command, &job, err);
        if (status == DT_OK)
            status = find_wait(r, &job, &view.waiting_for, err);
        if (status == DT_OK)
            dt_job_add(&text, &job, &view);
        if (status == DT_OK && text.n > REPLY_MAX) { /* Kafka takes no such message: it goes without the payload */
            dt_strbuf_reset(&text);
            view.payload = false;
            dt_job_add(&text, &job, &view);
        }
        /* A report counted, also when its job was removed at once (a retention of zero). */
        if (status == DT_NOT_FOUND && command->action == DT_COMMAND_REPORT)
            dt_strbuf_addf(&text, "{\"id\":\"%lld\",\"outcome\":\"%s\"}", (long long)command->result.job_id,
                           outcome_word(command));
        status = status == DT_NOT_FOUND ? DT_OK : status;
    } else {
        struct dt_topic topic;
        status = dt_topic_read(r->db, command->intent->topic, r->arena, &topic, err);
        if (status == DT_OK) {
            dt_strbuf_adds(&text, "{\"name\":");
            dt_json_add_string(&text, topic.name);
            dt_strbuf_addf(&text, ",\"paused\":%s,\"updated_at\":", topic.paused ? "true" : "false");
            dt_json_add_time(&text, topic.updated_at_ms);
            dt_strbuf_addf(&text, ",\"version\":%lld}", (long long)topic.version);
        }
    }
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

dt_status dt_command_tell(struct dt_command_replies *r, const struct dt_command_message *m,
                          const struct dt_command *command, struct dt_error *err)
{
    const struct dt_intent *x = command->intent;
    const bool refused = m->outcome == DT_INTENT_REFUSED;
    const bool replies = m->reply_to.p && !dt_command_reply_check(m->reply_to, r->installation,
                                                                  dt_store_config(r->store)->kafka_allow_topics);
    struct dt_str body = DT_STR_NONE;
    dt_status status = DT_OK;
    int http = is_made(command) && x->insert.outcome == DT_INSERT_CREATED ? 201 : 200;
    if (refused) {
        struct dt_strbuf text;
        dt_strbuf_init(&text);
        dt_problem_add(&text, &x->problem, DT_STR_NONE);
        body = keep_text(r, &text);
        http = dt_problem_http_status(x->problem.type);
        status = body.p ? tell_rejected(r, m, topic_of(r, x), body) : DT_NOMEM;
    } else if (replies)
        status = body_of(r, command, &body, err);
    if (status == DT_OK && replies)
        status = tell_reply(r, m, topic_of(r, x), body, http);
    return status == DT_NOMEM ? dt_fail(err, status, "out of memory") : status;
}
