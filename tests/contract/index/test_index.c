/* The promises of index/index.h about entries: what is put, filled in, due, held and read, on real Redis servers. */

#include "support/rigs/index_rig.h"

/* ---- put ---- */

/* A command of a key and bytes that no format can carry: these are written in hexadecimal digits. */
#define WITH_BYTES                                                                                                     \
    "local bytes = string.gsub(ARGV[2], '%x%x', function(h) return string.char(tonumber(h, 16)) end)\n"                \
    "if ARGV[1] == 'ZADD' then return redis.call('ZADD', KEYS[1], ARGV[3], bytes) end\n"                               \
    "return redis.call(ARGV[1], KEYS[1], bytes)"

/* The score that the entry has in a page, on whichever endpoint; -1 = none. */
static int64_t raw_score(struct fixture *fx, int64_t id, int64_t begin_ms, int digits)
{
    for (unsigned i = 0; i < (strchr(fx->endpoints, ',') ? 2 : 1); i++) {
        char member[17];
        snprintf(member, sizeof(member), "%0*llx", digits, (long long)(id & (digits < 16 ? 0xffffffffff : -1)));
        const char *text = redis_fixture_text(fx->endpoints, i, "EVAL %s 1 %s:{%u}:due:%lld ZSCORE %s", WITH_BYTES,
                                              fx->installation, dt_shard_of(&fx->map, id), (long long)begin_ms, member);

        if (text[0] != '(')
            return strtoll(text, NULL, 10);
    }
    return -1;
}

#define RIG_TEST(name, setup) TEST_ON(struct fixture, fx, name, setup, done)

RIG_TEST(put_stores_an_entry_in_a_page_of_its_shards_set, shared)
{
    const int64_t due_ms = INT64_C(1800000000123), begin_ms = due_ms - due_ms % 32768;
    int64_t today = dt_job_id(due_ms, 77), many = dt_job_id(due_ms, (INT64_C(1) << 32) + 78);
    int64_t other_day = (INT64_C(690) << 40) + 79;
    put_one(fx, today, due_ms);
    put_one(fx, many, due_ms);
    put_one(fx, other_day, due_ms);
    assert_int_equal(raw_score(fx, today, begin_ms, 8), due_ms - begin_ms);
    assert_int_equal(raw_score(fx, many, begin_ms, 10), due_ms - begin_ms);
    assert_int_equal(raw_score(fx, other_day, begin_ms, 16), due_ms - begin_ms);
    assert_int_equal(score(fx, today), due_ms);
    assert_int_equal(score(fx, many), due_ms);
    assert_int_equal(score(fx, other_day), due_ms);
}

RIG_TEST(put_moves_removes_and_is_idempotent, shared)
{
    put_one(fx, 5, 1000);
    put_one(fx, 5, 1000);
    put_one(fx, 5, 500);
    assert_int_equal(score(fx, 5), 500);
    put_one(fx, 5, 0);
    put_one(fx, 5, 0);
    assert_int_equal(score(fx, 5), 0);
}

RIG_TEST(put_removes_entries_that_are_due_after_the_horizon, shared)
{
    struct dt_entry entries[] = {{1, 1000, 0}, {2, 1001, 10}, {3, 900, 0}};
    for (int wake = 0; wake < 2; wake++) {
        put_one(fx, 2, 10);
        OK(dt_index_put(fx->index, &fx->map, entries, 3, 1000, wake, &fx->err));
        assert_int_equal(score(fx, 1), 1000);
        assert_int_equal(score(fx, 2), 0);
        assert_int_equal(score(fx, 3), 900);
    }
}

static long long commands_of(const struct fixture *fx)
{
    const char *at = strstr(redis_fixture_text(fx->endpoints, 0, "INFO stats"), "total_commands_processed:");
    assert_non_null(at);
    return atoll(at + strlen("total_commands_processed:"));
}

/* Nobody puts an entry there, so that Redis is not asked. */
RIG_TEST(put_does_not_search_entries_that_were_far_after_the_horizon, private)
{
    const int64_t horizon_ms = 1000, minute_ms = 60000;
    struct dt_entry entries[] = {{1, 0, horizon_ms + minute_ms + 1}, {2, 0, FAR}, {3, FAR, FAR - 1}};
    put_one(fx, 4, horizon_ms + minute_ms);
    long long before = commands_of(fx);
    OK(dt_index_put(fx->index, &fx->map, entries, 3, horizon_ms, true, &fx->err));
    assert_int_equal(commands_of(fx), before + 1); /* the question itself */
    OK(dt_index_put(fx->index, &fx->map, &(struct dt_entry){4, 0, horizon_ms + minute_ms}, 1, horizon_ms, true,
                    &fx->err));
    assert_int_equal(score(fx, 4), 0);
}

RIG_TEST(the_last_of_several_entries_of_one_job_counts, shared)
{
    struct dt_entry entries[] = {{4, 10, 0}, {4, 20, 0}, {5, 0, 0}, {5, 30, 0}};
    OK(dt_index_put(fx->index, &fx->map, entries, 4, FAR, true, &fx->err));
    assert_int_equal(score(fx, 4), 20);
    assert_int_equal(score(fx, 5), 30);
}

RIG_TEST(put_accepts_any_number_of_entries_of_any_shards_on_all_endpoints, shared)
{
    size_t n = 50000;
    struct dt_entry *entries = calloc(n, sizeof(*entries));
    spread_over_endpoints(fx);
    for (size_t i = 0; i < n; i++)
        entries[i] = (struct dt_entry){(int64_t)i + 1, 1000 + (int64_t)i, 0};
    OK(dt_index_put(fx->index, &fx->map, entries, n, FAR, true, &fx->err));
    assert_int_equal(count_all(fx), (int64_t)n);
    for (unsigned i = 0; strchr(fx->endpoints, ',') && i < 2; i++) {
        int64_t keys = 0;
        for (unsigned shard = 0; shard < fx->map.shards; shard++)
            keys += redis_fixture_number(fx->endpoints, i, "EXISTS %s:{%u}:due", fx->installation, shard);
        assert_in_range(keys, 1, fx->map.shards - 1);
    }
    for (size_t i = 0; i < n; i++)
        entries[i] = (struct dt_entry){entries[i].id, i % 2 ? 0 : 5, entries[i].due_ms};
    OK(dt_index_put(fx->index, &fx->map, entries, n, FAR, false, &fx->err));
    assert_int_equal(count_all(fx), (int64_t)n / 2);
    free(entries);
}

RIG_TEST(put_without_entries_changes_nothing, shared)
{
    OK(dt_index_put(fx->index, &fx->map, NULL, 0, FAR, true, &fx->err));
}

/* ---- who fills ---- */

static struct dt_marker marked_as_filling(struct fixture *fx, int64_t count, const struct dt_marker *was)
{
    const struct dt_marker marker = {7, 12345, count, 2, 0, true, 3};
    bool intact;
    OK(dt_index_mark(fx->index, 1, marker, was, &intact, &fx->gone, &fx->err));
    return marker;
}

RIG_TEST(a_filling_belongs_to_one_handle_until_it_is_released, shared)
{
    dt_index *other;
    struct dt_filling f, g, told, late;
    int64_t until_us, done_ms;
    OK(dt_index_new(&fx->config, fx->installation, dt_clock_system(), &other, &fx->err));
    assert_false(taken(fx, fx->index).wanted); /* nobody asked */
    do { /* repeat until all of it runs before the other counts as silent by Redis's clock */
        OK(dt_index_drop(fx->index, 1, &fx->err));
        marked_as_filling(fx, 1, NULL);
        until_us = dt_clock_mono_us(dt_clock_system()) + DT_FILLING_MS * 1000;
        f = taken(fx, fx->index);
        g = taken(fx, other);
        told = f;
        told.done_ms = 500;
        told.keep = true;
        OK(dt_index_fillings(fx->index, DT_FILLING_TELL, &told, 1, &fx->err));
        late = g;
        late.ours = late.keep = true; /* what the late one believes */
        late.done_ms = 900;
        OK(dt_index_fillings(other, DT_FILLING_TELL, &late, 1, &fx->err));
        done_ms = taken(fx, fx->index).done_ms;
    } while (dt_clock_mono_us(dt_clock_system()) >= until_us);
    assert_true(f.wanted && f.ours && f.done_ms == 0 && f.generation == 3);
    assert_true(g.wanted && !g.ours && g.life == f.life);
    assert_true(told.ours);
    assert_false(late.ours);
    assert_int_equal(done_ms, 500);
    told.keep = false;
    OK(dt_index_fillings(fx->index, DT_FILLING_TELL, &told, 1, &fx->err));
    g = taken(fx, other);
    assert_true(g.ours && g.done_ms == 500);
    AWAIT(taken(fx, fx->index).ours); /* the other one has been silent for long enough */
    OK(dt_index_drop(fx->index, 1, &fx->err));
    assert_false(taken(fx, fx->index).wanted);
    dt_index_free(other);
}

RIG_TEST(a_filling_for_another_map_is_not_claimed, shared)
{
    struct dt_marker marker = marked_as_filling(fx, 1, NULL), next = marker;
    struct dt_filling f = taken_for(fx, fx->index, 4);
    assert_true(f.wanted && !f.ours && f.generation == 3);
    f = taken(fx, fx->index);
    f.done_ms = 500;
    f.keep = true;
    OK(dt_index_fillings(fx->index, DT_FILLING_TELL, &f, 1, &fx->err));
    next.count++;
    next.map = 4; /* its leader has got that one */
    OK(dt_index_mark(fx->index, 1, next, &marker, &(bool){false}, &fx->gone, &fx->err));
    assert_false(fx->gone);
    f = taken_for(fx, fx->index, 4);
    assert_true(f.ours && f.done_ms == 0);
}

/* Whoever is told to be at it for longer than anybody may ask for was told so before the clock was set back. */
RIG_TEST(a_clock_that_is_set_back_does_not_prolong_a_filling, shared)
{
    marked_as_filling(fx, 1, NULL);
    for (int i = 0; i < (strchr(fx->endpoints, ',') ? 2 : 1); i++)
        redis_fixture_text(fx->endpoints, (unsigned)i, "EVAL %s 1 %s:{1}:due:filled",
                           "if redis.call('EXISTS', KEYS[1]) == 1 then "
                           "redis.call('HSET', KEYS[1], 'by', 'x', 'until', '99999999999999') end return ''",
                           fx->installation);
    assert_true(taken(fx, fx->index).ours);
}

RIG_TEST(a_filled_index_is_trusted_as_long_as_its_marker_exists, shared)
{
    struct dt_marker first = marked_as_filling(fx, 1, NULL), second;
    struct dt_filling f = taken(fx, fx->index);
    bool intact;
    f.done_ms = 500;
    f.keep = true;
    OK(dt_index_fillings(fx->index, DT_FILLING_TELL, &f, 1, &fx->err));
    second = marked_as_filling(fx, 2, &first); /* a leader marks now and then */
    assert_int_equal(taken(fx, fx->index).done_ms, 500);
    marked_as_filling(fx, 3, &first); /* not the one that is there: an older copy came back */
    assert_true(fx->gone);
    assert_false(taken(fx, fx->index).wanted);
    marked_as_filling(fx, 4, NULL);
    assert_int_equal(taken(fx, fx->index).done_ms, 0);
    OK(dt_index_fillings(fx->index, DT_FILLING_TELL, &f, 1, &fx->err)); /* what was done before does not count */
    assert_false(f.ours);
    assert_int_equal(taken(fx, fx->index).done_ms, 0);
    second.filling = false;
    second.count = 5;
    OK(dt_index_mark(fx->index, 1, second, NULL, &intact, &fx->gone, &fx->err));
    assert_false(intact);
    assert_false(taken(fx, fx->index).wanted); /* whole */
}

/* ---- the leader's look ---- */

RIG_TEST(due_returns_due_entries_in_order_and_the_time_of_the_next, shared)
{
    int64_t a = id_of(fx, 2, 0), b = id_of(fx, 2, a), c = id_of(fx, 2, b);
    struct dt_entry got[8];
    OK(due(fx, 2, MARKER, 1000, 8, got));
    assert_members(fx->due, (n, 0), (next_ms, 0), (marked, false));

    put_one(fx, b, 1000);
    put_one(fx, a, 900);
    put_one(fx, c, 1001);
    OK(due(fx, 2, MARKER, 1000, 8, got));
    assert_int_equal(fx->due.n, 2);
    assert_members(got[0], (id, a), (due_ms, 900));
    assert_members(got[1], (id, b), (due_ms, 1000));
    assert_int_equal(fx->due.next_ms, 1001);

    OK(due(fx, 2, MARKER, 1000, 1, got)); /* limit: the next one is due too */
    assert_members(fx->due, (n, 1), (next_ms, 1000));
    OK(due(fx, 2, MARKER, 5000, 3, got));
    assert_members(fx->due, (n, 3), (next_ms, 0));
}

RIG_TEST(the_marker_shows_a_leader_whether_its_set_still_exists, shared)
{
    struct dt_entry got[4];
    bool intact = true;
    OK(dt_index_mark(fx->index, 1, MARKER, NULL, &intact, &fx->gone, &fx->err));
    assert_false(intact); /* a new set */
    OK(due(fx, 1, MARKER, FAR, 4, got));
    assert_true(fx->due.marked);
    assert_int_equal(fx->due.n, 0); /* the marker itself is never due */
    assert_int_equal(fx->due.next_ms, 0);

    OK(dt_index_mark(fx->index, 1, (struct dt_marker){7, 12345, 4, 1, 0, false, 0}, NULL, &intact, &fx->gone,
                     &fx->err)); /* it counts on */
    assert_true(intact);
    OK(due(fx, 1, MARKER, FAR, 4, got));
    assert_false(fx->due.marked); /* so does an older copy of this leadership's set look */
    OK(due(fx, 1, (struct dt_marker){7, 12345, 4, 1, 0, false, 0}, FAR, 4, got));
    assert_true(fx->due.marked);

    OK(dt_index_mark(fx->index, 1, (struct dt_marker){8, 1, 1, 1, 0, false, 0}, NULL, &intact, &fx->gone,
                     &fx->err)); /* another leadership */
    assert_true(intact);
    OK(due(fx, 1, MARKER, FAR, 4, got));
    assert_false(fx->due.marked);
    OK(due(fx, 1, (struct dt_marker){8, 1, 1, 1, 0, false, 0}, FAR, 4, got));
    assert_true(fx->due.marked);

    redis_fixture_forget(fx->endpoints, fx->installation);
    OK(due(fx, 1, (struct dt_marker){8, 1, 1, 1, 0, false, 0}, FAR, 4, got));
    assert_false(fx->due.marked);
    OK(dt_index_mark(fx->index, 1, (struct dt_marker){8, 1, 1, 1, 0, false, 0}, NULL, &intact, &fx->gone, &fx->err));
    assert_false(intact);
}

RIG_TEST(a_marker_of_another_map_or_from_before_a_move_is_not_trusted, shared)
{
    bool intact = true;
    OK(dt_index_mark(fx->index, 1, (struct dt_marker){7, -5, 1, 2, 0, false, 0}, NULL, &intact, &fx->gone, &fx->err));
    OK(dt_index_mark(fx->index, 1, (struct dt_marker){8, 6, 1, 2, 7, false, 0}, NULL, &intact, &fx->gone, &fx->err));
    assert_true(intact);
    OK(dt_index_mark(fx->index, 1, (struct dt_marker){9, 6, 1, 3, 0, false, 0}, NULL, &intact, &fx->gone,
                     &fx->err)); /* filled for map 2 */
    assert_false(intact);
    OK(dt_index_mark(fx->index, 1, (struct dt_marker){12, 6, 1, 3, 11, false, 0}, NULL, &intact, &fx->gone,
                     &fx->err)); /* left here at epoch 9 */
    assert_false(intact);
}

RIG_TEST(a_set_that_its_leader_left_half_filled_is_not_trusted, shared)
{
    const struct dt_marker filling = {7, 12345, 1, 2, 0, true, 0};
    struct dt_entry got[4];
    bool intact = true;
    OK(dt_index_mark(fx->index, 1, filling, NULL, &intact, &fx->gone, &fx->err));
    OK(due(fx, 1, filling, FAR, 4, got));
    assert_true(fx->due.marked); /* it is ours, all the same */
    OK(dt_index_mark(fx->index, 1, (struct dt_marker){8, 6, 1, 2, 0, true, 0}, NULL, &intact, &fx->gone, &fx->err));
    assert_false(intact);
    OK(dt_index_mark(fx->index, 1, (struct dt_marker){8, 6, 2, 2, 0, false, 0}, NULL, &intact, &fx->gone,
                     &fx->err)); /* filled by now */
    OK(dt_index_mark(fx->index, 1, (struct dt_marker){9, 5, 1, 2, 0, true, 0}, NULL, &intact, &fx->gone, &fx->err));
    assert_true(intact);
}

RIG_TEST(dropping_a_set_removes_its_marker_and_its_held_sets, shared)
{
    struct dt_entry entry = {id_of(fx, 1, 0), 1000, 0}, other = {id_of(fx, 1, entry.id), 5000, 0}, got[4];
    struct dt_arena arena = {0};
    struct dt_str *topics;
    int64_t next;
    size_t n = 9;
    bool intact = true;
    OK(dt_index_mark(fx->index, 1, MARKER, NULL, &intact, &fx->gone, &fx->err));
    OK(dt_index_hold(fx->index, 1, DT_STR_LIT("t"), &entry, 1, &fx->err));
    OK(dt_index_add_missing(fx->index, 1, &other, 1, &fx->err));
    OK(dt_index_drop(fx->index, 1, &fx->err));
    assert_int_equal(
        redis_fixture_sum(fx->endpoints, "EVAL %s 0 %s:*", "return #redis.call('KEYS', ARGV[1])", fx->installation), 0);
    OK(due(fx, 1, MARKER, FAR, 4, got));
    assert_members(fx->due, (n, 0), (marked, false));
    OK(dt_index_held(fx->index, 1, &arena, &topics, &n, &fx->err));
    assert_int_equal(n, 0);
    OK(dt_index_hold(fx->index, 1, DT_STR_LIT("t"), NULL, 0, &fx->err));
    OK(dt_index_unhold(fx->index, 1, DT_STR_LIT("t"), 10, &next, &fx->err));
    OK(due(fx, 1, MARKER, FAR, 4, got));
    assert_int_equal(fx->due.n, 0); /* nothing was left in the held set */
    dt_arena_clear(&arena);
}

RIG_TEST(a_fix_changes_an_entry_only_while_it_has_the_score_that_was_seen, shared)
{
    int64_t a = id_of(fx, 5, 0), b = id_of(fx, 5, a), c = id_of(fx, 5, b), d = id_of(fx, 5, c);
    struct dt_fix fixes[] = {{a, 100, 500}, {b, 100, 500}, {c, 100, 0}, {d, 100, 500}};
    put_one(fx, a, 100);
    put_one(fx, b, 101); /* changed meanwhile */
    put_one(fx, c, 100);
    OK(dt_index_fix(fx->index, 5, fixes, 4, &fx->err));
    assert_int_equal(score(fx, a), 500);
    assert_int_equal(score(fx, b), 101);
    assert_int_equal(score(fx, c), 0);
    assert_int_equal(score(fx, d), 0); /* absent: not made */
}

RIG_TEST(thousands_of_fixes_are_made_in_one_call, shared)
{
    size_t n = 40000;
    struct dt_entry *entries = calloc(n, sizeof(*entries));
    struct dt_fix *fixes = calloc(n, sizeof(*fixes));
    int64_t count;
    dt_shard_map_init(&fx->map, 1, 1);
    for (size_t i = 0; i < n; i++) {
        entries[i] = (struct dt_entry){(int64_t)i + 1, 100, 0};
        fixes[i] = (struct dt_fix){(int64_t)i + 1, i % 4 ? 100 : 99, 200};
    }
    OK(dt_index_put(fx->index, &fx->map, entries, n, FAR, false, &fx->err));
    OK(dt_index_fix(fx->index, 0, fixes, n, &fx->err));
    OK(dt_index_count(fx->index, 0, 200, 201, &count, &fx->err));
    assert_int_equal(count, n / 4 * 3);
    free(entries);
    free(fixes);
}

/* ---- held sets ---- */

RIG_TEST(entries_of_a_paused_topic_are_held_and_returned, shared)
{
    int64_t a = id_of(fx, 4, 0), b = id_of(fx, 4, a), c = id_of(fx, 4, b), next_ms = -1;
    struct dt_entry entries[] = {{a, 100, 0}, {b, 100, 0}, {c, 300, 0}};
    struct dt_str *topics;
    size_t n;
    ARENA(arena);
    put_one(fx, a, 100);
    put_one(fx, b, 101);                                                               /* was changed: stays */
    OK(dt_index_hold(fx->index, 4, DT_STR_LIT("orders.close"), entries, 3, &fx->err)); /* c is in no set at all */
    assert_int_equal(score(fx, a), 0);
    assert_int_equal(score(fx, b), 101);
    OK(dt_index_held(fx->index, 4, &arena, &topics, &n, &fx->err));
    assert_int_equal(n, 1);
    assert_true(dt_str_is(topics[0], "orders.close"));
    OK(dt_index_held(fx->index, 3, &arena, &topics, &n, &fx->err));
    assert_int_equal(n, 0);

    OK(dt_index_unhold(fx->index, 4, DT_STR_LIT("orders.close"), 1, &next_ms, &fx->err));
    assert_int_equal(next_ms, 300);
    assert_int_equal(score(fx, a), 100); /* earliest first */
    put_one(fx, c, 250);                 /* changed while it was held: that stays */
    OK(dt_index_unhold(fx->index, 4, DT_STR_LIT("orders.close"), 10, &next_ms, &fx->err));
    assert_int_equal(next_ms, 0);
    assert_int_equal(score(fx, c), 250);
    OK(dt_index_held(fx->index, 4, &arena, &topics, &n, &fx->err));
    assert_int_equal(n, 0);
}

RIG_TEST(a_held_set_that_was_named_by_hand_and_is_longer_than_any_name_is_skipped, shared)
{
    struct dt_entry entry = {id_of(fx, 4, 0), 100, 0};
    struct dt_str *topics;
    size_t n;
    ARENA(arena);
    put_one(fx, entry.id, 100);
    OK(dt_index_hold(fx->index, 4, DT_STR_LIT("orders.close"), &entry, 1, &fx->err));
    for (int i = 0; i < n_endpoints(fx); i++)
        redis_fixture_text(fx->endpoints, (unsigned)i, "SADD %s:{4}:held %0600d", fx->installation, 1);
    OK(dt_index_held(fx->index, 4, &arena, &topics, &n, &fx->err));
    assert_int_equal(n, 1);
    assert_true(dt_str_is(topics[0], "orders.close"));
}

RIG_TEST(returning_held_entries_is_bounded_by_a_limit, shared)
{
    size_t n = 5000;
    struct dt_entry *entries = calloc(n, sizeof(*entries));
    int64_t next_ms, count;
    for (size_t i = 0; i < n; i++)
        entries[i] = (struct dt_entry){(int64_t)i + 1, 100 + (int64_t)i, 0};
    OK(dt_index_hold(fx->index, 0, DT_STR_LIT("t"), entries, n, &fx->err));
    OK(dt_index_unhold(fx->index, 0, DT_STR_LIT("t"), 2500, &next_ms, &fx->err));
    assert_int_equal(next_ms, 2600);
    OK(dt_index_count(fx->index, 0, 0, 2600, &count, &fx->err));
    assert_int_equal(count, 2500);
    OK(dt_index_unhold(fx->index, 0, DT_STR_LIT("t"), 100000, &next_ms, &fx->err));
    assert_int_equal(next_ms, 0);
    free(entries);
}

/* ---- the reconciler's reads ---- */

RIG_TEST(a_range_can_be_walked_page_by_page_through_equal_scores, shared)
{
    struct dt_entry page[7], after = {0};
    char seen[401] = {0};
    int pages = 0;
    size_t n;
    dt_shard_map_init(&fx->map, 1, 1);
    for (int64_t id = 1; id <= 400; id++)
        put_one(fx, id, id <= 20 ? 50 : id <= 380 ? 100 : 200);
    for (;; pages++) {
        OK(dt_index_range(fx->index, 0, &(struct dt_range){60, 200, after.id ? &after : NULL, 7}, page, &n, &fx->err));
        if (n == 0)
            break;
        for (size_t i = 0; i < n; i++) {
            assert_in_range(page[i].id, 21, 380);
            assert_int_equal(page[i].due_ms, 100);
            assert_int_equal(seen[page[i].id]++, 0);
        }
        after = page[n - 1];
        if (pages % 3 == 0)
            put_one(fx, after.id, 0); /* the page's end need not stay there */
    }
    for (int id = 21; id <= 380; id++)
        assert_int_equal(seen[id], 1);
    assert_in_range(pages, 52, 53);
}

RIG_TEST(a_range_excludes_its_end_and_the_marker, shared)
{
    int64_t a = id_of(fx, 0, 0), b = id_of(fx, 0, a), count;
    struct dt_entry got[4];
    size_t n;
    bool intact;
    OK(dt_index_mark(fx->index, 0, MARKER, NULL, &intact, &fx->gone, &fx->err));
    put_one(fx, a, 100);
    put_one(fx, b, 200);
    OK(dt_index_range(fx->index, 0, &(struct dt_range){100, 200, NULL, 4}, got, &n, &fx->err));
    assert_int_equal(n, 1);
    assert_int_equal(got[0].id, a);
    OK(dt_index_range(fx->index, 0, &(struct dt_range){100, FAR, &got[0], 4}, got, &n, &fx->err));
    assert_int_equal(n, 1);
    assert_int_equal(got[0].id, b);
    OK(dt_index_range(fx->index, 0, &(struct dt_range){100, FAR, &got[0], 4}, got, &n, &fx->err));
    assert_int_equal(n, 0);
    OK(dt_index_count(fx->index, 0, 100, 200, &count, &fx->err));
    assert_int_equal(count, 1);
    OK(dt_index_count(fx->index, 0, 0, FAR, &count, &fx->err));
    assert_int_equal(count, 2);
}

RIG_TEST(adding_a_missing_entry_never_overwrites_an_existing_one, shared)
{
    int64_t a = id_of(fx, 6, 0), b = id_of(fx, 6, a);
    struct dt_entry entries[] = {{a, 100, 0}, {b, 100, 0}};
    put_one(fx, a, 70);
    OK(dt_index_add_missing(fx->index, 6, entries, 2, &fx->err));
    assert_int_equal(score(fx, a), 70);
    assert_int_equal(score(fx, b), 100);
}

RIG_TEST(filling_adds_to_all_shards_and_never_overwrites, shared)
{
    enum { N = 20000 };
    static struct dt_entry entries[N];
    for (int i = 0; i < N; i++)
        entries[i] = (struct dt_entry){i + 1, 1000, 0};
    put_one(fx, 77, 5);
    OK(dt_index_fill(fx->index, &fx->map, entries, N, &fx->err));
    assert_int_equal(count_all(fx), N);
    assert_int_equal(score(fx, 77), 5);
    assert_int_equal(score(fx, N), 1000);
}

RIG_TEST(scores_are_returned_in_the_order_of_the_requested_ids, shared)
{
    enum { N = 3500 };
    static int64_t scores[N];
    static struct dt_entry entries[N], asked[N];
    dt_shard_map_init(&fx->map, 1, 1);
    for (int i = 0; i < N; i++) {
        entries[i] = (struct dt_entry){N - i, i % 3 ? 1000 + i : 0, 0};
        asked[i] = (struct dt_entry){N - i, 1000 + i, 0};
    }
    OK(dt_index_put(fx->index, &fx->map, entries, N, FAR, false, &fx->err));
    OK(dt_index_scores(fx->index, 0, asked, N, scores, &fx->err));
    for (int i = 0; i < N; i++)
        assert_int_equal(scores[i], i % 3 ? 1000 + i : 0);
}

RIG_TEST(entries_of_a_held_set_are_found_at_their_times, shared)
{
    enum { N = 3500 };
    static int64_t scores[N];
    static struct dt_entry held[N], asked[N];
    size_t n = 0;
    for (int i = 0; i < N; i++) {
        asked[i] = (struct dt_entry){N - i, 1000 + i, 0};
        if (i % 3)
            held[n++] = (struct dt_entry){N - i, i % 3 == 1 ? 1000 + i : 999, 0};
    }
    OK(dt_index_hold(fx->index, 0, DT_STR_LIT("t"), held, n, &fx->err));
    OK(dt_index_held_scores(fx->index, 0, DT_STR_LIT("t"), asked, N, scores, &fx->err));
    for (int i = 0; i < N; i++)
        assert_int_equal(scores[i], i % 3 == 1 ? 1000 + i : i % 3 == 2 ? 999 : 0);
    OK(dt_index_held_scores(fx->index, 0, DT_STR_LIT("another"), asked, 1, scores, &fx->err));
    assert_int_equal(scores[0], 0);
}

RIG_TEST(invalid_members_are_removed_when_they_are_read, shared)
{
    int64_t id = id_of(fx, 0, 0);
    struct dt_entry got[3];
    int clean = 0;
    size_t n;
    put_one(fx, id, 100);
    for (int i = 0; i < n_endpoints(fx); i++)
        redis_fixture_text(fx->endpoints, (unsigned)i,
                           "ZADD %s:{0}:due 50 apple 51 -7 52 99999999999999999999 53.5 8 54 0x12", fx->installation);
    for (int i = 0; i < n_endpoints(fx); i++) {
        redis_fixture_text(fx->endpoints, (unsigned)i, "ZADD %s:{0}:due:0 3 cherry 5.5 lime -7000 pear",
                           fx->installation);
        redis_fixture_text(fx->endpoints, (unsigned)i, "EVAL %s 1 %s:{0}:due:0 ZADD ff00000000000000 6", WITH_BYTES,
                           fx->installation);
    }
    OK(dt_index_range(fx->index, 0, &(struct dt_range){0, 1000, NULL, 3}, got, &n,
                      &fx->err)); /* the first page is nothing else */
    assert_int_equal(n, 1);
    assert_int_equal(got[0].id, id);
    for (int i = 0; i < n_endpoints(fx); i++)
        redis_fixture_text(fx->endpoints, (unsigned)i, "ZADD %s:{0}:due 50 apple", fx->installation);
    OK(due(fx, 0, MARKER, 1000, 3, got));
    assert_int_equal(fx->due.n, 1);
    OK(due(fx, 0, MARKER, 1000, 1, got));
    assert_int_equal(fx->due.n, 1);
    assert_int_equal(got[0].id, id);
    for (int i = 0; i < n_endpoints(fx); i++) {
        const char *left = redis_fixture_text(fx->endpoints, (unsigned)i, "ZRANGE %s:{0}:due 0 -1", fx->installation);
        clean += strcmp(left, "0") == 0 &&
                 redis_fixture_number(fx->endpoints, (unsigned)i, "ZCARD %s:{0}:due:0", fx->installation) == 1;
    }
    assert_int_equal(clean, 1); /* the endpoint that has the shard */
}
