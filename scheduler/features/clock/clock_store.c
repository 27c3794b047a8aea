/* The row of the test clock (clock.h): reading it, changing it, and advancing the clock from instant to instant. Each
 * change is made under the lease `clock`. */
#include <time.h>

#include "base/assert.h"
#include "base/clock.h"
#include "clock.h"
#include "job/archive/archive.h"
#include "mysql/statements.h"
#include "store/leases.h"
#include "store/store_internal.h"

/* The lease is longer than a statement may take (api.database_timeout). If a request continues after its lease has
 * ended, another request may have changed the clock. The first request then finds another version, and its change
 * fails. */
#define CLOCK_LEASE ((struct dt_work_lease){.work = "clock", .ms = 20000})

static dt_status read_test_clock(dt_db *db, struct dt_test_clock *out, struct dt_error *err)
{
    struct dt_test_clock clock = {.asked_us = dt_clock_mono_us(dt_clock_system())};
    dt_status status = dt_db_query_index(db, dt_sql_select_test_clock, DT_NO_PARAMS, err);
    if (status != DT_OK)
        return status;
    if (dt_db_next(db)) {
        clock.time = (struct dt_test_time){.ahead_ms = dt_db_i64(db, 0), .frozen_ms = dt_db_i64(db, 1)};
        clock.version = dt_db_i64(db, 2);
        clock.real_ms = dt_db_i64(db, 3);
        clock.heard_us = dt_clock_mono_us(dt_clock_system());
    }
    status = dt_db_end(db, err);
    if (status == DT_OK)
        *out = clock;
    return status;
}

dt_status dt_store_test_clock(dt_store *store, struct dt_test_clock *out, struct dt_error *err)
{
    dt_db *db;
    dt_status status = dt_store_db(store, &db, err);
    return status == DT_OK ? read_test_clock(db, out, err) : status;
}

dt_status dt_store_check_test_clock(dt_store *store, struct dt_error *err)
{
    const bool wanted = dt_store_config(store)->installation_test_clock;
    int64_t clocks = 0;
    dt_status status = dt_store_number(store, dt_sql_count_test_clocks, DT_NO_PARAMS, &clocks, err);
    if (status != DT_OK || wanted == (clocks > 0))
        return status;
    return dt_fail(
        err, DT_INVALID,
        wanted ? "[installation] test_clock is true, but the installation was created without it: its jobs use "
                 "real time, and only a database in which nothing was created yet can get a test clock"
               : "[installation] test_clock is false, but the installation was created with true: its jobs have "
                 "a time of their own");
}

/* Takes the lease `clock` and reads the clock. The caller must release the lease, even after a failure. UNSUPPORTED:
 * there is no test clock. BUSY: another request has the lease. */
static dt_status lock_clock(dt_store *store, struct dt_work_lease *lease, dt_db **db, struct dt_test_clock *clock,
                            struct dt_error *err)
{
    *lease = CLOCK_LEASE;
    dt_status status = dt_work_lease_take(store, lease, err);
    if (status == DT_BUSY)
        return dt_fail(err, DT_BUSY, "another request is changing the clock");
    DT_THEN(status, dt_store_db(store, db, err));
    DT_THEN(status, read_test_clock(*db, clock, err));
    return status == DT_OK && clock->version == 0 ? dt_fail(err, DT_UNSUPPORTED, "the installation has no test clock")
                                                  : status;
}

/* Changes the row, if it still has the version clock->version, and reads it again, in one transaction. BUSY: the row
 * has another version. Unless OK, *clock is unchanged. */
static dt_status change_clock_row(dt_db *db, const char *sql, struct dt_params params, struct dt_test_clock *clock,
                                  struct dt_error *err)
{
    struct dt_test_clock now = *clock;
    uint64_t changed = 0;
    dt_status status = dt_db_begin(db, err);
    DT_THEN(status, dt_db_run(db, sql, params, &changed, err));
    if (status == DT_OK && changed != 1)
        status = dt_fail(err, DT_BUSY, "another request has changed the clock");
    DT_THEN(status, read_test_clock(db, &now, err));
    status = dt_store_commit(db, status, err);
    if (status == DT_OK)
        *clock = now;
    return status;
}

dt_status dt_store_test_clock_freeze(dt_store *store, struct dt_test_clock *out, struct dt_error *err)
{
    struct dt_work_lease lease;
    dt_db *db;
    dt_status status = lock_clock(store, &lease, &db, out, err);
    if (status == DT_OK && !out->time.frozen_ms)
        status = change_clock_row(db, dt_sql_freeze_test_clock, DT_PARAMS(DT_P_INT(out->version)), out, err);
    dt_work_lease_release(store, &lease);
    return status;
}

dt_status dt_store_test_clock_release(dt_store *store, struct dt_test_clock *out, struct dt_error *err)
{
    struct dt_work_lease lease;
    dt_db *db;
    dt_status status = lock_clock(store, &lease, &db, out, err);
    if (status == DT_OK && out->time.frozen_ms)
        status = change_clock_row(db, dt_sql_release_test_clock,
                                  DT_PARAMS(DT_P_INT(out->time.frozen_ms), DT_P_INT(out->version)), out, err);
    dt_work_lease_release(store, &lease);
    return status;
}

/*
 * ---- an advance ----
 *
 *   promote jobs up to the end ─▶ freeze at the next instant ─▶ leaders dispatch due jobs ─▶ results ─▶ next …
 *
 * An advance polls MySQL every LOOK_US. No other code polls the clock.
 */

#define LOOK_US INT64_C(10000)
/* Longest wait at one instant for the leaders to dispatch: a topic at its limit may dispatch nothing. */
#define PATIENCE_US INT64_C(3000000)
#define WALK_US     INT64_C(15000000) /* longest time for one request, less than a client's timeout */
#define PROMOTED    1000

struct walk {
    dt_store *store;
    dt_db *db;
    struct dt_work_lease lease; /* renewed at each poll, because an advance takes longer than the lease */
    struct dt_test_clock *clock;
    struct dt_clock_walk *ask;
    struct dt_error *err;
    int64_t at_ms, end_ms;
    int64_t until_us;  /* mono: the advance does not go on to another instant after this time */
    bool moved;        /* the clock was changed, or may have been */
    int64_t under_way; /* number of attempts without a result at the end of the previous instant */
};

/* Finds out whether a job or schedule that fell due in (from, at] still has to be dispatched or checked. */
static dt_status has_undone_work(struct walk *w, int64_t from_ms, bool *some)
{
    const struct dt_param at = DT_P_INT(w->at_ms);
    int64_t found;
    dt_status status =
        dt_db_read_number(w->db, dt_sql_find_undone, DT_PARAMS(at, DT_P_INT(from_ms), at), NULL, &found, w->err);
    *some = found != 0;
    return status;
}

/* Finds out whether more attempts have no result than at the end of the previous instant. */
static dt_status has_unreported_attempts(struct walk *w, int64_t, bool *some)
{
    int64_t found;
    dt_status status = dt_db_read_number(w->db, dt_sql_count_under_way, DT_NO_PARAMS, NULL, &found, w->err);
    *some = found > w->under_way;
    return status;
}

/* Calls `look` every LOOK_US until it sets *some to false, or most_us have passed. *some: whether the time ran out. */
static dt_status poll_until_none(struct walk *w, dt_status (*look)(struct walk *w, int64_t from_ms, bool *some),
                                 int64_t from_ms, int64_t most_us, bool *some)
{
    const struct timespec pause = {.tv_nsec = LOOK_US * 1000};
    int64_t until_us = dt_clock_mono_us(dt_clock_system()) + most_us;
    dt_status status = look(w, from_ms, some);
    while (status == DT_OK && *some && dt_clock_mono_us(dt_clock_system()) < until_us) {
        nanosleep(&pause, NULL);
        status = dt_work_lease_keep(w->store, &w->lease, w->err);
        DT_THEN(status, look(w, from_ms, some));
    }
    return status;
}

/* Waits until the due jobs are dispatched, then for their results. If a result makes a job due at this instant, waits
 * again. */
static dt_status wait_until_instant_is_done(struct walk *w, int64_t from_ms)
{
    bool undone = false, unreported = false;
    dt_status status = poll_until_none(w, has_undone_work, from_ms, PATIENCE_US, &undone);
    DT_THEN(status, poll_until_none(w, has_unreported_attempts, from_ms, w->ask->wait_ms * 1000, &unreported));
    if (status == DT_OK && !undone)
        status = poll_until_none(w, has_undone_work, from_ms, PATIENCE_US, &undone);
    DT_THEN(status, dt_db_read_number(w->db, dt_sql_count_under_way, DT_NO_PARAMS, NULL, &w->under_way, w->err));
    w->ask->whole &= !undone;
    return status;
}

static dt_status change_clock(struct walk *w, const char *sql, struct dt_params params)
{
    dt_status status = change_clock_row(w->db, sql, params, w->clock, w->err);
    w->moved |= status == DT_OK || status == DT_UNKNOWN;
    return status;
}

static dt_status advance_one_instant(struct walk *w)
{
    const int64_t from_ms = w->at_ms;
    const struct dt_param from = DT_P_INT(from_ms);
    int64_t next_ms = 0;
    struct dt_again again = {0};
    size_t done = PROMOTED;
    dt_status status = DT_OK;
    /* The due index has only the day of a far job. Promotion (archive.h) gives the job its exact time in the index, so
     * that leaders find it. */
    do {
        status = dt_store_promote(w->store, w->end_ms, PROMOTED, &done, w->err);
        DT_THEN(status, dt_work_lease_keep(w->store, &w->lease, w->err));
    } while ((status == DT_OK && done == PROMOTED) || dt_store_again(&again, status));
    DT_THEN(status, dt_db_read_number(w->db, dt_sql_find_next_instant, DT_PARAMS(from, from), NULL, &next_ms, w->err));
    next_ms = next_ms > from_ms ? dt_earlier(next_ms, w->end_ms) : w->end_ms;
    dt_assert_cmp(next_ms, >, from_ms);
    DT_THEN(status,
            change_clock(w, dt_sql_freeze_test_clock_at, DT_PARAMS(DT_P_INT(next_ms), DT_P_INT(w->clock->version))));
    if (status != DT_OK)
        return status;
    w->at_ms = next_ms;
    w->ask->steps++;
    return wait_until_instant_is_done(w, from_ms);
}

static dt_status advance_to_end(struct walk *w)
{
    const bool goes_on = !w->clock->time.frozen_ms;
    dt_status status = DT_OK;
    if (dt_test_clock_now_ms(w->clock) + w->ask->by_ms > DT_TEST_CLOCK_END_MS)
        return dt_fail(w->err, DT_INVALID, "the test clock ends in January 2038");
    if (goes_on) /* freezes the clock first, so that it never returns to an earlier instant */
        status = change_clock(w, dt_sql_freeze_test_clock, DT_PARAMS(DT_P_INT(w->clock->version)));
    if (status == DT_OK) {
        w->at_ms = w->clock->time.frozen_ms;
        w->end_ms = w->at_ms + w->ask->by_ms;
        status = dt_db_read_number(w->db, dt_sql_count_under_way, DT_NO_PARAMS, NULL, &w->under_way, w->err);
    }
    while (status == DT_OK && w->at_ms < w->end_ms && dt_clock_mono_us(dt_clock_system()) < w->until_us)
        status = advance_one_instant(w);
    w->ask->left_ms = w->end_ms - w->at_ms;
    if (!goes_on || !w->at_ms)
        return status;
    struct dt_error other = {0}; /* not returned: the caller gets the first error */
    dt_status going =
        change_clock_row(w->db, dt_sql_release_test_clock, DT_PARAMS(DT_P_INT(w->at_ms), DT_P_INT(w->clock->version)),
                         w->clock, status == DT_OK ? w->err : &other);
    return status == DT_OK ? going : status;
}

dt_status dt_store_test_clock_advance(dt_store *store, struct dt_clock_walk *ask, struct dt_test_clock *out,
                                      struct dt_error *err)
{
    struct dt_error why = {0};
    struct walk w = {.store = store, .clock = out, .ask = ask, .err = &why};
    w.until_us = dt_clock_mono_us(dt_clock_system()) + WALK_US;
    ask->steps = 0;
    ask->left_ms = 0;
    ask->whole = true;
    dt_status status = lock_clock(store, &w.lease, &w.db, out, &why);
    DT_THEN(status, advance_to_end(&w));
    dt_work_lease_release(store, &w.lease);
    /* The clock may have run since it was read, so it is read again. If that fails, *out has the earlier reading. */
    if (status == DT_OK) {
        (void)!dt_store_test_clock(store, out, NULL);
        return DT_OK;
    }
    return w.moved ? dt_fail(err, DT_UNKNOWN, "the clock was moved before this error: %s", why.text)
                   : dt_fail(err, status, "%s", why.text);
}
