/* Secrets that a service manager puts into a folder, and the sample file, which names them. */
#include <unistd.h>

#include "support/suite.h"

#include "base/config.h"
#include "base/secrets.h"

#define NAMES 8

struct folder {
    char path[64];
    char files[NAMES][128];
    size_t n;
};

static void make_folder(struct folder *folder)
{
    *folder = (struct folder){.path = "/tmp/credentials-XXXXXX"};
    assert_non_null(mkdtemp(folder->path));
    setenv("CREDENTIALS_DIRECTORY", folder->path, 1);
}

static void remove_folder(struct folder *folder)
{
    while (folder->n)
        unlink(folder->files[--folder->n]);
    rmdir(folder->path);
    unsetenv("CREDENTIALS_DIRECTORY");
    unsetenv("DUETIME_MYSQL_PASSWORD");
}

#define FOLDER_TEST(name) TEST_ON(struct folder, folder, name, make_folder, remove_folder)

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

FOLDER_TEST(a_credential_overrides_the_file_and_the_environment_overrides_it)
{
    const char *ini = put(folder, "x.ini", "[mysql]\npassword = of the file\n");
    put(folder, "duetime_mysql.password", "of the manager\n");
    put(folder, "another.thing", "not ours");
    assert_password(ini, "of the manager");
    setenv("DUETIME_MYSQL_PASSWORD", "of the environment", 1);
    assert_password(ini, "of the environment");
}

FOLDER_TEST(a_setting_of_the_kafka_library_may_be_a_credential)
{
    struct dt_config config;
    struct dt_error err = {0};
    put(folder, "duetime_kafka.client.sasl.password", "hush\n");
    assert_int_equal(dt_config_load(&config, NULL, &err), DT_OK);
    assert_int_equal(config.kafka_client->n, 1);
    assert_members(config.kafka_client->v[0], (name, "sasl.password"), (value, "hush"));
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

FOLDER_TEST(an_unknown_credential_is_reported_by_name)
{
    assert_refused(folder, "duetime_mysql.host", "there is no such secret");
    assert_refused(folder, "duetime_mysql.pasword", "there is no such secret");
    assert_refused(folder, "duetime_mysql", "there is no such secret");
}

FOLDER_TEST(a_missing_folder_has_no_credentials)
{
    setenv("CREDENTIALS_DIRECTORY", "/nowhere/at/all", 1);
    assert_password(NULL, "");
}

FOLDER_TEST(the_sample_can_be_read_back_and_configures_only_mysql)
{
    struct dt_config config;
    struct dt_error err = {0};
    const char *path = put(folder, "sample.ini", "");
    FILE *out = fopen(path, "w");
    assert_non_null(out);
    dt_config_sample(out);
    fclose(out);
    assert_int_equal(dt_config_load(&config, path, &err), DT_OK);
    assert_members(config, (redis_endpoints, ""), (kafka_brokers, ""), (zookeeper_servers, ""),
                   (mysql_host, "127.0.0.1"), (http_port, 8080));
    dt_config_clear(&config);
}
