/* A folder of a suite's own for the configuration's file and for a secret. Everything is static: a suite includes this once. */
#pragma once

#include <unistd.h>

#include "support/suite.h"

#include "base/config.h"

static char folder[] = "/tmp/duetime-test-config-XXXXXX";
static char path[sizeof folder + 16], secret_path[sizeof folder + 16];

static inline void make_folder(void)
{
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/x.ini", folder);
    snprintf(secret_path, sizeof secret_path, "%s/secret", folder);
}

static inline void remove_folder(void)
{
    unlink(path);
    unlink(secret_path);
    assert_int_equal(rmdir(folder), 0);
}

static inline void write_file(const char *at, const char *text, size_t n)
{
    FILE *out = fopen(at, "w");
    assert_non_null(out);
    assert_int_equal(fwrite(text, 1, n, out), n);
    assert_int_equal(fclose(out), 0);
}

static inline void write_ini(const char *text)
{
    write_file(path, text, strlen(text));
}

#define CONFIG(name) OWNED(struct dt_config, name, dt_config_clear)

static inline struct dt_config loaded(const char *ini)
{
    struct dt_config config;
    struct dt_error err = {0};
    write_ini(ini);
    if (dt_config_load(&config, path, &err))
        fail_msg("%s", err.text);
    return config;
}
