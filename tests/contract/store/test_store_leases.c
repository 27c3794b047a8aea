/* Members of the election and their leases, as MySQL keeps them: leases_store.c. */

#include "store/leases.h"
#include "store/processes.h"
#include "support/store_suite.h"

enum { SHARDS = 4, TIMEOUT_MS = 60000, ONE = 11, TWO = 22 };

STORE_SUITE("store_leases", SHARDS)

static struct dt_election view;

static void fresh(void)
{
    run_sql("DELETE FROM election_members; DELETE FROM leases; DELETE FROM processes");
}

#define RIG_TEST(name) TEST_WITH(name, fresh, NULL)

static void join(int64_t id, const char *name)
{
    OK(dt_store_election_join(store, id, name, TIMEOUT_MS, &err));
}

static bool renew(int64_t id, bool leaving)
{
    bool there = false;
    OK(dt_store_election_renew(store, id, leaving, &there, &err));
    return there;
}

static void take(int64_t id, int64_t first, int64_t last)
{
    int64_t shards[SHARDS];
    size_t n = 0;
    while (first <= last)
        shards[n++] = first++;
    OK(dt_store_election_take(store, id, shards, n, &err));
}

static void release(int64_t id, int64_t shard)
{
    OK(dt_store_election_release(store, id, &shard, 1, &err));
}

static void end(int64_t id, int64_t renewals)
{
    OK(dt_store_election_end(store, id, renewals, &err));
}

static void let_free(void)
{
    OK(dt_store_election_free(store, &err));
}

static const struct dt_election *look(void)
{
    OK(dt_store_election_look(store, &view, &err));
    return &view;
}

static void make_silent(int64_t id, int64_t ms)
{
    run_sql("UPDATE election_members SET renewed_at = renewed_at - %lld WHERE id = %lld", (long long)ms, (long long)id);
}

RIG_TEST(members_are_listed_in_the_order_of_joining)
{
    join(TWO, "host:2");
    run_sql("UPDATE election_members SET joined_at = joined_at - 5");
    join(ONE, "host:1");
    assert_int_equal(look()->n, 2);
    assert_int_equal(view.members[0].id, TWO);
    assert_members(view.members[1], (id, ONE), (timeout_ms, TIMEOUT_MS));
    assert_in_range(view.members[1].age_ms, 0, 10000);
    assert_false(view.members[0].leaving);
}

RIG_TEST(joining_with_a_taken_number_is_reported)
{
    join(ONE, "host:1");
    assert_int_equal(dt_store_election_join(store, ONE, "host:1", TIMEOUT_MS, &err), DT_EXISTS);
}

RIG_TEST(each_renewal_counts_also_within_a_millisecond)
{
    join(ONE, "host:1");
    for (int i = 1; i <= 20; i++) {
        assert_true(renew(ONE, false));
        assert_int_equal(look()->members[0].renewals, i);
    }
    assert_true(renew(ONE, true));
    assert_true(look()->members[0].leaving);
}

RIG_TEST(a_member_without_a_row_or_that_has_ended_is_not_renewed)
{
    assert_false(renew(ONE, false));
    join(ONE, "host:1");
    OK(dt_store_election_leave(store, ONE, &err));
    assert_false(renew(ONE, false));
    assert_int_equal(look()->n, 0);
}

RIG_TEST(only_free_leases_are_taken)
{
    join(ONE, "host:1");
    join(TWO, "host:2");
    take(ONE, 0, 1);
    take(TWO, 0, 3);
    look();
    assert_int_equal(view.holder[0], ONE);
    assert_int_equal(view.holder[1], ONE);
    assert_int_equal(view.holder[2], TWO);
    assert_int_equal(view.holder[3], TWO);
    assert_int_equal(view.n, 2); /* a member is one, whatever it holds */
}

RIG_TEST(only_the_holder_releases_a_lease)
{
    join(ONE, "host:1");
    join(TWO, "host:2");
    take(ONE, 0, 1);
    release(TWO, 0);
    assert_int_equal(look()->holder[0], ONE);
    release(ONE, 0);
    assert_int_equal(look()->holder[0], 0);
    assert_int_equal(view.holder[1], ONE);
}

RIG_TEST(a_member_is_ended_after_its_timeout_and_not_before)
{
    join(ONE, "host:1");
    make_silent(ONE, TIMEOUT_MS - 5000);
    end(ONE, 0);
    assert_int_equal(look()->n, 1);
    make_silent(ONE, 5000);
    end(ONE, 1); /* it has renewed itself less often than that: another row was seen */
    assert_int_equal(look()->n, 1);
    end(ONE, 0);
    assert_int_equal(look()->n, 0);
    assert_false(renew(ONE, false));
}

RIG_TEST(a_renewal_returns_the_election_in_the_same_statement)
{
    bool there = false;
    join(ONE, "host:1");
    join(TWO, "host:2");
    take(TWO, 1, 2);
    OK(dt_store_election_renew_and_look(store, ONE, true, &there, &view, &err));
    assert_true(there);
    assert_int_equal(view.n, 2);
    assert_int_equal(view.holder[2], TWO);
    for (size_t i = 0; i < view.n; i++) {
        const struct dt_election_member *m = &view.members[i];
        assert_members(*m, (renewals, m->id == ONE), (leaving, m->id == ONE));
        assert_true(m->age_ms >= 0 && m->age_ms < 5000);
        assert_int_equal(m->timeout_ms, TIMEOUT_MS);
    }
    OK(dt_store_election_leave(store, ONE, &err));
    OK(dt_store_election_renew_and_look(store, ONE, false, &there, &view, &err));
    assert_false(there);
    assert_int_equal(view.n, 1);
    assert_sql_number(1, "SELECT renewals FROM election_members WHERE id = %d", ONE);
}

RIG_TEST(a_clock_set_back_does_not_keep_a_silent_member)
{
    join(ONE, "host:1");
    make_silent(ONE, -3600000);
    assert_true(look()->members[0].age_ms < 0);
    end(ONE, 0);
    assert_int_equal(look()->n, 0);
}

RIG_TEST(leases_of_ended_members_are_ignored_and_can_be_taken_when_freed)
{
    join(ONE, "host:1");
    join(TWO, "host:2");
    take(ONE, 0, 3);
    OK(dt_store_election_leave(store, ONE, &err));
    assert_int_equal(look()->holder[0], 0);
    take(TWO, 0, 0);
    assert_int_equal(look()->holder[0], 0);
    let_free();
    take(TWO, 0, 0);
    assert_int_equal(look()->holder[0], TWO);
    let_free();
    assert_int_equal(look()->holder[0], TWO);
}

RIG_TEST(leases_of_unknown_members_are_freed)
{
    run_sql("INSERT INTO leases (shard, member) VALUES (1, 999)");
    join(ONE, "host:1");
    let_free();
    take(ONE, 1, 1);
    assert_int_equal(look()->holder[1], ONE);
}

RIG_TEST(a_member_that_has_ended_takes_no_shard)
{
    join(ONE, "host:1");
    OK(dt_store_election_leave(store, ONE, &err));
    take(ONE, 0, 3);
    assert_sql_number(0, "SELECT COUNT(*) FROM leases");
}

static void beat(int64_t id, const char *elected_by, const char *leads)
{
    const struct dt_process p = {
        .id = id, .dispatcher = true, .name = "host:1", .leads = leads, .elected_by = elected_by};
    OK(dt_store_beat(store, &p, &err));
}

RIG_TEST(a_dispatcher_that_zookeeper_elects_counts_while_it_lives_whether_it_leads_or_not)
{
    join(ONE, "host:1");
    beat(1, "mysql", "0,1,2,3");
    assert_false(look()->elsewhere);
    beat(2, NULL, "");
    assert_false(look()->elsewhere);
    beat(2, "zookeeper", "");
    assert_true(look()->elsewhere);
    beat(2, "zookeeper", "3");
    assert_true(look()->elsewhere);
    run_sql("UPDATE processes SET seen_at = seen_at - %d WHERE id = 2", DT_PROCESS_FRESH_MS + 1000);
    assert_false(look()->elsewhere);
    beat(2, NULL, "");
    assert_false(look()->elsewhere);
}

RIG_TEST(members_that_ended_are_forgotten_after_a_minute)
{
    join(ONE, "host:1");
    OK(dt_store_election_leave(store, ONE, &err));
    join(TWO, "host:2");
    assert_sql_number(2, "SELECT COUNT(*) FROM election_members");
    make_silent(ONE, 61000);
    make_silent(TWO, 61000);
    join(TWO + 1, "host:3");
    assert_sql_number(2, "SELECT COUNT(*) FROM election_members WHERE id <> %d", ONE);
    assert_sql_number(2, "SELECT COUNT(*) FROM election_members");
}

SUITE(open_store, close_store)
