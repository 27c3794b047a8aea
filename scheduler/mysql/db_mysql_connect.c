/*
 * Chooses the server to connect to, TLS or not, and the account.
 *
 * Of several servers, the writable one is used. Each server is asked for @@read_only, which MySQL also sets with
 * super_read_only. A server with read_only counts as read-only even if our account may write there. If two servers are
 * writable, the first is used: the failover tool that promotes a new primary must make the old one read-only.
 */
#include "db_mysql.h"

#include <stdatomic.h>

#include <mysql.h>

#include "base/addresses.h"
#include "base/secrets.h"
#include "base/tls.h"

#ifdef MARIADB_PACKAGE_VERSION
typedef my_bool sql_bool;
#else
typedef bool sql_bool;
#endif

/* The index in mysql.hosts of the writable server that was found last. New connections try it first. */
static _Atomic unsigned favourite;

bool dt_mysql_may_move(const struct dt_config *config)
{
    return config->mysql_hosts && config->mysql_hosts[0];
}

/* ---- options ---- */

static const char *or_null(const char *text)
{
    return text[0] ? text : NULL;
}

/* Over a Unix socket TLS does not check a name, because a process that can listen there controls the machine anyway. */
static void set_options(MYSQL *mysql, const struct dt_config *config, const struct dt_tls *tls, bool local)
{
    unsigned connect = dt_seconds_up(config->mysql_connect_timeout);
    unsigned io = dt_seconds_up(config->mysql_io_timeout);
    mysql_options(mysql, MYSQL_OPT_CONNECT_TIMEOUT, &connect);
    mysql_options(mysql, MYSQL_OPT_READ_TIMEOUT, &io);
    mysql_options(mysql, MYSQL_OPT_WRITE_TIMEOUT, &io);
    mysql_options(mysql, MYSQL_SET_CHARSET_NAME, "utf8mb4");
#ifdef MARIADB_PACKAGE_VERSION
    sql_bool off = 0;
    sql_bool on = tls->mode != DT_TLS_OFF;
    sql_bool verify = tls->mode == DT_TLS_VERIFY && !local;
    mysql_options(mysql, MYSQL_OPT_RECONNECT, &off);
    mysql_options(mysql, MYSQL_OPT_SSL_ENFORCE, &on);
    mysql_options(mysql, MYSQL_OPT_SSL_VERIFY_SERVER_CERT, &verify);
#else
    unsigned mode = tls->mode == DT_TLS_OFF                ? SSL_MODE_PREFERRED
                    : tls->mode == DT_TLS_VERIFY && !local ? SSL_MODE_VERIFY_IDENTITY
                                                           : SSL_MODE_REQUIRED;
    sql_bool ask_for_key = tls->mode == DT_TLS_OFF;
    mysql_options(mysql, MYSQL_OPT_SSL_MODE, &mode);
    mysql_options(mysql, MYSQL_OPT_GET_SERVER_PUBLIC_KEY, &ask_for_key);
#endif
    if (tls->mode != DT_TLS_OFF) {
        mysql_options(mysql, MYSQL_OPT_SSL_CA, or_null(tls->ca_file));
        mysql_options(mysql, MYSQL_OPT_SSL_CERT, or_null(tls->cert_file));
        mysql_options(mysql, MYSQL_OPT_SSL_KEY, or_null(tls->key_file));
    }
}

/* ---- one server ---- */

struct target {
    const char *host, *socket; /* socket: path of a Unix socket; NULL: TCP */
    int port;
};

static dt_status fail_connect(MYSQL *mysql, const struct target *target, struct dt_error *err)
{
    unsigned number = mysql_errno(mysql);
    const char *text = mysql_error(mysql);
    dt_status status = dt_db_error_status(number);
    if (status == DT_INTERNAL)
        status = DT_UNAVAILABLE;
    (void)dt_fail(err, status, "MySQL %u: %s (connect to %.60s:%d)", number, text, target->host, target->port);
    /* If TLS failed because of a certificate, it will fail again. Other failures may happen while a server stops. */
    if (err)
        err->alarm = dt_db_error_needs_an_operator(number) || (number == 2026 && strcasestr(text, "certificate"));
    return status;
}

static dt_status connect_to(const struct dt_config *config, const struct target *target, MYSQL **out,
                            struct dt_error *err)
{
    struct dt_strbuf password = {0};
    struct dt_tls tls = dt_tls_of_mysql(config);
    MYSQL *mysql = mysql_init(NULL);
    *out = NULL;
    if (!mysql)
        return dt_fail(err, DT_NOMEM, "out of memory");
    dt_status status = dt_secret_now(config, &config->mysql_password, &password);
    if (status != DT_OK) {
        mysql_close(mysql);
        return dt_fail(err, status, "out of memory");
    }
    set_options(mysql, config, &tls, target->socket);
    if (mysql_real_connect(mysql, target->host, config->mysql_user, password.p, config->mysql_database,
                           (unsigned)target->port, target->socket, CLIENT_MULTI_STATEMENTS | CLIENT_MULTI_RESULTS))
        *out = mysql;
    else
        status = fail_connect(mysql, target, err);
    dt_secret_forget(&password);
    if (status != DT_OK)
        mysql_close(mysql);
    return status;
}

/* ---- several servers ---- */

unsigned dt_mysql_read_only(MYSQL *mysql, bool *read_only)
{
    /* The query accepts both forms of the variable: MySQL returns 0 or 1, newer MariaDB versions return a word. */
    static const char ask[] = "SELECT @@global.read_only NOT IN ('OFF', '0')";
    MYSQL_RES *result = mysql_real_query(mysql, ask, sizeof(ask) - 1) ? NULL : mysql_store_result(mysql);
    if (!result)
        return mysql_errno(mysql) ? mysql_errno(mysql) : 2027;
    MYSQL_ROW row = mysql_fetch_row(result);
    *read_only = !row || !row[0] || strcmp(row[0], "0") != 0;
    mysql_free_result(result);
    return 0;
}

/* Parses host number n of the list. Returns false if the list is shorter. */
static bool parse_nth_host(const char *hosts, unsigned n, struct dt_host *out)
{
    struct dt_str rest = dt_str(hosts);
    for (unsigned i = 0; rest.n; i++) {
        struct dt_str element = dt_str_next_element(&rest);
        if (i == n)
            return dt_host_parse(element, DT_MYSQL_PORT, out);
    }
    return false;
}

/* Connects to the first writable server. err has the errors of all servers, and `alarm` if one of these errors is an
 * alarm. */
static dt_status connect_to_any(const struct dt_config *config, MYSQL **out, struct dt_error *err)
{
    unsigned n = 0;
    struct dt_error all = {.status = DT_UNAVAILABLE};
    struct dt_host host;
    while (parse_nth_host(config->mysql_hosts, n, &host))
        n++;
    const unsigned first = n ? atomic_load(&favourite) % n : 0;
    *out = NULL;
    for (unsigned i = 0; i < n; i++) {
        struct dt_error one = {0};
        const unsigned at = (first + i) % n;
        bool read_only = true;
        if (!parse_nth_host(config->mysql_hosts, at, &host))
            break;
        const struct target target = {host.name, NULL, host.port};
        dt_status status = connect_to(config, &target, out, &one);
        if (status == DT_OK && dt_mysql_read_only(*out, &read_only))
            status = fail_connect(*out, &target, &one);
        else if (status == DT_OK && read_only)
            status = dt_fail(&one, DT_UNAVAILABLE, "%.60s:%d is read-only", target.host, target.port);
        if (status == DT_OK) {
            atomic_store(&favourite, at);
            return DT_OK;
        }
        if (*out)
            mysql_close(*out);
        *out = NULL;
        const size_t length = strlen(all.text);
        snprintf(all.text + length, sizeof(all.text) - length, "%s%s",
                 length ? "; " : "no writable MySQL server: ", one.text);
        all.alarm |= one.alarm;
        if (all.status == DT_UNAVAILABLE)
            all.status = one.status;
    }
    if (err)
        *err = all;
    return all.status;
}

dt_status dt_mysql_connect(const struct dt_config *config, MYSQL **out, struct dt_error *err)
{
    bool local = config->mysql_socket && config->mysql_socket[0];
    if (dt_mysql_may_move(config))
        return connect_to_any(config, out, err);
    return connect_to(config,
                      &(struct target){local ? "localhost" : config->mysql_host, local ? config->mysql_socket : NULL,
                                       local ? 0 : (int)config->mysql_port},
                      out, err);
}
