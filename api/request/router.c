/*
 * The compiled form of the route table, and the matching of paths.
 *
 * Invariants: a path is split at "/" before it is decoded, so an escaped slash stays inside its segment; a segment
 * matches a literal if it is equal after decoding; it matches a {parameter} if it is not empty; literals win over
 * parameters because the table is searched for literals first ("/v1/jobs:batch" is a literal).
 */
#include "router.h"

#include "base/assert.h"
#include "base/text/encoding.h"

#define SEGMENTS_MAX 8

struct segment {
    struct dt_str text; /* text of the segment; for a parameter, its name without braces */
    bool param;
};

struct compiled {
    const struct dt_route *route;
    struct segment segments[SEGMENTS_MAX];
    unsigned n;
};

struct dt_router {
    struct compiled *routes;
    size_t n;
};

/* Splits "/a/b" into its segments. Returns -1 if there are too many, or if the path does not begin with a slash. */
static int split_path(struct dt_str path, struct dt_str out[SEGMENTS_MAX])
{
    if (path.n == 0 || path.p[0] != '/')
        return -1;
    int n = 0;
    const char *p = path.p + 1;
    const char *end = path.p + path.n;
    for (;;) {
        const char *slash = memchr(p, '/', (size_t)(end - p));
        const char *stop = slash ? slash : end;
        if (n == SEGMENTS_MAX)
            return -1;
        out[n++] = (struct dt_str){p, (size_t)(stop - p)};
        if (!slash)
            return n;
        p = slash + 1;
    }
}

/* Returns true if the route's wall (what a caller with topic prefixes may see) fits its path and scope. */
static bool wall_fits_route(const struct dt_route *route)
{
    const char *brace = strchr(route->path, '{');
    const bool topic_first = brace && strncmp(brace, "{topic}", 7) == 0;
    if (!route->wall || topic_first != (route->wall == DT_WALL_TOPIC_IN_PATH))
        return false;
    return route->scope != DT_SCOPE_NONE || route->wall == DT_WALL_NOTHING;
}

dt_status dt_router_new(const struct dt_route *routes, size_t n, dt_router **out)
{
    dt_status status = DT_OK;
    *out = NULL;
    dt_router *router = calloc(1, sizeof(*router));
    if (!router)
        return DT_NOMEM;
    router->routes = calloc(n ? n : 1, sizeof(*router->routes));
    router->n = n;
    if (!router->routes)
        status = DT_NOMEM;
    for (size_t i = 0; status == DT_OK && i < n; i++) {
        struct compiled *c = &router->routes[i];
        struct dt_str parts[SEGMENTS_MAX];
        const int k = split_path(dt_str(routes[i].path), parts);
        unsigned params = 0;
        c->route = &routes[i];
        c->n = k > 0 ? (unsigned)k : 0;
        for (unsigned j = 0; j < c->n; j++) {
            const struct dt_str s = parts[j];
            const bool param = s.n > 2 && s.p[0] == '{' && s.p[s.n - 1] == '}';
            c->segments[j] = (struct segment){param ? (struct dt_str){s.p + 1, s.n - 2} : s, param};
            params += param;
        }
        status = k > 0 && params <= DT_ROUTE_PARAMS && wall_fits_route(&routes[i]) ? DT_OK : DT_INTERNAL;
    }
    if (status == DT_OK)
        *out = router;
    else
        dt_router_free(router);
    return status;
}

void dt_router_free(dt_router *router)
{
    if (!router)
        return;
    free(router->routes);
    free(router);
}

const struct dt_route *dt_router_route(const dt_router *router, size_t index)
{
    return router->routes[index].route;
}

size_t dt_router_count(const dt_router *router)
{
    return router->n;
}

/* Returns true if the path's segment, decoded, equals the literal of the route's segment. */
static bool segment_equals_literal(struct dt_str segment, struct dt_str literal)
{
    size_t k = 0;
    for (size_t i = 0; i < segment.n; i++, k++) {
        char c = segment.p[i];
        if (c == '%') {
            int hi = segment.n - i < 3 ? -1 : dt_hex_digit(segment.p[i + 1]);
            int lo = hi < 0 ? -1 : dt_hex_digit(segment.p[i + 2]);
            if (lo < 0)
                return false;
            c = (char)(hi * 16 + lo);
            i += 2;
        }
        if (k == literal.n || c != literal.p[k])
            return false;
    }
    return k == literal.n;
}

/* Returns true if the path's segments fit the route; sets the route's parameters. */
static bool path_fits_route(const struct compiled *c, const struct dt_str *parts, unsigned n,
                            struct dt_str params[DT_ROUTE_PARAMS])
{
    if (c->n != n)
        return false;
    unsigned k = 0;
    for (unsigned i = 0; i < n; i++) {
        if (!c->segments[i].param) {
            if (!segment_equals_literal(parts[i], c->segments[i].text))
                return false;
        } else {
            if (parts[i].n == 0)
                return false;
            dt_assert_cmp(k, <, DT_ROUTE_PARAMS); /* dt_router_new refuses routes with more parameters than that */
            params[k++] = parts[i];
        }
    }
    return true;
}

static void add_allowed_method(char *allow, size_t size, const char *method)
{
    size_t n = strlen(allow);
    size_t m = strlen(method);
    if (n + m + 3 > size)
        return;
    if (n) {
        memcpy(allow + n, ", ", 3);
        n += 2;
    }
    memcpy(allow + n, method, m + 1);
}

void dt_router_match(const dt_router *router, struct dt_str method, struct dt_str path, struct dt_match *out)
{
    struct dt_str parts[SEGMENTS_MAX];
    out->route = NULL;
    out->index = 0;
    out->allow[0] = '\0';
    int n = split_path(path, parts);
    if (n < 0)
        return;
    for (size_t i = 0; i < router->n; i++) {
        const struct compiled *c = &router->routes[i];
        struct dt_str params[DT_ROUTE_PARAMS] = {DT_STR_NONE};
        if (!path_fits_route(c, parts, (unsigned)n, params))
            continue;
        const bool is_get = strcmp(c->route->method, "GET") == 0;
        if (!dt_str_is(method, c->route->method) && !(is_get && dt_str_is(method, "HEAD"))) {
            add_allowed_method(out->allow, sizeof(out->allow), c->route->method);
            if (is_get)
                add_allowed_method(out->allow, sizeof(out->allow), "HEAD");
            continue;
        }
        out->route = c->route;
        out->index = i;
        memcpy(out->params, params, sizeof(params));
        return;
    }
}

dt_status dt_percent_decode(struct dt_str text, char *out, size_t *n)
{
    size_t k = 0;
    for (size_t i = 0; i < text.n; i++) {
        if (text.p[i] != '%') {
            out[k++] = text.p[i];
            continue;
        }
        if (text.n - i < 3)
            return DT_MALFORMED;
        int hi = dt_hex_digit(text.p[i + 1]);
        int lo = dt_hex_digit(text.p[i + 2]);
        if (hi < 0 || lo < 0)
            return DT_MALFORMED;
        out[k++] = (char)(hi * 16 + lo);
        i += 2;
    }
    out[k] = '\0';
    *n = k;
    return DT_OK;
}

/* Removes and returns the part before the first `c`, or the whole text if it has no `c`. */
static struct dt_str take_text_before(struct dt_str *remainder, char c)
{
    const char *at = remainder->n ? memchr(remainder->p, c, remainder->n) : NULL;
    struct dt_str cut = {remainder->p, at ? (size_t)(at - remainder->p) : remainder->n};
    remainder->p += cut.n + (at ? 1 : 0);
    remainder->n -= cut.n + (at ? 1 : 0);
    return cut;
}

enum dt_media dt_media_parse(struct dt_str content_type)
{
    if (!content_type.p)
        return DT_MEDIA_JSON;
    struct dt_str parameters = content_type;
    const struct dt_str type = dt_str_trimmed(take_text_before(&parameters, ';'));
    while (parameters.n) { /* a parameter must not name a character set other than UTF-8 */
        struct dt_str value = take_text_before(&parameters, ';');
        const struct dt_str name = dt_str_trimmed(take_text_before(&value, '='));
        struct dt_str charset = dt_str_trimmed(value);
        if (charset.n > 1 && charset.p[0] == '"' && charset.p[charset.n - 1] == '"')
            charset = (struct dt_str){charset.p + 1, charset.n - 2};
        if (dt_str_is_caseless(name, "charset") && !dt_str_is_caseless(charset, "utf-8") &&
            !dt_str_is_caseless(charset, "utf8") && !dt_str_is_caseless(charset, "us-ascii"))
            return DT_MEDIA_OTHER;
    }
    return dt_str_is_caseless(type, "application/json")       ? DT_MEDIA_JSON
           : dt_str_is_caseless(type, "application/x-ndjson") ? DT_MEDIA_NDJSON
                                                              : DT_MEDIA_OTHER;
}
