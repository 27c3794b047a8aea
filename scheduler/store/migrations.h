/* The migrations, compiled into the program: the texts of sql/NNNN_name.sql with the views and procedures that each of
 * these files defines. The first migration is the baseline; dt_migrations[i].version is i + 1. embed_migrations.cmake
 * generates the array. */
#pragma once

#include "base/text/strbuf.h"

struct dt_migration {
    int version;
    const char *name;
    const char *sql;
};

extern const struct dt_migration dt_migrations[];
extern const int dt_migrations_n;

/* Splits a migration into statements. A statement ends where a line ends with the delimiter, which a line
 * "DELIMITER xx" between statements changes. Empty lines and lines of comments between statements are skipped. */
struct dt_sql_split {
    const char *p;
    char delimiter[16];
};
/* Returns the next statement, a part of the text, without its delimiter; absent at the end. */
struct dt_str dt_sql_split_next(struct dt_sql_split *s);
