#include "support/elector_suite.h"
#include "support/redis_fixture.h"

#include <unistd.h>

struct player players[ELECTORS];
_Atomic int overlaps;
char installation[64];
const dt_clock *players_clock;
_Atomic bool players_hear;
bool players_look;
int timeout_ms;
void (*player_gains)(struct player *player, unsigned shard);
static _Atomic int leader_of[SHARDS * 2]; /* player's number + 1; 0 = nobody */
static const struct elector_world *world;
static struct dt_config configs[ELECTORS];
/* Electors that other threads may query: neither starting nor stopping. */
static pthread_mutex_t shown_lock = PTHREAD_MUTEX_INITIALIZER;
static dt_elector *shown[ELECTORS];

int64_t now_us(void)
{
    return dt_clock_mono_us(dt_clock_system());
}

/* libzookeeper forgets, once in a great many times, a completion that its threads queue while a handle is closed whose
 * server is gone; what the elector itself would leak is still told. */
const char *__lsan_default_suppressions(void);
STUB(const char *, __lsan_default_suppressions, (void), "leak:libzookeeper_mt")

/* ---- what the electors say ---- */

/* If a player was held up past its lease, it leads no longer, even if it could not report that yet. */
static bool still_leads(int number, unsigned shard)
{
    pthread_mutex_lock(&shown_lock);
    const bool leads = shown[number] == NULL || dt_elector_leads(shown[number], shard);
    pthread_mutex_unlock(&shown_lock);
    return leads;
}

static void on_gained(void *arg, unsigned shard)
{
    struct player *p = arg;
    if (player_gains)
        player_gains(p, shard);
    int before = atomic_exchange(&leader_of[shard], p->number + 1);
    if (before != 0 && still_leads(before - 1, shard))
        atomic_fetch_add(&overlaps, 1);
    atomic_store(&p->leads[shard], true);
    atomic_store(&p->gained_us, now_us());
    atomic_fetch_add(&p->gained, 1);
}

void let_go(struct player *p, unsigned shard)
{
    int me = p->number + 1;
    atomic_store(&p->leads[shard], false);
    atomic_compare_exchange_strong(&leader_of[shard], &me, 0);
}

static void on_lost(void *arg, unsigned shard)
{
    struct player *p = arg;
    let_go(p, shard);
    atomic_store(&p->lost_us, now_us());
    atomic_fetch_add(&p->lost, 1);
}

static void on_release(void *arg, unsigned shard)
{
    struct player *p = arg;
    atomic_store(&p->asked[shard], true);
    if (atomic_load(&p->keep))
        return;
    let_go(p, shard);
    atomic_store(&p->asked[shard], false);
    dt_elector_released(p->elector, shard);
}

static void on_want(void *arg, unsigned shard, enum dt_loop_want want)
{
    (want == DT_WANT_LEAD ? on_gained : want == DT_WANT_RELEASE ? on_release : on_lost)(arg, shard);
}

static void on_moved(void *arg)
{
    pthread_mutex_lock(&shown_lock);
    for (int i = 0; atomic_load(&players_hear) && i < ELECTORS; i++) {
        if (&players[i] != arg && shown[i] != NULL)
            dt_elector_news(shown[i]);
    }
    pthread_mutex_unlock(&shown_lock);
}

/* ---- players ---- */

static void show(int number, dt_elector *elector)
{
    pthread_mutex_lock(&shown_lock);
    shown[number] = elector;
    pthread_mutex_unlock(&shown_lock);
}

struct player *start_with(int number, const struct dt_config *config)
{
    struct player *p = &players[number];
    const struct dt_elector_events events = {.arg = p, .want = on_want, .moved = on_moved};
    struct dt_error err = {0};
    char owner[32];
    memset(p, 0, sizeof(*p));
    p->number = number;
    snprintf(owner, sizeof(owner), "host:%d", number);
    p->hasty = dt_lease_config(config);
    p->store.config = &p->hasty;
    if (dt_store_chores_start(&p->store, players_clock, "urgent", 1, &p->urgent, &err) != DT_OK)
        fail_msg("%s", err.text);
    const struct dt_elector_env env = {.urgent = p->urgent,
                                       .config = config,
                                       .installation = installation,
                                       .shards = SHARDS,
                                       .owner = owner,
                                       .clock = players_clock,
                                       .events = events};
    if (dt_elector_start(&env, &p->elector, &err) != DT_OK)
        fail_msg("%s", err.text);
    show(number, p->elector);
    return p;
}

struct player *start(int number)
{
    configs[number] = *world->config();
    configs[number].zookeeper_session_timeout = timeout_ms;
    return start_with(number, &configs[number]);
}

void impatient(void)
{
    timeout_ms = TIMEOUT_MS;
    players_look = false;
}

void stop(struct player *p)
{
    show(p->number, NULL);
    dt_elector_stop(p->elector);
    p->elector = NULL;
    dt_chores_stop(p->urgent);
    p->urgent = NULL;
}

int led_by(const struct player *p)
{
    int n = 0;
    for (unsigned s = 0; s < SHARDS * 2; s++)
        n += atomic_load(&p->leads[s]);
    return n;
}

int gains(void)
{
    int n = 0;
    for (int i = 0; i < ELECTORS; i++)
        n += atomic_load(&players[i].gained);
    return n;
}

void look(void)
{
    for (int i = 0; players_look && i < ELECTORS; i++)
        if (players[i].elector != NULL)
            dt_elector_news(players[i].elector);
}

bool lead_this_many(const int *want)
{
    for (int i = 0; i < ELECTORS && want[i] >= 0; i++) {
        if (led_by(&players[i]) != want[i]) {
            look();
            return false;
        }
    }
    return true;
}

static bool asked_for_one(const struct player *p)
{
    look();
    for (unsigned s = 0; s < SHARDS; s++) {
        if (atomic_load(&p->asked[s]))
            return true;
    }
    return false;
}

/* ---- a player in a process of its own ---- */

static _Thread_local int64_t ahead_us;

static int64_t mono_us_ahead(const dt_clock *)
{
    return now_us() + ahead_us;
}

static int64_t system_real_ms(const dt_clock *)
{
    return dt_clock_real_ms(dt_clock_system());
}

/* Reports that it leads, and on each request until when. */
static void lead_until_killed(int ask, int answer)
{
    static const dt_clock clock = {.mono_us = mono_us_ahead, .real_ms = system_real_ms};
    int64_t until_us;
    char c;
    players_clock = &clock;
    struct player *p = start(0);
    while (led_by(p) != SHARDS)
        wait_a_moment();
    do {
        /* Uses only this thread's clock, which runs ahead until the elector says no. */
        until_us = 0;
        for (ahead_us = 0; dt_elector_leads(p->elector, 0); ahead_us += 1000)
            until_us = now_us() + ahead_us;
        ahead_us = 0;
        (void)!write(answer, &until_us, sizeof(until_us));
    } while (read(ask, &c, 1) == 1);
    _exit(0);
}

void other_process_start(struct other_process *other)
{
    int ask[2], answer[2];
    int64_t until_us;
    assert_int_equal(pipe(ask), 0);
    assert_int_equal(pipe(answer), 0);
    other->pid = fork();
    assert_true(other->pid >= 0);
    if (other->pid == 0) {
        close(ask[1]);
        lead_until_killed(ask[0], answer[1]);
    }
    close(ask[0]);
    close(answer[1]);
    other->ask = ask[1];
    other->answer = answer[0];
    assert_int_equal(read(other->answer, &until_us, sizeof(until_us)), sizeof(until_us));
}

int64_t other_process_leads_until(const struct other_process *other)
{
    int64_t until_us = 0;
    assert_int_equal(write(other->ask, "?", 1), 1);
    assert_int_equal(read(other->answer, &until_us, sizeof(until_us)), sizeof(until_us));
    return until_us;
}

void other_process_kill(struct other_process *other)
{
    kill(other->pid, SIGKILL);
    waitpid(other->pid, NULL, 0);
    close(other->ask);
    close(other->answer);
}

/* ---- set up ---- */

static void prepare(void)
{
    world->prepare();
}

static void remove_world(void)
{
    world->remove();
}

void elector_fresh(void)
{
    redis_fixture_name(installation, sizeof(installation), "elector");
    memset(players, 0, sizeof(players));
    for (unsigned s = 0; s < SHARDS * 2; s++)
        atomic_store(&leader_of[s], 0);
    atomic_store(&overlaps, 0);
    players_clock = dt_clock_system();
    atomic_store(&players_hear, false);
    players_look = true;
    timeout_ms = PATIENT_MS;
    player_gains = NULL;
    world->fresh();
}

void elector_quit(void)
{
    for (int i = 0; i < ELECTORS; i++) {
        if (players[i].elector != NULL)
            stop(&players[i]);
    }
}

/* ---- tests ---- */

static bool knows_two_others(const struct player *p)
{
    unsigned rank, members;
    look();
    return dt_elector_rank(p->elector, &rank, &members) && members == 3;
}

ELECTOR_TEST(a_join_moves_only_the_shards_of_the_new_member)
{
    unsigned rank, members;
    start(0);
    AWAIT_SPLIT(4);
    int before = gains();
    start(1);
    AWAIT_SPLIT(2, 2);
    assert_int_equal(gains() - before, 2);
    before = gains();
    start(2);
    AWAIT_SPLIT(2, 1, 1);
    assert_int_equal(gains() - before, 1);
    for (unsigned i = 0; i < 3; i++) {
        AWAIT(knows_two_others(&players[i])); /* a shard may move before all players have looked */
        assert_true(dt_elector_rank(players[i].elector, &rank, &members));
        assert_int_equal(rank, i);
        assert_int_equal(members, 3);
    }
    assert_int_equal(overlaps, 0);
}

ELECTOR_TEST(a_leaving_member_hands_over_at_once)
{
    start(0);
    AWAIT_SPLIT(4);
    start(1);
    AWAIT_SPLIT(2, 2);
    int before = gains();
    int64_t begin_us = now_us();
    dt_elector_leave(players[0].elector);
    AWAIT_SPLIT(0, 4);
    assert_true(now_us() - begin_us < PATIENT_MS * INT64_C(1000)); /* no player waits for a session to expire */
    assert_int_equal(gains() - before, 2);
    AWAIT(dt_elector_idle(players[0].elector));
    assert_int_equal(overlaps, 0);
}

ELECTOR_TEST(a_shard_is_not_taken_before_its_release)
{
    struct player *first = start(0);
    AWAIT_SPLIT(4);
    atomic_store(&first->keep, true);
    start(1);
    AWAIT(asked_for_one(first));
    for (int i = 0; i < 50; i++) { /* it must not happen, so there is no condition to wait for */
        assert_false(asked_for_one(&players[1]));
        assert_int_equal(led_by(&players[1]), 0);
        assert_int_equal(led_by(first), 4);
        wait_a_moment();
    }
    for (unsigned s = 0; s < SHARDS; s++) {
        assert_true(dt_elector_leads(first->elector, s)); /* ours until we say that we have stopped */
        if (atomic_load(&first->asked[s])) {
            let_go(first, s);
            dt_elector_released(first->elector, s);
        }
    }
    AWAIT_SPLIT(2, 2);
    assert_int_equal(overlaps, 0);
}

/* The process dies with its session open: only the timeout frees its shards. */
ELECTOR_TEST(a_killed_process_is_replaced_after_the_timeout)
{
    struct other_process other;
    impatient();
    other_process_start(&other);
    start(1);
    AWAIT_SPLIT(0, 2); /* the child hands over two to the new member */
    other_process_kill(&other);
    AWAIT_SPLIT(0, 4);
}

static void sleep_until(int64_t until_us)
{
    while (now_us() < until_us)
        wait_a_moment();
}

/* A notification may come late, but a query returns the truth from the clock alone. */
static void assert_lease_over(const struct player *p, int64_t since_us)
{
    sleep_until(since_us + LEASE_MS * INT64_C(1000));
    for (unsigned s = 0; s < SHARDS; s++)
        assert_false(dt_elector_leads(p->elector, s));
    AWAIT(led_by(p) == 0);
}

ELECTOR_TEST(shards_are_lost_within_two_thirds_of_the_timeout_when_the_server_hangs)
{
    impatient();
    struct player *p = start(0);
    AWAIT_SPLIT(4);
    world->pause();
    assert_lease_over(p, now_us());
    assert_true(dt_elector_idle(p->elector));
    world->resume();
    AWAIT_SPLIT(4);
    assert_int_equal(overlaps, 0);
}

ELECTOR_TEST(after_a_restart_of_the_server_leaders_return)
{
    impatient();
    start(0);
    start(1);
    AWAIT_SPLIT(2, 2);
    world->kill();
    int64_t killed_us = now_us();
    assert_lease_over(&players[0], killed_us);
    assert_lease_over(&players[1], killed_us);
    world->start();
    AWAIT_SPLIT(2, 2);
    assert_int_equal(overlaps, 0);
}

ELECTOR_TEST(a_member_that_starts_before_the_server_leads_when_it_is_up)
{
    world->kill();
    start(0);
    world->start();
    AWAIT_SPLIT(4);
}

ELECTOR_TEST(leaving_does_not_wait_for_an_unreachable_server)
{
    struct player *p = start(0);
    AWAIT_SPLIT(4);
    world->kill();
    dt_elector_leave(p->elector);
    AWAIT(dt_elector_idle(p->elector));
    assert_int_equal(p->lost, 0); /* released, not lost because of a missing answer */
    stop(p);
    world->start();
}

ELECTOR_TEST(a_new_number_of_shards_is_shared_out)
{
    start(0);
    AWAIT_SPLIT(4);
    start(1);
    AWAIT_SPLIT(2, 2);
    dt_elector_set_shards(players[0].elector, 7);
    dt_elector_set_shards(players[1].elector, 7);
    AWAIT_SPLIT(4, 3);
    dt_elector_set_shards(players[0].elector, 3);
    dt_elector_set_shards(players[1].elector, 3);
    AWAIT_SPLIT(2, 1);
    assert_int_equal(overlaps, 0);
}

ELECTOR_TEST(a_process_that_was_stopped_past_its_lease_does_not_lead)
{
    struct other_process other;
    impatient();
    other_process_start(&other);
    stop_child(other.pid);
    int64_t until_us = now_us() + LEASE_MS * INT64_C(1000);
    world->pause(); /* otherwise an answer could arrive before the request */
    sleep_until(until_us);
    assert_int_equal(kill(other.pid, SIGCONT), 0);
    assert_int_equal(other_process_leads_until(&other), 0);
    other_process_kill(&other);
    world->resume();
}

/* The holder says so itself: at the moment when it goes on, long after another one began to lead. */
ELECTOR_TEST(a_holder_that_is_stopped_past_its_timeout_has_stepped_down_before_another_leads)
{
    struct other_process other;
    impatient();
    other_process_start(&other);
    int64_t until_us = other_process_leads_until(&other); /* at least */
    stop_child(other.pid);
    start(1);
    AWAIT_SPLIT(0, 4);
    assert_true(atomic_load(&players[1].gained_us) >= until_us);
    assert_int_equal(kill(other.pid, SIGCONT), 0);
    assert_int_equal(other_process_leads_until(&other), 0);
    other_process_kill(&other);
}

static int64_t real_ms_that_jumps(const dt_clock *)
{
    static _Atomic int calls;
    return dt_clock_real_ms(dt_clock_system()) + (atomic_fetch_add(&calls, 1) % 2 ? 3600000 : -3600000);
}

static int64_t system_mono_us(const dt_clock *)
{
    return now_us();
}

ELECTOR_TEST(setting_the_hosts_clock_moves_no_shard)
{
    static const dt_clock jumping = {.mono_us = system_mono_us, .real_ms = real_ms_that_jumps};
    players_clock = &jumping;
    start(0);
    start(1);
    AWAIT_SPLIT(2, 2);
    const int before = gains();
    for (const int64_t until_us = now_us() + 1000000; now_us() < until_us; wait_a_moment())
        look(); /* nothing may happen meanwhile */
    assert_int_equal(gains(), before);
    assert_int_equal(players[0].lost + players[1].lost, 0);
    assert_int_equal(overlaps, 0);
}

ELECTOR_TEST(the_rank_is_unknown_until_the_server_answers_and_is_kept_during_an_outage)
{
    unsigned rank = 9, members = 9;
    impatient();
    world->kill();
    struct player *p = start(0);
    assert_false(dt_elector_rank(p->elector, &rank, &members));
    world->start();
    AWAIT(dt_elector_rank(p->elector, &rank, &members));
    AWAIT_SPLIT(4);
    world->kill();
    AWAIT(led_by(p) == 0);
    assert_true(dt_elector_rank(p->elector, &rank, &members));
    assert_int_equal(rank, 0);
    assert_int_equal(members, 1);
    world->start();
    AWAIT_SPLIT(4);
}

/* ---- all of them ---- */

int elector_suite_run(const struct elector_world *of)
{
    world = of;
    return suite_run(prepare, remove_world);
}
