/* See db_error.h. By number, not by the names of a vendor's header: both servers' numbers stand here at once. */
#include "store/db_error.h"

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
    case 1792: /* read-only server or transaction: it is a replica now, look for the primary anew */
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
    case 1317: /* query killed */
    case 3024: /* statement timeout */
    case 1969:
    case 3572: /* NOWAIT */
        return DT_BUSY;
    case 1062:
    case 1586:
        return DT_EXISTS;
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
    case 2020:
        return DT_TOO_LARGE;
    case 1049: /* database */
    case 1054: /* column */
    case 1146: /* table */
    case 1305: /* procedure */
        return DT_SCHEMA;
    case 1044:
    case 1045:
    case 1698: /* access denied: at connecting, so that it may be mended there without a restart here */
    case 3:
    case 1021:
    case 1026:
    case 1030:
    case 1037:
    case 1038:
    case 1041:
    case 1114: /* server out of disk or memory */
    case 1180:
    case 1598: /* error during COMMIT, binary log not possible */
    case 1203:
    case 1226: /* too many connections of this user */
        return DT_UNAVAILABLE;
    case 1142:
    case 1143:
    case 1227:
    case 1370: /* not permitted */
        return DT_DENIED;
    case 2008:
        return DT_NOMEM;
    default:
        return dt_db_error_loses_connection(number) ? DT_UNAVAILABLE : DT_INTERNAL;
    }
}
