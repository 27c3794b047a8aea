/*
 * Entries that are read from pages, and members of pages that are no entries (junk), which the reader removes. Internal
 * to index/.
 *
 * Calling sequence: fill in out, cap and to_ms, the rest zero; dt_reading_take for the reply; then dt_reading_tidy.
 */
#ifndef DT_INDEX_INDEX_READING_H
#define DT_INDEX_INDEX_READING_H

#include "index_internal.h"

#define DT_JUNK_MAX    64  /* pieces of junk that one reading removes */
#define DT_PAGE_NAME   64  /* bytes of a page's name, its NUL included */
#define DT_JUNK_MEMBER 256 /* bytes of a member */

/* Junk that is to be removed from the page of this name: a member, or with n_member = 0 the page itself if it is empty.
 * */
struct dt_junk {
    char page[DT_PAGE_NAME], member[DT_JUNK_MEMBER];
    size_t n_member;
};

struct dt_reading {
    struct dt_entry *out; /* room for cap */
    size_t cap, n;
    int64_t to_ms; /* entries due at this time or later are left out; INT64_MAX = none are */
    size_t seen;   /* entries and junk in the reply */
    struct dt_junk junk[DT_JUNK_MAX];
    size_t n_junk;
};

/* Takes the elements of a reply from `from` on: for each page its name, its beginning, and [member, score, …], which is
 * nil where the set has the page's name and the page is gone. */
void dt_reading_take(struct dt_reading *reading, const dt_reply *reply, size_t from);

/* Removes the junk that the reading met, with one more round trip if there was any. True: there was, and it is gone. */
bool dt_reading_tidy(dt_index *index, unsigned shard, const struct dt_reading *reading);

#endif
