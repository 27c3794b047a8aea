/* Parses the head of a request: whether it is complete, whether two programs could read it differently (then it is
 * refused), what it requests, and which body follows. Pure functions. */
#pragma once

#include "base/text/strbuf.h"

#define DT_HEAD_MAX   ((size_t)12 * 1024) /* most bytes of a head, including its empty line */
#define DT_TARGET_MAX ((size_t)8 * 1024)  /* most bytes of a request's target */
#define DT_WEIGHT_MAX ((size_t)16 * 1024) /* most bytes of a head, plus 64 per header, query parameter and cookie */

enum dt_head_verdict {
    DT_HEAD_MORE,   /* the head is incomplete: wait for more bytes */
    DT_HEAD_WHOLE,  /* the head is complete */
    DT_HEAD_REFUSED /* refused; status and detail have the reason */
};

/* The HTTP status of the response to a refused head. */
enum dt_head_fault {
    DT_HEAD_MALFORMED = 400,
    DT_HEAD_LONG_TARGET = 414,
    DT_HEAD_TOO_LARGE = 431,
    DT_HEAD_BAD_VERSION = 505
};

struct dt_head {
    size_t n;        /* length of the head in bytes; valid, like the members below, if the head is complete */
    bool old;        /* the version is HTTP/1.0 */
    bool close;      /* the client closes the connection after this request */
    bool keep;       /* the client requests that the connection stays open, although the version is HTTP/1.0 */
    bool expects;    /* the client waits for 100 Continue before it sends the body */
    bool chunked;    /* a body follows in chunks */
    uint64_t length; /* length of the body in bytes; 0: none */
    struct dt_str method, target;
    struct dt_str fields; /* header lines; read them with dt_head_next */
    int status;           /* status of a refused head: a dt_head_fault */
    const char *detail;   /* reason of a refusal, static text */
};

/* Returns whether a line is a valid header, or trailer of a chunked body. If it is not, *head has the reason. */
bool dt_head_field(struct dt_str line, struct dt_str *name, struct dt_str *value, struct dt_head *head);
/* Judges the bytes that have arrived, at most DT_HEAD_MAX. Further bytes change only the verdict MORE. */
enum dt_head_verdict dt_head_judge(struct dt_str text, struct dt_head *head);
/* Removes the next header from the fields of a complete head; the value has no spaces at its ends. Returns false after
 * the last header. */
bool dt_head_next(struct dt_str *fields, struct dt_str *name, struct dt_str *value);
/* Returns the path of a request's target: the target itself, or what follows scheme and host in an absolute target (RFC
 * 9112, 3.2.2). */
struct dt_str dt_target_path(struct dt_str target);
