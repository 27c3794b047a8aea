/* The status table and the way errors are filled. */

#include "support/suite.h"

#include "base/status.h"

TEST(every_status_has_a_name_a_text_and_a_class)
{
#define X(name, cls, text)                                                                                             \
    assert_string_equal(dt_status_name(DT_##name), #name);                                                             \
    assert_string_equal(dt_status_text(DT_##name), text);                                                              \
    assert_int_equal(dt_status_class(DT_##name), DT_CLASS_##cls);
    DT_STATUS_MAP(X)
#undef X
}

TEST(only_ok_is_zero_and_only_ok_has_no_class)
{
    assert_int_equal(DT_OK, 0);
#define X(name, cls, text) assert_int_equal(dt_status_class(DT_##name) == DT_CLASS_NONE, DT_##name == DT_OK);
    DT_STATUS_MAP(X)
#undef X
}

TEST(an_unknown_status_number_reads_as_internal)
{
    assert_string_equal(dt_status_name((dt_status)9999), "INTERNAL");
    assert_string_equal(dt_status_text((dt_status)-1), "internal error");
    assert_int_equal(dt_status_class((dt_status)9999), DT_CLASS_FATAL);
}

TEST(fail_fills_the_error_and_returns_the_status)
{
    struct dt_error err = {0};
    assert_int_equal(dt_fail(&err, DT_BUSY, "row %d of %s", 7, "jobs"), DT_BUSY);
    assert_members(err, (status, DT_BUSY), (text, "row 7 of jobs"));
}

TEST(fail_without_an_error_only_returns_the_status)
{
    assert_int_equal(dt_fail(NULL, DT_FULL, "%s", "unread"), DT_FULL);
}

TEST(a_text_that_is_too_long_is_cut_and_terminated)
{
    struct dt_error err;
    char text[1000];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    assert_int_equal(dt_fail(&err, DT_INVALID, "%s", text), DT_INVALID);
    assert_int_equal(strlen(err.text), sizeof err.text - 1);
}
