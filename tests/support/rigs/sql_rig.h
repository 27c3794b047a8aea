/* Rows that are edited by hand in a database of the suite's own. */
#pragma once

#include "support/store_suite.h"

static char cell[4000];

#define assert_sql(expected, ...) assert_string_equal(sql_text(cell, sizeof cell, __VA_ARGS__), expected)

/* What the mysql client, where operators type, shows of the first two columns: "a|b\nc|d\n". */
static inline const char *answer(const char *sql)
{
    char command[1000], row[1000];
    size_t at = 0;
    const struct dt_config *c = &mysql_fixture.config;
    char where[300];
    if (c->mysql_socket && *c->mysql_socket)
        snprintf(where, sizeof where, "--socket='%s'", c->mysql_socket);
    else
        snprintf(where, sizeof where, "--protocol=tcp -h '%s' -P %lld", c->mysql_host, (long long)c->mysql_port);
    setenv("MYSQL_PWD", c->mysql_password ? c->mysql_password : "", 1);
    int n = snprintf(command, sizeof command,
                     "$(command -v mariadb || echo mysql) --no-defaults -N -B %s -u '%s' '%s' -e \"%s\"", where,
                     c->mysql_user, mysql_fixture.database, sql);
    assert_in_range(n, 1, sizeof command - 1);
    FILE *client = popen(command, "r");
    assert_non_null(client);
    while (fgets(row, sizeof row, client)) {
        char *tab = strchr(row, '\t');
        char *end = tab ? strpbrk(tab + 1, "\t\n") : NULL;
        if (end)
            at += (size_t)snprintf(cell + at, sizeof cell - at, "%.*s|%.*s\n", (int)(tab - row), row,
                                   (int)(end - tab - 1), tab + 1);
        assert_true(at < sizeof cell);
    }
    cell[at] = '\0';
    assert_int_equal(pclose(client), 0);
    return cell;
}

static inline dt_status by_hand(const char *sql)
{
    return dt_db_script(mysql_fixture.db, dt_str(sql), &err);
}

static inline void process_leads(const char *name, unsigned shard)
{
    run_sql(
        "REPLACE INTO processes (id, kind, name, started_at, seen_at, leads) VALUES (1, 'dispatcher', '%s', 1, " SQL_NOW
        " + 60000, '%u')",
        name, shard);
}
