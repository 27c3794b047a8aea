/* What connections are told by the configuration: secrets that change while the program runs, TLS, hosts. */
#include <unistd.h>

#include "support/rigs/config_rig.h"

#include "base/addresses.h"
#include "base/secrets.h"
#include "base/tls.h"

static void start(void)
{
    unsetenv("DUETIME_MYSQL_PASSWORD");
}

#define FRESH_TEST(name) TEST_WITH(name, start, NULL)

static void write_secret(const char *text)
{
    write_file(secret_path, text, strlen(text));
}

static void refused(const char *ini, const char *word)
{
    struct dt_config config;
    struct dt_error err = {0};
    write_ini(ini);
    assert_int_equal(dt_config_load(&config, path, &err), DT_INVALID);
    if (!strstr(err.text, word))
        fail_msg("no \"%s\" in \"%s\"", word, err.text);
}

FRESH_TEST(a_secret_is_read_from_its_file_as_it_is_now)
{
    char ini[200];
    struct dt_strbuf now = {0};
    snprintf(ini, sizeof ini, "[mysql]\npassword_file = %s\n", secret_path);
    write_secret("first\n");
    CONFIG(config) = loaded(ini);
    struct dt_config copy = config; /* as sessions have it */
    write_secret("second\n");
    assert_int_equal(dt_secret_now(&copy, &copy.mysql_password, &now), DT_OK);
    assert_string_equal(now.p, "second");
    write_secret(""); /* half written */
    assert_int_equal(dt_secret_now(&config, &config.mysql_password, &now), DT_OK);
    assert_string_equal(now.p, "second");
    unlink(secret_path);
    assert_int_equal(dt_secret_now(&config, &config.mysql_password, &now), DT_OK);
    assert_string_equal(now.p, "second");
    dt_secret_forget(&now);
}

FRESH_TEST(reloaded_secrets_apply_to_the_running_configuration)
{
    struct dt_strbuf now = {0};
    write_secret("from the file\n");
    CONFIG(config) = loaded("[mysql]\npassword = old\n[redis]\npassword = stays\n");
    char ini[200];
    snprintf(ini, sizeof ini, "[mysql]\npassword_file = %s\n[redis]\npassword = stays\n", secret_path);
    struct dt_config fresh = loaded(ini);
    assert_int_equal(dt_secret_now(&config, &config.mysql_password, &now), DT_OK);
    assert_string_equal(now.p, "old");
    assert_int_equal(dt_secrets_renew(&config, &fresh), DT_OK);
    dt_config_clear(&fresh);
    write_secret("and later\n");
    assert_int_equal(dt_secret_now(&config, &config.mysql_password, &now), DT_OK);
    assert_string_equal(now.p, "and later");
    assert_int_equal(dt_secret_now(&config, &config.redis_password, &now), DT_OK);
    assert_string_equal(now.p, "stays");
    dt_secret_forget(&now);
}

FRESH_TEST(the_environments_password_overrides_a_file)
{
    struct dt_strbuf now = {0};
    char ini[200];
    write_secret("of the file\n");
    setenv("DUETIME_MYSQL_PASSWORD", "of the environment", 1);
    snprintf(ini, sizeof ini, "[mysql]\npassword_file = %s\n", secret_path);
    CONFIG(config) = loaded(ini);
    assert_int_equal(dt_secret_now(&config, &config.mysql_password, &now), DT_OK);
    assert_string_equal(now.p, "of the environment");
    dt_secret_forget(&now);
}

FRESH_TEST(tls_and_its_files_go_together)
{
    refused("[mysql]\ntls = yes\n", "off, required or verify");
    refused("[mysql]\nca_file = /x\n", "need tls = required or verify");
    refused("[mysql]\ntls = verify\ncert_file = /x\n", "go together");
    CONFIG(config) = loaded("[mysql]\ntls = verify\nca_file = /ca\ncert_file = /c\nkey_file = /k\n");
    struct dt_tls tls = dt_tls_of_mysql(&config);
    assert_members(tls, (mode, DT_TLS_VERIFY), (ca_file, "/ca"), (key_file, "/k"));
}

FRESH_TEST(hosts_are_read_with_and_without_ports)
{
    struct dt_host host;
    assert_true(dt_host_parse(dt_str("db1"), 3306, &host));
    assert_members(host, (name, "db1"), (port, 3306));
    assert_true(dt_host_parse(dt_str("[::1]:65535"), 3306, &host));
    assert_members(host, (name, "::1"), (port, 65535));
    assert_true(dt_host_parse(dt_str("[::1]"), 1, &host));
    static const char *const bad[] = {"",    ":1",   "a:",   "a:0",    "a:65536", "a:b", "a:1:2",
                                      "::1", "[::1", "[]:1", "[::1]1", "a: 1",    "a:+1"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_false(dt_host_parse(dt_str(bad[i]), 3306, &host));
    assert_false(dt_host_parse(dt_str("a"), 0, &host));
    assert_true(dt_hosts_ok(""));
    assert_true(dt_hosts_ok("a, b:1 ,[::1]"));
    assert_false(dt_hosts_ok("a,,b"));
    assert_false(dt_hosts_ok("a,b:x"));
}

FRESH_TEST(listen_is_a_list_of_addresses_and_unix_sockets)
{
    static const char *const good[] = {"127.0.0.1", "::1",
                                       "localhost:1, [::1]:2, plain:0.0.0.0, tls:[::]:3, unix:/a/b:c"};
    static const char *const bad[] = {"",     ",",     "a:",   "a:0",     "unix:relative",
                                      "tls:", "unix:", "[::1", "a:65536", "a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a"};
    struct dt_listen on;
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
        assert_true(dt_listen_ok(good[i]));
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        if (dt_listen_ok(bad[i]))
            fail_msg("\"%s\" was taken", bad[i]);
    assert_true(dt_listen_parse(dt_str("tls:[::1]:8443"), 80, &on));
    assert_int_equal(on.as, DT_LISTEN_TLS);
    assert_members(on.at, (name, "::1"), (port, 8443));
    assert_true(dt_listen_parse(dt_str("fe80::1"), 80, &on));
    assert_int_equal(on.as, DT_LISTEN_AS_GIVEN);
    assert_members(on.at, (name, "fe80::1"), (port, 80));
    assert_true(dt_listen_parse(dt_str("plain:[::]"), 0, &on));
    assert_int_equal(on.at.port, 0);
    assert_true(dt_listen_parse(dt_str("unix:/run/x:1"), 80, &on));
    assert_string_equal(on.at.name, "/run/x:1");
    refused("[http]\nlisten = 127.0.0.1, unix:x\n", "unix:/path");
    refused("[http]\nunix_mode = 999\n", "octal");
    refused("[http]\nunix_mode = 0466\n", "octal");
    refused("[http]\ntls_client_cert = perhaps\n", "optional");
}

FRESH_TEST(settings_of_librdkafka_are_passed_by_their_own_names)
{
    char ini[400];
    struct dt_strbuf now = {0};
    write_secret("of the file\n");
    setenv("DUETIME_KAFKA_CLIENT_SASL_USERNAME", "of the environment", 1);
    snprintf(ini, sizeof ini,
             "[kafka]\nclient.security.protocol = \"SASL_SSL\"\nclient.sasl.username = x\n"
             "client.sasl.password_file = %s\nbrokers = a:1\n",
             secret_path);
    struct dt_config config = loaded(ini);
    unsetenv("DUETIME_KAFKA_CLIENT_SASL_USERNAME");
    assert_string_equal(config.kafka_brokers, "a:1");
    assert_int_equal(config.kafka_client->n, 3);
    assert_string_equal(dt_properties_find(config.kafka_client, "security.protocol")->value, "SASL_SSL");
    assert_string_equal(dt_properties_find(config.kafka_client, "sasl.username")->value, "of the environment");
    write_secret("changed\n");
    assert_int_equal(dt_property_now(dt_properties_find(config.kafka_client, "sasl.password"), &now), DT_OK);
    assert_string_equal(now.p, "changed");
    assert_true(dt_property_is_secret("sasl.password") && dt_property_is_secret("ssl.key.pem"));
    assert_false(dt_property_is_secret("ssl.key.location"));
    assert_null(dt_properties_find(config.kafka_client, "acks"));
    dt_secret_forget(&now);
    dt_config_clear(&config);
    config = loaded("[kafka]\nclient.a = \"b\n  c\"\nbrokers = x:1,\n  y:2\nclient.d = e\n");
    assert_string_equal(dt_properties_find(config.kafka_client, "a")->value, "bc");
    assert_string_equal(dt_properties_find(config.kafka_client, "d")->value, "e");
    assert_string_equal(config.kafka_brokers, "x:1,y:2");
    dt_config_clear(&config);
    refused("[kafka]\nclient.a = b\n  c\n", "inside quotes");
    refused("[kafka]\nclient. = x\n", "unknown key");
    refused("[mysql]\nclient.a = x\n", "unknown key");
    refused("[kafka]\nclient.A-b = x\n", "unknown key");
    refused("[kafka]\nclient.a = \"x\n", "quotes");
}

SUITE(make_folder, remove_folder)
