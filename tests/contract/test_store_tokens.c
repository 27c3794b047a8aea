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
    size_t n;
    (void)state;
    mysql_fixture_make(&fx, "tokens");
    mysql_fixture_migrate(&fx);
    dt_arena_init(&arena);
    dt_store *store = mysql_fixture_store(&fx);
    OK(dt_store_token_list(store, &arena, &tokens, &n, &err));
    assert_int_equal(n, 0);
    for (unsigned i = 0; i < sizeof a.hash; i++)
        a.hash[i] = (unsigned char)(255 - 9 * i);
    OK(dt_store_token_add(store, &a, &err));
    struct dt_token b = {.name = DT_STR_LIT("A"), .scopes = DT_STR_LIT("admin")};
    OK(dt_store_token_add(store, &b, &err));
    assert_int_equal(dt_store_token_add(store, &a, &err), DT_EXISTS);
    OK(dt_store_token_list(store, &arena, &tokens, &n, &err));
    assert_int_equal(n, 2);
    assert_true(dt_str_is(tokens[0].name, "A"));
    assert_true(dt_str_is(tokens[0].topics, ""));
    assert_true(dt_str_is(tokens[1].scopes, "write,read"));
    assert_true(dt_str_is(tokens[1].topics, "x.,y."));
    assert_memory_equal(tokens[1].hash, a.hash, sizeof a.hash);
    assert_true(tokens[1].created_at_ms > INT64_C(1700000000000));
    OK(dt_store_token_revoke(store, DT_STR_LIT("a"), &err));
    assert_int_equal(dt_store_token_revoke(store, DT_STR_LIT("a"), &err), DT_NOT_FOUND);
    OK(dt_store_token_list(store, &arena, &tokens, &n, &err));
    assert_int_equal(n, 1);
    dt_arena_clear(&arena);
    dt_store_free(store);
    mysql_fixture_drop(&fx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(tokens_are_added_listed_and_revoked)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
