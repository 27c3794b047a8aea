/* The set-up of a suite on one store: a database, a store on it and an arena, emptied between tests. Everything is
 * static: a test's file includes this once, and says STORE_SUITE(prefix, shards) with the prefix of the database's
 * name. */
#pragma once

#include "support/job_rows.h"
#include "support/wait.h"

#define S(text) DT_STR_LIT(text)

static dt_store *store;
static struct dt_arena arena;
static struct dt_error err __attribute__((unused));

static inline void close_store(void)
{
    mysql_fixture_close(store, &arena);
}

static inline void empty_tables(void)
{
    mysql_fixture_empty(&arena);
    AWAIT(dt_store_ping(store, NULL) == DT_OK); /* the previous test may have closed this session */
}

#define STORE_SUITE(prefix, shards)                                                                                    \
    static void open_store(void)                                                                                       \
    {                                                                                                                  \
        mysql_fixture_open(prefix, shards, &store);                                                                    \
    }
