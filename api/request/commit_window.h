/*
 * The commit window: when to begin a commit with the rows that are queued. Pure: the time is passed in; the caller
 * locks.
 *
 * A commit costs the server as much as some thirty rows, so a small one waits for company, and no longer than pays:
 *
 *   - While another commit is under way: until it ends, enough rows are there, or it turns out to be slow.
 *   - While two are under way: likewise, but only a large commit is worth filling the time in which those wait for the
 *     disk.
 *   - After one: for half as long as it took, or until as many rows are there as clients were seen. Clients that have
 *     just been answered and may come again are counted in.
 *   - A row that finds none of this waits for nobody.
 */
#ifndef DT_API_COMMIT_WINDOW_H
#define DT_API_COMMIT_WINDOW_H

#include <stddef.h>
#include <stdint.h>

#define DT_COMMIT_WINDOW_ROWS 32  /* enough for a commit of their own */
#define DT_COMMIT_WINDOW_MANY 500 /* … beside two others */
#define DT_COMMIT_WINDOW_SLOW_US                                                                                       \
    INT64_C(2000) /* a commit that takes longer is overlapped; nor is there any longer wait … */
#define DT_COMMIT_WINDOW_HUNG_US INT64_C(10000) /* … but for one beside two others */
#define DT_COMMIT_WINDOW_NEVER   INT64_MAX

struct dt_commit_window { /* zero = idle */
    unsigned busy;        /* commits under way */
    int64_t begun_us;     /* of the latest */
    size_t expected;      /* rows that clients seen at the end of the last one may bring … */
    int64_t until_us;     /* … by then */
};

/* The monotonic time to begin at with `queued` rows: 0 = at once, DT_COMMIT_WINDOW_NEVER = no rows are queued. */
int64_t dt_commit_window_begin_at(const struct dt_commit_window *window, size_t queued);
/* Notes that a commit begins. */
void dt_commit_window_begun(struct dt_commit_window *window, int64_t now_us);
/* Notes that a commit of `rows` rows, begun at begun_us, has ended while `queued` rows wait. */
void dt_commit_window_ended(struct dt_commit_window *window, size_t rows, int64_t begun_us, size_t queued,
                            int64_t now_us);

#endif
