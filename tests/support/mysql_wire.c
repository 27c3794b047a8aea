#include "support/mysql_wire.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "support/suite.h"

_Atomic enum wire_loss wire_loss, wire_execution_loss;
_Atomic int wire_statements;
static void *_Atomic lost;           /* the connection that a COMMIT was lost on */
static void *_Atomic held;           /* a connection that may not be closed yet */
static char held_sql[4096];          /* what it was to do */
static void *_Atomic lost_execution; /* the statement whose answer was lost */

int mysql_real_query(void *mysql, const char *sql, unsigned long n);
unsigned mysql_errno(void *mysql);
void mysql_close(void *mysql);
signed char mysql_more_results(void *mysql);
int mysql_next_result(void *mysql);
int mysql_stmt_execute(void *stmt);
unsigned mysql_stmt_errno(void *stmt);

/* POSIX allows what ISO C has no syntax for: an object pointer that is a function. */
#define REAL(type, name)                                                                                               \
    type name;                                                                                                         \
    do {                                                                                                               \
        void *at_ = dlsym(RTLD_NEXT, &#name[5]);                                                                       \
        memcpy(&name, &at_, sizeof name);                                                                              \
    } while (0)

typedef int query_fn(void *, const char *, unsigned long);
typedef unsigned errno_fn(void *);
typedef void close_fn(void *);
typedef int execute_fn(void *);

/* And hears the end of it: the last one of several statements is done. */
static int run_all(void *mysql, const char *sql, unsigned long n)
{
    REAL(query_fn *, real_mysql_real_query);
    int failed = real_mysql_real_query(mysql, sql, n);
    while (!failed && mysql_more_results(mysql))
        failed = mysql_next_result(mysql);
    return failed;
}

int mysql_real_query(void *mysql, const char *sql, unsigned long n)
{
    REAL(query_fn *, real_mysql_real_query);
    wire_statements++;
    bool commits = n >= 6 && memcmp(sql + n - 6, "COMMIT", 6) == 0; /* alone, or behind a statement */
    enum wire_loss how = commits ? atomic_exchange(&wire_loss, LOSE_NOTHING) : LOSE_NOTHING;
    if (how == LOSE_NOTHING)
        return real_mysql_real_query(mysql, sql, n);
    if (how == LOSE_AFTER)
        assert_int_equal(run_all(mysql, sql, n), 0);
    if (how == HOLD) {
        assert_in_range(n, 1, sizeof held_sql - 1);
        snprintf(held_sql, sizeof held_sql, "%.*s", (int)n, sql);
        held = mysql;
    }
    lost = mysql;
    return 1;
}

unsigned mysql_errno(void *mysql)
{
    REAL(errno_fn *, real_mysql_errno);
    return mysql == lost ? 2013 : real_mysql_errno(mysql);
}

void mysql_close(void *mysql)
{
    REAL(close_fn *, real_mysql_close);
    if (mysql != held)
        real_mysql_close(mysql);
    if (mysql == lost)
        lost = NULL;
}

int mysql_stmt_execute(void *stmt)
{
    REAL(execute_fn *, real_mysql_stmt_execute);
    wire_statements++;
    enum wire_loss how = atomic_exchange(&wire_execution_loss, LOSE_NOTHING);
    lost_execution = how == LOSE_NOTHING ? NULL : stmt;
    if (how == LOSE_AFTER)
        assert_int_equal(real_mysql_stmt_execute(stmt), 0);
    return how == LOSE_NOTHING ? real_mysql_stmt_execute(stmt) : 1;
}

unsigned mysql_stmt_errno(void *stmt)
{
    REAL(errno_fn *, real_mysql_stmt_errno);
    return stmt == lost_execution ? 2013 : real_mysql_stmt_errno(stmt);
}

void wire_commit_held(void)
{
    REAL(close_fn *, real_mysql_close);
    assert_int_equal(run_all(held, held_sql, strlen(held_sql)), 0);
    real_mysql_close(held);
    held = NULL;
}

void wire_drop_held(void)
{
    REAL(close_fn *, real_mysql_close);
    real_mysql_close(held);
    held = NULL;
}

void wire_heal(void)
{
    wire_loss = wire_execution_loss = LOSE_NOTHING;
    lost_execution = NULL;
}

bool wire_holds(void)
{
    return held != NULL;
}
