/* Each call for memory fails once, in the deliveries and the API. */
#include "features/tokens/tokens.h"
#include "unit/base/out_of_memory_suite.h"

#define NOW INT64_C(1795257000000) /* 2026-11-21T10:30:00Z */

/* ---- deliveries ---- */

static const struct dt_outgoing outgoing = {.claim = {42, 3, NOW},
                                            .topic = {"orders", 6},
                                            .key = {"a key with blanks", 17},
                                            .kafka_topic = {"orders", 6},
                                            .content_type = {"text/plain", 10},
                                            .headers = {"{\"x-a\":\"1\",\"x-b\":\"2\",\"x-c\":\"\\u00e9\"}", 36},
                                            .payload = {"{}", 2}};

/* Arena and JSON parser of a work; out of memory already when they cannot be had. */
struct desk {
    struct dt_arena arena;
    dt_json *json;
};

static dt_status sit_down(struct desk *desk)
{
    *desk = (struct desk){0};
    return dt_json_new(&desk->json);
}

static void get_up(struct desk *desk)
{
    dt_json_free(desk->json);
    dt_arena_clear(&desk->arena);
}

EACH_CALL_TEST(out_of_memory_a_message_is_complete_or_fails)
{
    struct desk desk;
    struct dt_kafka_message message;
    dt_status status = sit_down(&desk);
    if (status == DT_OK)
        status = dt_message_of_job(&outgoing, "duetime", NOW, desk.json, &desk.arena, &message);
    if (status == DT_OK)
        assert_int_equal(message.n_headers, 14); /* eleven of ours and the job's three */
    get_up(&desk);
    return status;
}

EACH_CALL_TEST(out_of_memory_the_head_of_a_callback_is_complete_or_fails)
{
    struct desk desk;
    struct dt_http_request request = {0};
    struct dt_callback_secret secret;
    struct dt_callback_setting setting = {"duetime", DT_STR_LIT("{\"x-a\":\"topic\",\"x-d\":\"4\"}"), &secret, 0};
    assert_null(dt_callback_secret_read(dt_str("whsec_QUJD whsec_REU="), &secret));
    dt_status status = sit_down(&desk);
    if (status == DT_OK)
        status = dt_request_head(&outgoing, &setting, NOW, desk.json, &desk.arena, &request);
    if (status == DT_OK)
        assert_int_equal(request.n_headers, 20); /* of the CloudEvent eleven, five of the webhook, and four */
    get_up(&desk);
    return status;
}

static dt_status judge_a_report(void)
{
    static const struct dt_http_answer answer = {
        .end = DT_HTTP_ANSWERED,
        .status = 200,
        .content_type = {"application/vnd.duetime.result+json", 35},
        .body = {"{\"status\":\"failed\",\"error\":{\"code\":\"c\\n\",\"message\":\"m\\n\"}}", 58},
        .body_whole = true,
        .detail = ""};
    static const struct dt_callback_attempt attempt = {.job_id = 42, .attempt = 3, .now_ms = NOW};
    struct desk desk;
    struct dt_callback_outcome outcome;
    dt_status status = sit_down(&desk);
    if (status == DT_OK)
        status = dt_callback_outcome(&answer, &attempt, desk.json, &desk.arena, &outcome);
    if (status == DT_OK) {
        assert_null(outcome.fault);
        assert_true(dt_str_is(outcome.result.error_code, "c\n"));
        assert_true(dt_str_is(outcome.result.error_message, "m\n"));
    }
    get_up(&desk);
    return status;
}

static dt_status judge_a_failure(void)
{
    static const struct dt_http_answer answer = {
        .end = DT_HTTP_ANSWERED, .status = 500, .body = {"why", 3}, .body_whole = true, .detail = ""};
    static const struct dt_callback_attempt attempt = {.job_id = 42, .attempt = 3, .now_ms = NOW};
    struct desk desk;
    struct dt_callback_outcome outcome;
    dt_status status = sit_down(&desk);
    if (status == DT_OK)
        status = dt_callback_outcome(&answer, &attempt, desk.json, &desk.arena, &outcome);
    if (status == DT_OK) {
        assert_true(dt_str_is(outcome.result.error_code, "http_500"));
        assert_true(dt_str_is(outcome.result.error_message, "why"));
    }
    get_up(&desk);
    return status;
}

TEST(out_of_memory_an_answer_has_its_outcome_or_none)
{
    at_each_call(judge_a_report);
    at_each_call(judge_a_failure);
}

EACH_CALL_TEST(out_of_memory_a_place_is_taken_or_fails)
{
    const struct dt_places_limits limits = {10, 5, 1000};
    const struct dt_place_for who = {1, DT_STR_LIT("t")};
    struct dt_place place;
    dt_places *places = NULL;
    dt_status status = dt_places_new(&limits, &places);
    if (status == DT_OK)
        status = dt_places_take(places, DT_STR_LIT("http://a:80"), &who, 1, 1, &place);
    if (status == DT_OK) {
        dt_places_give_back(places, &place, DT_PLACE_ANSWERED, 2);
        assert_int_equal(dt_places_taken(places), 0);
    }
    dt_places_free(places);
    return status;
}

/* settled_below: with 1, the record is one that was settled. */
static dt_status read_a_record(int64_t settled_below)
{
    struct dt_claim claims[] = {{1, 1, 10}, {2, 1, 20}};
    const struct dt_inflight inflight = {.v = claims, .n = 2};
    const struct dt_fence fence = {.shard = 3, .epoch = 18, .token = 5, .batch_no = 42, .inflight = 2, .send_n = 2};
    struct dt_fence before = fence;
    struct dt_ledger_view view;
    before.epoch = 17;
    STRBUF(record);
    dt_ledger_format_batch(&record, "u", &before, claims, 2);
    dt_status status = record.failed ? DT_NOMEM : dt_ledger_view_init(&view, "u", &fence, &inflight);
    if (status == DT_OK) {
        view.settled_below = settled_below;
        (void)dt_ledger_view_record(&view, 0, DT_LEDGER_BATCH, dt_strbuf_str(&record));
        status = view.status;
        assert_int_equal(view.strangers, 0);
        if (status == DT_OK && settled_below == 0)
            assert_int_equal(view.batches, 1);
        assert_int_equal(view.problem[0] != '\0', status == DT_OK && settled_below > 0); /* it should not be there */
        dt_ledger_view_clear(&view);
    }
    return status;
}

static dt_status read_a_new_record(void)
{
    return read_a_record(0);
}

static dt_status read_a_record_that_was_settled(void)
{
    return read_a_record(1);
}

TEST(out_of_memory_a_ledger_record_is_read_or_the_view_fails)
{
    at_each_call(read_a_new_record);
    at_each_call(read_a_record_that_was_settled);
}

EACH_CALL_TEST(out_of_memory_a_topic_is_queued_or_fails)
{
    dt_topic_queue *queue = NULL;
    char name[DT_TOPIC_NAME_MAX + 1];
    int64_t owner;
    dt_status status = dt_topic_queue_new(&queue);
    for (int i = 0; status == DT_OK && i < 10; i++) {
        snprintf(name, sizeof(name), "owner%d.topic", i);
        status = dt_topic_queue_add(queue, dt_str(name), i);
    }
    if (status == DT_OK)
        assert_int_equal(dt_topic_queue_length(queue), 10);
    while (queue && dt_topic_queue_take(queue, 1, name, &owner))
        assert_memory_equal(name, "owner", 5);
    dt_topic_queue_free(queue);
    return status;
}

/* ---- api ---- */

static struct dt_token tokens[2] = {{.name = {"a", 1}, .hash = {1}, .scopes = {"admin", 5}, .topics = {"*", 1}},
                                    {.name = {"b", 1}, .scopes = {"read", 4}, .topics = {"orders.,mail", 12}}};

static char header[sizeof("Bearer ") + DT_TOKEN_TEXT_MAX]; /* that shows the second one */

static dt_status set_tokens(void)
{
    dt_auth *auth = NULL;
    dt_status status = dt_auth_new(false, NULL, &auth);
    if (status != DT_OK)
        return status;
    status = dt_auth_set(auth, tokens, 2, DT_TOKENS_ASKED);
    assert_int_equal(dt_auth_known(auth), status == DT_OK);
    if (status == DT_OK) {
        struct dt_caller caller;
        assert_int_equal(dt_auth_check(auth, dt_str(header), &caller), DT_OK);
        assert_true(dt_topic_within(dt_caller_bound(&caller), DT_STR_LIT("orders.x")));
        assert_true(dt_topic_within(dt_caller_bound(&caller), DT_STR_LIT("mail")));
        assert_false(dt_topic_within(dt_caller_bound(&caller), DT_STR_LIT("other")));
        dt_caller_clear(&caller);
    }
    dt_auth_free(auth);
    return status;
}

TEST(out_of_memory_a_token_list_is_replaced_as_a_whole_or_not)
{
    char text[DT_TOKEN_TEXT_MAX];
    assert_int_equal(dt_auth_make_token(text, tokens[1].hash, NULL), DT_OK);
    snprintf(header, sizeof(header), "Bearer %s", text);
    at_each_call(set_tokens);
}

EACH_CALL_TEST(out_of_memory_a_cursor_is_sealed_or_fails)
{
    static const unsigned char key[DT_CURSOR_KEY] = {1};
    static const struct dt_str prefixes[] = {{"orders.", 7}};
    const struct dt_caller caller = {.scopes = DT_SCOPE_READ, .topics = {prefixes, 1}};
    struct dt_cursor_list list;
    STRBUF(text);
    dt_status status = dt_cursor_list_init(&list, key, 'i', &caller, prefixes, 1);
    if (status == DT_OK)
        dt_cursor_add(&text, &list, DT_STR_LIT("7316522"));
    if (status == DT_OK && text.failed)
        status = DT_NOMEM;
    if (status == DT_OK)
        assert_true(text.n > 0);
    return status;
}

static const struct dt_job_rules rules = {.max_delay_ms = DT_DAY_MS,
                                          .payload_max = 1000,
                                          .headers_max = 100,
                                          .json_depth = 8,
                                          .installation = {"duetime", 7}};

static size_t all_faults; /* of the body at fault, as they were found the first time */

static void judge_decoded(dt_status status, const struct dt_new_job *job, const struct dt_faults *faults)
{
    if (status == DT_OK) {
        assert_true(dt_str_is(job->topic, "orders"));
        assert_true(dt_str_is(job->key, "k\n"));
        assert_true(job->headers.n > 0);
    } else {
        all_faults = all_faults ? all_faults : faults->n;
        assert_int_equal(faults->n, all_faults);
    }
}

/* OK also for a body at fault of which all faults are told. */
static dt_status decode(const char *body)
{
    const struct dt_json_limits limits = dt_job_json_limits(rules.json_depth);
    const struct dt_job_path path = {DT_STR_NONE, DT_STR_NONE};
    struct desk desk;
    struct dt_faults faults = {.arena = &desk.arena};
    struct dt_new_job job;
    struct dt_error err = {0};
    dt_status status = sit_down(&desk);
    if (status == DT_OK)
        status = dt_json_parse(desk.json, dt_str(body), &limits, &err);
    if (status == DT_OK) {
        status = dt_job_decode(desk.json, &rules, &path, NOW, &faults, &job);
        status = faults.failed ? DT_NOMEM : status;
        if (status == DT_OK || status == DT_INVALID)
            judge_decoded(status, &job, &faults);
    }
    get_up(&desk);
    return status == DT_INVALID ? DT_OK : status;
}

static dt_status decode_a_job(void)
{
    return decode(
        "{\"topic\":\"orders\",\"key\":\"k\\n\",\"delay\":\"PT5M\",\"retry\":[\"15s\",\"3m\"],\"headers\":{\"b\":"
        "\"2\",\"a\":\"\\u00e9\"},\"partition_key\":\"p\",\"payload\":{\"x\":[1,2,3]}}");
}

static dt_status decode_what_is_no_job(void)
{
    return decode("{\"topic\":5,\"keys\":1,\"delay\":\"soon\",\"retry\":[\"15s\",\"x\",\"y\"]}");
}

TEST(out_of_memory_a_body_is_decoded_with_all_its_faults_or_fails)
{
    at_each_call(decode_a_job);
    assert_int_equal(decode_what_is_no_job(), DT_OK);
    assert_true(all_faults >= 4);
    at_each_call(decode_what_is_no_job);
}
