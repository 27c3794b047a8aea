/*
 * The head of a request: whether it is complete, whether two programs could read it differently (then it is refused),
 * what it asks for, and what body follows. Pure.
 */
#pragma once

#include <stdbool.h>

#include "base/text/strbuf.h"

#define DT_HEAD_MAX   ((size_t)12 * 1024) /* bytes of a head, its empty line included */
#define DT_TARGET_MAX ((size_t)8 * 1024)  /* bytes of a request's target */
#define DT_WEIGHT_MAX ((size_t)16 * 1024) /* bytes of a head, and 64 for each header, query parameter and cookie */

enum dt_head_verdict {
    DT_HEAD_MORE,   /* it goes on: wait for more */
    DT_HEAD_WHOLE,  /* it is complete */
    DT_HEAD_REFUSED /* status and detail say why */
};

/* The HTTP status that a refusal is answered with. */
enum dt_head_fault {
    DT_HEAD_MALFORMED = 400,
    DT_HEAD_LONG_TARGET = 414,
    DT_HEAD_TOO_LARGE = 431,
    DT_HEAD_BAD_VERSION = 505
};

struct dt_head {
    size_t n;        /* bytes, from the first of the text; of a whole one, as all below */
    bool old;        /* HTTP/1.0 */
    bool close;      /* the client ends the connection after this request … */
    bool keep;       /* … or asks for it to go on, where HTTP/1.0 would end it */
    bool expects;    /* the client waits for 100 Continue before it sends the body */
    bool chunked;    /* a body follows in chunks */
    uint64_t length; /* a body of so many bytes follows; 0 = none */
    struct dt_str method, target;
    struct dt_str fields; /* the header lines: dt_head_next */
    int status;           /* of a refused one: a dt_head_fault */
    const char *detail;   /* static text */
};

/* Says whether a line is a header, or a trailer of a chunked body; false: *head says what is wrong. */
bool dt_head_field(struct dt_str line, struct dt_str *name, struct dt_str *value, struct dt_head *head);
/* text: what has arrived so far, DT_HEAD_MAX bytes at most; more of it changes no verdict but MORE. */
enum dt_head_verdict dt_head_judge(struct dt_str text, struct dt_head *head);
/* Takes the next header off the fields of a whole head; the value has no spaces at its ends. False: there is none. */
bool dt_head_next(struct dt_str *fields, struct dt_str *name, struct dt_str *value);
/* The path of a request's target: itself, or what follows scheme and host of an absolute one (RFC 9112, 3.2.2). */
struct dt_str dt_target_path(struct dt_str target);
