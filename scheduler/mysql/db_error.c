/* See db_mysql.h. It has numbers instead of names, because no vendor's header has the numbers of both servers. */
#include "db_mysql.h"

#define NUMBERS_MAX 16

struct numbers {
    unsigned short v[NUMBERS_MAX]; /* 0 ends the list */
};

static const struct {
    dt_status status;
    struct numbers numbers;
} statuses[] = {
    {DT_BUSY,
     {{1205, 1213, 1020, 1206}}},    /* lock wait timeout, deadlock, record changed since last read, lock table full */
    {DT_BUSY, {{1317, 1637, 3024}}}, /* query killed, too many transactions, statement timeout */
    {DT_BUSY, {{3101, 1969, 3572}}}, /* rolled back by group replication; NOWAIT */
    {DT_EXISTS, {{1060, 1061, 1304}}},  /* in DDL: a column, an index, a procedure */
    {DT_EXISTS, {{1826, 3822}}},        /* in DDL: a constraint (MariaDB, MySQL) */
    {DT_EXISTS, {{1062, 1586}}},        /* row of a key */
    {DT_NOT_FOUND, {{1091, 3940}}},     /* constraint that a DDL drops (MariaDB, MySQL) */
    {DT_INVALID, {{1048, 1264, 1265}}}, /* NULL into NOT NULL, out of range, truncated */
    {DT_INVALID, {{1292, 1366, 1406}}}, /* wrong value, too long */
    {DT_INVALID, {{3819, 4025}}},       /* CHECK */
    {DT_SCHEMA, {{1049, 1051, 1109}}},  /* database; table, in a statement */
    {DT_SCHEMA, {{1054, 1136, 1146}}},  /* column, number of columns, table */
    {DT_SCHEMA, {{1305, 1356, 1364}}},  /* procedure, a view's tables, column without a default */
    {DT_SCHEMA, {{1932}}},              /* table, in the engine */
    /* access denied, password expired, account locked: an error of connecting, so it can be repaired without a
     * restart */
    {DT_UNAVAILABLE, {{1044, 1045, 1130, 1251, 1524, 1698, 1820, 1862, 3118, 3159, 4151}}},
    /* server out of disk, memory or threads */
    {DT_UNAVAILABLE, {{3, 1016, 1017, 1021, 1023, 1024, 1026, 1030, 1037, 1038, 1041, 1114, 1135}}},
    {DT_UNAVAILABLE, {{1153, 2020}}},             /* a statement that is larger than max_allowed_packet */
    {DT_UNAVAILABLE, {{1036, 1874, 1881}}},       /* table or engine is read-only */
    {DT_UNAVAILABLE, {{1047, 1194, 1195}}},       /* the node is not ready; table has crashed */
    {DT_UNAVAILABLE, {{1180, 1197, 1598, 3100}}}, /* error during COMMIT, binary log not possible */
    {DT_UNAVAILABLE, {{1223, 1812, 1814}}},       /* locked for reading; tablespace is missing */
    {DT_UNAVAILABLE, {{1203, 1226, 1461}}},       /* too many connections or statements of this user */
    {DT_FORBIDDEN, {{1142, 1143, 1227}}},         /* not permitted */
    {DT_FORBIDDEN, {{1370, 1419, 1449}}},         /* like the row above; 1419: a trigger, while there is a binary log */
    {DT_NOMEM, {{2008}}},
};

/* The client library: out of memory, packet too large (nothing was sent), parameters not bound, invalid parameter
 * number, unsupported buffer type. */
static const struct numbers keep_connection = {{2008, 2020, 2031, 2034, 2036}};
/* Too many connections, server shutdown, host blocked, aborted connection, packet too large (the server closes),
 * network errors on the server's side, killed (MariaDB, MySQL), idle for too long (MySQL). */
static const struct numbers lose_connection = {
    {1040, 1053, 1129, 1152, 1153, 1158, 1159, 1160, 1161, 1927, 3169, 4031}};
/* A read-only server or transaction: the server is a replica now, so the caller must find the primary again. */
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
    /* After 1153 (a packet that is too large), and on a read-only server, losing the connection is expected and
     * repairs it. */
    return number == 1153 || has_number(&read_only, number) || !dt_db_error_loses_connection(number);
}
