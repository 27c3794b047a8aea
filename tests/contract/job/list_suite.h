/* The set-up of the suites of lists: pages, and rows to fill them. Everything is static: a suite includes this once. */
#pragma once

#include "job/list/list.h"
#include "support/store_suite.h"

#define MANY 24000

/* The page that was read last. */
static struct dt_job_list last;

static inline struct dt_list_filter all(unsigned limit)
{
    return (struct dt_list_filter){.state = -1, .limit = limit};
}

/* WITH(.topic = S("orders"), .state = DT_DEAD): the filter of up to a hundred such jobs. */
#pragma GCC diagnostic ignored "-Woverride-init"
#define WITH(...) ((struct dt_list_filter){.state = -1, .limit = 100, __VA_ARGS__})

static inline void list(struct dt_list_filter f)
{
    OK(dt_store_list(store, &f, &arena, &last, &err));
}

/* "1 2 3" of the last page, with "+" behind it when there may be more. */
static inline const char *page(void)
{
    static char text[8000];
    size_t at = 0;
    text[0] = '\0';
    for (size_t i = 0; i < last.n; i++)
        at += (size_t)snprintf(text + at, sizeof text - at, "%s%lld", i ? " " : "", (long long)last.v[i].id);
    snprintf(text + at, sizeof text - at, "%s", last.more ? "+" : "");
    return text;
}

static inline void assert_page(struct dt_list_filter f, const char *ids)
{
    list(f);
    assert_string_equal(page(), ids);
}

/* Ids 1 to MANY, all alike. */
static inline void many_jobs(void)
{
    job_row(1, NULL);
    job_rows_multiply(MANY, 0);
}

static inline int64_t rows_read(void)
{
    dt_db *db;
    int64_t sum = 0;
    OK(dt_store_db(store, &db, &err));
    OK(dt_db_query_text(db, S("SHOW SESSION STATUS LIKE 'Handler_read%'"), &err));
    while (dt_db_next(db))
        sum += strtoll(dt_db_bytes(db, 1).p, NULL, 10);
    OK(dt_db_end(db, &err));
    return sum;
}

static inline struct dt_list_times between(int64_t from_ms, int64_t to_ms)
{
    return (struct dt_list_times){true, from_ms, to_ms};
}
