/* See callback_rules.h. libcurl's parser normalizes hosts: it decodes %, completes "127.1", drops zones. So a host is
 * refused unless the text has exactly the form that the parser returns. Characters that clients read differently are
 * refused before parsing. */
#include "callback_rules.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <curl/curl.h>
#include <strings.h>

#include "base/assert.h"
#include "base/text/encoding.h"

#define LABEL_MAX 63

static const char no_port[] = "must have a port from 1 to 65535";
static const char no_name[] = "has no host name that can be resolved";

static const char *check_characters(struct dt_str text)
{
    for (size_t i = 0; i < text.n; i++) {
        const char c = text.p[i];
        if (!(c && strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~:/?#[]@!$&'()*+,;=%", c)))
            return "has a character that must be percent-encoded";
        if (c == '#')
            return "has a fragment, which is never sent";
        if (c == '%' && (i + 2 >= text.n || dt_hex_digit(text.p[i + 1]) < 0 || dt_hex_digit(text.p[i + 2]) < 0))
            return "has a % without two hexadecimal digits";
    }
    return NULL;
}

static const char *url_fault(CURLUcode failed)
{
    switch (failed) {
    case CURLUE_USER_NOT_ALLOWED:
        return "must not have user information";
    case CURLUE_NO_HOST:
        return "has no host";
    case CURLUE_BAD_PORT_NUMBER:
        return no_port;
    case CURLUE_BAD_IPV6:
        return "has brackets without an IPv6 address";
    case CURLUE_OUT_OF_MEMORY:
        return "cannot be read: out of memory";
    default:
        return no_name;
    }
}

/* Checks the labels of a host name. dot: the host name ends with a dot, which is valid for names, but not for
 * addresses. */
static const char *check_labels(const char *host, bool dot)
{
    struct in_addr address;
    const char *label = host;
    for (;;) {
        const size_t n = strcspn(label, ".");
        bool good = n > 0 && n <= LABEL_MAX && label[0] != '-' && label[n - 1] != '-';
        for (size_t i = 0; i < n && good; i++)
            good = isalnum((unsigned char)label[i]) || label[i] == '-' || label[i] == '_';
        if (!good)
            return no_name;
        if (label[n] == '\0')
            break;
        label += n + 1;
    }
    /* If the last label is a number, a resolver may read the whole name as an IPv4 address. */
    const bool hexadecimal = label[0] == '0' && label[1] == 'x';
    const char *rest =
        hexadecimal ? label + 2 + strspn(label + 2, "0123456789abcdef") : label + strspn(label, "0123456789");
    if (*rest == '\0' && (dot || inet_pton(AF_INET, host, &address) != 1))
        return "has a numeric host that is not an IPv4 address of four decimal parts";
    return NULL;
}

static const char *read_host_name(const char *authority, const char *host, struct dt_callback_url *out)
{
    size_t n = strcspn(authority, ":/?");
    const bool same = strlen(host) == n && strncasecmp(authority, host, n) == 0;
    const bool dot = n > 0 && authority[n - 1] == '.';
    n -= dot;
    if (n == 0)
        return url_fault(CURLUE_NO_HOST);
    if (n > DT_HOST_MAX)
        return "has a host name of more than 253 bytes";
    for (size_t i = 0; i < n; i++)
        out->host[i] = (char)tolower((unsigned char)authority[i]);
    out->host[n] = '\0';
    const char *wrong = check_labels(out->host, dot);
    return wrong ? wrong : same ? NULL : no_name;
}

/* Reads an IPv6 address; host includes its brackets. */
static const char *read_host_address(CURLU *handle, char *host, struct dt_callback_url *out)
{
    struct in6_addr address;
    char *zone = NULL;
    const bool zoned = curl_url_get(handle, CURLUPART_ZONEID, &zone, 0) != CURLUE_NO_ZONEID;
    curl_free(zone);
    host[strcspn(host, "]")] = '\0';
    if (zoned || inet_pton(AF_INET6, host + 1, &address) != 1 ||
        !inet_ntop(AF_INET6, &address, out->host, sizeof(out->host)))
        return url_fault(CURLUE_BAD_IPV6);
    return NULL;
}

const char *dt_callback_url_check(struct dt_str text, struct dt_callback_url *out)
{
    struct dt_callback_url unwanted;
    struct dt_callback_url *url = out ? out : &unwanted;
    char whole[DT_CALLBACK_URL_MAX + 1];
    char *host = NULL;
    char *port = NULL;
    if (text.n > DT_CALLBACK_URL_MAX)
        return "has more than 2000 bytes";
    const char *wrong = check_characters(text);
    if (wrong)
        return wrong;
    memcpy(whole, text.n > 0 ? text.p : "", text.n);
    whole[text.n] = '\0';
    url->tls = strncasecmp(whole, "https://", strlen("https://")) == 0;
    if (!url->tls && strncasecmp(whole, "http://", strlen("http://")) != 0)
        return "must begin with http:// or https://";
    const char *authority = whole + strlen(url->tls ? "https://" : "http://");
    CURLU *handle = curl_url();
    CURLUcode failed = handle ? curl_url_set(handle, CURLUPART_URL, whole, CURLU_PATH_AS_IS | CURLU_DISALLOW_USER)
                              : CURLUE_OUT_OF_MEMORY;
    failed = failed ? failed : curl_url_get(handle, CURLUPART_HOST, &host, 0);
    failed = failed ? failed : curl_url_get(handle, CURLUPART_PORT, &port, CURLU_DEFAULT_PORT);
    const bool ipv6 = !failed && host[0] == '[' && authority[0] == '[';
    wrong = failed ? url_fault(failed)
            : ipv6 ? read_host_address(handle, host, url)
                   : read_host_name(authority, host, url);
    url->port = port ? (uint16_t)strtoul(port, NULL, 10) : 0;
    const char *rest = ipv6 ? strchr(authority, ']') + 1 : authority + strcspn(authority, ":/?");
    if (!wrong && (url->port == 0 || strcspn(rest, "/?") > strlen(":65535")))
        wrong = no_port;
    if (!wrong && strpbrk(rest, "[]"))
        wrong = "has a bracket that must be percent-encoded";
    curl_free(host);
    curl_free(port);
    curl_url_cleanup(handle);
    if (wrong)
        return wrong;
    const int length = snprintf(url->key, sizeof(url->key), "%s://%s%s%s:%u", url->tls ? "https" : "http",
                                ipv6 ? "[" : "", url->host, ipv6 ? "]" : "", (unsigned)url->port);
    dt_assert_cmp(length, <, sizeof(url->key));
    return NULL;
}

const char *dt_callback_origin_check(struct dt_str text, struct dt_callback_url *out)
{
    const char *wrong = dt_callback_url_check(text, out);
    if (wrong)
        return wrong;
    for (size_t i = strlen(out->tls ? "https://" : "http://"); i < text.n; i++)
        if (text.p[i] == '/' || text.p[i] == '?')
            return "must end after its host or port";
    return NULL;
}

uint32_t dt_callback_host_of(struct dt_str text)
{
    struct dt_callback_url url;
    if (!text.p || dt_callback_url_check(text, &url))
        return 0;
    uint32_t hash = dt_str_hash(dt_str(url.key));
    return hash ? hash : 1;
}

/* ---- hosts: upper and lower case are equal; an element with "*." is compared with the end of the host ---- */

#define ELEMENT_MAX 253

static bool is_wildcard(struct dt_str name)
{
    return name.n > 2 && name.p[0] == '*' && name.p[1] == '.';
}

dt_status dt_host_names_check(struct dt_str names, struct dt_error *err)
{
    names = dt_str_trimmed(names);
    while (names.n > 0) {
        const struct dt_str name = dt_str_next_element(&names);
        const int shown = name.n > ELEMENT_MAX ? ELEMENT_MAX : (int)name.n;
        bool good = name.n > 0;
        for (size_t i = is_wildcard(name) ? 2 : 0; i < name.n && good; i++)
            good = isalnum((unsigned char)name.p[i]) || (name.p[i] && strchr("-._:", name.p[i]));
        if (!good)
            return dt_fail(err, DT_INVALID, "\"%.*s\" is not a host's name, such as example.com or *.example.com",
                           shown, name.p);
    }
    return DT_OK;
}

bool dt_host_allowed(struct dt_str names, const char *host)
{
    const size_t n = strlen(host);
    names = dt_str_trimmed(names);
    if (names.n == 0)
        return true;
    while (names.n > 0) {
        struct dt_str name = dt_str_next_element(&names);
        const bool below = is_wildcard(name);
        name.p += below; /* drops the "*" and keeps the dot */
        name.n -= below;
        if ((below ? n > name.n : n == name.n) && strncasecmp(host + n - name.n, name.p, name.n) == 0)
            return true;
    }
    return false;
}

const char *dt_callback_url_refusal(struct dt_str text, struct dt_str names)
{
    struct dt_callback_url url;
    const char *reason = dt_callback_url_check(text, &url);
    if (reason || dt_host_allowed(names, url.host))
        return reason;
    return "has a host that callbacks.allow_hosts does not allow";
}

bool dt_callback_place_is_listed(const struct dt_callback_places *places, struct dt_str url)
{
    struct dt_callback_url wanted;
    struct dt_callback_url place;
    struct dt_str hosts = places->hosts;
    if (!url.p || dt_callback_url_check(url, &wanted))
        return false;
    if (places->url.p && dt_str_eq(places->url, url)) /* usual case: the job uses its topic's URL */
        return true;
    if (places->url.p && !dt_callback_url_check(places->url, &place) && strcmp(place.key, wanted.key) == 0)
        return true;
    while (hosts.n > 0)
        if (!dt_callback_origin_check(dt_str_next_element(&hosts), &place) && strcmp(place.key, wanted.key) == 0)
            return true;
    return false;
}

bool dt_callback_places_widen(const struct dt_callback_places *before, const struct dt_callback_places *after)
{
    const struct dt_callback_places own = {.url = before->url};
    struct dt_str hosts = after->hosts;
    bool widen = after->url.p && !dt_callback_place_is_listed(&own, after->url);
    while (hosts.n > 0)
        widen |= !dt_callback_place_is_listed(before, dt_str_next_element(&hosts));
    return widen;
}

/* ---- headers ---- */

static const struct taken {
    struct dt_str name;
    bool prefix; /* matches every name that begins with `name` */
    const char *reason;
} taken[] = {
#define OURS       "is set by duetime in every callback"
#define CONNECTION "controls the connection, not the request"
    {DT_STR_LIT("ce-"), true, OURS},
    {DT_STR_LIT("webhook-"), true, OURS},
    {DT_STR_LIT("content-"), true, OURS},
    {DT_STR_LIT("idempotency-key"), false, OURS},
    {DT_STR_LIT("host"), false, OURS},
    {DT_STR_LIT("user-agent"), false, OURS},
    {DT_STR_LIT("connection"), false, CONNECTION},
    {DT_STR_LIT("keep-alive"), false, CONNECTION},
    {DT_STR_LIT("proxy-"), true, CONNECTION},
    {DT_STR_LIT("te"), false, CONNECTION},
    {DT_STR_LIT("trailer"), false, CONNECTION},
    {DT_STR_LIT("transfer-encoding"), false, CONNECTION},
    {DT_STR_LIT("upgrade"), false, CONNECTION},
    {DT_STR_LIT("http2-settings"), false, CONNECTION},
    {DT_STR_LIT("expect"), false, CONNECTION},
};

bool dt_header_name_is_token(struct dt_str name)
{
    for (size_t i = 0; i < name.n; i++) {
        const char c = name.p[i];
        if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
              (c && strchr("!#$%&'*+-.^_`|~", c))))
            return false;
    }
    return name.n > 0;
}

const char *dt_callback_header_name_check(struct dt_str name)
{
    if (name.n == 0)
        return "must have a name";
    if (!dt_header_name_is_token(name))
        return "has a character that is not allowed in a header name";
    for (const struct taken *row = taken; row < taken + sizeof(taken) / sizeof(*taken); row++) {
        const bool fits = row->prefix ? name.n >= row->name.n : name.n == row->name.n;
        if (fits && strncasecmp(name.p, row->name.p, row->name.n) == 0)
            return row->reason;
    }
    return NULL;
}

const char *dt_callback_header_value_check(struct dt_str value)
{
    for (size_t i = 0; i < value.n; i++)
        if ((unsigned char)value.p[i] < ' ' || value.p[i] == '\x7f')
            return "has a control character";
    return NULL;
}

/* ---- addresses: if an IPv6 address contains an IPv4 address, both are checked ---- */

#define ADDRESS_BITS 128
#define MAPPED_BITS  96

#define V4(a, b, c, d)                                                                                                 \
    {                                                                                                                  \
        0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, (a), (b), (c), (d)                                                   \
    }

static const struct dt_network refused[] = {
    {V4(0, 0, 0, 0), MAPPED_BITS + 8},      /* "this network" (RFC 6890) */
    {V4(10, 0, 0, 0), MAPPED_BITS + 8},     /* private */
    {V4(100, 64, 0, 0), MAPPED_BITS + 10},  /* shared by carriers; 100.100.100.200 is a metadata service */
    {V4(127, 0, 0, 0), MAPPED_BITS + 8},    /* loopback */
    {V4(168, 63, 129, 16), ADDRESS_BITS},   /* a metadata service */
    {V4(169, 254, 0, 0), MAPPED_BITS + 16}, /* link-local; 169.254.169.254 is a metadata service */
    {V4(172, 16, 0, 0), MAPPED_BITS + 12},  /* private */
    {V4(192, 0, 0, 192), ADDRESS_BITS},     /* a metadata service */
    {V4(192, 168, 0, 0), MAPPED_BITS + 16}, /* private */
    {V4(224, 0, 0, 0), MAPPED_BITS + 4},    /* multicast */
    {V4(240, 0, 0, 0), MAPPED_BITS + 4},    /* reserved, broadcast */
    {{0}, ADDRESS_BITS},                    /* :: */
    {{[15] = 1}, ADDRESS_BITS},             /* ::1 */
    {{0x00, 0x64, 0xff, 0x9b, 0, 1}, 48},   /* local NAT64 */
    {{0xfc}, 7},                            /* unique-local; fd00:ec2::254 is a metadata service */
    {{0xfe, 0x80}, 10},                     /* link-local */
    {{0xfe, 0xc0}, 10},                     /* site-local */
    {{0xff}, 8},                            /* multicast */
};

/* IPv6 networks whose addresses contain an IPv4 address, and the index of its first byte. */
static const struct carrier {
    struct dt_network network;
    unsigned at;
} carriers[] = {
    {{{0}, 96}, 12},                      /* IPv4-compatible */
    {{{[8] = 0xff, [9] = 0xff}, 96}, 12}, /* IPv4-translated */
    {{{0x00, 0x64, 0xff, 0x9b}, 96}, 12}, /* NAT64 */
    {{{0x20, 0x02}, 16}, 2},              /* 6to4 */
};

static bool is_address_refused(const unsigned char *address)
{
    for (size_t i = 0; i < sizeof(refused) / sizeof(*refused); i++)
        if (dt_network_contains(&refused[i], address))
            return true;
    return false;
}

bool dt_address_allowed(const struct dt_networks *allowed, const struct sockaddr *address, size_t n)
{
    unsigned char bytes[DT_ADDRESS_BYTES];
    unsigned char carried[DT_ADDRESS_BYTES] = V4(0, 0, 0, 0);
    if (!dt_address_bytes(address, n, bytes))
        return false;
    if (dt_networks_contain(allowed, bytes))
        return true;
    if (is_address_refused(bytes))
        return false;
    for (size_t i = 0; i < sizeof(carriers) / sizeof(*carriers); i++) {
        if (!dt_network_contains(&carriers[i].network, bytes))
            continue;
        memcpy(carried + 12, bytes + carriers[i].at, 4);
        return !is_address_refused(carried) || dt_networks_contain(allowed, carried);
    }
    return true;
}
