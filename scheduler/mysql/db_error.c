/* See db_mysql.h. The tables have numbers instead of names, because neither server's headers have the numbers of both
 * servers. */
#include "db_mysql.h"

#define NUMBERS_MAX 16

struct numbers {
    unsigned short v[NUMBERS_MAX]; /* error numbers, ended by 0 */
};

static const struct {
    dt_status status;
    struct numbers numbers;
} statuses[] = {
    {DT_BUSY,
     {{1205, 1213, 1020, 1206}}},    /* lock wait timeout, deadlock, record changed since last read, lock table full */
    {DT_BUSY, {{1317, 1637, 3024}}}, /* query killed, too many transactions, statement timeout */
    {DT_BUSY, {{3101, 1969, 3572}}}, /* group replication rolled back; statement timeout; NOWAIT met a lock */
    {DT_EXISTS, {{1060, 1061, 1304}}},  /* in DDL: the column, index or procedure exists already */
    {DT_EXISTS, {{1826, 3822}}},        /* in DDL: the constraint exists already (MariaDB, MySQL) */
    {DT_EXISTS, {{1062, 1586}}},        /* a row with this key exists already */
    {DT_NOT_FOUND, {{1091, 3940}}},     /* the constraint that a DDL drops does not exist (MariaDB, MySQL) */
    {DT_INVALID, {{1048, 1264, 1265}}}, /* NULL into NOT NULL, out of range, truncated */
    {DT_INVALID, {{1292, 1366, 1406}}}, /* wrong value, too long */
    {DT_INVALID, {{3819, 4025}}},       /* a CHECK constraint is violated */
    {DT_SCHEMA, {{1049, 1051, 1109}}},  /* unknown database; unknown table (1051, 1109) */
    {DT_SCHEMA, {{1054, 1136, 1146}}},  /* unknown column; wrong number of columns; unknown table */
    {DT_SCHEMA, {{1305, 1356, 1364}}},  /* unknown procedure; a view of a missing table; no value for a column */
    {DT_SCHEMA, {{1932}}},              /* the table is unknown to the engine */
    /* access denied, password expired, account locked: an error of connecting, so it can be repaired without a
     * restart */
    {DT_UNAVAILABLE, {{1044, 1045, 1130, 1251, 1524, 1698, 1820, 1862, 3118, 3159, 4151}}},
    /* the server has no more disk, memory or threads */
    {DT_UNAVAILABLE, {{3, 1016, 1017, 1021, 1023, 1024, 1026, 1030, 1037, 1038, 1041, 1114, 1135}}},
    {DT_UNAVAILABLE, {{1153, 2020}}},             /* the statement is larger than max_allowed_packet */
    {DT_UNAVAILABLE, {{1036, 1874, 1881}}},       /* the table or the engine is read-only */
    {DT_UNAVAILABLE, {{1047, 1194, 1195}}},       /* the node is not ready; the table has crashed */
    {DT_UNAVAILABLE, {{1180, 1197, 1598, 3100}}}, /* an error during COMMIT; the binary log cannot be written */
    {DT_UNAVAILABLE, {{1223, 1812, 1814}}},       /* global read lock (1223), or a missing tablespace */
    {DT_UNAVAILABLE, {{1203, 1226, 1461}}},       /* too many connections of this user, or too many statements */
    {DT_FORBIDDEN, {{1142, 1143, 1227}}},         /* the account lacks a privilege */
    {DT_FORBIDDEN, {{1370, 1419, 1449}}},         /* no privilege; no SUPER for a trigger (1419); no such definer */
    {DT_NOMEM, {{2008}}},
};

/* Errors of the client library after which the connection works: out of memory, packet too large (nothing was sent),
 * parameters not bound, invalid parameter number, unsupported buffer type. */
static const struct numbers keep_connection = {{2008, 2020, 2031, 2034, 2036}};
/* Errors that end the connection: too many connections, server shutdown, host blocked, aborted connection, packet too
 * large (the server closes the connection), network errors on the server's side, killed (MariaDB, MySQL), idle for too
 * long (MySQL). */
static const struct numbers lose_connection = {
    {1040, 1053, 1129, 1152, 1153, 1158, 1159, 1160, 1161, 1927, 3169, 4031}};
/* The server or transaction is read-only: the server is a replica now, so the caller must find the primary again. */
static const struct numbers read_only = {{1290, 1792, 1836}};
static const struct numbers temporary = {{1047, 1135, 1203, 1223, 1226}};

static bool has_number(const struct numbers *list, unsigned number)
{
    size_t i = 0;
    while (list->v[i] && list->v[i] != number)
        i++;
    return list->v[i];
}

bool dt_db_error_loses_connection(unsigned number)
{
    if (has_number(&keep_connection, number))
        return false;
    return has_number(&lose_connection, number) || has_number(&read_only, number) || (number >= 2000 && number < 3000);
}

dt_status dt_db_error_status(unsigned number)
{
    for (size_t i = 0; i < sizeof(statuses) / sizeof(statuses[0]); i++)
        if (has_number(&statuses[i].numbers, number))
            return statuses[i].status;
    return dt_db_error_loses_connection(number) ? DT_UNAVAILABLE : DT_INTERNAL;
}

bool dt_db_error_needs_an_operator(unsigned number)
{
    const dt_status status = dt_db_error_status(number);
    if (status != DT_UNAVAILABLE)
        return status == DT_FORBIDDEN || status == DT_SCHEMA || status == DT_INTERNAL;
    if (has_number(&temporary, number))
        return false;
    /* A new connection cures a lost one, so no operator is needed. Exceptions: 1153 (a packet that is too large), and a
     * read-only server. */
    return number == 1153 || has_number(&read_only, number) || !dt_db_error_loses_connection(number);
}
