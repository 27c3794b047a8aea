/* Schedules as JSON: what an answer shows can be put back. Which bodies are refused: api/test_schedules.py. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/suite.h"

#include "schedules/schedule_json.h"
#include "support/rigs/body_rig.h"

static void make(struct body_rig *f)
{
    open_body_rig(f, (struct dt_job_rules){.max_delay_ms = DT_DAY_MS,
                                           .payload_max = 1000,
                                           .headers_max = 100,
                                           .json_depth = 8,
                                           .installation = DT_STR_LIT("duetime")});
}

#define RIG_TEST(name) TEST_ON(struct body_rig, f, name, make, close_body_rig)

static dt_status decode(struct body_rig *f, struct dt_str text, struct dt_schedule_body *out)
{
    struct dt_json_limits limits = dt_job_json_limits(&f->rules, 0);
    dt_faults_init(&f->faults, &f->arena);
    assert_int_equal(dt_json_parse(f->json, dt_arena_copy(&f->arena, text), &limits, NULL), DT_OK);
    return dt_schedule_decode(f->json, &f->rules, DT_STR_LIT("nightly"), &f->faults, out);
}

RIG_TEST(an_answer_can_be_put_back_and_means_the_same)
{
    static const char *const bodies[] = {
        "{\"topic\":\"t\",\"cron\":\"0 9 * * MON-FRI\",\"time_zone\":\"Europe/Berlin\",\"overlap\":\"skip\","
        "\"catch_up\":\"PT1H\",\"catch_up_max\":3,\"jitter\":\"PT10S\",\"paused\":true,\"payload\":{\"a\":1}}",
        "{\"topic\":\"t\",\"every\":\"PT0.1S\",\"starts_at\":\"2026-11-21T10:30:00.000Z\","
        "\"ends_at\":\"2027-11-21T10:30:00.000Z\",\"retry\":[\"15s\",\"3m\"],\"ack_timeout\":\"PT1M\"}",
        "{\"name\":\"nightly\",\"topic\":\"t\",\"every\":\"PT5M\",\"starts_at\":\"1970-01-01T00:00:00Z\","
        "\"partition_key\":\"p\",\"headers\":{\"h\":\"x\"},\"content_type\":\"text/"
        "plain\",\"payload_base64\":\"AAE=\"}",
    };
    for (size_t i = 0; i < sizeof(bodies) / sizeof(*bodies); i++) {
        struct dt_schedule_body given, back;
        assert_int_equal(decode(f, dt_str(bodies[i]), &given), DT_OK);
        struct dt_schedule shown = given.schedule;
        shown.created_at_ms = shown.updated_at_ms = 1700000000000;
        shown.version = 7;
        shown.last_job_id = 42;
        shown.error = DT_STR_LIT("no \"such\" topic");
        shown.error_at_ms = 1700000000001;
        dt_strbuf_reset(&f->out);
        dt_schedule_add(&f->out, &shown, 1700000000002, true);
        assert_false(f->out.failed);
        if (decode(f, dt_strbuf_str(&f->out), &back) != DT_OK)
            fail_msg("%s is refused at %s", f->out.p, f->faults.n ? f->faults.v[0].pointer.p : "-");
        assert_true(back.set_paused);
        assert_int_equal(back.schedule.paused, given.schedule.paused);
        assert_memory_equal(back.schedule.job.digest, given.schedule.job.digest, sizeof(given.schedule.job.digest));
    }
}

TEST(a_name_has_letters_digits_and_three_signs)
{
    char longest[DT_SCHEDULE_NAME_MAX + 1];
    memset(longest, 'a', sizeof(longest));
    assert_null(dt_schedule_name_check(DT_STR_LIT("Nightly_1.a-b")));
    assert_null(dt_schedule_name_check((struct dt_str){longest, DT_SCHEDULE_NAME_MAX}));
    assert_non_null(dt_schedule_name_check((struct dt_str){longest, sizeof(longest)}));
    assert_non_null(dt_schedule_name_check(DT_STR_LIT("")));
    assert_non_null(dt_schedule_name_check(DT_STR_LIT("a b")));
    assert_non_null(dt_schedule_name_check(DT_STR_LIT("a/b")));
}

SUITE(NULL, NULL)
