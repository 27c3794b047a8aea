/* Who gets in, with which scopes, and which topics they see; on lists that the test gives. */
#include <stdio.h>
#include <string.h>

#include "support/suite.h"

#include "auth/auth.h"

#define TOKENS 3

struct fixture {
    dt_auth *auth;
    char texts[TOKENS][DT_TOKEN_TEXT_MAX];
    struct dt_token tokens[TOKENS];
    char header[256];
};

static int make(void **state)
{
    static struct fixture f;
    static const char *const scopes[TOKENS] = {"write,read", "report", "admin"};
    static const char *const topics[TOKENS] = {"orders.,mail", "*", "*"};
    memset(&f, 0, sizeof(f));
    assert_int_equal(dt_auth_new(false, &f.auth), DT_OK);
    for (int i = 0; i < TOKENS; i++) {
        f.tokens[i].name = dt_str("any");
        f.tokens[i].scopes = dt_str(scopes[i]);
        f.tokens[i].topics = dt_str(topics[i]);
        assert_int_equal(dt_auth_make_token(f.texts[i], f.tokens[i].hash, NULL), DT_OK);
    }
    *state = &f;
    return 0;
}

static int drop(void **state)
{
    struct fixture *f = *state;
    dt_auth_free(f->auth);
    return 0;
}

#define RIG_TEST(name) TEST_OF(struct fixture *f, name, make, drop)

static bool sees(const struct dt_caller *caller, struct dt_str topic)
{
    return dt_topic_within(dt_caller_bound(caller), topic);
}

static dt_status check(struct fixture *f, const char *scheme, const char *token, struct dt_caller *caller)
{
    snprintf(f->header, sizeof(f->header), "%s%s", scheme, token);
    return dt_auth_check(f->auth, dt_str(f->header), caller);
}

RIG_TEST(before_the_list_is_known_nobody_is_judged)
{
    struct dt_caller caller;
    assert_false(dt_auth_known(f->auth));
    assert_int_equal(dt_auth_check(f->auth, DT_STR_NONE, &caller), DT_UNAVAILABLE);
    assert_int_equal(check(f, "Bearer ", f->texts[0], &caller), DT_UNAVAILABLE);
}

RIG_TEST(without_tokens_everybody_may_do_everything)
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

RIG_TEST(without_tokens_nobody_gets_in_from_beyond_the_loopback)
{
    struct dt_caller caller;
    dt_auth *strict;
    assert_int_equal(dt_auth_new(true, &strict), DT_OK);
    assert_int_equal(dt_auth_set(strict, NULL, 0, DT_TOKENS_WAIVED), DT_OK);
    assert_int_equal(dt_auth_check(strict, DT_STR_NONE, &caller), DT_DENIED);
    assert_false(dt_caller_may(&caller, DT_SCOPE_READ));
    assert_int_equal(dt_auth_set(strict, f->tokens, TOKENS, DT_TOKENS_ASKED), DT_OK);
    snprintf(f->header, sizeof(f->header), "Bearer %s", f->texts[2]);
    assert_int_equal(dt_auth_check(strict, dt_str(f->header), &caller), DT_OK);
    dt_caller_clear(&caller);
    dt_auth_free(strict);
}

RIG_TEST(a_token_gives_its_scopes_and_no_others)
{
    struct dt_caller caller;
    assert_int_equal(dt_auth_set(f->auth, f->tokens, TOKENS, DT_TOKENS_ASKED), DT_OK);
    assert_int_equal(dt_auth_count(f->auth), TOKENS);
    assert_int_equal(check(f, "Bearer ", f->texts[0], &caller), DT_OK);
    assert_true(dt_caller_may(&caller, DT_SCOPE_WRITE));
    assert_true(dt_caller_may(&caller, DT_SCOPE_READ));
    assert_false(dt_caller_may(&caller, DT_SCOPE_REPORT));
    assert_false(dt_caller_may(&caller, DT_SCOPE_ADMIN));
    dt_caller_clear(&caller);
    assert_int_equal(check(f, "bEaReR  ", f->texts[2], &caller), DT_OK);
    assert_true(dt_caller_may(&caller, DT_SCOPE_ADMIN));
    assert_true(dt_caller_may(&caller, DT_SCOPE_WRITE));
    dt_caller_clear(&caller);
}

RIG_TEST(what_is_no_known_token_is_denied)
{
    struct dt_caller caller;
    char wrong[DT_TOKEN_TEXT_MAX];
    assert_int_equal(dt_auth_set(f->auth, f->tokens, TOKENS, DT_TOKENS_ASKED), DT_OK);
    memcpy(wrong, f->texts[0], sizeof(wrong));
    wrong[10] = wrong[10] == 'A' ? 'B' : 'A';
    assert_int_equal(dt_auth_check(f->auth, DT_STR_NONE, &caller), DT_DENIED);
    assert_int_equal(check(f, "Bearer ", wrong, &caller), DT_DENIED);
    assert_int_equal(check(f, "Bearer ", "", &caller), DT_DENIED);
    assert_int_equal(check(f, "Bearer", f->texts[0], &caller), DT_DENIED);
    assert_int_equal(check(f, "Basic ", f->texts[0], &caller), DT_DENIED);
    assert_int_equal(check(f, "", f->texts[0], &caller), DT_DENIED);
    assert_null(caller.set);
}

RIG_TEST(prefixes_decide_which_topics_are_seen)
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

RIG_TEST(scopes_edited_into_nonsense_give_nothing)
{
    struct dt_caller caller;
    f->tokens[0].scopes = dt_str("write,everything");
    assert_int_equal(dt_auth_set(f->auth, f->tokens, 1, DT_TOKENS_ASKED), DT_OK);
    assert_int_equal(check(f, "Bearer ", f->texts[0], &caller), DT_OK);
    assert_false(dt_caller_may(&caller, DT_SCOPE_WRITE));
    dt_caller_clear(&caller);
}

RIG_TEST(topics_edited_into_nonsense_show_nothing)
{
    static const char *const nonsense[] = {"", ",", " ", "orders .", "*,", "orders*", "**", "a/b", "*,*"};
    struct dt_caller caller;
    for (size_t i = 0; i <= sizeof(nonsense) / sizeof(*nonsense); i++) {
        f->tokens[0].topics = i > 0 ? dt_str(nonsense[i - 1]) : DT_STR_NONE;
        assert_int_equal(dt_auth_set(f->auth, f->tokens, 1, DT_TOKENS_ASKED), DT_OK);
        assert_int_equal(check(f, "Bearer ", f->texts[0], &caller), DT_OK);
        assert_false(dt_caller_sees_all(&caller));
        assert_false(sees(&caller, dt_str("any")));
        assert_false(sees(&caller, dt_str("")));
        dt_caller_clear(&caller);
    }
}

TEST(a_caller_that_nothing_was_said_of_sees_nothing)
{
    struct dt_caller caller = {0};
    assert_false(sees(&caller, dt_str("any")));
    assert_false(dt_caller_may(&caller, DT_SCOPE_READ));
}

RIG_TEST(what_concerns_all_topics_is_not_for_a_bound_token)
{
    struct dt_caller caller;
    f->tokens[0].scopes = dt_str("admin");
    assert_int_equal(dt_auth_set(f->auth, f->tokens, TOKENS, DT_TOKENS_ASKED), DT_OK);
    assert_int_equal(check(f, "Bearer ", f->texts[0], &caller), DT_OK);
    assert_true(dt_caller_may(&caller, DT_SCOPE_ADMIN));
    assert_false(dt_caller_may(&caller, DT_SCOPE_ADMIN_ALL));
    dt_caller_clear(&caller);
    assert_int_equal(check(f, "Bearer ", f->texts[2], &caller), DT_OK);
    assert_true(dt_caller_may(&caller, DT_SCOPE_ADMIN_ALL));
    dt_caller_clear(&caller);
}

static bool lets_in_without_a_token(struct fixture *f)
{
    struct dt_caller caller;
    dt_status status = dt_auth_check(f->auth, DT_STR_NONE, &caller);
    dt_caller_clear(&caller);
    assert_true(status == DT_OK || status == DT_DENIED);
    return status == DT_OK;
}

RIG_TEST(who_once_asked_for_tokens_asks_until_that_is_waived)
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

TEST(scope_words_are_parsed_or_named)
{
    static const char *const wrong[][2] = {{"read,fly", "fly"},      {"", "no scope"},
                                           {",", "empty"},           {"read,", "empty"},
                                           {"read,,write", "empty"}, {"read, write", "\" write\""},
                                           {"READ", "\"READ\""},     {"read write", "read write"}};
    struct dt_error err = {0};
    unsigned scopes;
    assert_int_equal(dt_scopes_parse(dt_str("write,report"), &scopes, &err), DT_OK);
    assert_int_equal(scopes, DT_SCOPE_WRITE | DT_SCOPE_REPORT);
    assert_int_equal(dt_scopes_parse(dt_str("admin"), &scopes, &err), DT_OK);
    assert_int_equal(scopes, DT_SCOPE_WRITE | DT_SCOPE_REPORT | DT_SCOPE_READ | DT_SCOPE_ADMIN);
    for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
        assert_int_equal(dt_scopes_parse(dt_str(wrong[i][0]), &scopes, &err), DT_INVALID);
        assert_non_null(strstr(err.text, wrong[i][1]));
    }
}

TEST(topics_of_a_token_are_checked_to_the_last_element)
{
    static const char *const fine[] = {"a", "orders.,mail", "a.b-c_D9,x"};
    static const char *const wrong[][2] = {{"", "no topics"},  {",", "empty"},    {"a,", "empty"},
                                           {",a", "empty"},    {"a,,b", "empty"}, {" ", "\" \""},
                                           {"a, b", "\" b\""}, {"a.*", "a.*"},    {"*", "\"*\""},
                                           {"*,a", "\"*\""},   {"a\tb", "a\tb"},  {"\xc3\xa4", "begin"}};
    char longest[202];
    struct dt_error err = {0};
    for (size_t i = 0; i < sizeof(fine) / sizeof(*fine); i++)
        assert_int_equal(dt_token_topics_check(dt_str(fine[i]), &err), DT_OK);
    for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
        assert_int_equal(dt_token_topics_check(dt_str(wrong[i][0]), &err), DT_INVALID);
        assert_non_null(strstr(err.text, wrong[i][1]));
    }
    memset(longest, 'x', 201);
    longest[201] = '\0';
    assert_int_equal(dt_token_topics_check(dt_str(longest), &err), DT_INVALID);
    longest[200] = '\0';
    assert_int_equal(dt_token_topics_check(dt_str(longest), &err), DT_OK);
}

TEST(absurd_names_of_tokens_are_refused)
{
    static const char *const wrong[] = {"", " ", "a b", "a\tb", "a\n", "\x1b[2J", "\xc3\xa4", "a,b"};
    char longest[102];
    assert_int_equal(dt_token_name_check(dt_str("ci-bot.1_a@shop:x"), NULL), DT_OK);
    for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++)
        assert_int_equal(dt_token_name_check(dt_str(wrong[i]), NULL), DT_INVALID);
    memset(longest, 'x', 101);
    longest[101] = '\0';
    assert_int_equal(dt_token_name_check(dt_str(longest), NULL), DT_INVALID);
    longest[100] = '\0';
    assert_int_equal(dt_token_name_check(dt_str(longest), NULL), DT_OK);
}

RIG_TEST(tokens_are_long_and_differ)
{
    assert_int_equal(strlen(f->texts[0]), 46);
    assert_memory_equal(f->texts[0], "dt_", 3);
    assert_string_not_equal(f->texts[0], f->texts[1]);
    assert_memory_not_equal(f->tokens[0].hash, f->tokens[1].hash, 32);
}

SUITE(NULL, NULL)
