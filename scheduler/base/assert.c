/* See assert.h. */
#include "base/assert.h"

#include <stdlib.h>

#include "base/log.h"

void dt_assert_failed(const char *file, int line, const char *condition)
{
    DT_LOG(ERROR, "assert", "an invariant does not hold", DT_S("file", file), DT_I("line", line),
           DT_S("condition", condition));
    abort();
}

void dt_assert_cmp_failed(const char *file, int line, const char *condition, int64_t a, int64_t b)
{
    DT_LOG(ERROR, "assert", "an invariant does not hold", DT_S("file", file), DT_I("line", line),
           DT_S("condition", condition), DT_I("left", a), DT_I("right", b));
    abort();
}
