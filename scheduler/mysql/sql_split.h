/*
 * A file of SQL as statements, split as the mysql client does: at the delimiter, outside quotes and comments; a line
 * "DELIMITER xx" between statements changes it. Comments between statements are left out, those inside stay.
 */
#ifndef DT_MYSQL_SQL_SPLIT_H
#define DT_MYSQL_SQL_SPLIT_H

#include "base/text/strbuf.h"

struct dt_sql_split {
    const char *p;
    char delimiter[16];
};

/* Borrows the text. */
void dt_sql_split_init(struct dt_sql_split *s, const char *text);
/* The next statement without its delimiter, a slice of the text; absent at the end. */
struct dt_str dt_sql_split_next(struct dt_sql_split *s);

#endif
