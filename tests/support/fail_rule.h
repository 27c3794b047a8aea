/*
 * A fail point chosen by a test of the program that it is part of (base/fail_point.h):
 *
 *     fail_rule("inbox.locked=error:INTERNAL@1");
 *     …
 *     fail_rule(NULL);        // none is chosen
 *
 * A build without fail points, such as a release, skips the test at its first rule.
 */
#pragma once

#include "support/suite.h"

#include "base/fail_point.h"

static inline void fail_rule(const char *rule)
{
#ifdef DT_FAIL_POINTS
    struct dt_error err = {0};
    if (dt_fail_points_set(rule, &err) != DT_OK)
        fail_msg("%s: %s", rule ? rule : "no rule", err.text);
#else
    (void)rule;
    skip();
#endif
}
