/* Which hosts and origins an installation without tokens answers to. */

#include "support/suite.h"

#include "request/request.h"

#define NAMES "duetime.example, *.inside.example,fd00::1"

static void assert_local(const char *host, const char *names, bool local)
{
    if (dt_host_is_local(dt_str(host), dt_str(names)) != local)
        fail_msg("\"%s\" with \"%s\" is %slocal", host, names, local ? "not " : "");
}

TEST(loopback_names_and_addresses_are_local_with_any_port)
{
    static const char *const local[] = {
        "localhost",    "LocalHost:8080", "localhost.", "localhost:", "a.localhost:80",    "127.0.0.1",
        "127.8.9.10:1", "[::1]",          "[::1]:8080", "[::1]:",     "[::ffff:127.0.0.1]"};
    for (size_t i = 0; i < sizeof(local) / sizeof(local[0]); i++)
        assert_local(local[i], "", true);
}

TEST(foreign_host_names_are_not_local)
{
    static const char *const foreign[] = {"",
                                          ":80",
                                          ".",
                                          "attacker.example",
                                          "attacker.example:8080",
                                          "localhost.attacker.example",
                                          "127.0.0.1.attacker.example",
                                          "notlocalhost",
                                          ".localhost",
                                          "localhost..",
                                          "localhost:80:80",
                                          "localhost:x",
                                          "user@localhost",
                                          "localhost@attacker.example",
                                          "0.0.0.0",
                                          "10.0.0.1",
                                          "192.168.1.1:80",
                                          "127.1",
                                          "2130706433",
                                          "[::]",
                                          "[::2]",
                                          "::1",
                                          "[::1",
                                          "[::1]x",
                                          "[127.0.0.1]",
                                          "[localhost]",
                                          "[::ffff:10.0.0.1]",
                                          "localhost,attacker.example",
                                          "local host"};
    char longest[300];
    for (size_t i = 0; i < sizeof(foreign) / sizeof(foreign[0]); i++)
        assert_local(foreign[i], "", false);
    snprintf(longest, sizeof(longest), "%0260d.localhost", 0);
    assert_local(longest, "", false);
}

TEST(configured_host_names_are_local)
{
    assert_local("duetime.example", NAMES, true);
    assert_local("DUETIME.example.:8080", NAMES, true);
    assert_local("a.inside.example", NAMES, true);
    assert_local("[fd00::1]:80", NAMES, true);
    assert_local("localhost", NAMES, true);
    assert_local("inside.example", NAMES, false);
    assert_local("x.duetime.example", NAMES, false);
    assert_local("[fd00::2]", NAMES, false);
    assert_local("attacker.example", " ", false);
}

TEST(an_origin_matches_only_its_own_host)
{
    static const struct {
        const char *origin, *host;
        bool same;
    } rows[] = {{"http://localhost:8080", "localhost:8080", true},
                {"https://duetime.example", "Duetime.example", true},
                {"HTTP://[::1]:80", "[::1]:80", true},
                {"http://localhost:8081", "localhost:8080", false},
                {"http://localhost", "localhost:8080", false},
                {"http://attacker.example", "localhost:8080", false},
                {"http://localhost:8080.attacker.example", "localhost:8080", false},
                {"http://localhost:8080/", "localhost:8080", false},
                {"ftp://localhost:8080", "localhost:8080", false},
                {"localhost:8080", "localhost:8080", false},
                {"http://", "", false},
                {"null", "localhost", false},
                {"", "", false}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (dt_origin_is_host(dt_str(rows[i].origin), dt_str(rows[i].host)) != rows[i].same)
            fail_msg("%s of %s", rows[i].origin, rows[i].host);
}
