/* Jobs that are inserted into a store of the suite's own, and what came of each. */
#pragma once

#include "job/change/jobs.h"
#include "support/mysql_fixture.h"
#include "support/mysql_wire.h"
#include "support/wait.h"

#define S(text) DT_STR_LIT(text)
#define MAKER   4711

enum { ROWS_MAX = 1200 };

struct rig {
    dt_store *store, *clocked; /* the second one knows the server's time */
    dt_refclock clock;
    struct dt_insert rows[ROWS_MAX];
    struct dt_insert *ptr[ROWS_MAX];
    char keys[ROWS_MAX][32];
    size_t n;
    int64_t created_ms;
};

static inline void setup(struct rig *rig)
{
    mysql_fixture_make("insert");
    mysql_fixture.config.mysql_lock_timeout = 1000;
    mysql_fixture.config.mysql_idle_transaction_timeout = 2000;
    mysql_fixture_migrate();
    rig->store = mysql_fixture_store();
    dt_refclock_init(&rig->clock, dt_clock_system());
    MYSQL_FIXTURE_OK(dt_store_new(&mysql_fixture.config, &rig->clock, &rig->clocked), NULL);
}

static inline void teardown(struct rig *rig)
{
    wire_heal();
    dt_store_free(rig->store);
    dt_store_free(rig->clocked);
    mysql_fixture_drop();
}

#define FAR_MS INT64_C(4000000000000)

/* Adds a row; key NULL = none; the digest stands for the request. */
static inline struct dt_insert *add(struct rig *rig, int64_t id, const char *key, int request)
{
    struct dt_insert *row = &rig->rows[rig->n];
    *row = (struct dt_insert){.outcome = DT_INSERT_REFUSED};
    row->job = (struct dt_new_job){
        .id = id,
        .topic = S("t"),
        .run_at_ms = FAR_MS,
        .retry = S("15s 3m"),
        .ack_timeout_ms = 1000,
        .payload = S("{}"),
    };
    if (key) {
        snprintf(rig->keys[rig->n], sizeof rig->keys[0], "%s", key);
        row->job.key = dt_str(rig->keys[rig->n]);
    }
    memcpy(row->job.digest, &request, sizeof request);
    rig->ptr[rig->n++] = row;
    return row;
}

static inline dt_status insert(struct rig *rig, struct dt_error *err)
{
    return dt_store_insert(rig->store, rig->ptr, rig->n, MAKER, &rig->created_ms, err);
}

static inline int64_t number(const char *sql)
{
    return sql_number("%s", sql);
}

static inline int64_t job_of_key(const char *key)
{
    return sql_number("SELECT job_id FROM job_keys WHERE topic = 't' AND job_key = '%s'", key);
}
