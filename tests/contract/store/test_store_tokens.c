/* Tokens on a real server. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

/* clang-format off */
#include <cmocka.h>
/* clang-format on */

#include "support/mysql_fixture.h"

#define OK(status) MYSQL_FIXTURE_OK(status, &err)

static void tokens_are_added_listed_and_revoked(void **state)
{
    struct dt_error err = {0};
    struct mysql_fixture fx;
    struct dt_arena arena;
    struct dt_token *tokens,
        a = {.name = DT_STR_LIT("a"), .scopes = DT_STR_LIT("write,read"), .topics = DT_STR_LIT("x.,y.")};
    enum dt_token_rule rule;
    size_t n;
    (void)state;
    mysql_fixture_make(&fx, "tokens");
    mysql_fixture_migrate(&fx);
    dt_arena_init(&arena);
    dt_store *store = mysql_fixture_store(&fx);
    OK(dt_store_token_list(store, &arena, &tokens, &n, &rule, &err));
    assert_int_equal(n, 0);
    for (unsigned i = 0; i < sizeof a.hash; i++)
        a.hash[i] = (unsigned char)(255 - 9 * i);
    OK(dt_store_token_add(store, &a, &err));
    struct dt_token b = {.name = DT_STR_LIT("A"), .scopes = DT_STR_LIT("admin")};
    OK(dt_store_token_add(store, &b, &err));
    assert_int_equal(dt_store_token_add(store, &a, &err), DT_EXISTS);
    OK(dt_store_token_list(store, &arena, &tokens, &n, &rule, &err));
    assert_int_equal(n, 2);
    assert_true(dt_str_is(tokens[0].name, "A"));
    assert_true(dt_str_is(tokens[0].topics, ""));
    assert_true(dt_str_is(tokens[1].scopes, "write,read"));
    assert_true(dt_str_is(tokens[1].topics, "x.,y."));
    assert_memory_equal(tokens[1].hash, a.hash, sizeof a.hash);
    assert_true(tokens[1].created_at_ms > INT64_C(1700000000000));
    OK(dt_store_token_revoke(store, DT_STR_LIT("a"), &err));
    assert_int_equal(dt_store_token_revoke(store, DT_STR_LIT("a"), &err), DT_NOT_FOUND);
    OK(dt_store_token_list(store, &arena, &tokens, &n, &rule, &err));
    assert_int_equal(n, 1);
    dt_arena_clear(&arena);
    dt_store_free(store);
    mysql_fixture_drop(&fx);
}

static enum dt_token_rule rule_now(dt_store *store, size_t *n)
{
    struct dt_error err = {0};
    struct dt_arena arena;
    struct dt_token *tokens;
    enum dt_token_rule rule;
    dt_arena_init(&arena);
    OK(dt_store_token_list(store, &arena, &tokens, n, &rule, &err));
    dt_arena_clear(&arena);
    return rule;
}

static void whoever_made_a_token_asks_for_one_until_that_is_waived(void **state)
{
    struct dt_error err = {0};
    struct mysql_fixture fx;
    const struct dt_token a = {.name = DT_STR_LIT("a"), .scopes = DT_STR_LIT("read"), .topics = DT_STR_LIT("*")};
    size_t n;
    (void)state;
    mysql_fixture_make(&fx, "tokenrule");
    mysql_fixture_migrate(&fx);
    dt_store *store = mysql_fixture_store(&fx);
    assert_int_equal(rule_now(store, &n), DT_TOKENS_NEVER_MADE);
    OK(dt_store_token_add(store, &a, &err));
    assert_int_equal(rule_now(store, &n), DT_TOKENS_ASKED);
    assert_int_equal(dt_store_tokens_waive(store, &err), DT_EXISTS);
    assert_int_equal(rule_now(store, &n), DT_TOKENS_ASKED);
    OK(dt_store_token_revoke(store, a.name, &err));
    assert_int_equal(rule_now(store, &n), DT_TOKENS_ASKED);
    assert_int_equal(n, 0);
    OK(dt_store_tokens_waive(store, &err));
    assert_int_equal(rule_now(store, &n), DT_TOKENS_WAIVED);
    OK(dt_store_tokens_ask(store, &err));
    assert_int_equal(rule_now(store, &n), DT_TOKENS_ASKED);
    OK(dt_store_tokens_waive(store, &err));
    OK(dt_store_token_add(store, &a, &err));
    mysql_fixture_run(&fx, "DELETE FROM api_tokens");
    assert_int_equal(rule_now(store, &n), DT_TOKENS_ASKED);
    dt_store_free(store);
    mysql_fixture_drop(&fx);
}

static void a_rule_that_cannot_be_read_asks_for_a_token(void **state)
{
    struct dt_error err = {0};
    struct mysql_fixture fx;
    const struct dt_token a = {.name = DT_STR_LIT("a"), .scopes = DT_STR_LIT("read"), .topics = DT_STR_LIT("*")};
    size_t n;
    (void)state;
    mysql_fixture_make(&fx, "tokenrule");
    mysql_fixture_migrate(&fx);
    dt_store *store = mysql_fixture_store(&fx);
    mysql_fixture_run(&fx, "ALTER TABLE installation MODIFY token_rule INT NULL");
    mysql_fixture_run(&fx, "UPDATE installation SET token_rule = NULL");
    assert_int_equal(rule_now(store, &n), DT_TOKENS_ASKED);
    mysql_fixture_run(&fx, "DELETE FROM installation");
    struct dt_arena arena;
    struct dt_token *tokens;
    dt_arena_init(&arena);
    assert_int_equal(dt_store_token_list(store, &arena, &tokens, &n, NULL, &err), DT_SCHEMA);
    assert_int_equal(dt_store_token_add(store, &a, &err), DT_SCHEMA);
    dt_arena_clear(&arena);
    dt_store_free(store);
    mysql_fixture_drop(&fx);
}

static void rows_that_hands_spoiled_are_read_as_giving_nothing(void **state)
{
    struct dt_error err = {0};
    struct mysql_fixture fx;
    struct dt_arena arena;
    struct dt_token *tokens,
        a = {.name = DT_STR_LIT("a"), .hash = {1}, .scopes = DT_STR_LIT("read"), .topics = DT_STR_LIT("*")};
    size_t n;
    (void)state;
    mysql_fixture_make(&fx, "tokennull");
    mysql_fixture_migrate(&fx);
    dt_store *store = mysql_fixture_store(&fx);
    dt_arena_init(&arena);
    OK(dt_store_token_add(store, &a, &err));
    a.name = DT_STR_LIT("b");
    OK(dt_store_token_add(store, &a, &err));
    mysql_fixture_run(&fx, "ALTER TABLE api_tokens MODIFY topics VARBINARY(4000) NULL, MODIFY scopes VARBINARY(100) "
                           "NULL, MODIFY hash VARBINARY(32) NULL");
    mysql_fixture_run(&fx, "UPDATE api_tokens SET topics = NULL, scopes = NULL WHERE name = 'a'");
    mysql_fixture_run(&fx, "UPDATE api_tokens SET hash = NULL WHERE name = 'b'");
    OK(dt_store_token_list(store, &arena, &tokens, &n, NULL, &err));
    assert_int_equal(n, 2);
    for (size_t i = 0; i < n; i++)
        assert_true(tokens[i].scopes.n == 0 && tokens[i].topics.n == 0);
    assert_int_equal(tokens[0].hash[0], 1);
    assert_int_equal(tokens[1].hash[0], 0);
    dt_arena_clear(&arena);
    dt_store_free(store);
    mysql_fixture_drop(&fx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tokens_are_added_listed_and_revoked),
        cmocka_unit_test(whoever_made_a_token_asks_for_one_until_that_is_waived),
        cmocka_unit_test(a_rule_that_cannot_be_read_asks_for_a_token),
        cmocka_unit_test(rows_that_hands_spoiled_are_read_as_giving_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
