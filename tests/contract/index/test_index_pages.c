/* The promises of index/index.h about pages: a set in pages is what a plain one would be, in a fraction of the
 * memory. */

#include "support/rigs/index_rig.h"

#define NOON_2027 INT64_C(1820966400000)

/* What a packed one looks like: how many pages are kept otherwise. */
static const char UNPACKED[] =
    "local n = 0\n"
    "for _, name in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', '(inf')) do\n"
    "  if redis.call('OBJECT', 'ENCODING', KEYS[1] .. ':' .. name) ~= 'listpack' then n = n + 1 end\n"
    "end\n"
    "return n";

static void expect_sound(struct fixture *fx)
{
    for (int i = 0; i < n_endpoints(fx); i++)
        assert_string_equal(
            redis_fixture_text(fx->endpoints, (unsigned)i, "EVAL %s 1 %s:{0}:due", SOUND, fx->installation), "");
}

/* What should be there, beside the set: dues[id], 0 = nothing. */
struct model {
    struct fixture *fx;
    uint64_t chance;
    int64_t dues[6000];
};
#define MODEL_IDS 5999

static uint64_t chance(struct model *m, uint64_t below)
{
    m->chance ^= m->chance << 13;
    m->chance ^= m->chance >> 7;
    m->chance ^= m->chance << 17;
    return m->chance % below;
}

/* Ids of today, of another day, and of a day with very many. */
static int64_t model_id(int i)
{
    return i % 7 == 0 ? i : dt_job_id(NOON_2027, i % 5 ? i : (INT64_C(1) << 32) + i);
}

/* Around midnight; now and then many at one instant. */
static int64_t model_time(struct model *m)
{
    static const int64_t instants[] = {NOON_2027, NOON_2027 + 43200000, NOON_2027 + 43100000};
    return chance(m, 5) == 0 ? instants[chance(m, 3)] : NOON_2027 + 41400000 + (int64_t)chance(m, 3600000);
}

static int pick_present(struct model *m, bool present)
{
    for (;;) {
        int i = 1 + (int)chance(m, MODEL_IDS);
        if ((m->dues[i] != 0) == present)
            return i;
    }
}

static size_t present_in(const struct model *m, int64_t from_ms, int64_t to_ms)
{
    size_t n = 0;
    for (int i = 1; i <= MODEL_IDS; i++)
        n += m->dues[i] && m->dues[i] >= from_ms && m->dues[i] < to_ms;
    return n;
}

static void model_puts(struct model *m)
{
    struct dt_entry entries[700];
    size_t n = 1 + chance(m, 700);
    for (size_t k = 0; k < n; k++) { /* several of one job in a call, too */
        int i = 1 + (int)chance(m, MODEL_IDS);
        int64_t due_ms = chance(m, 4) ? model_time(m) : 0;
        entries[k] = (struct dt_entry){model_id(i), due_ms, m->dues[i]};
        m->dues[i] = due_ms;
    }
    struct fixture *fx = m->fx;
    OK(dt_index_put(fx->index, &fx->map, entries, n, FAR, chance(m, 2), &fx->err));
}

static void model_fixes(struct model *m)
{
    struct fixture *fx = m->fx;
    struct dt_fix fixes[300];
    bool taken[MODEL_IDS + 1] = {false};
    size_t n = 0;
    for (size_t k = 0; k < 300 && present_in(m, 0, FAR) > 1000; k++) {
        int i = pick_present(m, true);
        int64_t due_ms = chance(m, 3) ? model_time(m) : 0;
        bool wrong = chance(m, 10) == 0;
        if (taken[i])
            continue;
        taken[i] = true;
        fixes[n++] = (struct dt_fix){model_id(i), m->dues[i] + wrong, due_ms};
        if (!wrong)
            m->dues[i] = due_ms;
    }
    OK(dt_index_fix(fx->index, 0, fixes, n, &fx->err));
}

static void model_fills(struct model *m)
{
    struct fixture *fx = m->fx;
    struct dt_entry entries[900];
    bool taken[MODEL_IDS + 1] = {false};
    int64_t at_ms = chance(m, 2) ? model_time(m) : 0; /* one after the other, or anywhere */
    size_t n = 0;
    for (size_t k = 0; k < 900; k++) {
        int i = 1 + (int)chance(m, MODEL_IDS);
        if (taken[i])
            continue;
        taken[i] = true;
        if (!m->dues[i])
            m->dues[i] = at_ms ? (at_ms += (int64_t)chance(m, 30)) : model_time(m);
        entries[n++] = (struct dt_entry){model_id(i), m->dues[i], 0};
    }
    if (chance(m, 2))
        OK(dt_index_fill(fx->index, &fx->map, entries, n, &fx->err));
    else
        OK(dt_index_add_missing(fx->index, 0, entries, n, &fx->err));
}

/* The due, given back with a new time as a leader does. */
static void model_looks(struct model *m)
{
    struct fixture *fx = m->fx;
    struct dt_entry got[200];
    int64_t now_ms = model_time(m), later_ms = 0;
    size_t there = present_in(m, 0, now_ms + 1), limit = 1 + chance(m, 200);
    OK(due(fx, 0, MARKER, now_ms, limit, got));
    assert_int_equal(fx->due.n, there < limit ? there : limit);
    for (size_t k = 1; k < fx->due.n; k++)
        assert_true(got[k - 1].due_ms <= got[k].due_ms);
    for (int i = 1; i <= MODEL_IDS; i++) {
        if (m->dues[i] > now_ms && (!later_ms || m->dues[i] < later_ms))
            later_ms = m->dues[i];
    }
    if (there > limit)
        assert_in_range(fx->due.next_ms, got[fx->due.n - 1].due_ms, now_ms);
    else
        assert_int_equal(fx->due.next_ms, later_ms);
}

static void model_compares(struct model *m)
{
    struct fixture *fx = m->fx;
    struct dt_entry page[333], after = {0};
    int64_t from_ms = chance(m, 3) ? model_time(m) : 0, to_ms = from_ms + 1 + (int64_t)chance(m, 2000000), count;
    size_t n, seen = 0, limit = 1 + chance(m, 333);
    OK(dt_index_count(fx->index, 0, from_ms, to_ms, &count, &fx->err));
    assert_int_equal(count, present_in(m, from_ms, to_ms));
    do {
        OK(dt_index_range(fx->index, 0, &(struct dt_range){from_ms, to_ms, after.id ? &after : NULL, limit}, page, &n,
                          &fx->err));
        for (size_t k = 0; k < n; k++) {
            int i = (int)(page[k].id & 0xffff);
            assert_members(page[k], (id, model_id(i)), (due_ms, m->dues[i]));
            assert_true(k == 0 || page[k - 1].due_ms <= page[k].due_ms);
            after = page[k];
        }
        seen += n;
    } while (n);
    assert_int_equal(seen, present_in(m, from_ms, to_ms));
}

#define RIG_TEST(name, setup) TEST_ON(struct fixture, fx, name, setup, done)

RIG_TEST(a_set_in_pages_equals_a_plain_set_after_any_changes, shared)
{
    struct model *m = calloc(1, sizeof(*m));
    m->fx = fx;
    m->chance = 88172645463325252;
    dt_shard_map_init(&m->fx->map, 1, 1);
    for (int step = 0; step < 100; step++) {
        switch (chance(m, 3)) {
        case 0:
            model_puts(m);
            break;
        case 1:
            model_fixes(m);
            break;
        default:
            model_fills(m);
        }
        model_looks(m);
        model_compares(m);
        expect_sound(m->fx);
    }
    free(m);
}

static int64_t used_memory(struct fixture *fx)
{
    return strtoll(strstr(redis_fixture_text(fx->endpoints, 0, "INFO memory"), "used_memory:") + 12, NULL, 10);
}

RIG_TEST(many_entries_take_less_than_a_seventh_of_the_memory_of_a_plain_set, private)
{
    enum { N = 100000 };
    struct dt_entry *entries = calloc(N, sizeof(*entries));
    int64_t before, ours, plain;
    dt_shard_map_init(&fx->map, 1, 1);
    for (int i = 0; i < N; i++)
        entries[i] = (struct dt_entry){dt_job_id(NOON_2027, i + 1), NOON_2027 + (i * INT64_C(7919)) % 3600000, 0};
    before = used_memory(fx);
    OK(dt_index_put(fx->index, &fx->map, entries, N, FAR, false, &fx->err));
    ours = used_memory(fx) - before;
    expect_sound(fx);
    before = used_memory(fx);
    redis_fixture_text(fx->endpoints, 0, "EVAL %s 0 %s:plain %d",
                       "for i = 1, ARGV[2] do redis.call('ZADD', ARGV[1], i * 7919 % 3600000, "
                       "string.format('00000000-0000-0000-0000-%012d', i)) end",
                       fx->installation, N);
    plain = used_memory(fx) - before;
    assert_true(ours * 100 < plain * 15);
    assert_int_equal(redis_fixture_number(fx->endpoints, 0, "EVAL %s 1 %s:{0}:due", UNPACKED, fx->installation), 0);
    free(entries);
}

RIG_TEST(a_lost_set_is_rebuilt_in_packed_pages_that_a_strict_server_accepts, private)
{
    enum { N = 30000 };
    struct dt_entry *entries = calloc(N, sizeof(*entries));
    /* bytes that look like digits to Redis: kept as integers there */
    const int64_t digits = INT64_C(0x31303030), digits5 = INT64_C(0x3939393930), minus = INT64_C(0x2d313233);
    dt_shard_map_init(&fx->map, 1, 2);
    redis_fixture_text(fx->endpoints, 0, "CONFIG SET sanitize-dump-payload yes");
    for (int i = 0; i < N; i++) {
        int64_t sequence = i % 4 == 0 ? digits + i / 4 : i % 4 == 1 ? digits5 + i : i % 4 == 2 ? minus + i / 4 : i + 1;
        entries[i] = (struct dt_entry){dt_job_id(NOON_2027, sequence), NOON_2027 + (int64_t)i * i / 2, 0};
    }
    OK(dt_index_fill(fx->index, &fx->map, entries, N, &fx->err));
    assert_int_equal(count_all(fx), N);
    expect_sound(fx);
    assert_int_equal(redis_fixture_number(fx->endpoints, 0, "EVAL %s 1 %s:{0}:due", UNPACKED, fx->installation), 0);
    assert_in_range(redis_fixture_number(fx->endpoints, 0, "ZCARD %s:{0}:due", fx->installation), N / 2 / 62,
                    N / 2 / 50); /* they are full */
    for (int i = 0; i < N; i++)
        entries[i] = (struct dt_entry){entries[i].id, 0, entries[i].due_ms};
    OK(dt_index_put(fx->index, &fx->map, entries, N, FAR, false, &fx->err)); /* each is found where it is */
    assert_int_equal(count_all(fx), 0);
    assert_int_equal(redis_fixture_number(fx->endpoints, 0, "DBSIZE"), 0);
    free(entries);
}

RIG_TEST(entries_put_after_a_loss_are_kept_while_the_set_is_filled, shared)
{
    enum { N = 5000 };
    struct dt_entry *entries = calloc(N, sizeof(*entries));
    dt_shard_map_init(&fx->map, 1, 1);
    for (int i = 0; i < N; i++)
        entries[i] = (struct dt_entry){dt_job_id(NOON_2027, i + 1), NOON_2027 + i * 10, 0};
    for (int i = 0; i < N; i += 613)
        put_one(fx, entries[i].id, entries[i].due_ms);
    put_one(fx, dt_job_id(NOON_2027, 77777), NOON_2027 + 4321);
    OK(dt_index_fill(fx->index, &fx->map, entries, N, &fx->err));
    OK(dt_index_fill(fx->index, &fx->map, entries, N, &fx->err)); /* once more changes nothing */
    assert_int_equal(count_all(fx), N + 1);
    expect_sound(fx);
    for (int i = 0; i < N; i += 613)
        assert_int_equal(score(fx, entries[i].id), entries[i].due_ms);
    free(entries);
}

RIG_TEST(an_entry_whose_old_time_was_unknown_exists_in_addition_to_the_old_one, shared)
{
    int64_t id = id_of(fx, 0, 0);
    struct dt_entry got[4];
    put_one(fx, id_of(fx, 0, id), 100000); /* another page begins behind the first */
    move_one(fx, id, 0, 500);
    move_one(fx, id, 0, 100500);
    assert_int_equal(score(fx, id), -1);
    OK(due(fx, 0, MARKER, 200000, 4, got));
    assert_int_equal(fx->due.n, 2); /* each id once */
    assert_members(got[0], (id, id), (due_ms, 500));
    OK(dt_index_fix(fx->index, 0, &(struct dt_fix){id, 500, 100500}, 1, &fx->err)); /* the claim puts it right */
    assert_int_equal(score(fx, id), 100500);
}

/* Evicted, or deleted by hand: its entries went with it, as those of a set do with the set. */
RIG_TEST(the_loss_of_a_page_removes_the_marker_too, shared)
{
    int64_t id = id_of(fx, 0, 0), other = id_of(fx, 0, id);
    struct dt_entry got[4];
    bool intact;
    put_one(fx, other, 100000);
    put_one(fx, id, 100); /* in a page of its own */
    OK(dt_index_mark(fx->index, 0, MARKER, NULL, &intact, &fx->gone, &fx->err));
    for (int i = 0; i < n_endpoints(fx); i++)
        redis_fixture_number(fx->endpoints, (unsigned)i, "DEL %s:{0}:due:0", fx->installation);
    OK(due(fx, 0, MARKER, 1000, 4, got));
    assert_int_equal(fx->due.n, 0);
    OK(due(fx, 0, MARKER, 1000, 4, got));
    assert_members(fx->due, (marked, false), (next_ms, 100000));
    OK(dt_index_mark(fx->index, 0, MARKER, NULL, &intact, &fx->gone, &fx->err));
    assert_false(intact);  /* the leader has it filled again */
    put_one(fx, other, 0); /* a page that is emptied takes nothing along */
    OK(due(fx, 0, MARKER, 1000000, 4, got));
    OK(due(fx, 0, MARKER, 1000000, 4, got));
    assert_true(fx->due.marked);
}

RIG_TEST(an_entry_is_removed_from_all_named_times, shared)
{
    int64_t id = id_of(fx, 0, 0);
    struct dt_entry entries[] = {{id, 900000, 500}, {id, 900000, 100500}, {id, 900000, 333}};
    move_one(fx, id, 0, 500);
    move_one(fx, id, 0, 100500);
    OK(dt_index_put(fx->index, &fx->map, entries, 3, FAR, true, &fx->err));
    assert_int_equal(score(fx, id), 900000);
    for (int i = 0; i < 3; i++)
        entries[i] = (struct dt_entry){id, 0, 900000};
    OK(dt_index_put(fx->index, &fx->map, entries, 3, FAR, true, &fx->err));
    assert_int_equal(score(fx, id), 0);
}

RIG_TEST(a_server_that_does_not_accept_packed_pages_is_filled_entry_by_entry, private)
{
    enum { N = 3000 };
    struct dt_entry *entries = calloc(N, sizeof(*entries));
    redis_fixture_text(fx->endpoints, 0, "ACL SETUSER default -restore");
    for (int i = 0; i < N; i++)
        entries[i] = (struct dt_entry){dt_job_id(NOON_2027, i + 1), NOON_2027 + i, 0};
    for (int twice = 0; twice < 2; twice++)
        OK(dt_index_fill(fx->index, &fx->map, entries, N, &fx->err));
    assert_int_equal(count_all(fx), N);
    expect_sound(fx);
    free(entries);
}
