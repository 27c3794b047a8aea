/* Finds the route of a request. Pure. The table of all routes is routes.c; a test compares it with openapi.yaml. */
#pragma once

#include "auth.h"
#include "base/metrics.h"
#include "base/text/strbuf.h"

struct dt_list;
struct dt_request;
struct dt_store;
struct dt_stream;

/* Result of a handler. REPLY: the answer is filled in. PENDING: another thread has the request. AWAY: the answer is
 * detached (request.h). */
enum dt_next { DT_REPLY, DT_PENDING, DT_AWAY };

#define DT_ROUTE_PARAMS 2

/* How a route takes a body. */
enum dt_body {
    DT_BODY_NONE,  /* no body: white space or {} is ignored; anything else is a 422 */
    DT_BODY_JSON,  /* application/json (or no type), at most limits.body; the body may be empty */
    DT_BODY_STREAM /* application/json or application/x-ndjson, at most limits.batch_body; see dt_stream in request.h */
};

/* What a caller with topic prefixes may see of a route's data: the route's wall, described in request.h. No constant is
 * 0, so that a row of the table cannot omit its wall. */
enum dt_wall {
    DT_WALL_TOPIC_IN_PATH = 1, /* the first parameter of the path is the topic */
    DT_WALL_TOPIC_IN_QUERY,    /* the query must name a topic */
    DT_WALL_ROW_IN_PATH,       /* the path names a job, schedule, operation or alert; its row has the topic */
    DT_WALL_IN_BODY,           /* the body names topics, or jobs; the rows of the jobs have the topics */
    DT_WALL_FILTER,            /* a list or a sum, which includes only rows of the caller's topics */
    DT_WALL_OWN_TOKEN,         /* the route shows only rows of the caller's own token */
    DT_WALL_ALL_TOPICS,        /* the route is only for callers that see all topics */
    DT_WALL_NOTHING            /* the route shows no data that belongs to a topic or token */
};

enum dt_media { DT_MEDIA_JSON, DT_MEDIA_NDJSON, DT_MEDIA_OTHER };

struct dt_route {
    const char *method;
    const char *path; /* "/v1/jobs/{id}/cancel": {name} matches one segment, decoded */
    enum dt_scope scope;
    enum dt_wall wall;
    enum dt_body body;
    const char *query; /* names of allowed parameters, separated by spaces; NULL: none */
    enum dt_next (*handle)(struct dt_request *req);
    /* If several routes share a handler: the function that the handler submits to the workers. Otherwise NULL. */
    enum dt_next (*work)(struct dt_request *req, struct dt_store *store);
    const struct dt_stream *stream; /* for DT_BODY_STREAM; otherwise NULL */
    const struct dt_list *list;     /* list that the handler answers a page of (answer.h); otherwise NULL */
    int arg;                        /* if several routes share a handler: says which route was requested; otherwise 0 */
};

/* Returns the table of this API's routes (routes.c). */
const struct dt_route *dt_routes(size_t *n);

typedef struct dt_router dt_router;
struct dt_match {
    /* route of the request; NULL: no route matches, and `allow` says whether the path has other methods */
    const struct dt_route *route;
    size_t index;                          /* index of the route in the table */
    struct dt_str params[DT_ROUTE_PARAMS]; /* slices of the path, still percent-encoded */
    char allow[64];                        /* if no route matches: the path's methods (405); empty: none (404) */
};
/* Compiles the table. INTERNAL: a path is malformed, or a route's wall (what callers may see) contradicts its path or
 * scope. */
dt_status dt_router_new(const struct dt_route *routes, size_t n, dt_router **out);
void dt_router_free(dt_router *router);
const struct dt_route *dt_router_route(const dt_router *router, size_t index);
size_t dt_router_count(const dt_router *router);
/* Finds the route of a method and a path. HEAD uses the route of GET. Thread-safe. */
void dt_router_match(const dt_router *router, struct dt_str method, struct dt_str path, struct dt_match *out);

/* Decodes %XX into out, which has text.n + 1 bytes and may be the text itself; out is terminated. MALFORMED: an escape
 * is invalid. */
dt_status dt_percent_decode(struct dt_str text, char *out, size_t *n);
/* Returns the media type; OTHER if the charset is not UTF-8. */
enum dt_media dt_media_parse(struct dt_str content_type);
