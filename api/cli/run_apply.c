/*
 * Makes topics and schedules as a file says. The file has them as GET gives them: an object with the lists "topics" and
 * "schedules", or with one of them; a topic or a schedule alone; or several of these, one on each line.
 *
 *   check the file ─▶ GET each thing, show what differs ─▶ "apply?" ─▶ PUT what differs, DELETE what --prune finds
 *
 * A member that the file does not name stays as it is, and null means its default. So a list of schedules, which has no
 * payloads, keeps them. Times and durations are equal if they mean the same: "60s" and "PT1M". A secret that reads
 * "***" stays as it is, because the API keeps it. Topics are changed before schedules, which need them.
 */
#include "base/service.h"
#include "base/text/json_write.h"
#include "base/text/timetext.h"
#include "cli.h"
#include "show.h"
#include "words.h"

enum kind { TOPIC, SCHEDULE, KINDS };

static const char *const nouns[KINDS] = {"topic", "schedule"};
static const char *const lists[KINDS] = {"topics", "schedules"};

struct apply {
    struct dt_cli *cli;
    struct dt_strbuf text;   /* the file */
    dt_json *file, *there;   /* the file, and the latest answer, parsed */
    bool listed[KINDS];      /* the file has a list of this kind, so that --prune knows what the file lacks */
    struct dt_strbuf wanted; /* "\ntopics/NAME\n" for each thing of the file */
    struct dt_cli_request request;
    struct dt_rest_answer answer;
    bool changes; /* change things; otherwise only show what differs */
    unsigned created, changed, deleted;
};

/* ---- the file ---- */

static bool is_null(const struct dt_json_node *node)
{
    return !node || node->type == DT_JSON_NULL;
}

typedef int visit(struct apply *a, enum kind kind, const struct dt_json_node *thing);

/* Calls fn for each topic or schedule of the file, until it returns another code than DONE. */
static int visit_things(struct apply *a, const struct dt_json_node *node, enum kind kind, visit *fn)
{
    const struct dt_json_node *list = dt_json_member(a->file, node, lists[kind]);
    const bool bundle = dt_json_member(a->file, node, lists[TOPIC]) || dt_json_member(a->file, node, lists[SCHEDULE]);
    int code = DT_CLI_DONE;
    if (node->type == DT_JSON_OBJECT && !bundle) {
        const bool schedule = dt_json_member(a->file, node, "topic") || dt_json_member(a->file, node, "cron") ||
                              dt_json_member(a->file, node, "every");
        return schedule == (kind == SCHEDULE) ? fn(a, kind, node) : DT_CLI_DONE;
    }
    const struct dt_json_node *items = bundle ? list : node;
    for (const struct dt_json_node *item = items ? dt_json_first(a->file, items) : NULL; item && code == DT_CLI_DONE;
         item = dt_json_sibling(a->file, items, item))
        code = bundle ? fn(a, kind, item) : visit_things(a, item, kind, fn);
    a->listed[kind] = a->listed[kind] || (bundle && list && is_null(dt_json_member(a->file, node, "next_cursor")));
    return code;
}

/* Checks that the thing has a name of its own. */
static int check_thing(struct apply *a, enum kind kind, const struct dt_json_node *thing)
{
    const struct dt_str name = dt_json_text_of(a->file, thing, "name");
    struct dt_strbuf line = {0};
    if (name.n == 0 || strlen(name.p) != name.n) {
        dt_cli_say("the file has a %s without a name", nouns[kind]);
        return DT_CLI_USAGE;
    }
    dt_strbuf_addf(&line, "\n%s/%s\n", lists[kind], name.p);
    const bool twice = line.p && a->wanted.p && strstr(a->wanted.p, line.p);
    dt_strbuf_add(&a->wanted, line.p, line.n);
    dt_strbuf_clear(&line);
    if (twice)
        dt_cli_say("the file has the %s %s twice", nouns[kind], name.p);
    return twice ? DT_CLI_USAGE : DT_CLI_DONE;
}

/* Parses the file: one JSON value, or one on each line. */
static dt_status parse_file(struct apply *a, struct dt_error *err)
{
    static const struct dt_json_limits limits = {.depth = 64};
    struct dt_error of_lines = {0};
    struct dt_strbuf joined = {0};
    dt_status status = dt_json_parse(a->file, dt_strbuf_str(&a->text), &limits, err);
    if (status == DT_OK || !strchr(a->text.p ? a->text.p : "", '\n'))
        return status;
    dt_strbuf_addc(&joined, '[');
    for (const char *p = a->text.p; *p;) {
        const size_t n = strcspn(p, "\n");
        if (strspn(p, " \t\r") < n) {
            dt_strbuf_adds(&joined, joined.n > 1 ? "," : "");
            dt_strbuf_add(&joined, p, n);
        }
        p += n + (p[n] ? 1 : 0);
    }
    dt_strbuf_addc(&joined, ']');
    dt_strbuf_clear(&a->text);
    a->text = joined; /* the nodes borrow from it */
    return dt_json_parse(a->file, dt_strbuf_str(&joined), &limits, &of_lines) == DT_OK ? DT_OK : status;
}

static int read_things(struct apply *a)
{
    const char *path = dt_cli_value(a->cli->call, "file");
    struct dt_error err = {0};
    struct dt_error why = {0};
    int code = DT_CLI_DONE;
    if (!path) {
        dt_cli_say("apply takes a file: -f FILE");
        return DT_CLI_USAGE;
    }
    dt_status status = dt_cli_read_file(path, &a->text, &err);
    if (status == DT_OK && parse_file(a, &why) != DT_OK)
        status = dt_fail(&err, DT_INVALID, "%.100s: not valid JSON: %.160s", path, why.text);
    if (status != DT_OK)
        return dt_cli_failed(status, &err);
    for (enum kind kind = TOPIC; kind < KINDS && code == DT_CLI_DONE; kind++)
        code = visit_things(a, dt_json_root(a->file), kind, check_thing);
    const bool listed = a->listed[TOPIC] || a->listed[SCHEDULE];
    if (code == DT_CLI_DONE && a->wanted.n == 0 && !listed) {
        dt_cli_say("%.200s has no topics and no schedules", path);
        return DT_CLI_USAGE;
    }
    if (code == DT_CLI_DONE && !listed && dt_cli_value(a->cli->call, "prune")) {
        dt_cli_say("--prune needs a file with a whole list: {\"topics\":[…]}, {\"schedules\":[…]}");
        return DT_CLI_USAGE;
    }
    return code;
}

/* ---- comparing ---- */

static bool is_one_of(struct dt_str name, const char *const *names)
{
    while (*names && !dt_str_is(name, *names))
        names++;
    return *names;
}

/* Members that the API sets: what the file says of them does not matter. */
static const char *const read_only[] = {
    "name",    "effective", "counts",  "oldest_overdue_ms", "oldest_held_ms", "created_at", "updated_at",
    "version", "deletion",  "next_at", "last_job_id",       "last_fire_at",   "last_error", NULL};
/* Members whose values are times and durations, and lists and objects of these. */
static const char *const timed[] = {"retry",     "ack_timeout", "retention", "callback_timeout", "alerts", "every",
                                    "starts_at", "ends_at",     "catch_up",  "jitter",           NULL};
static const char *const hidden[] = {"callback_secret", "callback_headers", "secret", NULL};

static bool is_equal_scalar(const struct dt_json_node *x, const struct dt_json_node *y, bool is_timed)
{
    const struct dt_str a = x->type == DT_JSON_STRING ? x->str : x->raw; /* a number is milliseconds */
    const struct dt_str b = y->type == DT_JSON_STRING ? y->str : y->raw;
    int64_t a_ms;
    int64_t b_ms;
    if (dt_str_eq(a, b))
        return x->type == y->type;
    return is_timed &&
           ((dt_duration_parse(a, &a_ms) == DT_OK && dt_duration_parse(b, &b_ms) == DT_OK && a_ms == b_ms) ||
            (dt_time_parse(a, &a_ms) == DT_OK && dt_time_parse(b, &b_ms) == DT_OK && a_ms == b_ms));
}

static const struct dt_json_node *find_member(const dt_json *json, const struct dt_json_node *object,
                                              struct dt_str name)
{
    const struct dt_json_node *m = object && object->type == DT_JSON_OBJECT ? dt_json_first(json, object) : NULL;
    while (m && !dt_str_eq(m->name, name))
        m = dt_json_sibling(json, object, m);
    return m;
}

/* Compares a value of the file with a value of the answer. A member that is null equals a member that is absent. */
static bool is_equal(const struct apply *a, const struct dt_json_node *x, const struct dt_json_node *y, bool is_timed)
{
    bool equal = true;
    if (is_null(x) || is_null(y))
        return is_null(x) && is_null(y);
    if (x->type < DT_JSON_ARRAY || x->type != y->type)
        return x->type < DT_JSON_ARRAY && y->type < DT_JSON_ARRAY && is_equal_scalar(x, y, is_timed);
    if (x->type == DT_JSON_ARRAY) {
        const struct dt_json_node *n = dt_json_first(a->there, y);
        for (const struct dt_json_node *m = dt_json_first(a->file, x); m && n && equal;
             m = dt_json_sibling(a->file, x, m)) {
            equal = is_equal(a, m, n, is_timed);
            n = dt_json_sibling(a->there, y, n);
        }
        return equal && x->n == y->n;
    }
    for (const struct dt_json_node *m = dt_json_first(a->file, x); m && equal; m = dt_json_sibling(a->file, x, m))
        equal = is_equal(a, m, find_member(a->there, y, m->name), is_timed);
    for (const struct dt_json_node *n = dt_json_first(a->there, y); n && equal; n = dt_json_sibling(a->there, y, n))
        equal = is_null(n) || find_member(a->file, x, n->name);
    return equal;
}

/* Returns whether the stored value is what the member's null in the file means. */
static bool is_default(struct dt_str name, const struct dt_json_node *value)
{
    static const char *const defaults[][2] = {
        {"time_zone", "UTC"}, {"overlap", "allow"}, {"catch_up", "PT0S"}, {"jitter", "PT0S"}};
    for (size_t i = 0; i < sizeof(defaults) / sizeof(defaults[0]); i++)
        if (dt_str_is(name, defaults[i][0]) && dt_str_is(value->str, defaults[i][1]))
            return true;
    return false;
}

/* ---- what differs ---- */

/* Adds a value. A value that is or has a secret is shown as "***". */
static void add_shown_value(struct dt_strbuf *out, const dt_json *json, struct dt_str name,
                            const struct dt_json_node *value)
{
    const bool hides = !is_null(value) && (is_one_of(name, hidden) || !is_null(dt_json_member(json, value, "secret")));
    dt_json_add_compact(out, is_null(value) ? DT_STR_LIT("null") : hides ? DT_STR_LIT("\"***\"") : value->raw);
}

/* Shows one thing that differs: "+ topic x", "~ topic x", "- topic x"; then each member of it, as `members` says. */
static void show_difference(const struct apply *a, char sign, const char *noun, struct dt_str name,
                            const struct dt_strbuf *members)
{
    struct dt_strbuf out = {0};
    if (a->cli->form == DT_CLI_AS_JSON) {
        dt_json_begin_object(&out, NULL);
        dt_json_put_word(&out, "action", sign == '+' ? "create" : sign == '-' ? "delete" : "change");
        dt_json_put_word(&out, "kind", noun);
        dt_json_put_string(&out, "name", name);
        dt_json_put_raw(&out, "changes", members->n ? dt_strbuf_str(members) : DT_STR_LIT("[]"));
        dt_json_end_object(&out);
        dt_cli_show_json(a->cli, dt_strbuf_str(&out));
    } else {
        printf("%c %s ", sign, noun);
        dt_cli_add_plain(&out, name);
        printf("%s\n%.*s", out.p ? out.p : "", (int)members->n, members->p ? members->p : "");
    }
    dt_strbuf_clear(&out);
}

/* Adds each member of the file's thing that differs from the stored thing (NULL: there is none) to `out`, in the form
 * that show_difference prints. Returns their number. */
static unsigned compare_thing(const struct apply *a, const struct dt_json_node *thing, const struct dt_json_node *there,
                              struct dt_strbuf *out)
{
    const bool json = a->cli->form == DT_CLI_AS_JSON;
    unsigned n = 0;
    if (json)
        dt_json_begin_array(out, NULL);
    for (const struct dt_json_node *m = dt_json_first(a->file, thing); m; m = dt_json_sibling(a->file, thing, m)) {
        const struct dt_json_node *old = find_member(a->there, there, m->name);
        struct dt_strbuf from = {0};
        struct dt_strbuf to = {0};
        if (is_one_of(m->name, read_only) || is_equal(a, m, old, is_one_of(m->name, timed)) ||
            (is_null(m) && old && is_default(m->name, old)))
            continue;
        n++;
        add_shown_value(&from, a->there, m->name, old);
        add_shown_value(&to, a->file, m->name, m);
        if (json) {
            dt_json_begin_object(out, NULL);
            dt_json_put_string(out, "member", m->name);
            dt_json_put_raw(out, "from", dt_strbuf_str(&from));
            dt_json_put_raw(out, "to", dt_strbuf_str(&to));
            dt_json_end_object(out);
        } else {
            dt_strbuf_adds(out, "    ");
            dt_cli_add_plain(out, m->name);
            dt_strbuf_adds(out, ": ");
            if (there) {
                dt_cli_add_plain(out, dt_strbuf_str(&from));
                dt_strbuf_adds(out, " -> ");
            }
            dt_cli_add_plain(out, dt_strbuf_str(&to));
            dt_strbuf_adds(out, dt_str_eq(dt_strbuf_str(&from), dt_strbuf_str(&to)) ? " (the file's)\n" : "\n");
        }
        dt_strbuf_clear(&from);
        dt_strbuf_clear(&to);
    }
    if (json)
        dt_json_end_array(out);
    return n;
}

static void set_path(struct apply *a, enum kind kind, const char *name)
{
    dt_cli_request_clear(&a->request);
    dt_strbuf_addf(&a->request.path, "/v1/%s/", lists[kind]);
    dt_rest_add_encoded(&a->request.path, name);
}

/* Compares a thing with what is stored; then shows the difference, or stores the thing. */
static int apply_thing(struct apply *a, enum kind kind, const struct dt_json_node *thing)
{
    const struct dt_str name = dt_json_text_of(a->file, thing, "name");
    struct dt_strbuf members = {0};
    struct dt_error err = {0};
    set_path(a, kind, name.p);
    struct dt_rest_request rest = {.method = "GET", .path = a->request.path.p};
    dt_status status = dt_rest_ask(a->cli->rest, &rest, &a->answer, &err);
    const bool exists = status == DT_OK && a->answer.status != 404;
    int code = exists ? dt_cli_judge(a->cli, &a->answer) : DT_CLI_DONE;
    if (exists && code == DT_CLI_DONE)
        status = dt_json_parse(a->there, dt_strbuf_str(&a->answer.body), &(struct dt_json_limits){.depth = 64}, &err);
    if (status != DT_OK || code != DT_CLI_DONE)
        return status != DT_OK ? dt_cli_failed(status, &err) : code;
    const unsigned n = compare_thing(a, thing, exists ? dt_json_root(a->there) : NULL, &members);
    if ((n > 0 || !exists) && !a->changes) {
        show_difference(a, exists ? '~' : '+', nouns[kind], name, &members);
        *(exists ? &a->changed : &a->created) += 1;
    } else if (n > 0 || !exists) {
        dt_strbuf_add(&a->request.body, thing->raw.p, thing->raw.n);
        if (exists)
            status = dt_cli_request_merge(&a->request, dt_strbuf_str(&a->answer.body), &err);
        rest.method = "PUT";
        rest.body = dt_strbuf_str(&a->request.body);
        code = status == DT_OK ? dt_cli_ask(a->cli, &rest, &a->answer, a->there) : dt_cli_failed(status, &err);
        if (code != DT_CLI_DONE)
            dt_cli_say("the %s %s was not changed, and nothing after it", nouns[kind], name.p);
    }
    dt_strbuf_clear(&members);
    return code;
}

/* ---- what the file lacks ---- */

struct lacking {
    const struct apply *apply;
    enum kind kind;
    struct dt_strbuf names; /* names of things that the file lacks, each with a line feed */
};

static int add_if_lacking(void *arg, const char *name)
{
    struct lacking *l = arg;
    const char *wanted = l->apply->wanted.p ? l->apply->wanted.p : "";
    struct dt_strbuf line = {0};
    dt_strbuf_addf(&line, "\n%s/%s\n", lists[l->kind], name);
    const bool lacks = line.p && !strstr(wanted, line.p);
    if (lacks)
        dt_strbuf_addf(&l->names, "%s\n", name);
    dt_strbuf_clear(&line);
    return DT_CLI_DONE;
}

/* Shows the things that the file lacks, or deletes them. */
static int prune(struct apply *a, enum kind kind)
{
    struct lacking l = {.apply = a, .kind = kind};
    int code = dt_cli_each_name(a->cli, lists[kind], add_if_lacking, &l);
    for (char *name = l.names.p; name && *name && code == DT_CLI_DONE;) {
        char *end = strchr(name, '\n');
        *end = '\0';
        if (a->changes) {
            set_path(a, kind, name);
            if (kind == SCHEDULE) /* with its pending fire, which would keep the topic */
                dt_cli_request_add_query(&a->request, "cancel", "true");
            const struct dt_rest_request rest = {.method = "DELETE", .path = a->request.path.p};
            code = dt_cli_ask(a->cli, &rest, &a->answer, a->there);
            if (code != DT_CLI_DONE)
                dt_cli_say("the %s %s was not deleted", nouns[kind], name);
        } else {
            show_difference(a, '-', nouns[kind], dt_str(name), &(struct dt_strbuf){0});
            a->deleted++;
        }
        name = end + 1;
    }
    dt_strbuf_clear(&l.names);
    return code;
}

/* Shows what differs, or changes it. */
static int apply_all(struct apply *a)
{
    int code = DT_CLI_DONE;
    for (enum kind kind = TOPIC; kind < KINDS && code == DT_CLI_DONE; kind++)
        code = visit_things(a, dt_json_root(a->file), kind, apply_thing);
    for (enum kind kind = KINDS; kind-- > TOPIC && code == DT_CLI_DONE;) /* schedules first, because they need topics */
        if (dt_cli_value(a->cli->call, "prune") && a->listed[kind])
            code = prune(a, kind);
    return code;
}

int dt_cli_run_apply(struct dt_cli *cli)
{
    struct apply a = {.cli = cli};
    int code = dt_json_new(&a.file) == DT_OK && dt_json_new(&a.there) == DT_OK ? read_things(&a) : DT_CLI_REFUSED;
    if (code == DT_CLI_DONE)
        code = apply_all(&a);
    dt_streams_flush();
    const bool differs = a.created + a.changed + a.deleted > 0;
    const char *modal = "";
    if (code == DT_CLI_DONE && dt_cli_value(cli->call, "dry-run")) {
        code = differs ? DT_CLI_USAGE : DT_CLI_DONE; /* 2, as diff programs for plans have it */
        modal = "would be ";
    } else if (code == DT_CLI_DONE && differs) {
        if (!dt_cli_value(cli->call, "yes") && dt_cli_may_ask()) {
            fprintf(stderr, "apply? [y/N] ");
            code = dt_cli_confirmed() ? DT_CLI_DONE : DT_CLI_REFUSED;
        }
        a.changes = true;
        if (code == DT_CLI_DONE)
            code = apply_all(&a);
    }
    if (!differs && code == DT_CLI_DONE)
        dt_cli_say("nothing differs");
    else if (differs && (code == DT_CLI_DONE || modal[0]))
        dt_cli_say("%screated: %u, changed: %u, deleted: %u", modal, a.created, a.changed, a.deleted);
    dt_json_free(a.file);
    dt_json_free(a.there);
    dt_strbuf_clear(&a.text);
    dt_strbuf_clear(&a.wanted);
    dt_strbuf_clear(&a.answer.body);
    dt_cli_request_clear(&a.request);
    return code;
}
