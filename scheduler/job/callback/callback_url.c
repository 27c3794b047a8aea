/*
 * Reading the URL of a callback, part by part: scheme, authority, and a remainder of which only the characters matter.
 * The grammar is RFC 3986's, narrowed to what every client reads alike.
 */
#include "job/callback/callback_url.h"

#include <arpa/inet.h>
#include <stdio.h>

#include "base/assert.h"
#include "base/text/hex.h"

#define LABEL_MAX 63

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static bool digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool alphanumeric(char c)
{
    return digit(c) || (lower(c) >= 'a' && lower(c) <= 'z');
}

static bool starts_with(struct dt_str s, const char *prefix)
{
    size_t n = strlen(prefix);
    if (s.n < n)
        return false;
    for (size_t i = 0; i < n; i++)
        if (lower(s.p[i]) != prefix[i])
            return false;
    return true;
}

static struct dt_str after(struct dt_str s, size_t n)
{
    return (struct dt_str){s.p + n, s.n - n};
}

/* Bytes of s before the first of these characters; s.n when none is there. */
static size_t span_before(struct dt_str s, const char *ends)
{
    size_t n = 0;
    while (n < s.n && !strchr(ends, s.p[n]))
        n++;
    return n;
}

static const char *check_characters(struct dt_str text)
{
    for (size_t i = 0; i < text.n; i++) {
        const char c = text.p[i];
        if (!alphanumeric(c) && !(c && strchr("-._~:/?#[]@!$&'()*+,;=%", c)))
            return "has a character that must be percent-encoded";
        if (c == '#')
            return "has a fragment, which is never sent";
        if (c == '%' && (i + 2 >= text.n || dt_hex_digit(text.p[i + 1]) < 0 || dt_hex_digit(text.p[i + 2]) < 0))
            return "has a % without two hexadecimal digits";
    }
    return NULL;
}

static const char *read_port(struct dt_str text, struct dt_callback_url *out)
{
    unsigned port = 0;
    out->port = out->tls ? 443 : 80;
    if (text.n == 0)
        return NULL;
    if (text.n > 5)
        return "must have a port from 1 to 65535";
    for (size_t i = 0; i < text.n; i++) {
        if (!digit(text.p[i]))
            return "must have a port from 1 to 65535";
        port = port * 10 + (unsigned)(text.p[i] - '0');
    }
    if (port == 0 || port > UINT16_MAX)
        return "must have a port from 1 to 65535";
    out->port = (uint16_t)port;
    return NULL;
}

/* dot: one stands behind the last label, as behind names that are whole, and not behind addresses. */
static const char *check_labels(const char *host, bool dot)
{
    struct in_addr address;
    const char *label = host;
    for (;;) {
        const size_t n = strcspn(label, ".");
        bool good = n > 0 && n <= LABEL_MAX && label[0] != '-' && label[n - 1] != '-';
        for (size_t i = 0; i < n && good; i++)
            good = alphanumeric(label[i]) || label[i] == '-' || label[i] == '_';
        if (!good)
            return "has no host name that can be resolved";
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

static const char *read_name(struct dt_str text, struct dt_callback_url *out)
{
    const bool dot = text.n > 0 && text.p[text.n - 1] == '.';
    text.n -= dot;
    if (text.n == 0)
        return "has no host";
    if (text.n > DT_HOST_MAX)
        return "has a host name of more than 253 bytes";
    for (size_t i = 0; i < text.n; i++)
        out->host[i] = lower(text.p[i]);
    out->host[text.n] = '\0';
    return check_labels(out->host, dot);
}

static const char *read_bracketed(struct dt_str authority, struct dt_callback_url *out)
{
    char buf[INET6_ADDRSTRLEN];
    struct in6_addr address;
    const size_t n = span_before(authority, "]");
    if (n == authority.n)
        return "has a bracket that is not closed";
    if (n - 1 >= sizeof(buf))
        return "has brackets without an IPv6 address";
    memcpy(buf, authority.p + 1, n - 1);
    buf[n - 1] = '\0';
    if (inet_pton(AF_INET6, buf, &address) != 1 || !inet_ntop(AF_INET6, &address, out->host, sizeof(out->host)))
        return "has brackets without an IPv6 address";
    const struct dt_str port = after(authority, n + 1);
    if (port.n > 0 && port.p[0] != ':')
        return "has something other than a port behind its host";
    return read_port(port.n > 0 ? after(port, 1) : port, out);
}

static const char *read_authority(struct dt_str authority, struct dt_callback_url *out)
{
    if (span_before(authority, "@") < authority.n)
        return "must not have user information";
    if (authority.n > 0 && authority.p[0] == '[')
        return read_bracketed(authority, out);
    size_t n = span_before(authority, ":");
    const char *wrong = read_name((struct dt_str){authority.p, n}, out);
    if (wrong)
        return wrong;
    return read_port(after(authority, n < authority.n ? n + 1 : n), out);
}

const char *dt_callback_url_check(struct dt_str text, struct dt_callback_url *out)
{
    struct dt_callback_url unwanted;
    struct dt_callback_url *url = out ? out : &unwanted;
    if (text.n > DT_CALLBACK_URL_MAX)
        return "has more than 2000 bytes";
    const char *wrong = check_characters(text);
    if (wrong)
        return wrong;
    url->tls = starts_with(text, "https://");
    if (!url->tls && !starts_with(text, "http://"))
        return "must begin with http:// or https://";
    text = after(text, strlen(url->tls ? "https://" : "http://"));
    const size_t n = span_before(text, "/?");
    wrong = read_authority((struct dt_str){text.p, n}, url);
    if (wrong)
        return wrong;
    if (span_before(after(text, n), "[]") < text.n - n)
        return "has a bracket that must be percent-encoded";
    const bool ipv6 = strchr(url->host, ':');
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
    struct dt_str authority = after(text, strlen(out->tls ? "https://" : "http://"));
    return span_before(authority, "/?") < authority.n ? "must end after its host or port" : NULL;
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
