/* Texts of callbacks that come from outside: URLs, secrets, headers, networks, dates, and what answers say. The first
 * byte picks the reader. What is taken must hold what its header promises. */
#include "base/http/callback_rules.h"
#include "base/http/webhook.h"
#include "deliver/http/callback.h"
#include "fuzz.h"

#define NOW       INT64_C(1795273967083)
#define MAX_DELAY INT64_C(86400000)

/* A URL that is taken belongs to a host whose own URL has the same key. */
static void read_url(struct dt_str text)
{
    struct dt_callback_url url;
    struct dt_callback_url again;
    if (dt_callback_url_check(text, &url))
        return;
    MUST(url.port > 0 && url.host[0]);
    MUST(!dt_callback_url_check(dt_str(url.key), &again));
    MUST(strcmp(url.key, again.key) == 0 && strcmp(url.host, again.host) == 0);
}

static void read_names(struct dt_str text)
{
    struct dt_networks networks;
    struct dt_error err = {0};
    if (dt_networks_parse(text, &networks, &err) == DT_OK)
        MUST(networks.n <= DT_NETWORKS_MAX);
    else
        MUST(networks.n == 0 && err.text[0]);
    if (dt_host_names_check(text, &err) == DT_OK)
        (void)dt_host_allowed(text, "hooks.example.com");
    (void)dt_callback_header_name_check(text);
    (void)dt_callback_header_value_check(text);
}

static void read_secret(struct dt_str text)
{
    struct dt_callback_secret secret;
    if (!dt_callback_secret_read(text, &secret))
        MUST(secret.n >= 1 && secret.n <= DT_CALLBACK_SECRETS && secret.keys[secret.n - 1].n > 0);
}

static void read_delay(struct dt_str text)
{
    int64_t ms = -1;
    if (dt_retry_after_parse(text, NOW, MAX_DELAY, &ms))
        MUST(ms >= 0 && ms <= MAX_DELAY);
    else
        MUST(ms == -1);
}

static void judge(struct dt_str text, int status)
{
    static dt_json *json;
    struct dt_arena arena = {0};
    struct dt_callback_outcome outcome;
    struct dt_callback_attempt attempt = {42, 3, NOW, MAX_DELAY};
    struct dt_http_answer answer = {.end = DT_HTTP_ANSWERED,
                                    .status = status,
                                    .content_type = DT_STR_LIT("application/vnd.duetime.result+json"),
                                    .body = text,
                                    .body_whole = true,
                                    .detail = ""};
    MUST(json || dt_json_new(&json) == DT_OK);
    MUST(dt_callback_outcome(&answer, &attempt, json, &arena, &outcome) == DT_OK);
    MUST(outcome.kind == DT_CALLBACK_RESULT && outcome.result.job_id == 42 && outcome.result.attempt == 3);
    MUST(dt_utf8_valid(dt_http_message(text, &arena)));
    dt_arena_clear(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input in = {(const char *)data, size};
    unsigned char reader = input_byte(&in);
    struct dt_str text = exact_copy(input_rest(&in));
    switch (reader % 6) {
    case 0:
        read_url(text);
        break;
    case 1:
        read_names(text);
        break;
    case 2:
        read_secret(text);
        break;
    case 3:
        read_delay(text);
        break;
    default:
        judge(text, reader % 6 == 4 ? 200 : 503);
    }
    free_copy(text);
    return 0;
}
