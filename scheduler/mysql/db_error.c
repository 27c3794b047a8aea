/* See db_mysql.h. Numbers, not names, because no vendor's header has the numbers of both servers. */
#include "db_mysql.h"

bool dt_db_error_loses_connection(unsigned number)
{
    switch (number) {
    case 2008: /* client: out of memory */
    case 2020: /* client: packet too large, nothing was sent */
    case 2031: /* client: parameters not bound */
    case 2034: /* client: invalid parameter number */
    case 2036: /* client: unsupported buffer type */
        return false;
    case 1040: /* too many connections */
    case 1053: /* server shutdown */
    case 1129: /* host blocked */
    case 1152: /* aborted connection */
    case 1153: /* packet too large: the server closes */
    case 1158:
    case 1159:
    case 1160:
    case 1161: /* network errors seen by the server */
    case 1290:
    case 1836:
    case 1792: /* read-only server or transaction: it is a replica now, so look for the primary again */
    case 1927: /* connection killed, MariaDB */
    case 3169: /* session killed, MySQL */
    case 4031: /* idle for too long, MySQL */
        return true;
    default:
        return number >= 2000 && number < 3000;
    }
}

dt_status dt_db_error_status(unsigned number)
{
    switch (number) {
    case 1205: /* lock wait timeout */
    case 1213: /* deadlock */
    case 1020: /* record changed since last read */
    case 1206: /* lock table full */
    case 1317: /* query killed */
    case 1637: /* too many transactions */
    case 3024: /* statement timeout */
    case 3101: /* rolled back by group replication */
    case 1969:
    case 3572: /* NOWAIT */
        return DT_BUSY;
    case 1060: /* column, in DDL */
    case 1061: /* index, likewise */
    case 1304: /* procedure, likewise */
    case 1826:
    case 3822: /* constraint, likewise: MariaDB, MySQL */
    case 1062:
    case 1586: /* row of a key */
        return DT_EXISTS;
    case 1091:
    case 3940: /* constraint that a DDL drops: MariaDB, MySQL */
        return DT_NOT_FOUND;
    case 1048: /* NULL into NOT NULL */
    case 1264: /* out of range */
    case 1265: /* truncated */
    case 1292:
    case 1366: /* wrong value */
    case 1406: /* too long */
    case 3819:
    case 4025: /* CHECK */
        return DT_INVALID;
    case 1153:
    case 2020: /* a statement that is larger than max_allowed_packet */
        return DT_UNAVAILABLE;
    case 1049: /* database */
    case 1051:
    case 1109: /* table, in a statement */
    case 1054: /* column */
    case 1136: /* number of columns */
    case 1146: /* table */
    case 1305: /* procedure */
    case 1356: /* a view's tables */
    case 1364: /* column without a default */
    case 1932: /* table, in the engine */
        return DT_SCHEMA;
    case 1044:
    case 1045:
    case 1130:
    case 1251:
    case 1524:
    case 1698:
    case 1820:
    case 1862:
    case 3118:
    case 3159:
    /* access denied, password expired, account locked: when connecting, so it can be repaired without a restart */
    case 4151:
    case 3:
    case 1016:
    case 1017:
    case 1021:
    case 1023:
    case 1024:
    case 1026:
    case 1030:
    case 1037:
    case 1038:
    case 1041:
    case 1114:
    case 1135: /* server out of disk, memory or threads */
    case 1036:
    case 1874:
    case 1881: /* table or engine is read-only */
    case 1047: /* the node is not ready */
    case 1194:
    case 1195: /* table has crashed */
    case 1180:
    case 1197:
    case 1598:
    case 3100: /* error during COMMIT, binary log not possible */
    case 1223: /* locked for reading */
    case 1812:
    case 1814: /* tablespace is missing */
    case 1203:
    case 1226:
    case 1461: /* too many connections or statements of this user */
        return DT_UNAVAILABLE;
    case 1142:
    case 1143:
    case 1227:
    case 1370:
    case 1419: /* a trigger, while there is a binary log */
    case 1449: /* not permitted */
        return DT_FORBIDDEN;
    case 2008:
        return DT_NOMEM;
    default:
        return dt_db_error_loses_connection(number) ? DT_UNAVAILABLE : DT_INTERNAL;
    }
}

bool dt_db_error_needs_an_operator(unsigned number)
{
    switch (dt_db_error_status(number)) {
    case DT_FORBIDDEN:
    case DT_SCHEMA:
    case DT_INTERNAL:
        return true;
    case DT_UNAVAILABLE:
        break;
    default:
        return false;
    }
    switch (number) {
    case 1047:
    case 1135:
    case 1203:
    case 1223:
    case 1226: /* temporary */
        return false;
    case 1153: /* packet too large */
    case 1290:
    case 1792:
    case 1836: /* read-only: the connection is lost by our own choice */
        return true;
    default:
        return !dt_db_error_loses_connection(number);
    }
}
