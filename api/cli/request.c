/* Fills paths, encodes the values of options as JSON, and merges what is there with what is asked for. */
#include "request.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/json_write.h"
#include "rest.h"

#define FILE_MAX ((size_t)8 << 20)

void dt_cli_request_init(struct dt_cli_request *request)
{
    dt_strbuf_init(&request->path);
    dt_strbuf_init(&request->body);
}

void dt_cli_request_clear(struct dt_cli_request *request)
{
    dt_strbuf_clear(&request->path);
    dt_strbuf_clear(&request->body);
}

void dt_cli_member_of(const char *option, char out[64])
{
    snprintf(out, 64, "%s", option);
    for (char *p = out; *p; p++)
        *p = *p == '-' ? '_' : *p;
}

/* ---- values ---- */

static dt_status read_whole(const char *path, struct dt_strbuf *out, struct dt_error *err)
{
    char piece[65536];
    bool standard = strcmp(path, "-") == 0;
    FILE *in = standard ? stdin : fopen(path, "re");
    if (!in)
        return dt_fail(err, DT_INVALID, "%.200s: %s", path, strerror(errno));
    for (size_t n; out->n <= FILE_MAX && (n = fread(piece, 1, sizeof(piece), in)) > 0;)
        dt_strbuf_add(out, piece, n);
    bool failed = ferror(in);
    if (!standard)
        fclose(in);
    if (failed)
        return dt_fail(err, DT_INVALID, "%.200s cannot be read", path);
    size_t mark = out->n - dt_str_without_bom(dt_strbuf_str(out)).n;
    if (mark > 0)
        memmove(out->p, out->p + mark, out->n -= mark);
    return out->n > FILE_MAX ? dt_fail(err, DT_INVALID, "%.200s is longer than %zu MiB", path, FILE_MAX >> 20) : DT_OK;
}

/* Leaves the value as it was written, byte for byte, but for white space around it. */
static dt_status add_json(struct dt_strbuf *out, const char *value, const char *name, struct dt_error *err)
{
    struct dt_json_limits limits = {.depth = 64};
    struct dt_error why = {0};
    struct dt_strbuf text;
    dt_json *json = NULL;
    dt_strbuf_init(&text);
    dt_status status = value[0] == '@' ? read_whole(value + 1, &text, err) : DT_OK;
    if (value[0] != '@')
        dt_strbuf_adds(&text, value);
    if (status == DT_OK)
        status = dt_json_new(&json);
    if (status == DT_OK && dt_json_parse(json, dt_strbuf_str(&text), &limits, &why) != DT_OK)
        status = dt_fail(err, DT_INVALID, "--%s: this is no JSON: %.200s", name, why.text);
    if (status == DT_OK)
        dt_strbuf_add(out, dt_json_root(json)->raw.p, dt_json_root(json)->raw.n);
    dt_json_free(json);
    dt_strbuf_clear(&text);
    return status;
}

void dt_cli_add_list(struct dt_strbuf *out, struct dt_str text)
{
    dt_json_begin_array(out, NULL);
    while (text.n)
        dt_json_put_string(out, NULL, dt_str_next_element(&text));
    dt_json_end_array(out);
}

/* Appends an option's value as a JSON value. */
static dt_status add_value(struct dt_strbuf *out, const struct dt_cli_given *given, struct dt_error *err)
{
    const struct dt_cli_option *option = given->option;
    const char *value = given->value;
    bool may_be_null = option->kind == DT_CLI_SETTING || option->kind == DT_CLI_NUMBER || option->kind == DT_CLI_LIST;
    size_t digits = strspn(value, "0123456789");
    struct dt_strbuf secret;
    dt_status status = DT_OK;
    if (may_be_null && strcmp(value, "null") == 0) {
        dt_strbuf_adds(out, "null");
    } else if (option->kind == DT_CLI_SWITCH) {
        dt_strbuf_adds(out, "true");
    } else if (option->kind == DT_CLI_JSON) {
        status = add_json(out, value, option->name, err);
    } else if (option->kind == DT_CLI_SECRET) {
        dt_strbuf_init(&secret);
        status = read_whole(value, &secret, err);
        while (secret.n > 0 && strchr(" \t\r\n", secret.p[secret.n - 1]))
            secret.n--;
        if (status == DT_OK)
            dt_json_add_string(out, dt_strbuf_str(&secret));
        dt_strbuf_clear(&secret);
    } else if (option->kind == DT_CLI_NUMBER) {
        if (digits == 0 || digits > 18 || value[digits])
            return dt_fail(err, DT_INVALID, "--%s: \"%.80s\" is no whole number", option->name, value);
        dt_strbuf_add_i64(out, strtoll(value, NULL, 10));
    } else if (option->kind == DT_CLI_LIST) {
        dt_cli_add_list(out, dt_str(value));
    } else {
        dt_json_add_string(out, dt_str(value));
    }
    return status;
}

/* ---- path and body ---- */

void dt_cli_request_add_query(struct dt_cli_request *request, const char *name, const char *value)
{
    dt_strbuf_addc(&request->path, strchr(request->path.p ? request->path.p : "", '?') ? '&' : '?');
    dt_strbuf_addf(&request->path, "%s=", name);
    dt_rest_add_encoded(&request->path, value);
}

/* Opens the body, or makes room for one more member. */
static void begin_member(struct dt_strbuf *body, const char *name)
{
    if (body->n > 0)
        body->n--; /* its brace */
    else
        dt_json_begin_object(body, NULL);
    dt_json_name(body, name);
}

void dt_cli_request_add_member(struct dt_cli_request *request, const char *name, struct dt_str json)
{
    begin_member(&request->body, name);
    dt_strbuf_add(&request->body, json.p, json.n);
    dt_strbuf_addc(&request->body, '}');
}

dt_status dt_cli_request_build(const struct dt_cli_call *call, const char *path, const char *const *args,
                               struct dt_cli_request *out, struct dt_error *err)
{
    char member[64];
    struct dt_strbuf filter; /* the options of the filter, which are one member of the body */
    dt_status status = DT_OK;
    dt_strbuf_init(&filter);
    for (const char *p = path; *p; p++) {
        if (*p == '{') {
            dt_rest_add_encoded(&out->path, *args++);
            p = strchr(p, '}');
        } else {
            dt_strbuf_addc(&out->path, *p);
        }
    }
    for (unsigned i = 0; i < call->n_given && status == DT_OK; i++) {
        const struct dt_cli_given *given = &call->given[i];
        const enum dt_cli_place place = given->option->place;
        dt_cli_member_of(given->option->name, member);
        if (place == DT_CLI_QUERY)
            dt_cli_request_add_query(out, member, given->option->takes ? given->value : "true");
        if (place != DT_CLI_BODY && place != DT_CLI_SET && place != DT_CLI_FILTER)
            continue;
        struct dt_strbuf *object = place == DT_CLI_FILTER ? &filter : &out->body;
        begin_member(object, member);
        status = add_value(object, given, err);
        dt_strbuf_addc(object, '}');
    }
    if (filter.n > 0)
        dt_cli_request_add_member(out, "filter", dt_strbuf_str(&filter));
    if (status == DT_OK && (out->path.failed || out->body.failed || filter.failed))
        status = dt_fail(err, DT_NOMEM, "out of memory");
    dt_strbuf_clear(&filter);
    return status;
}

/* ---- merging ---- */

/* Whether the body has this member, or one that contradicts it. */
static bool replaces(const dt_json *json, const struct dt_json_node *body, struct dt_str name)
{
    /* Members of which a request has one alone. */
    static const char *const exclusive[][4] = {
        {"cron", "every", NULL}, {"payload", "payload_base64", "content_type", NULL}, {"run_at", "delay", NULL}};
    for (const struct dt_json_node *m = dt_json_first(json, body); m; m = dt_json_sibling(json, body, m))
        if (dt_str_eq(m->name, name))
            return true;
    for (size_t i = 0; i < sizeof(exclusive) / sizeof(exclusive[0]); i++) {
        bool named = false;
        bool set = false;
        for (const char *const *other = exclusive[i]; *other; other++) {
            named = named || dt_str_is(name, *other);
            set = set || dt_json_member(json, body, *other);
        }
        if (named && set)
            return true;
    }
    return false;
}

dt_status dt_cli_request_merge(struct dt_cli_request *request, struct dt_str present, struct dt_error *err)
{
    const struct dt_json_limits limits = {.depth = 64};
    struct dt_strbuf merged;
    dt_json *old = NULL;
    dt_json *new = NULL;
    dt_strbuf_init(&merged);
    if (request->body.n == 0)
        dt_strbuf_adds(&request->body, "{}");
    dt_status status = dt_json_new(&old);
    if (status == DT_OK)
        status = dt_json_new(&new);
    if (status == DT_OK)
        status = dt_json_parse(old, present, &limits, err);
    if (status == DT_OK)
        status = dt_json_parse(new, dt_strbuf_str(&request->body), &limits, err);
    if (status != DT_OK)
        goto out;
    const struct dt_json_node *there = dt_json_root(old);
    const struct dt_json_node *wanted = dt_json_root(new);
    dt_json_begin_object(&merged, NULL);
    for (const struct dt_json_node *m = dt_json_first(old, there); m; m = dt_json_sibling(old, there, m)) {
        if (replaces(new, wanted, m->name))
            continue;
        dt_json_put_key(&merged, m->name);
        dt_json_put_raw(&merged, NULL, m->raw);
    }
    if (wanted->n > 0) /* the members, without their braces */
        dt_json_put_raw(&merged, NULL, (struct dt_str){wanted->raw.p + 1, wanted->raw.n - 2});
    dt_json_end_object(&merged);
    struct dt_strbuf body = request->body;
    request->body = merged;
    merged = body;
out:
    dt_json_free(old);
    dt_json_free(new);
    dt_strbuf_clear(&merged);
    return status;
}
