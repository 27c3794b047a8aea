/* What the servers' error numbers mean: whose fault it is, and whether somebody has to do something about it. */
#include "support/suite.h"

#include "job/problem.h"
#include "mysql/db_mysql.h"

/* Access denied (at connecting and to a command), read-only, full, missing: what an operator mends. */
static const unsigned an_operators[] = {1044, 1045, 1130, 1698, 1820, 1862, 3118, 4151, 1142, 1143,
                                        1227, 1370, 1419, 1449, 1290, 1792, 1836, 1036, 1874, 3,
                                        1021, 1026, 1030, 1114, 1197, 1598, 1049, 1054, 1136, 1146,
                                        1305, 1356, 1364, 1932, 1194, 1461, 1064, 1644, 1153, 2020};
static const unsigned nobodys[] = {1205, 1213, 1020, 1317, 3024, 2002, 2006, 2013, 1053, 1040, 1927,
                                   4031, 1203, 1226, 1047, 1062, 1264, 1406, 3819, 4025, 2008};

#define N(v) (sizeof(v) / sizeof *(v))

TEST(an_error_of_rights_or_of_space_needs_an_operator)
{
    for (size_t i = 0; i < N(an_operators); i++)
        assert_true(dt_db_error_needs_an_operator(an_operators[i]));
    for (size_t i = 0; i < N(nobodys); i++)
        assert_false(dt_db_error_needs_an_operator(nobodys[i]));
}

TEST(an_error_that_needs_an_operator_is_never_the_callers_fault)
{
    for (unsigned number = 1; number < 5000; number++) {
        if (!dt_db_error_needs_an_operator(number))
            continue;
        dt_status status = dt_db_error_status(number);
        int http = dt_problem_http_status(dt_problem_of_status(status));
        assert_int_equal(http, status == DT_INTERNAL ? 500 : 503);
    }
}

TEST(only_errors_about_row_contents_are_the_callers_fault)
{
    /* 1060, 1061, 1091, 1304, 1826, 3822 and 3940 are of DDL, which no request asks for. */
    static const unsigned rows[] = {1048, 1060, 1061, 1062, 1091, 1264, 1265, 1292, 1304,
                                    1366, 1406, 1586, 1826, 3819, 3822, 3940, 4025};
    for (unsigned number = 1, i = 0; number < 5000; number++) {
        bool callers = dt_problem_http_status(dt_problem_of_status(dt_db_error_status(number))) < 500;
        if (i < N(rows) && number == rows[i]) {
            assert_true(callers);
            i++;
        } else {
            assert_false(callers);
        }
    }
}
