/*
 * Steps of handlers that need no HTTP server: look at the query, add headers, refuse. Refuses to know libmicrohttpd and
 * threads.
 */
#include <stdarg.h>
#include <stdio.h>

#include "request.h"

struct dt_str dt_request_query(const struct dt_request *req, const char *name)
{
    for (unsigned i = 0; i < req->n_query; i++)
        if (dt_str_is(req->query[i].name, name))
            return req->query[i].value;
    return DT_STR_NONE;
}

void dt_request_header(struct dt_request *req, const char *name, struct dt_str value)
{
    if (req->n_headers == DT_REQUEST_HEADER_MAX)
        return;
    struct dt_str copy = dt_arena_copy(&req->arena, value);
    if (!copy.p)
        return;
    req->headers[req->n_headers++] = (struct dt_pair){dt_str(name), copy};
}

enum dt_next dt_request_no_room(struct dt_request *req)
{
    dt_request_refuse(req, DT_PROBLEM_UNAVAILABLE, "requests hold as much memory as limits.memory lets them");
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
