/* The HTTP client against receivers of the test's own: every row of the table of answers, the request as it stands,
 * and that it is on the wire at most once. */
#include <arpa/inet.h>

#include "support/rigs/http_curl_rig.h"

/* ---- the table of answers ---- */

RIG_TEST(a_2xx_status_is_a_success)
{
    static const char *const paths[] = {"/200", "/204", "/old", "/half-a-body"};
    for (size_t i = 0; i < sizeof(paths) / sizeof(*paths); i++) {
        struct dt_callback_outcome outcome = judged(ask(at(paths[i]), SOON_MS));
        assert_int_equal(outcome.kind, DT_CALLBACK_RESULT);
        assert_int_equal(outcome.result.status, DT_RESULT_SUCCEEDED);
    }
    const struct got *got = ask(at("/200"), SOON_MS);
    assert_status(got, 200);
    assert_true(dt_str_is(got->answer.content_type, "text/plain"));
    assert_true(dt_str_is(got->answer.body, "fine"));
    assert_members(got->answer, (body_whole, true), (retry_after.p, NULL));
    assert_true(got->answer.duration_ms < SOON_MS);
}

RIG_TEST(other_statuses_fail)
{
    assert_failed(at("/410"), "http_410");
    assert_failed(at("/404"), "http_404");
    assert_failed(at("/401"), "http_401");
    assert_failed(at("/417"), "http_417");
    assert_failed(at("/429"), "http_429");
    assert_failed(at("/500"), "http_500");
    assert_failed(at("/503"), "http_503");
    assert_failed(at("/999"), "http_999");
    assert_failed(at("/half-a-chunk"), "http_500");
    assert_failed(at("/302"), "http_302"); /* redirects are not followed */
    assert_failed(at("/307"), "http_307");
    assert_int_equal(receiver_requests(server), 11);
}

RIG_TEST(a_failure_is_returned_with_its_retry_after_and_body)
{
    struct dt_callback_outcome outcome = judged(ask(at("/429"), SOON_MS));
    assert_int_equal(outcome.result.retry_after_ms, 7000);
    outcome = judged(ask(at("/503"), SOON_MS));
    assert_int_equal(outcome.result.retry_after_ms, -1);
    outcome = judged(ask(at("/500"), SOON_MS));
    assert_true(dt_str_is(outcome.result.error_message, "\xc3\xa4?!!"));
}

RIG_TEST(only_the_final_head_of_a_response_counts)
{
    const struct got *got = ask(at("/interim"), SOON_MS);
    assert_status(got, 429);
    assert_null(got->answer.retry_after.p);
    got = ask(at("/trailer"), SOON_MS);
    assert_status(got, 500);
    assert_null(got->answer.retry_after.p);
    assert_true(dt_str_is(got->answer.body, "he"));
}

RIG_TEST(without_a_head_in_time_it_is_a_timeout)
{
    assert_failed(at("/silent"), "http_timeout");
    assert_failed(at("/drip-head"), "http_timeout");
    int64_t began = now_us();
    assert_end(ask(at("/silent"), 100), DT_HTTP_TIMEOUT);
    assert_true(now_us() - began >= 99000);
}

static struct got first;
static int64_t held_until_us;

/* Keeps the client's thread until then, as a process that is stopped does, with its first answer. */
static void answer_and_hold(void *arg, void *tag, const struct dt_http_answer *answer)
{
    on_answer(arg, tag, answer);
    wanted = 1; /* the other receiver answers meanwhile */
    while (tag == &first && now_us() < held_until_us)
        wait_a_moment();
}

/* The end of a request whose time is over while the client's thread is held. */
static enum dt_http_end end_of_held(const char *path, struct got *got)
{
    struct dt_http_settings settings = settings_of("127.0.0.0/8", NULL);
    settings.answered = answer_and_hold;
    dt_http_client_free(client);
    open_client(&settings);
    wanted = 2;
    memset(got, 0, sizeof(*got));
    memset(&first, 0, sizeof(first));
    held_until_us = now_us() + 3 * SHORT_MS * INT64_C(1000);
    assert_int_equal(send_to(at(path), 2 * SHORT_MS, got), DT_OK);
    AWAIT(receiver_requests(server) == 1);
    assert_int_equal(send_to(at("/204"), SOON_MS, &first), DT_OK);
    wait_for(&first, 1);
    wait_for(got, 1);
    assert_true(now_us() >= held_until_us);
    assert_status(&first, 204);
    free(first.body);
    free(got->body);
    return got->answer.end;
}

RIG_TEST(an_answer_that_arrived_while_the_client_could_not_read_is_not_a_timeout)
{
    static struct got got;
    assert_int_equal(end_of_held("/gather", &got), DT_HTTP_ANSWERED);
    assert_int_equal(got.answer.status, 204);
}

RIG_TEST(a_receiver_times_out_when_it_still_does_not_answer_after_the_client_was_stopped)
{
    static struct got got;
    assert_int_equal(end_of_held("/silent", &got), DT_HTTP_TIMEOUT);
    assert_in_range(got.answer.duration_ms, 2 * SHORT_MS, SOON_MS);
}

RIG_TEST(a_failed_connection_or_lookup_is_reported_as_such)
{
    char url[64];
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof(address);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, n), 0); /* and nobody listens */
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &n), 0);
    snprintf(url, sizeof(url), "http://127.0.0.1:%u/", (unsigned)ntohs(address.sin_port));
    assert_failed(url, "http_connect");
    close(fd);
    assert_failed(url_of("http", "nowhere.test", "/204"), "http_dns");
}

RIG_TEST(an_answer_without_a_complete_head_counts_as_broken)
{
    assert_failed(at("/nothing"), "http_broken");
    assert_failed(at("/half-a-head"), "http_broken");
    assert_failed(at("/no-end-of-head"), "http_broken");
    assert_failed(at("/not-http"), "http_broken");
    assert_failed(at("/no-status"), "http_broken");
    assert_failed(at("/interim-for-ever"), "http_broken");
    assert_int_equal(receiver_requests(server), 6);
}

RIG_TEST(a_head_has_at_most_16_kib)
{
    assert_status(ask(at("/head/16384"), SOON_MS), 204);
    assert_failed(at("/head/16385"), "http_broken");
    assert_failed(at("/head/60000"), "http_broken");
    assert_failed(at("/line/20000"), "http_broken");
    assert_failed(at("/line/1000000"), "http_broken");
}

RIG_TEST(at_most_64_kib_of_a_body_are_read)
{
    const struct got *got = ask(at("/body/65536"), SOON_MS);
    assert_status(got, 200);
    assert_int_equal(got->answer.body.n, DT_HTTP_BODY_MAX);
    assert_true(got->answer.body_whole);
    static const char *const longer[] = {"/body/65537", "/body/1000000", "/endless"};
    for (size_t i = 0; i < sizeof(longer) / sizeof(*longer); i++) {
        got = ask(at(longer[i]), SOON_MS);
        assert_status(got, i < 2 ? 200 : 500);
        assert_int_equal(got->answer.body.n, DT_HTTP_BODY_MAX);
        assert_false(got->answer.body_whole);
    }
}

RIG_TEST(a_status_decides_though_its_body_does_not_end_in_time)
{
    const struct got *got = ask(at("/drip-body"), SHORT_MS);
    assert_status(got, 200);
    assert_false(got->answer.body_whole);
    assert_true(got->answer.duration_ms >= SHORT_MS - 1);
    assert_true(got->answer.body.n > 0);
    assert_int_equal(judged(got).result.status, DT_RESULT_SUCCEEDED);
}

/* ---- the request ---- */

static const char *head_of_last(void)
{
    static char head[sizeof(last.head)];
    pthread_mutex_lock(&last.lock);
    memcpy(head, last.head, sizeof(head));
    pthread_mutex_unlock(&last.lock);
    return head;
}

static void assert_in_last_head(const char *line)
{
    if (!strstr(head_of_last(), line))
        fail_msg("%s", head_of_last());
}

RIG_TEST(a_request_is_sent_unchanged)
{
    static struct got got;
    static char body[300000];
    for (size_t i = 0; i < sizeof(body); i++)
        body[i] = (char)i;
    const struct dt_http_header headers[] = {{dt_str("content-type"), dt_str("application/json")},
                                             {dt_str("x-empty"), dt_str("")},
                                             {dt_str("x-blank"), dt_str("  ")},
                                             {dt_str("x-text"), dt_str("a: b;c")},
                                             {dt_str("Cookie"), dt_str("d=e")},
                                             {dt_str("user-agent"), dt_str("duetime/1")}};
    const struct dt_http_request request = {.url = dt_str(at("/a/../b?x=%2F&y=//")),
                                            .headers = headers,
                                            .n_headers = sizeof(headers) / sizeof(*headers),
                                            .body = {body, sizeof(body)},
                                            .timeout_ms = SOON_MS,
                                            .tag = &got};
    memset(&got, 0, sizeof(got));
    assert_int_equal(dt_http_client_send(client, &request), DT_OK);
    wait_for(&got, 1);
    assert_status(&got, 204);
    assert_in_last_head("POST /a/../b?x=%2F&y=// HTTP/1.1\r\n");
    assert_in_last_head("\r\ncontent-type: application/json\r\n");
    assert_in_last_head("\r\nx-empty:\r\n");
    assert_in_last_head("\r\nx-blank:\r\n");
    assert_in_last_head("\r\nx-text: a: b;c\r\n");
    assert_in_last_head("\r\nCookie: d=e\r\n");
    assert_in_last_head("\r\nuser-agent: duetime/1\r\n");
    assert_in_last_head("\r\nContent-Length: 300000\r\n");
    assert_null(strcasestr(head_of_last(), "\r\nexpect:"));
    assert_null(strcasestr(head_of_last(), "\r\ntransfer-encoding:"));
    assert_null(strstr(head_of_last(), "form-urlencoded"));
    assert_int_equal(last.n, sizeof(body));
    assert_memory_equal(last.body, body, sizeof(body));
    forget(&got, 1);
}

RIG_TEST(an_answer_before_the_end_of_the_request_counts)
{
    static struct got got;
    ask_with_large_body(at("/early"), &got);
    assert_status(&got, 413);
    assert_true(dt_str_is(got.answer.body, "much"));
    forget(&got, 1);
}

RIG_TEST(a_request_with_forbidden_headers_is_refused)
{
    static const struct dt_http_header unsound[] = {
        {{"x-a", 3}, {"b\r\nc: d", 7}}, {{"x a", 3}, {"b", 1}}, {{"", 0}, {"b", 1}}, {{"x:a", 3}, {"b", 1}}};
    for (size_t i = 0; i < sizeof(unsound) / sizeof(*unsound); i++) {
        const struct dt_http_request request = {
            .url = dt_str(at("/204")), .headers = &unsound[i], .n_headers = 1, .timeout_ms = SOON_MS};
        assert_int_equal(dt_http_client_send(client, &request), DT_INVALID);
    }
    assert_int_equal(send_to("file:///etc/passwd", SOON_MS, NULL), DT_INVALID);
    assert_int_equal(send_to("ftp://127.0.0.1/", SOON_MS, NULL), DT_INVALID);
    assert_int_equal(dt_http_client_in_flight(client), 0);
}

/* ---- at most once ---- */

RIG_TEST(connections_are_kept_for_later_requests)
{
    come_to_trust(at("/204"));
    const unsigned connections = receiver_connections(server);
    for (unsigned i = 0; i < 5; i++)
        assert_status(ask(at(i % 2 ? "/200" : "/204"), SOON_MS), i % 2 ? 200 : 204);
    assert_int_equal(receiver_connections(server), connections);
    assert_null(strcasestr(head_of_last(), "\r\nconnection:"));
}

RIG_TEST(a_kept_connection_that_ends_with_the_next_request_does_not_send_it_again)
{
    static const char *const paths[] = {"/dies", "/resets"};
    come_to_trust(at("/204"));
    for (unsigned i = 0; i < 2; i++) {
        assert_status(ask(at("/204"), SOON_MS), 204);
        const unsigned requests = receiver_requests(server);
        const unsigned connections = receiver_connections(server);
        assert_end(ask(at(paths[i]), SOON_MS), DT_HTTP_BROKEN);
        assert_int_equal(receiver_requests(server), requests + 1);
        assert_int_equal(receiver_connections(server), connections);
    }
}

RIG_TEST(a_request_that_meets_the_end_of_its_connection_arrives_at_most_once)
{
    char path[32];
    unsigned answered = 0;
    for (unsigned i = 0; i < 1000; i++)
        raced[i] = 0;
    come_to_trust(at("/204"));
    for (unsigned i = 0; i < 300; i++) {
        snprintf(path, sizeof(path), "/race/%u", i);
        const struct got *got = ask(at(path), SOON_MS);
        answered += got->answer.end == DT_HTTP_ANSWERED;
        if (got->answer.end != DT_HTTP_ANSWERED)
            assert_end(got, DT_HTTP_BROKEN);
        assert_true(raced[i] <= 1);
        if (i % 3 == 0)
            wait_a_moment();
    }
    assert_true(answered > 0);
}

/* ---- bytes beyond an answer ---- */

RIG_TEST(a_receiver_that_sends_more_than_its_answer_gets_a_connection_for_each_request)
{
    static const char *const paths[] = {"/more/204/0", "/more/200/0",      "/more/204/1",
                                        "/more/200/1", "/more/chunked/20", "/more/204/100"};
    for (size_t i = 0; i < sizeof(paths) / sizeof(*paths); i++) {
        /* A client that is late reads the chunks and what is beyond them at once, and cannot tell them apart: ten
         * connections, because it is not late on all of them. */
        for (unsigned k = 0; k < (strstr(paths[i], "chunked") ? 10 : 1); k++)
            assert_int_equal(ask(at(paths[i]), SOON_MS)->answer.end, DT_HTTP_ANSWERED);
        assert_not_kept(at("/204"));
        assert_in_last_head("\r\nConnection: close\r\n");
        teardown();
        setup();
    }
}

RIG_TEST(a_trusted_receiver_that_begins_to_send_more_is_closed_from_then_on)
{
    come_to_trust(at("/204"));
    assert_status(ask(at("/more/until-shut"), SOON_MS), 204);
    AWAIT(shut == 1);
    assert_not_kept(at("/204"));
}

RIG_TEST(unrequested_bytes_after_an_answer_fail_at_most_one_of_120_requests)
{
    static const char *const paths[] = {"/more/204/0",  "/more/200/0",   "/more/204/1",    "/more/200/1",
                                        "/more/200/20", "/more/200/100", "/more/chunked/5"};
    static struct got got[120];
    for (size_t i = 0; i < sizeof(paths) / sizeof(*paths); i++) {
        unsigned spoiled = 0;
        memset(got, 0, sizeof(got));
        for (unsigned k = 0; k < 120; k++) {
            assert_int_equal(send_to(at(paths[i]), SOON_MS, &got[k]), DT_OK);
            if (k % 10 == 9)
                wait_for(&got[k - 9], 10);
        }
        for (unsigned k = 0; k < 120; k++)
            spoiled += got[k].answer.status == 410;
        if (spoiled > 1)
            fail_msg("%s: %u are spoiled", paths[i], spoiled);
        forget(got, 120);
        teardown();
        setup();
    }
}

/* ---- the end ---- */

RIG_TEST(requests_in_flight_when_the_client_stops_have_an_unknown_outcome)
{
    static struct got got[42];
    static struct got answered;
    memset(got, 0, sizeof(got));
    memset(&answered, 0, sizeof(answered));
    assert_int_equal(send_to(at("/drip-body"), SOON_MS, &answered), DT_OK);
    for (unsigned i = 0; i < 40; i++)
        assert_int_equal(send_to(at("/silent"), SOON_MS, &got[i]), DT_OK);
    assert_int_equal(send_to(url_of("http", "hang.test", "/204"), SOON_MS, &got[40]), DT_OK);
    AWAIT(receiver_requests(server) == 41 && dripping == 1 && lookups == 1);
    assert_status(ask(at("/204"), SOON_MS), 204); /* so the earlier head was read */
    assert_int_equal(send_to(at("/silent"), SOON_MS, &got[41]), DT_OK);
    dt_http_client_stop(client);
    assert_int_equal(looked_up, 0); /* it waited neither for a lookup nor for a receiver */
    wait_for(got, 42);
    for (unsigned i = 0; i < 42; i++) {
        assert_end(&got[i], DT_HTTP_UNKNOWN);
        assert_int_equal(judged(&got[i]).kind, DT_CALLBACK_UNKNOWN);
    }
    assert_true(answered.there);
    assert_status(&answered, 200); /* its head had come */
    assert_int_equal(answers.n, 44);
    assert_int_equal(dt_http_client_in_flight(client), 0);
    forget(&answered, 1);
    assert_int_equal(send_to(at("/204"), SOON_MS, &got[0]), DT_SHUTDOWN);
    dt_http_client_stop(client);
    forget(got, 42);
}

int main(void)
{
    signal(SIGPIPE, SIG_IGN);
    name_proxies();
    allow_many_descriptors();
    return suite_run(make_files, remove_files);
}
