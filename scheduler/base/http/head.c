/* The head of a request: see head.h. Follows RFC 9112: a line ends with CRLF, and empty lines before the request line
 * are skipped. A line feed alone also ends a line, so that its sender gets an answer at once, but the head is then
 * refused. */
#include "head.h"

#define TLS_HANDSHAKE 0x16 /* first byte of every TLS connection */
#define LINES_MAX     200
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

static enum dt_head_verdict refuse_head(struct dt_head *head, enum dt_head_fault fault, const char *detail)
{
    head->status = (int)fault;
    head->detail = detail;
    return DT_HEAD_REFUSED;
}

static enum dt_head_verdict refuse_malformed(struct dt_head *head, const char *detail)
{
    return refuse_head(head, DT_HEAD_MALFORMED, detail);
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
static enum dt_head_verdict check_request_line(struct dt_str line, struct reading *r)
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
        return another ? refuse_head(head, DT_HEAD_BAD_VERSION, "HTTP/1.1 and HTTP/1.0 are supported")
                       : refuse_malformed(head, "the first line does not end with the version of HTTP");
    }
    if (head->target.n == 0 || !is_printable(head->target, false))
        return refuse_malformed(head, "the target of the first line is empty or has an invalid byte");
    if (head->target.n > DT_TARGET_MAX)
        return refuse_head(head, DT_HEAD_LONG_TARGET, "the target has more than 8192 bytes");
    r->weight += FIELD_BYTES * (1 + count_character(head->target, '&'));
    return DT_HEAD_WHOLE;
}

bool dt_head_field(struct dt_str line, struct dt_str *name, struct dt_str *value, struct dt_head *head)
{
    *value = line;
    if (line.p[0] == ' ' || line.p[0] == '\t')
        refuse_malformed(head, "a header line begins with a space: folded lines are not supported");
    else if (!split_at_character(value, ':', name))
        refuse_malformed(head, "a header line has no colon");
    else if (!is_token(*name))
        refuse_malformed(head, "a header's name is empty or has an invalid byte");
    else if (!is_printable(*value, true))
        refuse_malformed(head, "a header's value has a control character");
    else
        return true;
    return false;
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
static enum dt_head_verdict read_content_length(struct dt_str value, struct reading *r)
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
    return DT_HEAD_WHOLE;
}

static enum dt_head_verdict check_header_field(struct dt_str line, struct reading *r)
{
    struct dt_head *head = r->head;
    struct dt_str name;
    struct dt_str value;
    if (!dt_head_field(line, &name, &value, head))
        return DT_HEAD_REFUSED;
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
    return DT_HEAD_WHOLE;
}

/* Checks the headers, each alone, then together: even valid headers may form a combination that is refused. */
static enum dt_head_verdict check_head_lines(struct line_reader *reader, struct dt_str line, struct dt_head *head)
{
    struct reading r = {.head = head};
    enum dt_head_verdict verdict = check_request_line(line, &r);
    head->fields = reader->remainder;
    for (int i = 0; verdict == DT_HEAD_WHOLE && next_line(reader, &line) && line.n; i++)
        verdict = i < LINES_MAX ? check_header_field(line, &r)
                                : refuse_head(head, DT_HEAD_TOO_LARGE, "more than 200 headers");
    if (verdict != DT_HEAD_WHOLE)
        return verdict;
    if (r.hosts > 1 || (r.hosts == 0 && !head->old))
        return refuse_malformed(head, "exactly one Host is needed");
    if (r.lengths > 1)
        return refuse_malformed(head, "more than one Content-Length");
    if (r.encodings > 1)
        return refuse_malformed(head, "more than one Transfer-Encoding");
    if (r.encodings && r.lengths)
        return refuse_malformed(head, "both Content-Length and Transfer-Encoding");
    if (r.encodings && head->old)
        return refuse_malformed(head, "Transfer-Encoding in HTTP/1.0");
    if (r.tokens > 1)
        return refuse_malformed(head, "more than one Authorization");
    if (r.weight + head->n > DT_WEIGHT_MAX)
        return refuse_head(head, DT_HEAD_TOO_LARGE, "too many headers, query parameters and cookies");
    return DT_HEAD_WHOLE;
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

enum dt_head_verdict dt_head_judge(struct dt_str text, struct dt_head *head)
{
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
        return DT_HEAD_MORE;
    line = begins.remainder.n ? begins.remainder : text;
    return memchr(line.p, '\n', line.n) == NULL && split_at_character(&line, ' ', &(struct dt_str){0})
               ? refuse_head(head, DT_HEAD_LONG_TARGET, "the target has more than 8192 bytes")
               : refuse_head(head, DT_HEAD_TOO_LARGE, "the first line and the headers have more than 12288 bytes");
}
