/* The watch of a dispatcher without an index: whom it tells of what MySQL answers, and whether it is to be relied upon. The
 * watcher is the real one; MySQL is a fake that answers what the test has put there. */

#include "shard/shard_loop.h"
#include "support/wait.h"

#define SHARDS 4
#define NOW    INT64_C(1000000)

/* Under the lock. */
static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    /* MySQL */
    struct dt_watched answer;
    dt_status status;
    struct dt_watch asked; /* the last question */
    unsigned asks;
    /* the loops */
    unsigned woken[DT_SHARDS_MAX], again[DT_SHARDS_MAX], stale;
} fake = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static dt_watcher *watcher;
static dt_due_watch *watch;
static char none[] = "", somewhere[] = "a:1";
static struct dt_config config = {.mysql_io_timeout = 10000, .reconcile_period = 600000};

/* ---- MySQL ---- */

dt_status dt_store_new(const struct dt_config *, dt_refclock *, dt_store **out)
{
    *out = (dt_store *)&fake;
    return DT_OK;
}

STUB(void, dt_store_cut, (dt_store * store), )
STUB(void, dt_store_free, (dt_store * store), )
STUB(dt_status, dt_store_ping, (dt_store * store, struct dt_error *err), DT_OK)

dt_status dt_store_watch(dt_store *, const struct dt_watch *w, struct dt_watched *out, struct dt_error *err)
{
    pthread_mutex_lock(&fake.lock);
    fake.asked = *w;
    fake.asks++;
    pthread_cond_broadcast(&fake.changed);
    *out = fake.answer;
    for (; out->n_due && out->due[0].next_ms < w->look_from_ms; out->n_due--)
        memmove(out->due, out->due + 1, (out->n_due - 1) * sizeof(*out->due));
    dt_status status = fake.status;
    pthread_mutex_unlock(&fake.lock);
    return status == DT_OK ? DT_OK : dt_fail(err, status, "away");
}

/* ---- the loops ---- */

static void map_of(void *arg, struct dt_shard_map *out)
{
    assert_ptr_equal(arg, &fake);
    dt_shard_map_init(out, 1, SHARDS);
}

static void count(unsigned *number)
{
    pthread_mutex_lock(&fake.lock);
    ++*number;
    pthread_cond_broadcast(&fake.changed);
    pthread_mutex_unlock(&fake.lock);
}

static void tell(void *arg, unsigned shard, enum dt_loop_news news)
{
    assert_ptr_equal(arg, &fake);
    count(news == DT_LOOP_DUE ? &fake.woken[shard] : &fake.again[shard]);
}

static void stale(void *arg)
{
    assert_ptr_equal(arg, &fake);
    count(&fake.stale);
}

/* ---- the rig ---- */

static const struct dt_process_env *env(dt_watcher *w)
{
    static struct dt_process_env made;
    made = (struct dt_process_env){.watcher = w,
                                   .config = &config,
                                   .clock = dt_clock_system(),
                                   .owner = "host:7",
                                   .arg = &fake,
                                   .map = map_of,
                                   .tell = tell,
                                   .stale_map = stale};
    return &made;
}

/* Waits for a question that was asked after everything that is there now. */
static void let_it_look(void)
{
    pthread_mutex_lock(&fake.lock);
    unsigned wanted = fake.asks + 3;
    pthread_mutex_unlock(&fake.lock);
    AWAIT_CHANGED(fake.asks >= wanted, &fake.changed, &fake.lock);
}

static void forget(void)
{
    memset(fake.woken, 0, sizeof(fake.woken));
    memset(fake.again, 0, sizeof(fake.again));
    fake.stale = 0;
}

static void start(void)
{
    struct dt_error err = {0};
    const struct dt_watcher_env listens = {.config = &config, .clock = dt_clock_system()};
    assert_int_equal(dt_watcher_new(&listens, &watcher, &err), DT_OK);
    assert_int_equal(dt_due_watch_new(env(watcher), &watch, &err), DT_OK);
    assert_int_equal(dt_watcher_start(watcher, &err), DT_OK);
}

static void make(void)
{
    config.redis_endpoints = none;
    config.reconcile_period = 600000;
    fake.status = DT_OK;
    fake.answer = (struct dt_watched){.generation = 1, .topics_version = 1, .leads = 11, .now_ms = NOW};
    start();
    let_it_look();
    forget();
}

static void stop(void)
{
    dt_watcher_free(watcher);
    dt_due_watch_free(watch);
    watch = NULL;
    watcher = NULL;
}

#define FRESH_TEST(name) TEST_WITH(name, make, stop)

static void set_due(size_t n, const struct dt_due *due)
{
    pthread_mutex_lock(&fake.lock);
    if (n)
        memcpy(fake.answer.due, due, n * sizeof(*due));
    fake.answer.n_due = n;
    pthread_mutex_unlock(&fake.lock);
}

static void set_row(unsigned shard, int64_t epoch, int64_t version)
{
    pthread_mutex_lock(&fake.lock);
    fake.answer.rows[0] = (struct dt_watched_row){shard, epoch, 5, version};
    fake.answer.n_rows = 1;
    fake.answer.leads = epoch;
    pthread_mutex_unlock(&fake.lock);
}

static unsigned of(const unsigned *number)
{
    pthread_mutex_lock(&fake.lock);
    unsigned n = *number;
    pthread_mutex_unlock(&fake.lock);
    return n;
}

static unsigned all_of(const unsigned *numbers)
{
    unsigned sum = 0;
    for (unsigned shard = 0; shard < SHARDS; shard++)
        sum += of(&numbers[shard]);
    return sum;
}

static unsigned shard_of(int64_t id)
{
    struct dt_shard_map map;
    dt_shard_map_init(&map, 1, SHARDS);
    return dt_shard_of(&map, id);
}

/* ---- the tests ---- */

FRESH_TEST(a_due_job_wakes_its_leader_once)
{
    set_due(1, &(struct dt_due){17, NOW - 5});
    let_it_look();
    assert_int_equal(of(&fake.woken[shard_of(17)]), 1);
    assert_int_equal(all_of(fake.woken), 1);                       /* and nobody else, though it stands there still */
    set_due(2, (struct dt_due[]){{18, NOW - 900}, {17, NOW - 5}}); /* a commit that took its time */
    let_it_look();
    assert_int_equal(all_of(fake.woken), 2);
    set_due(0, NULL);
    let_it_look();
    set_due(1, &(struct dt_due){17, NOW - 5}); /* once more */
    let_it_look();
    assert_int_equal(all_of(fake.woken), 3);
    assert_int_equal(all_of(fake.again), 0);
}

FRESH_TEST(the_watch_waits_after_known_jobs_and_briefly_while_jobs_arrive)
{
    pthread_mutex_lock(&fake.lock);
    assert_members(fake.asked, (wait_ms, 2500), (due_from_ms, NOW - 2000), (look_from_ms, NOW - 2000));
    pthread_mutex_unlock(&fake.lock);
    set_due(1, &(struct dt_due){17, NOW - 5});
    let_it_look();
    pthread_mutex_lock(&fake.lock);
    assert_members(fake.asked, (wait_ms, 100), (due_from_ms, NOW - 4), (look_from_ms, NOW - 2000), (owner, "host:7"),
                   (leads, 11));
    pthread_mutex_unlock(&fake.lock);
}

FRESH_TEST(a_full_answer_wakes_all_loops)
{
    static struct dt_due many[DT_WATCH_DUE];
    for (size_t i = 0; i < DT_WATCH_DUE; i++)
        many[i] = (struct dt_due){17, NOW - 1500 + (int64_t)i};
    set_due(DT_WATCH_DUE, many);
    let_it_look();
    for (unsigned shard = 0; shard < SHARDS; shard++)
        assert_true(of(&fake.woken[shard]) >= 1);
}

FRESH_TEST(a_job_that_was_due_long_ago_makes_its_leader_read_everything_once)
{
    stop();
    config.reconcile_period = 1; /* every look is at everything */
    set_due(1, &(struct dt_due){17, 1});
    start();
    let_it_look();
    assert_int_equal(of(&fake.again[shard_of(17)]), 1);
    assert_int_equal(all_of(fake.again), 1);
    let_it_look();
    assert_int_equal(all_of(fake.again), 1);
    set_due(2, (struct dt_due[]){{17, 1}, {18, 2}});
    let_it_look();
    assert_int_equal(all_of(fake.again), 2);
}

FRESH_TEST(a_shards_row_is_remembered_and_a_change_of_its_leadership_wakes_its_leader)
{
    struct dt_watched_row row;
    assert_false(dt_due_watch_row(watch, 2, &row));
    set_row(2, 9, 3);
    let_it_look();
    assert_true(dt_due_watch_row(watch, 2, &row));
    assert_true(row.epoch == 9 && row.token == 5 && row.version == 3);
    assert_false(dt_due_watch_row(watch, 1, &row));
    forget();
    set_row(2, 9, 4);
    let_it_look();
    assert_int_equal(all_of(fake.woken), 0);
    assert_true(dt_due_watch_row(watch, 2, &row));
    assert_int_equal(row.version, 4);
    set_row(2, 10, 4);
    let_it_look();
    assert_true(of(&fake.woken[2]) >= 1);
    set_row(3, 10, 4); /* the other one is somebody else's now */
    forget();
    let_it_look();
    assert_true(of(&fake.woken[2]) >= 1);
    assert_false(dt_due_watch_row(watch, 2, &row));
}

FRESH_TEST(changes_of_topics_and_the_map_are_reported)
{
    pthread_mutex_lock(&fake.lock);
    fake.answer.topics_version = 2;
    pthread_mutex_unlock(&fake.lock);
    let_it_look();
    assert_int_equal(all_of(fake.again), SHARDS);
    assert_int_equal(of(&fake.stale), 0);
    pthread_mutex_lock(&fake.lock);
    fake.answer.generation = 2;
    pthread_mutex_unlock(&fake.lock);
    let_it_look();
    assert_int_equal(of(&fake.stale), 1);
}

FRESH_TEST(loops_poll_by_themselves_when_mysql_does_not_answer)
{
    struct dt_watched_row row;
    set_row(2, 9, 3);
    let_it_look();
    assert_true(dt_due_watch_hears(watch));
    forget();
    pthread_mutex_lock(&fake.lock);
    fake.status = DT_DENIED;
    pthread_mutex_unlock(&fake.lock);
    let_it_look();
    assert_false(dt_due_watch_hears(watch));
    assert_false(dt_due_watch_row(watch, 2, &row));
    for (unsigned shard = 0; shard < SHARDS; shard++)
        assert_true(of(&fake.woken[shard]) >= 1);
    pthread_mutex_lock(&fake.lock);
    fake.status = DT_OK;
    pthread_mutex_unlock(&fake.lock);
    let_it_look();
    assert_true(dt_due_watch_hears(watch));
    dt_watcher_stop(watcher);
    assert_false(dt_due_watch_hears(watch));
    assert_false(dt_due_watch_row(watch, 2, &row));
}

FRESH_TEST(after_a_complete_look_without_due_jobs_nothing_is_due_until_a_row_is_found)
{
    let_it_look();
    assert_true(dt_due_watch_none_due(watch)); /* the first look was at everything */
    set_due(1, (struct dt_due[]){{17, NOW - 100}});
    let_it_look();
    assert_false(dt_due_watch_none_due(watch));
    set_due(0, NULL);
    let_it_look();
    assert_false(dt_due_watch_none_due(watch)); /* it may have been left outside of the window */
    assert_false(dt_due_watch_none_due(NULL));
}

FRESH_TEST(with_an_index_there_is_no_watch)
{
    stop();
    config.redis_endpoints = somewhere;
    start(); /* without a listener there is no thread */
    assert_null(watch);
    assert_false(dt_due_watch_hears(watch));
}
