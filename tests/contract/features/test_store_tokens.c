/* Tokens on a real server. */

#include "features/tokens/tokens.h"
#include "support/store_suite.h"
#include "topic/owners.h"
#include "topic/topics.h"

STORE_SUITE("tokens", 0)

#define STORE_TEST(name) TEST_WITH(name, open_store, close_store)

STORE_TEST(tokens_are_added_listed_and_revoked)
{
    struct dt_token *tokens, a = {.name = S("a"), .scopes = S("write,read"), .topics = S("x.,y.")};
    enum dt_token_rule rule;
    size_t n;
    OK(dt_store_token_list(store, &arena, &tokens, &n, &rule, &err));
    assert_int_equal(n, 0);
    for (unsigned i = 0; i < sizeof a.hash; i++)
        a.hash[i] = (unsigned char)(255 - 9 * i);
    OK(dt_store_token_add(store, &a, &err));
    struct dt_token b = {.name = S("A"), .scopes = S("admin")};
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
    OK(dt_store_token_revoke(store, S("a"), &err));
    assert_int_equal(dt_store_token_revoke(store, S("a"), &err), DT_NOT_FOUND);
    OK(dt_store_token_list(store, &arena, &tokens, &n, &rule, &err));
    assert_int_equal(n, 1);
}

static enum dt_token_rule rule_now(size_t *n)
{
    struct dt_token *tokens;
    enum dt_token_rule rule;
    OK(dt_store_token_list(store, &arena, &tokens, n, &rule, &err));
    return rule;
}

STORE_TEST(once_a_token_existed_tokens_are_required_until_waived)
{
    const struct dt_token a = {.name = S("a"), .scopes = S("read"), .topics = S("*")};
    size_t n;
    assert_int_equal(rule_now(&n), DT_TOKENS_NEVER_MADE);
    OK(dt_store_token_add(store, &a, &err));
    assert_int_equal(rule_now(&n), DT_TOKENS_ASKED);
    assert_int_equal(dt_store_tokens_waive(store, &err), DT_EXISTS);
    assert_int_equal(rule_now(&n), DT_TOKENS_ASKED);
    OK(dt_store_token_revoke(store, a.name, &err));
    assert_int_equal(rule_now(&n), DT_TOKENS_ASKED);
    assert_int_equal(n, 0);
    OK(dt_store_tokens_waive(store, &err));
    assert_int_equal(rule_now(&n), DT_TOKENS_WAIVED);
    OK(dt_store_tokens_ask(store, &err));
    assert_int_equal(rule_now(&n), DT_TOKENS_ASKED);
    OK(dt_store_tokens_waive(store, &err));
    OK(dt_store_token_add(store, &a, &err));
    run_sql("DELETE FROM api_tokens");
    assert_int_equal(rule_now(&n), DT_TOKENS_ASKED);
}

STORE_TEST(if_the_token_rule_cannot_be_read_a_token_is_required)
{
    const struct dt_token a = {.name = S("a"), .scopes = S("read"), .topics = S("*")};
    size_t n;
    run_sql("ALTER TABLE installation MODIFY token_rule INT NULL");
    run_sql("UPDATE installation SET token_rule = NULL");
    assert_int_equal(rule_now(&n), DT_TOKENS_ASKED);
    run_sql("DELETE FROM installation");
    struct dt_token *tokens;
    assert_int_equal(dt_store_token_list(store, &arena, &tokens, &n, NULL, &err), DT_SCHEMA);
    assert_int_equal(dt_store_token_add(store, &a, &err), DT_SCHEMA);
}

STORE_TEST(damaged_token_rows_grant_nothing)
{
    struct dt_token *tokens, a = {.name = S("a"), .hash = {1}, .scopes = S("read"), .topics = S("*")};
    size_t n;
    OK(dt_store_token_add(store, &a, &err));
    a.name = S("b");
    OK(dt_store_token_add(store, &a, &err));
    run_sql("ALTER TABLE api_tokens MODIFY topics VARBINARY(4000) NULL, MODIFY scopes VARBINARY(100) NULL, MODIFY hash "
            "VARBINARY(32) NULL");
    run_sql("UPDATE api_tokens SET topics = NULL, scopes = NULL WHERE name = 'a'");
    run_sql("UPDATE api_tokens SET hash = NULL WHERE name = 'b'");
    OK(dt_store_token_list(store, &arena, &tokens, &n, NULL, &err));
    assert_int_equal(n, 2);
    for (size_t i = 0; i < n; i++)
        assert_true(tokens[i].scopes.n == 0 && tokens[i].topics.n == 0);
    assert_int_equal(tokens[0].hash[0], 1);
    assert_int_equal(tokens[1].hash[0], 0);
}

/* ---- owners ---- */

static void make_topic(const char *name)
{
    OK(dt_store_topic_ensure(store, dt_str(name), NULL, &err));
}

static int64_t owner_of(const char *topic)
{
    return sql_number("SELECT owner FROM topics WHERE name = '%s'", topic);
}

static int64_t by_name(const char *topic)
{
    return dt_owner_by_name(dt_str(topic));
}

static int64_t version_of(void)
{
    return sql_number("SELECT topics_version FROM installation");
}

STORE_TEST(topics_belong_to_the_token_with_the_longest_prefix_as_tokens_come_and_go)
{
    const struct dt_token atk = {.name = S("atk"), .hash = {1}, .scopes = S("write"), .topics = S("atk")};
    const struct dt_token vip = {.name = S("vip"), .hash = {2}, .scopes = S("write"), .topics = S("atk2.,shop.")};
    make_topic("atk1.x");
    make_topic("atk2.x");
    make_topic("shop.orders");
    assert_int_equal(owner_of("atk1.x"), by_name("atk1.x"));

    int64_t version = version_of();
    OK(dt_store_token_add(store, &atk, &err));
    dt_topic_owners_follow(store);
    assert_int_not_equal(version_of(), version);
    const int64_t attacker = owner_of("atk1.x");
    assert_true(attacker > 0 && attacker != by_name("atk1.x"));
    assert_int_equal(owner_of("atk2.x"), attacker);
    assert_int_equal(owner_of("shop.orders"), by_name("shop.orders"));

    OK(dt_store_token_add(store, &vip, &err));
    dt_topic_owners_follow(store);
    const int64_t customer = owner_of("shop.orders");
    assert_true(customer > 0 && customer != attacker);
    assert_int_equal(owner_of("atk2.x"), customer);
    assert_int_equal(owner_of("atk1.x"), attacker);
    make_topic("atk2.y");
    make_topic("atk3");
    make_topic("elsewhere");
    assert_int_equal(owner_of("atk2.y"), customer);
    assert_int_equal(owner_of("atk3"), attacker);
    assert_int_equal(owner_of("elsewhere"), by_name("elsewhere"));

    OK(dt_store_token_revoke(store, S("atk"), &err));
    dt_topic_owners_follow(store);
    assert_int_equal(owner_of("atk1.x"), by_name("atk1.x"));
    assert_int_equal(owner_of("atk2.x"), customer); /* it had a longer prefix than the token that went */
    OK(dt_store_token_add(store, &atk, &err));
    dt_topic_owners_follow(store);
    assert_int_equal(owner_of("atk1.x"), attacker);
    assert_int_equal(owner_of("atk2.x"), customer);
    version = version_of();
    OK(dt_store_token_revoke(store, S("vip"), &err));
    dt_topic_owners_follow(store);
    assert_int_not_equal(version_of(), version);
    assert_int_equal(owner_of("atk2.x"), attacker);
    assert_int_equal(owner_of("shop.orders"), by_name("shop.orders"));

    version = version_of();
    OK(dt_store_topic_owners_update(store, &err));
    assert_int_equal(version_of(), version);
    run_sql("UPDATE topics SET owner = 0 WHERE name <> 'atk2.y'"); /* as after a migration */
    OK(dt_store_topic_owners_update(store, &err));
    assert_int_not_equal(version_of(), version);
    assert_int_equal(owner_of("atk1.x"), attacker);
    assert_int_equal(owner_of("atk2.y"), attacker);
    assert_int_equal(owner_of("shop.orders"), by_name("shop.orders"));
}
