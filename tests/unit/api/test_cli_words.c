/* Command lines are judged by the table, and requests are made of them. */

#include "support/suite.h"

#include "cli/words.h"

#define WORDS(...) ((char *[]){__VA_ARGS__})
#define READ(call, err, ...)                                                                                           \
    dt_cli_read_words((int)(sizeof(WORDS(__VA_ARGS__)) / sizeof(char *)), WORDS(__VA_ARGS__), call, err)

TEST(the_distance_of_words_counts_changed_letters_and_swaps)
{
    assert_int_equal(dt_cli_distance("topic", "topic", 3), 0);
    assert_int_equal(dt_cli_distance("tpic", "topic", 3), 1);
    assert_int_equal(dt_cli_distance("tpoic", "topic", 3), 1);
    assert_int_equal(dt_cli_distance("", "abc", 3), 3);
    assert_int_equal(dt_cli_distance("kitten", "sitting", 3), 3);
    assert_int_equal(dt_cli_distance("12345678901234567890123456789012345678901", "x", 3), 4);
}

TEST(command_line_words_become_a_call)
{
    struct dt_cli_call call;
    assert_int_equal(READ(&call, NULL, "jobs", "get", "orders", "--", "--key"), DT_OK);
    assert_string_equal(call.verb->verb, "get");
    assert_int_equal(call.n_args, 2);
    assert_string_equal(call.args[1], "--key");
    assert_int_equal(READ(&call, NULL, "--json", "job", "list", "--topic=a=b", "--state", "dead"), DT_OK);
    assert_string_equal(dt_cli_value(&call, "topic"), "a=b");
    assert_string_equal(dt_cli_value(&call, "state"), "dead");
    assert_non_null(dt_cli_value(&call, "json"));
    assert_null(dt_cli_value(&call, "limit"));
}

static const char *time_of(const char *text)
{
    static struct dt_cli_times room;
    static struct dt_cli_call call;
    assert_int_equal(READ(&call, NULL, "jobs", "list", "--due-from", (char *)(uintptr_t)text, "--topic", "now"), DT_OK);
    dt_cli_fix_times(&call, INT64_C(1795650061007), &room);
    assert_string_equal(dt_cli_value(&call, "topic"), "now");
    return dt_cli_value(&call, "due-from");
}

TEST(times_may_be_words)
{
    assert_string_equal(time_of("now"), "2026-11-25T23:41:01.007Z");
    assert_string_equal(time_of("today"), "2026-11-25T00:00:00.000Z");
    assert_string_equal(time_of("yesterday"), "2026-11-24T00:00:00.000Z");
    assert_string_equal(time_of("tomorrow"), "2026-11-26T00:00:00.000Z");
    assert_string_equal(time_of("-1h"), "2026-11-25T22:41:01.007Z");
    assert_string_equal(time_of("+P1D"), "2026-11-26T23:41:01.007Z");
    assert_string_equal(time_of("2027-01-01T00:00:00Z"), "2027-01-01T00:00:00Z");
    assert_string_equal(time_of("-x"), "-x");
    assert_string_equal(time_of("-36500000d"), "-36500000d");
    assert_string_equal(time_of("noon"), "noon");
}

TEST(unknown_words_suggest_the_nearest_one)
{
    struct dt_cli_call call;
    struct dt_error err = {0};
    assert_int_equal(READ(&call, &err, "jobs", "cancle", "1"), DT_INVALID);
    assert_non_null(strstr(err.text, "did you mean cancel?"));
    assert_int_equal(READ(&call, &err, "jobs", "create", "--paylaod", "1"), DT_INVALID);
    assert_non_null(strstr(err.text, "did you mean --payload?"));
    assert_int_equal(READ(&call, &err, "jobs", "create", "--completely-other"), DT_INVALID);
    assert_null(strstr(err.text, "did you mean"));
}

static void suggested(const char *noun, const char *verb, const char *want)
{
    struct dt_cli_call call;
    struct dt_error err = {0};
    assert_int_equal(READ(&call, &err, (char *)(uintptr_t)noun, (char *)(uintptr_t)verb), DT_INVALID);
    if (!strstr(err.text, want))
        fail_msg("%s %s: %s", noun, verb, err.text);
}

TEST(words_of_other_programs_suggest_the_command_that_is_meant)
{
    suggested("jobs", "show", "no jobs command \"show\"; did you mean get?");
    suggested("topic", "ls", "did you mean list?");
    suggested("topics", "rm", "did you mean delete?");
    suggested("jobs", "rm", "did you mean cancel?");
    suggested("tokens", "delete", "did you mean revoke?");
    suggested("jobs", "pause", "did you mean topics pause or schedules pause?");
    suggested("pause", "orders", "did you mean topics pause or schedules pause?");
    suggested("list", "jobs", "no command \"list\"; did you mean jobs list?");
    suggested("show", "schedule", "did you mean schedules get?");
    suggested("tpics", "list", "did you mean topics?");
}

TEST(apply_takes_its_file_in_short)
{
    struct dt_cli_call call;
    struct dt_error err = {0};
    assert_int_equal(READ(&call, NULL, "apply", "-f", "x.json", "--prune"), DT_OK);
    assert_string_equal(dt_cli_value(&call, "file"), "x.json");
    assert_int_equal(READ(&call, &err, "apply", "-f"), DT_INVALID);
    assert_int_equal(READ(&call, &err, "jobs", "list", "-f", "x"), DT_INVALID);
}

static void build(struct dt_cli_request *request, const struct dt_cli_call *call)
{
    struct dt_error err = {0};
    if (dt_cli_request_build(call, call->verb->path, call->args, request, &err) != DT_OK)
        fail_msg("%s", err.text);
}

TEST(options_become_members_and_arguments_the_path)
{
    struct dt_cli_call call;
    struct dt_cli_request request = {0};
    assert_int_equal(READ(&call, NULL, "topics", "set", "a b/ä", "--retry", "1s, 2s", "--max-in-flight", "7",
                          "--ack-timeout", "null", "--kafka-topic", "\"x\""),
                     DT_OK);
    build(&request, &call);
    assert_string_equal(request.path.p, "/v1/topics/a%20b%2F%C3%A4");
    assert_string_equal(
        request.body.p,
        "{\"retry\":[\"1s\",\"2s\"],\"max_in_flight\":7,\"ack_timeout\":null,\"kafka_topic\":\"\\\"x\\\"\"}");
    dt_cli_request_clear(&request);
    assert_int_equal(READ(&call, NULL, "jobs", "cancel", "1", "--retries"), DT_OK);
    build(&request, &call);
    assert_string_equal(request.path.p, "/v1/jobs/1/cancel?retries=true");
    assert_int_equal(request.body.n, 0);
    dt_cli_request_clear(&request);
}

static void merged(const char *present, const char *body, const char *want)
{
    struct dt_cli_request request = {0};
    dt_strbuf_adds(&request.body, body);
    assert_int_equal(dt_cli_request_merge(&request, dt_str(present), NULL), DT_OK);
    assert_string_equal(request.body.p, want);
    dt_cli_request_clear(&request);
}

TEST(settings_stay_unless_an_option_changes_or_contradicts_them)
{
    merged("{}", "", "{}");
    merged("{\"a\":1,\"b\":[2]}", "", "{\"a\":1,\"b\":[2]}");
    merged("{\"a\":1,\"b\":[2]}", "{\"b\":3}", "{\"a\":1,\"b\":3}");
    merged("{\"cron\":\"x\",\"topic\":\"t\"}", "{\"every\":\"1h\"}", "{\"topic\":\"t\",\"every\":\"1h\"}");
    merged("{\"payload\":1}", "{\"payload_base64\":\"AA==\",\"content_type\":\"x\"}",
           "{\"payload_base64\":\"AA==\",\"content_type\":\"x\"}");
}

/* Each row has what help, man page and completion need, and no option twice. */
TEST(every_row_of_the_command_table_is_complete)
{
    for (size_t i = 0; i < dt_cli_n_verbs; i++) {
        const struct dt_cli_verb *verb = &dt_cli_verbs[i];
        assert_true(verb->help[strlen(verb->help) - 1] == '.' && strlen(dt_cli_noun_help(verb->noun)) > 0);
        assert_int_equal(strncmp(verb->examples, verb->noun, strlen(verb->noun)), 0);
        assert_true(!verb->method == !verb->path);
        for (size_t j = 0; j < verb->n_options; j++) {
            assert_true(verb->options[j].help[strlen(verb->options[j].help) - 1] == '.');
            for (size_t k = 0; k < j; k++)
                assert_string_not_equal(verb->options[j].name, verb->options[k].name);
            for (size_t k = 0; k < dt_cli_n_common; k++)
                assert_string_not_equal(verb->options[j].name, dt_cli_common[k].name);
        }
    }
}
