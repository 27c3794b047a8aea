/* What callers ask of a job, against the delivery of its topic. */
#include "support/suite.h"

#include "job/delivery.h"

#define URL     DT_STR_LIT("http://a/")
#define TIMEOUT 10000

static const struct dt_callback_terms kafka = {DT_DELIVERY_KAFKA, false, TIMEOUT};
static const struct dt_callback_terms pull = {DT_DELIVERY_PULL, true, TIMEOUT};
static const struct dt_callback_terms with_url = {DT_DELIVERY_HTTP, true, TIMEOUT};
static const struct dt_callback_terms without_url = {DT_DELIVERY_HTTP, false, TIMEOUT};

/* The member that does not fit; NULL: all does. */
static const char *misfit(const struct dt_callback_terms *topic, struct dt_callback_asked asked)
{
    struct dt_callback_misfit out;
    if (dt_callback_fits(topic, &asked, &out)) {
        assert_null(out.reason);
        return NULL;
    }
    assert_non_null(out.reason);
    assert_true(!out.member.p == !asked.header_fault.reason);
    return out.pointer;
}

TEST(a_url_is_for_callbacks_only)
{
    const struct dt_callback_asked asked = {.asks_url = true, .url = URL};
    assert_string_equal(misfit(&kafka, asked), "/callback_url");
    assert_string_equal(misfit(&pull, asked), "/callback_url");
    assert_null(misfit(&with_url, asked));
    assert_null(misfit(&without_url, asked));
}

TEST(a_callback_needs_a_url_in_its_job_or_in_its_topic)
{
    const struct dt_callback_asked asked = {.asks_url = true};
    assert_string_equal(misfit(&without_url, asked), "/callback_url");
    assert_null(misfit(&with_url, asked));
    assert_null(misfit(&kafka, asked));
    assert_null(misfit(&without_url, (struct dt_callback_asked){0})); /* a change of something else */
}

TEST(the_time_for_a_result_is_longer_than_a_callback_may_take)
{
    assert_string_equal(misfit(&with_url, (struct dt_callback_asked){.ack_timeout_ms = TIMEOUT}), "/ack_timeout");
    assert_null(misfit(&with_url, (struct dt_callback_asked){.ack_timeout_ms = TIMEOUT + 1}));
    assert_null(misfit(&kafka, (struct dt_callback_asked){.ack_timeout_ms = 1}));
}

TEST(reserved_headers_are_refused_where_they_would_be_sent)
{
    const struct dt_callback_asked asked = {.header_fault = {DT_STR_LIT("host"), "is ours"}};
    assert_string_equal(misfit(&with_url, asked), "/headers");
    assert_null(misfit(&kafka, asked));
}
