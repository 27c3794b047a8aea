/* Who gets in, with which scopes, and which topics they see; on lists that the test gives. */

#include "support/suite.h"

#include "features/tokens/tokens.h"
#include "request/auth.h"

#define TOKENS 3

struct fixture {
    dt_auth *auth;
    char texts[TOKENS][DT_TOKEN_TEXT_MAX];
    struct dt_token tokens[TOKENS];
    char header[256];
};

static void make(struct fixture *f)
{
    static const char *const scopes[TOKENS] = {"write,read", "report", "admin"};
    static const char *const topics[TOKENS] = {"orders.,mail", "*", "*"};
    assert_int_equal(dt_auth_new(false, NULL, &f->auth), DT_OK);
    for (int i = 0; i < TOKENS; i++) {
        f->tokens[i].name = dt_str("any");
        f->tokens[i].scopes = dt_str(scopes[i]);
        f->tokens[i].topics = dt_str(topics[i]);
        assert_int_equal(dt_auth_make_token(f->texts[i], f->tokens[i].hash, NULL), DT_OK);
    }
}

static void drop(struct fixture *f)
{
    dt_auth_free(f->auth);
}

#define RIG_TEST(name) TEST_ON(struct fixture, f, name, make, drop)

static bool sees(const struct dt_caller *caller, struct dt_str topic)
{
    return dt_topic_within(dt_caller_bound(caller), topic);
}

static dt_status check(struct fixture *f, const char *scheme, const char *token, struct dt_caller *caller)
{
    snprintf(f->header, sizeof(f->header), "%s%s", scheme, token);
    return dt_auth_check(f->auth, dt_str(f->header), caller);
}

RIG_TEST(before_the_tokens_are_known_requests_get_503)
{
    struct dt_caller caller;
    assert_false(dt_auth_known(f->auth));
    assert_int_equal(dt_auth_check(f->auth, DT_STR_NONE, &caller), DT_UNAVAILABLE);
    assert_int_equal(check(f, "Bearer ", f->texts[0], &caller), DT_UNAVAILABLE);
}

RIG_TEST(without_tokens_every_caller_may_do_everything)
{
    struct dt_caller caller;
    assert_int_equal(dt_auth_set(f->auth, NULL, 0, DT_TOKENS_NEVER_MADE), DT_OK);
    assert_true(dt_auth_known(f->auth));
    assert_int_equal(dt_auth_check(f->auth, DT_STR_NONE, &caller), DT_OK);
    assert_true(dt_caller_may(&caller, DT_SCOPE_ADMIN));
    assert_true(dt_caller_may(&caller, DT_SCOPE_REPORT));
    assert_true(sees(&caller, dt_str("any")));
    dt_caller_clear(&caller);
}

RIG_TEST(callers_whose_tokens_have_similar_hashes_do_not_share_a_queue)
{
    struct dt_caller first;
    struct dt_caller second;
    do
        assert_int_equal(dt_auth_make_token(f->texts[1], f->tokens[1].hash, NULL), DT_OK);
    while (f->tokens[1].hash[0] != f->tokens[0].hash[0]);
    assert_int_equal(dt_auth_set(f->auth, f->tokens, TOKENS, DT_TOKENS_ASKED), DT_OK);
    assert_int_equal(check(f, "Bearer ", f->texts[0], &first), DT_OK);
    assert_int_equal(check(f, "Bearer ", f->texts[1], &second), DT_OK);
    assert_int_not_equal(first.fair_queue, 0);
    assert_int_not_equal(second.fair_queue, 0);
    assert_int_not_equal(first.fair_queue, second.fair_queue);
    dt_caller_clear(&first);
    dt_caller_clear(&second);
}

RIG_TEST(without_tokens_only_the_loopback_is_served)
{
    struct dt_caller caller;
    dt_auth *strict;
    assert_int_equal(dt_auth_new(true, NULL, &strict), DT_OK);
    assert_int_equal(dt_auth_set(strict, NULL, 0, DT_TOKENS_WAIVED), DT_OK);
    assert_int_equal(dt_auth_check(strict, DT_STR_NONE, &caller), DT_DENIED);
    assert_false(dt_caller_may(&caller, DT_SCOPE_READ));
    assert_int_equal(dt_auth_set(strict, f->tokens, TOKENS, DT_TOKENS_ASKED), DT_OK);
    snprintf(f->header, sizeof(f->header), "Bearer %s", f->texts[2]);
    assert_int_equal(dt_auth_check(strict, dt_str(f->header), &caller), DT_OK);
    dt_caller_clear(&caller);
    dt_auth_free(strict);
}

RIG_TEST(prefixes_decide_which_topics_a_caller_sees)
{
    struct dt_caller caller;
    assert_int_equal(dt_auth_set(f->auth, f->tokens, TOKENS, DT_TOKENS_ASKED), DT_OK);
    assert_int_equal(check(f, "Bearer ", f->texts[0], &caller), DT_OK);
    assert_true(sees(&caller, dt_str("orders.close")));
    assert_true(sees(&caller, dt_str("orders.")));
    assert_true(sees(&caller, dt_str("mail")));
    assert_true(sees(&caller, dt_str("mailing")));
    assert_false(sees(&caller, dt_str("orders")));
    assert_false(sees(&caller, dt_str("Orders.close")));
    assert_false(sees(&caller, dt_str("")));
    dt_caller_clear(&caller);
    assert_int_equal(check(f, "Bearer ", f->texts[1], &caller), DT_OK);
    assert_true(sees(&caller, dt_str("anything")));
    dt_caller_clear(&caller);
}

RIG_TEST(a_revoked_token_is_denied_while_its_caller_is_still_served)
{
    struct dt_caller served, caller;
    assert_int_equal(dt_auth_set(f->auth, f->tokens, TOKENS, DT_TOKENS_ASKED), DT_OK);
    assert_int_equal(check(f, "Bearer ", f->texts[0], &served), DT_OK);
    assert_int_equal(dt_auth_set(f->auth, &f->tokens[1], TOKENS - 1, DT_TOKENS_ASKED), DT_OK);
    assert_int_equal(check(f, "Bearer ", f->texts[0], &caller), DT_DENIED);
    assert_true(sees(&served, dt_str("mail")));
    dt_caller_clear(&served);
}

RIG_TEST(unreadable_scopes_after_a_manual_edit_grant_no_right)
{
    struct dt_caller caller;
    f->tokens[0].scopes = dt_str("write,everything");
    assert_int_equal(dt_auth_set(f->auth, f->tokens, 1, DT_TOKENS_ASKED), DT_OK);
    assert_int_equal(check(f, "Bearer ", f->texts[0], &caller), DT_OK);
    assert_false(dt_caller_may(&caller, DT_SCOPE_WRITE));
    dt_caller_clear(&caller);
}

TEST(a_zeroed_caller_sees_nothing)
{
    struct dt_caller caller = {0};
    assert_false(sees(&caller, dt_str("any")));
    assert_false(dt_caller_may(&caller, DT_SCOPE_READ));
}

static bool lets_in_without_a_token(struct fixture *f)
{
    struct dt_caller caller;
    dt_status status = dt_auth_check(f->auth, DT_STR_NONE, &caller);
    dt_caller_clear(&caller);
    assert_true(status == DT_OK || status == DT_DENIED);
    return status == DT_OK;
}

RIG_TEST(once_tokens_are_required_they_stay_required_until_that_is_waived)
{
    assert_int_equal(dt_auth_set(f->auth, NULL, 0, DT_TOKENS_NEVER_MADE), DT_OK);
    assert_true(lets_in_without_a_token(f));
    assert_int_equal(dt_auth_set(f->auth, f->tokens, 1, DT_TOKENS_NEVER_MADE), DT_OK);
    assert_false(lets_in_without_a_token(f));
    /* The whole database was put back to a copy from before the first token. */
    assert_int_equal(dt_auth_set(f->auth, NULL, 0, DT_TOKENS_NEVER_MADE), DT_OK);
    assert_false(lets_in_without_a_token(f));
    assert_int_equal(dt_auth_set(f->auth, NULL, 0, DT_TOKENS_WAIVED), DT_OK);
    assert_true(lets_in_without_a_token(f));
    assert_int_equal(dt_auth_set(f->auth, f->tokens, 1, DT_TOKENS_WAIVED), DT_OK);
    assert_false(lets_in_without_a_token(f));
    assert_int_equal(dt_auth_set(f->auth, NULL, 0, (enum dt_token_rule)77), DT_OK);
    assert_false(lets_in_without_a_token(f));
}

RIG_TEST(tokens_are_long_and_differ)
{
    assert_int_equal(strlen(f->texts[0]), 46);
    assert_memory_equal(f->texts[0], "dt_", 3);
    assert_string_not_equal(f->texts[0], f->texts[1]);
    assert_memory_not_equal(f->tokens[0].hash, f->tokens[1].hash, 32);
}
