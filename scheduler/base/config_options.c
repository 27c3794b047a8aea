/* The options as data, the rules for texts, and how options and values are written. */
#include "config_options.h"

#include <ctype.h>

#include "addresses.h"
#include "base/text/timetext.h"

#define AT(section_, key_) .section = #section_, .key = #key_, .offset = offsetof(struct dt_config, section_##_##key_)
#define INT(s, k, def_, min_, max_, flags_, help_)                                                                     \
    {AT(s, k), .type = DT_OPTION_INT, .def = (def_), .min = (min_), .max = (max_), .flags = (flags_), .help = (help_)},
#define DURATION(s, k, def_, min_, max_, flags_, help_)                                                                \
    {AT(s, k),      .type = DT_OPTION_DURATION, .def = (def_),  .min = (min_),                                         \
     .max = (max_), .flags = (flags_),          .help = (help_)},
#define BOOL(s, k, def_, flags_, help_)                                                                                \
    {AT(s, k), .type = DT_OPTION_BOOL, .def = (def_), .flags = (flags_), .help = (help_)},
#define TEXT(s, k, def_, flags_, help_)                                                                                \
    {AT(s, k), .type = DT_OPTION_TEXT, .def_text = (def_), .flags = (flags_), .help = (help_)},
#define CONSTANT(type_, s, k, def_, min_, max_)                                                                        \
    {AT(s, k), .type = DT_OPTION_##type_, .def = (def_), .min = (min_), .max = (max_)},
const struct dt_option dt_options[DT_OPTIONS_AND_CONSTANTS] = {DT_CONFIG_MAP(INT, DURATION, BOOL, TEXT)
                                                                   DT_CONFIG_CONSTANTS(CONSTANT)};
#undef CONSTANT
#undef INT
#undef DURATION
#undef BOOL
#undef TEXT
#undef AT

void *dt_option_member(const struct dt_config *config, const struct dt_option *option)
{
    return (char *)config + option->offset;
}

bool dt_option_is_secret(const struct dt_option *option)
{
    return option->flags & DT_OPT_SECRET;
}

static bool is_valid_name(const char *text)
{
    size_t n = strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-");
    return n >= 1 && n <= 100 && text[n] == '\0' && text[0] != '.' && strncmp(text, "__", 2) != 0;
}

/* A mode must let the owner read and write, because the program's own user must be able to connect. */
static bool is_valid_mode(const char *text)
{
    size_t n = strlen(text);
    const char *digits = n == 4 && text[0] == '0' ? text + 1 : text;
    return strlen(digits) == 3 && strspn(digits, "01234567") == 3 && (digits[0] == '6' || digits[0] == '7');
}

static bool are_valid_networks(const char *text)
{
    struct dt_networks networks;
    return dt_networks_parse(dt_str(text), &networks, NULL) == DT_OK;
}

static bool are_valid_names(const char *text)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
    struct dt_str rest = dt_str(text);
    unsigned char address[DT_ADDRESS_BYTES];
    while (rest.n) {
        struct dt_str name = dt_str_next_element(&rest);
        size_t from = name.n > 2 && name.p[0] == '*' && name.p[1] == '.' ? 2 : 0;
        if (!dt_address_parse(name, address) && (name.n == 0 || from + strspn(name.p + from, letters) < name.n))
            return false;
    }
    return true;
}

/* Accepts names and prefixes of Kafka topics: "shared.audit,public.*". An empty list is valid. */
static bool are_valid_topics(const char *text)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
    while (*text) {
        size_t n = strspn(text, letters);
        if (n > 249 || (n == 0 && text[n] != '*'))
            return false;
        text += n + (text[n] == '*');
        if (*text == ',' && text[1])
            text++;
        else if (*text)
            return false;
    }
    return true;
}

#define WORDS(...)                                                                                                     \
    NULL, (const char *const[])                                                                                        \
    {                                                                                                                  \
        __VA_ARGS__, NULL                                                                                              \
    }

/* The valid texts of an option: those that `ok` accepts, or those in `words`; if both are NULL, any text. */
static const struct rule {
    const char *section, *key;
    bool (*ok)(const char *text);
    const char *const *words;
    const char *accepted; /* description of valid texts for errors, such as "an address" */
} rules[] = {
    {"redis", "sentinels", dt_hosts_ok, NULL, "host or host:port, comma-separated, or nothing"},
    {"redis", "tls", WORDS("off", "required", "verify"), "off, required or verify"},
    {"mysql", "hosts", dt_hosts_ok, NULL, "host or host:port, comma-separated, or nothing"},
    {"mysql", "tls", WORDS("off", "required", "verify"), "off, required or verify"},
    {"log", "level", WORDS("debug", "info", "warn", "error"), "debug, info, warn or error"},
    {"log", "format", WORDS("logfmt", "json"), "logfmt or json"},
    {"installation", "name", is_valid_name, NULL, "1 to 100 of A-Z a-z 0-9 . _ -, not starting with '.' or '__'"},
    {"redis", "endpoints", NULL, NULL, "host:port or master:NAME, comma-separated, or nothing"},
    {"kafka", "brokers", NULL, NULL, "host:port, comma-separated, or nothing"},
    {"kafka", "allow_topics", are_valid_topics, NULL, "names, or prefixes that end in *, comma-separated"},
    {"zookeeper", "servers", NULL, NULL, "a ZooKeeper connect string, or nothing"},
    {"http", "listen", dt_listen_ok, NULL,
     "1 to 16 of address, address:port (perhaps with tls: or plain: before it) and unix:/path, comma-separated"},
    {"http", "names", are_valid_names, NULL,
     "names without ports, perhaps with *. before them, comma-separated, or nothing"},
    {"http", "trusted_proxies", are_valid_networks, NULL, "networks, comma-separated, or nothing"},
    {"http", "forwarded_header", WORDS("x-forwarded-for", "forwarded"), "x-forwarded-for or forwarded"},
    {"http", "unix_mode", is_valid_mode, NULL, "0600 to 0777, octal"},
    {"http", "tls_client_cert", WORDS("required", "optional"), "required or optional"},
};

static const struct rule *find_rule(const struct dt_option *option)
{
    for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++)
        if (strcmp(rules[i].section, option->section) == 0 && strcmp(rules[i].key, option->key) == 0)
            return &rules[i];
    return NULL;
}

bool dt_option_accepts(const struct dt_option *option, const char *text)
{
    const struct rule *rule = find_rule(option);
    if (!rule || !rule->words)
        return !rule || !rule->ok || rule->ok(text);
    const char *const *word = rule->words;
    while (*word && strcmp(*word, text) != 0)
        word++;
    return *word;
}

void dt_option_add_value(struct dt_strbuf *out, const struct dt_option *option, int64_t v)
{
    if (option->type == DT_OPTION_INT)
        dt_strbuf_add_i64(out, v);
    else if (option->type == DT_OPTION_BOOL)
        dt_strbuf_adds(out, v ? "true" : "false");
    else if (v % 1000 == 0)
        dt_duration_add_short(out, v);
    else
        dt_duration_add_iso(out, v);
}

void dt_option_add_accepted(struct dt_strbuf *out, const struct dt_option *option)
{
    const struct rule *rule = find_rule(option);
    if (option->type == DT_OPTION_BOOL) {
        dt_strbuf_adds(out, "true or false");
    } else if (option->type == DT_OPTION_TEXT) {
        dt_strbuf_adds(out, rule ? rule->accepted : "text");
    } else {
        dt_strbuf_adds(out, option->type == DT_OPTION_INT ? "a whole number from " : "a duration from ");
        dt_option_add_value(out, option, option->min);
        dt_strbuf_adds(out, " to ");
        dt_option_add_value(out, option, option->max);
    }
}

void dt_option_add_env_name(struct dt_strbuf *out, const struct dt_option *option, const char *suffix)
{
    size_t from;
    dt_strbuf_adds(out, "DUETIME_");
    from = out->n;
    dt_strbuf_addf(out, "%s_%s%s", option->section, option->key, suffix);
    for (; from < out->n; from++)
        out->p[from] = (char)toupper((unsigned char)out->p[from]);
}
