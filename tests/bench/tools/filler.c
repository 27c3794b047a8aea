/*
 * Fills `jobs` with pending jobs spread evenly over many days, in the order of their days, as a loader may:
 * array-bound, 1,000 rows a commit, every second day by another connection, past the binlog. MariaDB only.
 *
 * What was committed is found again by the ids, which are a function of (day, number within the day), so a run that was
 * interrupted goes on where it was: call it with the same words.
 *
 *   filler SOCKET USER PASSWORD DATABASE JOBS FIRST-DAY DAYS NEAR-DAY    days since 2025-01-01; near: up to NEAR-DAY
 *   -> {"had":n,"made":n,"seconds":s}; a line of progress every five seconds on the standard error
 */
#include <mysql.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "bare.h"

#define ROWS     1000
#define PAYLOAD  200
#define THREADS  2
#define DAY_MS   86400000LL
#define DAY_0    20089LL
#define FIRST_NO (6LL << 37) /* sequence numbers that neither the product nor another loader gives out */

static char **words;
static int64_t jobs, first_day, days, near_day;
static _Atomic long had, made, ended;

struct batch {
    unsigned n;
    int64_t id[ROWS], run_at[ROWS], next_at[ROWS], near[ROWS], at[ROWS], at_too[ROWS];
    char *payload[ROWS];
    unsigned long length[ROWS];
};

static const char insert[] =
    "INSERT INTO jobs (id, run_at, next_at, near, created_at, updated_at, payload, topic, state, retry, "
    "ack_timeout_ms, "
    "maker, digest) VALUES (?, ?, ?, ?, ?, ?, ?, 'filled', 'scheduled', '15s 3m 10m', 300000, 1, 'dddddddddddddddd')";

static void commit(MYSQL *db, MYSQL_STMT *stmt, struct batch *b)
{
    if (b->n == 0)
        return;
    int64_t *const numbers[] = {b->id, b->run_at, b->next_at, b->near, b->at, b->at_too};
    MYSQL_BIND binds[7] = {0};
    for (int i = 0; i < 6; i++) {
        binds[i].buffer_type = MYSQL_TYPE_LONGLONG;
        binds[i].buffer = numbers[i];
    }
    binds[6].buffer_type = MYSQL_TYPE_BLOB;
    binds[6].buffer = b->payload;
    binds[6].length = b->length;
    mysql_stmt_attr_set(stmt, STMT_ATTR_ARRAY_SIZE, &b->n);
    if (mysql_stmt_bind_param(stmt, binds))
        die("bind", mysql_stmt_error(stmt));
    if (mysql_stmt_execute(stmt))
        die("insert", mysql_stmt_error(stmt));
    if (mysql_commit(db))
        die("commit", mysql_error(db));
    atomic_fetch_add(&made, (long)b->n);
    b->n = 0;
}

/* How many jobs of the day are there. */
static int64_t done_of(MYSQL *db, int64_t day)
{
    char sql[200];
    long long from = (day << 40) + FIRST_NO;
    snprintf(sql, sizeof sql, "SELECT COALESCE(MAX(id) - %lld + 1, 0) FROM jobs WHERE id >= %lld AND id < %lld", from,
             from, from + (1LL << 37));
    if (mysql_query(db, sql))
        die("select", mysql_error(db));
    MYSQL_RES *found = mysql_store_result(db);
    int64_t n = atoll(mysql_fetch_row(found)[0]);
    mysql_free_result(found);
    return n;
}

static void fill_day(MYSQL *db, MYSQL_STMT *stmt, struct batch *b, int64_t day)
{
    int64_t of_day = jobs * (day - first_day + 1) / days - jobs * (day - first_day) / days, number = done_of(db, day);
    atomic_fetch_add(&had, (long)number);
    for (; number < of_day; number++) {
        const int64_t at_ms = (int64_t)time(NULL) * 1000;
        unsigned i = b->n++;
        b->id[i] = (day << 40) + FIRST_NO + number;
        b->run_at[i] = b->next_at[i] = (day + DAY_0) * DAY_MS + number * DAY_MS / of_day;
        b->near[i] = day <= near_day;
        b->at[i] = b->at_too[i] = at_ms;
        if (b->n == ROWS)
            commit(db, stmt, b);
    }
}

static void *fill(void *arg)
{
    static char payload[PAYLOAD];
    static struct batch batches[THREADS];
    int64_t number = (int64_t)(intptr_t)arg;
    struct batch *b = &batches[number];
    MYSQL *db = mysql_init(NULL);
    if (!mysql_real_connect(db, NULL, words[2], words[3], words[4], 0, words[1], 0))
        die("connect", mysql_error(db));
    if (mysql_query(db, "SET SESSION sql_log_bin = 0, unique_checks = 0") || mysql_autocommit(db, 0))
        die("session", mysql_error(db));
    MYSQL_STMT *stmt = mysql_stmt_init(db);
    for (int i = 0; i < ROWS; i++) {
        b->payload[i] = payload;
        b->length[i] = PAYLOAD;
    }
    if (mysql_stmt_prepare(stmt, insert, sizeof insert - 1))
        die("prepare", mysql_stmt_error(stmt));
    for (int64_t day = first_day + number; day < first_day + days; day += THREADS)
        fill_day(db, stmt, b, day);
    commit(db, stmt, b);
    mysql_stmt_close(stmt);
    mysql_close(db);
    atomic_fetch_add(&ended, 1);
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t threads[THREADS];
    if (argc != 9)
        die("usage", "filler SOCKET USER PASSWORD DATABASE JOBS FIRST-DAY DAYS NEAR-DAY");
    words = argv;
    jobs = atoll(argv[5]);
    first_day = atoll(argv[6]);
    days = atoll(argv[7]);
    near_day = atoll(argv[8]);
    double start = now(), told = start;
    mysql_library_init(0, NULL, NULL);
    for (intptr_t i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, fill, (void *)i);
    while (atomic_load(&ended) < THREADS) {
        usleep(20000);
        if (now() - told >= 5) {
            told = now();
            fprintf(stderr, "  %ld of %lld jobs, %.0f/s\n", atomic_load(&had) + atomic_load(&made), (long long)jobs,
                    (double)atomic_load(&made) / (told - start));
        }
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    printf("{\"had\":%ld,\"made\":%ld,\"seconds\":%.3f}\n", had, made, now() - start);
    return 0;
}
