/* Rows of processes: what leaders learn from them without Redis. */

#include "support/suite.h"

#include "features/doctor/process_findings.h"
#include "store/processes.h"
#include "support/mysql_fixture.h"

static struct dt_error err;

struct rig {
    struct mysql_fixture fx;
    dt_store *store;
};

static void setup(struct rig *rig)
{
    mysql_fixture_open(&rig->fx, "processes", 0, &rig->store);
}

static void teardown(struct rig *rig)
{
    dt_store_free(rig->store);
    mysql_fixture_drop(&rig->fx);
}

#define RIG_TEST(name) TEST_ON(struct rig, rig, name, setup, teardown)

static void beat(struct rig *rig, int64_t id, const char *down, int64_t losses)
{
    struct dt_process p = {.id = id, .name = "host:1", .index_down = down, .index_losses = losses};
    OK(dt_store_beat(rig->store, &p, &err));
}

static struct dt_index_debts debts(struct rig *rig)
{
    struct dt_index_debts out;
    OK(dt_store_index_debts(rig->store, &out, &err));
    return out;
}

RIG_TEST(a_process_has_one_row_with_the_time_it_was_last_seen)
{
    struct dt_process p = {.id = 7, .dispatcher = true, .name = "host:2", .leads = "0,3", .elected_by = "mysql"};
    OK(dt_store_beat(rig->store, &p, &err));
    mysql_fixture_run(&rig->fx, "UPDATE processes SET started_at = 1, seen_at = 2");
    p.leads = "3";
    OK(dt_store_beat(rig->store, &p, &err));
    assert_int_equal(mysql_fixture_number(&rig->fx, "SELECT COUNT(*) FROM processes WHERE id = 7 AND started_at = 1 AND"
                                                    " seen_at > 1000000 AND leads = '3' AND kind = 'dispatcher' AND"
                                                    " name = 'host:2' AND elected_by = 'mysql'"),
                     1);
    p.elected_by = NULL;
    OK(dt_store_beat(rig->store, &p, &err));
    assert_int_equal(mysql_fixture_number(&rig->fx, "SELECT COUNT(*) FROM processes WHERE elected_by IS NULL"), 1);
    assert_int_equal(mysql_fixture_number(&rig->fx, "SELECT COUNT(*) FROM processes"), 1);
}

RIG_TEST(every_loss_of_a_live_process_changes_the_table_hash)
{
    uint64_t seen[6];
    beat(rig, 1, NULL, 0);
    beat(rig, 2, NULL, 0);
    seen[0] = debts(rig).losses;
    assert_int_equal(seen[0], 0); /* who lost nothing may come and go */
    beat(rig, 1, NULL, 1);
    seen[1] = debts(rig).losses;
    beat(rig, 2, NULL, 1);
    seen[2] = debts(rig).losses;
    beat(rig, 1, NULL, 2);
    seen[3] = debts(rig).losses;
    beat(rig, 1, NULL, 1);
    beat(rig, 2, NULL, 2);
    seen[4] = debts(rig).losses;
    mysql_fixture_run(&rig->fx, "UPDATE processes SET seen_at = seen_at - 4001 WHERE id = 2"); /* it is gone */
    seen[5] = debts(rig).losses;
    for (int i = 0; i < 6; i++)
        for (int k = 0; k < i; k++)
            assert_true(seen[i] != seen[k] || (i == 5 && k == 1));
    assert_true(seen[5] == seen[1]);
}

RIG_TEST(endpoints_are_down_while_a_live_process_reports_them)
{
    char long_list[900];
    assert_string_equal(debts(rig).down, "");
    beat(rig, 1, "a:1,b:2", 1);
    beat(rig, 2, NULL, 0);
    assert_string_equal(debts(rig).down, "a:1,b:2");
    beat(rig, 2, "c:3", 1);
    assert_string_equal(debts(rig).down, "a:1,b:2,c:3");
    mysql_fixture_run(&rig->fx, "UPDATE processes SET seen_at = seen_at - 4001 WHERE id = 1");
    assert_string_equal(debts(rig).down, "c:3");
    beat(rig, 2, "", 1);
    assert_string_equal(debts(rig).down, "");
    assert_int_equal(mysql_fixture_number(&rig->fx, "SELECT COUNT(*) FROM processes WHERE index_down IS NULL"), 1);
    snprintf(long_list, sizeof long_list, "%0899d", 0);
    beat(rig, 2, long_list, 2);
    beat(rig, 3, long_list, 2);
    assert_string_equal(debts(rig).down, "*");
}

RIG_TEST(rows_that_are_an_hour_old_are_removed_when_a_process_begins)
{
    beat(rig, 1, NULL, 0);
    beat(rig, 2, NULL, 0);
    mysql_fixture_run(&rig->fx, "UPDATE processes SET seen_at = seen_at - 3700000 WHERE id = 1");
    beat(rig, 2, NULL, 1);
    assert_int_equal(mysql_fixture_number(&rig->fx, "SELECT COUNT(*) FROM processes"), 2);
    beat(rig, 3, NULL, 0);
    assert_int_equal(mysql_fixture_number(&rig->fx, "SELECT COUNT(*) FROM processes WHERE id IN (2, 3)"), 2);
    assert_int_equal(mysql_fixture_number(&rig->fx, "SELECT COUNT(*) FROM processes"), 2);
}

static void find(struct rig *rig, int64_t process, const char *finding, const char *subject)
{
    const struct dt_process_finding f = {
        .finding = dt_str(finding), .subject = dt_str(subject), .detail = dt_str("as it was seen")};
    OK(dt_store_put_findings(rig->store, process, &f, 1, &err));
}

/* "finding subject" of each, with commas between. */
static const char *findings(struct rig *rig)
{
    static char told[300];
    struct dt_process_finding *v;
    struct dt_arena arena = {0};
    size_t n;
    OK(dt_store_findings(rig->store, &arena, &v, &n, &err));
    told[0] = '\0';
    for (size_t i = 0, at = 0; i < n; i++)
        at += (size_t)snprintf(told + at, sizeof told - at, "%s%.*s %.*s", i ? ", " : "", (int)v[i].finding.n,
                               v[i].finding.p, (int)v[i].subject.n, v[i].subject.p);
    dt_arena_clear(&arena);
    return told;
}

RIG_TEST(findings_of_a_process_replace_its_earlier_ones)
{
    beat(rig, 1, NULL, 0);
    beat(rig, 2, NULL, 0);
    find(rig, 1, "replicas", "t1");
    find(rig, 2, "replicas", "t1");
    find(rig, 2, "replicas", "t2");
    assert_string_equal(findings(rig), "replicas t1, replicas t2");
    find(rig, 1, "clock", "mysql");
    assert_string_equal(findings(rig), "clock mysql, replicas t2");
    OK(dt_store_put_findings(rig->store, 2, NULL, 0, &err));
    assert_string_equal(findings(rig), "clock mysql");
}

RIG_TEST(findings_are_shown_while_their_process_lives_and_deleted_an_hour_later)
{
    beat(rig, 1, NULL, 0);
    find(rig, 1, "clock", "mysql");
    find(rig, 2, "replicas", "t"); /* it has no row any more */
    assert_string_equal(findings(rig), "clock mysql");
    mysql_fixture_run(&rig->fx, "UPDATE process_findings SET found_at = found_at - 3500000");
    find(rig, 3, "replicas", "u");
    assert_int_equal(mysql_fixture_number(&rig->fx, "SELECT COUNT(*) FROM process_findings"), 3);
    mysql_fixture_run(&rig->fx, "UPDATE process_findings SET found_at = found_at - 200000");
    find(rig, 3, "replicas", "u");
    assert_int_equal(mysql_fixture_number(&rig->fx, "SELECT COUNT(*) FROM process_findings WHERE process IN (1, 3)"),
                     2);
    assert_int_equal(mysql_fixture_number(&rig->fx, "SELECT COUNT(*) FROM process_findings"), 2);
    mysql_fixture_run(&rig->fx, "UPDATE processes SET seen_at = seen_at - 60000 WHERE id = 1");
    assert_string_equal(findings(rig), "");
}

static int64_t wait_ms(struct rig *rig, unsigned shard)
{
    struct dt_deaths deaths;
    OK(dt_store_deaths(rig->store, shard, &deaths, &err));
    assert_string_equal(deaths.where, deaths.wait_ms ? "fence_store.c:120" : "");
    return deaths.wait_ms;
}

RIG_TEST(a_shard_is_left_alone_after_three_deaths_at_one_line_within_a_minute)
{
    const struct dt_config *config = &rig->fx.config;
    dt_store_put_death(config, 1, "fence_store.c:120", "held == sum (3, 4)", 3);
    dt_store_put_death(config, 2, "fence_store.c:120", "held == sum (3, 4)", 3);
    dt_store_put_death(config, 3, "fence_store.c:121", "held == sum (3, 4)", 3);
    dt_store_put_death(config, 4, "fence_store.c:120", "held == sum (3, 4)", -1);
    dt_store_put_death(config, 5, "fence_store.c:120", "held == sum (3, 4)", 31);
    assert_int_equal(wait_ms(rig, 3), 0);
    mysql_fixture_run(&rig->fx, "UPDATE process_findings SET found_at = found_at - 30000");
    dt_store_put_death(config, 6, "fence_store.c:120", "held == sum (3, 4)", 3);
    assert_in_range(wait_ms(rig, 3), 50000, 60000);
    assert_int_equal(wait_ms(rig, 31), 0);
    mysql_fixture_run(&rig->fx, "UPDATE process_findings SET found_at = found_at - 40000");
    assert_in_range(wait_ms(rig, 3), 10000, 20000); /* the first one was more than a minute ago */
    mysql_fixture_run(&rig->fx, "UPDATE process_findings SET found_at = found_at - 20000");
    assert_int_equal(wait_ms(rig, 3), 0);
    mysql_fixture_run(&rig->fx, "UPDATE process_findings SET found_at = found_at + 7000000"); /* MySQL's clock is set */
    assert_int_equal(wait_ms(rig, 3), 0);
    mysql_fixture_run(&rig->fx,
                      "UPDATE process_findings SET found_at = found_at - 7000000 + 55000 - 70000 * (process = -1)");
    assert_int_equal(wait_ms(rig, 3), 0);
}

RIG_TEST(a_death_is_reported_for_an_hour_after_its_process_died)
{
    beat(rig, 7, NULL, 0);
    dt_store_put_death(&rig->fx.config, 7, "fence_store.c:120", "held == sum (3, 4)", 3);
    find(rig, 7, "clock", "mysql");
    assert_string_equal(findings(rig), "assertion shard 3, fence_store.c:120, clock mysql");
    mysql_fixture_run(&rig->fx, "UPDATE processes SET seen_at = seen_at - 60000");
    assert_string_equal(findings(rig), "assertion shard 3, fence_store.c:120");
    mysql_fixture_run(&rig->fx, "UPDATE process_findings SET found_at = found_at - 3600000");
    assert_string_equal(findings(rig), "");
    find(rig, 8, "clock", "mysql");
    assert_int_equal(mysql_fixture_number(&rig->fx, "SELECT COUNT(*) FROM process_findings WHERE process = -7"), 0);
}

SUITE(NULL, NULL)
