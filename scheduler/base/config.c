/*
 * Loading: INI files through inih (only this file calls it), credentials of the service manager, and the environment.
 *
 * A value is collected (inih may deliver it in several lines), parsed and checked against the table, and stored. If a
 * source has a value twice, that is an error. inih reads lines of at most 200 bytes; a longer value continues on
 * indented lines after a comma or inside quotes.
 */
#include "config.h"

#include <ctype.h>
#include <errno.h>
#include <glob.h>
#include <ini.h>
#include <unistd.h>

#include "assert.h"
#include "base/text/encoding.h"
#include "base/text/strbuf.h"
#include "base/text/timetext.h"
#include "config_options.h"
#include "secrets.h"
#include "tls.h"

struct loader {
    struct dt_config *config;
    struct dt_error *err;
    dt_status status; /* status of the first failure; everything after it is skipped */
    int failed_line;
    const char *file;
    FILE *in;
    int line;
    bool indented;                   /* the line that inih got last begins with white space */
    const struct dt_option *pending; /* option whose text is being collected */
    bool pending_file;               /* the value comes from an option <key>_file */
    char *property;                  /* key of the property whose text is being collected; NULL: none */
    int pending_line;
    struct dt_strbuf text;
    bool seen[DT_OPTIONS_READ]; /* options that this source has set */
};

/* The place of a value, for errors: "FILE:3: [http] port" or "DUETIME_HTTP_PORT: [http] port". */
struct place {
    const char *source;
    int line; /* line number; 0: the source is not a file */
    const char *section, *key;
};

static dt_status fail_at(struct loader *loader, const struct place *place, dt_status status, const char *what)
{
    if (loader->status != DT_OK)
        return loader->status;
    const char *source = place->source ? place->source : "the environment";
    size_t n = strlen(source);
    struct dt_strbuf text = {0};
    /* The message must fit into a dt_error, so only the end of a long path is shown, which says more than its
     * beginning. */
    dt_strbuf_addf(&text, "%s%s", n > 100 ? "..." : "", source + (n > 100 ? n - 100 : 0));
    if (place->line)
        dt_strbuf_addf(&text, ":%d", place->line);
    dt_strbuf_adds(&text, ": ");
    if (place->section)
        dt_strbuf_addf(&text, "[%.40s] ", place->section);
    if (place->key)
        dt_strbuf_addf(&text, "%.60s: ", place->key);
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
    struct dt_strbuf what = {0};
    dt_status status;
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

static bool parse_number(const struct dt_option *option, const char *text, int64_t *out)
{
    static const char *const words[] = {"false", "true", "no", "yes", "off", "on", "0", "1"};
    if (option->type == DT_OPTION_BOOL) {
        for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
            if (strcasecmp(text, words[i]) == 0) {
                *out = i % 2;
                return true;
            }
        return false;
    }
    if (option->type == DT_OPTION_DURATION) {
        if (dt_duration_parse(dt_str(text), out) != DT_OK)
            return false;
    } else {
        char *end;
        if (!isdigit((unsigned char)text[text[0] == '-']))
            return false;
        errno = 0;
        *out = strtoll(text, &end, 10);
        if (errno != 0 || *end != '\0')
            return false;
    }
    return *out >= option->min && *out <= option->max;
}

static void store_number(struct dt_config *config, const struct dt_option *option, int64_t v)
{
    if (option->type == DT_OPTION_BOOL)
        *(bool *)dt_option_member(config, option) = v != 0;
    else
        *(int64_t *)dt_option_member(config, option) = v;
}

static void erase_text(char **at, const struct dt_option *option)
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
    erase_text(at, option);
    *at = copy;
    return true;
}

static dt_status set_option(struct loader *loader, const struct place *place, const struct dt_option *option,
                            const char *text)
{
    int64_t v;
    if (option->type != DT_OPTION_TEXT) {
        if (!parse_number(option, text, &v))
            return fail_value(loader, place, option, text);
        store_number(loader->config, option, v);
        return DT_OK;
    }
    if (!dt_option_accepts(option, text))
        return fail_value(loader, place, option, text);
    if (!store_text(loader->config, option, text))
        return fail_at(loader, place, DT_NOMEM, "out of memory");
    return dt_secrets_set(loader->config->secrets, (size_t)(option - dt_options), NULL, NULL);
}

static dt_status set_option_from_file(struct loader *loader, const struct place *place, const struct dt_option *option,
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
        return fail_at(loader, place, status, "the file must have 1 to 4096 bytes of text");
    status = set_option(loader, place, option, text);
    if (status == DT_OK && dt_secrets_set(loader->config->secrets, (size_t)(option - dt_options), text, path) != DT_OK)
        status = fail_at(loader, place, DT_NOMEM, "out of memory");
    explicit_bzero(text, sizeof(text));
    return status;
}

/* ---- quotes ---- */

/* Removes the quotes in place. Returns false if the quotes are not closed, are closed before the end, or contain an
 * unknown escape. */
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
        if (*p == '\\' && *++p != '\\' && *p != '"') { /* the escape \xHH */
            const int high = *p == 'x' ? dt_hex_digit(p[1]) : -1;
            const int low = high >= 0 ? dt_hex_digit(p[2]) : -1;
            if (low < 0 || high + low == 0)
                return false;
            *out++ = (char)(high * 16 + low);
            p += 2;
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

static const struct dt_option *find_config_option(const char *section, const char *key, bool *from_file)
{
    for (size_t i = 0; i < DT_OPTIONS_READ; i++) {
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
    struct dt_strbuf what = {0};
    bool known_section = false;
    const char *separator = "";
    dt_status status;
    for (size_t i = 0; i < DT_OPTIONS; i++)
        known_section |= strcmp(dt_options[i].section, place->section) == 0;
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

#define CLIENT        "client."
#define PREFIX        "DUETIME_"
#define CLIENT_ENV    PREFIX "KAFKA_CLIENT_"
#define FILE_SUFFIX   "_file"
#define CREDENTIAL    "duetime_"
#define KEY_AGAIN_MAX 49 /* if a value continues on a further line, inih passes this many bytes of its key again */
#define PROPERTY_MAX  64 /* most bytes of a property's name, so that the line has room for the value */

static bool is_property(const char *section, const char *key)
{
    const char *name = key + strlen(CLIENT);
    return strcmp(section, "kafka") == 0 && strncmp(key, CLIENT, strlen(CLIENT)) == 0 && *name &&
           strlen(name) <= PROPERTY_MAX && strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789._") == strlen(name);
}

/* Sets a property of librdkafka. Its errors do not show the value, because only the library knows whether it is a
 * secret. */
static void set_property(struct loader *loader, const struct place *place, const char *value)
{
    const size_t n = strlen(FILE_SUFFIX);
    struct dt_str name = dt_str(place->key + strlen(CLIENT));
    const bool from_file = name.n > n && memcmp(name.p + name.n - n, FILE_SUFFIX, n) == 0;
    char text[DT_SECRET_MAX + 1];
    char *copy = strdup(value);
    dt_status status = DT_OK;
    name.n -= from_file ? n : 0;
    if (!copy) {
        (void)fail_at(loader, place, DT_NOMEM, "out of memory");
        return;
    }
    if (!unquote(copy))
        (void)fail_at(loader, place, DT_INVALID,
                      "the quotes are not closed, or hold an unknown escape, or text follows them");
    else if (from_file && (status = dt_secret_read_file(copy, text)) != DT_OK)
        (void)fail_at(loader, place, status, "its file cannot be read, or does not have 1 to 4096 bytes of text");
    else if (dt_properties_set(loader->config->kafka_client, name, from_file ? text : copy, from_file ? copy : NULL))
        (void)fail_at(loader, place, DT_NOMEM, "out of memory");
    explicit_bzero(text, sizeof(text));
    explicit_bzero(copy, strlen(copy));
    free(copy);
}

/* Parses and stores the text of an option or a property, after its last line was read. */
static void finish_pending(struct loader *loader)
{
    const struct dt_option *option = loader->pending;
    char *property = loader->property;
    struct place place = {loader->file, loader->pending_line, "kafka", property};
    dt_assert(!option || !property);
    loader->pending = NULL;
    loader->property = NULL;
    if ((!option && !property) || loader->status != DT_OK) {
        free(property);
        return;
    }
    if (option)
        place = (struct place){loader->file, loader->pending_line, option->section, option->key};
    if (loader->text.failed)
        (void)fail_at(loader, &place, DT_NOMEM, "out of memory");
    else if (property)
        set_property(loader, &place, loader->text.p);
    else if (option->type == DT_OPTION_TEXT && !unquote(loader->text.p))
        (void)fail_at(loader, &place, DT_INVALID,
                      "the quotes are not closed, or hold an unknown escape, or text follows them");
    else if (loader->pending_file)
        (void)set_option_from_file(loader, &place, option, loader->text.p);
    else
        (void)set_option(loader, &place, option, loader->text.p);
    free(property);
}

/* Handles a line that sets a property. Like an option's value, the value may continue on further lines. */
static void add_property_line(struct loader *loader, const struct place *place, const char *value)
{
    /* If a value continues on a further line, inih passes its key again, but truncated. */
    const size_t n = strlen(place->key);
    const char *key = loader->property;
    const bool goes_on =
        key && loader->indented && strncmp(key, place->key, n) == 0 && (key[n] == '\0' || n == KEY_AGAIN_MAX);
    if (goes_on && !quote_is_open(loader->text.p))
        (void)fail_at(loader, place, DT_INVALID,
                      "an indented line continues the value before it, which must be inside quotes");
    if (!goes_on) {
        finish_pending(loader);
        loader->property = strdup(place->key);
        loader->pending_line = loader->line;
        dt_strbuf_reset(&loader->text);
    }
    if (!loader->property)
        (void)fail_at(loader, place, DT_NOMEM, "out of memory");
    dt_strbuf_adds(&loader->text, value);
}

static int on_value(void *user, const char *section, const char *key, const char *value)
{
    struct loader *loader = user;
    struct place place = {loader->file, loader->line, section, key};
    const struct dt_strbuf *text = &loader->text;
    bool from_file = false;
    if (loader->status != DT_OK)
        return 1;
    const struct dt_option *option = find_config_option(section, key, &from_file);
    if (loader->pending && loader->indented && option == loader->pending && from_file == loader->pending_file) {
        /* An indented line continues the previous value, which must end in a comma or have an open quote. */
        bool wanted = text->n && (text->p[text->n - 1] == ',' || quote_is_open(text->p));
        if (!wanted || option->type != DT_OPTION_TEXT)
            (void)fail_at(
                loader, &place, DT_INVALID,
                "an indented line continues the value before it, which must end with a comma or be inside quotes");
        dt_strbuf_adds(&loader->text, value);
        return 1;
    }
    if (is_property(section, key)) {
        add_property_line(loader, &place, value);
        return 1;
    }
    finish_pending(loader);
    if (!option) {
        (void)fail_unknown(loader, &place);
        return 1;
    }
    if (loader->seen[option - dt_options])
        (void)fail_at(loader, &place, DT_INVALID, "given twice");
    loader->seen[option - dt_options] = true;
    loader->pending = option;
    loader->pending_file = from_file;
    loader->pending_line = loader->line;
    dt_strbuf_reset(&loader->text);
    dt_strbuf_adds(&loader->text, value);
    return 1;
}

/* Passes lines to inih and counts them, because inih does not report line numbers to its handler. */
static char *next_config_line(char *line, int size, void *stream)
{
    struct loader *loader = stream;
    size_t n;
    if (!fgets(line, size, loader->in))
        return NULL;
    loader->line++;
    n = strlen(line);
    loader->indented = line[0] == ' ' || line[0] == '\t';
    if ((n == 0 || line[n - 1] != '\n') && !feof(loader->in))
        (void)fail_at(
            loader, &(struct place){loader->file, loader->line, NULL, NULL}, DT_INVALID,
            "the line is longer than 198 bytes (a value may go on, indented, after a comma or inside quotes) or "
            "holds a zero byte");
    return loader->status != DT_OK ? NULL : line;
}

static void load_file(struct loader *loader)
{
    int bad_line;
    loader->in = fopen(loader->file, "re");
    if (!loader->in) {
        (void)fail_at(loader, &(struct place){loader->file, 0, NULL, NULL}, DT_UNAVAILABLE, strerror(errno));
        return;
    }
    bad_line = ini_parse_stream(next_config_line, loader, on_value, loader);
    finish_pending(loader);
    if (ferror(loader->in))
        (void)fail_at(loader, &(struct place){loader->file, 0, NULL, NULL}, DT_UNAVAILABLE, "cannot be read");
    if (bad_line > 0 && bad_line < loader->failed_line)
        loader->status = DT_OK; /* reports the earlier line, which is no line of an INI file */
    if (bad_line)
        (void)fail_at(loader, &(struct place){loader->file, bad_line > 0 ? bad_line : 0, NULL, NULL}, DT_INVALID,
                      "neither [section] nor key = value");
    fclose(loader->in);
}

/* ---- credentials: secrets in files that the service manager writes and only the program can read ---- */

/* Loads credentials: files named duetime_<section>.<key> in the folder CREDENTIALS_DIRECTORY; systemd makes these names
 * for the files of a folder (LoadCredential=duetime:FOLDER). Each file is read as if <key>_file named it. */
static void load_credentials(struct loader *loader)
{
    const char *folder = getenv("CREDENTIALS_DIRECTORY");
    struct dt_strbuf text = {0};
    glob_t found = {0};
    if (!folder)
        return;
    dt_strbuf_addf(&text, "%s/" CREDENTIAL "*", folder);
    const size_t n = !text.failed && glob(text.p, 0, NULL, &found) == 0 ? found.gl_pathc : 0;
    for (size_t i = 0; i < n && loader->status == DT_OK; i++) {
        const char *path = found.gl_pathv[i];
        bool from_file = false;
        dt_strbuf_reset(&text);
        dt_strbuf_addf(&text, "%s" FILE_SUFFIX, strrchr(path, '/') + strlen("/" CREDENTIAL));
        char *key = text.p ? strchr(text.p, '.') : NULL;
        if (key)
            *key++ = '\0';
        const struct place place = {.source = path, .section = text.p, .key = key};
        const struct dt_option *option = key ? find_config_option(text.p, key, &from_file) : NULL;
        if (key && is_property(text.p, key))
            set_property(loader, &place, path);
        else if (option && from_file)
            (void)set_option_from_file(loader, &place, option, path);
        else
            (void)fail_at(loader, &place, DT_INVALID, "there is no such secret");
    }
    globfree(&found);
    dt_strbuf_clear(&text);
}

/* ---- the environment ---- */

static void load_variable(struct loader *loader, const struct dt_option *option, bool from_file)
{
    struct place place = {.section = option->section, .key = option->key};
    struct dt_strbuf name = {0};
    const char *value;
    dt_option_add_env_name(&name, option, from_file ? "_file" : "");
    place.source = name.p;
    value = name.failed ? NULL : getenv(name.p);
    if (!value || loader->status != DT_OK)
        goto out;
    if (loader->seen[option - dt_options])
        (void)fail_at(loader, &place, DT_INVALID, "given twice, as itself and as a file");
    else if (from_file)
        (void)set_option_from_file(loader, &place, option, value);
    else
        (void)set_option(loader, &place, option, value);
    loader->seen[option - dt_options] = true;
out:
    dt_strbuf_clear(&name);
}

/* Loads properties from the environment. The variable DUETIME_KAFKA_CLIENT_SASL_PASSWORD_FILE, for example, sets
 * client.sasl.password_file. */
static void load_properties(struct loader *loader)
{
    const size_t n = strlen(FILE_SUFFIX);
    struct dt_strbuf key = {0};
    for (char **at = environ; at && *at && loader->status == DT_OK; at++) {
        const char *value = strchr(*at, '=');
        const char *from = *at + strlen(CLIENT_ENV);
        if (strncmp(*at, CLIENT_ENV, strlen(CLIENT_ENV)) != 0)
            continue;
        dt_strbuf_reset(&key);
        dt_strbuf_adds(&key, CLIENT);
        for (const char *p = from; value && p < value; p++)
            dt_strbuf_addc(&key, *p == '_' ? '.' : (char)tolower((unsigned char)*p));
        if (key.p && key.n > n && strcmp(key.p + key.n - n, ".file") == 0)
            key.p[key.n - n] = '_';
        if (key.failed)
            loader->status = dt_fail(loader->err, DT_NOMEM, "out of memory");
        else if (value && value > from)
            set_property(loader, &(struct place){NULL, 0, "kafka", key.p}, value + 1);
    }
    dt_strbuf_clear(&key);
}

/* The other variables that begin with DUETIME_: of the command line, of `deploy/local env`, of the examples, of the
 * tests. A name that ends with _ is a prefix. */
static const char *const other_variables[] = {
    "URL",     "URL_",    "TOKEN",     "CONTEXT",      "CA_FILE",  "CERT_FILE", "KEY_FILE",   "KAFKA",
    "REDIS",   "PID_",    "ZOOKEEPER", "METRICS_",     "GRAFANA",  "LOCAL_",    "PROMETHEUS", "CALLBACK_SECRET",
    "EFFECTS", "TIMEOUT", "MAKE_KEYS", "TEST_",        "MUTANTS_", "FAIL",      "ONLY",       "LANES",
    "NTH",     "NTH_",    "FUZZ_",     "CLOCK_SKEW_MS"};

/* Checks a variable, "NAME=value" without DUETIME_. Kubernetes sets some in a pod beside a Service that is called
 * duetime: DUETIME_SERVICE_HOST, DUETIME_API_SERVICE_PORT, DUETIME_API_PORT (tcp://…), DUETIME_API_PORT_8080_TCP. */
static void check_variable(struct loader *loader, const char *variable)
{
    const size_t n = strcspn(variable, "=");
    char name[200];
    char source[120];
    bool from_file = false;
    for (size_t i = 0; i < sizeof(other_variables) / sizeof(other_variables[0]); i++) {
        const size_t length = strlen(other_variables[i]);
        if (strncmp(variable, other_variables[i], length) == 0 && (n == length || variable[length - 1] == '_'))
            return;
    }
    snprintf(source, sizeof(source), PREFIX "%.*s", (int)n, variable);
    snprintf(name, sizeof(name), "%.*s", (int)n, variable);
    for (char *p = name; *p; p++)
        *p = (char)tolower((unsigned char)*p);
    const char *port = strstr(name, "port");
    if (strstr(name, "service_host") || strstr(name, "service_port") ||
        (port && port[4] == '_' && isdigit((unsigned char)port[5])) || (port && !port[4] && strstr(variable, "://")) ||
        strncmp(source, CLIENT_ENV, strlen(CLIENT_ENV)) == 0)
        return;
    char *key = strchr(name, '_');
    if (!key) {
        (void)fail_at(loader, &(struct place){.source = source}, DT_INVALID, "no setting has this name");
        return;
    }
    *key++ = '\0';
    if (!find_config_option(name, key, &from_file))
        (void)fail_unknown(loader, &(struct place){.source = source, .section = name, .key = key});
}

dt_status dt_config_check_environment(struct dt_error *err)
{
    struct loader loader = {.err = err};
    for (char **at = environ; at && *at && loader.status == DT_OK; at++)
        if (strncmp(*at, PREFIX, strlen(PREFIX)) == 0)
            check_variable(&loader, *at + strlen(PREFIX));
    return loader.status;
}

/* Checks that the largest request fits into seven eighths of limits.memory, which is the limit for bulk requests. A
 * request needs 1.5 times the size of a batch, or five times the size of a body. */
static void check_requests_fit_memory(struct loader *loader)
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

/* Checks that a certificate comes with its key, and that TLS is on if certificates are set. */
static void check_tls(struct loader *loader, const char *section, struct dt_tls tls)
{
    const char *what = NULL;
    if (!tls.cert_file[0] != !tls.key_file[0])
        what = "cert_file and key_file go together";
    else if (tls.mode == DT_TLS_OFF && (tls.ca_file[0] || tls.cert_file[0]))
        what = "ca_file, cert_file and key_file need tls = required or verify";
    if (what && loader->status == DT_OK)
        loader->status = dt_fail(loader->err, DT_INVALID, "[%s] %s", section, what);
}

dt_status dt_config_load(struct dt_config *config, const char *file, struct dt_error *err)
{
    struct loader loader = {.config = config, .err = err, .file = file};
    memset(config, 0, sizeof(*config));
    config->kafka_client = dt_properties_new();
    if (!config->kafka_client || dt_secrets_new(&config->secrets) != DT_OK)
        loader.status = dt_fail(err, DT_NOMEM, "out of memory");
    for (const struct dt_option *option = dt_options; option < dt_options + DT_OPTIONS_AND_CONSTANTS; option++) {
        if (option->type != DT_OPTION_TEXT)
            store_number(config, option, option->def);
        else if (loader.status == DT_OK && !store_text(config, option, option->def_text))
            loader.status = dt_fail(err, DT_NOMEM, "out of memory");
    }
    if (file && loader.status == DT_OK)
        load_file(&loader);
    if (loader.status == DT_OK)
        load_credentials(&loader);
    memset(loader.seen, 0, sizeof(loader.seen));
    for (const struct dt_option *option = dt_options; option < dt_options + DT_OPTIONS_READ; option++) {
        load_variable(&loader, option, false);
        if (dt_option_is_secret(option))
            load_variable(&loader, option, true);
    }
    load_properties(&loader);
    if (loader.status == DT_OK)
        loader.status = dt_config_check_environment(err);
    check_requests_fit_memory(&loader);
    if (loader.status == DT_OK) {
        check_tls(&loader, "mysql", dt_tls_of_mysql(config));
        check_tls(&loader, "redis", dt_tls_of_redis(config));
    }
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
            erase_text(dt_option_member(config, &dt_options[i]), &dt_options[i]);
    dt_secrets_free(config->secrets);
    dt_properties_free(config->kafka_client);
    memset(config, 0, sizeof(*config));
}
