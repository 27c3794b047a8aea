/* Reads the headers of proxies: see client_address.h. They are read from their end, so that entries that a client wrote
 * before its first proxy are not reached. */
#include "client_address.h"

#include <strings.h>

/* Removes the last element from the list and returns it. */
static struct dt_str take_last_element(struct dt_str *list, char separator)
{
    const char *found = list->n ? memrchr(list->p, separator, list->n) : NULL;
    size_t n = found ? (size_t)(found - list->p) : 0;
    size_t from = found ? n + 1 : 0;
    struct dt_str last = dt_str_trimmed((struct dt_str){list->p + from, list->n - from});
    list->n = n;
    return last;
}

/* Returns the value of for= in an element of Forwarded, without its quotes. */
static struct dt_str forwarded_for_of(struct dt_str element)
{
    while (element.n) {
        struct dt_str part = take_last_element(&element, ';');
        if (part.n < 4 || strncasecmp(part.p, "for=", 4) != 0)
            continue;
        struct dt_str value = {part.p + 4, part.n - 4};
        if (value.n >= 2 && value.p[0] == '"' && value.p[value.n - 1] == '"')
            value = (struct dt_str){value.p + 1, value.n - 2};
        return value;
    }
    return DT_STR_NONE;
}

/* Returns the address without brackets and port. */
static struct dt_str strip_brackets_and_port(struct dt_str text)
{
    const char *colon = text.n ? memchr(text.p, ':', text.n) : NULL;
    const char *close = text.n && text.p[0] == '[' ? memchr(text.p, ']', text.n) : NULL;
    if (close)
        return (struct dt_str){text.p + 1, (size_t)(close - text.p) - 1};
    if (colon && !memchr(colon + 1, ':', text.n - (size_t)(colon + 1 - text.p)))
        return (struct dt_str){text.p, (size_t)(colon - text.p)};
    return text;
}

void dt_client_address(const struct dt_networks *trusted, const unsigned char *peer, struct dt_forwarded said,
                       char out[DT_ADDRESS_TEXT])
{
    unsigned char address[DT_ADDRESS_BYTES];
    if (!peer) {
        snprintf(out, DT_ADDRESS_TEXT, DT_CLIENT_NOWHERE);
        return;
    }
    memcpy(address, peer, sizeof(address));
    while (said.value.n && dt_networks_contain(trusted, address)) {
        struct dt_str element = take_last_element(&said.value, ',');
        if (!dt_address_parse(strip_brackets_and_port(said.forwarded ? forwarded_for_of(element) : element), address))
            break; /* "unknown" or an obfuscated name: the address that sent this entry is the last known one */
    }
    dt_address_text(address, out);
}
