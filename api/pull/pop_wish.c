/* Decodes bodies of pops: see pop_wish.h. Every member that is wrong is told. */
#include "pop_wish.h"

#include "base/text/json_table.h"

static void read_topics(struct dt_json_reader *r, const struct dt_json_field *field, const struct dt_json_node *node)
{
    struct dt_pop_wish *wish = r->out;
    if (wish->topics || node->type != DT_JSON_ARRAY || node->n < 1 || node->n > DT_POP_TOPICS) {
        dt_json_fault(r, field, wish->topics ? "the path names the topic" : "must be a list of 1 to 100 topics");
        return;
    }
    struct dt_str *topics = dt_arena_alloc(r->faults->arena, node->n * sizeof(*topics));
    r->faults->failed |= !topics;
    wish->topics = topics;
    size_t i = 0;
    for (const struct dt_json_node *t = topics ? dt_json_first(r->json, node) : NULL; t;
         t = dt_json_sibling(r->json, node, t), i++) {
        bool fine = t->type == DT_JSON_STRING;
        for (size_t k = 0; fine && k < wish->n_topics; k++)
            fine = !dt_str_eq(t->str, topics[k]);
        if (fine)
            topics[wish->n_topics++] = dt_json_keep(r->faults, t->str);
        else
            dt_faults_add_item(r->faults, "/topics", i, "must be the name of a topic, each one once");
    }
}

static const struct dt_json_field fields[] = {
    DT_FIELD("max", COUNT, struct dt_pop_wish, max, .min = 1, .max = DT_POP_MAX),
    DT_FIELD("wait", DURATION, struct dt_pop_wish, wait_ms, .max = DT_POP_WAIT_MS,
             .reason = "must be at most a minute"),
    DT_FIELD("ttr", DURATION, struct dt_pop_wish, ttr_ms, .min = 1, .reason = DT_REASON_NOT_ZERO,
             .flags = DT_FIELD_NULLABLE),
    DT_FIELD_BY("topics", read_topics),
};
static const struct dt_json_table table = DT_TABLE(fields, .unknown = DT_REASON_UNKNOWN);

dt_status dt_pop_wish_decode(const dt_json *json, struct dt_str topic, struct dt_faults *faults,
                             struct dt_pop_wish *out)
{
    struct dt_json_reader r = {.json = json, .faults = faults, .out = out};
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
        dt_json_read(&r, &table, dt_json_root(json));
    if (!out->topics && faults->n == 0 && !faults->failed)
        dt_faults_add(faults, "/topics", "is missing");
    return dt_faults_status(faults);
}
