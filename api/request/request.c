/*
 * The functions for handlers that need no HTTP server: query, headers, refusals; the wall between tenants; hosts and
 * origins; the budget of memory.
 *
 * Invariant of the budget: held = the sum of all holds, and at most max.
 */
#include "request.h"

#include <stdarg.h>
#include <strings.h>

#include "base/addresses.h"
#include "base/assert.h"
#include "base/fail_point.h"
#include "base/http/callback_rules.h"
#include "base/http/connection.h"

#define NAME_MAX_BYTES 253 /* maximal bytes of a DNS name */
/* charges for large bodies, batches and pages (bulk) leave 1/BULK_LEAVES of the budget for other requests */
#define BULK_LEAVES 8

struct dt_str dt_request_query(const struct dt_request *req, const char *name)
{
    for (unsigned i = 0; i < req->n_query; i++)
        if (dt_str_is(req->query[i].name, name))
            return req->query[i].value;
    return DT_STR_NONE;
}

void dt_request_header(struct dt_request *req, const char *name, struct dt_str value)
{
    if (!value.p)
        return;
    req->caches |= strcmp(name, "Cache-Control") == 0;
    dt_reply_add_header(&req->headers, dt_str(name), value);
}

enum dt_next dt_request_no_room(struct dt_request *req)
{
    dt_request_refuse(req, DT_PROBLEM_UNAVAILABLE, "all memory that limits.memory allows is in use");
    return DT_REPLY;
}

void dt_request_problem(struct dt_request *req, const struct dt_problem *problem)
{
    dt_strbuf_reset(&req->out);
    dt_problem_add(&req->out, problem, req->request_id);
    req->status = dt_problem_http_status(problem->type);
    req->reply_type = "application/problem+json";
    const int64_t retry_after_s = dt_problem_retry_after_s(problem);
    if (retry_after_s) {
        char text[24];
        snprintf(text, sizeof(text), "%lld", (long long)retry_after_s);
        dt_request_header(req, "Retry-After", dt_str(text));
    }
}

void dt_request_refuse(struct dt_request *req, enum dt_problem_type type, const char *fmt, ...)
{
    char text[400];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    dt_request_problem(req, &(struct dt_problem){.type = type, .detail = dt_str(text)});
}

/* ---- the wall ---- */

/* Returns what the caller may see on this route (its wall). A fail point makes it always NOTHING, so that a test shows
 * which checks notice a missing wall. */
static enum dt_wall tenant_wall_of(const struct dt_request *req)
{
    return DT_FAIL_FORCED("wall.emptied") ? DT_WALL_NOTHING : req->route->wall;
}

static bool is_within_caller_topics(const struct dt_request *req, struct dt_str topic)
{
    return dt_topic_within(dt_caller_bound(&req->caller), topic);
}

bool dt_wall_enter(struct dt_request *req)
{
    const enum dt_wall wall = tenant_wall_of(req);
    if (wall == DT_WALL_ALL_TOPICS && !dt_caller_sees_all(&req->caller))
        dt_request_refuse(req, DT_PROBLEM_FORBIDDEN,
                          "the token is bound to some topics, and this request is about all topics");
    else if (wall == DT_WALL_TOPIC_IN_PATH && !is_within_caller_topics(req, req->params[0]))
        dt_request_refuse(req, DT_PROBLEM_NOT_FOUND, "there is no such topic");
    else
        return true;
    return false;
}

bool dt_wall_pass(struct dt_request *req)
{
    const enum dt_wall wall = tenant_wall_of(req);
    const struct dt_str topic = dt_request_query(req, "topic");
    if (wall != DT_WALL_FILTER && wall != DT_WALL_TOPIC_IN_QUERY)
        return true;
    if (wall == DT_WALL_TOPIC_IN_QUERY && !topic.p && !dt_caller_sees_all(&req->caller))
        dt_request_refuse(req, DT_PROBLEM_FORBIDDEN, "the token has topic prefixes: specify a topic");
    else if (topic.p && !is_within_caller_topics(req, topic))
        dt_request_refuse(req, DT_PROBLEM_NOT_FOUND, "no such topic");
    else
        return true;
    return false;
}

void dt_wall_check(const struct dt_request *req)
{
    const bool shows = (req->status >= 200 && req->status < 300) || req->status == 409 ||
                       req->status == 412; /* the answers 409 and 412 show a job */
    if (!shows || !req->route)
        return;
    switch (req->route->wall) {
    case DT_WALL_ROW_IN_PATH:
    case DT_WALL_IN_BODY:
    case DT_WALL_FILTER:
        dt_assert(req->walled);
        dt_assert(!req->foreign);
        break;
    case DT_WALL_TOPIC_IN_PATH:
    case DT_WALL_TOPIC_IN_QUERY:
    case DT_WALL_OWN_TOKEN:
    case DT_WALL_ALL_TOPICS:
    case DT_WALL_NOTHING:
        break;
    }
}

const struct dt_topic_bound *dt_wall_bound(struct dt_request *req)
{
    dt_assert(req->route->wall != DT_WALL_NOTHING);
    req->walled = true;
    return tenant_wall_of(req) == DT_WALL_NOTHING ? NULL : dt_caller_bound(&req->caller);
}

dt_status dt_wall_found(struct dt_request *req, struct dt_str topic)
{
    const bool within = dt_topic_within(dt_wall_bound(req), topic);
    req->foreign |= !within;
    return within ? DT_OK : DT_NOT_FOUND;
}

bool dt_wall_shows_token(const struct dt_request *req, struct dt_str token)
{
    dt_assert(req->route->wall == DT_WALL_OWN_TOKEN);
    return tenant_wall_of(req) == DT_WALL_NOTHING || dt_caller_may(&req->caller, DT_SCOPE_ADMIN_ALL) ||
           dt_str_eq(req->caller.name, token);
}

/* ---- hosts and origins ---- */

/* Removes ":port", and the brackets of an IPv6 address. False: the text is not a host. */
static bool strip_port(struct dt_str *host)
{
    const char *bracket = host->n && host->p[0] == '[' ? memchr(host->p, ']', host->n) : NULL;
    size_t n = bracket ? (size_t)(bracket - host->p) + 1 : 0;
    while (n < host->n && host->p[n] != ':')
        n++;
    for (size_t i = n + 1; i < host->n; i++)
        if (host->p[i] < '0' || host->p[i] > '9')
            return false;
    if (bracket && (n != (size_t)(bracket - host->p) + 1 || !memchr(host->p, ':', n)))
        return false;
    *host = bracket ? (struct dt_str){host->p + 1, n - 2} : (struct dt_str){host->p, n};
    return true;
}

/* Browsers and resolvers resolve names below localhost to the loopback only (RFC 6761). */
bool dt_host_is_local(struct dt_str host, struct dt_str names)
{
    static const struct dt_network loopbacks[] = {{{[10] = 0xff, [11] = 0xff, [12] = 127}, 104}, {{[15] = 1}, 128}};
    unsigned char address[DT_ADDRESS_BYTES];
    char name[NAME_MAX_BYTES + 1];
    if (!strip_port(&host))
        return false;
    host.n -= host.n && host.p[host.n - 1] == '.';
    if (host.n == 0 || host.n > NAME_MAX_BYTES)
        return false;
    memcpy(name, host.p, host.n);
    name[host.n] = '\0';
    const bool loopback = dt_address_parse(host, address) &&
                          (dt_network_contains(&loopbacks[0], address) || dt_network_contains(&loopbacks[1], address));
    return loopback || dt_host_allowed(DT_STR_LIT("localhost,*.localhost"), name) ||
           (dt_str_trimmed(names).n && dt_host_allowed(names, name));
}

bool dt_origin_is_host(struct dt_str origin, struct dt_str host)
{
    size_t scheme = origin.n > 7 && strncasecmp(origin.p, "http://", 7) == 0    ? 7
                    : origin.n > 8 && strncasecmp(origin.p, "https://", 8) == 0 ? 8
                                                                                : 0;
    return scheme && origin.n - scheme == host.n && strncasecmp(origin.p + scheme, host.p, host.n) == 0;
}

/* ---- the budget ---- */

void dt_budget_init(struct dt_budget *budget, size_t max)
{
    budget->max = max;
    atomic_store(&budget->held, 0);
    budget->gauge = dt_gauge("duetime_api_held_bytes", "Bytes of limits.memory that requests hold.", "");
    budget->refused = dt_counter("duetime_api_memory_refused_total",
                                 "Requests refused because limits.memory had not enough bytes left.", "");
}

size_t dt_budget_held(const struct dt_budget *budget)
{
    return atomic_load_explicit(&budget->held, memory_order_relaxed);
}

void dt_hold_init(struct dt_hold *hold, struct dt_budget *budget)
{
    *hold = (struct dt_hold){.budget = budget};
}

static bool charge_budget(struct dt_hold *hold, size_t n, size_t left_free)
{
    struct dt_budget *budget = hold->budget;
    size_t held = dt_budget_held(budget);
    do {
        dt_assert_cmp(held, <=, budget->max);
        size_t room = budget->max - held;
        if (n > room || left_free > room - n) {
            dt_metric_add(budget->refused, 1);
            return false;
        }
    } while (!atomic_compare_exchange_weak(&budget->held, &held, held + n));
    hold->n += n;
    return true;
}

bool dt_hold_more(struct dt_hold *hold, size_t n)
{
    return n == 0 || (hold->budget && charge_budget(hold, n, 0));
}

bool dt_hold_bulk(struct dt_hold *hold, size_t n)
{
    return n == 0 || (hold->budget && charge_budget(hold, n, hold->budget->max / BULK_LEAVES));
}

void dt_hold_less(struct dt_hold *hold, size_t n)
{
    n = n < hold->n ? n : hold->n;
    if (n == 0)
        return;
    hold->n -= n;
    const size_t held = atomic_fetch_sub(&hold->budget->held, n);
    dt_assert_cmp(held, >=, n);
}

bool dt_hold_exactly(struct dt_hold *hold, size_t n)
{
    if (n > hold->n)
        return dt_hold_more(hold, n - hold->n);
    dt_hold_less(hold, hold->n - n);
    return true;
}

void dt_hold_move(struct dt_hold *from, struct dt_hold *to, size_t n)
{
    n = n < from->n ? n : from->n;
    dt_assert(n == 0 || from->budget == to->budget);
    from->n -= n;
    to->n += n;
}
