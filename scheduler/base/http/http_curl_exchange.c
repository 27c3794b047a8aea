/*
 * One exchange: what libcurl is given for a request, and what it reports of the response.
 *
 * A request is written at most once. If a kept connection turns out to be dead before the first byte of a response,
 * libcurl writes the request again, to another connection (Curl_retry_request). It does the same if an HTTP/2 server
 * refused the stream, or answered with HTTP_1_1_REQUIRED. No option disables this, and the server may have read the
 * first copy. But each of these ways passes through the state in which libcurl calls CURLOPT_PREREQFUNCTION (since
 * 7.80: MSTATE_DO, the only state that calls the protocol's "do", which writes). So before_request allows the first
 * write and refuses a second, and open_socket opens no connection for a second. All other reasons to send again are
 * disabled: no redirects, no Expect, no authentication, no TLS early data, no upgrades.
 *
 * libcurl never resolves names. Its resolver starts a thread per request, not per name, and waits for that thread when
 * the request times out (CURLOPT_QUICK_EXIT does not help in every version). host_names.h looks names up;
 * CURLOPT_RESOLVE puts the addresses into libcurl's cache; before_resolving refuses every other lookup.
 *
 * The head of a response is complete at its blank line. From then on its status decides: if the exchange then ends by a
 * timeout, a broken connection or a body that is too large, this only means that the body is incomplete. Interim heads
 * (1xx) do not count, except 101, after which no other head follows. All heads together have a limit, so that a
 * receiver cannot send interim heads for ever.
 */
#include <curl/curl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>
#include <utlist.h>

#include "base/assert.h"
#include "base/fail_point.h"
#include "callback_rules.h"
#include "http_curl.h"
#include "wire_guard.h"

#define LIBCURL_LEAST       0x075700 /* oldest version: 7.85 has PROTOCOLS_STR, 7.87 QUICK_EXIT */
#define CERTIFICATE_MARK    "-----BEGIN "
#define READ_BUFFER_BYTES   8192L
#define UPLOAD_BUFFER_BYTES 16384L /* the smallest size that libcurl accepts */
/* Whole seconds after which an idle connection is not used again. Servers close idle connections after 2 s and more,
 * perhaps while a request is on its way that cannot be sent again. For a host with less than one request per second, a
 * connection for each request is acceptable. */
#define IDLE_MAX_S      1L
#define RESOLVED_KEPT_S 60L
/* Seconds after which a changed file of authorities is read again. Reading the system's authorities takes some ms. */
#define AUTHORITIES_KEPT_S 5L
#define KEEPALIVE_IDLE_S   30L
#define KEEPALIVE_EACH_S   10L
#define UNACKNOWLEDGED_MS  20000 /* time without acknowledgement after which a connection is dead */

_Static_assert(DT_HTTP_DETAIL_MAX >= CURL_ERROR_SIZE, "libcurl writes its error there");

/* ---- copying a request ---- */

static char *append_text(char *at, struct dt_str text)
{
    if (text.n > 0)
        memcpy(at, text.p, text.n);
    return at + text.n;
}

static char *append_terminated(char *at, struct dt_str text)
{
    at = append_text(at, text);
    *at = '\0';
    return at + 1;
}

#define NODES_OF_OURS 4 /* nodes of curl_slist in each exchange: addresses, close_it, no_expect, no_form */

/* Makes the exchange in one allocation: the struct, the nodes, the texts. */
dt_status dt_client_exchange_new(const struct dt_http_request *request, struct dt_client_exchange **out)
{
    /* These lines remove headers that libcurl adds. If the request has a header of the same name, it precedes the line,
     * and libcurl sends it. */
    static char no_expect[] = "Expect:";
    static char no_form[] = "Content-Type:";
    static char close_it[] = "Connection: close"; /* first line of the list, if the exchange closes its connection */
    const size_t n = request->n_headers;
    size_t bytes = request->url.n + 1 + request->body.n + 1; /* bytes of the texts, with their terminating zeros */
    struct dt_callback_url url;
    if (dt_callback_url_check(request->url, &url))
        return DT_INVALID;
    for (size_t i = 0; i < n; i++) {
        const struct dt_http_header *header = &request->headers[i];
        if (!dt_header_name_is_token(header->name) || dt_callback_header_value_check(header->value))
            return DT_INVALID;
        bytes += header->name.n + strlen(": ") + header->value.n + 1;
    }
    struct dt_client_exchange *exchange =
        calloc(1, sizeof(*exchange) + (n + NODES_OF_OURS) * sizeof(struct curl_slist) + bytes);
    if (!exchange)
        return DT_NOMEM;
    struct curl_slist *nodes = (struct curl_slist *)(void *)(exchange + 1);
    char *const texts = (char *)(nodes + n + NODES_OF_OURS);
    char *at = texts;
    exchange->resolved = nodes;
    exchange->headers = nodes + 2;
    nodes[1] = (struct curl_slist){close_it, exchange->headers};
    for (size_t i = 0; i < n; i++) { /* for libcurl, "name;" is a header without a value; "name:" removes it */
        struct dt_str value = dt_str_trimmed(request->headers[i].value);
        exchange->headers[i] = (struct curl_slist){at, &exchange->headers[i + 1]};
        at = append_text(at, request->headers[i].name);
        at = append_text(at, value.n > 0 ? DT_STR_LIT(": ") : DT_STR_LIT(";"));
        at = append_terminated(at, value);
    }
    exchange->headers[n] = (struct curl_slist){no_expect, &exchange->headers[n + 1]};
    exchange->headers[n + 1] = (struct curl_slist){no_form, NULL};
    exchange->url_text = at;
    at = append_terminated(at, request->url);
    exchange->body = (struct dt_str){at, request->body.n};
    at = append_terminated(at, request->body);
    dt_assert_cmp(at - texts, <=, bytes);
    exchange->url = url;
    exchange->bytes = bytes;
    exchange->tag = request->tag;
    exchange->owner = request->owner;
    exchange->timeout_us = request->timeout_ms * 1000;
    *out = exchange;
    return DT_OK;
}

void dt_client_exchange_free(struct dt_client_exchange *exchange)
{
    if (!exchange)
        return;
    dt_assert(!exchange->easy);
    dt_strbuf_clear(&exchange->answer_body);
    dt_strbuf_clear(&exchange->resolved_text);
    free(exchange);
}

/* ---- callbacks of libcurl ---- */

/* Refuses lookups. libcurl also calls this if the host is an address, which needs no lookup. */
static int before_resolving(void *, void *, void *arg)
{
    struct dt_client_exchange *exchange = arg;
    exchange->again = exchange->again || exchange->sent;
    return exchange->again || exchange->resolved_text.n > 0;
}

static curl_socket_t open_socket(void *arg, curlsocktype purpose, struct curl_sockaddr *address)
{
    struct dt_client_exchange *exchange = arg;
    static const int patience = UNACKNOWLEDGED_MS;
    if (exchange->sent) {
        exchange->again = true;
        return CURL_SOCKET_BAD;
    }
    if (purpose != CURLSOCKTYPE_IPCXN || !dt_address_allowed(exchange->allowed, &address->addr, address->addrlen)) {
        exchange->refused = true;
        return CURL_SOCKET_BAD;
    }
    int fd = socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
    if (fd < 0)
        return CURL_SOCKET_BAD;
    if (!dt_wire_guard_open(exchange->guard, fd)) {
        close(fd);
        return CURL_SOCKET_BAD;
    }
    exchange->opened = true;
    setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &patience, sizeof(patience));
    return fd;
}

/* Closes a socket. arg is the guard, which outlives the connection. */
static int close_socket(void *arg, curl_socket_t fd)
{
    dt_wire_guard_close(arg, fd);
    return close(fd);
}

/* The last callback before libcurl writes. The thread is inside the guard from before the lease is checked until
 * libcurl returns (http_curl.c). */
static int before_request(void *arg, char *, char *, int, int)
{
    struct dt_client_exchange *exchange = arg;
    exchange->again = exchange->sent;
    dt_wire_guard_enter(exchange->guard);
    exchange->withheld = !exchange->sent && exchange->may_send && !exchange->may_send(exchange->arg, exchange->tag);
    exchange->sent = exchange->sent || !exchange->withheld;
    DT_FAIL_POINT("callbacks.let_through");
    return exchange->again || exchange->withheld ? CURL_PREREQFUNC_ABORT : CURL_PREREQFUNC_OK;
}

/* ---- the answer ---- */

#define STATUS_SWITCHED 101
#define STATUS_FINAL    200

static void store_header_value(struct dt_head_value *out, struct dt_str value)
{
    if (out->seen)
        return;
    out->seen = true;
    out->kept = value.n <= sizeof(out->p);
    out->n = value.n;
    if (out->kept && value.n > 0)
        memcpy(out->p, value.p, value.n);
}

/* Receives a line of the head from libcurl. A result other than size * n ends the exchange. */
static size_t on_head(char *line, size_t size, size_t n, void *arg)
{
    struct dt_client_exchange *exchange = arg;
    struct dt_str text = {line, size * n};
    if (exchange->head_whole)
        return size * n; /* ignores a trailer, which libcurl passes after the body */
    exchange->head_bytes += size * n;
    if (exchange->head_bytes > DT_HTTP_HEAD_MAX)
        return 0;
    while (text.n > 0 && (text.p[text.n - 1] == '\n' || text.p[text.n - 1] == '\r'))
        text.n--;
    if (!exchange->in_head) { /* this line is the status line */
        exchange->in_head = true;
        exchange->content_type.seen = exchange->content_type.kept = false;
        exchange->retry_after.seen = exchange->retry_after.kept = false;
        return size * n;
    }
    if (text.n == 0) { /* this line ends the head */
        long status = 0;
        long version = 0;
        exchange->in_head = false;
        if (curl_easy_getinfo(exchange->easy, CURLINFO_RESPONSE_CODE, &status) == CURLE_OK &&
            curl_easy_getinfo(exchange->easy, CURLINFO_HTTP_VERSION, &version) == CURLE_OK &&
            (status == STATUS_SWITCHED || status >= STATUS_FINAL)) {
            exchange->status = (int)status;
            exchange->shared = version >= CURL_HTTP_VERSION_2_0;
            exchange->head_whole = true;
        }
        return size * n;
    }
    const char *colon = memchr(text.p, ':', text.n);
    if (!colon)
        return size * n;
    struct dt_str name = {text.p, (size_t)(colon - text.p)};
    struct dt_str value = dt_str_trimmed((struct dt_str){colon + 1, text.n - name.n - 1});
    if (dt_str_is_caseless(name, "content-type"))
        store_header_value(&exchange->content_type, value);
    else if (dt_str_is_caseless(name, "retry-after"))
        store_header_value(&exchange->retry_after, value);
    exchange->chunked |= dt_str_is_caseless(name, "transfer-encoding");
    return size * n;
}

static size_t on_body(char *bytes, size_t size, size_t n, void *arg)
{
    struct dt_client_exchange *exchange = arg;
    dt_assert_cmp(exchange->answer_body.n, <=, DT_HTTP_BODY_MAX);
    size_t room = DT_HTTP_BODY_MAX - exchange->answer_body.n;
    size_t taken = size * n < room ? size * n : room;
    dt_strbuf_add(&exchange->answer_body, bytes, taken);
    return exchange->answer_body.failed ? 0 : taken; /* a result below n ends the exchange */
}

/* ---- options ---- */

/* Sets an option unless an earlier one failed. */
#define SET(option, value) failed = failed ? failed : curl_easy_setopt(easy, option, value)

void *dt_easy_new(const char *ca_file)
{
    CURLcode failed = CURLE_OK;
    CURL *easy = curl_easy_init();
    if (!easy)
        return NULL;
    SET(CURLOPT_PROTOCOLS_STR, "http,https");
    SET(CURLOPT_REDIR_PROTOCOLS_STR, "http,https");
    SET(CURLOPT_FOLLOWLOCATION, 0L);
    SET(CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_2TLS);
    SET(CURLOPT_HTTP09_ALLOWED, 0L);
    SET(CURLOPT_POST, 1L);
    SET(CURLOPT_PATH_AS_IS, 1L);
    SET(CURLOPT_DISALLOW_USERNAME_IN_URL, 1L);
    SET(CURLOPT_NETRC, (long)CURL_NETRC_IGNORED);
    SET(CURLOPT_PROXY, "");
    SET(CURLOPT_NOPROXY, "*");
    SET(CURLOPT_SSL_VERIFYPEER, 1L);
    SET(CURLOPT_SSL_VERIFYHOST, 2L);
#if LIBCURL_VERSION_NUM >= 0x075700 /* by default, older versions keep no connections; newer ones keep them for a day */
    SET(CURLOPT_CA_CACHE_TIMEOUT, AUTHORITIES_KEPT_S);
#endif
    if (ca_file && ca_file[0]) { /* without CAPATH, the system's folder of certificates is ignored, too */
        SET(CURLOPT_CAINFO, ca_file);
        SET(CURLOPT_CAPATH, (char *)NULL);
    }
    SET(CURLOPT_NOSIGNAL, 1L);
    SET(CURLOPT_QUICK_EXIT, 1L);
    SET(CURLOPT_DNS_CACHE_TIMEOUT, RESOLVED_KEPT_S);
    SET(CURLOPT_MAXAGE_CONN, IDLE_MAX_S);
    SET(CURLOPT_TCP_KEEPALIVE, 1L);
    SET(CURLOPT_TCP_KEEPIDLE, KEEPALIVE_IDLE_S);
    SET(CURLOPT_TCP_KEEPINTVL, KEEPALIVE_EACH_S);
    SET(CURLOPT_BUFFERSIZE, READ_BUFFER_BYTES);
    SET(CURLOPT_UPLOAD_BUFFERSIZE, UPLOAD_BUFFER_BYTES);
    SET(CURLOPT_RESOLVER_START_FUNCTION, before_resolving);
    SET(CURLOPT_OPENSOCKETFUNCTION, open_socket);
    SET(CURLOPT_CLOSESOCKETFUNCTION, close_socket);
    SET(CURLOPT_PREREQFUNCTION, before_request);
    SET(CURLOPT_HEADERFUNCTION, on_head);
    SET(CURLOPT_WRITEFUNCTION, on_body);
    if (failed == CURLE_OK)
        return easy;
    curl_easy_cleanup(easy);
    return NULL;
}

static CURLcode set_time_limit(CURL *easy, long limit_ms)
{
    CURLcode failed = CURLE_OK;
    SET(CURLOPT_TIMEOUT_MS, limit_ms);
    SET(CURLOPT_CONNECTTIMEOUT_MS, limit_ms);
    return failed;
}

dt_status dt_client_exchange_attach(struct dt_client_exchange *exchange, void *easy, const char *addresses,
                                    int64_t now_us)
{
    dt_assert(!exchange->easy && !exchange->sent);
    exchange->limit_ms = dt_later((exchange->until_us - now_us) / 1000, 1);
    exchange->easy = easy;
    if (addresses) {
        /* The entry is "+host:port:addresses", with the host as in the URL, including a final dot. The plus makes the
         * entry expire. */
        size_t scheme = strlen(exchange->url.tls ? "https://" : "http://");
        bool dot = exchange->url_text[scheme + strlen(exchange->url.host)] == '.';
        dt_strbuf_addf(&exchange->resolved_text, "+%s%s:%u:%s", exchange->url.host, dot ? "." : "",
                       (unsigned)exchange->url.port, addresses);
        if (exchange->resolved_text.failed)
            return DT_NOMEM;
        *exchange->resolved = (struct curl_slist){exchange->resolved_text.p, NULL};
    }
    CURLcode failed = set_time_limit(easy, (long)exchange->limit_ms);
    SET(CURLOPT_URL, exchange->url_text);
    SET(CURLOPT_HTTPHEADER, exchange->headers - exchange->closes);
    SET(CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)exchange->body.n);
    SET(CURLOPT_POSTFIELDS, exchange->body.p);
    SET(CURLOPT_RESOLVE, exchange->resolved_text.n > 0 ? exchange->resolved : (struct curl_slist *)NULL);
    SET(CURLOPT_PRIVATE, (void *)exchange);
    SET(CURLOPT_RESOLVER_START_DATA, (void *)exchange);
    SET(CURLOPT_OPENSOCKETDATA, (void *)exchange);
    SET(CURLOPT_CLOSESOCKETDATA, (void *)exchange->guard);
    SET(CURLOPT_FRESH_CONNECT, exchange->fresh ? 1L : 0L);
    SET(CURLOPT_FORBID_REUSE, exchange->closes ? 1L : 0L);
    SET(CURLOPT_PREREQDATA, (void *)exchange);
    SET(CURLOPT_HEADERDATA, (void *)exchange);
    SET(CURLOPT_WRITEDATA, (void *)exchange);
    SET(CURLOPT_ERRORBUFFER, exchange->detail);
    return failed == CURLE_OK ? DT_OK : DT_NOMEM;
}

/* libcurl checks the new limit whenever it handles the exchange, but its timer keeps the first limit. So http_curl.c
 * ends prolonged exchanges whose limit has passed. */
int64_t dt_client_exchanges_prolong(struct dt_client_exchange *list, int64_t by_us)
{
    struct dt_client_exchange *exchange;
    int64_t first_us = INT64_MAX;
    if (by_us == 0)
        return first_us;
    DL_FOREACH(list, exchange)
    {
        if (exchange->no_turn)
            continue;
        exchange->until_us += by_us;
        exchange->wait_until_us += exchange->name ? by_us : 0;
        exchange->limit_ms += (by_us + 999) / 1000;
        exchange->prolonged = exchange->easy;
        if (exchange->easy)
            (void)set_time_limit(exchange->easy, (long)exchange->limit_ms);
        first_us = dt_earlier(first_us, exchange->until_us);
    }
    return first_us;
}

/* The arguments of callbacks stay set; libcurl uses them only while the handle is in a multi handle. */
void *dt_client_exchange_detach(struct dt_client_exchange *exchange)
{
    CURL *easy = exchange->easy;
    CURLcode failed = CURLE_OK;
    dt_assert(easy);
    SET(CURLOPT_HTTPHEADER, (struct curl_slist *)NULL);
    SET(CURLOPT_RESOLVE, (struct curl_slist *)NULL);
    SET(CURLOPT_POSTFIELDS, (char *)NULL);
    SET(CURLOPT_ERRORBUFFER, (char *)NULL);
    (void)failed;
    exchange->easy = NULL;
    return easy;
}

/* ---- requirements ---- */

dt_status dt_easy_check(const char *ca_file, struct dt_error *err)
{
    const curl_version_info_data *info = curl_version_info(CURLVERSION_NOW);
    unsigned protocols = 0;
    if (info->version_num < LIBCURL_LEAST)
        return dt_fail(err, DT_INVALID, "libcurl is %s, callbacks need 7.87 or newer", info->version);
    for (const char *const *protocol = info->protocols; *protocol; protocol++)
        protocols += strcmp(*protocol, "http") == 0 || strcmp(*protocol, "https") == 0;
    if (protocols != 2)
        return dt_fail(err, DT_INVALID, "libcurl %s was built without http or https", info->version);
    if (!ca_file || !ca_file[0])
        return DT_OK;
    /* libcurl reads the file of authorities only at the first connection, too late to report a wrong file at the
     * start. */
    char line[256];
    bool found = false;
    FILE *file = fopen(ca_file, "re");
    if (!file)
        return dt_fail(err, DT_INVALID, "%s cannot be read", ca_file);
    while (!found && fgets(line, sizeof(line), file))
        found = strncmp(line, CERTIFICATE_MARK, strlen(CERTIFICATE_MARK)) == 0;
    fclose(file);
    return found ? DT_OK : dt_fail(err, DT_INVALID, "%s has no PEM certificate", ca_file);
}

/* ---- the end ---- */

static bool is_tls_fault(int curl_code)
{
    switch (curl_code) {
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CERTPROBLEM:
    case CURLE_SSL_CIPHER:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_CRL_BADFILE:
    case CURLE_SSL_ISSUER_ERROR:
    case CURLE_SSL_PINNEDPUBKEYNOTMATCH:
    case CURLE_SSL_INVALIDCERTSTATUS:
    case CURLE_SSL_CLIENTCERT:
    case CURLE_SSL_ENGINE_INITFAILED:
        return true;
    default:
        return false;
    }
}

static enum dt_http_end exchange_end_of(const struct dt_client_exchange *exchange, int curl_code)
{
    if (exchange->head_whole)
        return DT_HTTP_ANSWERED;
    if (exchange->sent)
        return curl_code == CURLE_OPERATION_TIMEDOUT ? DT_HTTP_TIMEOUT : DT_HTTP_BROKEN;
    if (exchange->withheld)
        return DT_HTTP_WITHHELD;
    if (exchange->refused && !exchange->opened)
        return DT_HTTP_FORBIDDEN;
    if (curl_code == CURLE_OPERATION_TIMEDOUT)
        return DT_HTTP_TIMEOUT;
    if (curl_code == CURLE_COULDNT_RESOLVE_HOST)
        return DT_HTTP_DNS;
    return is_tls_fault(curl_code) ? DT_HTTP_TLS : DT_HTTP_CONNECT;
}

static struct dt_str header_value_text(const struct dt_head_value *value)
{
    return value->kept ? (struct dt_str){value->p, value->n} : DT_STR_NONE;
}

struct dt_http_answer dt_client_exchange_answer(struct dt_client_exchange *exchange, int curl_code, int64_t now_us)
{
    enum dt_http_end end = exchange_end_of(exchange, curl_code);
    struct dt_http_answer answer = {.end = end, .duration_ms = (now_us - exchange->taken_us) / 1000, .detail = ""};
    if (end != DT_HTTP_ANSWERED) {
        answer.detail = end == DT_HTTP_FORBIDDEN  ? "no address of the host is allowed"
                        : end == DT_HTTP_WITHHELD ? "it was not sent, because the lease of this process had ended"
                        : exchange->again         ? "the connection ended before an answer arrived"
                        : exchange->head_bytes > DT_HTTP_HEAD_MAX ? "the head of the answer is too large"
                        : curl_code == CURLE_OK                   ? "the connection ended within the head of the answer"
                        : exchange->detail[0]                     ? exchange->detail
                                                                  : curl_easy_strerror((CURLcode)curl_code);
        return answer;
    }
    answer.status = exchange->status;
    answer.content_type = header_value_text(&exchange->content_type);
    answer.retry_after = header_value_text(&exchange->retry_after);
    answer.body = exchange->answer_body.n > 0 ? dt_strbuf_str(&exchange->answer_body) : DT_STR_LIT("");
    answer.body_whole = curl_code == CURLE_OK;
    return answer;
}
