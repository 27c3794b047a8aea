/* When a connection to MySQL is asked how it is, and when nobody need try it: on a store that answers as the test
 * says, by a clock that the test turns. */

#include "support/suite.h"

#include "mysql/db.h"
#include "request/session.h"

#define MS      INT64_C(1000)
#define SECOND  INT64_C(1000000)
#define STALLED (10 * SECOND / 3) /* two thirds of api.database_timeout */

static struct {
    int64_t us; /* of the clock */
    int64_t ping_takes_us;
    dt_status pings[8]; /* what each says; OK beyond */
    unsigned n_pings;
    bool lost, made, thread_ended;
    const struct dt_config *config;
    dt_refclock *ref;
} fake;

STUB(static int64_t, mono_us, (const dt_clock *clock), fake.us)

static const dt_clock turned = {.mono_us = mono_us};
static struct dt_session session;
static dt_refclock ref;
static _Atomic int64_t answered_us;

/* ---- the store ---- */

dt_status dt_store_new(const struct dt_config *config, dt_refclock *given, dt_store **out)
{
    fake.config = config;
    fake.ref = given;
    fake.made = true;
    *out = (dt_store *)&fake;
    return DT_OK;
}

void dt_store_free(dt_store *store)
{
    assert_ptr_equal(store, &fake);
    fake.made = false;
}

dt_status dt_store_ping(dt_store *store, struct dt_error *err)
{
    assert_ptr_equal(store, &fake);
    fake.us += fake.ping_takes_us;
    dt_status status = fake.pings[fake.n_pings++];
    return status == DT_OK ? DT_OK : dt_fail(err, status, "away");
}

bool dt_store_lost(const dt_store *store)
{
    assert_ptr_equal(store, &fake);
    return fake.lost;
}

void dt_store_act_as(dt_store *store, struct dt_str actor)
{
    assert_ptr_equal(store, &fake);
    assert_non_null(actor.p);
}

void dt_db_thread_end(void)
{
    fake.thread_ended = true;
}

static void make(void)
{
    static const struct dt_config config = {.api_database_timeout = 5000,
                                            .mysql_io_timeout = 30000,
                                            .mysql_connect_timeout = 10000,
                                            .mysql_lock_timeout = 60000};
    static const struct dt_session_env env = {
        .config = &config, .clock = &turned, .ref = &ref, .answered_us = &answered_us};
    atomic_store(&answered_us, 0);
    memset(&fake, 0, sizeof(fake));
    fake.us = 100 * SECOND;
    assert_int_equal(dt_session_init(&session, &env), DT_OK);
}

static void clear(void)
{
    dt_session_clear(&session);
    assert_members(fake, (made, false), (thread_ended, true));
    assert_null(session.store);
}

#define FRESH_TEST(name) TEST_WITH(name, make, clear)

static dt_status begin(void)
{
    struct dt_error err = {0};
    return dt_session_begin(&session, &err);
}

static void work(int64_t us)
{
    assert_int_equal(begin(), DT_OK);
    fake.us += us;
    dt_session_end(&session);
}

/* ---- the tests ---- */

FRESH_TEST(mysql_waits_are_as_short_as_the_requests_deadline)
{
    assert_members(fake, (config, &session.config), (ref, &ref));
    assert_members(session.config, (mysql_io_timeout, 5000), (mysql_connect_timeout, 2000), (mysql_lock_timeout, 1000));
}

FRESH_TEST(shorter_configured_waits_are_kept)
{
    const struct dt_config config = {.api_database_timeout = 1500,
                                     .mysql_io_timeout = 1200,
                                     .mysql_connect_timeout = 700,
                                     .mysql_lock_timeout = 800};
    const struct dt_session_env env = {.config = &config, .clock = &turned, .ref = &ref};
    struct dt_session other;
    assert_int_equal(dt_session_init(&other, &env), DT_OK);
    assert_members(other.config, (mysql_io_timeout, 1200), (mysql_connect_timeout, 700));
    assert_int_equal(other.config.mysql_lock_timeout, 500); /* the server gives up before it is given up */
    dt_session_clear(&other);
    fake.made = true;
}

FRESH_TEST(a_connection_is_pinged_after_a_second_of_idleness)
{
    work(10 * MS);
    assert_int_equal(fake.n_pings, 1); /* it was never used */
    fake.us += SECOND - 1;
    work(0);
    assert_int_equal(fake.n_pings, 1);
    fake.us += SECOND;
    work(0);
    assert_int_equal(fake.n_pings, 2);
}

FRESH_TEST(a_connection_closed_by_the_server_is_replaced_at_once)
{
    fake.pings[0] = DT_UNAVAILABLE;
    fake.ping_takes_us = SECOND - 1;
    work(0);
    assert_int_equal(fake.n_pings, 2);
}

FRESH_TEST(a_server_that_was_waited_for_is_not_waited_for_twice)
{
    fake.pings[0] = DT_UNAVAILABLE;
    fake.ping_takes_us = SECOND;
    assert_int_equal(begin(), DT_UNAVAILABLE);
    assert_int_equal(fake.n_pings, 1);
    dt_session_end(&session);
}

FRESH_TEST(a_refused_connection_is_not_retried_at_once)
{
    fake.pings[0] = DT_SCHEMA;
    fake.lost = true;
    assert_int_equal(begin(), DT_SCHEMA);
    assert_int_equal(fake.n_pings, 1);
    dt_session_end(&session);
    fake.lost = false;
    work(0); /* and does not keep the next one from asking */
    assert_int_equal(fake.n_pings, 2);
}

FRESH_TEST(after_a_failure_of_mysql_sessions_do_not_connect_for_half_a_second)
{
    fake.pings[0] = fake.pings[1] = fake.pings[2] = fake.pings[3] = DT_UNAVAILABLE;
    fake.lost = true;
    assert_int_equal(begin(), DT_UNAVAILABLE);
    assert_int_equal(fake.n_pings, 2);
    dt_session_end(&session);
    fake.us += 500 * MS - 1;
    assert_int_equal(begin(), DT_UNAVAILABLE);
    assert_int_equal(fake.n_pings, 2);
    dt_session_end(&session);
    fake.us += 1;
    assert_int_equal(begin(), DT_UNAVAILABLE);
    assert_int_equal(fake.n_pings, 4);
    dt_session_end(&session);
    fake.us += 500 * MS;
    fake.lost = false;
    work(0);
    assert_int_equal(fake.n_pings, 5);
    work(0);
    assert_int_equal(fake.n_pings, 5);
}

FRESH_TEST(after_a_failure_sessions_retry_when_another_one_got_an_answer)
{
    fake.pings[0] = fake.pings[1] = DT_UNAVAILABLE;
    fake.lost = true;
    assert_int_equal(begin(), DT_UNAVAILABLE);
    dt_session_end(&session);
    fake.us += MS;
    assert_int_equal(begin(), DT_UNAVAILABLE);
    assert_int_equal(fake.n_pings, 2);
    dt_session_end(&session);
    atomic_store(&answered_us, fake.us); /* by another session */
    fake.lost = false;
    work(0);
    assert_int_equal(fake.n_pings, 3);
    assert_int_equal(atomic_load(&answered_us), fake.us);
}

FRESH_TEST(a_connection_that_broke_at_work_is_tried_at_once_unless_it_hung)
{
    work(0);
    assert_int_equal(begin(), DT_OK);
    fake.us += STALLED;
    fake.lost = true;
    dt_session_end(&session); /* the session broke sooner */
    fake.lost = false;
    work(0);
    assert_int_equal(fake.n_pings, 2);
    assert_int_equal(begin(), DT_OK);
    fake.us += STALLED + 1;
    fake.lost = true;
    dt_session_end(&session); /* it hung: nobody else need find that out */
    assert_int_equal(begin(), DT_UNAVAILABLE);
    assert_int_equal(fake.n_pings, 2);
    dt_session_end(&session);
    fake.us += 500 * MS;
    fake.lost = false;
    work(0);
    assert_int_equal(fake.n_pings, 3);
}

FRESH_TEST(work_that_takes_longer_than_two_thirds_of_a_wait_counts_as_stalled)
{
    assert_false(dt_session_stalled(&session));
    assert_int_equal(begin(), DT_OK);
    fake.us += STALLED;
    assert_false(dt_session_stalled(&session));
    fake.us += 1;
    assert_true(dt_session_stalled(&session));
    dt_session_end(&session);
    assert_false(dt_session_stalled(&session));
}
