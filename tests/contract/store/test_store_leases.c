/* Members of the election and their leases, as MySQL keeps them: leases_store.c. */

#include "support/suite.h"

#include "store/leases.h"
#include "store/processes.h"
#include "support/mysql_fixture.h"

static struct dt_error err;

enum { SHARDS = 4, TIMEOUT_MS = 60000, ONE = 11, TWO = 22 };

struct rig {
    struct mysql_fixture fx;
    dt_store *store;
    struct dt_election view;
};

static void setup(void)
{
    struct rig *rig = calloc(1, sizeof(*rig));
    mysql_fixture_open(&rig->fx, "store_leases", SHARDS, &rig->store);
    suite_state = rig;
}

static void teardown(void)
{
    struct rig *rig = suite_state;
    dt_store_free(rig->store);
    mysql_fixture_drop(&rig->fx);
    free(rig);
}

static int fresh(void **state)
{
    struct rig *rig = *state;
    mysql_fixture_run(&rig->fx, "DELETE FROM election_members; DELETE FROM leases; DELETE FROM processes");
    return 0;
}

#define RIG_TEST(name) TEST_OF(struct rig *rig, name, fresh, NULL)

static void join(struct rig *rig, int64_t id, const char *name)
{
    OK(dt_store_election_join(rig->store, id, name, TIMEOUT_MS, &err));
}

static bool renew(struct rig *rig, int64_t id, bool leaving)
{
    bool there = false;
    OK(dt_store_election_renew(rig->store, id, leaving, &there, &err));
    return there;
}

static void take(struct rig *rig, int64_t id, int64_t first, int64_t last)
{
    int64_t shards[SHARDS];
    size_t n = 0;
    while (first <= last)
        shards[n++] = first++;
    OK(dt_store_election_take(rig->store, id, shards, n, &err));
}

static void release(struct rig *rig, int64_t id, int64_t shard)
{
    OK(dt_store_election_release(rig->store, id, &shard, 1, &err));
}

static void end(struct rig *rig, int64_t id, int64_t renewals)
{
    OK(dt_store_election_end(rig->store, id, renewals, &err));
}

static void let_free(struct rig *rig)
{
    OK(dt_store_election_free(rig->store, &err));
}

static const struct dt_election *look(struct rig *rig)
{
    OK(dt_store_election_look(rig->store, &rig->view, &err));
    return &rig->view;
}

static void make_silent(struct rig *rig, int64_t id, int64_t ms)
{
    mysql_fixture_run(&rig->fx, "UPDATE election_members SET renewed_at = renewed_at - %lld WHERE id = %lld",
                      (long long)ms, (long long)id);
}

RIG_TEST(members_are_listed_in_the_order_of_joining)
{
    join(rig, TWO, "host:2");
    mysql_fixture_run(&rig->fx, "UPDATE election_members SET joined_at = joined_at - 5");
    join(rig, ONE, "host:1");
    assert_int_equal(look(rig)->n, 2);
    assert_int_equal(rig->view.members[0].id, TWO);
    assert_members(rig->view.members[1], (id, ONE), (timeout_ms, TIMEOUT_MS));
    assert_in_range(rig->view.members[1].age_ms, 0, 10000);
    assert_false(rig->view.members[0].leaving);
}

RIG_TEST(joining_with_a_taken_number_is_reported)
{
    join(rig, ONE, "host:1");
    assert_int_equal(dt_store_election_join(rig->store, ONE, "host:1", TIMEOUT_MS, &err), DT_EXISTS);
}

RIG_TEST(each_renewal_counts_also_within_a_millisecond)
{
    join(rig, ONE, "host:1");
    for (int i = 1; i <= 20; i++) {
        assert_true(renew(rig, ONE, false));
        assert_int_equal(look(rig)->members[0].renewals, i);
    }
    assert_true(renew(rig, ONE, true));
    assert_true(look(rig)->members[0].leaving);
}

RIG_TEST(a_member_without_a_row_or_that_has_ended_is_not_renewed)
{
    assert_false(renew(rig, ONE, false));
    join(rig, ONE, "host:1");
    OK(dt_store_election_leave(rig->store, ONE, &err));
    assert_false(renew(rig, ONE, false));
    assert_int_equal(look(rig)->n, 0);
}

RIG_TEST(only_free_leases_are_taken)
{
    join(rig, ONE, "host:1");
    join(rig, TWO, "host:2");
    take(rig, ONE, 0, 1);
    take(rig, TWO, 0, 3);
    look(rig);
    assert_int_equal(rig->view.holder[0], ONE);
    assert_int_equal(rig->view.holder[1], ONE);
    assert_int_equal(rig->view.holder[2], TWO);
    assert_int_equal(rig->view.holder[3], TWO);
    assert_int_equal(rig->view.n, 2); /* a member is one, whatever it holds */
}

RIG_TEST(only_the_holder_releases_a_lease)
{
    join(rig, ONE, "host:1");
    join(rig, TWO, "host:2");
    take(rig, ONE, 0, 1);
    release(rig, TWO, 0);
    assert_int_equal(look(rig)->holder[0], ONE);
    release(rig, ONE, 0);
    assert_int_equal(look(rig)->holder[0], 0);
    assert_int_equal(rig->view.holder[1], ONE);
}

RIG_TEST(a_member_is_ended_after_its_timeout_and_not_before)
{
    join(rig, ONE, "host:1");
    make_silent(rig, ONE, TIMEOUT_MS - 5000);
    end(rig, ONE, 0);
    assert_int_equal(look(rig)->n, 1);
    make_silent(rig, ONE, 5000);
    end(rig, ONE, 1); /* it has renewed itself less often than that: another row was seen */
    assert_int_equal(look(rig)->n, 1);
    end(rig, ONE, 0);
    assert_int_equal(look(rig)->n, 0);
    assert_false(renew(rig, ONE, false));
}

RIG_TEST(a_renewal_returns_the_election_in_the_same_statement)
{
    bool there = false;
    join(rig, ONE, "host:1");
    join(rig, TWO, "host:2");
    take(rig, TWO, 1, 2);
    OK(dt_store_election_renew_and_look(rig->store, ONE, true, &there, &rig->view, &err));
    assert_true(there);
    assert_int_equal(rig->view.n, 2);
    assert_int_equal(rig->view.holder[2], TWO);
    for (size_t i = 0; i < rig->view.n; i++) {
        const struct dt_election_member *m = &rig->view.members[i];
        assert_members(*m, (renewals, m->id == ONE), (leaving, m->id == ONE));
        assert_true(m->age_ms >= 0 && m->age_ms < 5000);
        assert_int_equal(m->timeout_ms, TIMEOUT_MS);
    }
    OK(dt_store_election_leave(rig->store, ONE, &err));
    OK(dt_store_election_renew_and_look(rig->store, ONE, false, &there, &rig->view, &err));
    assert_false(there);
    assert_int_equal(rig->view.n, 1);
    assert_int_equal(mysql_fixture_number(&rig->fx, "SELECT renewals FROM election_members WHERE id = %d", ONE), 1);
}

RIG_TEST(a_clock_set_back_does_not_keep_a_silent_member)
{
    join(rig, ONE, "host:1");
    make_silent(rig, ONE, -3600000);
    assert_true(look(rig)->members[0].age_ms < 0);
    end(rig, ONE, 0);
    assert_int_equal(look(rig)->n, 0);
}

RIG_TEST(leases_of_ended_members_are_ignored_and_can_be_taken_when_freed)
{
    join(rig, ONE, "host:1");
    join(rig, TWO, "host:2");
    take(rig, ONE, 0, 3);
    OK(dt_store_election_leave(rig->store, ONE, &err));
    assert_int_equal(look(rig)->holder[0], 0);
    take(rig, TWO, 0, 0);
    assert_int_equal(look(rig)->holder[0], 0);
    let_free(rig);
    take(rig, TWO, 0, 0);
    assert_int_equal(look(rig)->holder[0], TWO);
    let_free(rig);
    assert_int_equal(look(rig)->holder[0], TWO);
}

RIG_TEST(leases_of_unknown_members_are_freed)
{
    mysql_fixture_run(&rig->fx, "INSERT INTO leases (shard, member) VALUES (1, 999)");
    join(rig, ONE, "host:1");
    let_free(rig);
    take(rig, ONE, 1, 1);
    assert_int_equal(look(rig)->holder[1], ONE);
}

RIG_TEST(a_member_that_has_ended_takes_no_shard)
{
    join(rig, ONE, "host:1");
    OK(dt_store_election_leave(rig->store, ONE, &err));
    take(rig, ONE, 0, 3);
    assert_int_equal(mysql_fixture_number(&rig->fx, "SELECT COUNT(*) FROM leases"), 0);
}

static void beat(struct rig *rig, int64_t id, const char *elected_by, const char *leads)
{
    const struct dt_process p = {
        .id = id, .dispatcher = true, .name = "host:1", .leads = leads, .elected_by = elected_by};
    OK(dt_store_beat(rig->store, &p, &err));
}

RIG_TEST(a_dispatcher_that_zookeeper_elects_counts_while_it_lives_whether_it_leads_or_not)
{
    join(rig, ONE, "host:1");
    beat(rig, 1, "mysql", "0,1,2,3");
    assert_false(look(rig)->elsewhere);
    beat(rig, 2, NULL, "");
    assert_false(look(rig)->elsewhere);
    beat(rig, 2, "zookeeper", "");
    assert_true(look(rig)->elsewhere);
    beat(rig, 2, "zookeeper", "3");
    assert_true(look(rig)->elsewhere);
    mysql_fixture_run(&rig->fx, "UPDATE processes SET seen_at = seen_at - %d WHERE id = 2", DT_PROCESS_FRESH_MS + 1000);
    assert_false(look(rig)->elsewhere);
    beat(rig, 2, NULL, "");
    assert_false(look(rig)->elsewhere);
}

RIG_TEST(members_that_ended_are_forgotten_after_a_minute)
{
    join(rig, ONE, "host:1");
    OK(dt_store_election_leave(rig->store, ONE, &err));
    join(rig, TWO, "host:2");
    assert_int_equal(mysql_fixture_number(&rig->fx, "SELECT COUNT(*) FROM election_members"), 2);
    make_silent(rig, ONE, 61000);
    make_silent(rig, TWO, 61000);
    join(rig, TWO + 1, "host:3");
    assert_int_equal(mysql_fixture_number(&rig->fx, "SELECT COUNT(*) FROM election_members WHERE id <> %d", ONE), 2);
    assert_int_equal(mysql_fixture_number(&rig->fx, "SELECT COUNT(*) FROM election_members"), 2);
}

SUITE(setup, teardown)
