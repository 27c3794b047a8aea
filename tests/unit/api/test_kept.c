/* Answers that are kept for a moment: how old one may be, and that the oldest makes room. */

#include "support/suite.h"

#include "rest/kept.h"

#define SHARE 20

static int64_t now_us = 1;
static int64_t takes_us; /* to make an answer */
static int made;
static dt_status fails;

STUB(static int64_t, mono, (const dt_clock *clock), now_us)

static const dt_clock clock_of_test = {.mono_us = mono, .real_ms = mono};

static dt_status make(void *, struct dt_strbuf *out, struct dt_error *err)
{
    now_us += takes_us;
    if (fails != DT_OK)
        return dt_fail(err, fails, "it fails");
    dt_strbuf_addf(out, "%d", ++made);
    return DT_OK;
}

static dt_kept *kept_for(int share)
{
    dt_kept *kept;
    made = 0;
    fails = DT_OK;
    takes_us = 0;
    assert_int_equal(dt_kept_new(&clock_of_test, share, &kept), DT_OK);
    return kept;
}

/* The number of the answer that is given; -1: it failed. */
static int asked(dt_kept *kept, const char *key, int64_t max_age_us)
{
    struct dt_error err;
    STRBUF(out);
    dt_status status = dt_kept_answer(kept, dt_str(key), max_age_us, make, NULL, &out, &err);
    int n = status == DT_OK ? atoi(out.p) : -1;
    return n;
}

TEST(a_cached_answer_is_used_until_it_is_too_old)
{
    dt_kept *kept = kept_for(0);
    assert_int_equal(asked(kept, "a", 1000), 1);
    now_us += 1000;
    assert_int_equal(asked(kept, "a", 1000), 1);
    assert_int_equal(asked(kept, "b", 1000), 2);
    now_us++;
    assert_int_equal(asked(kept, "a", 1000), 3);
    dt_kept_free(kept);
}

TEST(an_answer_that_took_long_to_make_is_cached_longer)
{
    dt_kept *kept = kept_for(SHARE);
    takes_us = 300;
    assert_int_equal(asked(kept, "a", 0), 1);
    now_us += SHARE * 300;
    assert_int_equal(asked(kept, "a", 0), 1);
    now_us++;
    takes_us = 0;
    assert_int_equal(asked(kept, "a", 0), 2);
    now_us++;
    assert_int_equal(asked(kept, "a", 0), 3);
    dt_kept_free(kept);
}

TEST(a_failed_answer_is_not_cached)
{
    dt_kept *kept = kept_for(0);
    fails = DT_UNAVAILABLE;
    assert_int_equal(asked(kept, "a", 1000), -1);
    fails = DT_OK;
    assert_int_equal(asked(kept, "a", 1000), 1);
    dt_kept_free(kept);
}

TEST(the_oldest_answer_is_replaced)
{
    char key[] = "a";
    dt_kept *kept = kept_for(0);
    for (int i = 0; i <= DT_KEPT; i++) {
        key[0] = (char)('a' + i);
        now_us++;
        assert_int_equal(asked(kept, key, 1000), i + 1);
    }
    assert_int_equal(asked(kept, "b", 1000), 2);
    assert_int_equal(asked(kept, "a", 1000), DT_KEPT + 2);
    dt_kept_free(kept);
}
