/* JSON: what is taken is a tree of slices of the text, and each value's text is that value again. First byte:
 * limits. */
#include <stdlib.h>
#include <string.h>

#include "base/text/json.h"
#include "base/text/json_write.h"
#include "fuzz.h"

static dt_json *json, *other;

static void check_string(const struct dt_json_node *node)
{
    struct dt_strbuf written = {0};
    MUST(dt_utf8_valid(node->str));
    dt_json_add_string(&written, node->str);
    MUST(dt_json_parse(other, dt_strbuf_str(&written), &(struct dt_json_limits){0}, NULL) == DT_OK);
    MUST(dt_json_root(other)->type == DT_JSON_STRING && dt_str_eq(dt_json_root(other)->str, node->str));
    dt_strbuf_clear(&written);
}

/* Counts what there is below a node by walking; each child lies within its parent. */
static uint32_t walk(const struct dt_json_node *node, struct dt_str text, unsigned depth)
{
    uint32_t children = 0, all = 1;
    MUST(depth < 100);
    MUST(node->raw.n > 0 && node->raw.p >= text.p && node->raw.p + node->raw.n <= text.p + text.n);
    if (node->type == DT_JSON_STRING && node->str.p)
        check_string(node);
    for (const struct dt_json_node *c = dt_json_first(json, node); c; c = dt_json_sibling(json, node, c)) {
        MUST(c->raw.p > node->raw.p && c->raw.p + c->raw.n < node->raw.p + node->raw.n);
        children++;
        all += walk(c, text, depth + 1);
    }
    MUST(children == node->n || (node->n == 0 && children == 0));
    return all;
}

static void check_again(struct dt_str raw, uint32_t nodes, const struct dt_json_limits *limits)
{
    struct dt_str copy = exact_copy(raw);
    MUST(dt_json_parse(json, copy, limits, NULL) == DT_OK);
    MUST(walk(dt_json_root(json), copy, 0) == nodes);
    free_copy(copy);
}

static size_t fault_at(const struct dt_error *err)
{
    const char *space = strrchr(err->text, ' ');
    MUST(space && strstr(err->text, " at byte "));
    return (size_t)strtoull(space + 1, NULL, 10);
}

/* Up to its fault a text is the beginning of a JSON text, or one: by itself it ends too early, exactly there. */
static void check_fault(struct dt_str text, size_t at, const struct dt_json_limits *limits)
{
    struct dt_error err = {0};
    MUST(at <= text.n);
    struct dt_str before = exact_copy((struct dt_str){text.p, at});
    dt_status status = dt_json_parse(other, before, limits, &err);
    if (status == DT_TOO_LARGE) /* a number that went on into the fault is whole now, and one value too many */
        MUST(fault_at(&err) <= at);
    else if (status != DT_OK)
        MUST(fault_at(&err) == at);
    free_copy(before);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct input in = {(const char *)data, n};
    unsigned char flags = input_byte(&in);
    struct dt_json_limits limits = {.depth = flags & 15,
                                    .opaque = flags & 16 ? "payload" : NULL,
                                    .elements = (flags & 32) != 0,
                                    .nodes = flags & 64 ? 20 : 0};
    struct dt_error err = {0};
    if (!json)
        MUST(dt_json_new(&json) == DT_OK && dt_json_new(&other) == DT_OK);
    struct dt_str text = exact_copy(input_rest(&in));
    dt_status status = dt_json_parse(json, text, &limits, &err);
    if (status == DT_OK) {
        struct dt_str raw = dt_json_root(json)->raw;
        check_again(raw, walk(dt_json_root(json), text, 0), &limits);
    } else {
        MUST(status == DT_MALFORMED || status == DT_TOO_LARGE);
        MUST(!dt_json_root(json) && err.text[0]);
        check_fault(text, fault_at(&err), &limits);
    }
    free_copy(text);
    return 0;
}
