/*
 * The headers that a caller gave to a job or a topic, read from the JSON that keeps them: one reader for every
 * delivery. Pure.
 *
 *   struct dt_caller_headers headers;
 *   dt_caller_headers_open(&headers, text, json)
 *   while (dt_caller_headers_next(&headers, &name, &value)) ...
 */
#ifndef DT_DISPATCHER_CALLER_HEADERS_H
#define DT_DISPATCHER_CALLER_HEADERS_H

#include "base/text/json.h"

/* A reading; nothing to free. */
struct dt_caller_headers {
    size_t max; /* headers that are at most read */
    const dt_json *json;
    const struct dt_json_node *object;
    const struct dt_json_node *member;
};

/*
 * Begins to read a JSON object of strings. The text was checked when the job was made, but a manual edit may have made
 * anything of it: an absent text, and one that is no object, have no headers. json is scratch and must not be used
 * otherwise while headers are read; it borrows the text. NOMEM.
 */
DT_MUST_CHECK dt_status dt_caller_headers_open(struct dt_caller_headers *headers, struct dt_str text, dt_json *json);
/* The next header, in the order of the text; false: there is none. Members that are no strings are left out. *name and
 * *value are borrowed from json. */
bool dt_caller_headers_next(struct dt_caller_headers *headers, struct dt_str *name, struct dt_str *value);

#endif
