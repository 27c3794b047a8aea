/* The arithmetic of the election: shares, ranks, plans; and whole elections played through with the pure part alone,
 * from a printed seed. */

#include "support/suite.h"

#include "election/elector_kind.h"

TEST(shares_sum_up_and_differ_by_one_at_most)
{
    for (unsigned shards = 0; shards <= 40; shards++) {
        for (unsigned members = 1; members <= 45; members++) {
            unsigned sum = 0, low = shards / members;
            for (unsigned rank = 0; rank < members; rank++) {
                unsigned share = dt_share_of(shards, members, rank);
                assert_in_range(share, low, low + 1);
                sum += share;
            }
            assert_int_equal(sum, shards);
        }
    }
}

TEST(no_share_shrinks_when_another_member_leaves)
{
    for (unsigned shards = 0; shards <= 40; shards++) {
        for (unsigned members = 2; members <= 45; members++) {
            for (unsigned gone = 0; gone < members; gone++) {
                for (unsigned rank = 0; rank < members; rank++) {
                    if (rank != gone)
                        assert_true(dt_share_of(shards, members - 1, rank - (rank > gone)) >=
                                    dt_share_of(shards, members, rank));
                }
            }
        }
    }
}

TEST(rank_follows_the_sequence_number_not_the_name)
{
    const char *names[] = {"m-zzz-0000000002", "m-aaa-0000000010", "m-mmm-0000000009"};
    unsigned rank = 99;
    assert_true(dt_share_rank(names, 3, "zzz", &rank));
    assert_int_equal(rank, 0);
    assert_true(dt_share_rank(names, 3, "mmm", &rank));
    assert_int_equal(rank, 1);
    assert_true(dt_share_rank(names, 3, "aaa", &rank));
    assert_int_equal(rank, 2);
}

TEST(a_member_that_is_not_listed_has_no_rank)
{
    const char *names[] = {"m-zzz-0000000002"};
    unsigned rank;
    assert_false(dt_share_rank(names, 1, "aaa", &rank));
    assert_false(dt_share_rank(NULL, 0, "aaa", &rank));
}

TEST(a_member_above_its_share_gives_back_only_the_surplus_and_takes_nothing)
{
    bool mine[DT_SHARDS_MAX] = {true, true, false, true}, taken[DT_SHARDS_MAX] = {true, true, false, true};
    const struct dt_share_view view = {.shards = 4, .members = 2, .rank = 1, .mine = mine, .taken = taken};
    struct dt_share_plan plan;
    dt_share_plan(&view, &plan);
    assert_members(plan, (n_take, 0), (n_release, 1));
    assert_int_equal(plan.release[0], 3);
}

TEST(a_member_below_its_share_takes_free_shards_only)
{
    bool mine[DT_SHARDS_MAX] = {true}, taken[DT_SHARDS_MAX] = {true, true, false, true, true};
    const struct dt_share_view view = {.shards = 5, .members = 2, .rank = 0, .mine = mine, .taken = taken};
    struct dt_share_plan plan;
    dt_share_plan(&view, &plan);
    assert_members(plan, (n_release, 0), (n_take, 1));
    assert_int_equal(plan.take[0], 2);
}

TEST(a_leaving_member_gives_back_everything)
{
    bool mine[DT_SHARDS_MAX] = {true, true}, taken[DT_SHARDS_MAX] = {true, true};
    const struct dt_share_view view = {
        .shards = 4, .members = 1, .rank = 0, .leaving = true, .mine = mine, .taken = taken};
    struct dt_share_plan plan;
    dt_share_plan(&view, &plan);
    assert_members(plan, (n_release, 2), (n_take, 0));
}

TEST(shards_that_the_map_no_longer_names_are_given_back)
{
    bool mine[DT_SHARDS_MAX] = {true, true, true, true}, taken[DT_SHARDS_MAX] = {true, true, true, true};
    const struct dt_share_view view = {.shards = 2, .members = 1, .rank = 0, .mine = mine, .taken = taken};
    struct dt_share_plan plan;
    dt_share_plan(&view, &plan);
    assert_int_equal(plan.n_release, 2);
    assert_int_equal(plan.release[0], 3);
    assert_int_equal(plan.release[1], 2);
}

TEST(members_begin_to_take_shards_at_different_numbers)
{
    bool none[DT_SHARDS_MAX] = {false};
    struct dt_share_plan plan;
    for (unsigned rank = 0; rank < 3; rank++) {
        const struct dt_share_view view = {.shards = 6, .members = 3, .rank = rank, .mine = none, .taken = none};
        dt_share_plan(&view, &plan);
        assert_int_equal(plan.n_take, 2);
        assert_int_equal(plan.take[0], rank * 2);
    }
}

/* ---- whole elections ---- */

enum { PLAYERS = 12 };

struct game {
    unsigned shards, n_members;
    unsigned members[PLAYERS]; /* by order of joining */
    int leader[DT_SHARDS_MAX]; /* player, or -1 */
    unsigned moves;
};

static bool play_member(struct game *g, unsigned rank)
{
    bool mine[DT_SHARDS_MAX] = {false}, taken[DT_SHARDS_MAX] = {false};
    const struct dt_share_view view = {
        .shards = g->shards, .members = g->n_members, .rank = rank, .mine = mine, .taken = taken};
    struct dt_share_plan plan;
    const int me = (int)g->members[rank];
    for (unsigned s = 0; s < g->shards; s++) {
        mine[s] = g->leader[s] == me;
        taken[s] = g->leader[s] >= 0;
    }
    dt_share_plan(&view, &plan);
    for (size_t i = 0; i < plan.n_release; i++)
        g->leader[plan.release[i]] = -1;
    for (size_t i = 0; i < plan.n_take; i++) {
        assert_int_equal(g->leader[plan.take[i]], -1);
        g->leader[plan.take[i]] = me;
        g->moves++;
    }
    return plan.n_release + plan.n_take > 0;
}

/* Members act in any order until nobody has anything to do. */
static void settle(struct game *g)
{
    unsigned rounds = 0;
    bool busy = g->n_members > 0;
    g->moves = 0;
    while (busy) {
        busy = false;
        for (unsigned i = 0; i < g->n_members; i++)
            busy = play_member(g, (i + rounds) % g->n_members) || busy;
        assert_true(++rounds < 200);
    }
}

static unsigned led_by(const struct game *g, int player)
{
    unsigned n = 0;
    for (unsigned s = 0; s < g->shards; s++)
        n += g->leader[s] == player;
    return n;
}

static void assert_balanced(const struct game *g)
{
    for (unsigned rank = 0; rank < g->n_members; rank++)
        assert_int_equal(led_by(g, (int)g->members[rank]), dt_share_of(g->shards, g->n_members, rank));
}

static void join(struct game *g, unsigned player)
{
    g->members[g->n_members++] = player;
    settle(g);
    assert_balanced(g);
    assert_int_equal(g->moves, led_by(g, (int)player)); /* nothing but what it leads now has moved */
}

static void leave(struct game *g, unsigned rank)
{
    const unsigned player = g->members[rank], had = led_by(g, (int)player);
    memmove(&g->members[rank], &g->members[rank + 1], (g->n_members - rank - 1) * sizeof *g->members);
    g->n_members--;
    for (unsigned s = 0; s < g->shards; s++) {
        if (g->leader[s] == (int)player)
            g->leader[s] = -1;
    }
    settle(g);
    assert_balanced(g);
    assert_int_equal(g->moves, g->n_members > 0 ? had : 0); /* nothing but what it led has moved */
}

static bool is_member(const struct game *g, unsigned player)
{
    for (unsigned i = 0; i < g->n_members; i++) {
        if (g->members[i] == player)
            return true;
    }
    return false;
}

TEST(joins_and_leaves_keep_the_balance_and_move_as_few_shards_as_possible)
{
    const unsigned seed = 20261121;
    print_message("seed %u\n", seed);
    srandom(seed);
    for (unsigned shards = 1; shards <= 32; shards++) {
        struct game g = {.shards = shards};
        memset(g.leader, -1, sizeof g.leader);
        for (unsigned step = 0; step < 300; step++) {
            unsigned player = (unsigned)random() % PLAYERS;
            if (!is_member(&g, player))
                join(&g, player);
            else
                leave(&g, (unsigned)random() % g.n_members);
        }
    }
}
