/* What the index is told after a claim or a settlement, in which order, and who hears when it cannot be told. The index
 * is a fake that writes down what it is told; it fails at a call that the test names. */

#include "support/suite.h"

#include "shard/shard_parts.h"

#define NOW     INT64_C(1000000)
#define HORIZON INT64_C(60000)
#define SHARD   3u
#define SHARDS  8u

static struct {
    char told[2000];
    int calls, fail_at; /* the call that fails; 0: none */
    char untold_arg;    /* its address is the environment's arg */
    char index;         /* and this one's the index */
    int untold, doubted;
} fake;

static struct dt_config config;
static struct dt_process_env env;
static dt_shard_loop *l;

/* ---- the index ---- */

static void write_down(const char *fmt, ...) DT_PRINTF(1, 2);
static void write_down(const char *fmt, ...)
{
    size_t n = strlen(fake.told);
    va_list args;
    va_start(args, fmt);
    vsnprintf(fake.told + n, sizeof(fake.told) - n, fmt, args);
    va_end(args);
}

static dt_status end_call(const dt_index *index, struct dt_error *err)
{
    assert_ptr_equal(index, &fake.index);
    write_down("\n");
    return ++fake.calls == fake.fail_at ? dt_fail(err, DT_UNAVAILABLE, "read-only") : DT_OK;
}

static void write_entries(const struct dt_entry *entries, size_t n)
{
    for (size_t i = 0; i < n; i++)
        write_down(" %lld@%lld", (long long)entries[i].id, (long long)entries[i].due_ms);
}

dt_status dt_index_put(dt_index *index, const struct dt_shard_map *map, const struct dt_entry *entries, size_t n,
                       int64_t horizon_end_ms, bool wake, struct dt_error *err)
{
    assert_ptr_equal(map, &l->trust.map);
    write_down("put%s below %lld:", wake ? " and wake" : "", (long long)horizon_end_ms);
    for (size_t i = 0; i < n; i++)
        write_down(" %lld@%lld was %lld", (long long)entries[i].id, (long long)entries[i].due_ms,
                   (long long)entries[i].was_ms);
    return end_call(index, err);
}

dt_status dt_index_fill(dt_index *index, const struct dt_shard_map *map, const struct dt_entry *entries, size_t n,
                        struct dt_error *err)
{
    assert_ptr_equal(map, &l->trust.map);
    write_down("fill");
    write_entries(entries, n);
    return end_call(index, err);
}

dt_status dt_index_wake(dt_index *index, unsigned shard, bool outbox, struct dt_error *err)
{
    write_down("wake %u%s", shard, outbox ? " for its outbox" : "");
    return end_call(index, err);
}

dt_status dt_index_tell_offers(dt_index *index, unsigned shard, const struct dt_str *topics, size_t n,
                               struct dt_error *err)
{
    write_down("offers of %.*s at %u, %zu topics", (int)topics->n, topics->p, shard, n);
    return end_call(index, err);
}

dt_status dt_index_hold(dt_index *index, unsigned shard, struct dt_str topic, const struct dt_entry *entries, size_t n,
                        struct dt_error *err)
{
    assert_int_equal(shard, SHARD);
    write_down("hold %.*s", (int)topic.n, topic.p);
    write_entries(entries, n);
    return end_call(index, err);
}

dt_status dt_index_fix(dt_index *index, unsigned shard, const struct dt_fix *fixes, size_t n, struct dt_error *err)
{
    assert_int_equal(shard, SHARD);
    write_down("fix");
    for (size_t i = 0; i < n; i++)
        write_down(" %lld@%lld>%lld", (long long)fixes[i].id, (long long)fixes[i].seen_ms, (long long)fixes[i].due_ms);
    return end_call(index, err);
}

dt_status dt_index_drop(dt_index *index, unsigned shard, struct dt_error *err)
{
    write_down("drop %u", shard);
    return end_call(index, err);
}

/* ---- the loop ---- */

void dt_shard_note_held(dt_shard_loop *loop, struct dt_str name, enum dt_closed closed)
{
    assert_ptr_equal(loop, l);
    write_down("held %.*s%s\n", (int)name.n, name.p, dt_closed_rule(closed).holds ? "" : " open");
}

enum dt_closed dt_shard_why_left(const dt_shard_loop *loop, struct dt_str topic)
{
    assert_ptr_equal(loop, l);
    return topic.p[0] == 'a' ? DT_CLOSED_PAUSED : DT_CLOSED_UNWRITABLE;
}

void dt_shard_mark_soon(dt_shard_loop *loop)
{
    loop->trust.marked_us = 0;
}

void dt_shard_doubt_index(dt_shard_loop *loop)
{
    assert_ptr_equal(loop, l);
    fake.doubted++;
}

static void untold(void *arg, const dt_index *index)
{
    assert_ptr_equal(arg, &fake.untold_arg);
    assert_ptr_equal(index, &fake.index);
    fake.untold++;
}

STUB(static int64_t, mono_us, (const dt_clock *clock), 5000000)
STUB(static int64_t, real_ms, (const dt_clock *clock), NOW)

static const dt_clock stopped_clock = {.mono_us = mono_us, .real_ms = real_ms};
static dt_refclock ref;

static void make(void)
{
    memset(&fake, 0, sizeof(fake));
    l = calloc(1, sizeof(*l));
    assert_non_null(l);
    config.index_horizon = HORIZON;
    dt_refclock_init(&ref, &stopped_clock);
    env = (struct dt_process_env){
        .config = &config, .clock = &stopped_clock, .ref = &ref, .arg = &fake.untold_arg, .index_entries_lost = untold};
    l->env = &env;
    l->shard = SHARD;
    l->index = (dt_index *)&fake.index;
    l->trust.up = true;
    l->trust.marked_us = 7;
    dt_shard_map_init(&l->trust.map, 1, SHARDS);
}

static void drop(void)
{
    dt_arena_clear(&l->arena);
    free(l);
}

#define FRESH_TEST(name) TEST_WITH(name, make, drop)

static void tell(struct dt_seen *seen, size_t n, struct dt_seen *moved, size_t n_moved)
{
    struct dt_leader_txn txn = {
        .now_ms = NOW, .seen = {.v = seen, .n = n}, .settled.moved = {.v = moved, .n = n_moved}};
    dt_shard_tell_index(l, &txn);
}

static void assert_told(const char *wanted)
{
    if (strcmp(fake.told, wanted) != 0)
        fail_msg("%s\nand not\n%s", fake.told, wanted);
}

/* An id whose shard is this one, greater than the last one that was given for it. */
static int64_t id_of(unsigned shard, int64_t above)
{
    while (dt_shard_of(&l->trust.map, ++above) != shard)
        ;
    return above;
}

/* ---- the tests ---- */

FRESH_TEST(an_index_entry_moves_to_its_next_time_or_is_removed)
{
    struct dt_seen seen[] = {{.id = 1, .hint_ms = 10, .next_ms = NOW + 5},
                             {.id = 2, .hint_ms = 20},
                             {.id = 3, .hint_ms = 30, .next_ms = NOW + HORIZON - 1},
                             {.id = 4, .hint_ms = 40, .next_ms = NOW + HORIZON}};
    tell(seen, 4, NULL, 0);
    assert_told("fix 1@10>1000005 2@20>0 3@30>1059999 4@40>0\n");
    assert_int_equal(fake.untold + fake.doubted, 0);
    assert_int_equal(l->trust.marked_us, 7);
}

FRESH_TEST(a_single_index_entry_is_updated_too)
{
    struct dt_seen seen[] = {{.id = 1, .hint_ms = 10, .next_ms = NOW}};
    tell(seen, 1, NULL, 0);
    assert_told("fix 1@10>1000000\n");
    fake.told[0] = '\0';
    tell(NULL, 0, seen, 1);
    assert_told("fix 1@10>1000000\n");
}

FRESH_TEST(extended_deadlines_move_after_the_others)
{
    struct dt_seen seen[] = {{.id = 1, .hint_ms = 10, .next_ms = NOW}};
    struct dt_seen moved[] = {{.id = 8, .hint_ms = 80, .next_ms = NOW + 1},
                              {.id = 9, .hint_ms = 90, .next_ms = NOW + HORIZON}};
    tell(seen, 1, moved, 2);
    assert_told("fix 1@10>1000000 8@80>1000001 9@90>0\n");
}

FRESH_TEST(without_changes_or_an_index_nothing_is_updated)
{
    struct dt_seen seen[] = {{.id = 1, .hint_ms = 10, .next_ms = NOW}};
    tell(seen, 0, seen, 0);
    l->trust.up = false;
    tell(seen, 1, NULL, 0);
    assert_told("");
    assert_int_equal(fake.untold + fake.doubted, 0);
}

FRESH_TEST(parked_jobs_are_moved_to_the_set_of_their_topic_in_one_call)
{
    struct dt_seen seen[] = {{.id = 1, .hint_ms = 10, .next_ms = NOW, .hold = DT_STR_LIT("a")},
                             {.id = 2, .hint_ms = 20, .next_ms = NOW, .hold = DT_STR_LIT("b")},
                             {.id = 3, .hint_ms = 30, .next_ms = NOW + 1},
                             {.id = 4, .hint_ms = 40, .next_ms = NOW, .hold = DT_STR_LIT("a")},
                             {.id = 5, .hint_ms = 50, .next_ms = NOW, .hold = DT_STR_LIT("b")}};
    tell(seen, 5, NULL, 0);
    assert_told("hold a 1@10 4@40\nheld a\nhold b 2@20 5@50\nheld b\nfix 3@30>1000001\n");
    fake.told[0] = '\0';
    struct dt_seen alone[] = {{.id = 6, .hint_ms = 60, .next_ms = NOW, .hold = DT_STR_LIT("c")}};
    tell(alone, 1, NULL, 0);
    assert_told("hold c 6@60\nheld c\n");
}

FRESH_TEST(jobs_whose_host_has_no_place_are_parked_apart_from_those_of_other_hosts)
{
    struct dt_seen seen[] = {{.id = 1, .hint_ms = 10, .next_ms = NOW, .hold = DT_STR_LIT("a"), .host = 0xbeef},
                             {.id = 2, .hint_ms = 20, .next_ms = NOW, .hold = DT_STR_LIT("a")},
                             {.id = 3, .hint_ms = 30, .next_ms = NOW, .hold = DT_STR_LIT("a"), .host = 0xffffffff},
                             {.id = 4, .hint_ms = 40, .next_ms = NOW, .hold = DT_STR_LIT("a"), .host = 0xbeef}};
    uint32_t host = 7;
    tell(seen, 4, NULL, 0);
    assert_told(
        "hold a@0000beef 1@10 4@40\nheld a@0000beef\nhold a 2@20\nheld a\nhold a@ffffffff 3@30\nheld a@ffffffff\n");
    assert_true(dt_str_is(dt_held_topic(DT_STR_LIT("a.b@0000beef"), &host), "a.b"));
    assert_int_equal(host, 0xbeef);
    assert_true(dt_str_is(dt_held_topic(DT_STR_LIT("a.b"), &host), "a.b"));
    assert_int_equal(host, 0);
}

FRESH_TEST(an_entry_of_another_shard_is_added_there_before_it_is_removed_here_and_wakes_that_leader)
{
    int64_t soon = id_of(5, 0);
    int64_t later = id_of(6, 0);
    int64_t last = id_of(5, soon);
    int64_t far = id_of(7, 0);
    struct dt_seen seen[] = {{.id = soon, .hint_ms = 10, .next_ms = NOW + 2000, .elsewhere = true},
                             {.id = later, .hint_ms = 20, .next_ms = NOW + 2001, .elsewhere = true},
                             {.id = last, .hint_ms = 30, .next_ms = NOW, .elsewhere = true},
                             {.id = far, .hint_ms = 40, .next_ms = NOW + HORIZON, .elsewhere = true},
                             {.id = 999, .hint_ms = 50, .next_ms = NOW}};
    char wanted[400];
    tell(seen, 5, NULL, 0);
    snprintf(wanted, sizeof(wanted),
             "fill %lld@1002000 %lld@1002001 %lld@1000000\nwake 5\nfix %lld@10>0 %lld@20>0 %lld@30>0 %lld@40>0 "
             "999@50>1000000\n",
             (long long)soon, (long long)later, (long long)last, (long long)soon, (long long)later, (long long)last,
             (long long)far);
    assert_told(wanted);
}

FRESH_TEST(after_a_failed_update_the_index_is_doubted_everywhere)
{
    int64_t elsewhere = id_of(5, 0);
    static const char *const last[] = {"fill", "wake", "hold", "fix"};
    for (int at = 1; at <= 4; at++) {
        struct dt_seen seen[] = {{.id = elsewhere, .hint_ms = 10, .next_ms = NOW, .elsewhere = true},
                                 {.id = 2, .hint_ms = 20, .next_ms = NOW, .hold = DT_STR_LIT("a")},
                                 {.id = 3, .hint_ms = 30, .next_ms = NOW}};
        fake.told[0] = '\0';
        fake.calls = fake.untold = fake.doubted = 0;
        fake.fail_at = at;
        l->trust.marked_us = 7;
        tell(seen, 3, NULL, 0);
        assert_int_equal(fake.calls, at); /* nothing is told after it */
        assert_members(fake, (untold, 1), (doubted, 1));
        assert_int_equal(l->trust.marked_us, 0);
        assert_non_null(strstr(fake.told, last[at - 1]));
        assert_int_equal(strstr(fake.told, "held a") != NULL, at > 3);
    }
}

FRESH_TEST(a_job_that_ended_in_a_takeover_moves_wherever_its_entry_is)
{
    struct dt_settled done = {.next_ms = NOW + 9, .was_ms = {NOW + 1, 0, NOW + 3}};
    l->trust.up = false; /* other shards' entries are put all the same */
    dt_shard_tell_moved(l, 42, &done);
    assert_told("put below 1060000: 42@1000009 was 1000001 42@1000009 was 1000003\n");
    assert_int_equal(fake.untold, 0);
    fake.told[0] = '\0';
    fake.calls = 0;
    fake.fail_at = 1;
    dt_shard_tell_moved(l, 43, &(struct dt_settled){0});
    assert_told("put below 1060000: 43@0 was 0\n");
    assert_int_equal(fake.untold, 1);
}

FRESH_TEST(only_the_set_of_a_shard_that_is_not_needed_any_more_is_dropped)
{
    l->shard = SHARDS - 1;
    dt_shard_leave_index(l);
    assert_told("");
    l->shard = SHARDS;
    dt_shard_leave_index(l);
    assert_told("drop 8\n");
    fake.fail_at = 2;
    dt_shard_leave_index(l);
    assert_int_equal(fake.untold, 0);
}
