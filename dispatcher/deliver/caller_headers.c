/* Reading callers' headers: the members of one flat object, whose text nobody vouches for. */
#include "caller_headers.h"

#define DEPTH 2

dt_status dt_caller_headers_open(struct dt_caller_headers *headers, struct dt_str text, dt_json *json)
{
    struct dt_json_limits limits = {.depth = DEPTH};
    *headers = (struct dt_caller_headers){.json = json};
    dt_status status = text.p ? dt_json_parse(json, text, &limits, NULL) : DT_INVALID;
    if (status != DT_OK)
        return status == DT_NOMEM ? DT_NOMEM : DT_OK;
    const struct dt_json_node *root = dt_json_root(json);
    if (root->type != DT_JSON_OBJECT)
        return DT_OK;
    headers->max = root->n;
    headers->object = root;
    headers->member = dt_json_first(json, root);
    return DT_OK;
}

bool dt_caller_headers_next(struct dt_caller_headers *headers, struct dt_str *name, struct dt_str *value)
{
    const struct dt_json_node *member = headers->member;
    while (member && member->type != DT_JSON_STRING)
        member = dt_json_sibling(headers->json, headers->object, member);
    if (!member)
        return false;
    *name = member->name;
    *value = member->str;
    headers->member = dt_json_sibling(headers->json, headers->object, member);
    return true;
}
