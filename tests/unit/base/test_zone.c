/* Time zone files: what they say, what is refused, and that a new file is noticed. */
#include <unistd.h>

#include "support/suite.h"

#include "base/text/zone.h"

#define BERLIN DT_ZONE_DIR "/Europe/Berlin"
#define TOKYO  DT_ZONE_DIR "/Asia/Tokyo"

static char *read_file(const char *path, size_t *n)
{
    char *bytes = malloc(1 << 20);
    FILE *file = fopen(path, "rb");
    assert_non_null(bytes);
    assert_non_null(file);
    *n = fread(bytes, 1, 1 << 20, file);
    fclose(file);
    return bytes;
}

static void write_file(const char *path, const char *bytes, size_t n)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, n, file), n);
    fclose(file);
}

/* Every cut of a file is refused, and none is read past its end. */
TEST(a_file_that_is_cut_short_is_refused)
{
    size_t n;
    char *bytes = read_file(BERLIN, &n);
    for (size_t cut = 0; cut < n; cut += cut < 100 ? 1 : 37) {
        char *part = malloc(cut + 1);
        dt_zone *zone;
        assert_non_null(part);
        memcpy(part, bytes, cut);
        assert_int_equal(dt_zone_decode((struct dt_str){part, cut}, &zone, NULL), DT_INVALID);
        assert_null(zone);
        free(part);
    }
    free(bytes);
}

TEST(spans_of_a_zone_follow_each_other_without_gaps)
{
    size_t n;
    char *bytes = read_file(BERLIN, &n);
    dt_zone *zone;
    assert_int_equal(dt_zone_decode((struct dt_str){bytes, n}, &zone, NULL), DT_OK);
    struct dt_zone_span span = dt_zone_span_at(zone, INT64_C(-3000000000));
    assert_true(span.from_s == INT64_MIN);
    for (int i = 0; i < 600; i++) {
        struct dt_zone_span next = dt_zone_span_at(zone, span.until_s);
        assert_int_equal(next.from_s, span.until_s);
        assert_true(next.until_s > next.from_s);
        assert_int_equal(dt_zone_span_at(zone, span.until_s - 1).offset_s, span.offset_s);
        span = next;
    }
    assert_true(span.from_s > INT64_C(8000000000)); /* beyond the year 2200, by the rule */
    dt_zone_free(zone);
    free(bytes);
}

TEST(rules_are_read_with_their_extensions)
{
    struct dt_zone_rule rule;
    assert_int_equal(dt_zone_rule_parse(dt_str("<-02>2<-01>,M3.5.0/-1,M10.5.0/0"), &rule), DT_OK);
    assert_members(rule, (offset_s, -7200), (summer_s, -3600));
    assert_int_equal(rule.starts.second, -3600);
    assert_int_equal(dt_zone_rule_parse(dt_str("XXX3EDT4,0/0,J365/23"), &rule), DT_OK); /* summer time for ever */
    for (int64_t at_s = 1; at_s < INT64_C(400000000); at_s += 86399)
        assert_int_equal(dt_zone_rule_span(&rule, at_s).offset_s, -4 * 3600);
    assert_int_equal(dt_zone_rule_parse(dt_str("IST-2IDT,M3.4.4/26,M10.5.0"), &rule), DT_OK);
    assert_int_equal(rule.starts.second, 26 * 3600);
    assert_int_equal(dt_zone_rule_parse(dt_str(""), &rule), DT_OK);
    assert_false(rule.given);
}

TEST(invalid_rules_are_refused)
{
    static const char *const texts[] = {"C1",
                                        "CET",
                                        "CET-1CEST",
                                        "CET-1CEST,M3.5.0",
                                        "<X",
                                        "CET-1CEST,M13.1.0,M10.5.0",
                                        "CET-25",
                                        "CET-1CEST,M3.5.0,M10.5.0/3 ",
                                        "CET-1CEST,M3.6.0,M10.5.0",
                                        "CET-1CEST,J0,J365",
                                        "CET-1:60"};
    struct dt_zone_rule rule;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        if (dt_zone_rule_parse(dt_str(texts[i]), &rule) != DT_INVALID)
            fail_msg("'%s' is taken", texts[i]);
}

TEST(zone_names_with_paths_are_refused)
{
    static const char *const names[] = {
        "",         "../zoneinfo/Europe/Berlin", "/etc/localtime",     "Europe", "Mars/Olympus", "Europe/",
        "zone.tab", "Europe/Berlin/x",           "right/Europe/Berlin"};
    dt_zone_files *files;
    dt_zone *zone;
    assert_int_equal(dt_zone_files_new(NULL, &files), DT_OK);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        struct dt_error err = {0};
        if (dt_zone_files_get(files, dt_str(names[i]), &zone, &err) != DT_INVALID)
            fail_msg("'%s' is taken", names[i]);
        assert_true(err.text[0] != '\0');
    }
    assert_int_equal(dt_zone_files_get(files, dt_str("UTC"), &zone, NULL), DT_OK);
    assert_null(zone);
    dt_zone_files_free(files);
}

/* Each is there, and most read like a zone: it would mean another one on another host, or none at all. */
TEST(other_files_of_tzdata_are_refused_by_name)
{
    static const char *const names[] = {"localtime",           "posixrules",  "Factory",  "posix/Europe/Berlin",
                                        "right/Europe/Berlin", "leapseconds", "zone1970", "posix"};
    static const char *const fine[] = {"Etc/UTC", "GMT", "EST5EDT", "America/Argentina/Buenos_Aires"};
    dt_zone_files *files;
    dt_zone *zone;
    assert_int_equal(dt_zone_files_new(NULL, &files), DT_OK);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        struct dt_error err = {0};
        if (dt_zone_files_get(files, dt_str(names[i]), &zone, &err) != DT_INVALID)
            fail_msg("'%s' is taken", names[i]);
        if (!strstr(err.text, names[i]))
            fail_msg("'%s' is not named: %s", names[i], err.text);
    }
    for (size_t i = 0; i < sizeof(fine) / sizeof(fine[0]); i++) {
        if (dt_zone_files_get(files, dt_str(fine[i]), &zone, NULL) != DT_OK)
            fail_msg("'%s' is refused", fine[i]);
        dt_zone_free(zone);
    }
    dt_zone_files_free(files);
}

TEST(a_new_file_is_noticed_and_holders_keep_the_old_zone)
{
    char dir[] = "/tmp/duetime-zones-XXXXXX", path[64], other[64];
    size_t n_berlin, n_tokyo;
    char *berlin = read_file(BERLIN, &n_berlin), *tokyo = read_file(TOKYO, &n_tokyo);
    dt_zone_files *files;
    dt_zone *before, *same, *after;
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof(path), "%s/Here", dir);
    snprintf(other, sizeof(other), "%s/new", dir);
    write_file(path, berlin, n_berlin);
    assert_int_equal(dt_zone_files_new(dir, &files), DT_OK);
    assert_int_equal(dt_zone_files_get(files, dt_str("Here"), &before, NULL), DT_OK);
    assert_int_equal(dt_zone_files_get(files, dt_str("Here"), &same, NULL), DT_OK);
    assert_ptr_equal(before, same);
    write_file(other, tokyo, n_tokyo);
    assert_int_equal(rename(other, path), 0);
    assert_int_equal(dt_zone_files_get(files, dt_str("Here"), &after, NULL), DT_OK);
    assert_int_equal(dt_zone_local_s(after, 1700000000), 1700000000 + 9 * 3600);
    assert_int_equal(dt_zone_local_s(before, 1700000000), 1700000000 + 3600);
    assert_int_not_equal(dt_zone_stamp(before), dt_zone_stamp(after));
    dt_zone_files_free(files);
    dt_zone_free(before);
    dt_zone_free(same);
    dt_zone_free(after);
    unlink(path);
    rmdir(dir);
    free(berlin);
    free(tokyo);
}
