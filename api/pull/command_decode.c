/* Decodes commands: see command.h. One table of members, with the commands that each goes with. */
#include "base/text/timetext.h"
#include "command.h"
#include "job/request/job_fields.h"

#define RETRIES "0s 0s 0s 0s 0s 0s 0s 0s 0s" /* nine times at once */

struct decoder {
    const struct dt_job_rules *rules;
    struct dt_faults *faults;
    struct dt_command *out;
    struct dt_job_fields f;
    bool too_large;
};

static struct dt_str keep(struct decoder *d, struct dt_str text)
{
    struct dt_str copy = dt_arena_copy(d->faults->arena, text);
    d->faults->failed |= !copy.p;
    return copy;
}

static void read_topic(struct decoder *d, const struct dt_json_node *node)
{
    const char *reason =
        node->type != DT_JSON_STRING ? "must be a string" : dt_topic_check(node->str, d->rules->installation);
    if (reason)
        dt_faults_add(d->faults, "/topic", reason);
    else
        d->f.topic = keep(d, node->str);
}

static void read_id(struct decoder *d, const struct dt_json_node *node)
{
    const char *reason = node->type != DT_JSON_STRING ? "must be a string" : dt_key_check(node->str);
    if (reason)
        dt_faults_add(d->faults, "/id", reason);
    else
        d->f.key = keep(d, node->str);
}

/* A number of seconds, perhaps with a fraction. False: a fault was added. */
static bool read_seconds(struct decoder *d, const struct dt_json_node *node, const char *pointer, int64_t *out_ms)
{
    bool number = node->type == DT_JSON_INT || node->type == DT_JSON_NUMBER;
    if (number && dt_number_parse_ms(node->raw, 3, out_ms) == DT_OK)
        return true;
    dt_faults_add(d->faults, pointer, "must be a number of seconds, from 0 to 100 years");
    return false;
}

static void read_delay(struct decoder *d, const struct dt_json_node *node)
{
    if (read_seconds(d, node, "/delay", &d->f.delay_ms) && d->f.delay_ms > d->rules->max_delay_ms)
        dt_faults_addf(d->faults, "/delay", "is further ahead than limits.max_delay allows (%lld days)",
                       (long long)(d->rules->max_delay_ms / DT_DAY_MS));
}

static void read_ttr(struct decoder *d, const struct dt_json_node *node)
{
    if (read_seconds(d, node, "/TTR", &d->f.ack_timeout_ms) && d->f.ack_timeout_ms == 0)
        dt_faults_add(d->faults, "/TTR", "must be longer than 0");
    d->f.has |= DT_MEMBER_ACK_TIMEOUT;
}

static void read_body(struct decoder *d, const struct dt_json_node *node)
{
    if (node->type != DT_JSON_STRING) {
        dt_faults_add(d->faults, "/body", "must be a string");
        return;
    }
    d->f.payload = keep(d, node->str);
    if (node->str.n <= d->rules->payload_max)
        return;
    d->too_large = true;
    dt_faults_addf(d->faults, "/body", "has %zu bytes, %zu are allowed", node->str.n, d->rules->payload_max);
}

static void read_wait(struct decoder *d, const struct dt_json_node *node)
{
    if (read_seconds(d, node, "/wait", &d->out->wait_ms) && d->out->wait_ms > DT_POP_WAIT_MS)
        dt_faults_add(d->faults, "/wait", "must be at most 60");
}

static void read_max(struct decoder *d, const struct dt_json_node *node)
{
    if (node->type != DT_JSON_INT || node->i < 1 || node->i > DT_POP_MAX) {
        dt_faults_add(d->faults, "/max", "must be a whole number from 1 to 1000");
        return;
    }
    d->out->max = (size_t)node->i;
    d->out->many = node->i > 1;
}

#define ADD     (1u << DT_VERB_ADD)
#define POP     (1u << DT_VERB_POP)
#define FINISH  (1u << DT_VERB_FINISH)
#define DELETE  (1u << DT_VERB_DELETE)
#define N_VERBS (DT_VERB_DELETE + 1u)

static const struct member {
    const char *name, *pointer;
    unsigned with, required; /* by commands */
    void (*read)(struct decoder *d, const struct dt_json_node *node);
} members[] = {
    {"command", "/command", ADD | POP | FINISH | DELETE, 0, NULL}, /* read first */
    {"topic", "/topic", ADD | POP, ADD | POP, read_topic},
    {"id", "/id", ADD | FINISH | DELETE, ADD | FINISH | DELETE, read_id},
    {"delay", "/delay", ADD, 0, read_delay},
    {"TTR", "/TTR", ADD, 0, read_ttr},
    {"body", "/body", ADD, 0, read_body},
    {"wait", "/wait", POP, 0, read_wait},
    {"max", "/max", POP, 0, read_max},
};

#define N_MEMBERS (sizeof(members) / sizeof(*members))

static void read_command(struct decoder *d, const dt_json *json, const struct dt_json_node *root)
{
    static const char *const words[] = {
        [DT_VERB_ADD] = "add", [DT_VERB_POP] = "pop", [DT_VERB_FINISH] = "finish", [DT_VERB_DELETE] = "delete"};
    const struct dt_json_node *word = dt_json_member(json, root, "command");
    unsigned verb = word && word->type == DT_JSON_STRING ? 0 : N_VERBS;
    while (verb < N_VERBS && !dt_str_is(word->str, words[verb]))
        verb++;
    if (verb == N_VERBS) {
        dt_faults_add(d->faults, "/command", "must be one of add, pop, finish, delete");
        return;
    }
    d->out->verb = (enum dt_verb)verb;
    for (const struct dt_json_node *m = dt_json_first(json, root); m; m = dt_json_sibling(json, root, m)) {
        size_t i = 0;
        while (i < N_MEMBERS && !dt_str_is(m->name, members[i].name))
            i++;
        if (i == N_MEMBERS)
            dt_faults_add_member(d->faults, "", m->name, "is not known");
        else if (!(members[i].with & 1u << verb))
            dt_faults_add(d->faults, members[i].pointer, "does not go with this command");
        else if (members[i].read)
            members[i].read(d, m);
    }
    for (size_t i = 0; i < N_MEMBERS; i++)
        if (members[i].required & 1u << verb && !dt_json_member(json, root, members[i].name))
            dt_faults_add(d->faults, members[i].pointer, "is required");
}

dt_status dt_command_decode(const dt_json *json, const struct dt_job_rules *rules, int64_t now_ms,
                            struct dt_faults *faults, struct dt_command *out)
{
    struct decoder d = {.rules = rules, .faults = faults, .out = out};
    const struct dt_json_node *root = dt_json_root(json);
    *out = (struct dt_command){.job = out->job, .max = 1};
    if (root->type == DT_JSON_OBJECT)
        read_command(&d, json, root);
    else
        dt_faults_add(faults, "", "must be a command, an object");
    if (faults->failed)
        return DT_NOMEM;
    if (faults->n > 0)
        return d.too_large ? DT_TOO_LARGE : DT_INVALID;
    out->id = d.f.key;
    out->topic = d.f.topic;
    if (out->verb != DT_VERB_ADD)
        return DT_OK;
    struct dt_job_fields *f = &d.f;
    f->has |= DT_MEMBER_KEY | DT_MEMBER_DELAY | DT_MEMBER_PAYLOAD_BASE64 | DT_MEMBER_CONTENT_TYPE;
    f->content_type = DT_STR_LIT("text/plain");
    f->payload = f->payload.p ? f->payload : DT_STR_LIT("");
    *out->job = (struct dt_new_job){.topic = f->topic,
                                    .key = f->key,
                                    .by_command = true,
                                    .run_at_ms = now_ms + f->delay_ms,
                                    .retry = DT_STR_LIT(RETRIES),
                                    .ack_timeout_ms = f->ack_timeout_ms,
                                    .content_type = f->content_type,
                                    .payload = f->payload,
                                    .payload_binary = true};
    dt_job_digest(f, out->job->digest);
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
