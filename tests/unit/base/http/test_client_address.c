/* Whose request it is, as trusted proxies say it and as others would like it to be. */
#include <arpa/inet.h>
#include <netinet/in.h>

#include "support/suite.h"

#include "base/http/client_address.h"

static struct dt_networks proxies;

static void judge(const char *peer, const char *said, bool forwarded, const char *wanted)
{
    struct sockaddr_storage address = {.ss_family = strchr(peer, ':') ? AF_INET6 : AF_INET};
    struct sockaddr_in *in = (void *)&address;
    struct sockaddr_in6 *in6 = (void *)&address;
    char found[DT_ADDRESS_TEXT];
    void *at = address.ss_family == AF_INET ? (void *)&in->sin_addr : (void *)&in6->sin6_addr;
    assert_int_equal(inet_pton(address.ss_family, peer, at), 1);
    unsigned char bytes[DT_ADDRESS_BYTES];
    assert_true(dt_address_bytes((const struct sockaddr *)&address, sizeof(address), bytes));
    dt_client_address(&proxies, bytes, (struct dt_forwarded){dt_str(said), forwarded}, found);
    assert_string_equal(found, wanted);
}

static void trust(void)
{
    assert_int_equal(dt_networks_parse(dt_str("10.0.0.0/8, fd00::/8"), &proxies, NULL), DT_OK);
}

TEST(forwarding_headers_of_untrusted_peers_are_ignored)
{
    judge("192.0.2.1", "203.0.113.9", false, "192.0.2.1");
    judge("2001:db8::1", "for=203.0.113.9", true, "2001:db8::1");
    judge("::ffff:192.0.2.1", "203.0.113.9", false, "192.0.2.1");
}

TEST(a_trusted_proxy_names_its_client)
{
    judge("10.1.2.3", "203.0.113.9", false, "203.0.113.9");
    judge("::ffff:10.1.2.3", " 203.0.113.9:4711 ", false, "203.0.113.9");
    judge("fd00::1", "[2001:db8::7]:80", false, "2001:db8::7");
    judge("fd00::1", "2001:db8::7", false, "2001:db8::7");
    judge("10.1.2.3", "", false, "10.1.2.3");
}

TEST(addresses_that_a_client_put_before_its_proxys_are_ignored)
{
    judge("10.1.2.3", "127.0.0.1, 203.0.113.9", false, "203.0.113.9");
    judge("10.1.2.3", "1.1.1.1, 203.0.113.9, 10.9.9.9, 10.0.0.1", false, "203.0.113.9");
    judge("10.1.2.3", "10.7.7.7, 10.8.8.8", false, "10.7.7.7");
    judge("10.1.2.3", "for=\"1.1.1.1, for=2.2.2.2\", for=203.0.113.9", true, "203.0.113.9");
}

TEST(an_invalid_address_ends_the_search)
{
    judge("10.1.2.3", "203.0.113.9, unknown", false, "10.1.2.3");
    judge("10.1.2.3", "203.0.113.9, ", false, "10.1.2.3");
    judge("10.1.2.3", "203.0.113.9, 10.0.0.1, nonsense::::", false, "10.1.2.3");
    judge("10.1.2.3", "for=_secret", true, "10.1.2.3");
    judge("10.1.2.3", "proto=https;by=203.0.113.9", true, "10.1.2.3");
    judge("10.1.2.3", ",,,,", false, "10.1.2.3");
    judge("10.1.2.3", "[", false, "10.1.2.3");
}

TEST(forwarded_is_parsed_with_quotes_ports_and_further_parameters)
{
    judge("10.1.2.3", "For=203.0.113.9;proto=https", true, "203.0.113.9");
    judge("10.1.2.3", "proto=https; for=\"[2001:db8::7]:4711\"", true, "2001:db8::7");
}

TEST(a_unix_socket_has_no_address)
{
    char found[DT_ADDRESS_TEXT];
    dt_client_address(&proxies, NULL, (struct dt_forwarded){DT_STR_NONE, false}, found);
    assert_string_equal(found, DT_CLIENT_NOWHERE);
}

SUITE(trust, NULL)
