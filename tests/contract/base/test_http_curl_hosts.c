/* The HTTP client and its hosts: where requests may go, names that are looked up, TLS and HTTP/2, and what many, slow
 * and hostile receivers cost. */
#include <arpa/inet.h>

#include "support/fail_rule.h"
#include "support/rigs/http_curl_rig.h"

/* The client of a test that has settings of its own. */
static void reopen(const struct dt_http_settings *settings)
{
    dt_http_client_free(client);
    client = NULL;
    open_client(settings);
}

/* ---- where requests may go ---- */

RIG_TEST(addresses_that_are_not_allowed_are_refused_by_address_and_by_name)
{
    struct dt_http_settings settings = settings_of("", NULL);
    reopen(&settings);
    assert_failed(at("/204"), "http_forbidden");
    assert_failed(url_of("http", "localhost", "/204"), "http_forbidden");
    assert_failed(url_of("http", "receiver.test", "/204"), "http_forbidden");
    assert_failed(url_of("https", "receiver.test", "/204"), "http_forbidden");
    assert_failed(url_of("http", "[::1]", "/204"), "http_forbidden");
    assert_failed(url_of("http", "[::ffff:127.0.0.1]", "/204"), "http_forbidden");
    assert_failed(url_of("http", "0.0.0.0", "/204"), "http_forbidden");
    assert_failed("http://169.254.169.254/latest/meta-data/", "http_forbidden");
    assert_int_equal(receiver_connections(server), 0);
}

RIG_TEST(addresses_that_are_allowed_are_reached_by_name)
{
    assert_status(ask(url_of("http", "localhost", "/204"), SOON_MS), 204);
    assert_status(ask(url_of("http", "receiver.test", "/204"), SOON_MS), 204);
    assert_status(ask(url_of("http", "Receiver.TEST.", "/204"), SOON_MS), 204);
}

RIG_TEST(host_names_may_be_restricted)
{
    struct dt_http_settings settings = settings_of("127.0.0.0/8", NULL);
    settings.allow_hosts = dt_str("receiver.test, *.good.test");
    reopen(&settings);
    assert_status(ask(url_of("http", "receiver.test", "/204"), SOON_MS), 204);
    assert_status(ask(url_of("http", "a.good.test", "/204"), SOON_MS), 204);
    assert_failed(url_of("http", "bad.test", "/204"), "http_forbidden");
    assert_failed(at("/204"), "http_forbidden");
}

/* ---- whether they may go ---- */

static atomic_bool lease_runs;

static bool may_send(void *arg, void *tag)
{
    assert_ptr_equal(arg, &answers);
    assert_non_null(tag);
    return lease_runs;
}

/* Also on a connection that is kept, where libcurl has nothing to do before it writes. */
RIG_TEST(a_withheld_request_is_not_written_to_the_socket)
{
    struct dt_http_settings settings = settings_of("127.0.0.0/8", NULL);
    settings.may_send = may_send;
    reopen(&settings);
    lease_runs = false;
    assert_int_equal(ask(at("/204"), SOON_MS)->answer.end, DT_HTTP_WITHHELD);
    lease_runs = true;
    assert_status(ask(at("/204"), SOON_MS), 204);
    lease_runs = false;
    assert_int_equal(ask(at("/204"), SOON_MS)->answer.end, DT_HTTP_WITHHELD);
    assert_int_equal(receiver_requests(server), 1);
}

#define LONG_US (WAIT_MS * INT64_C(1000))

static void write_for(int64_t us)
{
    dt_http_client_write_until(client, dt_clock_boot_us(dt_clock_system()) + us);
}

/* The thread stands still between the look and the write until the lease is over. */
RIG_TEST(a_request_that_cannot_be_written_within_its_lease_is_not_written_to_the_socket)
{
    struct dt_http_settings settings = settings_of("127.0.0.0/8", NULL);
    settings.may_send = may_send;
    lease_runs = true;
    for (int kept = 0; kept < 2; kept++) { /* a new connection, and one that is kept */
        reopen(&settings);
        unsigned before = receiver_requests(server);
        if (kept)
            assert_status(ask(at("/204"), SOON_MS), 204);
        write_for(100000);
        fail_rule("callbacks.let_through=delay:1000@1");
        assert_int_equal(ask(at("/204"), SOON_MS)->answer.end, DT_HTTP_BROKEN);
        fail_rule(NULL);
        assert_int_equal(receiver_requests(server), before + (unsigned)kept);
        write_for(LONG_US);
        assert_status(ask(at("/204"), SOON_MS), 204); /* not on a connection that was shut */
    }
}

/* Whoever writes nothing at that time loses nothing: answers that are waited for come. */
RIG_TEST(the_end_of_a_lease_does_not_abort_requests_that_were_written_before)
{
    struct dt_http_settings settings = settings_of("127.0.0.0/8", NULL);
    static struct got got[1];
    settings.may_send = may_send;
    lease_runs = true;
    reopen(&settings);
    memset(got, 0, sizeof(got));
    write_for(LONG_US);
    assert_int_equal(send_to(at("/later"), SOON_MS, &got[0]), DT_OK);
    AWAIT(receiver_requests(server) == 1);
    write_for(50000);
    wait_for(got, 1);
    assert_status(&got[0], 204);
    forget(got, 1);
}

/* A receiver that takes little, and reads nothing before it is told to. */
static int listen_narrowly(char *url, size_t cap)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof(address);
    static const int little = 65536;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &little, sizeof(little)), 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, n), 0);
    assert_int_equal(listen(fd, 8), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &n), 0);
    snprintf(url, cap, "http://127.0.0.1:%u/", (unsigned)ntohs(address.sin_port));
    return fd;
}

/* Or to the end of the connection. */
static size_t read_up_to(int fd, size_t most)
{
    static char bytes[65536];
    size_t all = 0;
    ssize_t n = 1;
    while (all < most && n > 0) {
        n = recv(fd, bytes, sizeof(bytes), 0);
        all += n > 0 ? (size_t)n : 0;
    }
    return all;
}

/* What did not fit into the buffers was let through in time, and would be written whenever the receiver reads. */
RIG_TEST(the_rest_of_a_body_is_not_written_after_the_lease)
{
    enum { BODY = 32 << 20 };
    struct dt_http_settings settings = settings_of("127.0.0.0/8", NULL);
    static struct got got[1];
    char url[64];
    char *body = calloc(1, BODY);
    assert_non_null(body);
    settings.max_bytes = 2 * (size_t)BODY;
    for (int ends = 0; ends < 2; ends++) {
        reopen(&settings);
        int fd = listen_narrowly(url, sizeof(url));
        const struct dt_http_request request = {
            .url = dt_str(url), .body = {body, BODY}, .timeout_ms = SOON_MS, .tag = got};
        memset(got, 0, sizeof(got));
        write_for(ends ? 300000 : LONG_US);
        assert_int_equal(dt_http_client_send(client, &request), DT_OK);
        int accepted = accept(fd, NULL, NULL);
        if (ends) /* before the receiver reads */
            wait_for(got, 1);
        size_t n = read_up_to(accepted, BODY);
        close(accepted);
        close(fd);
        wait_for(got, 1);
        assert_end(&got[0], DT_HTTP_BROKEN);
        assert_int_equal(n >= BODY, !ends);
        forget(got, 1);
    }
    free(body);
    write_for(LONG_US);
    assert_status(ask(at("/204"), SOON_MS), 204);
}

/* ---- names ---- */

/* When all earlier requests wait: a request to another address, sent later, has been answered. */
static void let_lookups_end(void)
{
    assert_status(ask(at("/204"), SOON_MS), 204);
    slow_over = true;
}

RIG_TEST(a_name_is_looked_up_once_for_all_waiting_requests)
{
    static struct got got[100];
    memset(got, 0, sizeof(got));
    for (unsigned i = 0; i < 100; i++)
        assert_int_equal(send_to(url_of("http", "slow.test", "/204"), SOON_MS, &got[i]), DT_OK);
    let_lookups_end();
    wait_for(got, 100);
    for (unsigned i = 0; i < 100; i++)
        assert_status(&got[i], 204);
    assert_status(ask(url_of("http", "slow.test", "/204"), SOON_MS), 204);
    assert_int_equal(lookups, 1);
    forget(got, 100);
}

/* The time of a request begins when its name has a turn to be looked up. */
RIG_TEST(lookups_that_hang_leave_lookups_to_other_owners_and_time_to_their_own_owner)
{
    enum { N = 300, OTHERS = 20, TURNS = 224 };
    static struct got got[N], others[OTHERS];
    char name[32];
    memset(got, 0, sizeof(got));
    memset(others, 0, sizeof(others));
    for (unsigned i = 0; i < N; i++) {
        snprintf(name, sizeof(name), "hang%u.test", i);
        assert_int_equal(send_for(1, url_of("http", name, "/204"), 5 * SHORT_MS, &got[i]), DT_OK);
    }
    wait_for(got, TURNS);
    for (unsigned i = 0; i < OTHERS; i++) {
        snprintf(name, sizeof(name), "other%u.test", i);
        assert_int_equal(send_for(2, url_of("http", name, "/204"), SOON_MS, &others[i]), DT_OK);
    }
    wait_for(others, OTHERS);
    for (unsigned i = 0; i < OTHERS; i++)
        assert_status(&others[i], 204);
    assert_int_equal(looked_up, 0);
    assert_int_equal(dt_http_client_in_flight(client), N - TURNS);
    hang_over = true;
    wait_for(got, N);
    for (unsigned i = 0; i < N; i++)
        if (i < TURNS)
            assert_end(&got[i], DT_HTTP_TIMEOUT);
        else
            assert_status(&got[i], 204);
    forget(got, N);
    forget(others, OTHERS);
}

static _Atomic int64_t ahead_us;

static int64_t mono_ahead_us(const dt_clock *)
{
    return dt_clock_mono_us(dt_clock_system()) + ahead_us;
}

RIG_TEST(a_request_whose_lookup_never_begins_is_withheld_at_its_deadline)
{
    enum { N = 230, TURNS = 224 };
    static const dt_clock clock = {.mono_us = mono_ahead_us};
    struct dt_http_settings settings = settings_of("127.0.0.0/8", NULL);
    static struct got got[N];
    char name[32];
    memset(got, 0, sizeof(got));
    settings.clock = &clock;
    reopen(&settings);
    for (unsigned i = 0; i < N; i++) {
        snprintf(name, sizeof(name), "hang%u.test", i);
        assert_int_equal(send_for(1, url_of("http", name, "/204"), 10 * DT_HTTP_TURN_MS, &got[i]), DT_OK);
    }
    AWAIT(lookups == TURNS);
    ahead_us = INT64_C(1000) * DT_HTTP_TURN_MS;
    assert_status(ask(at("/204"), SOON_MS), 204); /* the client looks at its clock */
    wait_for(&got[TURNS], N - TURNS);
    for (unsigned i = TURNS; i < N; i++)
        assert_end(&got[i], DT_HTTP_WITHHELD);
    hang_over = true;
    wait_for(got, TURNS);
    for (unsigned i = 0; i < TURNS; i++)
        assert_status(&got[i], 204);
    forget(got, N);
}

RIG_TEST(a_lookup_that_hangs_delays_only_its_own_requests)
{
    static struct got hanging;
    memset(&hanging, 0, sizeof(hanging));
    assert_int_equal(send_to(url_of("http", "hang.test", "/204"), SHORT_MS, &hanging), DT_OK);
    for (unsigned i = 0; i < 20; i++)
        assert_status(ask(url_of("http", "receiver.test", "/204"), SOON_MS), 204);
    wait_for(&hanging, 1);
    assert_end(&hanging, DT_HTTP_TIMEOUT);
    forget(&hanging, 1);
    dt_http_client_stop(client);
    assert_int_equal(looked_up, 0); /* the lookup hung during the whole test */
}

/* ---- TLS ---- */

static void open_tls(enum receiver_h2 h2, const char *ca_file)
{
    struct receiver_options options = {.handler = handle, .certificate = certificate, .key = key, .h2 = h2};
    struct dt_http_settings settings = settings_of("127.0.0.0/8", ca_file);
    receiver_stop(server);
    server = receiver_start(&options);
    reopen(&settings);
}

RIG_TEST(a_certificate_of_the_right_authority_is_trusted)
{
    open_tls(RECEIVER_H2_NOT_OFFERED, certificate);
    /* Before the next: libcurl 8 sends http over a kept connection of https to the same host and port. */
    assert_failed(url_of("http", "receiver.test", "/204"), "http_broken");
    assert_status(ask(url_of("https", "receiver.test", "/200"), SOON_MS), 200);
    come_to_trust(url_of("https", "receiver.test", "/204"));
    const unsigned requests = receiver_requests(server);
    assert_failed(url_of("https", "other.test", "/204"), "http_tls"); /* its certificate is for another name */
    assert_failed(url_of("https", ADDRESS, "/204"), "http_tls");
    assert_int_equal(receiver_requests(server), requests);
}

/* The end of a connection, which TLS announces, is no such bytes. */
RIG_TEST(with_tls_too_connections_are_no_longer_kept_after_bytes_beyond_an_answer)
{
    open_tls(RECEIVER_H2_NOT_OFFERED, certificate);
    come_to_trust(url_of("https", "receiver.test", "/204"));
    for (unsigned i = 0; i < 5; i++)
        assert_status(ask(url_of("https", "receiver.test", "/race/0"), SOON_MS), 200);
    come_to_trust(url_of("https", "receiver.test", "/204"));
    assert_status(ask(url_of("https", "receiver.test", "/more/until-shut"), SOON_MS), 204);
    AWAIT(shut == 1);
    assert_not_kept(url_of("https", "receiver.test", "/204"));
}

RIG_TEST(other_certificates_are_not_trusted)
{
    open_tls(RECEIVER_H2_NOT_OFFERED, stranger);
    assert_failed(url_of("https", "receiver.test", "/204"), "http_tls");
    open_tls(RECEIVER_H2_NOT_OFFERED, NULL);
    assert_failed(url_of("https", "receiver.test", "/204"), "http_tls");
    assert_int_equal(receiver_requests(server), 0);
}

static void copy_file(const char *from, const char *to)
{
    char text[8192];
    FILE *in = fopen(from, "re");
    FILE *out = fopen(to, "we");
    assert_true(in && out);
    size_t n = fread(text, 1, sizeof(text), in);
    assert_int_equal(fwrite(text, 1, n, out), n);
    fclose(in);
    fclose(out);
}

RIG_TEST(a_file_of_authorities_that_has_changed_is_read_again_soon)
{
    char authorities[160];
    snprintf(authorities, sizeof(authorities), "%s.authorities", certificate);
    copy_file(stranger, authorities);
    open_tls(RECEIVER_H2_NOT_OFFERED, authorities);
    assert_failed(url_of("https", "receiver.test", "/204"), "http_tls");
    copy_file(certificate, authorities);
    AWAIT(ask(url_of("https", "receiver.test", "/204"), SOON_MS)->answer.end == DT_HTTP_ANSWERED);
    unlink(authorities);
}

RIG_TEST(a_server_without_tls_fails_a_request_with_tls)
{
    assert_failed(url_of("https", "receiver.test", "/204"), "http_tls");
}

RIG_TEST(an_invalid_file_of_authorities_is_an_error)
{
    struct dt_http_settings settings = settings_of("", "/nowhere/ca.pem");
    dt_http_client *other = NULL;
    struct dt_error err = {0};
    assert_int_equal(dt_http_client_new(&settings, &other, &err), DT_INVALID);
    assert_non_null(strstr(err.text, "/nowhere/ca.pem"));
    settings.ca_file = "/proc/self/status";
    assert_int_equal(dt_http_client_new(&settings, &other, &err), DT_INVALID);
}

RIG_TEST(http_2_is_used_if_it_is_offered_and_its_connection_is_shared)
{
    static struct got got[50];
    memset(got, 0, sizeof(got));
    open_tls(RECEIVER_H2_ANSWERS, certificate);
    assert_status(ask(url_of("https", "receiver.test", "/"), SOON_MS), 204);
    for (unsigned i = 0; i < 50; i++)
        assert_int_equal(send_to(url_of("https", "receiver.test", "/"), SOON_MS, &got[i]), DT_OK);
    wait_for(got, 50);
    for (unsigned i = 0; i < 50; i++)
        assert_status(&got[i], 204);
    assert_int_equal(receiver_requests(server), 51);
    assert_int_equal(receiver_connections(server), 1);
    forget(got, 50);
}

RIG_TEST(large_payloads_are_sent_by_http_2)
{
    static struct got got;
    open_tls(RECEIVER_H2_ANSWERS, certificate);
    for (unsigned i = 0; i < 2; i++) {
        ask_with_large_body(url_of("https", "receiver.test", "/"), &got);
        assert_status(&got, 204);
        forget(&got, 1);
    }
    assert_int_equal(receiver_connections(server), 1);
}

/* All at once to a host without a connection. */
static void burst(struct got *got, unsigned n, const char *path)
{
    memset(got, 0, n * sizeof(*got));
    for (unsigned i = 0; i < n; i++)
        assert_int_equal(send_to(url_of("https", "receiver.test", path), SOON_MS, &got[i]), DT_OK);
    wait_for(got, n);
}

RIG_TEST(the_first_burst_to_a_host_shares_its_connection_too)
{
    static struct got got[50];
    open_tls(RECEIVER_H2_ANSWERS, certificate);
    burst(got, 50, "/");
    for (unsigned i = 0; i < 50; i++)
        assert_status(&got[i], 204);
    assert_int_equal(receiver_requests(server), 50);
    assert_int_equal(receiver_connections(server), 1);
    forget(got, 50);
}

RIG_TEST(a_burst_to_a_host_without_http_2_has_as_many_connections_as_it_needs)
{
    static struct got got[20];
    open_tls(RECEIVER_H2_NOT_OFFERED, certificate);
    wanted = 20; /* nobody is answered before all are there */
    burst(got, 20, "/gather");
    for (unsigned i = 0; i < 20; i++)
        assert_status(&got[i], 204);
    assert_int_equal(receiver_connections(server), 20);
    forget(got, 20);
}

RIG_TEST(a_burst_to_a_host_that_is_not_trusted_fails_at_once)
{
    static struct got got[20];
    open_tls(RECEIVER_H2_ANSWERS, stranger);
    burst(got, 20, "/");
    for (unsigned i = 0; i < 20; i++)
        assert_end(&got[i], DT_HTTP_TLS);
    assert_int_equal(receiver_requests(server), 0);
    forget(got, 20);
}

RIG_TEST(a_first_connection_that_is_not_established_delays_the_others_by_a_second)
{
    static struct got got[3];
    char url[64];
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0); /* listens, and never shakes hands */
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof(address);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, n), 0);
    assert_int_equal(listen(fd, 8), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &n), 0);
    snprintf(url, sizeof(url), "https://127.0.0.1:%u/", (unsigned)ntohs(address.sin_port));
    memset(got, 0, sizeof(got));
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(send_to(url, i == 1 ? SHORT_MS : SOON_MS, &got[i]), DT_OK);
    int accepted[3] = {-1, -1, -1}; /* the first, and the third after its second attempt; not the second one */
    for (unsigned i = 0; i < 2; i++)
        AWAIT((accepted[i] = accept(fd, NULL, NULL)) >= 0);
    wait_for(&got[1], 1);
    accepted[2] = accept(fd, NULL, NULL);
    assert_true(accepted[2] < 0 || got[1].answer.duration_ms >= 1000); /* unless the client was delayed */
    dt_http_client_stop(client);
    for (unsigned i = 0; i < 3; i++) {
        assert_end(&got[i], i == 1 ? DT_HTTP_TIMEOUT : DT_HTTP_UNKNOWN);
        close(accepted[i]);
    }
    close(fd);
    forget(got, 3);
}

RIG_TEST(a_stream_that_is_refused_is_not_sent_again)
{
    open_tls(RECEIVER_H2_REFUSES, certificate);
    assert_status(ask(url_of("https", "receiver.test", "/"), SOON_MS), 204);
    assert_end(ask(url_of("https", "receiver.test", "/"), SOON_MS), DT_HTTP_BROKEN);
    assert_int_equal(receiver_requests(server), 2);
}

/* ---- many ---- */

static long memory_kb(void)
{
    char line[256];
    long kb = 0;
    FILE *file = fopen("/proc/self/status", "r");
    while (fgets(line, sizeof(line), file))
        (void)sscanf(line, "VmRSS: %ld", &kb);
    fclose(file);
    return kb;
}

static unsigned threads_named(const char *name)
{
    char comm[32];
    glob_t tasks;
    unsigned n = 0;
    assert_int_equal(glob("/proc/self/task/*/comm", 0, NULL, &tasks), 0);
    for (size_t i = 0; i < tasks.gl_pathc; i++) {
        FILE *file = fopen(tasks.gl_pathv[i], "r");
        if (!file)
            continue;
        if (fgets(comm, sizeof(comm), file) && strncmp(comm, name, strlen(name)) == 0)
            n++;
        fclose(file);
    }
    globfree(&tasks);
    return n;
}

RIG_TEST(a_thousand_requests_are_in_flight_on_one_thread)
{
    static struct got got[MANY];
    static struct got one_more;
    memset(got, 0, sizeof(got));
    memset(&one_more, 0, sizeof(one_more));
    wanted = MANY + 1; /* nobody is answered before all are there and one more was refused */
    long before_kb = memory_kb();
    for (unsigned i = 0; i < MANY; i++)
        assert_int_equal(send_to(url_of("http", "receiver.test", "/gather"), SOON_MS, &got[i]), DT_OK);
    assert_int_equal(send_to(at("/204"), SOON_MS, &one_more), DT_FULL);
    assert_int_equal(dt_http_client_in_flight(client), MANY);
    wanted = MANY;
    wait_for(got, MANY);
    for (unsigned i = 0; i < MANY; i++)
        assert_status(&got[i], 204);
    assert_int_equal(gathered, MANY);
    assert_int_equal(threads_named("callbacks"), 1);
    assert_int_equal(dt_http_client_in_flight(client), 0);
    long more_kb = memory_kb() - before_kb;
    print_message("memory: %ld KiB more, with the receiver's 1,000 threads\n", more_kb);
    assert_true(more_kb < MEMORY_MAX_KB);
    assert_status(ask(at("/204"), SOON_MS), 204);
    forget(got, MANY);
}

RIG_TEST(bytes_in_flight_are_bounded)
{
    struct dt_http_settings settings = settings_of("127.0.0.0/8", NULL);
    static struct got got[3];
    memset(got, 0, sizeof(got));
    settings.max_bytes = 150; /* two requests, of 60 bytes or so */
    reopen(&settings);
    assert_int_equal(send_to(at("/silent"), SHORT_MS, &got[0]), DT_OK);
    assert_int_equal(send_to(at("/silent"), SHORT_MS, &got[1]), DT_OK);
    assert_int_equal(send_to(at("/silent"), SHORT_MS, &got[2]), DT_FULL);
    wait_for(got, 2);
    assert_status(ask(at("/204"), SOON_MS), 204);
    forget(got, 2);
}

RIG_TEST(receivers_that_do_not_answer_delay_no_other_receiver)
{
    static const char *const slow[] = {"/silent", "/drip-head", "/drip-body"};
    static struct got dead[300];
    memset(dead, 0, sizeof(dead));
    for (unsigned i = 0; i < 300; i++)
        assert_int_equal(send_to(url_of("http", "dead.test", slow[i % 3]), SOON_MS, &dead[i]), DT_OK);
    for (unsigned i = 0; i < 100; i++)
        assert_status(ask(at("/204"), SOON_MS), 204);
    AWAIT(dripping == 100);
    assert_status(ask(at("/204"), SOON_MS), 204);
    dt_http_client_stop(client);
    wait_for(dead, 300);
    for (unsigned i = 0; i < 300; i++)
        assert_end(&dead[i], i % 3 == 2 ? DT_HTTP_ANSWERED : DT_HTTP_UNKNOWN);
    forget(dead, 300);
}

int main(void)
{
    signal(SIGPIPE, SIG_IGN);
    name_proxies();
    allow_many_descriptors();
    return suite_run(make_files, remove_files);
}
