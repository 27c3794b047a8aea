/* Keys of fires, and keys that resemble them. */
#include "support/suite.h"

#include "job/job.h"

static int64_t time_of(const char *key)
{
    return dt_fire_key_time_ms(dt_str(key), DT_STR_LIT("nightly"));
}

TEST(a_key_as_schedules_write_it_has_its_time)
{
    assert_int_equal(time_of("nightly@0"), 0);
    assert_int_equal(time_of("nightly@1795683600000"), INT64_C(1795683600000));
    assert_int_equal(time_of("nightly@253402300799999"), INT64_C(253402300799999));
}

TEST(a_key_that_no_schedule_writes_is_not_a_fire)
{
    static const char *const keys[] = {"",
                                       "nightly",
                                       "nightly@",
                                       "nightly-1795683600000",
                                       "nightly@01795683600000",
                                       "nightly@1795683600000x",
                                       "nightly@17956 83600000",
                                       "nightly@-5",
                                       "nightly@253402300800000",
                                       "nightly@99999999999999999999999999999999"};
    for (size_t i = 0; i < sizeof(keys) / sizeof(*keys); i++)
        if (time_of(keys[i]) != -1)
            fail_msg("'%s' is taken for a fire", keys[i]);
}

TEST(the_schedule_name_ends_at_the_last_at_sign)
{
    struct dt_str name;
    assert_true(dt_fire_key_split(DT_STR_LIT("a@b@7"), &name));
    assert_true(dt_str_is(name, "a@b"));
    assert_false(dt_fire_key_split(DT_STR_LIT("@7"), &name));
    assert_false(dt_fire_key_split(DT_STR_LIT("a@7x"), &name));
    assert_false(dt_fire_key_split(DT_STR_LIT("7"), &name));
}
