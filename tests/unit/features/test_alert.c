/* Alerts as text: settings that are stored and read again, what messages say. */

#include "support/suite.h"

#include "features/alerts/alerts.h"

#define S(text) DT_STR_LIT(text)

static dt_json *json;
static struct dt_arena arena;
static struct dt_strbuf out;

static void begin(void)
{
    assert_int_equal(dt_json_new(&json), DT_OK);
}

static void end(void)
{
    dt_json_free(json);
    dt_arena_clear(&arena);
    dt_strbuf_clear(&out);
}

#define FRESH_TEST(name) TEST_WITH(name, begin, end)

static struct dt_alert_setting setting_of(struct dt_str text)
{
    struct dt_alert_setting setting;
    assert_int_equal(dt_alert_setting_read(json, text, &arena, &setting), DT_OK);
    return setting;
}

FRESH_TEST(a_setting_is_read_as_it_was_written)
{
    const struct dt_str text =
        S("{\"overdue\":60000,\"dead\":0,\"mute_until\":1795257000000,\"url\":\"https://a.example/\","
          "\"secret\":\"whsec_QQ==\"}");
    struct dt_alert_setting setting = setting_of(text);
    assert_int_equal(setting.limits[DT_ALERT_OVERDUE - 1], 60000);
    assert_int_equal(setting.limits[DT_ALERT_BACKLOG - 1], DT_ALERT_DEFAULT);
    assert_int_equal(setting.limits[DT_ALERT_DEAD - 1], 0);
    assert_int_equal(setting.mute_until_ms, INT64_C(1795257000000));
    dt_alert_setting_write(&out, &setting);
    assert_true(dt_str_eq(dt_strbuf_str(&out), text));
}

FRESH_TEST(an_empty_setting_is_written_as_nothing)
{
    struct dt_alert_setting setting = setting_of(DT_STR_NONE);
    dt_alert_setting_write(&out, &setting);
    assert_int_equal(out.n, 0);
}

FRESH_TEST(a_setting_that_a_manual_edit_made_unreadable_counts_as_absent)
{
    static const char *const texts[] = {"", "[]", "7",
                                        "{\"overdue\":", "{\"overdue\":\"PT1M\",\"backlog\":-1,\"url\":7}"};
    for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
        struct dt_alert_setting setting = setting_of(dt_str(texts[i]));
        for (int kind = 0; kind < DT_ALERT_TOPIC_KINDS; kind++)
            assert_int_equal(setting.limits[kind], DT_ALERT_DEFAULT);
        assert_null(setting.url.p);
    }
}

static void message(enum dt_alert_event event, const struct dt_alert *alert, const char *expected)
{
    dt_strbuf_reset(&out);
    dt_alert_add_message(&out, alert, event, INT64_C(1795257000123));
    assert_string_equal(out.p, expected);
}

FRESH_TEST(an_alert_message_has_the_figure_and_the_threshold)
{
    const struct dt_alert late = {.id = 7,
                                  .topic = S("orders"),
                                  .kind = DT_ALERT_OVERDUE,
                                  .value = 73500,
                                  .limit = 60000,
                                  .began_at_ms = INT64_C(1795256999000)};
    message(
        DT_ALERT_BEGAN, &late,
        "{\"type\":\"alert.began\",\"timestamp\":\"2026-11-21T10:30:00.123Z\",\"data\":{\"id\":\"7\",\"topic\":"
        "\"orders\","
        "\"kind\":\"overdue\",\"value\":\"PT1M13.5S\",\"limit\":\"PT1M\",\"began_at\":\"2026-11-21T10:29:59.000Z\"}}");
    const struct dt_alert halted = {
        .id = 8, .kind = DT_ALERT_SHARD_HALTED, .value = 2, .limit = 1, .began_at_ms = INT64_C(1795256999000)};
    message(
        DT_ALERT_ENDED, &halted,
        "{\"type\":\"alert.ended\",\"timestamp\":\"2026-11-21T10:30:00.123Z\",\"data\":{\"id\":\"8\",\"topic\":null,"
        "\"kind\":\"shard_halted\",\"value\":2,\"limit\":1,\"began_at\":\"2026-11-21T10:29:59.000Z\"}}");
}

FRESH_TEST(each_kind_has_a_name)
{
    for (int kind = 1; kind < DT_ALERT_KINDS_END; kind++)
        assert_non_null(dt_alert_kind_name((enum dt_alert_kind)kind));
    assert_null(dt_alert_kind_name((enum dt_alert_kind)0));
    assert_null(dt_alert_kind_name(DT_ALERT_KINDS_END));
}
