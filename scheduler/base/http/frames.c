/*
 * The framing of HTTP/1.1: see frames.h. Follows RFC 9112: each line ends with CRLF. A line feed alone is refused,
 * because some programs accept it as the end of a line, and others do not.
 *
 * Invariants: a line is passed when it is complete; at most DT_HEAD_MAX bytes are held, since heads, lines with
 * chunk sizes and trailers are refused if they exceed their limits.
 */
#include "frames.h"

#include "base/text/encoding.h"

#define SIZE_LINE_MAX  512 /* most bytes of a line with a chunk's size, including extensions */
#define SIZE_DIGITS    15  /* most hexadecimal digits of a chunk's size, so that no program's number overflows */
#define TRAILERS_MAX   1024
#define TRAILERS_LINES 8

enum { HELD = 0 }; /* result of a step that needs more bytes */

static const char bare_feed[] = "a line of the chunked body ends with a line feed alone";

static size_t refuse_with_status(struct dt_frames *frames, int status, const char *detail)
{
    frames->next = DT_FRAME_REFUSED;
    frames->status = status;
    frames->detail = detail;
    return HELD;
}

static size_t refuse_malformed(struct dt_frames *frames, const char *detail)
{
    return refuse_with_status(frames, DT_HEAD_MALFORMED, detail);
}

/* Returns the length of the first line of the text, including its end; 0 if the line is incomplete. */
static size_t line_length(struct dt_str text)
{
    const char *end = text.n ? memchr(text.p, '\n', text.n) : NULL;
    return end ? (size_t)(end - text.p) + 1 : 0;
}

/* Removes the end of a line of n bytes. Returns false if the end is a line feed alone. */
static bool cut_line_end(struct dt_str text, size_t n, struct dt_str *line)
{
    bool whole = n > 1 && text.p[n - 2] == '\r';
    *line = (struct dt_str){text.p, whole ? n - 2 : n - 1};
    return whole;
}

static bool is_empty_line(struct dt_str text)
{
    return text.n > 1 && text.p[0] == '\r' && text.p[1] == '\n';
}

static size_t pass_head(struct dt_frames *frames, struct dt_str text)
{
    struct dt_head *head = &frames->head;
    if (is_empty_line(text)) /* some clients send an empty line after a body; it is skipped */
        return line_length(text);
    struct dt_str looked_at = {text.p, text.n < DT_HEAD_MAX ? text.n : DT_HEAD_MAX};
    switch (dt_head_judge(looked_at, head)) {
    case DT_HEAD_MORE:
        return HELD;
    case DT_HEAD_REFUSED:
        return refuse_with_status(frames, head->status, head->detail);
    case DT_HEAD_WHOLE:
        break;
    }
    frames->heads++;
    frames->chunked = head->chunked;
    frames->left = head->length;
    frames->next = head->chunked ? DT_FRAME_CHUNK_SIZE : head->length ? DT_FRAME_BODY : DT_FRAME_HEAD;
    return head->n;
}

static size_t pass_chunk_size(struct dt_frames *frames, struct dt_str text)
{
    static const char wrong[] = "a chunk of the body does not begin with its size";
    size_t digits = 0;
    size_t length = line_length(text);
    uint64_t size = 0;
    while (digits < text.n && dt_hex_digit(text.p[digits]) >= 0 && digits <= SIZE_DIGITS)
        size = size * 16 + (uint64_t)dt_hex_digit(text.p[digits++]);
    if (digits == 0 || digits > SIZE_DIGITS || (length == 0 && text.n >= SIZE_LINE_MAX))
        return refuse_malformed(frames, wrong);
    if (length == 0)
        return HELD;
    struct dt_str line;
    if (!cut_line_end(text, length, &line))
        return refuse_malformed(frames, bare_feed);
    if (length > SIZE_LINE_MAX || (line.n > digits && line.p[digits] != ';'))
        return refuse_malformed(frames, wrong);
    for (size_t i = digits; i < line.n; i++) /* checks that the chunk's extension is text */
        if ((unsigned char)line.p[i] < ' ' && line.p[i] != '\t')
            return refuse_malformed(frames, wrong);
    frames->left = size;
    frames->next = size ? DT_FRAME_BODY : DT_FRAME_TRAILERS;
    return length;
}

/* Passes all trailers at once, so that if one is refused, none is passed. */
static size_t pass_trailers(struct dt_frames *frames, struct dt_str text)
{
    struct dt_head head;
    struct dt_str name;
    struct dt_str value;
    size_t at = 0;
    size_t lines = 0;
    for (size_t n; (n = line_length((struct dt_str){text.p + at, text.n - at})) > 0; lines++) {
        struct dt_str line = {text.p + at, text.n - at};
        at += n;
        if (at > TRAILERS_MAX || lines > TRAILERS_LINES)
            break;
        if (!cut_line_end(line, n, &line))
            return refuse_malformed(frames, bare_feed);
        if (line.n == 0) {
            frames->next = DT_FRAME_HEAD;
            return at;
        }
        if (!dt_head_field(line, &name, &value, &head))
            return refuse_with_status(frames, head.status, head.detail);
    }
    return at > TRAILERS_MAX || lines > TRAILERS_LINES || text.n >= TRAILERS_MAX
               ? refuse_with_status(frames, DT_HEAD_TOO_LARGE, "more than 8 trailers, or 1024 bytes of them")
               : HELD;
}

size_t dt_frames_step(struct dt_frames *frames, struct dt_str text)
{
    switch (frames->next) {
    case DT_FRAME_HEAD:
        return pass_head(frames, text);
    case DT_FRAME_BODY: {
        size_t n = text.n < frames->left ? text.n : (size_t)frames->left;
        frames->left -= n;
        if (frames->left == 0)
            frames->next = frames->chunked ? DT_FRAME_CHUNK_END : DT_FRAME_HEAD;
        return n;
    }
    case DT_FRAME_CHUNK_SIZE:
        return pass_chunk_size(frames, text);
    case DT_FRAME_CHUNK_END:
        if (is_empty_line(text)) {
            frames->next = DT_FRAME_CHUNK_SIZE;
            return line_length(text);
        }
        if (text.p[0] == '\n')
            return refuse_malformed(frames, bare_feed);
        return text.p[0] == '\r' && text.n == 1 ? HELD
                                                : refuse_malformed(frames, "a chunk is longer than its size says");
    case DT_FRAME_TRAILERS:
        return pass_trailers(frames, text);
    case DT_FRAME_REFUSED:
        break;
    }
    return HELD;
}
