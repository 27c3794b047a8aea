/* The rule of commit_window.h. */
#include "commit_window.h"

#include "base/assert.h"

int64_t dt_commit_window_begin_at(const struct dt_commit_window *window, size_t queued)
{
    if (queued == 0)
        return DT_COMMIT_WINDOW_NEVER;
    if (queued >= (window->busy < 2 ? DT_COMMIT_WINDOW_ROWS : DT_COMMIT_WINDOW_MANY))
        return 0;
    if (window->busy)
        return window->begun_us + (window->busy < 2 ? DT_COMMIT_WINDOW_SLOW_US : DT_COMMIT_WINDOW_HUNG_US);
    return queued >= window->expected ? 0 : window->until_us;
}

void dt_commit_window_begun(struct dt_commit_window *window, int64_t now_us)
{
    window->busy++;
    window->begun_us = now_us;
}

void dt_commit_window_ended(struct dt_commit_window *window, size_t rows, int64_t begun_us, size_t queued,
                            int64_t now_us)
{
    int64_t patience_us = (now_us - begun_us) / 2;
    dt_assert_cmp(window->busy, >, 0);
    window->busy--;
    window->expected = rows + queued;
    window->until_us = now_us + (patience_us < DT_COMMIT_WINDOW_SLOW_US ? patience_us : DT_COMMIT_WINDOW_SLOW_US);
}
