/* An attempt as an answer shows it. */
#include "support/suite.h"

#include "job/change/jobs.h"
#include "rest/jobs_rest.h"

#define NOW INT64_C(1795257000000) /* 2026-11-21T10:30:00Z */

TEST(an_attempt_shows_its_lateness_and_error)
{
    struct dt_attempt a = {.attempt = 2,
                           .due_at_ms = NOW,
                           .dispatched_at_ms = NOW + 7,
                           .finished_at_ms = NOW + 9,
                           .status = DT_ATTEMPT_TIMED_OUT,
                           .error_code = DT_STR_LIT("ack_timeout"),
                           .error_message = DT_STR_LIT("m"),
                           .http_status = 503};
    STRBUF(out);
    dt_attempt_add(&out, &a);
    assert_string_equal(out.p,
                        "{\"attempt\":2,\"due_at\":\"2026-11-21T10:30:00.000Z\",\"dispatched_at\":"
                        "\"2026-11-21T10:30:00.007Z\",\"lateness_ms\":7,\"finished_at\":"
                        "\"2026-11-21T10:30:00.009Z\",\"status\":\"timed_out\",\"http_status\":503,\"duration_ms\":0,"
                        "\"error\":{\"code\":"
                        "\"ack_timeout\",\"message\":\"m\"}}");
    a = (struct dt_attempt){.attempt = 1, .status = DT_ATTEMPT_SUCCEEDED, .duration_ms = -1};
    dt_strbuf_reset(&out);
    dt_attempt_add(&out, &a);
    assert_string_equal(out.p,
                        "{\"attempt\":1,\"due_at\":null,\"dispatched_at\":null,\"lateness_ms\":null,"
                        "\"finished_at\":null,\"status\":\"succeeded\",\"http_status\":null,\"duration_ms\":null,"
                        "\"error\":null}");
}
