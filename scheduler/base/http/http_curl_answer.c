/*
 * Reading an answer: its head line by line, its body to a bound, and how the exchange ended.
 *
 * A head is whole at its blank line. From there on its status decides: whatever ends the exchange afterwards (a
 * timeout, a broken connection, a body that is too large) only means that the body is not whole. Interim heads (1xx) do
 * not count, except 101, after which no other head follows. All heads together have a bound, so that no receiver drips
 * interim heads for ever.
 */
#include <curl/curl.h>

#include "base/assert.h"
#include "http_curl.h"

#define STATUS_SWITCHED 101
#define STATUS_FINAL    200

/* ---- the head ---- */

static void keep(struct dt_head_value *out, struct dt_str value)
{
    if (out->seen)
        return;
    out->seen = true;
    out->kept = value.n <= sizeof(out->p);
    out->n = value.n;
    if (out->kept && value.n > 0)
        memcpy(out->p, value.p, value.n);
}

size_t dt_client_exchange_on_head(char *line, size_t size, size_t n, void *arg)
{
    struct dt_client_exchange *exchange = arg;
    struct dt_str text = {line, size * n};
    if (exchange->head_whole)
        return size * n; /* a trailer after the body */
    exchange->head_bytes += size * n;
    if (exchange->head_bytes > DT_HTTP_HEAD_MAX)
        return 0; /* ends the exchange */
    while (text.n > 0 && (text.p[text.n - 1] == '\n' || text.p[text.n - 1] == '\r'))
        text.n--;
    if (!exchange->in_head) { /* the status line */
        exchange->in_head = true;
        exchange->content_type.seen = exchange->content_type.kept = false;
        exchange->retry_after.seen = exchange->retry_after.kept = false;
        return size * n;
    }
    if (text.n == 0) { /* the end of the head */
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
        keep(&exchange->content_type, value);
    else if (dt_str_is_caseless(name, "retry-after"))
        keep(&exchange->retry_after, value);
    exchange->chunked |= dt_str_is_caseless(name, "transfer-encoding");
    return size * n;
}

/* ---- the body ---- */

size_t dt_client_exchange_on_body(char *bytes, size_t size, size_t n, void *arg)
{
    struct dt_client_exchange *exchange = arg;
    dt_assert_cmp(exchange->answer_body.n, <=, DT_HTTP_BODY_MAX);
    size_t room = DT_HTTP_BODY_MAX - exchange->answer_body.n;
    size_t taken = size * n < room ? size * n : room;
    dt_strbuf_add(&exchange->answer_body, bytes, taken);
    return exchange->answer_body.failed ? 0 : taken; /* less than there is: ends the exchange */
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

static enum dt_http_end end_of(const struct dt_client_exchange *exchange, int curl_code)
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

static const char *detail_of(const struct dt_client_exchange *exchange, enum dt_http_end end, int curl_code)
{
    if (end == DT_HTTP_ANSWERED)
        return "";
    if (end == DT_HTTP_FORBIDDEN)
        return "no address of the host is allowed";
    if (end == DT_HTTP_WITHHELD)
        return "it was withheld";
    if (exchange->again)
        return "the connection ended before an answer came";
    if (exchange->head_bytes > DT_HTTP_HEAD_MAX)
        return "the head of the answer is too large";
    if (curl_code == CURLE_OK)
        return "the connection ended within the head of the answer";
    return exchange->detail[0] ? exchange->detail : curl_easy_strerror((CURLcode)curl_code);
}

static struct dt_str text_of(const struct dt_head_value *value)
{
    return value->kept ? (struct dt_str){value->p, value->n} : DT_STR_NONE;
}

struct dt_http_answer dt_client_exchange_answer(struct dt_client_exchange *exchange, int curl_code, int64_t now_us)
{
    enum dt_http_end end = end_of(exchange, curl_code);
    struct dt_http_answer answer = {
        .end = end, .duration_ms = (now_us - exchange->taken_us) / 1000, .detail = detail_of(exchange, end, curl_code)};
    if (end != DT_HTTP_ANSWERED)
        return answer;
    answer.status = exchange->status;
    answer.content_type = text_of(&exchange->content_type);
    answer.retry_after = text_of(&exchange->retry_after);
    answer.body = exchange->answer_body.n > 0 ? dt_strbuf_str(&exchange->answer_body) : DT_STR_LIT("");
    answer.body_whole = curl_code == CURLE_OK;
    return answer;
}
