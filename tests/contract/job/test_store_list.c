/* Pages of jobs on a real server: filters, cursors, and that a page looks at a bounded number of rows. */
#include "contract/job/list_suite.h"

STORE_SUITE("list", 0)

static void keyed(int64_t id, const char *topic, const char *key)
{
    job_row(id, "topic = '%s', job_key = '%s'", topic, key);
    run_sql("INSERT INTO job_keys VALUES ('%s', '%s', %lld) ON DUPLICATE KEY UPDATE job_id = VALUES(job_id)", topic,
            key, (long long)id);
}

#define FRESH_TEST(name) TEST_WITH(name, empty_tables, NULL)

/* ---- pages ---- */

FRESH_TEST(an_empty_table_is_one_empty_page)
{
    assert_page(all(100), "");
}

FRESH_TEST(pages_follow_each_other_by_id_without_gap_or_overlap)
{
    for (int64_t id = 7; id >= 1; id--)
        job_row(id * 10, NULL);
    struct dt_list_filter f = all(3);
    assert_page(f, "10 20 30+");
    f.after_id = last.last_id;
    assert_page(f, "40 50 60+");
    f.after_id = last.last_id;
    assert_page(f, "70");
}

FRESH_TEST(a_full_page_at_the_end_of_a_list_says_that_no_page_follows)
{
    for (int64_t id = 1; id <= 3; id++)
        job_row(id, NULL);
    assert_page(all(3), "1 2 3");
    assert_page(all(1000), "1 2 3");
}

FRESH_TEST(jobs_deleted_between_two_pages_do_not_disturb_the_list)
{
    for (int64_t id = 1; id <= 6; id++)
        job_row(id, NULL);
    struct dt_list_filter f = all(2);
    list(f);
    run_sql("DELETE FROM jobs WHERE id IN (2, 3)");
    f.after_id = last.last_id;
    assert_page(f, "4 5+");
}

/* ---- filters ---- */

FRESH_TEST(filters_can_be_combined)
{
    job_row(1, "run_at = 100");
    job_row(2, "run_at = 200, topic = 'other'");
    job_row(3, "run_at = 300, state = 'dead', next_at = NULL");
    job_row(4, "run_at = 400, state = 'dispatched'");
    assert_page(WITH(.topic = S("orders")), "1 3 4");
    assert_page(WITH(.topic = S("orders"), .state = DT_DEAD), "3");
    assert_page(WITH(.state = DT_SCHEDULED), "1 2");
    assert_page(WITH(.has_run_from = true, .run_from_ms = 200), "2 3 4");
    const struct dt_list_filter both =
        WITH(.has_run_from = true, .run_from_ms = 200, .has_run_to = true, .run_to_ms = 400);
    assert_page(both, "2 3");
    assert_page(WITH(.topic = S("ORDERS"), .has_run_from = true, .run_from_ms = 200), "");
}

FRESH_TEST(a_token_sees_the_topics_of_its_prefixes_only)
{
    static const char *const topics[] = {"a", "a.b", "aXb", "b", "A", "ab", "a-b", "a_b"};
    static const struct {
        struct dt_str prefixes[3];
        size_t n;
        const char *ids;
    } rows[] = {{{S("a."), S("b")}, 2, "2 4"},
                {{S("a")}, 1, "1 2 3 6 7 8"},
                {{S("a-"), S("a_b"), S("a.b")}, 3, "2 7 8"},
                {{S(".*"), S("a|b"), S("(")}, 3, ""}, /* never parts of an expression */
                {{S("")}, 1, ""},                     /* nothing, not everything */
                {{S("")}, 0, ""}};
    for (int64_t i = 0; i < 8; i++)
        job_row(i + 1, "topic = '%s'", topics[i]);
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
        assert_page(WITH(.bound = true, .prefixes = rows[i].prefixes, .n_prefixes = rows[i].n), rows[i].ids);
}

FRESH_TEST(payloads_are_returned_only_on_request)
{
    job_row(1, NULL);
    struct dt_list_filter f = all(1);
    list(f);
    assert_members(last.v[0], (payload.p, NULL), (topic.p, "orders"));
    f.payload = true;
    list(f);
    assert_string_equal(last.v[0].payload.p, "{\"n\":1}");
}

/* ---- by key ---- */

FRESH_TEST(a_prefix_of_keys_lists_each_keys_latest_job_by_key)
{
    keyed(5, "orders", "order-1");
    keyed(9, "orders", "order-1"); /* took the key over */
    keyed(2, "orders", "order-2");
    keyed(1, "orders", "order-3");
    keyed(3, "orders", "ordes");
    keyed(4, "orders", "order");
    keyed(6, "other", "order-1");
    struct dt_list_filter f = WITH(.limit = 2, .topic = S("orders"), .key_prefix = S("order-"));
    assert_page(f, "9 2+");
    assert_string_equal(last.last_key.p, "order-2");
    f.after_key = last.last_key;
    assert_page(f, "1");
    f = WITH(.topic = S("orders"), .key_prefix = S(""));
    assert_page(f, "4 9 2 1 3");
}

FRESH_TEST(a_prefix_of_keys_is_bytes_not_a_pattern)
{
    keyed(1, "orders", "%");
    keyed(2, "orders", "a_b");
    keyed(3, "orders", "axb");
    keyed(4, "orders", "A_B");
    keyed(5, "orders", "\xC3\xBF"); /* the last letter of its block: the bound is no UTF-8 */
    keyed(6, "orders", "\xC3\xBF z");
    keyed(7, "orders", "\xC4\x80");
    keyed(8, "orders", "\xF4\x8F\xBF\xBF");
    assert_page(WITH(.topic = S("orders"), .key_prefix = S("%")), "1");
    assert_page(WITH(.topic = S("orders"), .key_prefix = S("a_")), "2");
    assert_page(WITH(.topic = S("orders"), .key_prefix = S("\xC3\xBF")), "5 6");
    assert_page(WITH(.topic = S("orders"), .key_prefix = S("\xF4\x8F\xBF\xBF")), "8");
}

FRESH_TEST(filters_apply_to_lists_by_key)
{
    struct dt_str other = S("other");
    keyed(1, "orders", "k1");
    keyed(2, "orders", "k2");
    run_sql("UPDATE jobs SET state = 'dead', next_at = NULL WHERE id = 2");
    struct dt_list_filter f = WITH(.limit = 1, .topic = S("orders"), .key_prefix = S("k"), .state = DT_DEAD);
    assert_page(f, "2");
    f.bound = true;
    f.prefixes = &other;
    f.n_prefixes = 1;
    assert_page(f, "");
}

FRESH_TEST(a_prefix_of_keys_needs_a_topic)
{
    assert_int_equal(dt_store_list(store, &WITH(.key_prefix = S("k")), &arena, &last, &err), DT_INVALID);
}

/* ---- one job, and what is known of it ---- */

FRESH_TEST(a_key_lists_its_latest_job_and_no_other)
{
    keyed(5, "orders", "order-1");
    keyed(9, "orders", "order-1");
    keyed(2, "orders", "order-10");
    keyed(3, "orders", "order-");
    keyed(4, "other", "order-1");
    assert_page(WITH(.limit = 1, .topic = S("orders"), .key = S("order-1")), "9");
    assert_page(WITH(.limit = 1, .topic = S("orders"), .key = S("order")), "");
    assert_int_equal(dt_store_list(store, &WITH(.key = S("order")), &arena, &last, &err), DT_INVALID);
}

FRESH_TEST(an_id_lists_its_job_and_reads_no_other)
{
    many_jobs();
    int64_t before = rows_read();
    assert_page(WITH(.id = 20000), "20000");
    assert_in_range(rows_read() - before, 1, 100);
    assert_page(WITH(.id = 20000, .state = DT_DEAD), "");
    assert_page(WITH(.id = MANY + 5), "");
}

FRESH_TEST(jobs_are_found_by_last_failure_and_creation_time)
{
    job_row(1, "error_code = 'http_503', error_message = 'no route to 10.0.0.7', error_at = 100");
    job_row(2, "error_code = 'http_500', error_message = '100%% wrong', error_at = 200");
    job_row(3, "error_code = 'timeout', error_at = 300");
    job_row(4, "created_at = 400");
    assert_page(WITH(.created = between(400, 401)), "4");
    assert_page(WITH(.error_code = S("http_500")), "2");
    assert_page(WITH(.error_text = S("0% w")), "2");
    assert_page(WITH(.error_text = S("%")), "2");
    assert_page(WITH(.error_text = S("http_50")), "1 2");
    assert_page(WITH(.error_text = S("NO ROUTE")), "");
    assert_page(WITH(.failed = between(INT64_MIN, 300)), "1 2");
    assert_page(WITH(.failed = between(200, INT64_MAX)), "2 3");
}

/* ---- bounds ---- */

/* So many rows with payloads of so many bytes, ids from the given one on. */
static void fat(int64_t first, int rows, int bytes)
{
    for (int64_t id = first; id < first + rows; id++)
        job_row(id, "topic = 'fat', job_key = 'k%03lld', payload = REPEAT('x', %d)", (long long)id, bytes);
    run_sql(
        "INSERT IGNORE INTO job_keys (topic, job_key, job_id) SELECT topic, job_key, id FROM jobs WHERE topic = 'fat'");
}

/* All pages, by id or by key: every job once, in order; returns how many pages. */
static int walk(struct dt_list_filter f, int64_t rows, size_t most)
{
    char key[DT_KEY_MAX];
    int64_t next = 1;
    int pages = 0;
    do {
        size_t bytes = 0;
        dt_arena_reset(&arena);
        list(f);
        for (size_t i = 0; i < last.n; i++) {
            assert_int_equal(last.v[i].id, next++);
            bytes += last.v[i].payload.n;
        }
        assert_true(last.n == 1 || bytes <= most);
        f.after_id = last.last_id;
        if (f.key_prefix.p && last.last_key.p) {
            memcpy(key, last.last_key.p, last.last_key.n);
            f.after_key = (struct dt_str){key, last.last_key.n};
        }
        pages++;
    } while (last.more);
    assert_int_equal(next, rows + 1);
    return pages;
}

FRESH_TEST(a_page_ends_by_bytes_as_well_as_by_rows)
{
    fat(1, 40, 100000);
    struct dt_list_filter f = WITH(.limit = 1000, .topic = S("fat"), .payload = true);
    assert_int_equal(walk(f, 40, SIZE_MAX), 1);
    f.bytes = 1000000;
    assert_in_range(walk(f, 40, f.bytes), 4, 7);
    f.key_prefix = S("k");
    assert_in_range(walk(f, 40, f.bytes), 4, 7);
    f.limit = 3;
    assert_in_range(walk(f, 40, f.bytes), 14, 15);
}

FRESH_TEST(a_row_larger_than_a_page_is_a_page_of_its_own)
{
    fat(1, 2, 10);
    fat(3, 3, 300000);
    fat(6, 70, 10);
    fat(76, 1, 300000);
    struct dt_list_filter f = WITH(.limit = 1000, .payload = true, .bytes = 100000);
    assert_in_range(walk(f, 76, f.bytes), 6, 12);
}

/* Small rows first: what is asked for next is more than a page has, and the rest of it is left with the server. */
FRESH_TEST(large_rows_after_small_ones_are_not_read_in_vain)
{
    fat(1, 90, 10);
    fat(91, 60, 800000);
    struct dt_list_filter f = WITH(.limit = 1000, .payload = true, .bytes = 4000000);
    assert_in_range(walk(f, 150, f.bytes), 13, 20);
    ARENA(own);
    OK(dt_store_list(store, &f, &own, &last, &err));
    assert_in_range(own.size, 1, 8000000);
}

FRESH_TEST(a_page_that_finds_nothing_ends_after_a_bounded_number_of_rows)
{
    many_jobs();
    run_sql("UPDATE jobs SET topic = 'rare' WHERE id IN (5, 15000, %d)", MANY);
    struct dt_list_filter f = WITH(.topic = S("rare"));
    int64_t before = rows_read();
    list(f);
    int64_t looked_at = rows_read() - before;
    print_message("%lld rows read\n", (long long)looked_at);
    assert_string_equal(page(), "5+");
    assert_in_range(looked_at, 10000, 25000); /* each window is read twice: its end, then its rows */
    assert_int_equal(last.last_id, 10000);
    int pages = 1;
    char found[200] = "5";
    while (last.more) {
        f.after_id = last.last_id;
        list(f);
        for (size_t i = 0; i < last.n; i++)
            snprintf(found + strlen(found), sizeof found - strlen(found), " %lld", (long long)last.v[i].id);
        assert_in_range(++pages, 2, 3);
    }
    assert_string_equal(found, "5 15000 24000");
}

FRESH_TEST(a_full_page_costs_about_what_it_holds)
{
    many_jobs();
    int64_t before = rows_read();
    list(all(100));
    assert_members(last, (n, 100), (more, true));
    assert_in_range(rows_read() - before, 100, 1500);
}

FRESH_TEST(a_search_by_key_is_bounded_too)
{
    many_jobs();
    run_sql("UPDATE jobs SET job_key = CONCAT(IF(id <= 3, 'a', 'b'), LPAD(id, 6, '0'))");
    run_sql("INSERT INTO job_keys SELECT topic, job_key, id FROM jobs");
    run_sql("UPDATE jobs SET state = 'dead', next_at = NULL WHERE id IN (2, 20000)");
    struct dt_list_filter f = WITH(.topic = S("orders"), .key_prefix = S("a"));
    int64_t before = rows_read();
    assert_page(f, "1 2 3");
    assert_in_range(rows_read() - before, 3, 300);
    f.key_prefix = S("");
    f.state = DT_DEAD;
    before = rows_read();
    assert_page(f, "2+");
    assert_in_range(rows_read() - before, 10000, 60000); /* six looks a key: it may be in either table */
    size_t found = 0;
    while (last.more) {
        f.after_key = last.last_key;
        list(f);
        found += last.n;
        if (last.n)
            assert_int_equal(last.v[0].id, 20000);
    }
    assert_int_equal(found, 1);
}

SUITE(open_store, close_store)
