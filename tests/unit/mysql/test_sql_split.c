#include "support/suite.h"

#include "store/migrations.h"

static void expect(const char *text, const char *const *statements)
{
    struct dt_sql_split split = {text, ";"};
    for (; *statements; statements++) {
        struct dt_str got = dt_sql_split_next(&split);
        if (!dt_str_is(got, *statements))
            fail_msg("got '%.*s', not '%s'", (int)got.n, got.p ? got.p : "", *statements);
    }
    assert_null(dt_sql_split_next(&split).p);
}
#define EXPECT(text, ...) expect(text, (const char *const[]){__VA_ARGS__ __VA_OPT__(, ) NULL})

TEST(a_statement_ends_with_a_line_that_ends_with_the_delimiter)
{
    EXPECT("");
    EXPECT("\n\n-- nothing else\n");
    EXPECT("A ';'\n  -- one; two\n  B;\n\n-- next;\nC;", "A ';'\n  -- one; two\n  B", "C");
    EXPECT("A;\nB", "A", "B");
}

TEST(a_delimiter_line_changes_what_ends_a_statement)
{
    EXPECT("A;\nDELIMITER $$\nCREATE x BEGIN\n  a;\nEND$$\nDELIMITER ;\nB;\n", "A", "CREATE x BEGIN\n  a;\nEND", "B");
}
