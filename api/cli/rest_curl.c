/* The adapter to libcurl. Redirects are not followed, so that a token is sent to no other server. */
#include <curl/curl.h>
#include <signal.h>
#include <strings.h>

#include "base/clock.h"
#include "rest.h"

#define LAST_WAIT_US 2000000 /* time to wait for the answer after a signal was caught */

struct dt_rest {
    CURL *easy;
    const struct dt_cli_settings *settings;
    struct dt_rest_answer *answer; /* answer of the running request */
    int64_t signalled_us;          /* when the signal was noticed during the running request; 0: not noticed */
    char error[CURL_ERROR_SIZE];
};

/* ---- the answer ---- */

static size_t append_body(char *p, size_t size, size_t n, void *arg)
{
    struct dt_rest_answer *answer = arg;
    if (answer->body.n + size * n > DT_REST_ANSWER_MAX)
        return 0;
    dt_strbuf_add(&answer->body, p, size * n);
    return answer->body.failed ? 0 : size * n;
}

static size_t read_header(char *p, size_t size, size_t n, void *arg)
{
    static const char date[] = "date:";
    static const char retry[] = "retry-after:";
    struct dt_rest_answer *answer = arg;
    char line[128];
    snprintf(line, sizeof(line), "%.*s", (int)(size * n < sizeof(line) ? size * n : sizeof(line) - 1), p);
    if (strncasecmp(line, date, sizeof(date) - 1) == 0)
        answer->date_s = (int64_t)curl_getdate(line + sizeof(date) - 1, NULL);
    if (strncasecmp(line, retry, sizeof(retry) - 1) == 0)
        answer->retry_after_s = strtol(line + sizeof(retry) - 1, NULL, 10);
    return size * n;
}

/* ---- signals ---- */

static volatile sig_atomic_t caught;

static void catch_signal(int number)
{
    caught = number;
}

void dt_rest_catch_signals(void)
{
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
    struct sigaction action = {.sa_handler = catch_signal, .sa_flags = (int)SA_RESETHAND};
    struct sigaction before;
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
        if (sigaction(numbers[i], NULL, &before) == 0 &&
            before.sa_handler == SIG_DFL) /* a signal that the program ignores, as under nohup, stays ignored */
            sigaction(numbers[i], &action, NULL);
}

int dt_rest_signal(void)
{
    return caught;
}

/* Called by libcurl at least once a second. A result other than 0 ends the request. */
static int check_signal(void *arg, curl_off_t, curl_off_t, curl_off_t, curl_off_t)
{
    dt_rest *rest = arg;
    int64_t now_us = dt_clock_mono_us(dt_clock_system());
    if (caught && !rest->signalled_us)
        rest->signalled_us = now_us;
    return caught && now_us - rest->signalled_us > LAST_WAIT_US;
}

/* ---- handles ---- */

/* Returns the path of a Unix socket if the URL is unix:/path, else NULL. */
static const char *unix_socket_path(const struct dt_cli_settings *settings)
{
    return strncmp(settings->url, "unix:", 5) == 0 ? settings->url + 5 : NULL;
}

dt_status dt_rest_new(const struct dt_cli_settings *settings, dt_rest **out, struct dt_error *err)
{
    dt_rest *rest = calloc(1, sizeof(*rest));
    if (!rest)
        return dt_fail(err, DT_NOMEM, "out of memory");
    rest->settings = settings;
    if (curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK)
        rest->easy = curl_easy_init();
    if (!rest->easy) {
        free(rest);
        return dt_fail(err, DT_NOMEM, "libcurl cannot be used");
    }
    curl_easy_setopt(rest->easy, CURLOPT_ERRORBUFFER, rest->error);
    curl_easy_setopt(rest->easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(rest->easy, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(rest->easy, CURLOPT_CONNECTTIMEOUT_MS, 5000L);
    curl_easy_setopt(rest->easy, CURLOPT_USERAGENT, "duetime-cli/" DUETIME_VERSION);
    curl_easy_setopt(rest->easy, CURLOPT_ACCEPT_ENCODING, "");
    curl_easy_setopt(rest->easy, CURLOPT_CERTINFO, 1L);
    curl_easy_setopt(rest->easy, CURLOPT_WRITEFUNCTION, append_body);
    curl_easy_setopt(rest->easy, CURLOPT_HEADERFUNCTION, read_header);
    curl_easy_setopt(rest->easy, CURLOPT_XFERINFOFUNCTION, check_signal);
    curl_easy_setopt(rest->easy, CURLOPT_XFERINFODATA, rest);
    curl_easy_setopt(rest->easy, CURLOPT_NOPROGRESS, 0L);
    if (settings->ca_file)
        curl_easy_setopt(rest->easy, CURLOPT_CAINFO, settings->ca_file);
    if (settings->cert_file) {
        curl_easy_setopt(rest->easy, CURLOPT_SSLCERT, settings->cert_file);
        curl_easy_setopt(rest->easy, CURLOPT_SSLKEY, settings->key_file ? settings->key_file : settings->cert_file);
    }
    if (unix_socket_path(settings))
        curl_easy_setopt(rest->easy, CURLOPT_UNIX_SOCKET_PATH, unix_socket_path(settings));
    *out = rest;
    return DT_OK;
}

void dt_rest_free(dt_rest *rest)
{
    if (!rest)
        return;
    curl_easy_cleanup(rest->easy);
    curl_global_cleanup();
    free(rest);
}

/* ---- a request ---- */

static bool add_header(struct curl_slist **headers, const char *name, const char *value)
{
    struct dt_strbuf line = {0};
    dt_strbuf_addf(&line, "%s: %s", name, value);
    struct curl_slist *longer = line.failed ? NULL : curl_slist_append(*headers, line.p);
    dt_strbuf_clear(&line);
    *headers = longer ? longer : *headers;
    return longer;
}

/* Sends the request and receives its answer. */
static dt_status perform_request(dt_rest *rest, struct dt_error *err)
{
    /* If libcurl returns one of these errors, the request was not sent. */
    static const CURLcode early[] = {CURLE_COULDNT_CONNECT,          CURLE_COULDNT_RESOLVE_HOST,
                                     CURLE_COULDNT_RESOLVE_PROXY,    CURLE_SSL_CONNECT_ERROR,
                                     CURLE_PEER_FAILED_VERIFICATION, CURLE_SSL_CACERT_BADFILE,
                                     CURLE_SSL_CERTPROBLEM};
    struct curl_certinfo *chain = NULL;
    long status = 0;
    rest->error[0] = '\0';
    CURLcode code = curl_easy_perform(rest->easy);
    rest->answer->reached = true;
    for (size_t i = 0; i < sizeof(early) / sizeof(early[0]); i++)
        rest->answer->reached &= code != early[i];
    if (code == CURLE_WRITE_ERROR)
        return dt_fail(err, DT_TOO_LARGE, "the answer is longer than %zu MiB", DT_REST_ANSWER_MAX >> 20);
    if (code == CURLE_ABORTED_BY_CALLBACK)
        return dt_fail(err, DT_UNAVAILABLE, "%s: interrupted before an answer arrived", rest->settings->url);
    if (code != CURLE_OK)
        return dt_fail(err, DT_UNAVAILABLE, "%s: %s", rest->settings->url,
                       rest->error[0] ? rest->error : curl_easy_strerror(code));
    curl_easy_getinfo(rest->easy, CURLINFO_RESPONSE_CODE, &status);
    rest->answer->status = (int)status;
    if (curl_easy_getinfo(rest->easy, CURLINFO_CERTINFO, &chain) != CURLE_OK || !chain || chain->num_of_certs < 1)
        return DT_OK;
    for (struct curl_slist *line = chain->certinfo[0]; line; line = line->next)
        if (strncmp(line->data, "Expire date:", 12) == 0)
            rest->answer->cert_ends_at_s = (int64_t)curl_getdate(line->data + 12, NULL);
    return DT_OK;
}

dt_status dt_rest_ask(dt_rest *rest, const struct dt_rest_request *request, struct dt_rest_answer *answer,
                      struct dt_error *err)
{
    const struct dt_cli_settings *settings = rest->settings;
    struct curl_slist *headers = NULL;
    struct dt_strbuf url = {0};
    struct dt_strbuf bearer = {0};
    dt_strbuf_reset(&answer->body);
    answer->status = 0;
    answer->date_s = answer->retry_after_s = answer->cert_ends_at_s = 0;
    rest->answer = answer;
    dt_strbuf_addf(&url, "%s%s", unix_socket_path(settings) ? "http://localhost" : settings->url, request->path);
    dt_strbuf_addf(&bearer, "Bearer %s", settings->token ? settings->token : "");
    bool good = !url.failed && !bearer.failed && add_header(&headers, "Expect", "");
    if (settings->token)
        good = good && add_header(&headers, "Authorization", bearer.p);
    if (request->body.p)
        good = good && add_header(&headers, "Content-Type", request->type ? request->type : "application/json");
    curl_easy_setopt(rest->easy, CURLOPT_URL, url.p);
    curl_easy_setopt(rest->easy, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(rest->easy, CURLOPT_TIMEOUT_MS, (long)(settings->timeout_ms + request->timeout_ms));
    curl_easy_setopt(rest->easy, CURLOPT_WRITEDATA, answer);
    curl_easy_setopt(rest->easy, CURLOPT_HEADERDATA, answer);
    curl_easy_setopt(rest->easy, CURLOPT_POSTFIELDS, NULL);
    curl_easy_setopt(rest->easy, CURLOPT_HTTPGET, 1L);
    if (request->body.p || strcmp(request->method, "POST") == 0) {
        curl_easy_setopt(rest->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)request->body.n);
        curl_easy_setopt(rest->easy, CURLOPT_POSTFIELDS, request->body.p ? request->body.p : "");
    }
    curl_easy_setopt(rest->easy, CURLOPT_CUSTOMREQUEST, request->method);
    dt_status status = good ? perform_request(rest, err) : dt_fail(err, DT_NOMEM, "out of memory");
    curl_slist_free_all(headers);
    dt_strbuf_clear(&bearer);
    dt_strbuf_clear(&url);
    return status;
}

void dt_rest_add_encoded(struct dt_strbuf *out, const char *text)
{
    static const char digits[] = "0123456789ABCDEF";
    static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~";
    for (const char *p = text; *p; p++) {
        unsigned char c = (unsigned char)*p;
        if (strchr(plain, *p))
            dt_strbuf_addc(out, *p);
        else
            dt_strbuf_add(out, (char[3]){'%', digits[c >> 4], digits[c & 15]}, 3);
    }
}
