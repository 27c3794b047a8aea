/*
 * The bare bulk loader that intake is measured against: array-bound inserts of rows like ours into the same table,
 * 1,000 a commit, each thread on a connection of its own, and nothing else: no HTTP, no JSON, no keys. MariaDB only.
 *
 *   loader SOCKET USER PASSWORD DATABASE THREADS SECONDS    prints rows a second
 */
#include <mysql.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bare.h"

#define ROWS    1000
#define PAYLOAD 200

struct loader {
    char **argv;
    int number;
    double seconds;
    long rows;
};

static const char insert[] =
    "INSERT INTO jobs (id, topic, state, run_at, next_at, near, retry, ack_timeout_ms, created_at, updated_at, maker, "
    "digest,"
    " payload) VALUES (?, 'bare', 'scheduled', ?, ?, 1, '15s 3m 10m', 300000, ?, ?, 1, 'dddddddddddddddd', ?)";

static void *load(void *arg)
{
    struct loader *l = arg;
    MYSQL *db = mysql_init(NULL);
    if (!mysql_real_connect(db, NULL, l->argv[2], l->argv[3], l->argv[4], 0, l->argv[1], 0))
        die("connect", mysql_error(db));
    mysql_autocommit(db, 0);
    MYSQL_STMT *stmt = mysql_stmt_init(db);
    static int64_t ids[8][ROWS], times[8][ROWS];
    static char *texts[8][ROWS];
    static unsigned long lengths[8][ROWS];
    static char payload[PAYLOAD];
    int64_t *id = ids[l->number], *at = times[l->number], due = ((int64_t)time(NULL) + 3 * 3600) * 1000;
    memset(payload, 0x78, sizeof payload);
    MYSQL_BIND bind[6] = {0};
    for (int i = 0; i < 5; i++) {
        bind[i].buffer_type = MYSQL_TYPE_LONGLONG;
        bind[i].buffer = i == 0 ? id : at;
    }
    for (int i = 0; i < ROWS; i++) {
        texts[l->number][i] = payload;
        lengths[l->number][i] = PAYLOAD;
        at[i] = due;
    }
    bind[5].buffer_type = MYSQL_TYPE_BLOB;
    bind[5].buffer = texts[l->number];
    bind[5].length = lengths[l->number];
    unsigned rows = ROWS;
    mysql_stmt_attr_set(stmt, STMT_ATTR_ARRAY_SIZE, &rows);
    if (mysql_stmt_prepare(stmt, insert, sizeof insert - 1))
        die("prepare", mysql_stmt_error(stmt));
    /* Sequence numbers that neither the product nor an earlier run gives out: at most a million a second. */
    int64_t day = (int64_t)time(NULL) / 86400 - 20089;
    int64_t next = (day << 40) + ((int64_t)(4 + l->number) << 37) + (int64_t)(time(NULL) % 100000) * 1000000;
    for (double end = now() + l->seconds; now() < end; l->rows += ROWS) {
        for (int i = 0; i < ROWS; i++)
            id[i] = next++;
        mysql_stmt_bind_param(stmt, bind);
        if (mysql_stmt_execute(stmt))
            die("insert", mysql_stmt_error(stmt));
        if (mysql_commit(db))
            die("commit", mysql_error(db));
    }
    mysql_stmt_close(stmt);
    mysql_close(db);
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t threads[8];
    struct loader loaders[8];
    int n = argc == 7 ? atoi(argv[5]) : 0;
    if (n < 1 || n > 4)
        die("usage", "loader SOCKET USER PASSWORD DATABASE THREADS SECONDS");
    double start = now();
    long rows = 0;
    mysql_library_init(0, NULL, NULL);
    for (int i = 0; i < n; i++) {
        loaders[i] = (struct loader){argv, i, atof(argv[6]), 0};
        pthread_create(&threads[i], NULL, load, &loaders[i]);
    }
    for (int i = 0; i < n; i++) {
        pthread_join(threads[i], NULL);
        rows += loaders[i].rows;
    }
    printf("%.0f\n", (double)rows / (now() - start));
    return 0;
}
