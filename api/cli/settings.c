/* Reads the settings of the command line (rest.h): options, environment, and the file of contexts. */
#include "rest.h"

#include <errno.h>
#include <ini.h>
#include <sys/stat.h>

#include "base/assert.h"
#include "base/config.h"
#include "base/text/timetext.h"

#define URL_DEFAULT "http://127.0.0.1:8080"
#define TIMEOUT_MS  30000
#define TOKEN_BYTES 4096
#define PATH_BYTES  4096

void dt_cli_settings_clear(struct dt_cli_settings *settings)
{
    free(settings->url);
    free(settings->token);
    free(settings->ca_file);
    free(settings->cert_file);
    free(settings->key_file);
    *settings = (struct dt_cli_settings){0};
}

static dt_status replace_text(char **place, const char *value, struct dt_error *err)
{
    char *copy = strdup(value);
    if (!copy)
        return dt_fail(err, DT_NOMEM, "out of memory");
    free(*place);
    *place = copy;
    return DT_OK;
}

/* Returns the path, with "~/" replaced by the home directory. */
static void expand_path(const char *path, char out[PATH_BYTES])
{
    const char *home = getenv("HOME");
    bool tilde = strncmp(path, "~/", 2) == 0 && home;
    snprintf(out, PATH_BYTES, "%s%s", tilde ? home : "", tilde ? path + 1 : path);
}

/* ---- tokens ---- */

/* Checks a token. A token is sent in a header without encoding, so it must have only visible characters. */
static dt_status set_token(struct dt_cli_settings *out, const char *token, const char *from, struct dt_error *err)
{
    size_t n = strcspn(token, " \t\r\n");
    if (n == 0 || token[n + strspn(token + n, " \t\r\n")])
        return dt_fail(err, DT_INVALID, "%s: this is not a token", from);
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)token[i] <= ' ' || (unsigned char)token[i] > '~')
            return dt_fail(err, DT_INVALID, "%s: this is not a token", from);
    char text[TOKEN_BYTES];
    snprintf(text, sizeof(text), "%.*s", (int)(n < sizeof(text) ? n : sizeof(text) - 1), token);
    return replace_text(&out->token, text, err);
}

static dt_status read_token(struct dt_cli_settings *out, const char *file, struct dt_error *err)
{
    char path[PATH_BYTES];
    char text[TOKEN_BYTES];
    expand_path(file, path);
    FILE *in = fopen(path, "re");
    if (!in)
        return dt_fail(err, DT_INVALID, "%s: %s", path, strerror(errno));
    size_t n = fread(text, 1, sizeof(text) - 1, in);
    fclose(in);
    text[n] = '\0';
    return set_token(out, dt_str_without_bom((struct dt_str){text, n}).p, path, err);
}

static dt_status set_timeout(struct dt_cli_settings *out, const char *text, const char *from, struct dt_error *err)
{
    if (dt_duration_parse(dt_str(text), &out->timeout_ms) != DT_OK || out->timeout_ms < 1)
        return dt_fail(err, DT_INVALID, "%s: \"%.80s\" is not a duration (30s, PT1M)", from, text);
    return DT_OK;
}

/* ---- the file ---- */

struct file {
    struct dt_cli_settings *out;
    const char *path, *wanted; /* wanted: the context to use; NULL: the file chooses it */
    char chosen[128];
    bool found;
    unsigned line; /* number of the line with the first fault */
    struct dt_error *err;
    dt_status status;
};

#define TLS_FILES 3

static const struct {
    const char *key, *variable, *option;
} tls_files[TLS_FILES] = {{"ca_file", "DUETIME_CA_FILE", "ca-file"},
                          {"cert_file", "DUETIME_CERT_FILE", "cert-file"},
                          {"key_file", "DUETIME_KEY_FILE", "key-file"}};

/* Returns a pointer to the setting of row i of tls_files. */
static char **find_tls_setting(struct dt_cli_settings *settings, size_t i)
{
    char **places[TLS_FILES] = {&settings->ca_file, &settings->cert_file, &settings->key_file};
    dt_assert_cmp(i, <, TLS_FILES);
    return places[i];
}

static dt_status apply_setting(struct file *file, const char *key, const char *value, const char *from)
{
    char path[PATH_BYTES];
    if (strcmp(key, "url") == 0)
        return replace_text(&file->out->url, value, file->err);
    if (strcmp(key, "token") == 0)
        return set_token(file->out, value, from, file->err);
    if (strcmp(key, "token_file") == 0)
        return read_token(file->out, value, file->err);
    for (size_t i = 0; i < TLS_FILES; i++)
        if (strcmp(tls_files[i].key, key) == 0) {
            expand_path(value, path);
            return replace_text(find_tls_setting(file->out, i), path, file->err);
        }
    if (strcmp(key, "timeout") == 0)
        return set_timeout(file->out, value, from, file->err);
    return dt_fail(file->err, DT_INVALID,
                   "%s: there is no setting \"%.80s\" (url, token, token_file, ca_file, cert_file, key_file, timeout)",
                   from, key);
}

static int apply_config_line(void *arg, const char *section, const char *key, const char *value)
{
    struct file *file = arg;
    char from[PATH_BYTES + 160];
    if (!*section) {
        if (strcmp(key, "context") != 0) {
            file->status =
                dt_fail(file->err, DT_INVALID, "%s: only `context` may precede the first section", file->path);
            return 0;
        }
        if (!file->wanted)
            snprintf(file->chosen, sizeof(file->chosen), "%s", value);
        return 1;
    }
    if (strcmp(section, file->chosen) != 0)
        return 1;
    file->found = true;
    snprintf(from, sizeof(from), "%s, [%.80s] %.40s", file->path, section, key);
    file->status = apply_setting(file, key, value, from);
    return file->status == DT_OK;
}

static const char *environment_value(const char *name)
{
    const char *value = getenv(name);
    return value && *value ? value : NULL;
}

/* Reads the chosen context of the file. The file or the context may be missing, unless the user chose it explicitly. */
static dt_status read_contexts(const struct dt_cli_call *call, struct dt_cli_settings *out, struct dt_error *err)
{
    char path[PATH_BYTES];
    const char *given = dt_cli_value(call, "config");
    const char *base = getenv("XDG_CONFIG_HOME");
    const char *wanted = dt_cli_value(call, "context");
    struct stat there;
    wanted = wanted ? wanted : environment_value("DUETIME_CONTEXT");
    if (given)
        expand_path(given, path);
    else if (base && *base)
        snprintf(path, sizeof(path), "%s/duetime/config", base);
    else
        expand_path("~/.config/duetime/config", path);
    if (stat(path, &there) != 0)
        return wanted || given ? dt_fail(err, DT_INVALID, "%s: %s", path, strerror(errno)) : DT_OK;
    struct file file = {.out = out, .path = path, .wanted = wanted, .err = err};
    snprintf(file.chosen, sizeof(file.chosen), "%s", wanted ? wanted : "default");
    int line = ini_parse(path, apply_config_line, &file);
    if (file.status != DT_OK)
        return file.status;
    if (line > 0)
        return dt_fail(err, DT_INVALID, "%s, line %d: neither [section] nor key = value", path, line);
    if (line < 0)
        return dt_fail(err, DT_INVALID, "%s cannot be read", path);
    if (!file.found && (wanted || strcmp(file.chosen, "default") != 0))
        return dt_fail(err, DT_INVALID, "%s: there is no context [%.80s]", path, file.chosen);
    return DT_OK;
}

/* ---- all of it ---- */

/* Reads the settings that override the file: each from its option; if the option is not given, from the environment. */
static dt_status read_overrides(const struct dt_cli_call *call, struct dt_cli_settings *out, struct dt_error *err)
{
    const char *url = dt_cli_value(call, "url");
    const char *token = environment_value("DUETIME_TOKEN");
    const char *token_file = dt_cli_value(call, "token-file");
    const char *timeout = dt_cli_value(call, "timeout");
    url = url ? url : environment_value("DUETIME_URL");
    dt_status status = url ? replace_text(&out->url, url, err) : DT_OK;
    if (status == DT_OK && token)
        status = set_token(out, token, "DUETIME_TOKEN", err);
    if (status == DT_OK && token_file)
        status = read_token(out, token_file, err);
    for (size_t i = 0; status == DT_OK && i < TLS_FILES; i++) {
        const char *file = dt_cli_value(call, tls_files[i].option);
        file = file ? file : environment_value(tls_files[i].variable);
        status = file ? replace_text(find_tls_setting(out, i), file, err) : DT_OK;
    }
    if (status == DT_OK && timeout)
        status = set_timeout(out, timeout, "--timeout", err);
    return status;
}

dt_status dt_cli_settings_read(const struct dt_cli_call *call, struct dt_cli_settings *out, struct dt_error *err)
{
    struct dt_cli_settings above = {0};
    *out = (struct dt_cli_settings){.timeout_ms = TIMEOUT_MS};
    dt_status status = dt_config_check_environment(err);
    DT_THEN(status, replace_text(&out->url, URL_DEFAULT, err));
    DT_THEN(status, read_contexts(call, out, err));
    DT_THEN(status, read_overrides(call, &above, err));
    if (status == DT_OK && above.url && strcmp(above.url, out->url) != 0) {
        free(out->token); /* a token that is stored in a context is sent only to the URL of this context */
        out->token = NULL;
    }
    if (status == DT_OK && above.url)
        status = replace_text(&out->url, above.url, err);
    if (status == DT_OK && above.token)
        status = replace_text(&out->token, above.token, err);
    for (size_t i = 0; status == DT_OK && i < TLS_FILES; i++)
        if (*find_tls_setting(&above, i))
            status = replace_text(find_tls_setting(out, i), *find_tls_setting(&above, i), err);
    if (above.timeout_ms)
        out->timeout_ms = above.timeout_ms;
    dt_cli_settings_clear(&above);
    if (status != DT_OK || strncmp(out->url, "unix:/", 6) == 0)
        return status;
    if (strncmp(out->url, "http://", 7) != 0 && strncmp(out->url, "https://", 8) != 0)
        return dt_fail(err, DT_INVALID,
                       "\"%.200s\" is not the URL of an API: it must begin with http://, https:// or unix:/", out->url);
    for (size_t n = strlen(out->url); n > 0 && out->url[n - 1] == '/';)
        out->url[--n] = '\0';
    return DT_OK;
}
