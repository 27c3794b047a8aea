/*
 * The files of the console as they were built (build.cmake), compiled in, each with its compressed forms.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* bytes NULL: the file is not there in this form. */
struct dt_console_form {
    const unsigned char *bytes;
    size_t n;
};

struct dt_console_file {
    const char *name; /* as the path has it: "index.html" */
    const char *type; /* Content-Type */
    const char *etag; /* with its quotes, of the plain form */
    bool lasting;     /* Its name contains a hash of its contents, so it may be cached for ever. */
    struct dt_console_form plain, gzip, brotli;
};

extern const struct dt_console_file dt_console_files[];
extern const size_t dt_console_n_files;
