/*
 * The head of a request: see head.h. Follows RFC 9112 where the library is stricter or laxer than we want: a line ends
 * with a line feed, a carriage return before it is no part of it, empty lines before the request line are passed by.
 */
#include "head.h"

#include "router.h"

#define LINES_MAX 200

struct line_reader {
    struct dt_str rest;
};

/* The next line without its end; false: it is not whole. */
static bool next_line(struct line_reader *reader, struct dt_str *line)
{
    const char *end = reader->rest.n ? memchr(reader->rest.p, '\n', reader->rest.n) : NULL;
    if (!end)
        return false;
    size_t n = (size_t)(end - reader->rest.p);
    *line = (struct dt_str){reader->rest.p, n && end[-1] == '\r' ? n - 1 : n};
    reader->rest = (struct dt_str){end + 1, reader->rest.n - n - 1};
    return true;
}

static enum dt_head_verdict refuse(struct dt_head *head, enum dt_problem_type problem, const char *detail)
{
    head->problem = problem;
    head->detail = detail;
    return DT_HEAD_REFUSED;
}

static enum dt_head_verdict malformed(struct dt_head *head, const char *detail)
{
    return refuse(head, DT_PROBLEM_MALFORMED, detail);
}

static bool is_token_char(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           (c && strchr("!#$%&'*+-.^_`|~", c));
}

static bool is_token(struct dt_str s)
{
    for (size_t i = 0; i < s.n; i++)
        if (!is_token_char(s.p[i]))
            return false;
    return s.n > 0;
}

/* Everything but control characters; a tab is none. */
static bool is_text(struct dt_str s, bool spaces)
{
    for (size_t i = 0; i < s.n; i++) {
        unsigned char c = (unsigned char)s.p[i];
        if (c == 0x7f || (c <= ' ' && !(spaces && (c == ' ' || c == '\t'))))
            return false;
    }
    return true;
}

/* Cuts what stands before the first `c` off; false when there is none. */
static bool cut_at(struct dt_str *rest, char c, struct dt_str *cut)
{
    const char *at = rest->n ? memchr(rest->p, c, rest->n) : NULL;
    if (!at)
        return false;
    *cut = (struct dt_str){rest->p, (size_t)(at - rest->p)};
    *rest = (struct dt_str){at + 1, rest->n - cut->n - 1};
    return true;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool names_health(struct dt_str target)
{
    struct dt_str path = target;
    (void)cut_at(&target, '?', &path);
    path = dt_target_path(path);
    return dt_str_is(path, "/healthz") || dt_str_is(path, "/readyz");
}

static enum dt_head_verdict judge_version(struct dt_str version, struct dt_head *head)
{
    if (dt_str_is(version, "HTTP/1.1") || dt_str_is(version, "HTTP/1.0"))
        return DT_HEAD_WHOLE;
    bool some = version.n == 8 && memcmp(version.p, "HTTP/", 5) == 0 && is_digit(version.p[5]) && version.p[6] == '.' &&
                is_digit(version.p[7]);
    return some ? refuse(head, DT_PROBLEM_VERSION_NOT_SUPPORTED, "HTTP/1.1 and HTTP/1.0 are spoken here")
                : malformed(head, "the first line does not end with the version of HTTP");
}

static enum dt_head_verdict judge_request_line(struct dt_str line, struct dt_head *head, bool *old)
{
    struct dt_str method, target;
    if (!cut_at(&line, ' ', &method) || !is_token(method))
        return malformed(head, "the first line does not begin with a method");
    if (!cut_at(&line, ' ', &target))
        return malformed(head, "the first line has no target, or no version");
    enum dt_head_verdict verdict = judge_version(line, head);
    if (verdict != DT_HEAD_WHOLE)
        return verdict;
    if (target.n == 0 || !is_text(target, false))
        return malformed(head, "the target of the first line is empty, or has a byte that no target has");
    if (target.n > DT_TARGET_MAX)
        return refuse(head, DT_PROBLEM_TARGET_TOO_LONG, "the target has more than 8192 bytes");
    *old = line.p[7] == '0';
    head->health = names_health(target);
    return DT_HEAD_WHOLE;
}

/* At most 18 digits, so that nobody's number overflows. */
static bool is_length(struct dt_str s)
{
    for (size_t i = 0; i < s.n; i++)
        if (!is_digit(s.p[i]))
            return false;
    return s.n > 0 && s.n <= 18;
}

static enum dt_head_verdict judge_field(struct dt_str line, struct dt_head *head, bool *host)
{
    struct dt_str name;
    if (line.p[0] == ' ' || line.p[0] == '\t')
        return malformed(head, "a header line begins with a space: folded lines are not taken");
    if (!cut_at(&line, ':', &name))
        return malformed(head, "a header line has no colon");
    if (!is_token(name))
        return malformed(head, "a header's name is empty, or has a byte that no name has");
    if (!is_text(line, true))
        return malformed(head, "a header's value has a control character");
    if (dt_str_is_caseless(name, "content-length") && !is_length(dt_str_trimmed(line)))
        return malformed(head, "a Content-Length that is no number of bytes");
    *host |= dt_str_is_caseless(name, "host");
    head->token |= dt_str_is_caseless(name, "authorization");
    return DT_HEAD_WHOLE;
}

static enum dt_head_verdict too_large(struct dt_str text, struct dt_head *head)
{
    struct dt_str line = text;
    return memchr(text.p, '\n', text.n) == NULL && cut_at(&line, ' ', &(struct dt_str){0})
               ? refuse(head, DT_PROBLEM_TARGET_TOO_LONG, "the target has more than 8192 bytes")
               : refuse(head, DT_PROBLEM_HEADERS_TOO_LARGE,
                        "the first line and the headers have more than 12288 bytes");
}

static enum dt_head_verdict judge_lines(struct line_reader *reader, struct dt_str line, struct dt_head *head)
{
    bool old = false, host = false;
    enum dt_head_verdict verdict = judge_request_line(line, head, &old);
    for (int i = 0; verdict == DT_HEAD_WHOLE && next_line(reader, &line) && line.n; i++)
        verdict = i < LINES_MAX ? judge_field(line, head, &host)
                                : refuse(head, DT_PROBLEM_HEADERS_TOO_LARGE, "more than 200 headers");
    if (verdict == DT_HEAD_WHOLE && !host && !old)
        return malformed(head, "exactly one Host is needed");
    return verdict;
}

/* Whether the empty line that ends a head is there. `begins`: at the request line. */
static bool is_whole(struct line_reader begins)
{
    struct dt_str line;
    while (next_line(&begins, &line))
        if (line.n == 0)
            return true;
    return false;
}

enum dt_head_verdict dt_head_judge(struct dt_str text, struct dt_head *head)
{
    struct line_reader reader = {text}, begins;
    struct dt_str line = DT_STR_NONE;
    *head = (struct dt_head){0};
    bool some;
    do {
        begins = reader;
        some = next_line(&reader, &line);
    } while (some && line.n == 0);
    if (some && is_whole(begins))
        return judge_lines(&reader, line, head);
    return text.n < DT_HEAD_MAX ? DT_HEAD_MORE : too_large(begins.rest.n ? begins.rest : text, head);
}
