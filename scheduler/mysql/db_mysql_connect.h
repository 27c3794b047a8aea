/* How a connection to MySQL is made; for db_mysql.c. */
#ifndef DT_MYSQL_DB_MYSQL_CONNECT_H
#define DT_MYSQL_DB_MYSQL_CONNECT_H

#include "base/config.h"
#include "base/status.h"

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
