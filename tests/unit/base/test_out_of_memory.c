/* Each call for memory fails once, in the base, the store and the index. */
#include "redis/redis_subscriber.h"
#include "unit/base/out_of_memory_suite.h"

static struct dt_error err;

/* ---- base ---- */

EACH_CALL_TEST(out_of_memory_json_is_read_or_fails)
{
    dt_json *json = NULL;
    STRBUF(text);
    dt_strbuf_adds(&text, "{\"numbers\":[");
    for (int i = 0; i < 300; i++)
        dt_strbuf_addf(&text, "%s%d.5", i ? "," : "", i);
    dt_strbuf_addc(&text, ']');
    for (int i = 0; i < 300; i++)
        dt_strbuf_addf(&text, ",\"name %d\":{\"\\u00e9\":\"\\ud83d\\ude00\"}", i);
    dt_strbuf_addc(&text, '}');
    dt_status status = text.failed ? DT_NOMEM : dt_json_new(&json);
    if (status == DT_OK)
        status = dt_json_parse(json, dt_strbuf_str(&text), &(struct dt_json_limits){.depth = 4}, &err);
    if (status == DT_OK)
        assert_int_equal(dt_json_member(json, dt_json_root(json), "numbers")->n, 300);
    dt_json_free(json);
    return status;
}

EACH_CALL_TEST(out_of_memory_a_job_is_written_completely_or_the_buffer_fails)
{
    const struct dt_job job = {.id = 7,
                               .topic = DT_STR_LIT("t"),
                               .headers = DT_STR_LIT("{\"x\":\"y\"}"),
                               .payload = DT_STR_LIT("{\"a\":[1,\"\\u00e9\"]}")};
    struct dt_job_view view = {.payload = true};
    STRBUF(out);
    dt_status status = dt_json_new(&view.check);
    if (status == DT_OK) {
        dt_job_add(&out, &job, &view);
        status = out.failed ? DT_NOMEM : DT_OK;
    }
    if (status == DT_OK) {
        assert_non_null(strstr(out.p, "\"payload\":{\"a\":[1,\"\\u00e9\"]}"));
        assert_non_null(strstr(out.p, "\"headers\":{\"x\":\"y\"}"));
    }
    dt_json_free(view.check);
    return status;
}

EACH_CALL_TEST(out_of_memory_a_configuration_is_loaded_or_fails)
{
    struct dt_config config;
    dt_status status = dt_config_load(&config, NULL, &err);
    if (status == DT_OK)
        assert_non_null(config.redis_endpoints);
    dt_config_clear(&config);
    return status;
}

EACH_CALL_TEST(out_of_memory_a_metric_is_registered_or_fails)
{
    static int tries;
    struct dt_strbuf out = {0};
    char name[40];
    char line[60];
    snprintf(name, sizeof(name), "t_memory_%d_total", ++tries);
    snprintf(line, sizeof(line), "\n%s{a=\"b\"} 3\n", name);
    dt_metric *metric = dt_counter(name, "Of a test.", "a=\"b\"");
    dt_metric_add(metric, 3);
    dt_metrics_write(&out);
    bool there = out.p && strstr(out.p, line);
    if (!out.failed)
        assert_int_equal(there, metric != NULL);
    dt_strbuf_clear(&out);
    return there ? DT_OK : DT_NOMEM;
}

EACH_CALL_TEST(out_of_memory_a_mailbox_is_made_or_fails)
{
    dt_mailbox *box = NULL;
    dt_status status = dt_mailbox_new(&box);
    dt_mailbox_free(box);
    return status;
}

/* ---- store and index ---- */

EACH_CALL_TEST(out_of_memory_counters_are_complete_or_marked_incomplete)
{
    struct dt_counts counts;
    char names[100][8];
    dt_counts_init(&counts);
    for (int i = 0; i < 100; i++) {
        snprintf(names[i], sizeof(names[i]), "t%02d", i);
        dt_counts_make(&counts, dt_str(names[i]), 1);
    }
    bool whole = !counts.failed;
    if (whole)
        assert_int_equal(counts.n, 100);
    dt_counts_clear(&counts);
    return whole ? DT_OK : DT_NOMEM;
}

EACH_CALL_TEST(out_of_memory_a_list_of_claims_is_read_or_fails)
{
    struct dt_inflight claims = {0};
    STRBUF(text);
    for (int i = 0; i < 200; i++)
        dt_strbuf_addf(&text, "%s[%d,1,%d]", i ? "," : "[", i + 1, 1000 + i);
    dt_strbuf_addc(&text, ']');
    dt_status status = text.failed ? DT_NOMEM : dt_inflight_parse(dt_strbuf_str(&text), &claims);
    if (status == DT_OK) {
        assert_int_equal(claims.n, 200);
        assert_int_equal(claims.v[199].due_ms, 1199);
    }
    free(claims.v);
    return status;
}

EACH_CALL_TEST(out_of_memory_a_store_is_made_or_fails)
{
    struct dt_config config;
    dt_store *store = NULL;
    dt_status status = dt_config_load(&config, NULL, &err);
    if (status == DT_OK)
        status = dt_store_new(&config, NULL, &store);
    dt_store_free(store);
    dt_config_clear(&config);
    return status;
}

EACH_CALL_TEST(out_of_memory_endpoints_are_read_or_fail)
{
    struct dt_endpoint *endpoints;
    unsigned n;
    dt_status status = dt_endpoints_parse("a:1,b:2,[::1]:3", &endpoints, &n, &err);
    assert_int_equal(n, status == DT_OK ? 3 : 0);
    assert_int_equal(endpoints != NULL, status == DT_OK);
    dt_endpoints_free(endpoints, n);
    return status;
}

EACH_CALL_TEST(out_of_memory_an_index_is_made_or_fails)
{
    struct dt_config config = {.redis_endpoints = (char *)(uintptr_t) "127.0.0.1:1,127.0.0.1:2", .redis_timeout = 100};
    dt_index *index = NULL;
    dt_status status = dt_index_new(&config, "duetime", dt_clock_system(), &index, &err);
    if (status == DT_OK)
        dt_index_free(index);
    return status;
}

STUB(static void, nobody_called, (void *arg, int shard, bool outbox), )

EACH_CALL_TEST(out_of_memory_a_wake_channel_is_started_or_fails)
{
    struct dt_config config = {.redis_endpoints = (char *)(uintptr_t) "127.0.0.1:1,127.0.0.1:2", .redis_timeout = 100};
    dt_wake *wake = NULL;
    dt_status status = dt_wake_start(&config, "duetime", nobody_called, NULL, &wake, &err);
    if (status == DT_OK)
        dt_wake_stop(wake);
    return status;
}
