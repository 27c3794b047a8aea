/* Durations, times and retry schedules: what is read is written as a text that reads as the same. */
#include "base/text/timetext.h"
#include "fuzz.h"
#include "job/job.h"

static void check_duration(struct dt_str text)
{
    int64_t ms = -7, again = -1;
    struct dt_strbuf iso = {0}, brief = {0};
    if (dt_duration_parse(text, &ms) != DT_OK) {
        MUST(ms == -7);
        return;
    }
    MUST(ms >= 0 && ms <= DT_DURATION_MAX_MS);
    dt_duration_add_iso(&iso, ms);
    MUST(dt_duration_parse(dt_strbuf_str(&iso), &again) == DT_OK && again == ms);
    dt_duration_add_short(&brief, ms);
    int64_t delays[DT_RETRY_MAX];
    unsigned n = 0;
    MUST(dt_retry_parse(dt_strbuf_str(&brief), delays, &n) == DT_OK && n == 1 && delays[0] == ms);
    dt_strbuf_clear(&iso);
    dt_strbuf_clear(&brief);
}

static void check_time(struct dt_str text)
{
    int64_t ms = INT64_MIN, again = 0;
    char written[25];
    if (dt_time_parse(text, &ms) != DT_OK) {
        MUST(ms == INT64_MIN);
        return;
    }
    dt_time_format(ms, written);
    MUST(strlen(written) == 24);
    /* The last instant of the year 9999 rounds up, and an offset reaches past the years 0 to 9999: the nearest then. */
    if (dt_time_parse(dt_str(written), &again) == DT_OK && ms >= INT64_C(-62167219200000) &&
        ms < INT64_C(253402300800000))
        MUST(again == ms);
}

static void check_retry(struct dt_str text)
{
    int64_t delays[DT_RETRY_MAX], again[DT_RETRY_MAX];
    unsigned n = 77, m = 0;
    struct dt_strbuf written = {0};
    if (dt_retry_parse(text, delays, &n) != DT_OK) {
        MUST(n == 0);
        return;
    }
    MUST(n <= DT_RETRY_MAX);
    dt_retry_format(&written, delays, n);
    MUST(written.n <= DT_RETRY_TEXT_MAX);
    MUST(dt_retry_parse(dt_strbuf_str(&written), again, &m) == DT_OK);
    MUST(n == m && memcmp(delays, again, n * sizeof *delays) == 0);
    dt_strbuf_clear(&written);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct dt_str text = exact_copy((struct dt_str){(const char *)data, n});
    int64_t any = 0;
    check_duration(text);
    check_time(text);
    check_retry(text);
    memcpy(&any, text.p, n < sizeof any ? n : sizeof any);
    char written[25];
    int64_t again;
    dt_time_format(any, written);
    MUST(dt_time_parse(dt_str(written), &again) == DT_OK);
    free_copy(text);
    return 0;
}
