/* Inserting jobs: ids, rows and keys. */

#include "support/rigs/insert_rig.h"

static struct dt_error err;

/* Rows 1 … n with keys of their own, which are not in their order. */
static void add_keyed(struct rig *rig, int n)
{
    char key[32];
    for (int i = 0; i < n; i++) {
        snprintf(key, sizeof key, "k%d", i * 7919 % n);
        add(rig, i + 1, key, i);
    }
}

/* Without asking for the time: the server was just asked for it. */
static dt_status insert_in_few_trips(struct rig *rig, struct dt_error *why)
{
    int64_t first;
    MYSQL_FIXTURE_OK(dt_store_reserve_ids(rig->clocked, 1, &first, why), why);
    wire_statements = 0;
    return dt_store_insert(rig->clocked, rig->ptr, rig->n, MAKER, &rig->created_ms, why);
}

/* ---- ids ---- */

struct taker {
    dt_status status;
    int64_t sum;
};

static void *take_blocks(void *arg)
{
    struct taker *t = arg;
    dt_store *store = NULL;
    t->status = dt_store_new(&mysql_fixture.config, NULL, &store);
    for (int i = 0; i < 20 && !t->status; i++) {
        int64_t first;
        t->status = dt_store_reserve_ids(store, 10, &first, NULL);
        t->sum += first;
    }
    dt_store_free(store);
    dt_db_thread_end();
    return NULL;
}

#define AHEAD_OF_THE_CLOCK INT64_C(1000000000000000)

static void set_next_number(int64_t next)
{
    run_sql("UPDATE id_sequence SET next_id = %lld", (long long)next);
}

#define RIG_TEST(name) TEST_ON(struct rig, rig, name, setup, teardown)

RIG_TEST(blocks_of_ids_never_overlap)
{
    struct taker t[4] = {0};
    int64_t sum = 0, expected = 0;
    set_next_number(AHEAD_OF_THE_CLOCK);
    run_at_once(take_blocks, t, sizeof *t, 4);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(t[i].status, DT_OK);
        sum += t[i].sum;
    }
    for (int i = 0; i < 80; i++)
        expected += AHEAD_OF_THE_CLOCK + 10 * i;
    assert_int_equal(sum, expected);
    assert_int_equal(number("SELECT next_id FROM id_sequence"), AHEAD_OF_THE_CLOCK + 800);
}

RIG_TEST(a_block_whose_commit_is_lost_is_not_used)
{
    int64_t first;
    set_next_number(AHEAD_OF_THE_CLOCK);
    wire_loss = LOSE_AFTER;
    assert_int_equal(dt_store_reserve_ids(rig->store, 10, &first, &err), DT_UNAVAILABLE);
    OK(dt_store_reserve_ids(rig->store, 10, &first, &err));
    assert_int_equal(first, AHEAD_OF_THE_CLOCK + 10);
}

RIG_TEST(a_restored_server_hands_out_no_id_twice)
{
    int64_t before, after;
    OK(dt_store_reserve_ids(rig->store, 1000, &before, &err));
    assert_true(before <= number("SELECT " DT_SQL_NOW_MS " * 16"));
    AWAIT(number("SELECT " DT_SQL_NOW_MS " * 16") >= before + 1000); /* a real restore takes longer */
    set_next_number(1);                                              /* the number in the copy */
    OK(dt_store_reserve_ids(rig->store, 1000, &after, &err));
    assert_true(after >= before + 1000);
}

/* ---- rows ---- */

RIG_TEST(a_row_is_stored_as_it_was_given)
{
    char text[200];
    static const char payload[] = {'\xff', 0, '\x80', '"'};
    struct dt_insert *row = add(rig, 77, "k\xc3\xa9", 5);
    row->job.partition_key = S("p");
    row->job.content_type = S("image/png");
    row->job.headers = S("{\"a\":\"b\"}");
    row->job.payload = (struct dt_str){payload, sizeof payload};
    row->job.payload_binary = true;
    OK(insert(rig, &err));
    assert_int_equal(row->outcome, DT_INSERT_CREATED);
    assert_string_equal(
        sql_text(text, sizeof text,
                 "SELECT CONCAT_WS('|', topic, HEX(job_key), state, run_at, next_at, near, attempt, failures, retry, "
                 "ack_timeout_ms, version, maker, partition_key, content_type, payload_binary, headers, HEX(payload)) "
                 "FROM jobs WHERE id = 77"),
        "t|6BC3A9|scheduled|4000000000000|4000000000000|0|0|0|15s 3m|1000|1|4711|p|image/png|1|{\"a\":\"b\"}|FF008022");
    assert_int_equal(number("SELECT job_id FROM job_keys WHERE job_key = X'6BC3A9'"), 77);
    assert_int_equal(number("SELECT created_at FROM jobs WHERE updated_at = created_at"), rig->created_ms);
    assert_int_equal(number("SELECT digest = X'05000000000000000000000000000000' FROM jobs"), 1);
    assert_in_range(number("SELECT " DT_SQL_NOW_MS) - rig->created_ms, 0, 60000);
}

RIG_TEST(members_that_are_absent_are_null_columns)
{
    add(rig, 1, NULL, 0)->job.retry = S("");
    add(rig, 2, "", 0);
    OK(insert(rig, &err));
    assert_int_equal(number("SELECT COUNT(*) FROM jobs WHERE id = 1 AND job_key IS NULL AND partition_key IS NULL "
                            "AND content_type IS NULL AND headers IS NULL AND retry = '' AND payload_binary = 0"),
                     1);
    assert_int_equal(number("SELECT COUNT(*) FROM jobs WHERE id = 2 AND job_key = ''"), 1);
    assert_int_equal(number("SELECT COUNT(*) FROM job_keys"), 1);
}

RIG_TEST(values_of_one_job_of_a_batch_do_not_leak_into_others)
{
    char text[200], expected[200];
    for (unsigned has = 0; has < 8; has++) {
        bool near = has & 1, key = has & 2, extras = has & 4;
        int64_t id = 10 + 2 * has;
        rig->n = 0;
        /* One job with some of what a job may have, beside one that has nothing of it. */
        struct dt_insert *row = add(rig, id, key ? "k" : NULL, 0);
        if (near)
            row->job.run_at_ms = 1;
        if (extras) {
            row->job.partition_key = S("p");
            row->job.content_type = S("c");
            row->job.headers = S("h");
            row->job.payload_binary = true;
        }
        row->job.payload = S("1");
        add(rig, id + 1, NULL, 0);
        OK(insert(rig, &err));
        snprintf(expected, sizeof expected, "%d%s%s|1|%d%s", near, key ? "|k" : "", extras ? "|p|c" : "", extras,
                 extras ? "|h" : "");
        assert_string_equal(sql_text(text, sizeof text,
                                     "SELECT CONCAT_WS('|', near, job_key, partition_key, content_type, payload, "
                                     "payload_binary, headers) FROM jobs WHERE id = %lld",
                                     (long long)id),
                            expected);
        assert_sql_number(
            1,
            "SELECT COUNT(*) FROM jobs WHERE id = %lld AND near = 0 AND job_key IS NULL AND partition_key IS NULL AND "
            "content_type IS NULL AND payload_binary = 0 AND headers IS NULL AND payload = '{}'",
            (long long)id + 1);
        run_sql("DELETE FROM job_keys");
    }
}

RIG_TEST(each_optional_member_is_stored_without_the_others)
{
    char text[200];
    static const char *const expected[] = {"0", "p|0", "c|0", "h|0", "1", "0|k"};
    for (int id = 1; id <= 12; id++) { /* each of them in a batch of its own, then all in one */
        struct dt_new_job *job = &add(rig, id, id % 6 == 5 ? "k" : NULL, 0)->job;
        job->partition_key = id % 6 == 1 ? S("p") : DT_STR_NONE;
        job->content_type = id % 6 == 2 ? S("c") : DT_STR_NONE;
        job->headers = id % 6 == 3 ? S("h") : DT_STR_NONE;
        job->payload_binary = id % 6 == 4;
        if (id > 6 && id < 12)
            continue;
        OK(insert(rig, &err));
        rig->n = 0;
        if (id == 6)
            run_sql("DELETE FROM job_keys");
    }
    for (int id = 1; id <= 12; id++)
        assert_string_equal(sql_text(text, sizeof text,
                                     "SELECT CONCAT_WS('|', partition_key, content_type, headers, payload_binary, "
                                     "job_key) FROM jobs WHERE id = %lld",
                                     (long long)id),
                            expected[id % 6]);
}

RIG_TEST(a_past_time_becomes_now_and_near_follows_the_time)
{
    int64_t now = number("SELECT " DT_SQL_NOW_MS), end = dt_near_end_ms(now);
    struct dt_insert *past = add(rig, 1, NULL, 0);
    past->job.run_at_ms = 1;
    add(rig, 2, NULL, 0)->job.run_at_ms = end - 1;
    add(rig, 3, NULL, 0)->job.run_at_ms = end;
    OK(insert(rig, &err));
    if (dt_near_end_ms(rig->created_ms) != end)
        skip(); /* midnight passed in between */
    assert_int_equal(past->job.run_at_ms, rig->created_ms);
    assert_int_equal(number("SELECT run_at = created_at AND next_at = run_at AND near = 1 FROM jobs WHERE id = 1"), 1);
    assert_int_equal(number("SELECT near FROM jobs WHERE id = 2"), 1);
    assert_int_equal(number("SELECT near FROM jobs WHERE id = 3"), 0);
}

RIG_TEST(a_thousand_keyed_jobs_take_few_statements)
{
    add_keyed(rig, 1000);
    OK(dt_store_ping(rig->store, &err));
    wire_statements = 0;
    OK(insert(rig, &err));
    dt_db *db;
    OK(dt_store_db(rig->store, &db, &err));
    assert_in_range(wire_statements, 4, dt_db_server(db) == DT_SERVER_MARIADB ? 4 : 14);
    for (int i = 0; i < 1000; i++)
        assert_int_equal(rig->rows[i].outcome, DT_INSERT_CREATED);
    assert_int_equal(number("SELECT COUNT(*) FROM jobs j JOIN job_keys k ON k.topic = j.topic AND k.job_key = "
                            "j.job_key AND k.job_id = j.id"),
                     1000);
    /* The same again as other jobs: the keys are taken, by equal requests. */
    for (int i = 0; i < 1000; i++)
        rig->rows[i].job.id += 5000;
    OK(insert(rig, &err));
    for (int i = 0; i < 1000; i++) {
        assert_members(rig->rows[i], (outcome, DT_INSERT_SAME), (existing_id, i + 1));
    }
    assert_int_equal(number("SELECT COUNT(*) FROM jobs"), 1000);
}

RIG_TEST(jobs_without_keys_are_two_round_trips)
{
    add(rig, 1000, NULL, 0);
    OK(insert_in_few_trips(rig, &err));
    assert_in_range(wire_statements, 2, 3); /* and from then on the session commits when it is told to */
    rig->n = 0;
    for (int i = 0; i < 64; i++)
        add(rig, i + 1, NULL, i)->job.run_at_ms = i; /* long past: now */
    int64_t before = number("SELECT CAST(UNIX_TIMESTAMP(NOW(3)) * 1000 AS SIGNED)");
    wire_statements = 0;
    OK(dt_store_insert(rig->clocked, rig->ptr, rig->n, MAKER, &rig->created_ms, &err));
    assert_int_equal(wire_statements, 2);
    int64_t after = number("SELECT CAST(UNIX_TIMESTAMP(NOW(3)) * 1000 AS SIGNED)");
    for (int i = 0; i < 64; i++)
        assert_int_equal(rig->rows[i].outcome, DT_INSERT_CREATED);
    assert_in_range(rig->created_ms, before - 1000, after);
    assert_sql_number(64, "SELECT COUNT(*) FROM jobs WHERE created_at = %lld AND next_at = created_at AND near",
                      (long long)rig->created_ms);
}

/* So an operation that begins then has in its set what was made before, and nothing else. */
RIG_TEST(created_at_is_not_after_the_servers_next_time)
{
    for (int i = 0; i < 100; i++) {
        rig->n = 0;
        add(rig, i + 1, NULL, i);
        OK(insert_in_few_trips(rig, &err));
        assert_true(rig->created_ms <= number("SELECT " DT_SQL_NOW_MS));
    }
}

RIG_TEST(an_invalid_job_among_jobs_without_keys_is_refused_alone)
{
    add(rig, 2, NULL, 7);
    OK(insert(rig, &err));
    rig->n = 0;
    for (int i = 0; i < 4; i++)
        add(rig, i + 1, NULL, i);
    OK(insert_in_few_trips(rig, &err));
    for (int i = 0; i < 4; i++)
        assert_int_equal(rig->rows[i].outcome, i == 1 ? DT_INSERT_ID_TAKEN : DT_INSERT_CREATED);
    assert_int_equal(number("SELECT COUNT(*) FROM jobs"), 4);
}

/* ---- keys ---- */

RIG_TEST(a_taken_key_affects_only_its_own_row)
{
    add(rig, 1, "b", 7);
    OK(insert(rig, &err));
    rig->n = 0;
    struct dt_insert *c = add(rig, 2, "c", 1), *same = add(rig, 3, "b", 7), *none = add(rig, 4, NULL, 1);
    struct dt_insert *a = add(rig, 5, "a", 1);
    OK(insert(rig, &err));
    assert_members(*same, (outcome, DT_INSERT_SAME), (existing_id, 1));
    assert_int_equal(c->outcome, DT_INSERT_CREATED);
    assert_int_equal(a->outcome, DT_INSERT_CREATED);
    assert_int_equal(none->outcome, DT_INSERT_CREATED);
    rig->n = 0;
    struct dt_insert *conflict = add(rig, 6, "b", 8);
    OK(insert(rig, &err));
    assert_members(*conflict, (outcome, DT_INSERT_CONFLICT), (existing_id, 1));
    assert_int_equal(number("SELECT COUNT(*) FROM jobs"), 4);
    assert_int_equal(number("SELECT COUNT(*) FROM job_keys"), 3);
}

RIG_TEST(all_taken_keys_of_a_batch_are_reported)
{
    add_keyed(rig, ROWS_MAX);
    OK(insert(rig, &err));
    for (int i = 0; i < ROWS_MAX; i++) {
        rig->rows[i].job.id += ROWS_MAX;
        rig->rows[i].job.digest[5] = i % 3 == 0;
    }
    OK(insert(rig, &err));
    for (int i = 0; i < ROWS_MAX; i++) {
        assert_members(rig->rows[i], (outcome, i % 3 == 0 ? DT_INSERT_CONFLICT : DT_INSERT_SAME), (existing_id, i + 1));
    }
    /* The owners are gone: each key goes to who asks for it. */
    run_sql("DELETE FROM jobs");
    OK(insert(rig, &err));
    assert_int_equal(number("SELECT COUNT(*) FROM job_keys WHERE job_id > 1200"), ROWS_MAX);
    assert_int_equal(number("SELECT COUNT(*) FROM jobs"), ROWS_MAX);
}

RIG_TEST(the_same_key_in_another_topic_is_another_key)
{
    struct dt_insert *x = add(rig, 1, "k", 1), *y = add(rig, 2, "k", 2), *z = add(rig, 3, "k ", 3);
    y->job.topic = S("u");
    OK(insert(rig, &err));
    assert_int_equal(x->outcome, DT_INSERT_CREATED);
    assert_int_equal(y->outcome, DT_INSERT_CREATED);
    assert_int_equal(z->outcome, DT_INSERT_CREATED);
    assert_int_equal(number("SELECT job_id FROM job_keys WHERE topic = 'u'"), 2);
}

RIG_TEST(the_first_of_two_rows_with_one_key_in_a_batch_wins)
{
    struct dt_insert *first = add(rig, 9, "k", 1), *same = add(rig, 5, "k", 1), *other = add(rig, 3, "k", 2);
    OK(insert(rig, &err));
    assert_int_equal(first->outcome, DT_INSERT_CREATED);
    assert_members(*same, (outcome, DT_INSERT_SAME), (existing_id, 9));
    assert_members(*other, (outcome, DT_INSERT_CONFLICT), (existing_id, 9));
    assert_int_equal(job_of_key("k"), 9);
    assert_int_equal(number("SELECT COUNT(*) FROM jobs"), 1);
    /* And when the key was taken before: both are measured against its owner. */
    rig->n = 0;
    struct dt_insert *x = add(rig, 20, "k", 2), *y = add(rig, 21, "k", 1);
    OK(insert(rig, &err));
    assert_int_equal(x->outcome, DT_INSERT_CONFLICT);
    assert_int_equal(y->outcome, DT_INSERT_SAME);
    assert_int_equal(x->existing_id, 9);
    assert_int_equal(y->existing_id, 9);
}

RIG_TEST(only_keys_of_missing_jobs_are_taken_over)
{
    add(rig, 1, "live", 1);
    OK(insert(rig, &err));
    run_sql("INSERT INTO job_keys VALUES ('t', 'gone', 99)");
    rig->n = 0;
    const struct dt_insert *gone = add(rig, 11, "gone", 2), *same = add(rig, 12, "live", 1),
                           *other = add(rig, 13, "live", 3);
    OK(insert(rig, &err));
    assert_int_equal(gone->outcome, DT_INSERT_CREATED);
    assert_int_equal(same->outcome, DT_INSERT_SAME);
    assert_int_equal(other->outcome, DT_INSERT_CONFLICT);
    assert_int_equal(job_of_key("gone"), 11);
    assert_int_equal(job_of_key("live"), 1);
}

RIG_TEST(a_key_whose_job_was_deleted_is_taken_over)
{
    run_sql("INSERT INTO job_keys VALUES ('t', 'k', 1), ('t', 'l', 2)");
    struct dt_insert *k = add(rig, 11, "k", 1), *again = add(rig, 12, "k", 2), *m = add(rig, 13, "m", 1);
    OK(insert(rig, &err));
    assert_int_equal(k->outcome, DT_INSERT_CREATED);
    assert_members(*again, (outcome, DT_INSERT_CONFLICT), (existing_id, 11));
    assert_int_equal(m->outcome, DT_INSERT_CREATED);
    assert_int_equal(job_of_key("k"), 11);
    assert_int_equal(job_of_key("l"), 2);
}

struct writer {
    int number;
    bool by_command; /* each in a topic of its own */
    int created;
    dt_status status;
    struct dt_error err;
};

enum { WRITERS = 4, ROUNDS = 20, BATCH = 50 };

static void *write_overlapping(void *arg)
{
    struct writer *w = arg;
    struct rig *mine = calloc(1, sizeof *mine);
    w->status = dt_store_new(&mysql_fixture.config, NULL, &mine->store);
    unsigned chance = (unsigned)w->number * 7919u + 1u;
    for (int round = 0; round < ROUNDS && !w->status; round++) {
        mine->n = 0;
        for (int i = 0; i < BATCH; i++) {
            char key[32];
            chance = chance * 1103515245u + 12345u;
            snprintf(key, sizeof key, "k%u", (chance >> 16) % 300);
            struct dt_new_job *job = &add(mine, (w->number * ROUNDS + round) * BATCH + i + 1, key, 1)->job;
            job->by_command = w->by_command;
            job->topic = w->by_command ? (struct dt_str){&"abcd"[w->number], 1} : job->topic;
        }
        w->status = insert(mine, &w->err);
        for (int i = 0; i < BATCH; i++)
            w->created += mine->rows[i].outcome == DT_INSERT_CREATED;
    }
    dt_store_free(mine->store);
    free(mine);
    dt_db_thread_end();
    return NULL;
}

static int write_from_all_sides(bool by_command)
{
    struct writer w[WRITERS];
    int created = 0;
    for (int i = 0; i < WRITERS; i++)
        w[i] = (struct writer){.number = i, .by_command = by_command};
    run_at_once(write_overlapping, w, sizeof *w, WRITERS);
    for (int i = 0; i < WRITERS; i++) {
        MYSQL_FIXTURE_OK(w[i].status, &w[i].err);
        created += w[i].created;
    }
    assert_true(created > 200 && created <= 300);
    assert_int_equal(number("SELECT COUNT(*) FROM jobs"), created);
    return created;
}

RIG_TEST(concurrent_writers_with_the_same_command_ids_create_each_once)
{
    int created = write_from_all_sides(true);
    assert_int_equal(number("SELECT COUNT(*) FROM jobs j JOIN command_ids c ON c.job_id = j.id AND c.id = j.job_key"),
                     created);
    assert_int_equal(number("SELECT COUNT(*) FROM command_ids"), created);
}

RIG_TEST(concurrent_writers_with_the_same_keys_create_each_once)
{
    int created = write_from_all_sides(false);
    assert_int_equal(number("SELECT COUNT(*) FROM jobs j JOIN job_keys k ON k.job_id = j.id AND k.job_key = j.job_key"),
                     created);
}

/* ---- ids of commands ---- */

static struct dt_insert *add_by_command(struct rig *rig, int64_t id, const char *name, struct dt_str topic, int request)
{
    struct dt_insert *row = add(rig, id, name, request);
    row->job.topic = topic;
    row->job.by_command = true;
    return row;
}

RIG_TEST(an_id_of_a_command_is_unique_in_the_installation)
{
    struct dt_insert *first = add_by_command(rig, 1, "x", S("t"), 1);
    struct dt_insert *other = add_by_command(rig, 2, "x", S("u"), 2);
    struct dt_insert *same = add_by_command(rig, 3, "x", S("t"), 1);
    struct dt_insert *free_one = add_by_command(rig, 4, "y", S("u"), 2);
    OK(insert(rig, &err));
    assert_int_equal(first->outcome, DT_INSERT_CREATED);
    assert_members(*other, (outcome, DT_INSERT_CONFLICT), (existing_id, 1));
    assert_members(*same, (outcome, DT_INSERT_SAME), (existing_id, 1));
    assert_int_equal(free_one->outcome, DT_INSERT_CREATED);
    rig->n = 0;
    other = add_by_command(rig, 5, "y", S("t"), 3);
    same = add_by_command(rig, 6, "x", S("t"), 1);
    OK(insert(rig, &err));
    assert_members(*other, (outcome, DT_INSERT_CONFLICT), (existing_id, 4));
    assert_int_equal(same->outcome, DT_INSERT_SAME);
    assert_int_equal(number("SELECT COUNT(*) FROM jobs"), 2);
    assert_int_equal(number("SELECT COUNT(*) FROM command_ids"), 2);
}

RIG_TEST(a_command_id_and_an_equal_key_do_not_conflict)
{
    struct dt_insert *key = add(rig, 1, "x", 1);
    struct dt_insert *id = add_by_command(rig, 2, "x", S("t"), 2);
    struct dt_insert *findable = add_by_command(rig, 3, "y", S("t"), 2);
    OK(insert(rig, &err));
    assert_int_equal(key->outcome, DT_INSERT_CREATED);
    assert_int_equal(id->outcome, DT_INSERT_CREATED);
    assert_int_equal(findable->outcome, DT_INSERT_CREATED);
    assert_int_equal(number("SELECT job_id FROM job_keys WHERE job_key = 'x'"), 1);
    assert_int_equal(number("SELECT job_id FROM job_keys WHERE job_key = 'y'"), 3);
    assert_int_equal(number("SELECT job_id FROM command_ids WHERE id = 'x'"), 2);
}

RIG_TEST(a_command_id_whose_job_was_deleted_is_taken_over)
{
    add_by_command(rig, 1, "x", S("t"), 1);
    OK(insert(rig, &err));
    run_sql("DELETE FROM jobs");
    rig->n = 0;
    struct dt_insert *next = add_by_command(rig, 2, "x", S("u"), 2);
    OK(insert(rig, &err));
    assert_int_equal(next->outcome, DT_INSERT_CREATED);
    assert_int_equal(number("SELECT job_id FROM command_ids"), 2);
}

RIG_TEST(if_the_job_id_is_taken_no_command_id_is_stored)
{
    add(rig, 1, NULL, 1);
    OK(dt_store_insert(rig->store, rig->ptr, 1, MAKER + 1, &rig->created_ms, &err)); /* another process's */
    rig->n = 0;
    struct dt_insert *taken = add_by_command(rig, 1, "x", S("t"), 2);
    struct dt_insert *fine = add_by_command(rig, 2, "y", S("t"), 2);
    OK(insert(rig, &err));
    assert_int_equal(taken->outcome, DT_INSERT_ID_TAKEN);
    assert_int_equal(fine->outcome, DT_INSERT_CREATED);
    assert_int_equal(number("SELECT COUNT(*) FROM command_ids"), 1);
    assert_int_equal(number("SELECT job_id FROM job_keys"), 2);
}

RIG_TEST(jobs_are_found_by_command_id)
{
    ARENA(arena);
    add_by_command(rig, 71, "x", S("t"), 1);
    add_by_command(rig, 72, "72000", S("u"), 1);
    add(rig, 72000, NULL, 1);
    add(rig, 72001, "k", 1);
    add_by_command(rig, 73, "gone", S("t"), 1);
    OK(insert(rig, &err));
    run_sql("DELETE FROM jobs WHERE id = 73; UPDATE jobs SET attempt = 4 WHERE id = 71");
    struct dt_command_job v[] = {{.id = S("72001")}, {.id = S("x")},    {.id = S("X")}, {.id = S("72000")},
                                 {.id = S("k")},     {.id = S("gone")}, {.id = S("x")}, {.id = S("72001")}};
    static const int64_t jobs[] = {72001, 71, 0, 72, 0, 0, 71, 72001};
    OK(dt_store_command_jobs(rig->store, v, 8, &arena, &err));
    for (int i = 0; i < 8; i++)
        assert_int_equal(v[i].job_id, jobs[i]);
    assert_int_equal(v[1].attempt, 4);
    assert_true(dt_str_is(v[1].topic, "t") && dt_str_is(v[3].topic, "u"));
}
