/*
 * The bare UPDATE … IN (500) that applying results is measured against: rows that the loader made are finished as a
 * success finishes them, 500 a statement and a commit, each thread on a connection of its own. The ids are read first.
 *
 *   updater SOCKET USER PASSWORD DATABASE THREADS ROWS    prints rows a second
 */
#include <mysql.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bare.h"

#define BATCH 500

struct updater {
    char **argv;
    int number;
    long rows;
    int64_t *ids;
    MYSQL *db;
};

/* The newest rows of the loader's thread with the same number. */
static void read_ids(struct updater *u)
{
    char sql[400];
    u->db = mysql_init(NULL);
    if (!mysql_real_connect(u->db, NULL, u->argv[2], u->argv[3], u->argv[4], 0, u->argv[1], 0))
        die("connect", mysql_error(u->db));
    int64_t day = (int64_t)time(NULL) / 86400 - 20089, first = (day << 40) + ((int64_t)(4 + u->number) << 37);
    snprintf(
        sql, sizeof sql,
        "SELECT id FROM jobs FORCE INDEX (PRIMARY) WHERE id >= %lld AND id < %lld AND state = 'scheduled' ORDER BY id "
        "DESC LIMIT %ld",
        (long long)first, (long long)(first + (1LL << 37)), u->rows);
    if (mysql_query(u->db, sql))
        die("select", mysql_error(u->db));
    MYSQL_RES *found = mysql_store_result(u->db);
    u->rows = (long)mysql_num_rows(found) / BATCH * BATCH;
    u->ids = calloc((size_t)u->rows + 1, sizeof *u->ids);
    for (long i = u->rows - 1; i >= 0; i--) /* ascending, as rows lie */
        u->ids[i] = atoll(mysql_fetch_row(found)[0]);
    mysql_free_result(found);
}

static void *update(void *arg)
{
    struct updater *u = arg;
    static _Thread_local char sql[BATCH * 24 + 500];
    long long ms = (long long)time(NULL) * 1000;
    for (long first = 0; first < u->rows; first += BATCH) {
        int n =
            snprintf(sql, sizeof sql,
                     "UPDATE jobs SET state = 'succeeded', attempt_status = 'succeeded', next_at = NULL, finished_at = "
                     "%lld, purge_at = %lld, leave_at = %lld, updated_at = %lld, version = version + 1 WHERE id IN (",
                     ms, ms + 2592000000LL, ms + 600000, ms);
        for (int i = 0; i < BATCH; i++)
            n += snprintf(sql + n, sizeof sql - (size_t)n, "%s%lld", i ? "," : "", (long long)u->ids[first + i]);
        n += snprintf(sql + n, sizeof sql - (size_t)n, ")");
        if (mysql_real_query(u->db, sql, (unsigned long)n))
            die("update", mysql_error(u->db));
        if (mysql_affected_rows(u->db) != BATCH)
            die("update", "rows are missing");
    }
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t threads[8];
    struct updater updaters[8];
    int n = argc == 7 ? atoi(argv[5]) : 0;
    long rows = 0;
    if (n < 1 || n > 4)
        die("usage", "updater SOCKET USER PASSWORD DATABASE THREADS ROWS");
    mysql_library_init(0, NULL, NULL);
    for (int i = 0; i < n; i++) {
        updaters[i] = (struct updater){.argv = argv, .number = i, .rows = atol(argv[6]) / n};
        read_ids(&updaters[i]);
        rows += updaters[i].rows;
    }
    if (rows == 0)
        die("rows", "the loader made none");
    double start = now();
    for (int i = 0; i < n; i++)
        pthread_create(&threads[i], NULL, update, &updaters[i]);
    for (int i = 0; i < n; i++)
        pthread_join(threads[i], NULL);
    printf("%.0f %ld\n", (double)rows / (now() - start), rows);
    return 0;
}
