/* Reads words from left to right: noun, verb, then arguments and options in any order. Every word after `--` is an
 * argument. A noun may be singular ("job get"). */
#include "words.h"

#include <errno.h>

#include "base/assert.h"
#include "base/text/json_write.h"
#include "base/text/timetext.h"
#include "rest.h"

#define NEAR     3 /* maximal distance between a typing error and the word that was meant */
#define DAY_MS   INT64_C(86400000)
#define FILE_MAX ((size_t)8 << 20)
#define WORD_MAX 40 /* longer words are not compared */

unsigned dt_cli_distance(const char *a, const char *b, unsigned most)
{
    unsigned row[3][WORD_MAX + 1];
    size_t la = strlen(a);
    size_t lb = strlen(b);
    if (la > WORD_MAX || lb > WORD_MAX)
        return most + 1;
    for (size_t j = 0; j <= lb; j++)
        row[0][j] = (unsigned)j;
    for (size_t i = 1; i <= la; i++) {
        unsigned *now = row[i % 3];
        const unsigned *last = row[(i - 1) % 3];
        const unsigned *before = row[(i + 1) % 3];
        now[0] = (unsigned)i;
        for (size_t j = 1; j <= lb; j++) {
            unsigned best = last[j - 1] + (a[i - 1] != b[j - 1]);
            best = last[j] + 1 < best ? last[j] + 1 : best;
            best = now[j - 1] + 1 < best ? now[j - 1] + 1 : best;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] && before[j - 2] + 1 < best)
                best = before[j - 2] + 1;
            now[j] = best;
        }
    }
    return row[la % 3][lb];
}

/* ---- the nearest word ---- */

struct nearest {
    const char *word;
    unsigned distance;
};

static void update_nearest_word(struct nearest *best, const char *given, const char *known)
{
    unsigned distance = dt_cli_distance(given, known, NEAR);
    if (distance < best->distance && distance < strlen(known))
        *best = (struct nearest){known, distance};
}

static dt_status fail_unknown(struct dt_error *err, const char *what, const char *given, const struct nearest *best)
{
    if (best->word)
        return dt_fail(err, DT_INVALID, "there is no %s \"%.80s\"; did you mean %s?", what, given, best->word);
    return dt_fail(err, DT_INVALID, "there is no %s \"%.80s\"", what, given);
}

static const struct nearest no_word = {NULL, NEAR + 1};

/* ---- noun and verb ---- */

/* Returns the verb of a noun; verb "" finds a noun without verbs. NULL: not found. */
static const struct dt_cli_verb *find_verb(const char *noun, const char *verb)
{
    for (size_t i = 0; i < dt_cli_n_verbs; i++)
        if (strcmp(dt_cli_verbs[i].noun, noun) == 0 && strcmp(dt_cli_verbs[i].verb, verb) == 0)
            return &dt_cli_verbs[i];
    return NULL;
}

/* Verbs, and words that people try in their place, as in other programs. */
static const char *const tried_words[][2] = {
    {"get", "show,describe,view"},
    {"list", "ls,ps"},
    {"delete", "rm,remove"},
    {"cancel", "rm,remove,delete,kill,stop"},
    {"revoke", "rm,remove,delete"},
    {"create", "new,add"},
    {"new", "add,create"},
    {"set", "new,add,create,edit,update,change"},
    {"change", "set,edit,update"},
    {"pause", "stop"},
    {"resume", "unpause,start,continue"},
    {"run-now", "run,start,trigger"},
    {"redrive", "retry,replay"},
    {"stop", "delete,cancel,kill"},
    {"events", "history,log"},
    {"explain", "why"},
    {"silence", "mute"},
    {"watch", "follow"},
};

/* Returns the verb of the noun that the word is or stands for; NULL: there is none. */
static const char *find_meant_verb(const char *noun, const char *word)
{
    const struct dt_cli_verb *verb = find_verb(noun, word);
    for (size_t i = 0; !verb && i < sizeof(tried_words) / sizeof(tried_words[0]); i++)
        for (struct dt_str tried = dt_str(tried_words[i][1]); !verb && tried.n;)
            if (dt_str_is(dt_str_next_element(&tried), word))
                verb = find_verb(noun, tried_words[i][0]);
    return verb ? verb->verb : NULL;
}

/* Returns whether the word is the noun, or its singular. */
static bool is_noun(const char *word, const char *noun)
{
    const size_t length = strlen(noun);
    return strcmp(word, noun) == 0 ||
           (noun[length - 1] == 's' && strlen(word) == length - 1 && strncmp(word, noun, length - 1) == 0);
}

/* Adds the commands that a word may mean which is no noun but a verb: "topics pause or schedules pause". next: the word
 * after it, or "". If it is a noun ("pause topic x"), only the command of this noun is added. */
static void add_meant_commands(struct dt_strbuf *out, const char *word, const char *next)
{
    bool noun_follows = false;
    for (size_t i = 0; i < dt_cli_n_verbs; i++)
        noun_follows = noun_follows || is_noun(next, dt_cli_verbs[i].noun);
    for (size_t i = 0; i < dt_cli_n_verbs; i++) {
        const char *noun = dt_cli_verbs[i].noun;
        const char *verb = i == 0 || noun != dt_cli_verbs[i - 1].noun ? find_meant_verb(noun, word) : NULL;
        if (verb && *verb && (!noun_follows || is_noun(next, noun)) && out->n < 80)
            dt_strbuf_addf(out, "%s%s %s", out->n ? " or " : "", noun, verb);
    }
}

/* Finds a noun by its plural ("jobs") or its singular ("job"). */
static dt_status find_noun(const char *given, const char *next, struct dt_cli_call *out, struct dt_error *err)
{
    struct nearest best = no_word;
    struct dt_strbuf meant = {0};
    for (size_t i = 0; i < dt_cli_n_verbs; i++) {
        const char *noun = dt_cli_verbs[i].noun;
        if (is_noun(given, noun)) {
            out->noun = noun;
            out->verb = find_verb(noun, "");
            return DT_OK;
        }
        update_nearest_word(&best, given, noun);
    }
    add_meant_commands(&meant, given, next);
    best.word = meant.n > 0 ? meant.p : best.word;
    const dt_status status = fail_unknown(err, "command", given, &best);
    dt_strbuf_clear(&meant);
    return status;
}

/* ---- options ---- */

static const struct dt_cli_option *find_option(const struct dt_cli_option *options, size_t n, const char *name,
                                               size_t length, struct nearest *best)
{
    char word[WORD_MAX + 1];
    snprintf(word, sizeof(word), "%.*s", (int)(length < WORD_MAX ? length : WORD_MAX), name);
    for (size_t i = 0; i < n; i++) {
        if (strlen(options[i].name) == length && strncmp(options[i].name, name, length) == 0)
            return &options[i];
        update_nearest_word(best, word, options[i].name);
    }
    return NULL;
}

const char *dt_cli_value(const struct dt_cli_call *call, const char *option)
{
    for (unsigned i = 0; i < call->n_given; i++)
        if (strcmp(call->given[i].option->name, option) == 0)
            return call->given[i].value;
    return NULL;
}

static dt_status add_given_option(struct dt_cli_call *out, const struct dt_cli_option *option, const char *value,
                                  struct dt_error *err)
{
    if (dt_cli_value(out, option->name))
        return dt_fail(err, DT_INVALID, "--%s is given twice", option->name);
    if (out->n_given == DT_CLI_OPTIONS_MAX)
        return dt_fail(err, DT_INVALID, "too many options");
    dt_assert_cmp(out->n_given, <, DT_CLI_OPTIONS_MAX);
    if (strcmp(option->name, "help") == 0)
        out->help = true;
    out->given[out->n_given++] = (struct dt_cli_given){option, value};
    return DT_OK;
}

/* Reads the option at words[*at]; its value may be the next word. */
static dt_status read_option(int n, char *const *words, int *at, struct dt_cli_call *out, struct dt_error *err)
{
    const char *name = words[*at][1] == 'f' ? "file" : words[*at] + 2; /* -f is --file */
    const char *value = strchr(name, '=');
    size_t length = value ? (size_t)(value - name) : strlen(name);
    const struct dt_cli_option *option = NULL;
    struct nearest best = no_word;
    if (out->verb)
        option = find_option(out->verb->options, out->verb->n_options, name, length, &best);
    if (!option)
        option = find_option(dt_cli_common, dt_cli_n_common, name, length, &best);
    if (!option) {
        char given[96];
        char near[96];
        snprintf(given, sizeof(given), "--%.*s", (int)(length < 80 ? length : 80), name);
        snprintf(near, sizeof(near), "--%.80s", best.word ? best.word : "");
        best.word = best.word ? near : NULL;
        return fail_unknown(err, "option", given, &best);
    }
    if (!option->takes)
        return value ? dt_fail(err, DT_INVALID, "--%s takes no value", option->name)
                     : add_given_option(out, option, "", err);
    if (!value && *at + 1 >= n)
        return dt_fail(err, DT_INVALID, "--%s takes a value: %s", option->name, option->takes);
    return add_given_option(out, option, value ? value + 1 : words[++*at], err);
}

/* ---- all words ---- */

/* Reads a word that is no option: the noun; then the verb, if the noun has verbs; then arguments. next: the word after
 * it, or "". */
static dt_status read_noun_verb_or_argument(const char *word, const char *next, struct dt_cli_call *out,
                                            struct dt_error *err)
{
    if (!out->noun)
        return find_noun(word, next, out, err);
    if (out->verb) {
        if (out->n_args == DT_CLI_ARGS_MAX)
            return dt_fail(err, DT_INVALID, "too many arguments: %d at most", DT_CLI_ARGS_MAX);
        dt_assert_cmp(out->n_args, <, DT_CLI_ARGS_MAX);
        out->args[out->n_args++] = word;
        return DT_OK;
    }
    out->verb = find_verb(out->noun, word);
    if (out->verb)
        return DT_OK;
    struct nearest best = no_word;
    char what[64];
    for (size_t i = 0; i < dt_cli_n_verbs; i++)
        if (strcmp(dt_cli_verbs[i].noun, out->noun) == 0)
            update_nearest_word(&best, word, dt_cli_verbs[i].verb);
    const char *meant = find_meant_verb(out->noun, word);
    struct dt_strbuf elsewhere = {0};
    if (!meant && !best.word)
        add_meant_commands(&elsewhere, word, "");
    best.word = meant ? meant : elsewhere.n > 0 ? elsewhere.p : best.word;
    snprintf(what, sizeof(what), "%.40s command", out->noun);
    const dt_status status = fail_unknown(err, what, word, &best);
    dt_strbuf_clear(&elsewhere);
    return status;
}

/* Checks the call. A command is about one named job or about the jobs of a filter, but not about both. */
static dt_status check_call(const struct dt_cli_call *call, struct dt_error *err)
{
    const struct dt_cli_verb *verb = call->verb;
    bool filtered = false;
    if (call->help || dt_cli_value(call, "check-config") || dt_cli_value(call, "print-config"))
        return DT_OK;
    if (!call->noun)
        return dt_fail(err, DT_INVALID, "the command is missing");
    if (!verb)
        return dt_fail(err, DT_INVALID, "a verb for %s is missing", call->noun);
    if (call->n_args < dt_cli_args_min(verb))
        return dt_fail(err, DT_INVALID, "%s %s takes %s", verb->noun, verb->verb, verb->takes);
    if (call->n_args > dt_cli_args_max(verb))
        return dt_fail(err, DT_INVALID, "%s%s%s takes %s: \"%.80s\" is one argument too many", verb->noun,
                       verb->verb[0] ? " " : "", verb->verb, verb->takes[0] ? verb->takes : "no arguments",
                       call->args[dt_cli_args_max(verb)]);
    for (unsigned i = 0; verb->set && i < call->n_given; i++) {
        enum dt_cli_place place = call->given[i].option->place;
        bool of_set = place == DT_CLI_FILTER || place == DT_CLI_SET || place == DT_CLI_SETS;
        filtered = filtered || place == DT_CLI_FILTER;
        if (of_set && call->n_args > 0)
            return dt_fail(err, DT_INVALID, "--%s is for sets of jobs: %s %s names one", call->given[i].option->name,
                           verb->noun, call->args[0]);
        if (place == DT_CLI_QUERY && call->n_args == 0)
            return dt_fail(err, DT_INVALID, "--%s is for one job", call->given[i].option->name);
    }
    if (verb->set && call->n_args == 0 && !filtered)
        return dt_fail(err, DT_INVALID, "%s %s takes %s, or a filter (--topic, --ids)", verb->noun, verb->verb,
                       verb->takes);
    return DT_OK;
}

dt_status dt_cli_read_words(int n, char *const *words, struct dt_cli_call *out, struct dt_error *err)
{
    bool options = true;
    dt_status status = DT_OK;
    *out = (struct dt_cli_call){0};
    for (int i = 0; i < n && status == DT_OK; i++) {
        if (options && strcmp(words[i], "--") == 0)
            options = false;
        else if (options && strcmp(words[i], "-h") == 0)
            out->help = true;
        else if (options && (strncmp(words[i], "--", 2) == 0 || strcmp(words[i], "-f") == 0))
            status = read_option(n, words, &i, out, err);
        else
            status = read_noun_verb_or_argument(words[i], i + 1 < n ? words[i + 1] : "", out, err);
    }
    return status == DT_OK ? check_call(out, err) : status;
}

/* ---- times: fixed once, so that all pages of a list have the same ---- */

static const struct {
    const char *word;
    int64_t days;
} days[] = {{"yesterday", -1}, {"today", 0}, {"tomorrow", 1}};

void dt_cli_fix_times(struct dt_cli_call *call, int64_t now_ms, struct dt_cli_times *room)
{
    for (unsigned i = 0; i < call->n_given; i++) {
        const char *takes = call->given[i].option->takes;
        const char *text = call->given[i].value;
        int64_t length_ms;
        int64_t ms = -1; /* -1: the text was not recognized yet */
        if (!takes || strcmp(takes, "TIME") != 0)
            continue;
        if (strcmp(text, "now") == 0)
            ms = now_ms;
        else if ((text[0] == '-' || text[0] == '+') && dt_duration_parse(dt_str(text + 1), &length_ms) == DT_OK)
            ms = now_ms + (text[0] == '-' ? -length_ms : length_ms);
        for (size_t day = 0; day < sizeof(days) / sizeof(days[0]); day++)
            if (strcmp(text, days[day].word) == 0)
                ms = now_ms - now_ms % DAY_MS + days[day].days * DAY_MS;
        if (ms < 0)
            continue;
        dt_assert_cmp(i, <, DT_CLI_OPTIONS_MAX);
        dt_time_format(ms, room->text[i]);
        call->given[i].value = room->text[i];
    }
}

/* ---- the request ---- */

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

dt_status dt_cli_read_file(const char *path, struct dt_strbuf *out, struct dt_error *err)
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

/* Appends the value of an option without surrounding white space. */
static dt_status add_json(struct dt_strbuf *out, const char *value, const char *name, struct dt_error *err)
{
    struct dt_json_limits limits = {.depth = 64};
    struct dt_error why = {0};
    struct dt_strbuf text = {0};
    dt_json *json = NULL;
    dt_status status = value[0] == '@' ? dt_cli_read_file(value + 1, &text, err) : DT_OK;
    if (value[0] != '@')
        dt_strbuf_adds(&text, value);
    DT_THEN(status, dt_json_new(&json));
    if (status == DT_OK && dt_json_parse(json, dt_strbuf_str(&text), &limits, &why) != DT_OK)
        status = dt_fail(err, DT_INVALID, "--%s: not valid JSON: %.200s", name, why.text);
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

/* Appends the value of an option as JSON. */
static dt_status add_option_value(struct dt_strbuf *out, const struct dt_cli_given *given, struct dt_error *err)
{
    const struct dt_cli_option *option = given->option;
    const char *value = given->value;
    bool may_be_null = option->kind == DT_CLI_SETTING || option->kind == DT_CLI_NUMBER || option->kind == DT_CLI_LIST;
    size_t digits = strspn(value, "0123456789");
    struct dt_strbuf secret = {0};
    dt_status status = DT_OK;
    if (may_be_null && strcmp(value, "null") == 0) {
        dt_strbuf_adds(out, "null");
    } else if (option->kind == DT_CLI_SWITCH) {
        dt_strbuf_adds(out, "true");
    } else if (option->kind == DT_CLI_JSON) {
        status = add_json(out, value, option->name, err);
    } else if (option->kind == DT_CLI_SECRET) {
        status = dt_cli_read_file(value, &secret, err);
        while (secret.n > 0 && strchr(" \t\r\n", secret.p[secret.n - 1]))
            secret.n--;
        if (status == DT_OK)
            dt_json_add_string(out, dt_strbuf_str(&secret));
        dt_strbuf_clear(&secret);
    } else if (option->kind == DT_CLI_NUMBER) {
        if (digits == 0 || digits > 18 || value[digits])
            return dt_fail(err, DT_INVALID, "--%s: \"%.80s\" is not a whole number", option->name, value);
        dt_strbuf_add_i64(out, strtoll(value, NULL, 10));
    } else if (option->kind == DT_CLI_LIST) {
        dt_cli_add_list(out, dt_str(value));
    } else {
        dt_json_add_string(out, dt_str(value));
    }
    return status;
}

void dt_cli_request_add_query(struct dt_cli_request *request, const char *name, const char *value)
{
    dt_strbuf_addc(&request->path, strchr(request->path.p ? request->path.p : "", '?') ? '&' : '?');
    dt_strbuf_addf(&request->path, "%s=", name);
    dt_rest_add_encoded(&request->path, value);
}

/* Begins a member of the body. If the body has members, removes its closing brace first. */
static void begin_member(struct dt_strbuf *body, const char *name)
{
    if (body->n > 0)
        body->n--; /* removes the closing brace */
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
    struct dt_strbuf filter = {0}; /* the options with place FILTER, which become one member of the body */
    dt_status status = DT_OK;
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
        status = add_option_value(object, given, err);
        dt_strbuf_addc(object, '}');
    }
    if (filter.n > 0)
        dt_cli_request_add_member(out, "filter", dt_strbuf_str(&filter));
    if (status == DT_OK && (out->path.failed || out->body.failed || filter.failed))
        status = dt_fail(err, DT_NOMEM, "out of memory");
    dt_strbuf_clear(&filter);
    return status;
}

/* Returns true if the body has this member, or a member that contradicts it. */
static bool has_or_contradicts_member(const dt_json *json, const struct dt_json_node *body, struct dt_str name)
{
    /* The names in each row contradict each other. */
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
    struct dt_strbuf merged = {0};
    dt_json *old = NULL;
    dt_json *new = NULL;
    if (request->body.n == 0)
        dt_strbuf_adds(&request->body, "{}");
    dt_status status = dt_json_new(&old);
    DT_THEN(status, dt_json_new(&new));
    DT_THEN(status, dt_json_parse(old, present, &limits, err));
    DT_THEN(status, dt_json_parse(new, dt_strbuf_str(&request->body), &limits, err));
    if (status != DT_OK)
        goto out;
    const struct dt_json_node *there = dt_json_root(old);
    const struct dt_json_node *wanted = dt_json_root(new);
    dt_json_begin_object(&merged, NULL);
    for (const struct dt_json_node *m = dt_json_first(old, there); m; m = dt_json_sibling(old, there, m)) {
        if (has_or_contradicts_member(new, wanted, m->name))
            continue;
        dt_json_put_key(&merged, m->name);
        dt_json_put_raw(&merged, NULL, m->raw);
    }
    if (wanted->n > 0) /* the members of the body, without the body's braces */
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
