/*
 * The heads and the framing of HTTP/1.1: see parse.h. Follows RFC 9112: a line ends with CRLF, and empty lines before a
 * request line are skipped. A line feed alone also ends a line, so that its sender gets an answer at once, but the
 * request is then refused, because some programs accept it as the end of a line, and others do not.
 *
 * Invariants: a line is passed when it is complete; at most DT_HEAD_MAX bytes are held, since heads, lines with
 * chunk sizes and trailers are refused if they exceed their limits.
 */
#include "parse.h"

#include "base/text/encoding.h"

#define TLS_HANDSHAKE  0x16 /* first byte of every TLS connection */
#define LINES_MAX      200
#define SIZE_LINE_MAX  512 /* most bytes of a line with a chunk's size, including extensions */
#define SIZE_DIGITS    15  /* most hexadecimal digits of a chunk's size, so that no program's number overflows */
#define TRAILERS_MAX   1024
#define TRAILERS_LINES 8
/* Bytes that are counted for a header, parameter or cookie, in addition to its length (DT_WEIGHT_MAX). */
#define FIELD_BYTES 64

struct line_reader {
    struct dt_str remainder;
    bool bare; /* a line ended with a line feed without CR */
};

/* The framing that a head requests, and the weight of its headers. */
struct reading {
    struct dt_head *head;
    unsigned hosts, tokens, lengths, encodings;
    size_t weight;
};

/* Reads the next line without its end. Returns false if the line is incomplete. */
static bool next_line(struct line_reader *reader, struct dt_str *line)
{
    const char *end = reader->remainder.n ? memchr(reader->remainder.p, '\n', reader->remainder.n) : NULL;
    if (!end)
        return false;
    size_t n = (size_t)(end - reader->remainder.p);
    bool whole = n && end[-1] == '\r';
    reader->bare |= !whole;
    *line = (struct dt_str){reader->remainder.p, whole ? n - 1 : n};
    reader->remainder = (struct dt_str){end + 1, reader->remainder.n - n - 1};
    return true;
}

/* Fills in the reason of a refusal. Returns false, the result of every check that fails. */
static bool refuse(struct dt_head *head, enum dt_head_fault fault, const char *detail)
{
    head->status = (int)fault;
    head->detail = detail;
    return false;
}

static bool refuse_malformed(struct dt_head *head, const char *detail)
{
    return refuse(head, DT_HEAD_MALFORMED, detail);
}

/* Returns whether s is a token: letters, digits and some marks. The tables have one bit for each character from NUL to
 * '?', and for each from '@' on. */
static bool is_token(struct dt_str s)
{
    static const uint64_t low = UINT64_C(0x03ff6cfa00000000);
    static const uint64_t high = UINT64_C(0x57ffffffc7fffffe);
    for (size_t i = 0; i < s.n; i++) {
        unsigned char c = (unsigned char)s.p[i];
        if (c >= 128 || !((c < 64 ? low : high) >> (c & 63) & 1))
            return false;
    }
    return s.n > 0;
}

/* Returns whether s has no control characters. spaces: spaces and tabs are allowed. Checks all characters, so that the
 * compiler vectorizes the loop. */
static bool is_printable(struct dt_str s, bool spaces)
{
    unsigned char lowest = spaces ? ' ' : ' ' + 1;
    unsigned bad = 0;
    for (size_t i = 0; i < s.n; i++) {
        unsigned char c = (unsigned char)s.p[i];
        bad |= (c == 0x7f) | ((c < lowest) & (!spaces | (c != '\t')));
    }
    return bad == 0;
}

static size_t count_character(struct dt_str s, char c)
{
    size_t n = 0;
    for (const char *p = s.p, *end = s.p + s.n; p && p < end && (p = memchr(p, c, (size_t)(end - p))) != NULL; p++)
        n++;
    return n;
}

/* Splits the text at the first `c`: *cut is the part before it. Returns false if the text has no `c`. */
static bool split_at_character(struct dt_str *remainder, char c, struct dt_str *cut)
{
    const char *at = remainder->n ? memchr(remainder->p, c, remainder->n) : NULL;
    if (!at)
        return false;
    *cut = (struct dt_str){remainder->p, (size_t)(at - remainder->p)};
    *remainder = (struct dt_str){at + 1, remainder->n - cut->n - 1};
    return true;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Returns whether the text begins with `lower`, ignoring the case of ASCII letters. */
static bool begins_with_caseless(struct dt_str text, const char *lower)
{
    size_t n = strlen(lower);
    return text.n >= n && dt_str_is_caseless((struct dt_str){text.p, n}, lower);
}

struct dt_str dt_target_path(struct dt_str target)
{
    size_t scheme = begins_with_caseless(target, "http://") ? 7 : begins_with_caseless(target, "https://") ? 8 : 0;
    if (scheme == 0)
        return target;
    struct dt_str remainder = {target.p + scheme, target.n - scheme};
    const char *slash = remainder.n ? memchr(remainder.p, '/', remainder.n) : NULL;
    return slash ? (struct dt_str){slash, remainder.n - (size_t)(slash - remainder.p)} : DT_STR_LIT("/");
}

/* Parses "METHOD target HTTP/1.x". */
static bool check_request_line(struct dt_str line, struct reading *r)
{
    struct dt_head *head = r->head;
    if (!split_at_character(&line, ' ', &head->method) || !is_token(head->method))
        return refuse_malformed(head, "the first line does not begin with a method");
    if (!split_at_character(&line, ' ', &head->target))
        return refuse_malformed(head, "the first line has no target, or no version");
    head->old = dt_str_is(line, "HTTP/1.0");
    if (!head->old && !dt_str_is(line, "HTTP/1.1")) {
        bool another = line.n == 8 && memcmp(line.p, "HTTP/", 5) == 0 && is_digit(line.p[5]) && line.p[6] == '.' &&
                       is_digit(line.p[7]);
        return another ? refuse(head, DT_HEAD_BAD_VERSION, "HTTP/1.1 and HTTP/1.0 are supported")
                       : refuse_malformed(head, "the first line does not end with the version of HTTP");
    }
    if (head->target.n == 0 || !is_printable(head->target, false))
        return refuse_malformed(head, "the target of the first line is empty or has an invalid byte");
    if (head->target.n > DT_TARGET_MAX)
        return refuse(head, DT_HEAD_LONG_TARGET, "the target has more than 8192 bytes");
    r->weight += FIELD_BYTES * (1 + count_character(head->target, '&'));
    return true;
}

/* Checks a header line, or a trailer of a chunked body. */
static bool split_field(struct dt_str line, struct dt_str *name, struct dt_str *value, struct dt_head *head)
{
    *value = line;
    if (line.p[0] == ' ' || line.p[0] == '\t')
        return refuse_malformed(head, "a header line begins with a space: folded lines are not supported");
    if (!split_at_character(value, ':', name))
        return refuse_malformed(head, "a header line has no colon");
    if (!is_token(*name))
        return refuse_malformed(head, "a header's name is empty or has an invalid byte");
    return is_printable(*value, true) || refuse_malformed(head, "a header's value has a control character");
}

/* Skips spaces before a length or an encoding. Spaces after it are refused. */
static struct dt_str skip_leading_blanks(struct dt_str value)
{
    size_t n = 0;
    while (n < value.n && (value.p[n] == ' ' || value.p[n] == '\t'))
        n++;
    return (struct dt_str){value.p + n, value.n - n};
}

/* Reads Content-Length: at most 18 digits, so that no program's number overflows. */
static bool read_content_length(struct dt_str value, struct reading *r)
{
    uint64_t length = 0;
    bool fine = value.n > 0 && value.n <= 18;
    for (size_t i = 0; i < value.n && fine; i++) {
        fine = is_digit(value.p[i]);
        length = length * 10 + (uint64_t)(value.p[i] - '0');
    }
    if (!fine)
        return refuse_malformed(r->head, "a Content-Length that is not a number");
    r->lengths++;
    r->head->length = length;
    return true;
}

static bool check_header_field(struct dt_str line, struct reading *r)
{
    struct dt_head *head = r->head;
    struct dt_str name;
    struct dt_str value;
    if (!split_field(line, &name, &value, head))
        return false;
    r->weight += FIELD_BYTES;
    switch (name.n) { /* compares the length first, because most of the headers in question differ in length */
    case 4:
        r->hosts += dt_str_is_caseless(name, "host");
        break;
    case 6:
        if (dt_str_is_caseless(name, "cookie"))
            r->weight += value.n + FIELD_BYTES * (1 + count_character(value, ';') + count_character(value, ','));
        head->expects |= dt_str_is_caseless(name, "expect");
        break;
    case 10:
        while (value.n && dt_str_is_caseless(name, "connection")) { /* the value is a list of options */
            struct dt_str option = dt_str_next_element(&value);
            head->close |= dt_str_is_caseless(option, "close");
            head->keep |= dt_str_is_caseless(option, "keep-alive");
        }
        break;
    case 13:
        r->tokens += dt_str_is_caseless(name, "authorization");
        break;
    case 14:
        if (dt_str_is_caseless(name, "content-length"))
            return read_content_length(skip_leading_blanks(value), r);
        break;
    case 17:
        if (!dt_str_is_caseless(name, "transfer-encoding"))
            break;
        if (!dt_str_is_caseless(skip_leading_blanks(value), "chunked"))
            return refuse_malformed(head, "a Transfer-Encoding other than chunked");
        r->encodings++;
        head->chunked = true;
        break;
    default:
        break;
    }
    return true;
}

/* Checks the headers, each alone, then together: even valid headers may form a combination that is refused. */
static bool check_head_lines(struct line_reader *reader, struct dt_str line, struct dt_head *head)
{
    struct reading r = {.head = head};
    bool fine = check_request_line(line, &r);
    head->fields = reader->remainder;
    for (int i = 0; fine && next_line(reader, &line) && line.n; i++)
        fine = i < LINES_MAX ? check_header_field(line, &r) : refuse(head, DT_HEAD_TOO_LARGE, "more than 200 headers");
    if (!fine)
        return false;
    const char *fault = r.hosts > 1 || (r.hosts == 0 && !head->old) ? "exactly one Host is needed"
                        : r.lengths > 1                             ? "more than one Content-Length"
                        : r.encodings > 1                           ? "more than one Transfer-Encoding"
                        : r.encodings && r.lengths                  ? "both Content-Length and Transfer-Encoding"
                        : r.encodings && head->old                  ? "Transfer-Encoding in HTTP/1.0"
                        : r.tokens > 1                              ? "more than one Authorization"
                                                                    : NULL;
    if (fault)
        return refuse_malformed(head, fault);
    return r.weight + head->n <= DT_WEIGHT_MAX ||
           refuse(head, DT_HEAD_TOO_LARGE, "too many headers, query parameters and cookies");
}

bool dt_head_next(struct dt_str *fields, struct dt_str *name, struct dt_str *value)
{
    struct line_reader reader = {.remainder = *fields};
    if (!next_line(&reader, value) || value->n == 0)
        return false;
    *fields = reader.remainder;
    (void)split_at_character(value, ':', name);
    *value = dt_str_trimmed(*value);
    return true;
}

bool dt_head_read(struct dt_str text, struct dt_head *head)
{
    text.n = text.n < DT_HEAD_MAX ? text.n : DT_HEAD_MAX;
    struct line_reader reader = {.remainder = text};
    struct line_reader begins;
    struct dt_str line = DT_STR_NONE;
    *head = (struct dt_head){0};
    if (text.n && text.p[0] == TLS_HANDSHAKE)
        return refuse_malformed(head, "this port does not support TLS: use http");
    bool some;
    do {
        begins = reader;
        some = next_line(&reader, &line);
    } while (some && line.n == 0);
    struct line_reader ends = reader;
    for (struct dt_str rest = line; some && rest.n;)
        some = next_line(&ends, &rest);
    if (some) {
        head->n = (size_t)(ends.remainder.p - text.p);
        return ends.bare ? refuse_malformed(head, "a line of the head ends with a line feed alone")
                         : check_head_lines(&reader, line, head);
    }
    if (text.n < DT_HEAD_MAX)
        return false;
    line = begins.remainder.n ? begins.remainder : text;
    return memchr(line.p, '\n', line.n) == NULL && split_at_character(&line, ' ', &(struct dt_str){0})
               ? refuse(head, DT_HEAD_LONG_TARGET, "the target has more than 8192 bytes")
               : refuse(head, DT_HEAD_TOO_LARGE, "the first line and the headers have more than 12288 bytes");
}

/* ---- the framing ---- */

static bool begins_with_line_end(struct dt_str text)
{
    return text.n > 1 && text.p[0] == '\r' && text.p[1] == '\n';
}

static size_t pass_head(struct dt_frames *frames, struct dt_str text)
{
    struct dt_head *head = &frames->head;
    if (begins_with_line_end(text)) /* some clients send an empty line after a body; it is skipped */
        return 2;
    if (!dt_head_read(text, head))
        return 0;
    frames->heads++;
    frames->left = head->length;
    frames->next = head->chunked ? DT_FRAME_CHUNK_SIZE : head->length ? DT_FRAME_BODY : DT_FRAME_HEAD;
    return head->n;
}

static const char bare_feed[] = "a line of the chunked body ends with a line feed alone";

static size_t pass_chunk_size(struct dt_frames *frames, struct dt_str text)
{
    struct line_reader reader = {.remainder = text};
    struct dt_str line = text;
    size_t digits = 0;
    uint64_t size = 0;
    const bool whole = next_line(&reader, &line);
    while (digits < line.n && dt_hex_digit(line.p[digits]) >= 0 && digits <= SIZE_DIGITS)
        size = size * 16 + (uint64_t)dt_hex_digit(line.p[digits++]);
    bool fine = digits > 0 && digits <= SIZE_DIGITS && (whole || text.n < SIZE_LINE_MAX);
    if (fine && !whole)
        return 0;
    if (fine && reader.bare)
        return refuse_malformed(&frames->head, bare_feed);
    const size_t length = text.n - reader.remainder.n;
    fine &= length <= SIZE_LINE_MAX && (line.n == digits || line.p[digits] == ';');
    for (size_t i = digits; fine && i < line.n; i++) /* checks that the chunk's extension is text */
        fine = (unsigned char)line.p[i] >= ' ' || line.p[i] == '\t';
    if (!fine)
        return refuse_malformed(&frames->head, "a chunk of the body does not begin with its size");
    frames->left = size;
    frames->next = size ? DT_FRAME_BODY : DT_FRAME_TRAILERS;
    return length;
}

/* Passes all trailers at once, so that if one is refused, none is passed. */
static size_t pass_trailers(struct dt_frames *frames, struct dt_str text)
{
    struct line_reader reader = {.remainder = text};
    struct dt_str line;
    struct dt_str name;
    struct dt_str value;
    bool fits = true;
    for (int lines = 0; fits && next_line(&reader, &line); lines++) {
        const size_t passed = text.n - reader.remainder.n;
        fits = passed <= TRAILERS_MAX && lines <= TRAILERS_LINES;
        if (fits && reader.bare)
            return refuse_malformed(&frames->head, bare_feed);
        if (fits && line.n == 0) {
            frames->next = DT_FRAME_HEAD;
            return passed;
        }
        if (fits && !split_field(line, &name, &value, &frames->head))
            return 0;
    }
    if (!fits || text.n >= TRAILERS_MAX)
        (void)refuse(&frames->head, DT_HEAD_TOO_LARGE, "more than 8 trailers, or 1024 bytes of them");
    return 0;
}

size_t dt_frames_step(struct dt_frames *frames, struct dt_str text)
{
    size_t n = 0;
    switch (frames->next) {
    case DT_FRAME_HEAD:
        n = pass_head(frames, text);
        break;
    case DT_FRAME_BODY:
        n = text.n < frames->left ? text.n : (size_t)frames->left;
        frames->left -= n;
        if (frames->left == 0)
            frames->next = frames->head.chunked ? DT_FRAME_CHUNK_END : DT_FRAME_HEAD;
        break;
    case DT_FRAME_CHUNK_SIZE:
        n = pass_chunk_size(frames, text);
        break;
    case DT_FRAME_CHUNK_END:
        n = begins_with_line_end(text) ? 2 : 0;
        if (n)
            frames->next = DT_FRAME_CHUNK_SIZE;
        else if (text.p[0] == '\n' || text.n > 1 || text.p[0] != '\r')
            (void)refuse_malformed(&frames->head,
                                   text.p[0] == '\n' ? bare_feed : "a chunk is longer than its size says");
        break;
    case DT_FRAME_TRAILERS:
        n = pass_trailers(frames, text);
        break;
    case DT_FRAME_REFUSED:
        break;
    }
    if (frames->head.detail)
        frames->next = DT_FRAME_REFUSED;
    return n;
}
