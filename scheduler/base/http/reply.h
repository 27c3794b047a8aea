/*
 * The head of an answer as text. Pure.
 */
#pragma once

#include "base/text/strbuf.h"

/* An answer to a request. The slices are borrowed for the call that takes it. */
struct dt_reply {
    int status;             /* 200 and above */
    const char *type;       /* Content-Type; NULL: there is no such header */
    struct dt_str headers;  /* further header lines, each with its CRLF */
    struct dt_strbuf *body; /* NULL: none. If it is large its memory is taken, and the buffer is empty afterwards */
    bool close;             /* the connection ends after it */
};

#define DT_REPLY_DATE 30 /* bytes of a date as text, with its zero byte */

/* "Sun, 06 Nov 1994 08:49:37 GMT" */
void dt_reply_date(int64_t real_ms, char out[DT_REPLY_DATE]);
/* Answers of these statuses have no body, and say nothing of a length. */
static inline bool dt_reply_is_bare(int status)
{
    return status == 204 || status == 304;
}
/* Adds the head, with its empty line. connection: the value of that header, or NULL. length: of the body. */
void dt_reply_add_head(struct dt_strbuf *out, const struct dt_reply *reply, size_t length, const char *connection,
                       const char *date);
