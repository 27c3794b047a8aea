/* Rows of processes: what leaders learn from them without Redis. */

#include "features/doctor/process_findings.h"
#include "store/processes.h"
#include "support/store_suite.h"

STORE_SUITE("processes", 0)

#define RIG_TEST(name) TEST_WITH(name, open_store, close_store)

static void beat(int64_t id, const char *down, int64_t losses)
{
    struct dt_process p = {.id = id, .name = "host:1", .index_down = down, .index_losses = losses};
    OK(dt_store_beat(store, &p, &err));
}

static struct dt_index_debts debts(void)
{
    struct dt_index_debts out;
    OK(dt_store_index_debts(store, &out, &err));
    return out;
}

RIG_TEST(a_process_has_one_row_with_the_time_it_was_last_seen)
{
    struct dt_process p = {.id = 7, .dispatcher = true, .name = "host:2", .leads = "0,3", .elected_by = "mysql"};
    OK(dt_store_beat(store, &p, &err));
    run_sql("UPDATE processes SET started_at = 1, seen_at = 2");
    p.leads = "3";
    OK(dt_store_beat(store, &p, &err));
    assert_sql_number(1, "SELECT COUNT(*) FROM processes WHERE id = 7 AND started_at = 1 AND seen_at > 1000000 AND "
                         "leads = '3' AND kind = 'dispatcher' AND name = 'host:2' AND elected_by = 'mysql'");
    p.elected_by = NULL;
    OK(dt_store_beat(store, &p, &err));
    assert_sql_number(1, "SELECT COUNT(*) FROM processes WHERE elected_by IS NULL");
    assert_sql_number(1, "SELECT COUNT(*) FROM processes");
}

RIG_TEST(every_loss_of_a_live_process_changes_the_table_hash)
{
    uint64_t seen[6];
    beat(1, NULL, 0);
    beat(2, NULL, 0);
    seen[0] = debts().losses;
    assert_int_equal(seen[0], 0); /* who lost nothing may come and go */
    beat(1, NULL, 1);
    seen[1] = debts().losses;
    beat(2, NULL, 1);
    seen[2] = debts().losses;
    beat(1, NULL, 2);
    seen[3] = debts().losses;
    beat(1, NULL, 1);
    beat(2, NULL, 2);
    seen[4] = debts().losses;
    run_sql("UPDATE processes SET seen_at = seen_at - 4001 WHERE id = 2"); /* it is gone */
    seen[5] = debts().losses;
    for (int i = 0; i < 6; i++)
        for (int k = 0; k < i; k++)
            assert_true(seen[i] != seen[k] || (i == 5 && k == 1));
    assert_true(seen[5] == seen[1]);
}

RIG_TEST(endpoints_are_down_while_a_live_process_reports_them)
{
    char long_list[900];
    assert_string_equal(debts().down, "");
    beat(1, "a:1,b:2", 1);
    beat(2, NULL, 0);
    assert_string_equal(debts().down, "a:1,b:2");
    beat(2, "c:3", 1);
    assert_string_equal(debts().down, "a:1,b:2,c:3");
    run_sql("UPDATE processes SET seen_at = seen_at - 4001 WHERE id = 1");
    assert_string_equal(debts().down, "c:3");
    beat(2, "", 1);
    assert_string_equal(debts().down, "");
    assert_sql_number(1, "SELECT COUNT(*) FROM processes WHERE index_down IS NULL");
    snprintf(long_list, sizeof long_list, "%0899d", 0);
    beat(2, long_list, 2);
    beat(3, long_list, 2);
    assert_string_equal(debts().down, "*");
}

RIG_TEST(rows_that_are_an_hour_old_are_removed_when_a_process_begins)
{
    beat(1, NULL, 0);
    beat(2, NULL, 0);
    run_sql("UPDATE processes SET seen_at = seen_at - 3700000 WHERE id = 1");
    beat(2, NULL, 1);
    assert_sql_number(2, "SELECT COUNT(*) FROM processes");
    beat(3, NULL, 0);
    assert_sql_number(2, "SELECT COUNT(*) FROM processes WHERE id IN (2, 3)");
    assert_sql_number(2, "SELECT COUNT(*) FROM processes");
}

static void find(int64_t process, const char *finding, const char *subject)
{
    const struct dt_process_finding f = {
        .finding = dt_str(finding), .subject = dt_str(subject), .detail = dt_str("as it was seen")};
    OK(dt_store_put_findings(store, process, &f, 1, &err));
}

/* "finding subject" of each, with commas between. */
static const char *findings(void)
{
    static char told[300];
    struct dt_process_finding *v;
    size_t n;
    OK(dt_store_findings(store, &arena, &v, &n, &err));
    told[0] = '\0';
    for (size_t i = 0, at = 0; i < n; i++)
        at += (size_t)snprintf(told + at, sizeof told - at, "%s%.*s %.*s", i ? ", " : "", (int)v[i].finding.n,
                               v[i].finding.p, (int)v[i].subject.n, v[i].subject.p);
    return told;
}

RIG_TEST(findings_of_a_process_replace_its_earlier_ones)
{
    beat(1, NULL, 0);
    beat(2, NULL, 0);
    find(1, "replicas", "t1");
    find(2, "replicas", "t1");
    find(2, "replicas", "t2");
    assert_string_equal(findings(), "replicas t1, replicas t2");
    find(1, "clock", "mysql");
    assert_string_equal(findings(), "clock mysql, replicas t2");
    OK(dt_store_put_findings(store, 2, NULL, 0, &err));
    assert_string_equal(findings(), "clock mysql");
}

RIG_TEST(findings_are_shown_while_their_process_lives_and_deleted_an_hour_later)
{
    beat(1, NULL, 0);
    find(1, "clock", "mysql");
    find(2, "replicas", "t"); /* it has no row any more */
    assert_string_equal(findings(), "clock mysql");
    run_sql("UPDATE process_findings SET found_at = found_at - 3500000");
    find(3, "replicas", "u");
    assert_sql_number(3, "SELECT COUNT(*) FROM process_findings");
    run_sql("UPDATE process_findings SET found_at = found_at - 200000");
    find(3, "replicas", "u");
    assert_sql_number(2, "SELECT COUNT(*) FROM process_findings WHERE process IN (1, 3)");
    assert_sql_number(2, "SELECT COUNT(*) FROM process_findings");
    run_sql("UPDATE processes SET seen_at = seen_at - 60000 WHERE id = 1");
    assert_string_equal(findings(), "");
}

static int64_t wait_ms(unsigned shard)
{
    struct dt_deaths deaths;
    OK(dt_store_deaths(store, shard, &deaths, &err));
    assert_string_equal(deaths.where, deaths.wait_ms ? "fence_store.c:120" : "");
    return deaths.wait_ms;
}

RIG_TEST(a_shard_is_left_alone_after_three_deaths_at_one_line_within_a_minute)
{
    const struct dt_config *config = &mysql_fixture.config;
    dt_store_put_death(config, 1, "fence_store.c:120", "held == sum (3, 4)", 3);
    dt_store_put_death(config, 2, "fence_store.c:120", "held == sum (3, 4)", 3);
    dt_store_put_death(config, 3, "fence_store.c:121", "held == sum (3, 4)", 3);
    dt_store_put_death(config, 4, "fence_store.c:120", "held == sum (3, 4)", -1);
    dt_store_put_death(config, 5, "fence_store.c:120", "held == sum (3, 4)", 31);
    assert_int_equal(wait_ms(3), 0);
    run_sql("UPDATE process_findings SET found_at = found_at - 30000");
    dt_store_put_death(config, 6, "fence_store.c:120", "held == sum (3, 4)", 3);
    assert_in_range(wait_ms(3), 50000, 60000);
    assert_int_equal(wait_ms(31), 0);
    run_sql("UPDATE process_findings SET found_at = found_at - 40000");
    assert_in_range(wait_ms(3), 10000, 20000); /* the first one was more than a minute ago */
    run_sql("UPDATE process_findings SET found_at = found_at - 20000");
    assert_int_equal(wait_ms(3), 0);
    run_sql("UPDATE process_findings SET found_at = found_at + 7000000"); /* MySQL's clock is set */
    assert_int_equal(wait_ms(3), 0);
    run_sql("UPDATE process_findings SET found_at = found_at - 7000000 + 55000 - 70000 * (process = -1)");
    assert_int_equal(wait_ms(3), 0);
}

RIG_TEST(a_death_is_reported_for_an_hour_after_its_process_died)
{
    beat(7, NULL, 0);
    dt_store_put_death(&mysql_fixture.config, 7, "fence_store.c:120", "held == sum (3, 4)", 3);
    find(7, "clock", "mysql");
    assert_string_equal(findings(), "assertion shard 3, fence_store.c:120, clock mysql");
    run_sql("UPDATE processes SET seen_at = seen_at - 60000");
    assert_string_equal(findings(), "assertion shard 3, fence_store.c:120");
    run_sql("UPDATE process_findings SET found_at = found_at - 3600000");
    assert_string_equal(findings(), "");
    find(8, "clock", "mysql");
    assert_sql_number(0, "SELECT COUNT(*) FROM process_findings WHERE process = -7");
}
