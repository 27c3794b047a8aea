/*
 * Reads the URL of a callback with libcurl's parser, which the client of receivers uses as well: what is judged here is
 * what it connects to. That parser tidies hosts (it decodes %, completes "127.1", drops zones), so a host is refused
 * unless the text has it exactly as the parser returns it. Characters that clients read differently are refused before.
 */
#include "url.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
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

static const char *reason_of(CURLUcode failed)
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
        return "cannot be read, because memory is out";
    default:
        return no_name;
    }
}

/* dot: one follows the last label, as it may follow whole names, but not addresses. */
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
    /* A resolver may take the last label, and with it the whole name, for a number. */
    const bool hexadecimal = label[0] == '0' && label[1] == 'x';
    const char *rest =
        hexadecimal ? label + 2 + strspn(label + 2, "0123456789abcdef") : label + strspn(label, "0123456789");
    if (*rest == '\0' && (dot || inet_pton(AF_INET, host, &address) != 1))
        return "has a number as its host that is not four decimal parts";
    return NULL;
}

static const char *read_name(const char *authority, const char *host, struct dt_callback_url *out)
{
    size_t n = strcspn(authority, ":/?");
    const bool same = strlen(host) == n && strncasecmp(authority, host, n) == 0;
    const bool dot = n > 0 && authority[n - 1] == '.';
    n -= dot;
    if (n == 0)
        return reason_of(CURLUE_NO_HOST);
    if (n > DT_HOST_MAX)
        return "has a host name of more than 253 bytes";
    for (size_t i = 0; i < n; i++)
        out->host[i] = (char)tolower((unsigned char)authority[i]);
    out->host[n] = '\0';
    const char *wrong = check_labels(out->host, dot);
    return wrong ? wrong : same ? NULL : no_name;
}

/* host: with its brackets. */
static const char *read_address(CURLU *handle, char *host, struct dt_callback_url *out)
{
    struct in6_addr address;
    char *zone = NULL;
    const bool zoned = curl_url_get(handle, CURLUPART_ZONEID, &zone, 0) != CURLUE_NO_ZONEID;
    curl_free(zone);
    host[strcspn(host, "]")] = '\0';
    if (zoned || inet_pton(AF_INET6, host + 1, &address) != 1 ||
        !inet_ntop(AF_INET6, &address, out->host, sizeof(out->host)))
        return reason_of(CURLUE_BAD_IPV6);
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
    wrong = failed ? reason_of(failed) : ipv6 ? read_address(handle, host, url) : read_name(authority, host, url);
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

uint32_t dt_callback_host_number(const struct dt_callback_url *url)
{
    uint32_t hash = dt_str_hash(dt_str(url->key));
    return hash ? hash : 1;
}

uint32_t dt_callback_host_of(struct dt_str text)
{
    struct dt_callback_url url;
    return text.p && !dt_callback_url_check(text, &url) ? dt_callback_host_number(&url) : 0;
}
