/*
 * Turns error numbers of MySQL and MariaDB (1000 and up: the server; 2000 to 2999: the client library) into statuses.
 * Pure.
 */
#ifndef DT_MYSQL_DB_MYSQL_H
#define DT_MYSQL_DB_MYSQL_H

#include "base/config.h"
#include "base/status.h"

/* UNAVAILABLE, BUSY, EXISTS, NOT_FOUND, INVALID, SCHEMA, FORBIDDEN, NOMEM; INTERNAL for any other number. */
dt_status dt_db_error_status(unsigned number);
/* The connection is gone, or not worth keeping (the server is a replica now). */
bool dt_db_error_loses_connection(unsigned number);
/* Neither the caller nor another attempt repairs it: what the server forbids us, has no room for or does not have. */
bool dt_db_error_needs_an_operator(unsigned number);

/* How a connection to MySQL is made; for db_mysql.c. */

struct st_mysql;

/*
 * Connects by host and port or socket, or to the first of mysql.hosts that is not read-only, beginning with the one
 * that was the last time. UNAVAILABLE, or the status of MySQL's number (SCHEMA: there is no such database): no server
 * lets us in; err says why, and is marked `alarm` where somebody has to act. NOMEM. *out is NULL unless OK.
 */
DT_MUST_CHECK dt_status dt_mysql_connect(const struct dt_config *config, struct st_mysql **out, struct dt_error *err);

/* Whether there are several servers, of which another one may have become the writable one. */
bool dt_mysql_may_move(const struct dt_config *config);
/* Asks whether the server refuses to write, being a replica. Nonzero: its error number. */
unsigned dt_mysql_read_only(struct st_mysql *mysql, bool *read_only);

#endif
