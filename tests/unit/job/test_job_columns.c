/* The statements that name all columns of a job name those of job/job.h, in its order where they are read or given. */

#include "support/suite.h"

#include "job/job.h"
#include "mysql/statements.h"

#define READ_INT(column)    "j." #column
#define READ_FLAG(column)   "j." #column
#define READ_TEXT(column)   "j." #column
#define READ_SHARD(column)  "j." #column
#define READ_STATE(column)  "j." #column "+0"
#define READ_STATUS(column) "j." #column "+0"
static const struct column {
    const char *name, *read;
} columns[] = {
#define COLUMN(kind, member, column) {#column, READ_##kind(column)},
    DT_JOB_COLUMNS(COLUMN, COLUMN, COLUMN)};
#define COLUMNS (sizeof(columns) / sizeof(*columns))

/* Goes on behind `text`. */
static const char *expect(const char *at, const char *text)
{
    if (strncmp(at, text, strlen(text)) != 0)
        print_error("\"%s\" instead of \"%s\"\n", at, text);
    assert_int_equal(strncmp(at, text, strlen(text)), 0);
    return at + strlen(text);
}

/* Goes on behind the columns: next_at as `jobs` or as `history` gives it. */
static const char *expect_columns(const char *at, const char *next_at)
{
    for (size_t i = 0; i < COLUMNS; i++) {
        at = expect(at, i ? ", " : "");
        at = expect(at, strcmp(columns[i].name, "next_at") == 0 ? next_at : columns[i].read);
    }
    return at;
}

#define OF_JOBS    "GREATEST(j.next_at, 1)"
#define OF_HISTORY "0"

TEST(reads_select_the_columns_in_their_order)
{
    expect(expect_columns(expect(dt_sql_select_job, "SELECT "), OF_JOBS), ", j.payload FROM jobs j WHERE");
    expect(expect_columns(expect(dt_sql_lock_job, "SELECT "), OF_JOBS), ", j.payload FROM jobs j WHERE");
    expect(expect_columns(expect(dt_sql_lock_free_job, "SELECT "), OF_JOBS), ", j.payload FROM jobs j WHERE");
    expect(expect_columns(expect(dt_sql_select_archived_job, "SELECT "), OF_HISTORY),
           ", j.payload FROM history j FORCE INDEX (PRIMARY) WHERE");
    expect(expect_columns(expect(dt_sql_select_notices.sql[0], "SELECT o.id, o.attempt, o.made_at, "), OF_JOBS),
           ", j.payload FROM messages o");
}

TEST(the_longest_time_for_a_result_is_that_of_the_program)
{
    static const char *const *const statements[] = {dt_sql_lock_hinted.sql, dt_sql_claim_jobs.sql};
    char longest[80];
    snprintf(longest, sizeof(longest), "LEAST(j.ack_timeout_ms, %lld)", (long long)DT_ACK_MAX_MS);
    assert_non_null(strstr(dt_sql_lock_sent, longest));
    assert_non_null(strstr(dt_sql_extend_sent, longest));
    for (size_t i = 0; i < sizeof(statements) / sizeof(*statements); i++)
        assert_non_null(strstr(statements[i][0], longest));
}

TEST(lists_read_the_columns_with_or_without_the_payload)
{
    static const char *const live[] = {dt_sql_list_live_by_id, dt_sql_list_live_by_key, dt_sql_list_live_payloads_by_id,
                                       dt_sql_list_live_payloads_by_key};
    static const char *const all[] = {dt_sql_list_all_by_id, dt_sql_list_all_by_key, dt_sql_list_all_payloads_by_id,
                                      dt_sql_list_all_payloads_by_key};
    for (size_t i = 0; i < 4; i++) {
        const char *end = i < 2 ? " FROM " : ", j.payload FROM ";
        expect(expect_columns(expect(live[i], "SELECT "), OF_JOBS), end);
        expect(expect_columns(expect(all[i], "(SELECT "), OF_JOBS), end);
        const char *archived = strstr(all[i], "UNION ALL ");
        assert_non_null(archived);
        expect(expect_columns(expect(archived, "UNION ALL (SELECT "), OF_HISTORY), end);
    }
}

TEST(lists_by_time_read_the_columns_and_the_position_of_the_next_page)
{
    static const char *const lists[] = {dt_sql_list_behind_by_due,           dt_sql_list_between_by_due,
                                        dt_sql_list_archived_by_id,          dt_sql_list_payloads_behind_by_due,
                                        dt_sql_list_payloads_between_by_due, dt_sql_list_payloads_archived_by_id};
    for (size_t i = 0; i < 6; i++) {
        bool archived = i % 3 == 2;
        const char *at = expect_columns(expect(lists[i], "SELECT "), archived ? OF_HISTORY : OF_JOBS);
        expect(expect(at, i < 3 ? "" : ", j.payload"), archived ? ", 0 FROM history j" : ", j.due_key FROM jobs j");
    }
}

static unsigned count(const char *text, char c)
{
    unsigned n = 0;
    for (; *text; text++)
        n += *text == c;
    return n;
}

#define NOTHING(kind, member, column)

/* Goes on behind what a caller gives. */
static const char *expect_given(const char *at)
{
    const char *gap = "";
#define GIVEN(kind, member, column)                                                                                    \
    at = expect(expect(at, gap), #column);                                                                             \
    gap = ", ";
    DT_JOB_COLUMNS(NOTHING, GIVEN, GIVEN)
    return at;
}

TEST(values_of_callers_are_inserted_in_column_order)
{
    static const char *const forms[] = {dt_sql_insert_job_extras, dt_sql_insert_job_near_extras,
                                        dt_sql_insert_job_key_extras, dt_sql_insert_job_near_key_extras};
    for (size_t i = 0; i < sizeof(forms) / sizeof(*forms); i++) {
        const char *at = strstr(forms[i], "partition_key");
        assert_non_null(at);
        assert_int_equal(*expect_given(at), ')');
        const char *places = strstr(forms[i], "VALUES (");
        assert_non_null(places);
        char names[1000];
        snprintf(names, sizeof(names), "%.*s", (int)(places - forms[i]), forms[i]);
        assert_int_equal(count(places, '?'), count(names, ',') + 1);
    }
}

/* Where the column stands behind `at`, as a column of its own or in an IF. */
static const char *find_column(const char *at, const char *column)
{
    char name[80];
    snprintf(name, sizeof(name), "j.%s,", column);
    const char *found = strstr(at, name);
    if (!found)
        print_error("no %s in \"%s\"\n", name, at);
    assert_non_null(found);
    return found + strlen(name);
}

TEST(values_of_callers_are_sent_in_column_order)
{
    const char *const statements[] = {strstr(dt_sql_lock_hinted.sql[0], "j.topic, j.job_key, "),
                                      strstr(dt_sql_select_messages, "j.topic), j.job_key, ")};
    for (size_t i = 0; i < sizeof(statements) / sizeof(*statements); i++) {
        assert_non_null(statements[i]);
        const char *at = find_column(statements[i], "job_key");
#define SENT(kind, member, column) at = find_column(at, #column);
        DT_JOB_COLUMNS(NOTHING, SENT, SENT)
        assert_non_null(strstr(at, "j.payload"));
    }
}

TEST(changed_values_are_written_in_column_order)
{
    const char *at = strstr(dt_sql_patch_job, "ack_timeout_ms = ?, ");
    assert_non_null(at);
    at += strlen("ack_timeout_ms = ?, ");
#define CHANGED(kind, member, column) at = expect(at, #column " = ?, ");
    DT_JOB_COLUMNS(NOTHING, NOTHING, CHANGED)
    expect(at, "version = LEAST(version + 1, 1999999999)");
    at = expect(dt_sql_patch_content, "UPDATE jobs SET payload = ?");
#define CONTENT(kind, member, column) at = expect(at, ", " #column " = ?");
    DT_JOB_COLUMNS(NOTHING, CONTENT, NOTHING)
    expect(at, " WHERE id = ?");
}

/* How often a column stands in a statement as a word. */
static unsigned named(const char *sql, const char *column)
{
    static const char word[] = "abcdefghijklmnopqrstuvwxyz_0123456789";
    unsigned n = 0;
    size_t length = strlen(column);
    for (const char *at = sql; (at = strstr(at, column)); at += length)
        n += (at == sql || !memchr(word, at[-1], sizeof(word) - 1)) && !strchr(word, at[length]);
    return n;
}

TEST(nothing_is_lost_on_the_way_to_history_and_back)
{
    for (size_t i = 0; i < COLUMNS; i++) {
        if (strcmp(columns[i].name, "next_at") == 0) /* finished jobs have none */
            continue;
        if (named(dt_sql_archive_jobs, columns[i].name) < 2 || named(dt_sql_bring_back_job, columns[i].name) < 2)
            print_error("%s\n", columns[i].name);
        assert_in_range(named(dt_sql_archive_jobs, columns[i].name), 2, 4);
        assert_in_range(named(dt_sql_bring_back_job, columns[i].name), 2, 4);
    }
}
