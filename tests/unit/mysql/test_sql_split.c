
#include "support/suite.h"

#include "store/migrations.h"

static void expect(const char *text, const char *const *statements)
{
    struct dt_sql_split split;
    dt_sql_split_init(&split, text);
    for (; *statements; statements++) {
        struct dt_str got = dt_sql_split_next(&split);
        if (!dt_str_is(got, *statements))
            fail_msg("got '%.*s', not '%s'", (int)got.n, got.p ? got.p : "", *statements);
    }
    assert_null(dt_sql_split_next(&split).p);
}
#define EXPECT(text, ...) expect(text, (const char *const[]){__VA_ARGS__ __VA_OPT__(, ) NULL})

TEST(statements_end_at_semicolons)
{
    EXPECT("");
    EXPECT(" \n\t");
    EXPECT("A;B ; C", "A", "B ", "C");
    EXPECT("A;\n\n;B;", "A", "", "B");
}

TEST(a_semicolon_in_quotes_ends_nothing)
{
    EXPECT("A ';' \";\" `;`; B", "A ';' \";\" `;`", "B");
    EXPECT("A 'it''s; \\'; x'; B", "A 'it''s; \\'; x'", "B");
    EXPECT("A `\\`; B", "A `\\`", "B");
}

TEST(a_semicolon_in_a_comment_ends_nothing)
{
    EXPECT("A -- one; two's\n; B # x;\n; C /* ; */ D; E", "A -- one; two's\n", "B # x;\n", "C /* ; */ D", "E");
    EXPECT("A 1--1; B", "A 1--1", "B");
}

TEST(comments_between_statements_are_left_out)
{
    EXPECT("-- first;\n/* second; */ # third\nA;--\nB", "A", "B");
    EXPECT("-- nothing else");
    EXPECT("/*!50100 A */; B", "/*!50100 A */", "B");
}

TEST(a_delimiter_line_changes_what_ends_a_statement)
{
    EXPECT("A;\nDELIMITER //\nCREATE x BEGIN a; b; END//\ndelimiter ;\nB;C", "A", "CREATE x BEGIN a; b; END", "B", "C");
    EXPECT("DELIMITER $$\r\nA; 'x$$' $$\r\nDELIMITER ;\r\nB", "A; 'x$$' ", "B");
}

TEST(an_open_quote_ends_with_the_text)
{
    EXPECT("A 'x; y", "A 'x; y");
    EXPECT("A /* x; y", "A /* x; y");
    EXPECT("A 'x\\", "A 'x\\");
}

SUITE(NULL, NULL)
