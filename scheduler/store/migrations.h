/*
 * The migrations, compiled in: the texts of sql/NNNN_name.sql with the views and procedures that each defines. The
 * first one is the baseline; dt_migrations[i].version is i + 1. embed_migrations.cmake generates the array.
 */
#pragma once

#include "base/text/strbuf.h"

struct dt_migration {
    int version;
    const char *name;
    const char *sql;
};

extern const struct dt_migration dt_migrations[];
extern const int dt_migrations_n;

/*
 * Splits a file of SQL into statements as the mysql client does: at the delimiter, outside of quotes and comments. A
 * line "DELIMITER xx" between statements changes the delimiter. Comments between statements are skipped; comments
 * inside a statement are kept.
 */
struct dt_sql_split {
    const char *p;
    char delimiter[16];
};

/* The text is borrowed. */
void dt_sql_split_init(struct dt_sql_split *s, const char *text);
/* Returns the next statement without its delimiter, a slice of the text; absent at the end. */
struct dt_str dt_sql_split_next(struct dt_sql_split *s);
