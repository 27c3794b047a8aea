/*
 * Configuration: loading.
 *
 * Owns reading of INI files (through inih, the only calls to it), of the service manager's credentials and of the
 * environment. Refuses to know what options are for.
 *
 * A value goes in three steps: its text is collected (a value of inih may come in several lines), then parsed and
 * checked against the table, then stored. A value is stored twice from one source only by mistake, so that is an error.
 * inih reads lines of at most 200 bytes; a longer value is continued on indented lines after a comma or inside quotes.
 */
#include "base/config.h"

#include <ctype.h>
#include <errno.h>
#include <ini.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/config_options.h"
#include "base/connection/properties.h"
#include "base/connection/secrets.h"
#include "base/connection/tls.h"
#include "base/service/credentials.h"
#include "base/strbuf.h"
#include "base/text/timetext.h"

/* ---- loading ---- */

struct loader {
    struct dt_config *config;
    struct dt_error *err;
    dt_status status; /* the first failure; nothing is done after it */
    int failed_line;
    const char *file;
    FILE *in;
    int line;
    bool indented;                   /* the line that inih has just been given begins with white space */
    const struct dt_option *pending; /* its text is still being collected */
    bool pending_file;               /* it came as <key>_file */
    char *property;                  /* in its place: the key of a property, whose text is being collected */
    int pending_line;
    struct dt_strbuf text;
    bool seen[DT_OPTIONS]; /* in this source */
};

/* Where a value stands, for the error: "FILE:3: [http] port" or "DUETIME_HTTP_PORT: [http] port". */
struct place {
    const char *source;
    int line; /* 0 = not a file */
    const char *section, *key;
};

static void add_place(struct dt_strbuf *out, const struct place *place)
{
    const char *source = place->source ? place->source : "the environment";
    size_t n = strlen(source);
    /* The end of a path says more than its beginning; the whole has to fit into a dt_error. */
    dt_strbuf_addf(out, "%s%s", n > 100 ? "..." : "", source + (n > 100 ? n - 100 : 0));
    if (place->line)
        dt_strbuf_addf(out, ":%d", place->line);
    dt_strbuf_adds(out, ": ");
    if (place->section)
        dt_strbuf_addf(out, "[%.40s] ", place->section);
    if (place->key)
        dt_strbuf_addf(out, "%.60s: ", place->key);
}

static dt_status fail_at(struct loader *loader, const struct place *place, dt_status status, const char *what)
{
    struct dt_strbuf text;
    if (loader->status != DT_OK)
        return loader->status;
    dt_strbuf_init(&text);
    add_place(&text, place);
    dt_strbuf_adds(&text, what);
    loader->status = dt_fail(loader->err, status, "%s", text.p ? text.p : what);
    loader->failed_line = place->line;
    dt_strbuf_clear(&text);
    return loader->status;
}

/* ---- values ---- */

static dt_status fail_value(struct loader *loader, const struct place *place, const struct dt_option *option,
                            const char *text)
{
    struct dt_strbuf what;
    dt_status status;
    dt_strbuf_init(&what);
    if (dt_option_is_secret(option))
        dt_strbuf_adds(&what, "bad value");
    else
        dt_strbuf_addf(&what, "bad value \"%.40s\"", text);
    dt_strbuf_adds(&what, ", accepted: ");
    dt_option_add_accepted(&what, option);
    status = fail_at(loader, place, DT_INVALID, what.p ? what.p : "bad value");
    dt_strbuf_clear(&what);
    return status;
}

static bool parse_whole(const char *text, int64_t *out)
{
    char *end;
    if (!isdigit((unsigned char)text[text[0] == '-']))
        return false;
    errno = 0;
    *out = strtoll(text, &end, 10);
    return errno == 0 && *end == '\0';
}

static bool parse_bool(const char *text, int64_t *out)
{
    static const char *const words[] = {"false", "true", "no", "yes", "off", "on", "0", "1"};
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (strcasecmp(text, words[i]) == 0) {
            *out = i % 2;
            return true;
        }
    return false;
}

static bool parse_number(const struct dt_option *option, const char *text, int64_t *out)
{
    if (option->type == DT_OPTION_BOOL)
        return parse_bool(text, out);
    if (option->type == DT_OPTION_INT ? !parse_whole(text, out) : dt_duration_parse(dt_str(text), out) != DT_OK)
        return false;
    return *out >= option->min && *out <= option->max;
}

static void store_number(struct dt_config *config, const struct dt_option *option, int64_t v)
{
    if (option->type == DT_OPTION_BOOL)
        *(bool *)dt_option_member(config, option) = v != 0;
    else
        *(int64_t *)dt_option_member(config, option) = v;
}

static void forget_text(char **at, const struct dt_option *option)
{
    if (*at && dt_option_is_secret(option))
        explicit_bzero(*at, strlen(*at));
    free(*at);
    *at = NULL;
}

static bool store_text(struct dt_config *config, const struct dt_option *option, const char *text)
{
    char **at = dt_option_member(config, option);
    char *copy = strdup(text);
    if (!copy)
        return false;
    forget_text(at, option);
    *at = copy;
    return true;
}

static dt_status assign(struct loader *loader, const struct place *place, const struct dt_option *option,
                        const char *text)
{
    const struct dt_option_rule *rule = dt_option_rule(option);
    int64_t v;
    if (option->type != DT_OPTION_TEXT) {
        if (!parse_number(option, text, &v))
            return fail_value(loader, place, option, text);
        store_number(loader->config, option, v);
        return DT_OK;
    }
    if (rule && !rule->ok(text))
        return fail_value(loader, place, option, text);
    if (!store_text(loader->config, option, text))
        return fail_at(loader, place, DT_NOMEM, "out of memory");
    return dt_secrets_set(loader->config->secrets, (size_t)(option - dt_options), NULL, NULL);
}

static dt_status assign_from_file(struct loader *loader, const struct place *place, const struct dt_option *option,
                                  const char *path)
{
    char text[DT_SECRET_MAX + 1];
    char what[200];
    dt_status status = dt_secret_read_file(path, text);
    if (status == DT_UNAVAILABLE) {
        snprintf(what, sizeof(what), "cannot read %.100s: %s", path, strerror(errno));
        return fail_at(loader, place, status, what);
    }
    if (status != DT_OK)
        return fail_at(loader, place, status, "the file must hold a text of at most 4096 bytes");
    status = assign(loader, place, option, text);
    if (status == DT_OK && dt_secrets_set(loader->config->secrets, (size_t)(option - dt_options), text, path) != DT_OK)
        status = fail_at(loader, place, DT_NOMEM, "out of memory");
    explicit_bzero(text, sizeof(text));
    return status;
}

/* ---- quotes ---- */

static int hex_value(char c)
{
    const char *digits = "0123456789abcdef";
    const char *at = c ? strchr(digits, tolower((unsigned char)c)) : NULL;
    return at ? (int)(at - digits) : -1;
}

/* One escape behind a backslash; the number of characters it took, or 0. */
static size_t unescape(const char *p, char *out)
{
    if (*p == '\\' || *p == '"') {
        *out = *p;
        return 1;
    }
    if (p[0] != 'x' || hex_value(p[1]) < 0 || hex_value(p[2]) < 0)
        return 0;
    *out = (char)(hex_value(p[1]) * 16 + hex_value(p[2]));
    return *out ? 3 : 0;
}

/* Takes the quotes off, in place. False when they are not closed, or closed before the end. */
static bool unquote(char *text)
{
    char *out = text;
    if (*text != '"')
        return true;
    for (char *p = text + 1; *p; p++) {
        if (*p == '"') {
            *out = '\0';
            return p[1] == '\0';
        }
        if (*p == '\\') {
            size_t n = unescape(p + 1, out++);
            if (n == 0)
                return false;
            p += n;
        } else {
            *out++ = *p;
        }
    }
    return false;
}

static bool quote_is_open(const char *text)
{
    if (*text != '"')
        return false;
    for (const char *p = text + 1; *p; p++) {
        if (*p == '"')
            return false;
        if (*p == '\\' && p[1])
            p++;
    }
    return true;
}

/* ---- the file ---- */

static const struct dt_option *find_option(const char *section, const char *key, bool *from_file)
{
    for (size_t i = 0; i < DT_OPTIONS; i++) {
        size_t n = strlen(dt_options[i].key);
        if (strcmp(dt_options[i].section, section) != 0 || strncmp(dt_options[i].key, key, n) != 0)
            continue;
        *from_file = dt_option_is_secret(&dt_options[i]) && strcmp(key + n, "_file") == 0;
        if (key[n] == '\0' || *from_file)
            return &dt_options[i];
    }
    return NULL;
}

static dt_status fail_unknown(struct loader *loader, const struct place *place)
{
    struct dt_strbuf what;
    bool known_section = false;
    const char *separator = "";
    dt_status status;
    for (size_t i = 0; i < DT_OPTIONS; i++)
        known_section |= strcmp(dt_options[i].section, place->section) == 0;
    dt_strbuf_init(&what);
    dt_strbuf_adds(&what, known_section ? "unknown key, accepted: " : "unknown section, accepted: ");
    for (size_t i = 0; i < DT_OPTIONS; i++) {
        if (known_section ? strcmp(dt_options[i].section, place->section) != 0
                          : i && strcmp(dt_options[i].section, dt_options[i - 1].section) == 0)
            continue;
        dt_strbuf_addf(&what, "%s%s", separator, known_section ? dt_options[i].key : dt_options[i].section);
        separator = ", ";
    }
    status = fail_at(loader, place, DT_INVALID, what.p ? what.p : "unknown");
    dt_strbuf_clear(&what);
    return status;
}

static void on_property(struct loader *loader, const struct place *place, const char *value);

static void finish_property(struct loader *loader)
{
    char *key = loader->property;
    loader->property = NULL;
    if (key && loader->status == DT_OK && loader->text.failed)
        fail_at(loader, &(struct place){loader->file, loader->pending_line, "kafka", key}, DT_NOMEM, "out of memory");
    else if (key && loader->status == DT_OK)
        on_property(loader, &(struct place){loader->file, loader->pending_line, "kafka", key}, loader->text.p);
    free(key);
}

/* The collected text is whole: parse and store it. */
static void finish_pending(struct loader *loader)
{
    const struct dt_option *option = loader->pending;
    struct place place;
    loader->pending = NULL;
    finish_property(loader);
    if (!option || loader->status != DT_OK)
        return;
    place = (struct place){loader->file, loader->pending_line, option->section, option->key};
    if (loader->text.failed)
        fail_at(loader, &place, DT_NOMEM, "out of memory");
    else if (option->type == DT_OPTION_TEXT && !unquote(loader->text.p))
        fail_at(loader, &place, DT_INVALID,
                "the quotes are not closed, or hold an unknown escape, or text follows them");
    else if (loader->pending_file)
        assign_from_file(loader, &place, option, loader->text.p);
    else
        assign(loader, &place, option, loader->text.p);
}

/* A further line of the value before it. Without a reason to go on it is more likely an option that was indented. */
static void continue_pending(struct loader *loader, const struct place *place, const char *value)
{
    const struct dt_strbuf *text = &loader->text;
    bool wanted = text->n && (text->p[text->n - 1] == ',' || quote_is_open(text->p));
    if (!wanted || loader->pending->type != DT_OPTION_TEXT)
        fail_at(loader, place, DT_INVALID,
                "an indented line continues the value before it, which must end with a comma or be inside quotes");
    dt_strbuf_adds(&loader->text, value);
}

#define CLIENT        "client."
#define CLIENT_ENV    "DUETIME_KAFKA_CLIENT_"
#define FILE_SUFFIX   "_file"
#define KEY_AGAIN_MAX 49 /* bytes of a key that inih remembers */
#define PROPERTY_MAX  64 /* bytes of a property's name, so that a line has room for a value */

static bool is_property(const char *section, const char *key)
{
    const char *name = key + strlen(CLIENT);
    return strcmp(section, "kafka") == 0 && strncmp(key, CLIENT, strlen(CLIENT)) == 0 && *name &&
           strlen(name) <= PROPERTY_MAX && strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789._") == strlen(name);
}

/* Takes "_file" off the name. */
static bool take_suffix(struct dt_str *name)
{
    const size_t n = strlen(FILE_SUFFIX);
    bool named = name->n > n && memcmp(name->p + name->n - n, FILE_SUFFIX, n) == 0;
    name->n -= named ? n : 0;
    return named;
}

/* A property of the library: its value is told to nobody, since only the library knows whether it is a secret. */
static void set_property(struct loader *loader, const struct place *place, struct dt_str name, char *value)
{
    char text[DT_SECRET_MAX + 1];
    bool from_file = take_suffix(&name);
    dt_status status = unquote(value) ? DT_OK : DT_INVALID;
    if (status != DT_OK) {
        fail_at(loader, place, status, "the quotes are not closed, or hold an unknown escape, or text follows them");
        return;
    }
    if (from_file)
        status = dt_secret_read_file(value, text);
    if (status != DT_OK) {
        fail_at(loader, place, status, "its file cannot be read, or holds no text of at most 4096 bytes");
        return;
    }
    if (dt_properties_set(loader->config->kafka_client, name, from_file ? text : value, from_file ? value : NULL))
        fail_at(loader, place, DT_NOMEM, "out of memory");
    if (from_file)
        explicit_bzero(text, sizeof(text));
}

static void on_property(struct loader *loader, const struct place *place, const char *value)
{
    char *copy = strdup(value);
    struct dt_str name = dt_str(place->key + strlen(CLIENT));
    if (!copy)
        fail_at(loader, place, DT_NOMEM, "out of memory");
    else
        set_property(loader, place, name, copy);
    if (copy)
        explicit_bzero(copy, strlen(copy));
    free(copy);
}

/* inih says a key again for the lines that go on, and then cuts it off. */
static bool is_key_again(const char *key, const char *again)
{
    size_t n = strlen(again);
    return strncmp(key, again, n) == 0 && (key[n] == '\0' || n == KEY_AGAIN_MAX);
}

/* A line of the file: the value of a property goes on in further lines as that of an option does. */
static void on_property_line(struct loader *loader, const struct place *place, const char *value)
{
    bool goes_on = loader->property && loader->indented && is_key_again(loader->property, place->key);
    if (goes_on && !quote_is_open(loader->text.p))
        fail_at(loader, place, DT_INVALID,
                "an indented line continues the value before it, which must be inside quotes");
    if (!goes_on) {
        finish_pending(loader);
        loader->property = strdup(place->key);
        loader->pending_line = loader->line;
        dt_strbuf_reset(&loader->text);
    }
    if (!loader->property)
        fail_at(loader, place, DT_NOMEM, "out of memory");
    dt_strbuf_adds(&loader->text, value);
}

static int on_value(void *user, const char *section, const char *key, const char *value)
{
    struct loader *loader = user;
    struct place place = {loader->file, loader->line, section, key};
    const struct dt_option *option;
    bool from_file = false;
    if (loader->status != DT_OK)
        return 1;
    option = find_option(section, key, &from_file);
    if (loader->pending && loader->indented && option == loader->pending && from_file == loader->pending_file) {
        continue_pending(loader, &place, value);
        return 1;
    }
    if (is_property(section, key)) {
        on_property_line(loader, &place, value);
        return 1;
    }
    finish_pending(loader);
    if (!option) {
        fail_unknown(loader, &place);
        return 1;
    }
    if (loader->seen[option - dt_options])
        fail_at(loader, &place, DT_INVALID, "given twice");
    loader->seen[option - dt_options] = true;
    loader->pending = option;
    loader->pending_file = from_file;
    loader->pending_line = loader->line;
    dt_strbuf_reset(&loader->text);
    dt_strbuf_adds(&loader->text, value);
    return 1;
}

/* Gives inih its lines and counts them, because its handler is not told where it is. */
static char *next_line(char *line, int size, void *stream)
{
    struct loader *loader = stream;
    size_t n;
    if (!fgets(line, size, loader->in))
        return NULL;
    loader->line++;
    n = strlen(line);
    loader->indented = line[0] == ' ' || line[0] == '\t';
    if ((n == 0 || line[n - 1] != '\n') && !feof(loader->in))
        fail_at(loader, &(struct place){loader->file, loader->line, NULL, NULL}, DT_INVALID,
                "the line is longer than 198 bytes (a value may go on, indented, after a comma or inside quotes) or "
                "holds a zero byte");
    return loader->status != DT_OK ? NULL : line;
}

static void load_file(struct loader *loader)
{
    int bad_line;
    loader->in = fopen(loader->file, "re");
    if (!loader->in) {
        fail_at(loader, &(struct place){loader->file, 0, NULL, NULL}, DT_UNAVAILABLE, strerror(errno));
        return;
    }
    bad_line = ini_parse_stream(next_line, loader, on_value, loader);
    finish_pending(loader);
    if (ferror(loader->in))
        fail_at(loader, &(struct place){loader->file, 0, NULL, NULL}, DT_UNAVAILABLE, "cannot be read");
    if (bad_line > 0 && bad_line < loader->failed_line)
        loader->status = DT_OK; /* inih goes on behind such a line: it comes before what was found then */
    if (bad_line)
        fail_at(loader, &(struct place){loader->file, bad_line > 0 ? bad_line : 0, NULL, NULL}, DT_INVALID,
                "neither [section] nor key = value");
    fclose(loader->in);
}

/* ---- credentials: files of the service manager's, each the value of a secret ---- */

/* `name` is <section>.<key>; its file is read as that of <key>_file. */
static void load_credential(void *arg, const char *path, const char *name)
{
    struct loader *loader = arg;
    struct dt_strbuf text = {0};
    bool from_file = false;
    if (loader->status != DT_OK)
        return;
    dt_strbuf_addf(&text, "%s" FILE_SUFFIX, name);
    char *key = text.p ? strchr(text.p, '.') : NULL;
    if (key)
        *key++ = '\0';
    const struct place place = {.source = path, .section = text.p, .key = key};
    const struct dt_option *option = key ? find_option(text.p, key, &from_file) : NULL;
    if (key && is_property(text.p, key))
        on_property(loader, &place, path);
    else if (option && from_file)
        assign_from_file(loader, &place, option, path);
    else
        fail_at(loader, &place, DT_INVALID, "there is no such secret");
    dt_strbuf_clear(&text);
}

/* ---- the environment ---- */

static void load_variable(struct loader *loader, const struct dt_option *option, bool from_file)
{
    struct place place = {.section = option->section, .key = option->key};
    struct dt_strbuf name;
    const char *value;
    dt_strbuf_init(&name);
    dt_option_add_env_name(&name, option, from_file ? "_file" : "");
    place.source = name.p;
    value = name.failed ? NULL : getenv(name.p);
    if (!value || loader->status != DT_OK)
        goto out;
    if (loader->seen[option - dt_options])
        fail_at(loader, &place, DT_INVALID, "given twice, as itself and as a file");
    else if (from_file)
        assign_from_file(loader, &place, option, value);
    else
        assign(loader, &place, option, value);
    loader->seen[option - dt_options] = true;
out:
    dt_strbuf_clear(&name);
}

static void load_environment(struct loader *loader)
{
    memset(loader->seen, 0, sizeof(loader->seen));
    for (size_t i = 0; i < DT_OPTIONS; i++) {
        load_variable(loader, &dt_options[i], false);
        if (dt_option_is_secret(&dt_options[i]))
            load_variable(loader, &dt_options[i], true);
    }
}

/* DUETIME_KAFKA_CLIENT_SASL_PASSWORD_FILE=… as client.sasl.password_file. */
static void load_property(struct loader *loader, const char *variable)
{
    const char *value = strchr(variable, '=');
    const char *from = variable + strlen(CLIENT_ENV);
    struct dt_strbuf key = {0};
    dt_strbuf_adds(&key, CLIENT);
    for (const char *p = from; value && p < value; p++)
        dt_strbuf_addc(&key, *p == '_' ? '.' : (char)tolower((unsigned char)*p));
    size_t n = strlen(FILE_SUFFIX);
    if (key.p && key.n > n && strcmp(key.p + key.n - n, ".file") == 0)
        key.p[key.n - n] = '_';
    if (key.failed)
        loader->status = dt_fail(loader->err, DT_NOMEM, "out of memory");
    else if (value && value > from)
        on_property(loader, &(struct place){NULL, 0, "kafka", key.p}, value + 1);
    dt_strbuf_clear(&key);
}

static void load_properties(struct loader *loader)
{
    for (char **at = environ; at && *at && loader->status == DT_OK; at++)
        if (strncmp(*at, CLIENT_ENV, strlen(CLIENT_ENV)) == 0)
            load_property(loader, *at);
}

/* The largest request, which takes 1.5 times a batch or five times a body, must fit into the seven eighths of what all
 * may hold that bulk has. */
static void check_together(struct loader *loader)
{
    const struct dt_config *c = loader->config;
    int64_t batch = 16777216 + c->limits_batch_body / 4 * 7;
    int64_t single = 16777216 + 6 * c->limits_body;
    int64_t least = batch > single ? batch : single;
    if (loader->status != DT_OK || c->limits_memory >= least)
        return;
    loader->status = dt_fail(loader->err, DT_INVALID,
                             "[limits] memory: %lld is too small for limits.batch_body = %lld and limits.body = %lld, "
                             "accepted: a whole number from %lld",
                             (long long)c->limits_memory, (long long)c->limits_batch_body, (long long)c->limits_body,
                             (long long)least);
}

/* A certificate is of no use without its key, and neither is sent where there is no TLS. */
static void check_tls_of(struct loader *loader, const char *section, const struct dt_tls *tls)
{
    const char *what = NULL;
    if (!tls->cert_file[0] != !tls->key_file[0])
        what = "cert_file and key_file go together";
    else if (tls->mode == DT_TLS_OFF && (tls->ca_file[0] || tls->cert_file[0]))
        what = "ca_file, cert_file and key_file need tls = required or verify";
    if (what && loader->status == DT_OK)
        loader->status = dt_fail(loader->err, DT_INVALID, "[%s] %s", section, what);
}

static void check_tls(struct loader *loader)
{
    if (loader->status != DT_OK)
        return;
    const struct dt_tls mysql = dt_tls_of_mysql(loader->config);
    const struct dt_tls redis = dt_tls_of_redis(loader->config);
    check_tls_of(loader, "mysql", &mysql);
    check_tls_of(loader, "redis", &redis);
}

static void load_defaults(struct loader *loader)
{
    for (size_t i = 0; i < DT_OPTIONS; i++) {
        if (dt_options[i].type != DT_OPTION_TEXT)
            store_number(loader->config, &dt_options[i], dt_options[i].def);
        else if (!store_text(loader->config, &dt_options[i], dt_options[i].def_text))
            loader->status = dt_fail(loader->err, DT_NOMEM, "out of memory");
    }
}

dt_status dt_config_load(struct dt_config *config, const char *file, struct dt_error *err)
{
    struct loader loader = {.config = config, .err = err, .file = file};
    memset(config, 0, sizeof(*config));
    config->kafka_client = dt_properties_new();
    if (!config->kafka_client || dt_secrets_new(&config->secrets) != DT_OK) {
        dt_config_clear(config);
        return dt_fail(err, DT_NOMEM, "out of memory");
    }
    load_defaults(&loader);
    if (file && loader.status == DT_OK)
        load_file(&loader);
    if (loader.status == DT_OK)
        dt_credentials_each(load_credential, &loader);
    if (loader.status == DT_OK)
        load_environment(&loader);
    load_properties(&loader);
    check_together(&loader);
    check_tls(&loader);
    if (loader.text.p)
        explicit_bzero(loader.text.p, loader.text.cap);
    dt_strbuf_clear(&loader.text);
    if (loader.status != DT_OK)
        dt_config_clear(config);
    return loader.status;
}

void dt_config_clear(struct dt_config *config)
{
    for (size_t i = 0; i < DT_OPTIONS; i++)
        if (dt_options[i].type == DT_OPTION_TEXT)
            forget_text(dt_option_member(config, &dt_options[i]), &dt_options[i]);
    dt_secrets_free(config->secrets);
    dt_properties_free(config->kafka_client);
    memset(config, 0, sizeof(*config));
}
