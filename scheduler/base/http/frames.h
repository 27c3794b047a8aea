/*
 * Finds where requests begin and end among the bytes of a connection: heads (head.h), bodies of a known length, chunks
 * and their trailers. Bytes that two programs could read differently are refused. One for each connection. Pure.
 */
#pragma once

#include <stdint.h>

#include "base/text/strbuf.h"
#include "head.h"

enum dt_frame {
    DT_FRAME_HEAD,       /* a request may begin here */
    DT_FRAME_BODY,       /* `left` bytes of a body or a chunk come */
    DT_FRAME_CHUNK_SIZE, /* a line with a chunk's size comes */
    DT_FRAME_CHUNK_END,  /* the end of line behind a chunk comes */
    DT_FRAME_TRAILERS,   /* lines up to an empty one come, behind the last chunk */
    DT_FRAME_REFUSED     /* for good */
};

struct dt_frames {
    enum dt_frame next;
    bool chunked; /* the bytes that come are a chunk's */
    uint64_t left;
    uint64_t heads;      /* that were passed */
    struct dt_head head; /* the latest of them; its slices are of the text that was passed */
    int status;          /* of what was refused: a dt_head_fault */
    const char *detail;  /* static text */
};

/* Bytes that wait for more at most, when all that could be passed was. */
#define DT_FRAMES_HELD_MAX DT_HEAD_MAX

void dt_frames_init(struct dt_frames *frames);
/*
 * Passes one element at most: a head, a part of a body, a line of the framing. text: as below, not empty. Returns its
 * bytes; 0: it is not whole, or was refused. If frames->next was BODY before, the bytes are the body's.
 */
size_t dt_frames_step(struct dt_frames *frames, struct dt_str text);
/*
 * text: the bytes that have arrived and were not passed yet. Returns how many of them may be passed. The others are the
 * beginning of something that is not whole (call again with them and what follows), or were refused (frames->next).
 */
size_t dt_frames_pass(struct dt_frames *frames, struct dt_str text);
