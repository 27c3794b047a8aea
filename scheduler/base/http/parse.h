/* Finds requests among the bytes of a connection: where heads, bodies of a known length, chunks and trailers begin and
 * end, and what a head requests. Bytes that two programs could read differently are refused. Pure functions. */
#pragma once

#include "base/text/strbuf.h"

#define DT_HEAD_MAX   ((size_t)12 * 1024) /* most bytes of a head, including its empty line */
#define DT_TARGET_MAX ((size_t)8 * 1024)  /* most bytes of a request's target */
#define DT_WEIGHT_MAX ((size_t)16 * 1024) /* most bytes of a head, plus 64 per header, query parameter and cookie */

/* The HTTP status of the response to a refusal. */
enum dt_head_fault {
    DT_HEAD_MALFORMED = 400,
    DT_HEAD_LONG_TARGET = 414,
    DT_HEAD_TOO_LARGE = 431,
    DT_HEAD_BAD_VERSION = 505
};

struct dt_head {
    int status;         /* status of a refusal: a dt_head_fault; 0: nothing was refused */
    const char *detail; /* reason of the refusal, static text */
    /* The members below are valid if the head is complete. */
    size_t n;        /* length of the head in bytes */
    bool old;        /* the version is HTTP/1.0 */
    bool close;      /* the client closes the connection after this request */
    bool keep;       /* the client requests that the connection stays open, although the version is HTTP/1.0 */
    bool expects;    /* the client waits for 100 Continue before it sends the body */
    bool chunked;    /* a body follows in chunks */
    uint64_t length; /* length of the body in bytes; 0: none */
    struct dt_str method, target;
    struct dt_str fields; /* header lines; read them with dt_head_next */
};

enum dt_frame {
    DT_FRAME_HEAD,       /* a request may begin next */
    DT_FRAME_BODY,       /* `left` bytes of a body or a chunk follow */
    DT_FRAME_CHUNK_SIZE, /* a line with a chunk's size follows */
    DT_FRAME_CHUNK_END,  /* the line end after a chunk follows */
    DT_FRAME_TRAILERS,   /* trailer lines follow the last chunk, until an empty line */
    DT_FRAME_REFUSED     /* the bytes were refused, for the reason in `head`; permanent */
};

/* The state of a connection; zero before its first byte. */
struct dt_frames {
    enum dt_frame next;
    uint64_t left;
    uint64_t heads;      /* number of heads that were passed */
    struct dt_head head; /* the latest head; its slices point into the text that was passed */
};

/* Passes at most one element: a head, a part of a body, or a line of the framing. text: the bytes that have arrived and
 * were not passed yet, at least one. Returns the length of the element; 0 if it is incomplete or was refused. If
 * frames->next was BODY before the call, the bytes belong to the body. */
size_t dt_frames_step(struct dt_frames *frames, struct dt_str text);
/* Reads a head, and returns whether it is complete. If it is not, more bytes are needed or, if head->status is set, it
 * is refused. Only the first DT_HEAD_MAX bytes are read. */
bool dt_head_read(struct dt_str text, struct dt_head *head);
/* Removes the next header from the fields of a complete head; the value has no spaces at its ends. Returns false after
 * the last header. */
bool dt_head_next(struct dt_str *fields, struct dt_str *name, struct dt_str *value);
/* Returns the path of a request's target: the target itself, or what follows scheme and host in an absolute target (RFC
 * 9112, 3.2.2). */
struct dt_str dt_target_path(struct dt_str target);
