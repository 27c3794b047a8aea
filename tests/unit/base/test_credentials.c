/* Secrets that a service manager puts into a folder, and the sample file, which names them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/config.h"
#include "base/connection/properties.h"

#define NAMES 8

struct folder {
    char path[64];
    char files[NAMES][128];
    size_t n;
};

static int make_folder(void **state)
{
    static struct folder folder;
    folder = (struct folder){.path = "/tmp/credentials-XXXXXX"};
    assert_non_null(mkdtemp(folder.path));
    setenv("CREDENTIALS_DIRECTORY", folder.path, 1);
    *state = &folder;
    return 0;
}

static int remove_folder(void **state)
{
    struct folder *folder = *state;
    while (folder->n)
        unlink(folder->files[--folder->n]);
    rmdir(folder->path);
    unsetenv("CREDENTIALS_DIRECTORY");
    unsetenv("DUETIME_MYSQL_PASSWORD");
    return 0;
}

static const char *put(struct folder *folder, const char *name, const char *text)
{
    char *path = folder->files[folder->n++], whole[sizeof(folder->files[0])];
    snprintf(whole, sizeof(whole), "%s/%s", folder->path, name);
    memcpy(path, whole, sizeof(whole));
    FILE *out = fopen(path, "w");
    assert_non_null(out);
    fputs(text, out);
    fclose(out);
    return path;
}

static void assert_password(const char *file, const char *want)
{
    struct dt_config config;
    struct dt_error err = {0};
    assert_int_equal(dt_config_load(&config, file, &err), DT_OK);
    assert_string_equal(config.mysql_password, want);
    dt_config_clear(&config);
}

static void a_credential_wins_over_the_file_and_the_environment_over_it(void **state)
{
    struct folder *folder = *state;
    const char *ini = put(folder, "x.ini", "[mysql]\npassword = of the file\n");
    put(folder, "duetime_mysql.password", "of the manager\n");
    put(folder, "another.thing", "not ours");
    assert_password(ini, "of the manager");
    setenv("DUETIME_MYSQL_PASSWORD", "of the environment", 1);
    assert_password(ini, "of the environment");
}

static void a_setting_of_the_kafka_library_may_be_a_credential(void **state)
{
    struct dt_config config;
    struct dt_error err = {0};
    put(*state, "duetime_kafka.client.sasl.password", "hush\n");
    assert_int_equal(dt_config_load(&config, NULL, &err), DT_OK);
    assert_int_equal(config.kafka_client->n, 1);
    assert_string_equal(config.kafka_client->v[0].name, "sasl.password");
    assert_string_equal(config.kafka_client->v[0].value, "hush");
    dt_config_clear(&config);
}

static void assert_refused(struct folder *folder, const char *name, const char *word)
{
    struct dt_config config;
    struct dt_error err = {0};
    const char *path = put(folder, name, "text");
    assert_int_equal(dt_config_load(&config, NULL, &err), DT_INVALID);
    assert_non_null(strstr(err.text, name));
    assert_non_null(strstr(err.text, word));
    unlink(path);
}

static void a_credential_that_is_no_secret_of_the_table_is_named(void **state)
{
    assert_refused(*state, "duetime_mysql.host", "there is no such secret");
    assert_refused(*state, "duetime_mysql.pasword", "there is no such secret");
    assert_refused(*state, "duetime_mysql", "there is no such secret");
}

static void a_folder_that_is_not_there_has_no_credentials(void **state)
{
    (void)state;
    setenv("CREDENTIALS_DIRECTORY", "/nowhere/at/all", 1);
    assert_password(NULL, "");
}

static void the_sample_is_read_back_and_leaves_other_servers_than_mysql_out(void **state)
{
    struct dt_config config;
    struct dt_error err = {0};
    const char *path = put(*state, "sample.ini", "");
    FILE *out = fopen(path, "w");
    assert_non_null(out);
    dt_config_sample(out);
    fclose(out);
    assert_int_equal(dt_config_load(&config, path, &err), DT_OK);
    assert_string_equal(config.redis_endpoints, "");
    assert_string_equal(config.kafka_brokers, "");
    assert_string_equal(config.zookeeper_servers, "");
    assert_string_equal(config.mysql_host, "127.0.0.1");
    assert_int_equal(config.http_port, 8080);
    dt_config_clear(&config);
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, make_folder, remove_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(a_credential_wins_over_the_file_and_the_environment_over_it),
        IN_FOLDER(a_setting_of_the_kafka_library_may_be_a_credential),
        IN_FOLDER(a_credential_that_is_no_secret_of_the_table_is_named),
        IN_FOLDER(a_folder_that_is_not_there_has_no_credentials),
        IN_FOLDER(the_sample_is_read_back_and_leaves_other_servers_than_mysql_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
