/* Prints the effective values as an INI file that can be read back, the reference page, and the sample file. */

#include "config_options.h"
#include "secrets.h"

/* Most bytes of a value in a line, so that even with the longest name no line reaches inih's limit of 200 bytes. */
#define FOLD 100

/* Returns whether inih would change the text if it had no quotes. */
static bool needs_quotes(const char *text)
{
    size_t n = strlen(text);
    if (n == 0)
        return false;
    if (n > FOLD || text[0] == '"' || text[0] == ' ' || text[n - 1] == ' ')
        return true;
    for (; *text; text++)
        if ((unsigned char)*text < ' ' || *text == ';' || *text == '#')
            return true;
    return false;
}

/* Prints a text in quotes, with escapes for everything that inih would read as a comment or cut off. Long texts
 * continue on indented lines. */
static void print_quoted(const char *text, FILE *out)
{
    size_t column = 0;
    if (!needs_quotes(text)) {
        fputs(text, out);
        return;
    }
    fputc('"', out);
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        /* Splits the text between two characters, or anywhere if it is not UTF-8. */
        if (column >= FOLD && ((c & 0xc0) != 0x80 || column >= FOLD + 4)) {
            fputs("\n  ", out);
            column = 0;
        }
        if (c == '"' || c == '\\')
            column += (size_t)fprintf(out, "\\%c", c);
        else if (c < ' ' || c == ';' || c == '#' || c == '=' || c == ':' || c == '[' ||
                 (c == ' ' && column >= FOLD - 1) || (c == ' ' && column == 0))
            column += (size_t)fprintf(out, "\\x%02x", c);
        else
            column += fputc(c, out) != EOF;
    }
    fputc('"', out);
}

/* Prints an option with its value. A secret is printed as a comment, so that the stars do not become a password if the
 * text is read back. */
static void print_option(const struct dt_config *config, const struct dt_option *option, FILE *out)
{
    void *member = dt_option_member(config, option);
    const char *text = option->type == DT_OPTION_TEXT ? *(char **)member : NULL;
    struct dt_strbuf number = {0};
    if (text && text[0] && dt_option_is_secret(option)) {
        fprintf(out, "# %s = ***\n", option->key);
        return;
    }
    fprintf(out, "%s = ", option->key);
    if (text) {
        print_quoted(text, out);
    } else {
        dt_option_add_value(&number, option, option->type == DT_OPTION_BOOL ? *(bool *)member : *(int64_t *)member);
        fputs(number.p ? number.p : "", out);
        dt_strbuf_clear(&number);
    }
    fputc('\n', out);
}

static bool starts_section(size_t i)
{
    return i == 0 || strcmp(dt_options[i].section, dt_options[i - 1].section) != 0;
}

static void print_properties(const struct dt_properties *list, FILE *out)
{
    for (size_t i = 0; list && i < list->n; i++) {
        const struct dt_property *property = &list->v[i];
        if (property->file) {
            fprintf(out, "client.%s_file = ", property->name);
            print_quoted(property->file, out);
        } else if (dt_property_is_secret(property->name)) {
            fprintf(out, "# client.%s = ***", property->name);
        } else {
            fprintf(out, "client.%s = ", property->name);
            print_quoted(property->value, out);
        }
        fputc('\n', out);
    }
}

static bool ends_section(size_t i, const char *section)
{
    return strcmp(dt_options[i].section, section) == 0 &&
           (i + 1 == DT_OPTIONS || strcmp(dt_options[i + 1].section, section) != 0);
}

void dt_config_print(const struct dt_config *config, FILE *out)
{
    for (size_t i = 0; i < DT_OPTIONS; i++) {
        if (starts_section(i))
            fprintf(out, "%s[%s]\n", i ? "\n" : "", dt_options[i].section);
        print_option(config, &dt_options[i], out);
        if (ends_section(i, "kafka"))
            print_properties(config->kafka_client, out);
    }
}

static void print_reference_row(const struct dt_option *option, FILE *out)
{
    struct dt_strbuf row = {0};
    dt_strbuf_addf(&row, "| `%s.%s` | ", option->section, option->key);
    if (option->type == DT_OPTION_INT || option->type == DT_OPTION_DURATION) {
        dt_option_add_value(&row, option, option->min);
        dt_strbuf_adds(&row, "–");
        dt_option_add_value(&row, option, option->max);
    } else {
        dt_option_add_accepted(&row, option);
    }
    dt_strbuf_adds(&row, " | ");
    if (option->type != DT_OPTION_TEXT || option->def_text[0]) {
        dt_strbuf_addc(&row, '`');
        if (option->type == DT_OPTION_TEXT)
            dt_strbuf_adds(&row, option->def_text);
        else
            dt_option_add_value(&row, option, option->def);
        dt_strbuf_addc(&row, '`');
    }
    dt_strbuf_addf(&row, " | %s%s%s |\n", option->help, dt_option_is_secret(option) ? " Secret." : "",
                   option->flags & DT_OPT_RELOAD ? " Read again on SIGHUP." : "");
    fputs(row.p ? row.p : "", out);
    dt_strbuf_clear(&row);
}

void dt_config_reference(FILE *out)
{
    fputs(
        "# Configuration\n\nMade from the table in `scheduler/base/config.h`. `mysql.host` is `host` below `[mysql]` "
        "in the file, and "
        "`DUETIME_MYSQL_HOST` in the environment,\nwith `_` for each dot; a variable `DUETIME_…` that nothing reads is "
        "an error. "
        "The environment wins over systemd's "
        "credentials (files `duetime_<section>.<key>` for secrets), these over the file, the\nfile over the default. "
        "Durations: `15s`, `3m`, `1h`, `2d`, ISO 8601 (`PT0.5S`), or milliseconds. `<key>_file` names a file with a "
        "secret,\nwhich each new connection reads; SIGHUP reads secrets again.\n\n| key | accepted | default | meaning "
        "|\n|---|---|---|---|\n",
        out);
    for (size_t i = 0; i < DT_OPTIONS; i++) {
        print_reference_row(&dt_options[i], out);
        if (ends_section(i, "kafka"))
            fputs("| `kafka.client.<name>` | text |  | A setting of librdkafka, such as `client.security.protocol`, "
                  "`client.ssl.ca.location`, `client.sasl.mechanism`; also `client.<name>_file`, which each new "
                  "handle reads. Settings that the promise depends on are refused. |\n",
                  out);
    }
}

#define COMMENT_WIDTH 110

static void print_sample_option(const struct dt_option *option, FILE *out)
{
    /* Servers that the sample omits; without them an installation is small. */
    static const char *const left_out[] = {"redis.endpoints", "kafka.brokers", "zookeeper.servers"};
    char name[80];
    struct dt_strbuf text = {0};
    dt_strbuf_addf(&text, "%s Accepted: ", option->help);
    dt_option_add_accepted(&text, option);
    dt_strbuf_adds(&text, dt_option_is_secret(option) ? "; better as a file: " : ".");
    if (dt_option_is_secret(option))
        dt_strbuf_addf(&text, "%s_file, or /etc/duetime/credentials/%s.%s of the packaged services.", option->key,
                       option->section, option->key);
    size_t column = 0;
    for (const char *p = text.p ? text.p : ""; *p;) { /* wraps at COMMENT_WIDTH bytes, between words */
        size_t word = strcspn(p, " ");
        bool fits = column > 0 && column + 1 + word <= COMMENT_WIDTH;
        fprintf(out, "%s%.*s", fits ? " " : "\n# ", (int)word, p);
        column = (fits ? column + 1 : 2) + word;
        p += word + strspn(p + word, " ");
    }
    fputc('\n', out);
    dt_strbuf_reset(&text);
    if (option->type == DT_OPTION_TEXT)
        dt_strbuf_adds(&text, option->def_text);
    else
        dt_option_add_value(&text, option, option->def);
    fprintf(out, text.n ? "#%s = %s\n" : "#%s =%s\n", option->key, text.n ? text.p : "");
    snprintf(name, sizeof(name), "%s.%s", option->section, option->key);
    for (size_t i = 0; i < sizeof(left_out) / sizeof(left_out[0]); i++)
        if (strcmp(name, left_out[i]) == 0)
            fprintf(out, "%s =\n", option->key);
    dt_strbuf_clear(&text);
}

void dt_config_sample(FILE *out)
{
    fputs("# Settings of duetime-api and duetime-dispatcher. A line that begins with # is a comment; what stands in "
          "one as\n"
          "# \"key = value\" is the default. Durations: 15s, 3m, 1h, 2d, ISO 8601 (PT0.5S), or milliseconds. The "
          "environment\n"
          "# (DUETIME_<SECTION>_<KEY>) wins. Redis, Kafka and ZooKeeper are left out here: MySQL, or MariaDB, alone is "
          "a whole\n"
          "# installation. To use one of them, write its address into the line that leaves it empty.\n",
          out);
    for (size_t i = 0; i < DT_OPTIONS; i++) {
        if (starts_section(i))
            fprintf(out, "\n[%s]\n", dt_options[i].section);
        print_sample_option(&dt_options[i], out);
        if (ends_section(i, "kafka"))
            fputs("\n# Settings of librdkafka under their own names: client.security.protocol = SASL_SSL, "
                  "client.sasl.password_file = ...\n",
                  out);
    }
}
