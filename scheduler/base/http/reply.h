/* Writes the head of a response. Pure functions. */
#pragma once

#include "base/text/strbuf.h"

/* A response to a request. The slices are borrowed for the call that gets the response. */
struct dt_reply {
    int status;             /* HTTP status, at least 200 */
    const char *type;       /* value of Content-Type; NULL: no such header */
    struct dt_str headers;  /* further header lines, each with CRLF */
    struct dt_strbuf *body; /* NULL: no body. If the body is large, its memory is taken, and the buffer becomes empty */
    bool close;             /* close the connection after the response */
};

#define DT_REPLY_DATE 30 /* bytes of a date as text, including the terminating zero */

/* Writes a date like "Sun, 06 Nov 1994 08:49:37 GMT". */
void dt_reply_date(int64_t real_ms, char out[DT_REPLY_DATE]);
/* Returns whether responses of this status have neither a body nor a length. */
static inline bool dt_reply_is_bare(int status)
{
    return status == 204 || status == 304;
}
/* Adds a line of a head. */
void dt_reply_add_header(struct dt_strbuf *out, struct dt_str name, struct dt_str value);
/* Adds the head, including its empty line. connection: value of the header Connection, or NULL. length: length of the
 * body. */
void dt_reply_add_head(struct dt_strbuf *out, const struct dt_reply *reply, size_t length, const char *connection,
                       const char *date);
