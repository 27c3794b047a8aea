/* The least rights that each program's account needs in MySQL, as GRANT statements for an administrator. */
#ifndef DT_STORE_GRANTS_H
#define DT_STORE_GRANTS_H

#include <stdio.h>

/* Prints GRANT statements for four accounts of a database: for migrations, the API, dispatchers and an application. */
void dt_store_print_grants(const char *database, FILE *out);

#endif
