/* Log lines, read back from a file that stands in for stderr. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/metrics.h"
#include "base/text/timetext.h"
#include "support/rigs/log_rig.h"

/* The line behind its time, which is checked to be one. */
static const char *behind_time(const char *line)
{
    int64_t ms;
    assert_int_equal(strncmp(line, "time=", 5), 0);
    assert_int_equal(dt_time_parse((struct dt_str){line + 5, 24}, &ms), DT_OK);
    assert_int_equal(line[29], ' ');
    return line + 30;
}

/* The same of a line in JSON. */
static const char *behind_json_time(const char *line)
{
    int64_t ms;
    assert_int_equal(strncmp(line, "{\"time\":\"", 9), 0);
    assert_int_equal(dt_time_parse((struct dt_str){line + 9, 24}, &ms), DT_OK);
    assert_int_equal(strncmp(line + 33, "\",", 2), 0);
    return line + 35;
}

#define CAUGHT_TEST(name) TEST_WITH(name, catch_stderr, release_stderr)

CAUGHT_TEST(a_line_has_time_level_component_message_and_fields)
{
    DT_LOG(INFO, "shard", "took over", DT_I("shard", 3), DT_I("epoch", INT64_MIN), DT_S("owner", "host-1"));
    assert_string_equal(behind_time(written()), "level=info component=shard msg=\"took over\" shard=3 "
                                                "epoch=-9223372036854775808 owner=host-1\n");
}

CAUGHT_TEST(a_log_line_without_fields_ends_after_its_message)
{
    DT_LOG(ERROR, "api", "stopped");
    assert_string_equal(behind_time(written()), "level=error component=api msg=stopped\n");
}

CAUGHT_TEST(values_are_quoted_exactly_where_they_need_it)
{
    DT_LOG(WARN, "t", "m", DT_S("plain", "a-b_c.d:/e,1"), DT_S("empty", ""), DT_S("absent", NULL), DT_S("space", "a b"),
           DT_S("equals", "a=b"), DT_S("quote", "a\"b"), DT_S("slash", "a\\b"), DT_S("utf8", "\xc3\xa9"));
    assert_string_equal(behind_time(written()),
                        "level=warn component=t msg=m plain=a-b_c.d:/e,1 empty=\"\" absent=\"\" space=\"a b\" "
                        "equals=\"a=b\" quote=\"a\\\"b\" slash=\"a\\\\b\" utf8=\"\xc3\xa9\"\n");
}

CAUGHT_TEST(a_value_cannot_forge_a_line_or_move_a_terminal)
{
    DT_LOG(INFO, "t", "m", DT_S("v", "a\nlevel=error\r\t\x1b[2J\x7f"), DT_B("nul", ((struct dt_str){"a\0b", 3})),
           DT_S("del", "\x7f"));
    assert_string_equal(
        behind_time(written()),
        "level=info component=t msg=m v=\"a\\nlevel=error\\r\\t\\x1b[2J\\x7f\" nul=\"a\\x00b\" del=\"\\x7f\"\n");
}

CAUGHT_TEST(lines_below_the_level_are_not_written_and_their_fields_not_evaluated)
{
    int evaluated = 0;
    dt_log_set_level(DT_LOG_WARN);
    DT_LOG(INFO, "t", "m", DT_I("n", evaluated++));
    DT_LOG(WARN, "t", "m", DT_I("n", evaluated++));
    dt_log_set_level(DT_LOG_INFO);
    assert_string_equal(behind_time(written()), "level=warn component=t msg=m n=0\n");
    assert_int_equal(evaluated, 1);
}

CAUGHT_TEST(levels_are_read_by_their_exact_words)
{
    static const char *const words[] = {"debug", "info", "warn", "error"};
    static const char *const others[] = {"DEBUG", "", "infos"};
    for (int i = 0; i < 4; i++) {
        dt_log_configure(words[i], "logfmt");
        assert_true(dt_log_enabled((enum dt_log_level)i));
        assert_int_equal(dt_log_enabled(DT_LOG_DEBUG), i == 0);
    }
    for (int i = 0; i < 3; i++) {
        dt_log_configure(others[i], "logfmt");
        assert_false(dt_log_enabled(DT_LOG_WARN));
    }
}

CAUGHT_TEST(a_line_in_json_is_one_object_whatever_its_values_are)
{
    dt_log_configure("info", "json");
    dt_log_configure("info", "JSON");
    DT_LOG(INFO, "shard", "took over", DT_I("shard", INT64_MIN), DT_S("owner", "a\n\"\x1b"), DT_S("absent", NULL),
           DT_S("utf8", "\xc3\xa9\xff"));
    DT_LOG(ERROR, "api", "stopped");
    dt_log_configure("info", "logfmt");
    char *line = strtok(written(), "\n");
    assert_string_equal(
        behind_json_time(line),
        "\"level\":\"info\",\"component\":\"shard\",\"msg\":\"took over\",\"shard\":-9223372036854775808,"
        "\"owner\":\"a\\n\\\"\\u001b\",\"absent\":null,\"utf8\":\"\xc3\xa9\xef\xbf\xbd\"}");
    assert_string_equal(behind_json_time(strtok(NULL, "\n")),
                        "\"level\":\"error\",\"component\":\"api\",\"msg\":\"stopped\"}");
    assert_null(strtok(NULL, "\n"));
}

CAUGHT_TEST(a_long_line_in_json_loses_fields_and_stays_json)
{
    char value[2 * PIPE_BUF];
    memset(value, '\x01', sizeof value - 1);
    value[sizeof value - 1] = '\0';
    dt_log_configure("info", "json");
    DT_LOG(INFO, "t", "m", DT_S("v", value));
    memset(value, 'x', sizeof value - 1);
    DT_LOG(INFO, "t", "m", DT_S("a", value), DT_S("b", value), DT_S("c", value), DT_S("d", value));
    dt_log_configure("info", "logfmt");
    char *line = strtok(written(), "\n");
    assert_string_equal(behind_json_time(line), "\"level\":\"info\",\"component\":\"t\",\"msg\":\"m\",\"cut\":true}");
    line = strtok(NULL, "\n");
    assert_in_range(strlen(line), PIPE_BUF - 1100, PIPE_BUF - 1);
    assert_string_equal(line + strlen(line) - 15, "xxx\",\"cut\":true}" + 1);
    assert_null(strstr(line, "\"d\""));
    assert_null(strtok(NULL, "\n"));
}

CAUGHT_TEST(errno_is_the_same_after_logging)
{
    errno = ENOENT;
    DT_LOG(INFO, "t", "m");
    assert_int_equal(errno, ENOENT);
    close(STDERR_FILENO);
    errno = ENOENT;
    DT_LOG(INFO, "t", "m");
    assert_int_equal(errno, ENOENT);
    dup2(file, STDERR_FILENO);
    DT_LOG(INFO, "t", "m"); /* says that a line is missing, which the next test does not expect */
}

#define THREADS 4
#define LINES   500

static void *write_many(void *arg)
{
    char long_value[400];
    memset(long_value, 'x', sizeof long_value - 1);
    long_value[sizeof long_value - 1] = '\0';
    for (int i = 0; i < LINES; i++)
        DT_LOG(INFO, "t", "m", DT_I("thread", *(const int *)arg), DT_S("v", long_value));
    return NULL;
}

CAUGHT_TEST(lines_of_several_threads_never_mix)
{
    int numbers[THREADS] = {0, 1, 2, 3}, lines = 0;
    fcntl(file, F_SETFL, O_APPEND);
    run_at_once(write_many, numbers, sizeof *numbers, THREADS);
    for (char *line = strtok(written(), "\n"); line; line = strtok(NULL, "\n"), lines++)
        assert_int_equal(strlen(behind_time(line)), strlen("level=info component=t msg=m thread=0 v=") + 399);
    assert_int_equal(lines, THREADS * LINES);
}

/* ---- a reader that does not read ---- */

static double lines_dropped(void)
{
    return dt_metric_value(dt_counter("duetime_log_dropped_total", "", ""));
}

/* Logs until lines are dropped, then reads everything; returns how many were dropped. */
static int fill_and_read(int write_end, int read_end)
{
    double before = lines_dropped();
    char bytes[65536];
    assert_true(dup2(write_end, STDERR_FILENO) >= 0);
    for (int i = 0; i < 100000 && lines_dropped() < before + 3; i++)
        DT_LOG(INFO, "t", "m", DT_I("i", i));
    assert_true(lines_dropped() == before + 3);
    assert_int_equal(fcntl(write_end, F_GETFL) & O_NONBLOCK, 0); /* which other processes may share */
    fcntl(read_end, F_SETFL, O_NONBLOCK);
    while (read(read_end, bytes, sizeof bytes) > 0)
        ;
    return (int)lines_dropped();
}

static void assert_gap_is_said_once(int read_end, int dropped)
{
    char bytes[4096], wanted[200];
    DT_LOG(INFO, "t", "next");
    DT_LOG(INFO, "t", "last");
    ssize_t n = read(read_end, bytes, sizeof bytes - 1);
    assert_true(n > 0);
    bytes[n] = '\0';
    char *line = strtok(bytes, "\n");
    assert_string_equal(behind_time(line), "level=info component=t msg=next");
    snprintf(wanted, sizeof wanted,
             "level=warn component=log msg=\"lines were dropped because stderr was not read\" dropped=%d", dropped);
    assert_string_equal(behind_time(strtok(NULL, "\n")), wanted);
    assert_string_equal(behind_time(strtok(NULL, "\n")), "level=info component=t msg=last");
    assert_null(strtok(NULL, "\n"));
}

CAUGHT_TEST(a_full_pipe_drops_lines_and_the_log_says_how_many)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    assert_gap_is_said_once(ends[0], fill_and_read(ends[1], ends[0]));
    close(ends[0]);
    close(ends[1]);
}

CAUGHT_TEST(a_full_socket_drops_lines_and_the_log_says_how_many)
{
    int ends[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    assert_gap_is_said_once(ends[0], fill_and_read(ends[1], ends[0]));
    close(ends[0]);
    close(ends[1]);
}

CAUGHT_TEST(a_pipe_of_another_user_takes_lines_and_drops_them_when_it_is_full)
{
    char path[40];
    int ends[2];
    uid_t user = geteuid();
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(fchmod(ends[1], 0), 0);
    if (user == 0)
        assert_int_equal(seteuid(65534), 0);
    snprintf(path, sizeof path, "/proc/self/fd/%d", ends[1]);
    assert_int_equal(open(path, O_WRONLY | O_NONBLOCK), -1);
    assert_gap_is_said_once(ends[0], fill_and_read(ends[1], ends[0]));
    if (user == 0)
        assert_int_equal(seteuid(user), 0);
    close(ends[0]);
    close(ends[1]);
}

CAUGHT_TEST(a_line_is_never_longer_than_a_pipe_takes_as_a_whole)
{
    char value[2 * PIPE_BUF];
    memset(value, 'x', sizeof value - 1);
    value[sizeof value - 1] = '\0';
    DT_LOG(INFO, "t", "m", DT_S("v", value));
    char *line = written();
    assert_int_equal(strlen(line), PIPE_BUF);
    assert_string_equal(line + PIPE_BUF - 3, "xx\n");
}

/* A second topic whose hash has another remainder. */
CAUGHT_TEST(a_topic_logs_one_line_a_minute_with_the_number_of_suppressed_ones)
{
    static struct dt_log_limit limit;
    const size_t at = dt_str_hash(DT_STR_LIT("orders")) % 64;
    int64_t suppressed = -1;
    assert_int_not_equal(dt_str_hash(DT_STR_LIT("mails")) % 64, at);
    assert_true(dt_log_allows(&limit, DT_STR_LIT("orders"), &suppressed));
    assert_int_equal(suppressed, 0);
    for (int i = 0; i < 1000; i++)
        assert_false(dt_log_allows(&limit, DT_STR_LIT("orders"), &suppressed));
    assert_true(dt_log_allows(&limit, DT_STR_LIT("mails"), &suppressed));
    limit.topics[at].next_us -= 60000000; /* a minute later */
    assert_true(dt_log_allows(&limit, DT_STR_LIT("orders"), &suppressed));
    assert_int_equal(suppressed, 1000);
    assert_false(dt_log_allows(&limit, DT_STR_LIT("orders"), &suppressed));
}

CAUGHT_TEST(a_limited_line_names_its_topic)
{
    for (int i = 0; i < 3; i++)
        DT_LOG_PER_TOPIC(WARN, "callbacks", "no report", DT_STR_LIT("orders"), DT_I("job", 7));
    assert_string_equal(behind_time(written()),
                        "level=warn component=callbacks msg=\"no report\" topic=orders suppressed=0 job=7\n");
}
