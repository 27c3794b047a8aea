/* Catches what is logged: standard error is a file without a name until a test's end. */
#pragma once

#include <unistd.h>

#include "support/suite.h"

#include "base/log.h"

static int saved_stderr = -1, file = -1;
static char *text;

static inline void catch_stderr(void)
{
    char path[] = "/tmp/duetime-test-log-XXXXXX";
    file = mkstemp(path);
    assert_true(file >= 0);
    unlink(path);
    saved_stderr = dup(STDERR_FILENO);
    dup2(file, STDERR_FILENO);
    dt_log_set_level(DT_LOG_INFO);
}

static inline void release_stderr(void)
{
    dup2(saved_stderr, STDERR_FILENO);
    close(saved_stderr);
    close(file);
    free(text);
    text = NULL;
}

/* What was written so far. Valid until the next call. */
static inline char *written(void)
{
    off_t n = lseek(file, 0, SEEK_END);
    free(text);
    text = calloc(1, (size_t)n + 1);
    assert_non_null(text);
    assert_int_equal(pread(file, text, (size_t)n, 0), n);
    return text;
}
