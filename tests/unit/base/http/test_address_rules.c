/* Which addresses and hosts a callback may reach. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/un.h>

#include "support/suite.h"

#include "base/http/callback_rules.h"

static bool allowed_with(const char *networks, const char *text)
{
    struct dt_networks allowed;
    struct dt_error err = {0};
    struct sockaddr_in in = {.sin_family = AF_INET};
    struct sockaddr_in6 in6 = {.sin6_family = AF_INET6};
    if (dt_networks_parse(dt_str(networks), &allowed, &err) != DT_OK)
        fail_msg("%s", err.text);
    if (inet_pton(AF_INET, text, &in.sin_addr) == 1)
        return dt_address_allowed(&allowed, (const struct sockaddr *)&in, sizeof(in));
    assert_int_equal(inet_pton(AF_INET6, text, &in6.sin6_addr), 1);
    return dt_address_allowed(&allowed, (const struct sockaddr *)&in6, sizeof(in6));
}

TEST(internal_networks_are_refused_up_to_their_last_address)
{
    static const char *const rows[] = {"0.0.0.0",
                                       "0.255.255.255",
                                       "10.0.0.0",
                                       "10.255.255.255",
                                       "100.64.0.0",
                                       "100.127.255.255",
                                       "100.100.100.200",
                                       "127.0.0.1",
                                       "127.255.255.255",
                                       "168.63.129.16",
                                       "169.254.0.0",
                                       "169.254.169.254",
                                       "169.254.255.255",
                                       "172.16.0.0",
                                       "172.31.255.255",
                                       "192.0.0.192",
                                       "192.168.0.0",
                                       "192.168.255.255",
                                       "224.0.0.1",
                                       "239.255.255.255",
                                       "240.0.0.0",
                                       "255.255.255.255",
                                       "::",
                                       "::1",
                                       "fc00::",
                                       "fdff:ffff::1",
                                       "fd00:ec2::254",
                                       "fe80::1",
                                       "febf::1",
                                       "fec0::1",
                                       "ff00::",
                                       "ff02::1",
                                       "64:ff9b:1::",
                                       "64:ff9b:1:ffff:ffff:ffff:ffff:ffff"};
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
        if (allowed_with("", rows[i]))
            fail_msg("%s is allowed", rows[i]);
}

TEST(addresses_just_outside_internal_networks_are_allowed)
{
    static const char *const rows[] = {
        "1.0.0.0",     "9.255.255.255", "11.0.0.0",    "100.63.255.255",  "100.128.0.0",     "126.255.255.255",
        "128.0.0.0",   "168.63.129.15", "169.253.0.1", "169.255.0.0",     "172.15.255.255",  "172.32.0.0",
        "192.0.0.191", "192.167.1.1",   "192.169.0.0", "223.255.255.255", "8.8.8.8",         "203.0.113.7",
        "2001:db8::1", "fbff::1",       "fe00::1",     "fe7f::1",         "2606:4700::1111", "64:ff9b:2::1"};
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
        if (!allowed_with("", rows[i]))
            fail_msg("%s is refused", rows[i]);
}

TEST(an_ipv6_form_is_judged_by_the_ipv4_address_in_it)
{
    static const char *const forms[] = {"::ffff:%s", "64:ff9b::%s", "::%s", "::ffff:0:%s"};
    static const char *const inside[] = {"127.0.0.1", "10.1.2.3",   "169.254.169.254", "192.168.1.1",
                                         "0.0.0.5",   "100.64.1.1", "255.255.255.255"};
    char text[64];
    for (size_t form = 0; form < 4; form++) {
        const char *percent = strchr(forms[form], '%');
        for (size_t i = 0; i < sizeof(inside) / sizeof(*inside); i++) {
            memcpy(text, forms[form], (size_t)(percent - forms[form]));
            strcpy(text + (percent - forms[form]), inside[i]);
            if (allowed_with("", text))
                fail_msg("%s is allowed", text);
        }
        strcpy(text + (percent - forms[form]), "8.8.8.8");
        if (!allowed_with("", text))
            fail_msg("%s is refused", text);
    }
    assert_false(allowed_with("", "2002:7f00:1::1"));
    assert_false(allowed_with("", "2002:a9fe:a9fe::"));
    assert_false(allowed_with("", "2002:0a00:1::8.8.8.8"));
    assert_true(allowed_with("", "2002:0808:0808::7f00:1"));
}

TEST(an_exception_holds_for_its_network_alone)
{
    assert_true(allowed_with("127.0.0.0/8", "127.5.5.5"));
    assert_false(allowed_with("127.0.0.0/8", "10.0.0.1"));
    assert_false(allowed_with("127.0.0.0/8", "::1"));
    assert_true(allowed_with("127.0.0.0/8,::1/128", "::1"));
    assert_true(allowed_with(" 10.0.0.0/9 , 192.168.7.9", "10.127.255.255"));
    assert_false(allowed_with("10.0.0.0/9,192.168.7.9", "10.128.0.0"));
    assert_true(allowed_with("10.0.0.0/9,192.168.7.9", "192.168.7.9"));
    assert_false(allowed_with("10.0.0.0/9,192.168.7.9", "192.168.7.8"));
    assert_true(allowed_with("fd00::/8", "fd12::1"));
    assert_false(allowed_with("fd00::/8", "fc12::1"));
    assert_true(allowed_with("0.0.0.0/0", "192.168.0.1"));
    assert_true(allowed_with("::/0", "fe80::1"));
}

TEST(an_exception_for_ipv4_covers_its_ipv6_forms_and_no_exception_for_ipv6_covers_ipv4)
{
    assert_true(allowed_with("10.0.0.0/8", "::ffff:10.1.1.1"));
    assert_true(allowed_with("10.0.0.0/8", "64:ff9b::10.1.1.1"));
    assert_true(allowed_with("10.0.0.0/8", "2002:0a01:0101::1"));
    assert_false(allowed_with("10.0.0.0/8", "64:ff9b::127.0.0.1"));
    assert_true(allowed_with("::ffff:10.0.0.0/104", "10.1.1.1"));
    assert_false(allowed_with("::/0", "10.1.1.1"));
    assert_false(allowed_with("::/0", "::ffff:10.1.1.1"));
}

TEST(other_families_and_short_addresses_are_refused)
{
    struct dt_networks none = {0};
    struct sockaddr_un local = {.sun_family = AF_UNIX};
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(0x08080808)};
    assert_false(dt_address_allowed(&none, (const struct sockaddr *)&local, sizeof(local)));
    assert_true(dt_address_allowed(&none, (const struct sockaddr *)&in, sizeof(in)));
    assert_false(dt_address_allowed(&none, (const struct sockaddr *)&in, sizeof(in) - 1));
}

TEST(an_invalid_list_of_networks_is_refused_with_its_fault)
{
    static const char *const rows[][2] = {
        {"10.0.0.0/33", "\"10.0.0.0/33\" must have a length from 0 to 32"},
        {"::1/129", "\"::1/129\" must have a length from 0 to 128"},
        {"10.0.0.0/", "must have a length"},
        {"10.0.0.0/8x", "must have a length"},
        {"10.0.0.0/-1", "must have a length"},
        {"10.0.0.1/8", "\"10.0.0.1/8\" has bits that are set after its length"},
        {"fd00::1/8", "has bits that are set after its length"},
        {"10.0.0/8", "is not an IPv4 or IPv6 address"},
        {"localhost", "\"localhost\" is not an IPv4"},
        {"10.0.0.0/8,,::1", "\"\" is not an IPv4"},
        {"10.0.0.0/8 ::1", "must have a length"},
    };
    struct dt_networks networks;
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct dt_error err = {0};
        assert_int_equal(dt_networks_parse(dt_str(rows[i][0]), &networks, &err), DT_INVALID);
        if (!strstr(err.text, rows[i][1]))
            fail_msg("%s: %s", rows[i][0], err.text);
        assert_int_equal(networks.n, 0);
    }
}

TEST(sixty_four_networks_are_read_and_no_more)
{
    char text[65 * 8] = "";
    struct dt_networks networks;
    struct dt_error err = {0};
    for (int i = 0; i < 64; i++)
        strcat(text, i ? ",1.1.1.1" : "1.1.1.1");
    assert_int_equal(dt_networks_parse(dt_str(text), &networks, &err), DT_OK);
    assert_int_equal(networks.n, 64);
    strcat(text, ",::");
    assert_int_equal(dt_networks_parse(dt_str(text), &networks, &err), DT_INVALID);
}

SUITE(NULL, NULL)
