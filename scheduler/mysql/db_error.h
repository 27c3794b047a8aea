/*
 * Turns error numbers of MySQL and MariaDB (1000 and up: the server; 2000 to 2999: the client library) into statuses.
 * Pure.
 */
#ifndef DT_MYSQL_DB_ERROR_H
#define DT_MYSQL_DB_ERROR_H

#include "base/status.h"

/* UNAVAILABLE, BUSY, EXISTS, NOT_FOUND, INVALID, SCHEMA, FORBIDDEN, NOMEM; INTERNAL for any other number. */
dt_status dt_db_error_status(unsigned number);
/* The connection is gone, or not worth keeping (the server is a replica now). */
bool dt_db_error_loses_connection(unsigned number);
/* Neither the caller nor another attempt repairs it: what the server forbids us, has no room for or does not have. */
bool dt_db_error_needs_an_operator(unsigned number);

#endif
