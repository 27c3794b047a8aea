/* What a process says of itself, and what its leaders hear of the others: on a table in memory, with a real runtime and
 * mailbox. What the heartbeat does is written down in its order. */

#include "features/doctor/process_findings.h"
#include "heartbeat.h"
#include "shard/shard_loop.h"
#include "store/processes.h"
#include "store/store.h"
#include "support/rigs/hand_clock.h"

#define SHARDS 5
#define SECOND INT64_C(1000000)

/* Under the lock. */
static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    /* the table */
    char row[200];
    unsigned beats, asked;
    struct dt_index_debts debts;
    dt_status beat_status, debts_status;
    const char *_Atomic stuck; /* a chore, as it was put last */
    _Atomic int stuck_puts;
    /* the process */
    struct dt_loop_state states[SHARDS];
    bool there[SHARDS];
    unsigned doubts, announced;
    char order[4000]; /* b: a beat, d: the debts are read, !: a doubt, a: an announcement */
} fake = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static dt_heartbeat *heartbeat;
static dt_chores *urgent;

/* Holds the lock. */
static void write_down(char what)
{
    size_t n = strlen(fake.order);
    if (n + 1 < sizeof(fake.order))
        fake.order[n] = what;
    pthread_cond_broadcast(&fake.changed);
}

/* ---- the table ---- */

dt_status dt_store_beat(dt_store *, const struct dt_process *process, struct dt_error *err)
{
    pthread_mutex_lock(&fake.lock);
    snprintf(fake.row, sizeof(fake.row), "%lld %s %s down=%s losses=%lld leads=%s waits=%s%s%s", (long long)process->id,
             process->dispatcher ? "dispatcher" : "api", process->name, process->index_down ? process->index_down : "",
             (long long)process->index_losses, process->leads, process->waits ? process->waits : "",
             process->elected_by ? " elected_by=" : "", process->elected_by ? process->elected_by : "");
    fake.beats++;
    write_down('b');
    dt_status status = fake.beat_status;
    pthread_mutex_unlock(&fake.lock);
    return status == DT_OK ? DT_OK : dt_fail(err, status, "away");
}

dt_status dt_store_index_debts(dt_store *, struct dt_index_debts *out, struct dt_error *err)
{
    pthread_mutex_lock(&fake.lock);
    *out = fake.debts;
    fake.asked++;
    write_down('d');
    dt_status status = fake.debts_status;
    pthread_mutex_unlock(&fake.lock);
    return status == DT_OK ? DT_OK : dt_fail(err, status, "away");
}

dt_status dt_store_put_stuck(dt_store *, int64_t process, const char *chore, int64_t seconds, struct dt_error *)
{
    assert_int_equal(process, 7);
    assert_true(!chore || seconds >= 60);
    pthread_mutex_lock(&fake.lock);
    fake.stuck = chore;
    fake.stuck_puts++;
    pthread_mutex_unlock(&fake.lock);
    return DT_OK;
}

/* ---- the process ---- */

static unsigned shards(void *arg)
{
    assert_ptr_equal(arg, &fake);
    return SHARDS;
}

static bool state_of(void *arg, unsigned shard, struct dt_loop_state *out)
{
    assert_ptr_equal(arg, &fake);
    pthread_mutex_lock(&fake.lock);
    *out = fake.states[shard];
    bool there = fake.there[shard];
    pthread_mutex_unlock(&fake.lock);
    return there;
}

static void doubt(void *arg)
{
    assert_ptr_equal(arg, &fake);
    pthread_mutex_lock(&fake.lock);
    fake.doubts++;
    write_down('!');
    pthread_mutex_unlock(&fake.lock);
}

static void announce(void *arg)
{
    assert_ptr_equal(arg, &fake);
    pthread_mutex_lock(&fake.lock);
    fake.announced++;
    write_down('a');
    pthread_mutex_unlock(&fake.lock);
}

static char endpoints[] = "a:1,b:1", none[] = "";
static struct dt_config config = {.redis_endpoints = endpoints};

static _Atomic bool kafka_away;

static const struct dt_process_env *env(void)
{
    static struct dt_process_env made;
    made = (struct dt_process_env){.urgent = urgent,
                                   .config = &config,
                                   .clock = &hand_clock,
                                   .chores = urgent,
                                   .owner = "host:1",
                                   .process = 7,
                                   .kafka_away = &kafka_away,
                                   .arg = &fake,
                                   .shards = shards,
                                   .state = state_of,
                                   .doubt = doubt,
                                   .announce = announce};
    return &made;
}

static void start(void)
{
    const struct dt_chores_env runtime = {.name = "urgent", .threads = 1, .clock = &hand_clock};
    assert_int_equal(dt_chores_start(&runtime, &urgent, NULL), DT_OK);
    assert_int_equal(dt_heartbeat_start(env(), &heartbeat), DT_OK);
}

static void make(void)
{
    config.redis_endpoints = endpoints;
    fake.row[0] = '\0';
    memset(fake.order, 0, sizeof(fake.order));
    memset(fake.states, 0, sizeof(fake.states));
    memset(fake.there, 0, sizeof(fake.there));
    fake.debts = (struct dt_index_debts){0};
    fake.beat_status = fake.debts_status = DT_OK;
    fake.beats = fake.asked = fake.doubts = fake.announced = 0;
}

static void stop(void)
{
    dt_heartbeat_stop(heartbeat);
    heartbeat = NULL;
    dt_chores_stop(urgent);
    urgent = NULL;
}

#define FRESH_TEST(name) TEST_WITH(name, make, stop)

static unsigned value_of(const unsigned *number)
{
    pthread_mutex_lock(&fake.lock);
    unsigned is = *number;
    pthread_mutex_unlock(&fake.lock);
    return is;
}

/* Moves the clock until the number is at least that. */
static void await(const unsigned *number, unsigned wanted)
{
    AWAIT(value_of(number) >= wanted || (pass(5000), false));
}

/* What is there now has been seen by the second look, which is over before the third. */
static void let_it_look(void)
{
    for (int i = 0; i < 3; i++) {
        unsigned asked = value_of(&fake.asked);
        dt_heartbeat_news(heartbeat);
        await(&fake.asked, asked + 1);
    }
}

static bool is_row(const char *wanted)
{
    pthread_mutex_lock(&fake.lock);
    bool is = strcmp(fake.row, wanted) == 0;
    pthread_mutex_unlock(&fake.lock);
    return is;
}

static void await_row(const char *wanted)
{
    AWAIT_OR(is_row(wanted) || (pass(5000), false), print_error("%s instead of %s\n", fake.row, wanted));
}

static void set_state(unsigned shard, bool leading, const char *waiting)
{
    pthread_mutex_lock(&fake.lock);
    fake.there[shard] = true;
    fake.states[shard] = (struct dt_loop_state){.leading = leading, .waiting = waiting};
    pthread_mutex_unlock(&fake.lock);
}

static void end_loop(unsigned shard)
{
    pthread_mutex_lock(&fake.lock);
    fake.there[shard] = false;
    pthread_mutex_unlock(&fake.lock);
}

static void set_debts(const char *down, uint64_t losses)
{
    pthread_mutex_lock(&fake.lock);
    snprintf(fake.debts.down, sizeof(fake.debts.down), "%s", down);
    fake.debts.losses = losses;
    pthread_mutex_unlock(&fake.lock);
}

/* ---- the tests ---- */

FRESH_TEST(a_process_reports_what_it_leads_and_what_its_leaders_wait_for)
{
    start();
    await_row("7 dispatcher host:1 down= losses=0 leads= waits=");
    set_state(1, true, NULL);
    set_state(2, false, NULL);
    set_state(4, true, "kafka");
    dt_heartbeat_news(heartbeat);
    await_row("7 dispatcher host:1 down= losses=0 leads=1,4 waits=kafka elected_by=mysql");
    set_state(4, true, "redis");
    dt_heartbeat_news(heartbeat);
    await_row("7 dispatcher host:1 down= losses=0 leads=1,4 waits=redis elected_by=mysql");
    set_state(2, false, "kafka"); /* it would lead */
    dt_heartbeat_news(heartbeat);
    await_row("7 dispatcher host:1 down= losses=0 leads=1,4 waits=kafka,redis elected_by=mysql");
    for (unsigned i = 0; i < SHARDS; i++)
        set_state(i, false, NULL);
    dt_heartbeat_news(heartbeat);
    await_row("7 dispatcher host:1 down= losses=0 leads= waits= elected_by=mysql");
}

/* One that cannot take over, as somebody else takes over in turn, is elected nevertheless. */
FRESH_TEST(a_process_reports_that_it_is_elected_from_its_first_shard_to_its_last)
{
    start();
    await_row("7 dispatcher host:1 down= losses=0 leads= waits=");
    set_state(2, false, NULL);
    set_state(3, false, NULL);
    dt_heartbeat_news(heartbeat);
    await_row("7 dispatcher host:1 down= losses=0 leads= waits= elected_by=mysql");
    end_loop(2);
    dt_heartbeat_news(heartbeat);
    let_it_look();
    await_row("7 dispatcher host:1 down= losses=0 leads= waits= elected_by=mysql");
    end_loop(3);
    dt_heartbeat_news(heartbeat);
    await_row("7 dispatcher host:1 down= losses=0 leads= waits=");
}

FRESH_TEST(a_stopping_process_reports_that_it_is_not_elected)
{
    start();
    set_state(3, true, NULL);
    dt_heartbeat_news(heartbeat);
    await_row("7 dispatcher host:1 down= losses=0 leads=3 waits= elected_by=mysql");
    end_loop(3);
    stop();
    assert_string_equal(fake.row, "7 dispatcher host:1 down= losses=0 leads= waits=");
}

FRESH_TEST(news_is_written_at_once_and_otherwise_once_a_second)
{
    start();
    await(&fake.beats, 1);
    for (unsigned i = 0; i < 8; i++) {
        unsigned beats = value_of(&fake.beats);
        dt_heartbeat_news(heartbeat);
        AWAIT(value_of(&fake.beats) > beats || (pass(hand_due_in()), false)); /* never waits in real time */
    }
    await(&fake.beats, value_of(&fake.beats) + 1); /* of something that was on its way */
    unsigned beats = value_of(&fake.beats);
    int64_t begin_us = hand_us;
    await(&fake.asked, value_of(&fake.asked) + 5); /* others are looked at more often */
    assert_true(value_of(&fake.beats) <= beats + 1 + (unsigned)((hand_us - begin_us) / SECOND));
    await(&fake.beats, beats + 2); /* without news */
}

FRESH_TEST(a_loss_is_doubted_before_it_is_written_and_announced_after_it)
{
    start();
    let_it_look();
    assert_int_equal(value_of(&fake.doubts), 0);
    pthread_mutex_lock(&fake.lock);
    memset(fake.order, 0, sizeof(fake.order));
    pthread_mutex_unlock(&fake.lock);
    dt_heartbeat_lost(heartbeat, "a:1");
    await(&fake.announced, 1);
    pthread_mutex_lock(&fake.lock);
    const char *from = strchr(fake.order, '!');
    bool right = from && strncmp(from, "!bda", 4) == 0;
    pthread_mutex_unlock(&fake.lock);
    assert_true(right);
    await_row("7 dispatcher host:1 down=a:1 losses=1 leads= waits=");
    let_it_look();
    assert_int_equal(value_of(&fake.doubts), 1);
    assert_int_equal(value_of(&fake.announced), 1);
}

FRESH_TEST(endpoints_with_losses_are_reported_until_losses_stop)
{
    start();
    dt_heartbeat_lost(heartbeat, "a:1");
    dt_heartbeat_lost(heartbeat, "a:1");
    await_row("7 dispatcher host:1 down=a:1 losses=2 leads= waits=");
    int64_t begin_us = hand_us;
    dt_heartbeat_lost(heartbeat, "b:1");
    await_row("7 dispatcher host:1 down=* losses=3 leads= waits=");
    dt_heartbeat_lost(heartbeat, "a:1"); /* of all of them */
    await_row("7 dispatcher host:1 down=* losses=4 leads= waits=");
    await_row("7 dispatcher host:1 down= losses=4 leads= waits=");
    assert_true(hand_us - begin_us >= 3 * SECOND);
    dt_heartbeat_lost(heartbeat, "");
    await_row("7 dispatcher host:1 down=* losses=5 leads= waits=");
}

FRESH_TEST(a_process_without_an_index_reports_all_endpoints_down)
{
    config.redis_endpoints = none;
    set_debts("*", 5);
    start();
    await_row("7 dispatcher host:1 down=* losses=0 leads= waits=");
    await(&fake.beats, 3);
    await_row("7 dispatcher host:1 down=* losses=0 leads= waits=");
    assert_int_equal(value_of(&fake.asked), 0);
    assert_int_equal(value_of(&fake.doubts), 0);
}

FRESH_TEST(down_endpoints_match_by_their_whole_name)
{
    start();
    let_it_look();
    assert_false(dt_heartbeat_owed(heartbeat, "a:1"));
    set_debts("a:1,cc:22", 0);
    let_it_look();
    assert_true(dt_heartbeat_owed(heartbeat, "a:1"));
    assert_true(dt_heartbeat_owed(heartbeat, "cc:22"));
    assert_false(dt_heartbeat_owed(heartbeat, "b:1"));
    assert_false(dt_heartbeat_owed(heartbeat, "a:11"));
    assert_false(dt_heartbeat_owed(heartbeat, "a"));
    assert_false(dt_heartbeat_owed(heartbeat, "c:22"));
    set_debts("*", 0);
    let_it_look();
    assert_true(dt_heartbeat_owed(heartbeat, "b:1"));
    set_debts("", 0);
    let_it_look();
    assert_false(dt_heartbeat_owed(heartbeat, "a:1"));
}

FRESH_TEST(leaders_doubt_the_index_exactly_when_other_rows_change)
{
    static const struct {
        const char *down;
        uint64_t losses;
        bool news;
    } rows[] = {{"", 0, false},   {"", 5, true},    {"", 5, false},    {"a:1", 5, true}, {"a:1", 5, false},
                {"b:1", 5, true}, {"b:1", 6, true}, {"b:1", 6, false}, {"", 6, true},    {"", 6, false}};
    unsigned doubts = 0;
    start();
    let_it_look();
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        set_debts(rows[i].down, rows[i].losses);
        let_it_look();
        doubts += rows[i].news;
        if (value_of(&fake.doubts) != doubts)
            fail_msg("row %zu: %u doubts, and not %u", i, value_of(&fake.doubts), doubts);
    }
}

FRESH_TEST(an_unreadable_table_changes_nothing_and_is_read_again)
{
    start();
    set_debts("a:1", 3);
    let_it_look();
    unsigned doubts = value_of(&fake.doubts);
    pthread_mutex_lock(&fake.lock);
    fake.debts_status = DT_UNAVAILABLE;
    pthread_mutex_unlock(&fake.lock);
    set_debts("", 9);
    let_it_look();
    assert_true(dt_heartbeat_owed(heartbeat, "a:1"));
    assert_int_equal(value_of(&fake.doubts), doubts);
    pthread_mutex_lock(&fake.lock);
    fake.debts_status = DT_OK;
    fake.beat_status = DT_UNAVAILABLE;
    pthread_mutex_unlock(&fake.lock);
    dt_heartbeat_lost(heartbeat, "c:1"); /* is announced all the same */
    await(&fake.announced, 1);
    await(&fake.beats, value_of(&fake.beats) + 1);
    pthread_mutex_lock(&fake.lock);
    fake.beat_status = DT_OK;
    pthread_mutex_unlock(&fake.lock);
    let_it_look();
    assert_false(dt_heartbeat_owed(heartbeat, "a:1"));
}

/* ---- ticks that do not return ---- */

static _Atomic bool returns;

static int64_t stuck_tick(void *, void *)
{
    AWAIT(returns);
    return INT64_MAX;
}

FRESH_TEST(a_hanging_tick_is_reported_after_a_minute_until_it_returns)
{
    const struct dt_chores_env runtime = {.name = "chores", .threads = 1, .clock = &hand_clock};
    struct dt_chore chore = {.name = "stuck", .tick = stuck_tick};
    struct dt_process_env watches = *env();
    dt_chores *chores;
    returns = false;
    fake.stuck_puts = 0;
    assert_int_equal(dt_chores_start(&runtime, &chores, NULL), DT_OK);
    start();
    watches.urgent = urgent;
    dt_heartbeat_stop(heartbeat);
    watches.chores = chores;
    assert_int_equal(dt_heartbeat_start(&watches, &heartbeat), DT_OK);
    const char *name;
    dt_chores_add(chores, &chore);
    AWAIT((pass(1000), dt_chores_longest_us(chores, &name) > 0));
    unsigned beats = value_of(&fake.beats);
    pass(57 * SECOND);
    /* A beat during the pass may have looked before it. The clock moves only while the heartbeat sleeps, so the next two
     * beats take little more than two seconds. */
    AWAIT(value_of(&fake.beats) > beats + 1 || (pass(hand_due_in()), false));
    assert_int_equal(fake.stuck_puts, 0);
    pass(4 * SECOND);
    AWAIT(fake.stuck || (pass(1000), false));
    assert_string_equal(fake.stuck, "stuck");
    returns = true;
    AWAIT(!fake.stuck || (pass(1000), false));
    assert_int_equal(fake.stuck_puts, 2); /* only changes are written */
    dt_chore_remove(&chore);
    dt_heartbeat_stop(heartbeat);
    heartbeat = NULL;
    dt_chores_stop(chores);
}

FRESH_TEST(without_a_heartbeat_calls_do_nothing)
{
    dt_heartbeat_lost(NULL, "a:1");
    dt_heartbeat_news(NULL);
    assert_false(dt_heartbeat_owed(NULL, "a:1"));
    dt_heartbeat_stop(NULL);
}
