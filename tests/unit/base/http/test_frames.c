/* Where requests begin and end in the bytes of a connection, however these are cut into pieces, and what is refused. */

#include "support/frames.h"
#include "support/suite.h"

#define GET     "GET /v1/jobs HTTP/1.1\r\nHost: x\r\n\r\n"
#define POST    "POST /v1/jobs HTTP/1.1\r\nHost: x\r\n"
#define CHUNKED POST "Transfer-Encoding: chunked\r\n\r\n"

static struct dt_frames frames;

/* Gives the text in pieces of so many bytes, as a connection does; returns how much of it was passed in all. */
static size_t pass(const char *text, size_t all, size_t piece)
{
    size_t passed = 0;
    frames = (struct dt_frames){0};
    for (size_t come = piece < all ? piece : all; frames.next != DT_FRAME_REFUSED;) {
        passed += frames_pass(&frames, (struct dt_str){text + passed, come - passed});
        if (come == all)
            break;
        come = come + piece < all ? come + piece : all;
    }
    return passed;
}

static void assert_passed(const char *text, size_t passed, enum dt_frame next)
{
    size_t all = strlen(text);
    for (size_t piece = 1; piece <= all; piece++)
        if (pass(text, all, piece) != passed || frames.next != next)
            fail_msg("%s in pieces of %zu: %zu passed, %d comes next (%s)", text, piece, pass(text, all, piece),
                     (int)frames.next, frames.head.detail ? frames.head.detail : "");
}

/* Whole requests: all of it is passed, and a request may begin. */
static void assert_whole(const char *text, uint64_t heads)
{
    assert_passed(text, strlen(text), DT_FRAME_HEAD);
    assert_int_equal(frames.heads, heads);
}

/* `fine` is passed, and what follows is refused. */
static void assert_refused(const char *fine, const char *rest, enum dt_head_fault fault, const char *word)
{
    char text[4096];
    snprintf(text, sizeof(text), "%s%s", fine, rest);
    assert_passed(text, strlen(fine), DT_FRAME_REFUSED);
    if (frames.head.status != (int)fault || !strstr(frames.head.detail, word))
        fail_msg("%s: %d %s", text, (int)frames.head.status, frames.head.detail);
}

TEST(complete_requests_are_passed_on)
{
    assert_whole(GET, 1);
    assert_whole(GET GET GET, 3);
    assert_whole(POST "Content-Length: 5\r\n\r\n12345", 1);
    assert_whole(POST "Content-Length: 5\r\n\r\nGET /" GET, 2);
    assert_whole(POST "Content-Length: 0\r\n\r\n" GET, 2);
    assert_whole(POST "Content-Length: 1\r\n\r\nx" POST "content-length:\t0002\r\n\r\n\r\n\r\n" GET, 3);
    assert_whole("\r\n\r\n" GET "\r\n" GET, 2);
}

TEST(chunks_are_passed_up_to_the_end_of_their_trailers)
{
    assert_whole(CHUNKED "0\r\n\r\n", 1);
    assert_whole(CHUNKED "5\r\n12345\r\n0\r\n\r\n" GET, 2);
    assert_whole(CHUNKED "5;a=b;c=\"d\"\r\n12345\r\nA\r\n0123456789\r\n000\r\n\r\n" GET, 2);
    assert_whole(CHUNKED "2\r\n\r\n\r\n0\r\nX-Sum: 5\r\nY: z\r\n\r\n" GET, 2);
}

TEST(an_incomplete_request_is_held)
{
    assert_passed("GET / HTTP/1.1\r\nHost: x\r\n", 0, DT_FRAME_HEAD);
    assert_passed(GET "GET / HT", strlen(GET), DT_FRAME_HEAD);
    assert_passed(POST "Content-Length: 5\r\n\r\n123", strlen(POST "Content-Length: 5\r\n\r\n123"), DT_FRAME_BODY);
    assert_passed(CHUNKED "1f;ext", strlen(CHUNKED), DT_FRAME_CHUNK_SIZE);
    assert_passed(CHUNKED "1\r\nx\r", strlen(CHUNKED "1\r\nx"), DT_FRAME_CHUNK_END);
    assert_passed(CHUNKED "0\r\nA: b\r\n", strlen(CHUNKED "0\r\n"), DT_FRAME_TRAILERS);
}

TEST(a_malformed_request_is_refused_after_valid_ones_before_it_are_passed)
{
    assert_refused("", "hello\r\n\r\n", DT_HEAD_MALFORMED, "method");
    assert_refused(GET, "hello\r\n\r\n", DT_HEAD_MALFORMED, "method");
    assert_refused(GET POST "Content-Length: 3\r\n\r\nabc", "GET / HTTP/3.0\r\n\r\n", DT_HEAD_BAD_VERSION, "HTTP/1.1");
    assert_refused("", POST "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n", DT_HEAD_MALFORMED,
                   "both Content-Length");
    assert_refused(CHUNKED, "\r\n", DT_HEAD_MALFORMED, "size");
    assert_refused(CHUNKED, "x\r\n", DT_HEAD_MALFORMED, "size");
    assert_refused(CHUNKED, "-1\r\n", DT_HEAD_MALFORMED, "size");
    assert_refused(CHUNKED, "0x1\r\n", DT_HEAD_MALFORMED, "size");
    assert_refused(CHUNKED, "5 \r\n12345\r\n", DT_HEAD_MALFORMED, "size");
    assert_refused(CHUNKED, "5\rx\r\n12345\r\n", DT_HEAD_MALFORMED, "size");
    assert_refused(CHUNKED, "0000000000000005\r\n12345\r\n", DT_HEAD_MALFORMED, "size");
    assert_refused(CHUNKED, "fffffffffffffffff\r\n", DT_HEAD_MALFORMED, "size");
    assert_refused(CHUNKED "5\r\n12345", "6\r\n", DT_HEAD_MALFORMED, "longer");
    assert_refused(CHUNKED "5\r\n12345", "\rx", DT_HEAD_MALFORMED, "longer");
    assert_refused(CHUNKED, "1\nx\r\n0\r\n\r\n", DT_HEAD_MALFORMED, "line feed alone");
    assert_refused(CHUNKED, "1;a=b\nx\r\n0\r\n\r\n", DT_HEAD_MALFORMED, "line feed alone");
    assert_refused(CHUNKED "1\r\nx", "\n0\r\n\r\n", DT_HEAD_MALFORMED, "line feed alone");
    assert_refused(CHUNKED "1\r\nx\r\n", "0\n\r\n", DT_HEAD_MALFORMED, "line feed alone");
    assert_refused(CHUNKED "0\r\n", "\n", DT_HEAD_MALFORMED, "line feed alone");
    assert_refused(CHUNKED "0\r\n", "X-Sum: 5\n\r\n", DT_HEAD_MALFORMED, "line feed alone");
    assert_refused(CHUNKED "0\r\n", "no colon\r\n\r\n", DT_HEAD_MALFORMED, "colon");
    assert_refused(CHUNKED "0\r\n", " folded: x\r\n\r\n", DT_HEAD_MALFORMED, "folded");
    assert_refused(CHUNKED "0\r\n", "a:\r\na:\r\na:\r\na:\r\na:\r\na:\r\na:\r\na:\r\na:\r\na:\r\n\r\n",
                   DT_HEAD_TOO_LARGE, "trailers");
}

TEST(after_a_refusal_nothing_is_passed)
{
    assert_int_equal(pass("hello\r\n\r\n", 9, 9), 0);
    assert_int_equal(frames_pass(&frames, DT_STR_LIT(GET)), 0);
    assert_int_equal(frames.next, DT_FRAME_REFUSED);
}

/* `before`, then `c` for ever: how many bytes are held before it is refused. */
static size_t held_of_endless(const char *before, char c)
{
    static char text[4 * DT_HEAD_MAX];
    size_t n = strlen(before), passed = 0;
    memset(text, c, sizeof(text));
    memcpy(text, before, n);
    frames = (struct dt_frames){0};
    for (size_t come = 1; come <= sizeof(text); come++) {
        passed += frames_pass(&frames, (struct dt_str){text + passed, come - passed});
        if (frames.next == DT_FRAME_REFUSED)
            return come - passed;
    }
    return sizeof(text);
}

TEST(an_endless_request_is_held_within_bounds)
{
    assert_in_range(held_of_endless("", 'a'), 1, DT_HEAD_MAX);
    assert_in_range(held_of_endless("GET / HTTP/1.1\r\nHost: ", 'a'), 1, DT_HEAD_MAX);
    assert_in_range(held_of_endless(GET "GET /", 'a'), 1, DT_HEAD_MAX);
    assert_int_equal(frames.head.status, DT_HEAD_LONG_TARGET);
    assert_in_range(held_of_endless(CHUNKED, '0'), 1, 32);
    assert_in_range(held_of_endless(CHUNKED "0;", 'a'), 1, 1024);
    assert_in_range(held_of_endless(CHUNKED "0\r\nA: ", 'a'), 1, 1024);
    assert_int_equal(frames.head.status, DT_HEAD_TOO_LARGE);
}

TEST(a_body_is_counted_but_not_parsed)
{
    char body[100] = {0};
    frames = (struct dt_frames){0};
    assert_int_equal(frames_pass(&frames, DT_STR_LIT(POST "Content-Length: 999999999999999999\r\n\r\n")),
                     strlen(POST "Content-Length: 999999999999999999\r\n\r\n"));
    assert_int_equal(frames_pass(&frames, (struct dt_str){body, sizeof(body)}), sizeof(body));
    assert_int_equal(frames.left, UINT64_C(999999999999999899));
}

SUITE(NULL, NULL)
