/* The least rights that each program's account needs in MySQL, as GRANT statements for an administrator. */
#ifndef DT_STORE_GRANTS_H
#define DT_STORE_GRANTS_H

#include <stdio.h>

/* Prints GRANT statements for three accounts of a database: for migrations, for the API, for dispatchers. */
void dt_store_print_grants(const char *database, FILE *out);

#endif
