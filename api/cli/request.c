/* Fills paths, encodes the values of options as JSON, and merges what is there with what is asked for. */
#include "request.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/rest.h"

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

static dt_status add_secret(struct dt_strbuf *out, const char *path, struct dt_error *err)
{
    struct dt_strbuf text;
    dt_strbuf_init(&text);
    dt_status status = read_whole(path, &text, err);
    while (text.n > 0 && strchr(" \t\r\n", text.p[text.n - 1]))
        text.n--;
    if (status == DT_OK)
        dt_json_add_string(out, dt_strbuf_str(&text));
    dt_strbuf_clear(&text);
    return status;
}

static dt_status add_number(struct dt_strbuf *out, const char *value, const char *name, struct dt_error *err)
{
    size_t n = strspn(value, "0123456789");
    if (n == 0 || n > 18 || value[n])
        return dt_fail(err, DT_INVALID, "--%s: \"%.80s\" is no whole number", name, value);
    dt_strbuf_add_i64(out, strtoll(value, NULL, 10));
    return DT_OK;
}

static void add_list(struct dt_strbuf *out, const char *value)
{
    dt_strbuf_addc(out, '[');
    for (const char *p = value; *p;) {
        size_t n = strcspn(p, ",");
        dt_json_add_string(out, dt_str_trimmed((struct dt_str){p, n}));
        p += n + (p[n] ? 1 : 0);
        if (*p)
            dt_strbuf_addc(out, ',');
    }
    dt_strbuf_addc(out, ']');
}

static bool may_be_null(enum dt_cli_kind kind)
{
    return kind == DT_CLI_SETTING || kind == DT_CLI_NUMBER || kind == DT_CLI_LIST;
}

static dt_status add_value(struct dt_strbuf *out, const struct dt_cli_given *given, struct dt_error *err)
{
    const struct dt_cli_option *option = given->option;
    dt_status status = DT_OK;
    if (may_be_null(option->kind) && strcmp(given->value, "null") == 0)
        dt_strbuf_adds(out, "null");
    else if (option->kind == DT_CLI_SWITCH)
        dt_strbuf_adds(out, "true");
    else if (option->kind == DT_CLI_JSON)
        status = add_json(out, given->value, option->name, err);
    else if (option->kind == DT_CLI_SECRET)
        status = add_secret(out, given->value, err);
    else if (option->kind == DT_CLI_NUMBER)
        status = add_number(out, given->value, option->name, err);
    else if (option->kind == DT_CLI_LIST)
        add_list(out, given->value);
    else
        dt_json_add_string(out, dt_str(given->value));
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
        body->p[body->n - 1] = ',';
    else
        dt_strbuf_addc(body, '{');
    dt_json_add_string(body, dt_str(name));
    dt_strbuf_addc(body, ':');
}

void dt_cli_request_add_member(struct dt_cli_request *request, const char *name, struct dt_str json)
{
    begin_member(&request->body, name);
    dt_strbuf_add(&request->body, json.p, json.n);
    dt_strbuf_addc(&request->body, '}');
}

static void fill_path(struct dt_strbuf *out, const char *path, const char *const *args)
{
    for (const char *p = path; *p; p++) {
        if (*p != '{') {
            dt_strbuf_addc(out, *p);
            continue;
        }
        dt_rest_add_encoded(out, *args++);
        p = strchr(p, '}');
    }
}

static bool is_of_body(enum dt_cli_place place)
{
    return place == DT_CLI_BODY || place == DT_CLI_SET;
}

/* Adds the options of the filter as a member of the body. */
static dt_status add_filter(const struct dt_cli_call *call, struct dt_cli_request *out, struct dt_error *err)
{
    char member[64];
    struct dt_strbuf filter;
    dt_status status = DT_OK;
    dt_strbuf_init(&filter);
    for (unsigned i = 0; i < call->n_given && status == DT_OK; i++) {
        if (call->given[i].option->place != DT_CLI_FILTER)
            continue;
        dt_cli_member_of(call->given[i].option->name, member);
        begin_member(&filter, member);
        status = add_value(&filter, &call->given[i], err);
        dt_strbuf_addc(&filter, '}');
    }
    if (filter.n > 0)
        dt_cli_request_add_member(out, "filter", dt_strbuf_str(&filter));
    dt_strbuf_clear(&filter);
    return status;
}

dt_status dt_cli_request_build(const struct dt_cli_call *call, const char *path, const char *const *args,
                               struct dt_cli_request *out, struct dt_error *err)
{
    char member[64];
    dt_status status = DT_OK;
    fill_path(&out->path, path, args);
    for (unsigned i = 0; i < call->n_given && status == DT_OK; i++) {
        const struct dt_cli_given *given = &call->given[i];
        dt_cli_member_of(given->option->name, member);
        if (given->option->place == DT_CLI_QUERY)
            dt_cli_request_add_query(out, member, given->option->takes ? given->value : "true");
        if (!is_of_body(given->option->place))
            continue;
        begin_member(&out->body, member);
        status = add_value(&out->body, given, err);
        dt_strbuf_addc(&out->body, '}');
    }
    if (status == DT_OK)
        status = add_filter(call, out, err);
    if (status == DT_OK && (out->path.failed || out->body.failed))
        status = dt_fail(err, DT_NOMEM, "out of memory");
    return status;
}

/* ---- merging ---- */

/* Members of which a request has one alone. */
static const char *const exclusive[][4] = {
    {"cron", "every", NULL}, {"payload", "payload_base64", "content_type", NULL}, {"run_at", "delay", NULL}};

/* Whether the member contradicts one that the body has. */
static bool contradicts(const dt_json *json, const struct dt_json_node *body, struct dt_str name)
{
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

static bool has(const dt_json *json, const struct dt_json_node *body, struct dt_str name)
{
    for (const struct dt_json_node *m = dt_json_first(json, body); m; m = dt_json_sibling(json, body, m))
        if (dt_str_eq(m->name, name))
            return true;
    return false;
}

static void add_merged(struct dt_strbuf *out, const dt_json *present, const dt_json *wanted)
{
    const struct dt_json_node *old = dt_json_root(present);
    const struct dt_json_node *new = dt_json_root(wanted);
    dt_strbuf_addc(out, '{');
    for (const struct dt_json_node *m = dt_json_first(present, old); m; m = dt_json_sibling(present, old, m)) {
        if (has(wanted, new, m->name) || contradicts(wanted, new, m->name))
            continue;
        dt_json_add_string(out, m->name);
        dt_strbuf_addc(out, ':');
        dt_strbuf_add(out, m->raw.p, m->raw.n);
        dt_strbuf_addc(out, ',');
    }
    dt_strbuf_add(out, new->raw.p + 1, new->raw.n - 1);
    if (new->n == 0 && out->n > 2) { /* nothing follows the last comma */
        out->n -= 2;
        dt_strbuf_addc(out, '}');
    }
}

dt_status dt_cli_request_merge(struct dt_cli_request *request, struct dt_str present, struct dt_error *err)
{
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
        status = dt_json_parse(old, present, &(struct dt_json_limits){.depth = 64}, err);
    if (status == DT_OK)
        status = dt_json_parse(new, dt_strbuf_str(&request->body), &(struct dt_json_limits){.depth = 64}, err);
    if (status == DT_OK) {
        add_merged(&merged, old, new);
        struct dt_strbuf body = request->body;
        request->body = merged;
        merged = body;
    }
    dt_json_free(old);
    dt_json_free(new);
    dt_strbuf_clear(&merged);
    return status;
}
