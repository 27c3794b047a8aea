/* Configuration: order of sources, bad input of every kind with the text of its error, printing and reading back. */
#include <unistd.h>

#include "support/rigs/config_rig.h"

static struct dt_error err;

extern char **environ;

static void start(void)
{
    for (char **at = environ; *at;) {
        size_t n = strcspn(*at, "=");
        char name[200];
        if (strncmp(*at, "DUETIME_", 8) != 0 || n >= sizeof name) {
            at++;
            continue;
        }
        memcpy(name, *at, n);
        name[n] = '\0';
        unsetenv(name);
        at = environ;
    }
}

#define FRESH_TEST(name) TEST_WITH(name, start, NULL)

/* The load fails, and its error has every one of the words (space separated where a word has none). */
static void assert_refused(const char *ini, dt_status want, const char *const words[], size_t n)
{
    struct dt_config config;
    write_ini(ini);
    dt_status status = dt_config_load(&config, path, &err);
    if (status != want)
        fail_msg("%s: %s %s", ini, dt_status_name(status), err.text);
    for (size_t i = 0; i < n; i++)
        if (!strstr(err.text, words[i]))
            fail_msg("no \"%s\" in \"%s\"", words[i], err.text);
    assert_null(config.mysql_host); /* cleared */
}

#define REFUSED(ini, ...)                                                                                              \
    assert_refused(ini, DT_INVALID, (const char *const[]){__VA_ARGS__},                                                \
                   sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *))

/* ---- values and their order ---- */

FRESH_TEST(without_a_file_all_options_have_their_defaults)
{
    CONFIG(config) = {0};
    assert_int_equal(dt_config_load(&config, NULL, NULL), DT_OK);
#define INT(s, k, def, min, max, flags, help) assert_int_equal(config.s##_##k, def);
#define BOOL(s, k, def, flags, help)          assert_int_equal(config.s##_##k, def);
#define TEXT(s, k, def, flags, help)          assert_string_equal(config.s##_##k, def);
    DT_CONFIG_MAP(INT, INT, BOOL, TEXT)
#undef INT
#undef BOOL
#undef TEXT
}

FRESH_TEST(every_default_lies_in_its_own_bounds)
{
#define INT(s, k, def, min, max, flags, help) assert_true((def) >= (min) && (def) <= (max));
#define NONE(...)
    DT_CONFIG_MAP(INT, INT, NONE, NONE)
#undef INT
#undef NONE
}

FRESH_TEST(the_file_overrides_defaults_and_the_environment_overrides_the_file)
{
    setenv("DUETIME_HTTP_PORT", "9999", 1);
    setenv("DUETIME_MYSQL_PASSWORD", "from env ; \" kept", 1);
    CONFIG(config) = loaded("[http]\nport = 81\nthreads=3\n[mysql]\npassword = x\nuser: u\n");
    assert_members(config, (http_port, 9999), (http_threads, 3), (mysql_password, "from env ; \" kept"),
                   (mysql_user, "u"), (mysql_host, "127.0.0.1"));
}

FRESH_TEST(every_option_can_be_set_by_its_environment_name)
{
    CONFIG(config) = {0};
    setenv("DUETIME_MYSQL_IDLE_TRANSACTION_TIMEOUT", "PT9S", 1);
    setenv("DUETIME_API_MIGRATE", "TRUE", 1);
    setenv("DUETIME_REDIS_ENDPOINTS", "a:1,b:2", 1);
    assert_int_equal(dt_config_load(&config, NULL, NULL), DT_OK);
    assert_members(config, (mysql_idle_transaction_timeout, 9000), (api_migrate, true), (redis_endpoints, "a:1,b:2"));
}

FRESH_TEST(durations_are_read_in_every_form)
{
    CONFIG(config) = loaded("[mysql]\nconnect_timeout = PT0.5S\nio_timeout=1m\nlock_timeout= 2500\n");
    assert_members(config, (mysql_connect_timeout, 500), (mysql_io_timeout, 60000), (mysql_lock_timeout, 2500));
}

FRESH_TEST(yes_and_no_are_read_in_their_usual_words)
{
    static const char *const words[] = {"true", "yes", "on", "1", "True", "false", "no", "off", "0", "NO"};
    for (int i = 0; i < 10; i++) {
        char ini[64];
        CONFIG(config) = {0};
        snprintf(ini, sizeof ini, "[topics]\nauto_create = %s\n", words[i]);
        config = loaded(ini);
        assert_int_equal(config.topics_auto_create, i < 5);
    }
}

FRESH_TEST(comments_blank_lines_spaces_and_line_ends_do_not_matter)
{
    CONFIG(config) = loaded("\xef\xbb\xbf# first\r\n\r\n; second\r\n[http]   \r\n   port   =   82   ; why\r\n"
                            "listen = ::1\r\n\n[log]\nlevel = warn");
    assert_members(config, (http_port, 82), (http_listen, "::1"), (log_level, "warn"));
}

FRESH_TEST(quoted_texts_keep_characters_of_the_file_format)
{
    struct dt_config config =
        loaded("[mysql]\npassword = \" a \\\"b\\\" \\\\ \\x3b # \\x0a\"\nuser = \"\"\nhost = a\"b\n");
    assert_members(config, (mysql_password, " a \"b\" \\ ; # \n"), (mysql_user, ""), (mysql_host, "a\"b"));
    dt_config_clear(&config);
}

FRESH_TEST(a_list_continues_in_indented_lines_after_a_comma)
{
    CONFIG(config) = loaded("[redis]\nendpoints = a:1,\n  b:2,\n\tc:3\ntimeout = 2s\n");
    assert_members(config, (redis_endpoints, "a:1,b:2,c:3"), (redis_timeout, 2000));
}

/* ---- secrets ---- */

FRESH_TEST(a_secret_can_come_from_a_file_without_its_line_end)
{
    static const struct {
        const char *text, *want;
    } cases[] = {{"hush\n", "hush"}, {"hush\r\n", "hush"}, {"hush", "hush"}, {"hush\n\n", "hush\n"}, {"", ""}};
    char ini[256];
    snprintf(ini, sizeof ini, "[mysql]\npassword_file = %s\n", secret_path);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        CONFIG(config) = {0};
        write_file(secret_path, cases[i].text, strlen(cases[i].text));
        config = loaded(ini);
        assert_string_equal(config.mysql_password, cases[i].want);
    }
}

FRESH_TEST(a_secrets_file_can_be_named_by_the_environment)
{
    write_file(secret_path, "hush\n", 5);
    setenv("DUETIME_REDIS_PASSWORD_FILE", secret_path, 1);
    CONFIG(config) = loaded("[redis]\npassword = other\n");
    assert_string_equal(config.redis_password, "hush");
}

FRESH_TEST(a_secrets_file_that_cannot_be_read_is_named)
{
    assert_refused("[mysql]\npassword_file = /nowhere/secret\n", DT_UNAVAILABLE,
                   (const char *const[]){"x.ini:2", "[mysql]", "password", "/nowhere/secret", "No such file"}, 5);
}

FRESH_TEST(a_secrets_file_must_hold_a_text_of_bounded_length)
{
    static char large[5000];
    char ini[256];
    snprintf(ini, sizeof ini, "[mysql]\npassword_file = %s\n", secret_path);
    memset(large, 'x', sizeof large);
    write_file(secret_path, large, sizeof large);
    REFUSED(ini, "x.ini:2", "4096 bytes");
    write_file(secret_path, "a\0b", 3);
    REFUSED(ini, "x.ini:2");
    write_file(secret_path, large, 4096);
    dt_config_clear(&(struct dt_config[]){loaded(ini)}[0]);
}

FRESH_TEST(a_wrong_line_is_refused_with_its_place_and_reason)
{
    static const char *const rows[][6] = {
        {"[mysql]\nhost_file = /x\n", "x.ini:2", "[mysql]", "host_file", "unknown key"},
        {"# c\n[mysq]\nhost = x\n", "x.ini:3", "[mysq]", "unknown section", "mysql, redis, kafka"},
        {"[http]\nport = 1\nprot = 2\n", "x.ini:3", "[http]", "prot", "unknown key", "listen, port, threads"},
        {"[http]\nPort = 1\n", "unknown key"},
        {"host = x\n", "x.ini:1", "unknown section"},
        {"[topics]\nauto_creat = 1\n", "unknown key"},
        {"[topics]\nauto_createe = 1\n", "unknown key"},
        {"[api]\nmigrate = maybe\n", "x.ini:2", "[api]", "migrate", "\"maybe\"", "true or false"},
        {"[api]\nmigrate =\n", "true or false"},
        {"[log]\nlevel = verbose\n", "x.ini:2", "[log]", "level", "debug, info, warn or error"},
        {"[installation]\nname = a b\n", "x.ini:2", "name", "1 to 100"},
        {"[installation]\nname =\n", "1 to 100"},
        {"[installation]\nname = __x\n", "1 to 100"},
        {"[http]\nport = 1\nnonsense\n", "x.ini:3", "neither [section] nor key = value"},
        {"[http\nport = 1\n", "x.ini:1"},
        {"[http]\n= 5\n", "x.ini:2"},
        {"[http]\n  listen = 127.0.0.1\n  port = 1\n", "x.ini:3", "indented"},
        {"[http]\nport = 1\n  2\n", "x.ini:3", "indented"},
        {"[http]\nport = x\nthreads = y\n[nope]\na = b\n", "x.ini:2", "port"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        size_t n = 1;
        while (n < 6 && rows[i][n])
            n++;
        assert_refused(rows[i][0], DT_INVALID, &rows[i][1], n - 1);
    }
}

/* ---- bad input ---- */

FRESH_TEST(a_bad_number_is_an_error_that_names_the_accepted_range)
{
    static const char *const values[] = {"",    "x",     "0",   "65536", "-1",  "1.5",
                                         "1e3", "0x50",  "+80", "80 80", "80k", "99999999999999999999",
                                         "-",   "\"80\""};
    char ini[100];
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        snprintf(ini, sizeof ini, "[mysql]\n\nport = %s\n", values[i]);
        REFUSED(ini, "x.ini:3", "[mysql]", "port", "a whole number from 1 to 65535");
    }
    /* JSON may be six times as long as what it says, and has 65535 bytes at most in a row. */
    REFUSED("[limits]\nheaders = 10001\n", "x.ini:2", "[limits]", "headers", "a whole number from 0 to 10000");
}

FRESH_TEST(a_bad_duration_is_an_error_that_names_the_accepted_range)
{
    static const char *const values[] = {"", "500ms", "soon", "-1s", "20m", "PT1Y", "100s 5", "1s,"};
    char ini[100];
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        snprintf(ini, sizeof ini, "[reconcile]\nperiod = %s\n", values[i]);
        REFUSED(ini, "x.ini:2", "[reconcile]", "period", "a duration from PT0.2S to 10m");
    }
}

FRESH_TEST(a_variable_that_no_key_has_is_refused_like_a_key_in_the_file)
{
    static const char *const wrong[][2] = {{"DUETIME_MYSQL_HOTS", "[mysql] hots: unknown key, accepted: host, port"},
                                           {"DUETIME_MYSLQ_HOST", "[myslq] host: unknown section, accepted: mysql"},
                                           {"DUETIME_MYSQL_HOST_FILE", "[mysql] host_file: unknown key"},
                                           {"DUETIME_PORTT", "no setting has this name"}};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        setenv(wrong[i][0], "7", 1);
        REFUSED("", wrong[i][0], wrong[i][1]);
        unsetenv(wrong[i][0]);
    }
}

FRESH_TEST(variables_of_other_programs_and_of_kubernetes_are_accepted)
{
    static const char *const others[][2] = {{"DUETIME_URL", "http://127.0.0.1:8080"},
                                            {"DUETIME_URL_API1", "http://127.0.0.1:8080"},
                                            {"DUETIME_PID_API1", "123"},
                                            {"DUETIME_TEST_SEED", "1"},
                                            {"DUETIME_SERVICE_HOST", "10.0.0.1"},
                                            {"DUETIME_API_SERVICE_PORT_HTTP", "8080"},
                                            {"DUETIME_API_PORT", "tcp://10.0.0.1:8080"},
                                            {"DUETIME_API_PORT_8080_TCP_ADDR", "10.0.0.1"}};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        setenv(others[i][0], others[i][1], 1);
    struct dt_config config = loaded("");
    dt_config_clear(&config);
}

FRESH_TEST(a_bad_value_of_the_environment_names_its_variable)
{
    struct dt_config config;
    setenv("DUETIME_MYSQL_PORT", "none", 1);
    assert_int_equal(dt_config_load(&config, NULL, &err), DT_INVALID);
    assert_string_equal(err.text,
                        "DUETIME_MYSQL_PORT: [mysql] port: bad value \"none\", accepted: a whole number from 1 "
                        "to 65535");
}

FRESH_TEST(an_option_that_is_given_twice_is_an_error)
{
    struct dt_config config;
    REFUSED("[http]\nport = 1\n[log]\nlevel = info\n[http]\nport = 1\n", "x.ini:6", "[http]", "port", "twice");
    REFUSED("[mysql]\npassword = a\npassword_file = /x\n", "x.ini:3", "twice");
    setenv("DUETIME_MYSQL_PASSWORD", "a", 1);
    setenv("DUETIME_MYSQL_PASSWORD_FILE", "/x", 1);
    assert_int_equal(dt_config_load(&config, NULL, &err), DT_INVALID);
    assert_non_null(strstr(err.text, "DUETIME_MYSQL_PASSWORD_FILE"));
}

FRESH_TEST(a_budget_that_the_largest_request_does_not_fit_into_is_refused)
{
    REFUSED("[limits]\nmemory = 251658239\n", "[limits] memory", "251658239", "limits.batch_body = 134217728",
            "a whole number from 251658240");
    REFUSED("[limits]\nbatch_body = 4294967296\n", "[limits] memory", "limits.batch_body = 4294967296");
    REFUSED("[limits]\nbatch_body = 1024\nmemory = 20000000\nbody = 1400000\n", "limits.body = 1400000");
    CONFIG(config) = loaded("[limits]\nmemory = 251658240\n");
    assert_int_equal(config.limits_memory, 251658240);
}

FRESH_TEST(quotes_that_are_not_closed_or_hold_nonsense_are_errors)
{
    static const char *const values[] = {"\"",       "\"abc",    "\"abc\\\"", "\"a\"b",
                                         "\"a\\n\"", "\"\\x0\"", "\"\\x00\"", "\"\\xzz\""};
    char ini[100];
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        snprintf(ini, sizeof ini, "[mysql]\npassword = %s\n", values[i]);
        REFUSED(ini, "x.ini:2", "[mysql]", "password", "quotes");
    }
}

FRESH_TEST(a_line_that_is_too_long_is_an_error_and_not_cut)
{
    char ini[400] = "[mysql]\nhost = ";
    size_t n = strlen(ini);
    memset(ini + n, 'x', 300);
    snprintf(ini + n + 300, sizeof ini - n - 300, "\nport = 1\n");
    REFUSED(ini, "x.ini:2", "longer than");
}

FRESH_TEST(a_secret_is_never_part_of_an_error)
{
    struct dt_config config;
    write_ini("[mysql]\npassword = \"hunter2\n");
    assert_int_equal(dt_config_load(&config, path, &err), DT_INVALID);
    assert_null(strstr(err.text, "hunter2"));
}

FRESH_TEST(a_file_that_cannot_be_read_is_unavailable)
{
    struct dt_config config;
    assert_int_equal(dt_config_load(&config, "/nowhere/x.ini", &err), DT_UNAVAILABLE);
    assert_string_equal(err.text, "/nowhere/x.ini: No such file or directory");
    assert_int_equal(dt_config_load(&config, folder, &err), DT_UNAVAILABLE);
}

FRESH_TEST(an_error_with_a_very_long_file_name_still_names_the_key)
{
    char name[900];
    struct dt_config config;
    size_t n = strlen(folder);
    write_ini("[mysql]\nport = x\n");
    memcpy(name, folder, n);
    for (; n < 700; n += 2)
        memcpy(name + n, "/.", 2);
    memcpy(name + n, "/x.ini", 7);
    assert_int_equal(dt_config_load(&config, name, &err), DT_INVALID);
    assert_non_null(strstr(err.text, "x.ini:2: [mysql] port: "));
    assert_non_null(strstr(err.text, "65535"));
}

/* ---- printing ---- */

static char *print(const struct dt_config *config)
{
    char *text = NULL;
    size_t n = 0;
    FILE *out = open_memstream(&text, &n);
    assert_non_null(out);
    dt_config_print(config, out);
    fclose(out);
    return text;
}

/* Loads what is printed, and prints that again: nothing may change. */
static void assert_reads_back(const struct dt_config *config)
{
    char *text = print(config), *again;
    CONFIG(back) = loaded(text);
#define INT(s, k, def, min, max, flags, help) assert_int_equal(back.s##_##k, config->s##_##k);
#define BOOL(s, k, def, flags, help)          assert_int_equal(back.s##_##k, config->s##_##k);
#define TEXT(s, k, def, flags, help)          assert_string_equal(back.s##_##k, (flags)&DT_OPT_SECRET ? "" : config->s##_##k);
    DT_CONFIG_MAP(INT, INT, BOOL, TEXT)
#undef INT
#undef BOOL
#undef TEXT
    again = print(&back);
    if (!strstr(text, "***"))
        assert_string_equal(text, again);
    free(text);
    free(again);
}

FRESH_TEST(a_printed_configuration_is_read_back_as_the_same)
{
    CONFIG(config) = loaded("[http]\nport = 81\n[mysql]\nconnect_timeout = 1234\nio_timeout = 61s\n[api]\n"
                            "migrate = yes\n[redis]\nendpoints = a:1,b:2\n");
    assert_reads_back(&config);
}

FRESH_TEST(printed_special_characters_are_read_back_unchanged)
{
    static const char *const texts[] = {
        " leads",      "trails ",   "a ; b",     ";",         "# x", "\"quoted\"",
        "back\\slash", "new\nline", "tab\there", "a = b : c", "[x]", "\x01\x1f\x7f",
        "\xc3\xa9",    "a\r",       " ",         "\\x41",     "\"",
    };

    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        CONFIG(config) = {0};
        setenv("DUETIME_MYSQL_USER", texts[i], 1);
        assert_int_equal(dt_config_load(&config, NULL, NULL), DT_OK);
        unsetenv("DUETIME_MYSQL_USER");
        assert_string_equal(config.mysql_user, texts[i]);
        assert_reads_back(&config);
    }
}

FRESH_TEST(texts_of_any_length_are_read_back_as_the_same)
{
    static const char *const units[] = {"x", "a:1,", "   ", "; #", "\xc3\xa9", "\"\\", "= [:", "ab "};
    static char text[3000];
    for (size_t u = 0; u < sizeof units / sizeof units[0]; u++)
        for (size_t n = 100; n < 900; n += 7) {
            CONFIG(config) = {0};
            size_t unit = strlen(units[u]), at = 0;
            while (at < n) {
                memcpy(text + at, units[u], unit);
                at += unit;
            }
            text[at] = '\0';
            setenv("DUETIME_KAFKA_BROKERS", text, 1);
            assert_int_equal(dt_config_load(&config, NULL, NULL), DT_OK);
            unsetenv("DUETIME_KAFKA_BROKERS");
            assert_reads_back(&config);
        }
}

FRESH_TEST(secrets_are_hidden_when_printed)
{
    CONFIG(config) = loaded("[mysql]\npassword = hunter2\n");
    char *text = print(&config);
    assert_null(strstr(text, "hunter2"));
    assert_non_null(strstr(text, "password = ***\n"));
    assert_reads_back(&config);
    free(text);
}

FRESH_TEST(the_reference_has_a_row_for_every_option)
{
    char *text = NULL;
    size_t n = 0;
    FILE *out = open_memstream(&text, &n);
    assert_non_null(out);
    dt_config_reference(out);
    fclose(out);
#define ROW(s, k, help)                                                                                                \
    assert_non_null(strstr(text, "\n| `" #s "." #k "` | "));                                                           \
    assert_non_null(strstr(text, help));
#define INT(s, k, def, min, max, flags, help) ROW(s, k, help)
#define BOOL(s, k, def, flags, help)          ROW(s, k, help)
    DT_CONFIG_MAP(INT, INT, BOOL, BOOL)
#undef INT
#undef BOOL
#undef ROW
    assert_non_null(strstr(text, "| `mysql.idle_transaction_timeout` | 1s–1m | `8s` |"));
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"))
        if (line[0] == '|') {
            int bars = 0;
            for (char *p = line; *p; p++)
                bars += *p == '|';
            assert_int_equal(bars, 5);
        }
    free(text);
}

FRESH_TEST(the_sample_has_every_option_and_configures_one_server)
{
    char *text = NULL;
    size_t n = 0;
    FILE *out = open_memstream(&text, &n);
    assert_non_null(out);
    dt_config_sample(out);
    fclose(out);
    CONFIG(sample) = loaded(text);
    CONFIG(small) = loaded("[redis]\nendpoints =\n[kafka]\nbrokers =\n[zookeeper]\nservers =\n");
    char *as_read = print(&sample), *as_wanted = print(&small);
    assert_string_equal(as_read, as_wanted);
#define ROW(s, k, ...) assert_non_null(strstr(text, "\n#" #k " ="));
    DT_CONFIG_MAP(ROW, ROW, ROW, ROW)
#undef ROW
    for (const char *line = text; *line; line += strcspn(line, "\n") + 1)
        assert_true(strncmp(line, "# ", 2) != 0 || strcspn(line, "\n") <= 120);
    free(as_read);
    free(as_wanted);
    free(text);
}

FRESH_TEST(constants_can_be_set_only_in_tests_and_are_undocumented)
{
    char *text = NULL;
    size_t n = 0;
    FILE *out = open_memstream(&text, &n);
    assert_non_null(out);
#ifdef DT_FAIL_POINTS
    struct dt_config config = loaded("[reconcile]\nwalk = 10s\n");
    assert_int_equal(config.reconcile_walk, 10000);
#else
    struct dt_config config = loaded("");
    assert_int_equal(config.reconcile_walk, 60000);
    REFUSED("[reconcile]\nwalk = 10s\n", "unknown key");
#endif
    assert_int_equal(config.dispatch_priority, -10);
    dt_config_print(&config, out);
    dt_config_reference(out);
    dt_config_sample(out);
    fclose(out);
#define ABSENT(type, s, k, ...) assert_null(strstr(text, #s "_" #k));
    DT_CONFIG_CONSTANTS(ABSENT)
#undef ABSENT
    assert_null(strstr(text, "\nwalk ="));
    assert_null(strstr(text, "\n| `reconcile.walk` |"));
    assert_null(strstr(text, "\n#walk ="));
    free(text);
    dt_config_clear(&config);
}

FRESH_TEST(a_cleared_configuration_can_be_cleared_again)
{
    CONFIG(config) = loaded("");
    dt_config_clear(&config);
    assert_null(config.mysql_host);
}

SUITE(make_folder, remove_folder)
