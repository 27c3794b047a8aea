/* The registry and its text. Families live as long as the process, so each test has names of its own. */
#include <math.h>

#include "support/suite.h"

#include "base/metrics.h"

static char *text;

static const char *exported(void)
{
    struct dt_strbuf sb = {0};
    dt_metrics_write(&sb);
    assert_false(sb.failed);
    free(text);
    text = sb.p;
    return text;
}

static void free_text(void)
{
    free(text);
}

static void assert_has(const char *want)
{
    const char *all = exported();
    if (!strstr(all, want))
        fail_msg("no\n%s\nin\n%s", want, all);
}

TEST(a_counter_is_written_with_help_and_type)
{
    dt_metric *metric = dt_counter("t_jobs_total", "Jobs.", "");
    dt_metric_add(metric, 1);
    dt_metric_add(metric, 41);
    assert_has("# HELP t_jobs_total Jobs.\n# TYPE t_jobs_total counter\nt_jobs_total 42\n");
    assert_true(dt_metric_value(metric) == 42);
}

TEST(a_counter_never_goes_down)
{
    dt_metric *metric = dt_counter("t_down_total", "h", "");
    dt_metric_add(metric, 5);
    dt_metric_add(metric, -3);
    assert_true(dt_metric_value(metric) == 5);
}

TEST(a_large_counter_is_written_to_the_last_digit)
{
    dt_metric_add(dt_counter("t_large_total", "h", ""), INT64_C(9007199254740993));

    assert_has("\nt_large_total 9007199254740993\n");
}

TEST(a_gauge_holds_any_number)
{
    dt_metric *metric = dt_gauge("t_gauge", "h", "");
    assert_has("\nt_gauge 0\n");
    dt_metric_set(metric, -0.25);
    assert_has("\nt_gauge -0.25\n");
    dt_metric_set(metric, 1732180000.123);
    assert_has("\nt_gauge 1732180000.123\n");
    dt_metric_set(metric, INFINITY);
    assert_has("\nt_gauge +Inf\n");
    dt_metric_set(metric, NAN);
    assert_has("\nt_gauge NaN\n");
}

TEST(series_of_one_family_are_written_under_one_heading)
{
    dt_metric *a = dt_gauge("t_epoch", "Epoch.", "shard=\"0\"");
    dt_gauge("t_other", "h", "");
    dt_metric_set(dt_gauge("t_epoch", "Epoch.", "shard=\"1\""), 2);
    dt_metric_set(a, 1);
    assert_has("# TYPE t_epoch gauge\nt_epoch{shard=\"0\"} 1\nt_epoch{shard=\"1\"} 2\n# HELP t_other h\n");
}

TEST(the_same_family_and_labels_give_the_same_handle)
{
    assert_ptr_equal(dt_counter("t_same_total", "h", "a=\"1\""), dt_counter("t_same_total", "h", "a=\"1\""));
    assert_ptr_not_equal(dt_counter("t_same_total", "h", "a=\"1\""), dt_counter("t_same_total", "h", "a=\"2\""));
}

TEST(a_name_that_is_taken_by_another_kind_gives_no_handle)
{
    assert_non_null(dt_counter("t_kind", "h", ""));
    assert_null(dt_gauge("t_kind", "h", ""));
    assert_null(dt_histogram("t_kind", "h", ""));
}

TEST(a_null_handle_does_nothing)
{
    dt_metric_add(NULL, 1);
    dt_metric_set(NULL, 1);
    dt_metric_observe(NULL, 1);
    assert_true(dt_metric_value(NULL) == 0);
}

TEST(an_update_of_the_wrong_kind_does_nothing)
{
    dt_metric *counter = dt_counter("t_wrong_total", "h", "");
    dt_metric_set(counter, 5);
    dt_metric_observe(counter, 5);
    assert_true(dt_metric_value(counter) == 0);
}

TEST(help_is_escaped)
{
    dt_counter("t_help_total", "a\\b\nc", "");
    assert_has("# HELP t_help_total a\\\\b\\nc\n");
}

TEST(histogram_buckets_are_cumulative_and_end_in_inf)
{
    dt_metric *metric = dt_histogram("t_seconds", "h", "op=\"x\"");
    dt_metric_observe(metric, 0.0005); /* a bound belongs to its bucket */
    dt_metric_observe(metric, 0.00051);
    dt_metric_observe(metric, 0.3);
    dt_metric_observe(metric, 1000);
    dt_metric_observe(metric, NAN); /* not an observation */
    assert_has("# TYPE t_seconds histogram\nt_seconds_bucket{op=\"x\",le=\"0.0005\"} 1\n"
               "t_seconds_bucket{op=\"x\",le=\"0.001\"} 2\n");
    assert_has("t_seconds_bucket{op=\"x\",le=\"0.25\"} 2\nt_seconds_bucket{op=\"x\",le=\"0.5\"} 3\n");
    assert_has("t_seconds_bucket{op=\"x\",le=\"600\"} 3\nt_seconds_bucket{op=\"x\",le=\"+Inf\"} 4\n"
               "t_seconds_sum{op=\"x\"} 1000.30101\nt_seconds_count{op=\"x\"} 4\n");
    assert_true(dt_metric_value(metric) == 4);
}

TEST(a_histogram_of_counts_has_powers_of_two)
{
    dt_metric *metric = dt_histogram_count("t_batch", "h", "");
    dt_metric_observe(metric, 1);
    dt_metric_observe(metric, 65536);
    dt_metric_observe(metric, 65537);
    assert_has("t_batch_bucket{le=\"1\"} 1\nt_batch_bucket{le=\"2\"} 1\n");
    assert_has("t_batch_bucket{le=\"65536\"} 2\nt_batch_bucket{le=\"+Inf\"} 3\nt_batch_sum 131074\nt_batch_count 3\n");
}

#define THREADS 4
#define UPDATES 20000

static void *update_many(void *)
{
    for (int i = 0; i < UPDATES; i++) {
        dt_metric_add(dt_counter("t_race_total", "h", ""), 1);
        dt_metric_observe(dt_histogram("t_race_seconds", "h", ""), 0.5);
        if (i % 1000 == 0) {
            struct dt_strbuf sb = {0};
            dt_metrics_write(&sb);
            dt_strbuf_clear(&sb);
        }
    }
    return NULL;
}

TEST(no_update_is_lost_between_threads)
{
    run_at_once(update_many, NULL, 0, THREADS);
    assert_has("\nt_race_total 80000\n");
    assert_has("\nt_race_seconds_sum 40000\nt_race_seconds_count 80000\n");
}

/* Every line is a comment or "name{labels} number", every family has its heading once. */
TEST(the_whole_text_is_well_formed)
{
    dt_metric_add(dt_counter("t_whole_total", "h", "k=\"v\""), 1);
    dt_metric_observe(dt_histogram("t_whole_seconds", "h", ""), 0.5);
    for (char *line = strtok((char *)exported(), "\n"); line; line = strtok(NULL, "\n")) {
        char *end, *space = strrchr(line, ' ');
        if (line[0] == '#')
            continue;
        assert_non_null(space);
        strtod(space + 1, &end);
        assert_true(end > space + 1 && *end == '\0');
        assert_int_equal(strchr(line, '{') != NULL, strchr(line, '}') != NULL);
    }
}

SUITE(NULL, free_text)
