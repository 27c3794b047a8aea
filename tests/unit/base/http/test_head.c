/* The head of a request before the HTTP library sees it: whole, to be waited for, or refused, and who may go first. */

#include "support/suite.h"

#include "base/http/parse.h"

static struct dt_head head;

enum verdict { MORE, WHOLE, REFUSED };

static enum verdict judge_bytes(const char *p, size_t n)
{
    return dt_head_read((struct dt_str){p, n}, &head) ? WHOLE : head.status ? REFUSED : MORE;
}

static enum verdict judge(const char *text)
{
    return judge_bytes(text, strlen(text));
}

static void assert_refused(const char *text, enum dt_head_fault fault, const char *word)
{
    if (judge(text) != REFUSED || head.status != (int)fault || !strstr(head.detail, word))
        fail_msg("%s: %d %d %s", text, judge(text), head.status, head.detail ? head.detail : "");
}

#define GET  "GET /v1/jobs HTTP/1.1\r\nHost: x\r\n"
#define DONE "\r\n"

TEST(a_head_is_complete_after_its_empty_line)
{
    static const char *const whole[] = {GET DONE,
                                        GET "Accept: */*\r\n" DONE "{\"body\":1}",
                                        "POST /v1/jobs:batch HTTP/1.1\r\nHOST:x\r\nContent-Length: 17\r\n\r\n",
                                        "GET / HTTP/1.0\r\n\r\n",
                                        "\r\n\r\n" GET DONE,
                                        "GET http://x/healthz?a=b HTTP/1.1\r\nHost: x\r\nX-Empty:\r\n\r\n",
                                        "OPTIONS * HTTP/1.1\r\nHost: x\r\nA: tab\there\r\n\r\n"};
    for (size_t i = 0; i < sizeof(whole) / sizeof(whole[0]); i++)
        if (judge(whole[i]) != WHOLE)
            fail_msg("%s: %s", whole[i], head.detail);
}

TEST(every_incomplete_head_waits_for_more_bytes)
{
    static const char text[] = "\r\nGET /v1/jobs?limit=1 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer y\r\n\r\n";
    for (size_t n = 0; n + 1 < sizeof(text) - 1; n++)
        assert_int_equal(judge_bytes(text, n), MORE);
    assert_int_equal(judge(text), WHOLE);
}

TEST(heads_that_the_library_would_refuse_are_refused_with_a_reason)
{
    assert_refused("GET / HTTP/2.0\r\nHost: x\r\n\r\n", DT_HEAD_BAD_VERSION, "HTTP/1.1");
    assert_refused("GET / HTTP/9.7\r\n\r\n", DT_HEAD_BAD_VERSION, "HTTP/1.1");
    assert_refused("GET / HTTP/1.11\r\n\r\n", DT_HEAD_MALFORMED, "version");
    assert_refused("GET /\r\n\r\n", DT_HEAD_MALFORMED, "version");
    assert_refused("GET / HTTP/1.1\nHost: x\r\n\r\n", DT_HEAD_MALFORMED, "line feed alone");
    assert_refused("GET / HTTP/1.1\r\nHost: x\n\r\n", DT_HEAD_MALFORMED, "line feed alone");
    assert_refused("GET / HTTP/1.1\r\nHost: x\r\n\n", DT_HEAD_MALFORMED, "line feed alone");
    assert_refused("\nGET / HTTP/1.1\r\nHost: x\r\n\r\n", DT_HEAD_MALFORMED, "line feed alone");
    assert_refused("GET  / HTTP/1.1\r\n\r\n", DT_HEAD_MALFORMED, "version");
    assert_refused("GET /a b HTTP/1.1\r\n\r\n", DT_HEAD_MALFORMED, "version");
    assert_refused("hello\r\n\r\n", DT_HEAD_MALFORMED, "method");
    assert_refused("G(T / HTTP/1.1\r\n\r\n", DT_HEAD_MALFORMED, "method");
    assert_refused("\x16", DT_HEAD_MALFORMED, "TLS"); /* whole or not: its sender waits for an answer */
    assert_refused("\x16\x03\x01 / HTTP/1.1\r\n\r\n", DT_HEAD_MALFORMED, "TLS");
    assert_refused("\x15\x03\x01 / HTTP/1.1\r\n\r\n", DT_HEAD_MALFORMED, "method");
    assert_refused("GET /\x01 HTTP/1.1\r\n\r\n", DT_HEAD_MALFORMED, "target");
    assert_refused("GET / HTTP/1.1\r\n\r\n", DT_HEAD_MALFORMED, "Host");
    assert_refused(GET "no colon\r\n" DONE, DT_HEAD_MALFORMED, "colon");
    assert_refused(GET ": empty\r\n" DONE, DT_HEAD_MALFORMED, "name");
    assert_refused(GET "A B: x\r\n" DONE, DT_HEAD_MALFORMED, "name");
    assert_refused(GET "Content-Length : 5\r\n" DONE, DT_HEAD_MALFORMED, "name");
    assert_refused(GET "A: x\r\n folded\r\n" DONE, DT_HEAD_MALFORMED, "folded");
    assert_refused(GET "A: \x01\r\n" DONE, DT_HEAD_MALFORMED, "control");
    assert_refused(GET "A: x\ry\r\n" DONE, DT_HEAD_MALFORMED, "control");
    assert_refused(GET "Content-Length: 5x\r\n" DONE, DT_HEAD_MALFORMED, "Content-Length");
    assert_refused(GET "content-length: -1\r\n" DONE, DT_HEAD_MALFORMED, "Content-Length");
    assert_refused(GET "Content-Length:\r\n" DONE, DT_HEAD_MALFORMED, "Content-Length");
    assert_refused(GET "Content-Length: 1234567890123456789\r\n" DONE, DT_HEAD_MALFORMED, "Content-Length");
}

TEST(the_body_that_follows_a_head_is_known)
{
    assert_int_equal(judge("\r\n" GET "Content-Length: 0012\r\n" DONE "x"), WHOLE);
    assert_int_equal(head.length, 12);
    assert_int_equal(head.n, strlen("\r\n" GET "Content-Length: 0012\r\n" DONE));
    assert_false(head.chunked);
    assert_int_equal(judge(GET "Transfer-Encoding:\tChunked\r\n" DONE), WHOLE);
    assert_true(head.chunked && head.length == 0);
    assert_int_equal(judge(GET "Content-Length: 999999999999999999\r\n" DONE), WHOLE);
    assert_true(head.length == UINT64_C(999999999999999999));
}

/* A head of so many times this, behind `before`. */
static enum verdict judge_repeated(const char *before, const char *text, size_t times, const char *after)
{
    static char all[DT_HEAD_MAX + 1];
    char *end = all + sprintf(all, "%s", before);
    for (size_t i = 0; i < times; i++)
        end += sprintf(end, "%s", text);
    sprintf(end, "%s", after);
    return judge(all);
}

TEST(heads_with_too_many_parameters_cookies_or_headers_are_refused)
{
    assert_int_equal(judge_repeated("GET /?a=b", "&a=b", 100, " HTTP/1.1\r\nHost: x\r\n\r\n"), WHOLE);
    assert_int_equal(judge_repeated("GET /?a", "&", 300, " HTTP/1.1\r\nHost: x\r\n\r\n"), REFUSED);
    assert_int_equal(head.status, DT_HEAD_TOO_LARGE);
    assert_int_equal(judge_repeated(GET "Cookie: a=b", ";a=b", 50, "\r\n\r\n"), WHOLE);
    assert_int_equal(judge_repeated(GET "Cookie: a", ";", 300, "\r\n\r\n"), REFUSED);
    assert_int_equal(judge_repeated(GET, "X-Header: of some length\r\n", 150, "\r\n"), WHOLE);
    assert_int_equal(
        judge_repeated(GET, "X-Header: of a length that fills the rest of what there is for it\r\n", 150, "\r\n"),
        REFUSED);
    assert_int_equal(head.status, DT_HEAD_TOO_LARGE);
}

/* `before`, then so many of `c`, then `after`; cut to what is looked at. */
static enum verdict judge_long(const char *before, char c, size_t n, const char *after)
{
    static char text[4 * DT_HEAD_MAX];
    size_t k = strlen(before), m = strlen(after);
    memcpy(text, before, k);
    memset(text + k, c, n);
    memcpy(text + k + n, after, m);
    size_t all = k + n + m;
    return judge_bytes(text, all < DT_HEAD_MAX ? all : DT_HEAD_MAX);
}

/* The verdict on a head with this byte at the place of the question mark. */
static bool taken_with(const char *head_text, unsigned char c)
{
    char text[256];
    size_t n = strlen(head_text);
    memcpy(text, head_text, n);
    *(char *)memchr(text, '?', n) = (char)c;
    return judge_bytes(text, n) == WHOLE;
}

TEST(every_byte_is_accepted_only_where_it_is_allowed)
{
    static const char token[] = "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    for (int c = 0; c < 256; c++) {
        bool in_token = c && strchr(token, c), control = c < ' ' || c == 0x7f;
        bool in_name = taken_with("GET / HTTP/1.1\r\nHost: x\r\na?b: c\r\n\r\n", (unsigned char)c);
        bool in_value = taken_with("GET / HTTP/1.1\r\nHost: x\r\na: b?c\r\n\r\n", (unsigned char)c);
        bool in_target = taken_with("GET /a?b HTTP/1.1\r\nHost: x\r\n\r\n", (unsigned char)c);
        if (in_name != (in_token || c == ':') || in_value != (!control || c == '\t') ||
            in_target != (!control && c != ' '))
            fail_msg("byte %d: in a name %d, in a value %d, in a target %d", c, in_name, in_value, in_target);
    }
}

TEST(each_part_of_a_head_that_is_too_long_has_its_own_problem)
{
    assert_int_equal(judge_long("GET /", 'a', DT_TARGET_MAX - 1, " HTTP/1.1\r\nHost: x\r\n\r\n"), WHOLE);
    assert_int_equal(judge_long("GET /", 'a', DT_TARGET_MAX, " HTTP/1.1\r\nHost: x\r\n\r\n"), REFUSED);
    assert_int_equal(head.status, DT_HEAD_LONG_TARGET);
    assert_int_equal(judge_long("GET /", 'a', 2 * DT_HEAD_MAX, ""), REFUSED);
    assert_int_equal(head.status, DT_HEAD_LONG_TARGET);
    assert_int_equal(judge_long(GET "A: ", 'a', 2 * DT_HEAD_MAX, ""), REFUSED);
    assert_int_equal(head.status, DT_HEAD_TOO_LARGE);
    assert_int_equal(judge_long("", 'a', 2 * DT_HEAD_MAX, ""), REFUSED);
    assert_int_equal(head.status, DT_HEAD_TOO_LARGE);
    assert_int_equal(judge_long("", '\n', 2 * DT_HEAD_MAX, ""), REFUSED);
    size_t rest = DT_HEAD_MAX - strlen(GET "A: ") - strlen("\r\n\r\n");
    assert_int_equal(judge_long(GET "A: ", 'a', rest, "\r\n\r\n"), WHOLE);
    assert_int_equal(judge_long(GET "A: ", 'a', rest - 1, "\r\n"), MORE);
}

TEST(a_complete_head_gives_the_request_and_whether_the_connection_stays_open)
{
    static const char text[] =
        "\r\nPUT /v1/x?y=1 HTTP/1.0\r\nA:  1 \r\nConnection: x, Keep-Alive\r\nExpect: 100-continue\r\n"
        "Connection: close\r\nB:\r\n\r\nC: 3\r\n\r\n";
    static const char *const fields[][2] = {
        {"A", "1"}, {"Connection", "x, Keep-Alive"}, {"Expect", "100-continue"}, {"Connection", "close"}, {"B", ""}};
    struct dt_str name;
    struct dt_str value;
    assert_int_equal(judge(text), WHOLE);
    assert_true(dt_str_is(head.method, "PUT") && dt_str_is(head.target, "/v1/x?y=1"));
    assert_true(head.old && head.keep && head.close && head.expects);
    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
        assert_true(dt_head_next(&head.fields, &name, &value));
        assert_true(dt_str_is(name, fields[i][0]) && dt_str_is(value, fields[i][1]));
    }
    assert_false(dt_head_next(&head.fields, &name, &value));
    assert_int_equal(judge("GET / HTTP/1.1\r\nHost: x\r\n\r\n"), WHOLE);
    assert_false(head.old || head.keep || head.close || head.expects);
}

TEST(the_path_of_an_absolute_target_is_what_follows_the_host)
{
    static const char *const targets[][2] = {{"http://example.org:8080/v1/jobs", "/v1/jobs"},
                                             {"HTTPS://h/v1/jobs/7", "/v1/jobs/7"},
                                             {"http://h", "/"},
                                             {"http://", "/"},
                                             {"/v1/jobs", "/v1/jobs"},
                                             {"/http://h/", "/http://h/"},
                                             {"*", "*"},
                                             {"ftp://h/x", "ftp://h/x"},
                                             {"", ""}};
    for (size_t i = 0; i < sizeof(targets) / sizeof(targets[0]); i++) {
        struct dt_str path = dt_target_path(dt_str(targets[i][0]));
        if (!dt_str_is(path, targets[i][1]))
            fail_msg("%s: %.*s", targets[i][0], (int)path.n, path.p);
    }
}

SUITE(NULL, NULL)
