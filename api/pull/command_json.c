/* Reads commands. One table says for which commands each member of the JSON object is allowed. */
#include "base/text/json.h"
#include "base/text/json_write.h"
#include "command.h"
#include "job/change/jobs.h"
#include "job/job_json.h"

#define RETRIES "0s 0s 0s 0s 0s 0s 0s 0s 0s" /* retry delays of an added job: nine, all zero */

/* What the readers of the table write to. Their context is struct dt_job_rules. */
struct decoder {
    struct dt_job_fields f;
    unsigned verb;
    int64_t max, wait_ms;
    bool too_large;
};

static void read_delay(struct dt_json_reader *r, const struct dt_json_field *field, const struct dt_json_node *node)
{
    const int64_t max_ms = ((const struct dt_job_rules *)r->context)->max_delay_ms;
    const size_t before = r->faults->n;
    dt_json_read_value(r, field, node);
    if (r->faults->n == before && *(int64_t *)dt_json_place(r, field) > max_ms)
        dt_json_faultf(r, field, "is further ahead than limits.max_delay allows (%lld days)",
                       (long long)(max_ms / DT_DAY_MS));
}

static void read_body(struct dt_json_reader *r, const struct dt_json_field *field, const struct dt_json_node *node)
{
    const size_t most = ((const struct dt_job_rules *)r->context)->payload_max;
    dt_json_read_value(r, field, node);
    if (node->type != DT_JSON_STRING || node->str.n <= most)
        return;
    ((struct decoder *)r->out)->too_large = true;
    dt_json_faultf(r, field, "has %zu bytes, %zu are allowed", node->str.n, most);
}

#define OF(verb) (DT_FIELD_OWN << 1 << DT_VERB_##verb) /* flag of a member that this command may have */
#define REQUIRED DT_FIELD_OWN                          /* the member is required by each command that may have it */

static const char *const words[] = {
    [DT_VERB_ADD] = "add", [DT_VERB_POP] = "pop", [DT_VERB_FINISH] = "finish", [DT_VERB_DELETE] = "delete", NULL};
#define N_VERBS (DT_VERB_DELETE + 1u)

enum { COMMAND, TTR }; /* indexes of rows of the table of members */

static const struct dt_json_field fields[] = {
    [COMMAND] = DT_FIELD("command", WORD, struct decoder, verb, .words = words,
                         .flags = OF(ADD) | OF(POP) | OF(FINISH) | OF(DELETE),
                         .reason = "must be one of add, pop, finish, delete"),
    [TTR] = DT_FIELD("TTR", SECONDS, struct decoder, f.job.ack_timeout_ms, .flags = OF(ADD), .min = 1,
                     .reason = DT_REASON_NOT_ZERO),
    DT_FIELD("topic", TEXT, struct decoder, f.job.topic, .flags = OF(ADD) | OF(POP) | REQUIRED,
             .judge = dt_check_topic),
    DT_FIELD("id", TEXT, struct decoder, f.job.key, .flags = OF(ADD) | OF(FINISH) | OF(DELETE) | REQUIRED,
             .check = dt_key_check),
    DT_FIELD("delay", SECONDS, struct decoder, f.delay_ms, .flags = OF(ADD), .read = read_delay),
    DT_FIELD("body", TEXT, struct decoder, f.job.payload, .flags = OF(ADD), .read = read_body),
    DT_FIELD("wait", SECONDS, struct decoder, wait_ms, .flags = OF(POP), .max = DT_POP_WAIT_MS,
             .reason = "must be at most 60"),
    DT_FIELD("max", COUNT, struct decoder, max, .flags = OF(POP), .min = 1, .max = DT_POP_MAX),
};

static bool member_is_allowed(struct dt_json_reader *r, const struct dt_json_field *field, const struct dt_json_node *)
{
    if (!field || field->flags & OF(ADD) << ((const struct decoder *)r->out)->verb)
        return true;
    dt_json_fault(r, field, "is not allowed with this command");
    return false;
}

static const struct dt_json_table table = DT_TABLE(fields, .object = "must be a command, an object",
                                                   .unknown = DT_REASON_UNKNOWN, .admits = member_is_allowed);

static void read_command(struct dt_json_reader *r, const struct dt_json_node *root)
{
    struct decoder *d = r->out;
    const struct dt_json_node *word =
        dt_json_member(r->json, root, "command"); /* the command decides which members are allowed */
    if (word)
        dt_json_read_value(r, &fields[COMMAND], word);
    else if (root->type == DT_JSON_OBJECT)
        dt_json_fault(r, &fields[COMMAND], fields[COMMAND].reason);
    if ((root->type == DT_JSON_OBJECT && d->verb == N_VERBS) || !dt_json_read(r, &table, root))
        return;
    for (size_t i = 0; i < table.n; i++)
        if (fields[i].flags & REQUIRED && fields[i].flags & OF(ADD) << d->verb && !dt_json_given(r, (unsigned)i))
            dt_json_fault(r, &fields[i], "is required");
}

dt_status dt_command_decode(const dt_json *json, const struct dt_job_rules *rules, int64_t now_ms,
                            struct dt_faults *faults, struct dt_command *out)
{
    struct decoder d = {.verb = N_VERBS, .max = 1};
    struct dt_json_reader r = {.json = json, .faults = faults, .out = &d, .context = rules};
    read_command(&r, dt_json_root(json));
    *out = (struct dt_command){.job = out->job,
                               .verb = d.verb < N_VERBS ? (enum dt_verb)d.verb : DT_VERB_ADD,
                               .max = d.max,
                               .many = d.max > 1,
                               .wait_ms = d.wait_ms};
    const dt_status status = dt_faults_status(faults);
    if (status != DT_OK)
        return status == DT_INVALID && d.too_large ? DT_TOO_LARGE : status;
    out->id = d.f.job.key;
    out->topic = d.f.job.topic;
    if (out->verb != DT_VERB_ADD)
        return DT_OK;
    struct dt_new_job *job = &d.f.job;
    d.f.has = DT_MEMBER_KEY | DT_MEMBER_DELAY | DT_MEMBER_PAYLOAD_BASE64 | DT_MEMBER_CONTENT_TYPE |
              (dt_json_given(&r, TTR) ? DT_MEMBER_ACK_TIMEOUT : 0u);
    job->by_command = true;
    job->run_at_ms = now_ms + d.f.delay_ms;
    job->retry = DT_STR_LIT(RETRIES);
    job->content_type = DT_STR_LIT("text/plain");
    job->payload = job->payload.p ? job->payload : DT_STR_LIT("");
    job->payload_binary = true;
    dt_job_digest(&d.f);
    *out->job = *job;
    return DT_OK;
}

struct dt_pop_wish dt_command_wish(const struct dt_command *pop)
{
    return (struct dt_pop_wish){.topics = &pop->topic,
                                .n_topics = 1,
                                .max = pop->max,
                                .wait_ms = pop->wait_ms,
                                .form = pop->many ? DT_POP_FORM_COMMAND_LIST : DT_POP_FORM_COMMAND};
}

/* ---- answers ---- */

const struct dt_command_job *dt_command_name_jobs(dt_store *store, struct dt_arena *arena,
                                                  const struct dt_popped *popped)
{
    struct dt_command_job *names = dt_arena_alloc(arena, (popped->n + 1) * sizeof(*names));
    size_t n = 0;
    for (size_t i = 0; names && i < popped->n; i++) {
        names[i] = (struct dt_command_job){.id = popped->jobs[i].key.p ? popped->jobs[i].key : DT_STR_LIT("")};
        n += popped->jobs[i].key.p != NULL;
    }
    if (n == 0 || !names || dt_store_command_jobs(store, names, popped->n, arena, NULL) != DT_OK)
        return NULL;
    return names;
}

void dt_command_add_popped(struct dt_strbuf *out, enum dt_pop_form form, const struct dt_job *jobs, size_t n,
                           const struct dt_command_job *names)
{
    const bool list = form == DT_POP_FORM_COMMAND_LIST;
    dt_json_begin_object(out, NULL);
    dt_json_put_bool(out, "success", true);
    if (list)
        dt_json_begin_array(out, "jobs");
    for (size_t i = 0; i < n; i++) {
        if (list)
            dt_json_begin_object(out, NULL);
        if (names && names[i].job_id == jobs[i].id)
            dt_json_put_string(out, "id", names[i].id);
        else
            dt_json_put_id(out, "id", jobs[i].id);
        if (dt_utf8_valid(jobs[i].payload))
            dt_json_put_string(out, "value", jobs[i].payload.p ? jobs[i].payload : DT_STR_LIT(""));
        else
            dt_json_put_base64(out, "value_base64", jobs[i].payload);
        if (list)
            dt_json_end_object(out);
    }
    if (list)
        dt_json_end_array(out);
    dt_json_end_object(out);
}

const char *dt_command_refusal(enum dt_pop_topic why)
{
    return why == DT_POP_TOPIC_UNKNOWN ? "there is no such topic" : "the topic's delivery is not pull";
}

void dt_command_add_refusal(struct dt_strbuf *out, enum dt_pop_topic why)
{
    dt_json_begin_object(out, NULL);
    dt_json_put_bool(out, "success", false);
    dt_json_put_word(out, "error", dt_command_refusal(why));
    dt_json_end_object(out);
}
