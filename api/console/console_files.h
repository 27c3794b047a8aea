/* The files of the console as built by build.cmake, compiled into the program, each with its compressed forms. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* A form of a file: plain or compressed. bytes NULL: the file has no such form. */
struct dt_console_form {
    const unsigned char *bytes;
    size_t n;
};

struct dt_console_file {
    const char *name; /* name in the path: "index.html" */
    const char *type; /* Content-Type */
    const char *etag; /* entity tag of the plain form, with its quotes */
    bool lasting;     /* the name contains a hash of the contents, so the file may be cached for ever */
    struct dt_console_form plain, gzip, brotli;
};

extern const struct dt_console_file dt_console_files[];
extern const size_t dt_console_n_files;
