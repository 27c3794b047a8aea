/* Host names against a list. Letters may be of either case; an element with "*." is compared with the end of the
 * host. */
#include "host_name.h"

#include <ctype.h>
#include <strings.h>

#include "url.h"

#define ELEMENT_MAX 253

static bool has_prefix(struct dt_str name)
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
        for (size_t i = has_prefix(name) ? 2 : 0; i < name.n && good; i++)
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
        const bool below = has_prefix(name);
        name.p += below; /* the dot stays */
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
    return "has a host that callbacks may not go to (callbacks.allow_hosts)";
}

bool dt_callback_place_is_listed(const struct dt_callback_places *places, struct dt_str url)
{
    struct dt_callback_url wanted;
    struct dt_callback_url place;
    struct dt_str hosts = places->hosts;
    if (!url.p || dt_callback_url_check(url, &wanted))
        return false;
    if (places->url.p && dt_str_eq(places->url, url)) /* as of most jobs */
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
