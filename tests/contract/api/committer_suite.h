/* The committer on a real MySQL, for the suites of test_committer*.c: units that count their answers. */
#pragma once

#include <unistd.h>

#include "intake/committer.h"
#include "support/mysql_fixture.h"
#include "support/wait.h"

#define ROWS 4

struct fixture {
    dt_refclock ref;
    struct dt_session_env env;
    dt_topic_cache *topics;
    dt_index_writer *index;
    dt_committer *committer;
    const dt_clock *clock; /* the committer's clock */
};

/* A unit that counts its answers. */
struct call {
    struct dt_unit unit;
    struct dt_create rows[ROWS];
    _Atomic int answers;
    int place; /* of its answer among all of the test */
};

static _Atomic int answers_in_all;

static const struct dt_caller anybody = {.scopes = DT_SCOPE_WRITE | DT_SCOPE_ALL_TOPICS};

static inline void answered(struct dt_unit *unit)
{
    struct call *call = unit->arg;
    call->place = atomic_fetch_add(&answers_in_all, 1) + 1;
    atomic_fetch_add(&call->answers, 1);
}

static inline void prepare(struct fixture *f, struct call *call, const char *topic, size_t n)
{
    memset(call, 0, sizeof(*call));
    call->unit = (struct dt_unit){.rows = call->rows, .n = n, .caller = &anybody, .done = answered, .arg = call};
    for (size_t i = 0; i < n; i++) {
        struct dt_new_job *job = &call->rows[i].row.job;
        job->topic = dt_str(topic);
        job->payload = DT_STR_LIT("null");
        job->run_at_ms = dt_refclock_latest_ms(&f->ref) + 3600000;
    }
}

static inline void submit(struct fixture *f, struct call *call)
{
    dt_committer_submit(f->committer, &call->unit);
    AWAIT_ANSWER(&call->answers);
}

static inline void start(struct fixture *f)
{
    struct dt_error err = {0};
    const dt_clock *clock = dt_clock_system();
    dt_store *store = mysql_fixture_store();
    dt_refclock_init(&f->ref, clock);
    f->env = (struct dt_session_env){.config = &mysql_fixture.config, .clock = f->clock, .ref = &f->ref};
    dt_store_free(store);
    OK(dt_store_new(&mysql_fixture.config, &f->ref, &store));
    OK(dt_store_ping(store, &err));
    dt_store_free(store);
    OK(dt_topic_cache_new(&mysql_fixture.config, clock, &f->topics));
    OK(dt_index_writer_start(&f->env, f->topics, &f->index, &err));
    OK(dt_committer_start(&f->env, f->topics, f->index, &f->committer, &err));
}

static inline void make(struct fixture *f)
{
    f->clock = dt_clock_system();
    mysql_fixture_make("committer");
    mysql_fixture_migrate();
    /* Nobody listens there: no answer depends on Redis. */
    free(mysql_fixture.config.redis_endpoints);
    mysql_fixture.config.redis_endpoints = strdup("127.0.0.1:1");
}

static inline void drop(struct fixture *f)
{
    if (f->committer)
        dt_committer_stop(f->committer);
    dt_committer_free(f->committer);
    if (f->index)
        dt_index_writer_stop(f->index);
    dt_index_writer_free(f->index);
    dt_topic_cache_free(f->topics);
    mysql_fixture_drop();
}

static inline void submit_all(struct fixture *f, struct call *calls, size_t n)
{
    for (size_t i = 0; i < n; i++)
        dt_committer_submit(f->committer, &calls[i].unit);
}

static inline void await_all(struct call *calls, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        AWAIT_ANSWER(&calls[i].answers);
        assert_int_equal(calls[i].unit.status, DT_OK);
        dt_unit_clear(&calls[i].unit);
    }
}

/* Whoever makes a job with the key "held" waits until ROLLBACK. */
static inline void hold_key(void)
{
    run_sql("START TRANSACTION");
    run_sql("INSERT INTO job_keys VALUES ('t', 'held', 1)");
}

/* n calls of so many rows each; the rows of all of them are to be freed. */
static inline struct dt_create *prepare_many(struct fixture *f, struct call *calls, size_t n, size_t rows)
{
    struct dt_create *all = calloc(n * rows, sizeof *all);
    assert_non_null(all);
    for (size_t i = 0; i < n; i++) {
        prepare(f, &calls[i], "t", 1);
        for (size_t k = 0; k < rows; k++)
            all[i * rows + k] = calls[i].rows[0];
        calls[i].unit.rows = &all[i * rows];
        calls[i].unit.n = rows;
        calls[i].unit.of_batch = true;
    }
    return all;
}
