/* Whose operations are, how many of an owner run at once, and whose turn it is, on a real server. */

#include "features/operations/operations.h"
#include "support/store_suite.h"
#include "topic/owners.h"
#include "topic/topics.h"

static struct dt_operation op;
static struct dt_operation_piece piece;

STORE_SUITE("operation_owners", 0)

static struct dt_operation_ask ask_of(enum dt_operation_kind kind)
{
    return (struct dt_operation_ask){.kind = kind, .filter = {.topic = S("orders")}, .request = S("{}")};
}

static void clean(void)
{
    empty_tables();
    run_sql("DELETE FROM operations; DELETE FROM topics");
}

#define FRESH_TEST(name) TEST_WITH(name, clean, NULL)

static int64_t make(const struct dt_operation_ask *ask)
{
    OK(dt_store_operation_make(store, ask, 0, &arena, &op, &err));
    return op.id;
}

static int64_t owner_of_last(void)
{
    return sql_number("SELECT owner FROM operations ORDER BY id DESC LIMIT 1");
}

FRESH_TEST(an_operation_belongs_to_the_owner_of_its_topic_or_of_its_token)
{
    const int64_t by_name = dt_owner_by_name(S("orders"));
    struct dt_operation_ask ask = ask_of(DT_OPERATION_CANCEL);
    make(&ask);
    assert_int_equal(owner_of_last(), -by_name);
    ask.tenant = 7;
    make(&ask);
    assert_int_equal(owner_of_last(), by_name);
    OK(dt_store_topic_ensure(store, S("orders"), NULL, &err));
    run_sql("UPDATE topics SET owner = 5 WHERE name = 'orders'");
    make(&ask);
    assert_int_equal(owner_of_last(), 5);
    ask.filter.topic = S("orders*");
    make(&ask);
    assert_int_equal(owner_of_last(), 7);
    ask.tenant = 0;
    make(&ask);
    assert_int_equal(owner_of_last(), 0);
}

FRESH_TEST(each_owner_may_have_a_hundred_operations_at_once)
{
    struct dt_operation_ask ask = ask_of(DT_OPERATION_CANCEL);
    struct dt_topic_deletion deletion;
    OK(dt_store_topic_ensure(store, S("orders"), NULL, &err));
    ask.tenant = 7;
    for (int i = 0; i < DT_OPERATIONS_RUNNING; i++)
        make(&ask);
    assert_int_equal(dt_store_operation_make(store, &ask, 0, &arena, &op, &err), DT_FULL);
    assert_int_equal(dt_store_topic_delete_with_jobs(store, &ask, 0, &arena, &deletion, &err), DT_FULL);
    struct dt_operation_ask other = ask;
    other.tenant = 0; /* an administrator's, of the same topic */
    make(&other);
    other.tenant = 8;
    other.filter.topic = S("*");
    make(&other);
    OK(dt_store_operation_stop(store, sql_number("SELECT MIN(id) FROM operations"), &arena, &op, &err));
    make(&ask);
    assert_int_equal(dt_store_operation_make(store, &ask, 0, &arena, &op, &err), DT_FULL);
}

FRESH_TEST(owners_take_turns_however_many_operations_one_has)
{
    struct dt_operation_turn *turns;
    size_t n;
    struct dt_operation_ask ask = ask_of(DT_OPERATION_CANCEL);
    ask.tenant = 7;
    for (int i = 0; i < 20; i++)
        make(&ask);
    run_sql("UPDATE operations SET look_at = 1");
    ask.filter.topic = S("*");
    const int64_t id = make(&ask);
    OK(dt_store_operation_turns(store, &arena, &turns, &n, &err));
    assert_int_equal(n, 2);
    piece = (struct dt_operation_piece){.owner = 7};
    OK(dt_store_operation_step(store, &piece, &arena, &err));
    assert_int_equal(piece.id, id);
}

SUITE(open_store, close_store)
