/* Decodes bodies of pops: see pop_wish.h. Every member that is wrong is told. */
#include "pop_wish.h"

#include "jobs/job_json.h"

struct decoder {
    const dt_json *json;
    struct dt_faults *faults;
    bool topics_wanted;
    struct dt_pop_wish *out;
};

static void read_max(struct decoder *d, const struct dt_json_node *node)
{
    if (node->type != DT_JSON_INT || node->i < 1 || node->i > DT_POP_MAX)
        dt_faults_add(d->faults, "/max", "must be a whole number from 1 to 1000");
    else
        d->out->max = (size_t)node->i;
}

static void read_wait(struct decoder *d, const struct dt_json_node *node)
{
    const char *reason = dt_duration_decode(node, &d->out->wait_ms);
    if (!reason && d->out->wait_ms > DT_POP_WAIT_MS)
        reason = "must be at most a minute";
    if (reason)
        dt_faults_add(d->faults, "/wait", reason);
}

static void read_ttr(struct decoder *d, const struct dt_json_node *node)
{
    if (node->type == DT_JSON_NULL)
        return;
    const char *reason = dt_duration_decode(node, &d->out->ttr_ms);
    if (!reason && d->out->ttr_ms == 0)
        reason = "must be longer than 0";
    if (reason)
        dt_faults_add(d->faults, "/ttr", reason);
}

static void read_topics(struct decoder *d, const struct dt_json_node *node)
{
    if (!d->topics_wanted) {
        dt_faults_add(d->faults, "/topics", "the path names the topic");
        return;
    }
    if (node->type != DT_JSON_ARRAY || node->n < 1 || node->n > DT_POP_TOPICS) {
        dt_faults_add(d->faults, "/topics", "must be a list of 1 to 100 topics");
        return;
    }
    struct dt_str *topics = dt_arena_alloc(d->faults->arena, node->n * sizeof(*topics));
    d->faults->failed |= !topics;
    d->out->topics = topics;
    size_t i = 0;
    for (const struct dt_json_node *t = dt_json_first(d->json, node); topics && t;
         t = dt_json_sibling(d->json, node, t), i++) {
        bool fine = t->type == DT_JSON_STRING;
        for (size_t k = 0; fine && k < d->out->n_topics; k++)
            fine = !dt_str_eq(t->str, topics[k]);
        if (!fine) {
            dt_faults_add_item(d->faults, "/topics", i, "must be the name of a topic, each one once");
            continue;
        }
        topics[d->out->n_topics] = dt_arena_copy(d->faults->arena, t->str);
        d->faults->failed |= !topics[d->out->n_topics++].p;
    }
}

static const struct {
    const char *name;
    void (*read)(struct decoder *d, const struct dt_json_node *node);
} members[] = {{"max", read_max}, {"wait", read_wait}, {"ttr", read_ttr}, {"topics", read_topics}};

#define N_MEMBERS (sizeof(members) / sizeof(*members))

static void read_body(struct decoder *d)
{
    const struct dt_json_node *body = dt_json_root(d->json);
    if (body->type != DT_JSON_OBJECT) {
        dt_faults_add(d->faults, "", "must be an object");
        return;
    }
    for (const struct dt_json_node *m = dt_json_first(d->json, body); m; m = dt_json_sibling(d->json, body, m)) {
        size_t i = 0;
        while (i < N_MEMBERS && !dt_str_is(m->name, members[i].name))
            i++;
        if (i < N_MEMBERS)
            members[i].read(d, m);
        else
            dt_faults_add_member(d->faults, "", m->name, "is not known");
    }
}

dt_status dt_pop_wish_decode(const dt_json *json, struct dt_str topic, struct dt_faults *faults,
                             struct dt_pop_wish *out)
{
    struct decoder d = {.json = json, .faults = faults, .topics_wanted = !topic.p, .out = out};
    *out = (struct dt_pop_wish){.max = 1};
    if (topic.p) {
        struct dt_str *topics = dt_arena_alloc(faults->arena, sizeof(*topics));
        faults->failed |= !topics;
        if (topics)
            *topics = topic;
        out->topics = topics;
        out->n_topics = topics ? 1 : 0;
    }
    if (json)
        read_body(&d);
    if (!out->topics && faults->n == 0 && !faults->failed)
        dt_faults_add(faults, "/topics", "is missing");
    if (faults->failed)
        return DT_NOMEM;
    return faults->n > 0 ? DT_INVALID : DT_OK;
}
