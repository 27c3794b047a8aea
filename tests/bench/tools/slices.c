/*
 * What the index costs in Redis beside plain sorted sets, on one private server, which is emptied before each of:
 *
 *   slices ENDPOINT plain36|plain8|ours|filled COUNT SHARDS
 *
 * plain36, plain8: one sorted set, members of so many bytes, added by ZADD of 1,000, taken by ZPOPMIN 500. ours:
 * through the product's port, entries in no order, 4,096 a call as the API does it; taken as a leader does it, 500 due
 * entries and their removal. filled: in order, as after a loss. Due times are spread over an hour. Prints
 * "bytes-an-entry adds/s takes/s".
 *
 *   slices stream SOCKET USER PASSWORD DATABASE FROM_MS TO_MS
 *
 * The bare stream of (id, time) over the due index: prints "rows seconds".
 */
#include <hiredis/hiredis.h>
#include <mysql.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/config.h"
#include "index/index.h"
#include "job/job.h"

#include "bare.h"

#define HOUR_MS INT64_C(3600000)
#define AT_ONCE 500

static int64_t noon_ms;

/* Scattered, each once: COUNT and the factor have no common divisor. */
static int64_t due_of(int64_t i, int64_t count)
{
    return noon_ms + (int64_t)((double)(i * INT64_C(7368787) % count) / (double)count * (double)HOUR_MS);
}

/* ---- by hand ---- */

static redisContext *server;

static redisReply *answer(void)
{
    void *reply = NULL;
    if (redisGetReply(server, &reply) != REDIS_OK)
        die("redis", server->errstr);
    if (((redisReply *)reply)->type == REDIS_REPLY_ERROR)
        die("redis", ((redisReply *)reply)->str);
    return reply;
}

static long long used_memory(void)
{
    redisAppendCommand(server, "INFO memory");
    redisReply *reply = answer();
    long long used = strtoll(strstr(reply->str, "used_memory:") + 12, NULL, 10);
    freeReplyObject(reply);
    return used;
}

static void zadd(int64_t from, int64_t n, int64_t count, size_t bytes)
{
    static char members[1000][48], scores[1000][24];
    const char *argv[2002] = {"ZADD", "plain"};
    size_t lengths[2002] = {4, 5};
    for (int64_t i = 0; i < n; i++) {
        int64_t id = dt_job_id(noon_ms, from + i + 1);
        if (bytes == 8)
            memcpy(members[i], &id, 8);
        else
            snprintf(members[i], sizeof(members[i]), "%08llx-0000-4000-8000-%012llx",
                     (long long)((from + i) & 0xffffff), (long long)(from + i));
        snprintf(scores[i], sizeof(scores[i]), "%lld", (long long)due_of(from + i, count));
        argv[2 + 2 * i] = scores[i];
        lengths[2 + 2 * i] = strlen(scores[i]);
        argv[3 + 2 * i] = members[i];
        lengths[3 + 2 * i] = bytes;
    }
    redisAppendCommandArgv(server, (int)(2 + 2 * n), argv, lengths);
}

static void plain(int64_t count, size_t bytes)
{
    long long before = used_memory(), full;
    double begun = now(), added;
    int64_t sent = 0, got = 0, flights = 0;
    for (; sent < count; sent += 1000, flights++) {
        zadd(sent, count - sent < 1000 ? count - sent : 1000, count, bytes);
        if (flights - got >= 4) {
            freeReplyObject(answer());
            got++;
        }
    }
    for (; got < flights; got++)
        freeReplyObject(answer());
    added = now();
    full = used_memory();
    double taking = now();
    for (int64_t taken = 0; taken < count; taken += AT_ONCE) {
        redisAppendCommand(server, "ZPOPMIN plain %d", AT_ONCE);
        freeReplyObject(answer());
    }
    printf("%.2f %.0f %.0f\n", (double)(full - before) / (double)count, (double)count / (added - begun),
           (double)count / (now() - taking));
}

/* ---- through the port ---- */

static void check(dt_status status, const struct dt_error *err)
{
    if (status != DT_OK)
        die("index", err->text);
}

static int by_due(const void *a, const void *b)
{
    const struct dt_entry *x = a, *y = b;
    return (x->due_ms > y->due_ms) - (x->due_ms < y->due_ms);
}

static struct dt_entry *entries_of(int64_t count, bool sorted)
{
    struct dt_entry *entries = calloc((size_t)count, sizeof(*entries));
    for (int64_t i = 0; entries && i < count; i++)
        entries[i] = (struct dt_entry){dt_job_id(noon_ms, i + 1), due_of(i, count), 0};
    if (entries && sorted)
        qsort(entries, (size_t)count, sizeof(*entries), by_due);
    return entries;
}

static int64_t take_all(dt_index *index, unsigned shard)
{
    const struct dt_marker marker = {1, 1, 1, 1, 0, false, 0};
    struct dt_entry due[AT_ONCE];
    struct dt_fix fixes[AT_ONCE];
    struct dt_error err;
    struct dt_due_scan scan = {.marker = marker, .now_ms = noon_ms + 2 * HOUR_MS, .limit = AT_ONCE, .entries = due};
    int64_t taken = 0;
    do {
        check(dt_index_due(index, shard, &scan, &err), &err);
        for (size_t i = 0; i < scan.n; i++)
            fixes[i] = (struct dt_fix){due[i].id, due[i].due_ms, 0};
        if (scan.n)
            check(dt_index_fix(index, shard, fixes, scan.n, &err), &err);
        taken += (int64_t)scan.n;
    } while (scan.n);
    return taken;
}

static void ours(char *endpoint, int64_t count, unsigned shards, bool filled)
{
    struct dt_config config = {.redis_endpoints = endpoint, .redis_password = (char[]){""}, .redis_timeout = 10000};
    struct dt_entry *entries = entries_of(count, filled);
    struct dt_shard_map map;
    struct dt_error err;
    dt_index *index;
    int64_t taken = 0;
    dt_shard_map_init(&map, 1, shards);
    check(dt_index_new(&config, "bench", dt_clock_system(), &index, &err), &err);
    check(dt_index_ping(index, &err), &err);
    long long before = used_memory();
    double begun = now();
    for (int64_t at = 0, n; at < count; at += n) {
        n = count - at < (filled ? 10000 : 4096) ? count - at : (filled ? 10000 : 4096);
        check(filled ? dt_index_fill(index, &map, entries + at, (size_t)n, &err)
                     : dt_index_put(index, &map, entries + at, (size_t)n, INT64_MAX, true, &err),
              &err);
    }
    double added = now();
    long long full = used_memory();
    double taking = now();
    for (unsigned shard = 0; shard < shards; shard++)
        taken += take_all(index, shard);
    if (taken != count)
        die("index", "entries are missing");
    printf("%.2f %.0f %.0f\n", (double)(full - before) / (double)count, (double)count / (added - begun),
           (double)count / (now() - taking));
    dt_index_free(index);
    free(entries);
}

/* ---- MySQL ---- */

static void stream(char **words)
{
    MYSQL *db = mysql_init(NULL);
    char sql[300];
    long long n = 0;
    if (!db || !mysql_real_connect(db, NULL, words[1], words[2], words[3], 0, words[0], 0))
        die("mysql", db ? mysql_error(db) : "no memory");
    snprintf(sql, sizeof(sql),
             "SELECT id, due_key FROM jobs FORCE INDEX (due) WHERE due_band = 1 AND due_key >= %s AND due_key < %s "
             "ORDER BY due_key, id",
             words[4], words[5]);
    double begun = now();
    if (mysql_query(db, sql))
        die("mysql", mysql_error(db));
    MYSQL_RES *result = mysql_use_result(db);
    while (result && mysql_fetch_row(result))
        n++;
    if (mysql_errno(db))
        die("mysql", mysql_error(db));
    printf("%lld %.4f\n", n, now() - begun);
    mysql_free_result(result);
    mysql_close(db);
}

int main(int argc, char **argv)
{
    if (argc == 8 && strcmp(argv[1], "stream") == 0) {
        stream(argv + 2);
        return 0;
    }
    if (argc != 5)
        die("usage", "see the top of slices.c");
    int64_t count = strtoll(argv[3], NULL, 10), now_ms = (int64_t)time(NULL) * 1000;
    char host[100];
    int port = 0;
    noon_ms = now_ms - now_ms % DT_DAY_MS + DT_DAY_MS / 2;
    if (sscanf(argv[1], "%99[^:]:%d", host, &port) != 2 || !(server = redisConnect(host, port)) || server->err)
        die("redis", "cannot connect");
    redisAppendCommand(server, "FLUSHALL SYNC");
    freeReplyObject(answer());
    if (strcmp(argv[2], "plain36") == 0)
        plain(count, 36);
    else if (strcmp(argv[2], "plain8") == 0)
        plain(count, 8);
    else
        ours(argv[1], count, (unsigned)strtoul(argv[4], NULL, 10), strcmp(argv[2], "filled") == 0);
    return 0;
}
