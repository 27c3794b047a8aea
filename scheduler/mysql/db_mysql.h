/* Shared by the files of a connection: the meaning of error numbers of MySQL and MariaDB (1000 and up: the server; 2000
 * to 2999: the client library), and how a connection is made. */
#pragma once

#include "base/config.h"
#include "base/status.h"

/* Returns UNAVAILABLE, BUSY, EXISTS, NOT_FOUND, INVALID, SCHEMA, FORBIDDEN or NOMEM; INTERNAL for any other number. */
dt_status dt_db_error_status(unsigned number);
/* Returns whether a connection with this error is lost, or useless because the server is a replica now. */
bool dt_db_error_loses_connection(unsigned number);
/* Returns whether only an operator can repair the cause: a missing privilege, no disk space, a missing database. */
bool dt_db_error_needs_an_operator(unsigned number);

struct st_mysql;

static inline unsigned dt_seconds_up(int64_t ms)
{
    return (unsigned)((ms + 999) / 1000);
}

/* Connects by socket, or by host and port, or to the first of mysql.hosts that is not read-only, starting with the host
 * that was used last. If no connection is made, *out is NULL, err has the reason, with `alarm` if an operator must act,
 * and the status is that of MySQL's error number (SCHEMA: the database does not exist), UNAVAILABLE or NOMEM. */
dt_status dt_mysql_connect(const struct dt_config *config, struct st_mysql **out, struct dt_error *err);

/* Returns whether several servers are configured, so that another one may become the primary. */
bool dt_mysql_may_move(const struct dt_config *config);
/* Asks the server whether it is read-only. Returns 0, or MySQL's error number if asking failed. */
unsigned dt_mysql_read_only(struct st_mysql *mysql, bool *read_only);
