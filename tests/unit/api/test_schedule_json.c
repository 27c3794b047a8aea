/* Names of schedules. Which bodies are taken, shown and refused: api/test_schedules.py. */

#include "support/suite.h"

#include "rest/schedules_rest.h"

TEST(a_schedule_name_has_letters_digits_and_three_other_characters)
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
