/* Decodes a message in two parts: first the members that name the action and the job or topic; then the body of the
 * action, by the decoder of REST, which skips the members of the first part. One pass finds the faults of both
 * parts. */
#include "intents.h"

#include "job/results/results.h"

struct reading {
    const struct dt_intent_decoder *with;
    const struct dt_json_node *root;
    int64_t base_ms; /* time from which delays count */
    struct dt_job_rules rules;
    struct dt_command *out;
};

static const char *const words[DT_COMMAND_ACTIONS] = {
    [DT_COMMAND_CREATE] = "create", [DT_COMMAND_REPLACE] = "replace", [DT_COMMAND_CANCEL] = "cancel",
    [DT_COMMAND_CHANGE] = "change", [DT_COMMAND_RUN_NOW] = "run_now", [DT_COMMAND_PAUSE] = "pause",
    [DT_COMMAND_RESUME] = "resume", [DT_COMMAND_REPORT] = "report"};

static void add_message_fault(struct reading *r, const char *pointer, const char *reason)
{
    dt_faults_add(&r->out->intent->faults, pointer, reason);
}

static dt_status refuse_message_text(struct reading *r, dt_status status, const char *why)
{
    struct dt_intent *x = r->out->intent;
    x->outcome = DT_INTENT_REFUSED;
    x->problem =
        (struct dt_problem){.type = dt_problem_of_status(status), .detail = dt_arena_copy(r->with->arena, dt_str(why))};
    return x->problem.detail.p ? DT_OK : DT_NOMEM;
}

static bool is_job_reference(struct dt_str name)
{
    return dt_str_is(name, "action") || dt_str_is(name, "id");
}

static bool is_change_reference(struct dt_str name)
{
    return is_job_reference(name) || dt_str_is(name, "topic") || dt_str_is(name, "key");
}

static const struct dt_json_node *find_member(const struct reading *r, const char *name)
{
    return dt_json_member(r->with->json, r->root, name);
}

static void read_topic_member(struct dt_json_reader *r, const struct dt_json_field *field,
                              const struct dt_json_node *node)
{
    const bool text = node->type == DT_JSON_STRING;
    const char *reason = text ? dt_check_topic(r, node->str) : "must be a string";
    if (reason)
        dt_json_fault(r, field, reason);
    if (text)
        *(struct dt_str *)dt_json_place(r, field) = dt_json_keep(r->faults, node->str);
}

static void read_id(struct dt_json_reader *r, const struct dt_json_field *field, const struct dt_json_node *node)
{
    if (node->type != DT_JSON_STRING || !dt_job_id_parse(node->str, dt_json_place(r, field)))
        dt_json_fault(r, field, "must be a job's id, a string of digits");
}

/* The members are read in the order of this table, whatever their order in the object. */
static const struct dt_json_field fields[] = {
    DT_FIELD("topic", TEXT, struct dt_intent, topic, .read = read_topic_member),
    DT_FIELD("key", TEXT, struct dt_intent, key, .check = dt_key_check),
    DT_FIELD("id", COUNT, struct dt_intent, job_id, .read = read_id),
};

/* Reads the members of the first n rows of the table. */
static void read_first_members(struct reading *r, size_t n)
{
    struct dt_intent *x = r->out->intent;
    struct dt_json_reader reader = {.json = r->with->json, .faults = &x->faults, .out = x, .context = &r->rules};
    for (size_t i = 0; i < n; i++) {
        const struct dt_json_node *node = dt_json_member(r->with->json, r->root, fields[i].name.p);
        if (node && fields[i].read)
            fields[i].read(&reader, &fields[i], node);
        else if (node)
            dt_json_read_value(&reader, &fields[i], node);
    }
}

/* Reads which job a change or report is for. */
static void read_job_reference(struct reading *r)
{
    const bool id = find_member(r, "id");
    const bool key = find_member(r, "key");
    read_first_members(r, sizeof(fields) / sizeof(*fields));
    if (key && id)
        add_message_fault(r, "/id", "contradicts key: give one of the two");
    if (key && !find_member(r, "topic"))
        add_message_fault(r, "/topic", "is required with key");
    if (!key && !id)
        add_message_fault(r, "/key", "is required, or id for a job without a key");
}

/* Refuses members that the action does not use, so that no member is ignored silently. */
static void refuse_unused_members(struct reading *r, bool (*known)(struct dt_str name), const char *but)
{
    const dt_json *json = r->with->json;
    for (const struct dt_json_node *m = dt_json_first(json, r->root); m; m = dt_json_sibling(json, r->root, m))
        if (!known(m->name) && !(but && dt_str_is(m->name, but)))
            dt_faults_add_member(&r->out->intent->faults, "", m->name, "is not allowed in this action");
}

/* Ends the decoding of a body. Refuses the intent if the decoder of the body failed, or if earlier steps found faults.
 * Returns NOMEM if memory ran out, otherwise OK. */
static dt_status finish_decoding(struct reading *r, dt_status status)
{
    if (r->out->intent->faults.failed)
        return DT_NOMEM;
    if (status == DT_OK && r->out->intent->faults.n > 0)
        status = DT_INVALID;
    if (status != DT_OK && status != DT_NOMEM)
        dt_intent_refuse_faults(r->out->intent, status);
    return status == DT_NOMEM ? status : DT_OK;
}

/* Delays count from the timestamp of the message. If the sender's clock is ahead of the server's, the job must still
 * not be due later than limits.max_delay allows for other requests. */
static void check_due_limit(struct reading *r, int64_t due_ms)
{
    if (due_ms > r->with->now_ms + r->rules.max_delay_ms)
        add_message_fault(r, find_member(r, "run_at") ? "/run_at" : "/delay",
                          "is further ahead than limits.max_delay allows");
}

static dt_status read_create(struct reading *r)
{
    static const struct dt_job_path path = {.topic = {NULL, 0}};
    struct dt_intent *x = r->out->intent;
    struct dt_new_job *job = &x->insert.job;
    r->rules.beside = is_job_reference;
    if (find_member(r, "id"))
        add_message_fault(r, "/id", "cannot be set");
    if (!find_member(r, "key"))
        add_message_fault(r, "/key", "is required, as a message may be delivered again");
    dt_status status = dt_job_decode(r->with->json, &r->rules, &path, r->with->now_ms, &x->faults, job);
    x->topic = job->topic;
    x->key = job->key;
    if (status == DT_OK)
        check_due_limit(r, job->run_at_ms);
    return finish_decoding(r, status);
}

static dt_status read_change_body(struct reading *r)
{
    struct dt_intent *x = r->out->intent;
    r->rules.beside = is_change_reference;
    read_job_reference(r);
    dt_status status = dt_patch_decode(r->with->json, &r->rules, r->with->now_ms, &x->faults, &x->patch);
    if (status == DT_OK && x->patch.has_run_at) {
        x->patch.run_at_ms += x->patch.run_at_is_delay ? r->base_ms : 0;
        x->patch.run_at_is_delay = false;
        check_due_limit(r, x->patch.run_at_ms);
    }
    return finish_decoding(r, status);
}

static dt_status read_cancel(struct reading *r)
{
    const struct dt_json_node *retries = find_member(r, "retries");
    read_job_reference(r);
    refuse_unused_members(r, is_change_reference, "retries");
    if (retries && retries->type != DT_JSON_BOOL)
        add_message_fault(r, "/retries", "must be true or false");
    r->out->intent->keep_attempt = retries && retries->b;
    return finish_decoding(r, DT_OK);
}

static dt_status read_run_now(struct reading *r)
{
    read_job_reference(r);
    refuse_unused_members(r, is_change_reference, NULL);
    return finish_decoding(r, DT_OK);
}

static bool is_topic_reference(struct dt_str name)
{
    return dt_str_is(name, "action") || dt_str_is(name, "topic");
}

static dt_status read_pause(struct reading *r)
{
    read_first_members(r, 1);
    if (!find_member(r, "topic"))
        add_message_fault(r, "/topic", "is required");
    refuse_unused_members(r, is_topic_reference, NULL);
    return finish_decoding(r, DT_OK);
}

static dt_status read_report(struct reading *r)
{
    static const struct dt_result_beside beside = {is_change_reference};
    struct dt_intent *x = r->out->intent;
    read_job_reference(r);
    r->out->result = (struct dt_result){.job_id = x->job_id};
    return finish_decoding(r, dt_result_decode(r->with->json, r->root, &beside, &x->faults, &r->out->result));
}

static dt_status read_message_object(struct reading *r)
{
    static dt_status (*const read[DT_COMMAND_ACTIONS])(struct reading * r) = {
        [DT_COMMAND_CREATE] = read_create,      [DT_COMMAND_REPLACE] = read_create,  [DT_COMMAND_CANCEL] = read_cancel,
        [DT_COMMAND_CHANGE] = read_change_body, [DT_COMMAND_RUN_NOW] = read_run_now, [DT_COMMAND_PAUSE] = read_pause,
        [DT_COMMAND_RESUME] = read_pause,       [DT_COMMAND_REPORT] = read_report};
    r->root = dt_json_root(r->with->json);
    if (r->root->type != DT_JSON_OBJECT) {
        add_message_fault(r, "", "must be an object");
        return finish_decoding(r, DT_OK);
    }
    const struct dt_json_node *action = find_member(r, "action");
    for (unsigned i = 0; action && action->type == DT_JSON_STRING && i < DT_COMMAND_ACTIONS; i++) {
        if (!dt_str_is(action->str, words[i]))
            continue;
        r->out->action = (enum dt_command_action)i;
        if (i <= DT_COMMAND_RUN_NOW)
            r->out->intent->action = (enum dt_intent_action)i;
        return read[i](r);
    }
    add_message_fault(r, "/action", "must be one of create, replace, cancel, change, run_now, pause, resume, report");
    return finish_decoding(r, DT_OK);
}

dt_status dt_command_message_decode(const struct dt_intent_decoder *with, const struct dt_command_text *text,
                                    struct dt_command *out)
{
    struct reading r = {.with = with, .rules = *with->rules, .out = out};
    *out = (struct dt_command){.intent = out->intent};
    *out->intent = (struct dt_intent){.faults = {.arena = with->arena}};
    r.base_ms = text->timestamp_ms > 0 ? text->timestamp_ms : with->now_ms;
    r.rules.delays_from_ms = r.base_ms;
    const struct dt_json_limits limits = dt_job_json_limits(r.rules.json_depth);
    struct dt_error why = {0};
    dt_status status;
    if (!text->value.p)
        status = refuse_message_text(&r, DT_MALFORMED, "the message has no value");
    else if (r.base_ms > with->now_ms + r.rules.max_delay_ms)
        status = refuse_message_text(&r, DT_INVALID,
                                     "the message's timestamp is further ahead than limits.max_delay allows");
    else {
        status = dt_json_parse(with->json, text->value, &limits, &why);
        if (status == DT_OK)
            status = read_message_object(&r);
        else if (status != DT_NOMEM)
            status = refuse_message_text(&r, status, why.text);
    }
    return out->intent->faults.failed ? DT_NOMEM : status;
}
