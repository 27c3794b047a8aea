/* Hosts that callbacks may go to, and URLs with others. */

#include "support/suite.h"

#include "base/http/callback_rules.h"

TEST(a_list_of_names_restricts_the_hosts_of_callbacks)
{
    struct dt_str names = DT_STR_LIT("hooks.example.com, *.Example.org ,127.0.0.1,::1");
    assert_int_equal(dt_host_names_check(names, NULL), DT_OK);
    assert_true(dt_host_allowed(DT_STR_LIT(""), "anything"));
    assert_true(dt_host_allowed(DT_STR_LIT("  "), "anything"));
    assert_true(dt_host_allowed(names, "hooks.example.com"));
    assert_false(dt_host_allowed(names, "example.com"));
    assert_false(dt_host_allowed(names, "a.hooks.example.com"));
    assert_true(dt_host_allowed(names, "a.example.org"));
    assert_true(dt_host_allowed(names, "a.b.example.org"));
    assert_false(dt_host_allowed(names, "example.org"));
    assert_false(dt_host_allowed(names, "badexample.org"));
    assert_false(dt_host_allowed(names, "example.org.evil.com"));
    assert_true(dt_host_allowed(names, "127.0.0.1"));
    assert_true(dt_host_allowed(names, "::1"));
}

TEST(a_list_of_host_names_with_other_texts_is_refused)
{
    struct dt_error err = {0};
    assert_int_equal(dt_host_names_check(DT_STR_LIT(""), &err), DT_OK);
    assert_int_equal(dt_host_names_check(DT_STR_LIT("a,,b"), &err), DT_INVALID);
    assert_int_equal(dt_host_names_check(DT_STR_LIT("*"), &err), DT_INVALID);
    assert_int_equal(dt_host_names_check(DT_STR_LIT("a*.b"), &err), DT_INVALID);
    assert_int_equal(dt_host_names_check(DT_STR_LIT("http://a"), &err), DT_INVALID);
    assert_non_null(strstr(err.text, "\"http://a\""));
}

TEST(a_url_is_refused_for_what_it_is_or_for_its_host)
{
    struct dt_str names = DT_STR_LIT("*.example.org");
    assert_null(dt_callback_url_refusal(DT_STR_LIT("https://A.Example.org./x"), names));
    assert_null(dt_callback_url_refusal(DT_STR_LIT("https://example.com/"), DT_STR_NONE));
    assert_non_null(
        strstr(dt_callback_url_refusal(DT_STR_LIT("https://example.com/"), names), "callbacks.allow_hosts"));
    assert_null(strstr(dt_callback_url_refusal(DT_STR_LIT("ftp://a.example.org/"), names), "callbacks.allow_hosts"));
}

/* A topic's URL is https://Hooks.Example.com/in, and it lists two hosts, and texts that are no origins. */
TEST(secrets_go_to_the_topics_own_scheme_host_and_port_and_to_listed_ones)
{
    static const struct dt_callback_places places = {
        .url = DT_STR_LIT("https://Hooks.Example.com/in"),
        .hosts = DT_STR_LIT("http://b.test:8080,https://[2001:DB8::1],https://path.test/,nonsense,,ftp://c.test")};
    static const struct {
        const char *url;
        bool listed;
    } rows[] = {
        {"https://hooks.example.com/other?x", true},
        {"https://hooks.example.com:443/", true},
        {"https://HOOKS.example.com.", true},
        {"https://hooks.example.com:/", true},
        {"http://hooks.example.com/in", false},
        {"https://hooks.example.com:444/in", false},
        {"https://hooks.example.com.evil.test", false},
        {"https://evil.test/https://hooks.example.com", false},
        {"https://hooks.example.com@evil.test/", false},
        {"https://user@hooks.example.com/", false},
        {"https://example.com/", false},
        {"http://b.test:8080/x", true},
        {"http://b.test/", false},
        {"https://b.test:8080/", false},
        {"https://[2001:db8:0:0::1]:443/", true},
        {"https://[2001:db8::2]/", false},
        {"https://path.test/", false},
        {"nonsense", false},
        {"", false},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
        if (dt_callback_place_is_listed(&places, dt_str(rows[i].url)) != rows[i].listed)
            fail_msg("%s", rows[i].url);
    assert_false(dt_callback_place_is_listed(&places, DT_STR_NONE));
    assert_false(dt_callback_place_is_listed(&(struct dt_callback_places){.url = DT_STR_NONE}, places.url));
}

static bool widen(const char *url, const char *hosts, const char *new_url, const char *new_hosts)
{
    const struct dt_callback_places before = {url ? dt_str(url) : DT_STR_NONE, hosts ? dt_str(hosts) : DT_STR_NONE};
    const struct dt_callback_places after = {new_url ? dt_str(new_url) : DT_STR_NONE,
                                             new_hosts ? dt_str(new_hosts) : DT_STR_NONE};
    return dt_callback_places_widen(&before, &after);
}

TEST(a_new_host_in_the_url_or_in_the_list_widens_where_secrets_are_sent)
{
    assert_false(widen("https://a.test/x", NULL, "https://A.test:443/y", NULL));
    assert_true(widen("https://a.test/", NULL, "http://a.test/", NULL));
    assert_true(widen("https://a.test/", NULL, "https://a.test:8443/", NULL));
    assert_true(widen("https://a.test/", NULL, "https://b.test/", NULL));
    assert_true(widen("https://a.test/", "https://b.test", "https://b.test/", "https://b.test"));
    assert_true(widen(NULL, NULL, "https://a.test/", NULL));
    assert_false(widen("https://a.test/", NULL, NULL, NULL));
    assert_true(widen("https://a.test/", NULL, "https://a.test/", "https://b.test"));
    assert_false(widen("https://a.test/", "https://b.test,https://c.test", "https://a.test/", "https://c.test"));
    assert_false(widen("https://a.test/", NULL, NULL, "https://a.test"));
    assert_true(widen(NULL, "https://b.test", NULL, "https://b.test,https://c.test"));
}

SUITE(NULL, NULL)
