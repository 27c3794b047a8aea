/*
 * The bare limit of callbacks: a libcurl multi client that sends the same requests over as many connections.
 *
 *   caller URL REQUESTS CONNECTIONS    prints requests a second
 */
#include <curl/curl.h>

#include "wire.h"

#define PAYLOAD 200

static struct curl_slist *headers;
static char payload[PAYLOAD + 1];

static size_t nothing(char *, size_t size, size_t n, void *)
{
    return size * n;
}

/* As many as a callback has, and as long. */
static void make_headers(void)
{
    static const char *const LINES[] = {"content-type: application/json",
                                        "ce-specversion: 1.0",
                                        "ce-id: 763204217552106/1",
                                        "ce-source: /duetime/duetime",
                                        "ce-type: calls",
                                        "ce-time: 2026-11-26T00:00:00.000Z",
                                        "ce-scheduledtime: 2026-11-26T00:00:00.000Z",
                                        "ce-jobid: 763204217552106",
                                        "ce-attempt: 1",
                                        "idempotency-key: 763204217552106/1",
                                        "webhook-id: 763204217552106/1",
                                        "webhook-timestamp: 1795653059",
                                        "user-agent: duetime/0.1.0",
                                        "expect:",
                                        "accept:"};
    for (size_t i = 0; i < sizeof LINES / sizeof *LINES; i++)
        headers = curl_slist_append(headers, LINES[i]);
    memset(payload, 'x', PAYLOAD);
}

static CURL *request_to(const char *url)
{
    CURL *easy = curl_easy_init();
    curl_easy_setopt(easy, CURLOPT_URL, url);
    curl_easy_setopt(easy, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(easy, CURLOPT_POSTFIELDS, payload);
    curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE, (long)PAYLOAD);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, nothing);
    curl_easy_setopt(easy, CURLOPT_NOPROXY, "*");
    return easy;
}

/* Each request that has ended is followed by the next one; how many have. */
static long followed(CURLM *multi, long *left)
{
    long ended = 0;
    int queued;
    for (CURLMsg *said; (said = curl_multi_info_read(multi, &queued)); ended++) {
        CURL *easy = said->easy_handle;
        if (said->data.result != CURLE_OK)
            die("request", curl_easy_strerror(said->data.result));
        curl_multi_remove_handle(multi, easy);
        if ((*left)-- > 0)
            curl_multi_add_handle(multi, easy);
    }
    return ended;
}

int main(int argc, char **argv)
{
    if (argc != 4)
        die("usage", "caller URL REQUESTS CONNECTIONS");
    long wanted = atol(argv[2]), connections = atol(argv[3]), left = wanted - connections, done = 0;
    curl_global_init(CURL_GLOBAL_ALL);
    make_headers();
    CURLM *multi = curl_multi_init();
    curl_multi_setopt(multi, CURLMOPT_MAXCONNECTS, connections);
    for (long i = 0; i < connections && i < wanted; i++)
        curl_multi_add_handle(multi, request_to(argv[1]));
    double began = now();
    for (int running; done < wanted; done += followed(multi, &left)) {
        curl_multi_perform(multi, &running);
        if (running)
            curl_multi_poll(multi, NULL, 0, 100, NULL);
    }
    printf("%.1f\n", (double)wanted / (now() - began));
    return 0;
}
