/* Finds where requests begin and end among the bytes of a connection: heads (head.h), bodies of a known length, chunks
 * and their trailers. Bytes that two programs could read differently are refused. Each connection has one struct
 * dt_frames. Pure functions. */
#pragma once

#include "base/text/strbuf.h"
#include "head.h"

enum dt_frame {
    DT_FRAME_HEAD,       /* a request may begin next */
    DT_FRAME_BODY,       /* `left` bytes of a body or a chunk follow */
    DT_FRAME_CHUNK_SIZE, /* a line with a chunk's size follows */
    DT_FRAME_CHUNK_END,  /* the line end after a chunk follows */
    DT_FRAME_TRAILERS,   /* trailer lines follow the last chunk, until an empty line */
    DT_FRAME_REFUSED     /* the bytes were refused; permanent */
};

/* The state of a connection; zero before its first byte. */
struct dt_frames {
    enum dt_frame next;
    bool chunked; /* the body comes in chunks */
    uint64_t left;
    uint64_t heads;      /* number of heads that were passed */
    struct dt_head head; /* the latest head; its slices point into the text that was passed */
    int status;          /* status of a refusal: a dt_head_fault */
    const char *detail;  /* reason of a refusal, static text */
};

/* Passes at most one element: a head, a part of a body, or a line of the framing. text: the bytes that have arrived and
 * were not passed yet, at least one. Returns the length of the element; 0 if it is incomplete or was refused. If
 * frames->next was BODY before the call, the bytes belong to the body. */
size_t dt_frames_step(struct dt_frames *frames, struct dt_str text);
