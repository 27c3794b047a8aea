/* Connections of HTTP/2: see h2_suite.h for what is said and heard. */
#include "unit/base/http/h2_suite.h"

/* What is said on a connection of its own, and what is heard. */
static void assert_case(const char *said, const char *heard, size_t piece)
{
    struct peer peer;
    open_peer(&peer, said, piece);
    assert_heard(&peer, heard);
    if (kept)
        answer(kept, 200, "late", false);
    rounds(3);
    listen_once(&peer);
    assert_true(peer.ended || !strchr(heard, 'G'));
    close_peer(&peer);
    assert_int_equal(dt_conns_count(conns), 0);
}

static void requests_are_answered_however_they_are_cut(void **)
{
    static const struct {
        const char *said, *heard;
    } cases[] = {
        {"GET.5.1:/a", "S SA H1=200 D1=2. "},
        {"HEAD.5.1:/a", "S SA H1=200. "},
        {"POST.4.1:/ 0.0.1:6869 0.1.1:21", "S SA H1=200 D1=3. "},
        {"POST.4.1:/,content-length=2 0.1.1:6869", "S SA H1=200 D1=2. "},
        {"POST.4.1:/ 0.8.1:0268690000 0.1.1:21", "S SA H1=200 D1=3. "},   /* with padding */
        {"POST.4.1:/ 0.0.1:6869 1.5.1:0001610162", "S SA H1=200 D1=2. "}, /* with trailers */
        {"POST.4.1:/,expect=100-continue 0.1.1:6869", "S SA H1=100 H1=200 D1=2. "},
        {"POST.4.1:/no 0.0.1:616263 0.1.1:64", "S SA H1=403 D1=3. R1=0 "}, /* the rest of the body is not wanted … */
        {"POST.4.1:/no,expect=100-continue", "S SA H1=403 D1=3. R1=0 "},
        {"POST.4.1:/no,content-length=3 0.1.1:616263", "S SA H1=403 D1=3. "}, /* … unless it is little */
        {"GET.5.1:/a,te=trailers,cookie=a,cookie=b", "S SA H1=200 D1=2. "},
        {"6.0.0:0102030405060708 GET.5.1:/a", "S SA PA H1=200 D1=2. "},
        {"2.0.3:0000000010 cc.ff.7:010203 GET.5.1:/a", "S SA H1=200 D1=2. "}, /* what is not known is not looked at */
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        for (size_t piece = 1; piece < 200; piece = piece * 3 + 1)
            assert_case(cases[i].said, cases[i].heard, piece);
}

/* The sections of RFC 9113 and what a server does, as h2spec asks for it. */
static void a_frame_gets_the_response_that_its_section_of_rfc_9113_requires(void **)
{
    static const struct {
        const char *section, *said, *heard;
    } cases[] = {
        {"4.1", "POST.4.1:/ 0.0.1:z16384", "S SA "},
        {"4.2", "POST.4.1:/ 0.0.1:z16385", "S G1=6 "},
        {"4.3", "1.1.1:8286 9.0.1:84 9.4.1:410178", "S SA H1=200 D1=1. "},
        {"4.3", "1.5.1:ff", "S G1=9 "},
        {"4.3", "1.1.1:8286 6.0.0:z8", "S G1=1 "},
        {"5.1 idle", "0.1.1:61", "S G0=1 "},
        {"5.1 idle", "3.0.1:00000008", "S G0=1 "},
        {"5.1 idle", "8.0.1:00000064", "S G0=1 "},
        {"5.1 half-closed", "GET.5.1:/later 0.1.1:61", "S G1=5 "},
        {"5.1 half-closed", "GET.5.1:/later GET.5.1:/a", "S G1=5 "},
        {"5.1 half-closed", "GET.5.1:/later 8.0.1:00000001 2.0.1:0000000010", "S SA "},
        {"5.1 closed", "POST.4.1:/ 3.0.1:00000008 0.1.1:61", "S SA "},
        {"5.1 closed", "POST.4.1:/ 3.0.1:00000008 GET.5.1:/a", "S SA "},
        {"5.1 closed", "GET.5.1:/a GET.5.1:/a", "S G1=5 "},
        {"5.1 closed", "GET.5.1:/a 0.1.1:61", "S G1=5 "},
        {"5.1 closed", "GET.5.1:/a 8.0.1:00000001 3.0.1:00000008", "S SA "},
        {"5.1.1", "GET.5.2:/a", "S G0=1 "},
        {"5.1.1", "GET.5.5:/a GET.5.3:/a", "S SA H5=200 D5=2. "},
        {"5.1.2", "POST.4.1:/ x128 GET.5.101:/a", "S G255=1 "},
        {"5.3.1", "1.25.1:0000000110828684410178", "S G0=1 "},
        {"5.5", "1.1.1:8286 cc.0.0:00", "S G1=1 "},
        {"6.1", "0.1.0:61", "S G0=1 "},
        {"6.1", "POST.4.1:/ 0.9.1:05616263", "S G1=1 "},
        {"6.2", "GET.5.0:/a", "S G0=1 "},
        {"6.2", "1.d.1:ff828684", "S G0=1 "},
        {"6.2", "1.25.1:00000000", "S G0=6 "},
        {"6.3", "2.0.0:0000000010", "S SA "},
        {"6.3", "2.0.1:00000000", "S G0=6 "},
        {"6.4", "3.0.0:00000008", "S G0=1 "},
        {"6.4", "POST.4.1:/ 3.0.1:000008", "S G1=6 "},
        {"6.5", "4.1.0:000000000000", "S G0=6 "},
        {"6.5", "4.0.1:", "S G0=1 "},
        {"6.5", "4.0.0:00030000", "S G0=6 "},
        {"6.5.2", "4.0.0:000200000002", "S G0=1 "},
        {"6.5.2", "4.0.0:000480000000", "S G0=3 "},
        {"6.5.2", "4.0.0:000500003fff", "S G0=1 "},
        {"6.5.2", "4.0.0:000501000000", "S G0=1 "},
        {"6.5.2", "4.0.0:00ff00000001", "S SA SA "},
        {"6.6", "5.4.1:00000002828684410178", "S G0=1 "},
        {"6.7", "6.0.1:z8", "S G0=1 "},
        {"6.7", "6.0.0:z7", "S G0=6 "},
        {"6.7", "6.1.0:z8", "S SA "},
        {"6.8", "7.0.1:z8", "S G0=1 "},
        {"6.8", "7.0.0:z7", "S G0=6 "},
        {"6.8", "7.0.0:z8", "S SA "},
        {"6.9", "8.0.0:00000000", "S G0=1 "},
        {"6.9", "POST.4.1:/ 8.0.1:00000000", "S G1=1 "},
        {"6.9", "8.0.0:000001", "S G0=6 "},
        {"6.9.1", "8.0.0:7fffffff", "S G0=3 "},
        {"6.9.1", "POST.4.1:/ 8.0.1:7fffffff", "S SA R1=3 "},
        {"6.9.2", "POST.4.1:/ 8.0.1:7fff0000 4.0.0:00047fffffff", "S SA SA R1=3 "},
        {"6.10", "9.4.1:8286", "S G0=1 "},
        {"6.10", "1.1.1:8286 9.4.3:84410178", "S G1=1 "},
        {"6.10", "1.1.1:8286 9.4.0:84410178", "S G1=1 "},
        {"6.10", "GET.5.1:/later 9.4.1:8286", "S G1=1 "},
        {"8.2.1", "GET.5.1:/a,X-y=1", "S SA R1=1 "},
        {"8.2.1", "GET.5.1:/a,x@y=1", "S SA H1=400 D1=2. "},
        {"8.2.1", "1.5.1:8286844101780003782d7901610003782d79020d0a", "S SA H1=400 D1=2. "},
        {"8.2.2", "GET.5.1:/a,connection=close", "S SA R1=1 "},
        {"8.2.2", "GET.5.1:/a,transfer-encoding=chunked", "S SA R1=1 "},
        {"8.2.2", "GET.5.1:/a,upgrade=h2c", "S SA R1=1 "},
        {"8.2.2", "GET.5.1:/a,te=gzip", "S SA R1=1 "},
        {"8.3", "GET.5.1:/a,:new=1", "S SA R1=1 "},
        {"8.3", "GET.5.1:/a,:status=200", "S SA R1=1 "},
        {"8.3", "GET.5.1:/a,!path,a=1,:path=/a", "S SA R1=1 "},
        {"8.3", "GET.5.1:/a,:path=/b", "S SA R1=1 "},
        {"8.3", "POST.4.1:/ 1.5.1:00053a70617468022f61", "S SA R1=1 "},
        {"8.3.1", "GET.5.1:/a,!method", "S SA R1=1 "},
        {"8.3.1", "GET.5.1:/a,!scheme", "S SA R1=1 "},
        {"8.3.1", "GET.5.1:/a,!path", "S SA R1=1 "},
        {"8.3.1", "GET.5.1:", "S SA R1=1 "},
        {"8.3.1", "GET.5.1:/a,!authority", "S SA R1=1 "},
        {"8.3.1", "GET.5.1:/a,!authority,host=x", "S SA H1=200 D1=2. "},
        {"8.3.1", "GET.5.1:/a,host=x", "S SA H1=200 D1=2. "},
        {"8.3.1", "GET.5.1:/a,host=y", "S SA H1=400 D1=2. "},
        {"8.3.1", "GET.5.1:/a,!authority,host=x,host=x", "S SA R1=1 "},
        {"8.3.1", "GET.5.1:a", "S SA R1=1 "},
        {"8.3.1", "OPTIONS.5.1:*", "S SA H1=200 D1=1. "},
        {"8.5", "CONNECT.5.1:/a,!scheme,!path", "S SA H1=200 D1=1. "},
        {"8.1.1", "POST.4.1:/,content-length=1 0.1.1:6162", "S SA R1=1 "},
        {"8.1.1", "POST.4.1:/,content-length=3 0.1.1:6162", "S SA R1=1 "},
        {"8.1.1", "POST.4.1:/,content-length=1,content-length=1 0.1.1:61", "S SA R1=1 "},
        {"8.1.1", "POST.4.1:/,content-length=x 0.1.1:61", "S SA R1=1 "},
        {"8.1", "POST.4.1:/ 1.4.1:0001610162", "S SA R1=1 "},
        {"Auth", "GET.5.1:/a,authorization=a,authorization=b", "S SA H1=400 D1=2. "},
    };
    limits.most = 999;
    begin_again();
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        assert_case(cases[i].said, cases[i].heard, 99999);
}

static void requests_of_a_connection_are_answered_side_by_side(void **)
{
    struct peer peer;
    limits.most = 99;
    begin_again();
    open_peer(&peer, "GET.5.1:/later", 99999);
    dt_conn *first = kept;
    say(&peer, "GET.5.3:/later GET.5.5:/a");
    assert_heard(&peer, "S SA H5=200 D5=2. ");
    pass_ms(60000); /* the time is the owner's */
    answer(kept, 200, "late", false);
    assert_heard(&peer, "H3=200 D3=4. ");
    close_peer(&peer);
    assert_true(has_left(first));
    assert_int_equal(dt_conns_count(conns), 2);
    answer(first, 200, "late", false);
    rounds(3);
    assert_int_equal(dt_conns_count(conns), 0);
    assert_int_equal(ended_sent, 2);
    assert_int_equal(ended_unsent, 1);
}

static void answers_of_a_round_leave_in_one_write(void **)
{
    struct dt_strbuf bytes = {0};
    char text[4096];
    int fd = connected(SOCK_SEQPACKET);
    dt_conn *later[3];
    limits.most = 99;
    dt_strbuf_adds(&bytes, PREFACE);
    add_frames(&bytes, "4.0.0: 4.1.0:");
    for (int i = 0; i < 3; i++) {
        char said[40];
        snprintf(said, sizeof(said), "GET.5.%x:/later", 2 * i + 1);
        add_frames(&bytes, said);
        assert_int_equal(send(fd, bytes.p, bytes.n, 0), bytes.n);
        rounds(1);
        later[i] = kept;
        dt_strbuf_reset(&bytes);
    }
    while (recv(fd, text, sizeof(text), 0) > 0)
        ;
    for (int i = 0; i < 3; i++)
        answer(later[i], 200, "late", false);
    rounds(2);
    assert_true(recv(fd, text, sizeof(text), 0) > 3 * (9 + 4));
    assert_int_equal(recv(fd, text, sizeof(text), 0), -1);
    assert_int_equal(ended_sent, 3);
    dt_strbuf_clear(&bytes);
    close(fd);
}

static void a_body_waits_in_its_window_until_its_owner_goes_on(void **)
{
    struct peer peer;
    limits.most = 99;
    begin_again();
    open_peer(&peer, "POST.4.1:/place,expect=100-continue", 99999);
    peer.windows = true;
    dt_conn *place = kept;
    assert_heard(&peer, "S SA ");
    say(&peer, "0.0.1:z16000 0.0.1:z16000 0.0.1:z16000");
    pass_ms(60000); /* the time is the owner's */
    say(&peer, "POST.4.3:/ 0.0.3:z16000 0.0.3:z16000 0.0.3:z16000");
    assert_heard(&peer, "W3=48000 "); /* only the other one goes on */
    dt_conn_go_on(place);
    assert_heard(&peer, "W1=48000 ");
    say(&peer, "0.1.1: 0.1.3:");
    assert_heard(&peer, "H1=200. H3=200. ");
    close_peer(&peer);
}

static void an_answer_comes_as_its_client_opens_windows(void **)
{
    struct peer peer;
    limits.most = 99;
    begin_again();
    open_peer(&peer, "4.0.0:00040000000a GET.5.1:/large GET.5.3:/large GET.5.5:/a", 99999);
    assert_heard(&peer, "S SA SA H1=200 H3=200 H5=200 D1=10 D3=10 D5=2. ");
    say(&peer, "8.0.3:00000005");
    assert_heard(&peer, "D3=5 ");
    pass_ms(2900);
    say(&peer, "8.0.3:0010c8e0 8.0.0:0010c8e0");
    listen_for(&peer, 100);
    assert_int_equal(ended_sent, 2);
    dt_strbuf_reset(&peer.heard);
    pass_ms(200); /* the client opens none for the first */
    assert_heard(&peer, "R1=8 ");
    assert_int_equal(ended_unsent, 1);
    close_peer(&peer);
}

static void every_wait_for_a_client_ends(void **)
{
    static const struct {
        const char *said;
        int ms;
        const char *heard;
    } cases[] = {
        {"", 2000, "S SA G0=0 "},
        {"1.1.1:8286", 2000, "S SA G1=0 "},
        {"GET.5.1:/a", 9000, "S SA H1=200 D1=2. G1=0 "},
        {"GET.5.1:/a 1.1.3:8286", 2000, "S SA H1=200 D1=2. G3=0 "},
        {"POST.4.1:/ 0.0.1:61", 4000, "S SA H1=408 D1=2. R1=0 "},
        {"POST.4.1:/no,content-length=9 0.0.1:61", 4000, "S SA H1=403 D1=3. R1=8 "},
    };
    limits.most = 99;
    begin_again();
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct peer peer;
        open_peer(&peer, cases[i].said, 99999);
        pass_ms(cases[i].ms - 100);
        listen_once(&peer);
        assert_non_null(strstr(cases[i].heard, peer.heard.p));
        assert_int_not_equal(strlen(cases[i].heard), peer.heard.n);
        pass_ms(200);
        assert_heard(&peer, cases[i].heard);
        assert_int_equal(peer.ended, strchr(cases[i].heard, 'G') != NULL);
        close_peer(&peer);
        assert_int_equal(dt_conns_count(conns), 0);
    }
}

static void an_owner_learns_that_a_request_was_reset(void **)
{
    struct peer peer;
    limits.most = 99;
    begin_again();
    open_peer(&peer, "GET.5.1:/later", 99999);
    assert_false(has_left(kept));
    say(&peer, "3.0.1:00000008");
    assert_true(has_left(kept));
    answer(kept, 200, "late", false);
    say(&peer, "GET.5.3:/a");
    assert_heard(&peer, "S SA H3=200 D3=2. ");
    assert_int_equal(ended_unsent, 1);
    close_peer(&peer);
}

static void requests_under_way_when_the_server_ends_are_answered(void **)
{
    struct peer idle, later, half;
    limits.most = 99;
    begin_again();
    open_peer(&idle, "GET.5.1:/a", 99999);
    open_peer(&half, "POST.4.1:/ 0.0.1:61", 99999);
    open_peer(&later, "GET.5.1:/later", 99999);
    dt_conns_enter(conns, DT_CONNS_DRAIN);
    assert_heard(&idle, "S SA H1=200 D1=2. G1=0 ");
    assert_true(idle.ended);
    assert_heard(&half, "S SA G1=0 ");
    say(&later, "GET.5.3:/a"); /* it was not served, and may be asked elsewhere */
    assert_heard(&later, "S SA G1=0 ");
    answer(kept, 200, "late", false);
    assert_heard(&later, "H1=200 D1=4. ");
    assert_true(later.ended);
    dt_conns_enter(conns, DT_CONNS_CUT);
    assert_heard(&half, "H1=503 D1=2. R1=0 ");
    assert_true(half.ended);
    close_peer(&idle), close_peer(&later), close_peer(&half);
    assert_int_equal(dt_conns_count(conns), 0);
}

static void a_server_that_stops_ends_streams_that_wait_for_their_clients(void **state)
{
    struct peer peer;
    (void)state;
    limits.most = 99;
    begin_again();
    open_peer(&peer, "4.0.0:000400000000 GET.5.1:/large POST.4.3:/ 0.0.3:61 POST.4.5:/no,content-length=9 1.1.7:8286",
              99999);
    assert_int_equal(dt_conns_count(conns), 4);
    begin_again();
    assert_int_equal(ended_sent + ended_unsent, 3);
    close_peer(&peer);
}

/* Sends a frame repeatedly, and reads the responses, until the connection ends. */
static void floods_end_their_connection(void **)
{
    static const struct {
        const char *name, *before, *once;
        unsigned most; /* times until it ends */
    } floods[] = {
        {"rapid reset, CVE-2023-44487", "", "GET.5.1:/a 3.0.1:00000008", 501},
        {"made you reset, CVE-2025-8671", "", "POST.4.1:/a 8.0.1:7fffffff 8.0.1:7fffffff", 501},
        {"requests that are none", "", "GET.5.1:/a,connection=close", 1001},
        {"CONTINUATION, CVE-2024-27316", "1.1.1:8286", "9.0.1:", 6},
        {"large CONTINUATION", "1.1.1:8286", "9.0.1:z8192", 3},
        {"PING, CVE-2019-9512", "", "6.0.0:z8", 1001},
        {"SETTINGS, CVE-2019-9515", "", "4.0.0:", 1001},
        {"PRIORITY, CVE-2019-9513", "", "2.0.1:0000000010", 1001},
        {"empty DATA, CVE-2019-9518", "POST.4.1:/", "0.0.1:", 1001},
        {"padding alone", "POST.4.1:/", "0.8.1:020000", 1001},
        {"windows by the byte, CVE-2019-9511", "4.0.0:000400000000 GET.5.1:/large", "8.0.1:00000001", 1001},
    };
    limits.most = 999;
    begin_again();
    for (size_t i = 0; i < sizeof(floods) / sizeof(floods[0]); i++) {
        struct peer peer;
        unsigned said = 0;
        open_peer(&peer, floods[i].before, 99999);
        for (; !peer.ended && said <= floods[i].most; said++) {
            struct dt_strbuf bytes = {0};
            char *words = strdup(floods[i].once);
            for (char *at = NULL, *word = strtok_r(words, " ", &at); word; word = strtok_r(NULL, " ", &at))
                add_word(&bytes, word, strstr(floods[i].once, "T.") ? said : 0);
            (void)send(peer.fd, bytes.p, bytes.n, MSG_NOSIGNAL);
            listen_for(&peer, 2);
            dt_strbuf_clear(&bytes);
            free(words);
        }
        dt_strbuf_addc(&peer.heard, '\0');
        if (!strstr(peer.heard.p, "=11 ") || said > floods[i].most)
            fail_msg("%s: after %u frames", floods[i].name, said);
        close_peer(&peer);
        assert_int_equal(dt_conns_count(conns), 0);
    }
}

static void a_busy_client_is_no_flood(void **)
{
    struct peer peer;
    limits.most = 999;
    begin_again();
    open_peer(&peer, "", 99999);
    for (unsigned i = 0; i < 3000; i++) {
        struct dt_strbuf bytes = {0};
        add_word(&bytes, "GET.5.1:/a", i);
        add_frame(&bytes, NGHTTP2_WINDOW_UPDATE, 0, 0, (struct dt_str){"\0\0\0\2", 4});
        assert_int_equal(send(peer.fd, bytes.p, bytes.n, MSG_NOSIGNAL), bytes.n);
        listen_for(&peer, 1);
        dt_strbuf_clear(&bytes);
    }
    dt_strbuf_reset(&peer.heard);
    assert_int_equal(ended_sent, 3000);
    say(&peer, "GET.5.2001:/large 8.0.0:7fff0000");
    for (int i = 0; i < 1000; i++) { /* windows as large as what they are for */
        say(&peer, "8.0.2001:00000400");
        listen_for(&peer, 1);
    }
    assert_false(peer.ended);
    close_peer(&peer);
}

/* A request with a header, or a target, of so many bytes. */
static void assert_long(size_t target, size_t header, const char *heard)
{
    char *said = malloc(target + header + 100);
    struct peer peer;
    sprintf(said, "GET.5.1:/%0*d,a=%0*d", (int)target, 0, (int)header, 0);
    open_peer(&peer, said, 99999);
    assert_heard(&peer, heard);
    close_peer(&peer);
    free(said);
}

static void heads_are_as_long_as_those_of_http1(void **)
{
    struct dt_strbuf block = {0};
    struct peer peer;
    limits.most = 99;
    begin_again();
    assert_long(8000, 1, "S SA H1=200 D1=31. ");
    assert_long(8200, 1, "S SA H1=414 D1=2. ");
    assert_long(1, 12000, "S SA H1=200 D1=2. ");
    assert_long(1, 12300, "S SA H1=431 D1=2. ");
    assert_long(12200, 1, "S SA H1=414 D1=2. ");
    open_peer(&peer, "", 99999); /* a bomb: a header of 3 KiB, and that again and again, in a byte each */
    add_hex(&block, "828684410178400161");
    add_string(&block, (const char[3000]){0}, 3000);
    memset(block.p + block.n - 3000, 'x', 3000);
    for (int i = 0; i < 1000; i++)
        dt_strbuf_addc(&block, (char)0xbe);
    struct dt_strbuf bytes = {0};
    add_frame(&bytes, NGHTTP2_HEADERS, 5, 1, dt_strbuf_str(&block));
    say_bytes(&peer, dt_strbuf_str(&bytes), 99999);
    assert_heard(&peer, "S SA G1=11 ");
    assert_true(peer.ended);
    dt_strbuf_clear(&bytes);
    dt_strbuf_clear(&block);
    close_peer(&peer);
}

static void a_slow_body_loses_its_place_in_a_crowd(void **)
{
    struct peer slow, quick, newcomer;
    limits.most = 99;
    limits.crowd = 3;
    begin_again();
    open_peer(&quick, "POST.4.1:/ 0.0.1:z1", 99999);
    open_peer(&slow, "POST.4.1:/ 0.0.1:z1 POST.4.3:/known GET.5.5:/a", 99999);
    pass_ms(600);
    say(&quick, "0.0.1:z8000");
    open_peer(&newcomer, "", 99999);
    assert_heard(&slow, "S SA H5=200 D5=2. H1=408 D1=2. R1=0 ");
    assert_heard(&quick, "S SA ");
    close_peer(&slow), close_peer(&quick), close_peer(&newcomer);
}

static void http1_stays_where_http2_does_not_begin(void **)
{
    static const struct {
        const char *said, *heard;
    } cases[] = {
        {"GET /a HTTP/1.1\r\nHost: x\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: "
         "AAMAAABk\r\n\r\n",
         "HTTP/1.1 200 OK\r\n"},
        {"PRI * HTTP/2.0\r\n\r\nSX\r\n\r\n", "HTTP/1.1 505 HTTP Version Not Supported\r\n"},
        {"PRI", ""},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        for (size_t piece = 1; piece < 200; piece = piece * 3 + 1) {
            char text[1000] = "";
            int fd = connected(SOCK_STREAM);
            for (size_t at = 0, n = strlen(cases[i].said); at < n; at += piece) {
                (void)send(fd, cases[i].said + at, n - at < piece ? n - at : piece, MSG_NOSIGNAL);
                rounds(1);
            }
            rounds(2);
            (void)recv(fd, text, sizeof(text) - 1, 0);
            assert_int_equal(strncmp(text, cases[i].heard, strlen(cases[i].heard)), 0);
            close(fd);
            rounds(2);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
        TEST(requests_are_answered_however_they_are_cut),
        TEST(a_frame_gets_the_response_that_its_section_of_rfc_9113_requires),
        TEST(requests_of_a_connection_are_answered_side_by_side),
        TEST(answers_of_a_round_leave_in_one_write),
        TEST(a_body_waits_in_its_window_until_its_owner_goes_on),
        TEST(an_answer_comes_as_its_client_opens_windows),
        TEST(every_wait_for_a_client_ends),
        TEST(an_owner_learns_that_a_request_was_reset),
        TEST(requests_under_way_when_the_server_ends_are_answered),
        TEST(a_server_that_stops_ends_streams_that_wait_for_their_clients),
        TEST(floods_end_their_connection),
        TEST(a_busy_client_is_no_flood),
        TEST(heads_are_as_long_as_those_of_http1),
        TEST(a_slow_body_loses_its_place_in_a_crowd),
        TEST(http1_stays_where_http2_does_not_begin),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
