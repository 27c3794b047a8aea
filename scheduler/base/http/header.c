/* Which headers callers may add: one table of names that are taken, and RFC 9110's character sets. */
#include "header.h"

#include <strings.h>

static const struct taken {
    struct dt_str name;
    bool prefix; /* every name that begins so */
    const char *reason;
} taken[] = {
#define OURS       "is a header of every callback"
#define CONNECTION "rules the connection, not the request"
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
        return "has a character that no header's name has";
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
