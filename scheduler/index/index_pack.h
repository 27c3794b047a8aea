/*
 * How entries are stored in Redis: members, their order, and whole pages in Redis's own serialized form. Pure. Internal
 * to index/.
 *
 * A member has the bytes of the id, the highest first. If the home day of the id is the day of the entry's time, the
 * sequence alone (4 or 5 bytes), else all 8.
 */
#pragma once

#include "base/text/strbuf.h"

struct dt_member {
    unsigned char bytes[8];
    unsigned char n; /* 4, 5 or 8 */
};
/* Returns the member of the job's entry at due_ms. */
struct dt_member dt_member_of(int64_t id, int64_t due_ms);
/* Reads the id from the member p[n] of an entry at due_ms. Returns false if it is not the member of an entry; *id
 * may be written then. */
bool dt_member_id(const char *p, size_t n, int64_t due_ms, int64_t *id);

/* An entry as it is sent. */
struct dt_item {
    int64_t due_ms, id;
    struct dt_member member;
    uint32_t ref; /* for the caller's use */
};
struct dt_item dt_item_of(int64_t id, int64_t due_ms, uint32_t ref);
/* Compares as a set orders its entries: by due time, then by the bytes of the member, as Redis orders equal scores.
 * Returns < 0, 0 or > 0. */
int dt_item_order(const struct dt_item *a, const struct dt_item *b);
void dt_items_sort(struct dt_item *items, size_t n);

/*
 * Returns how many of items[n], which are ascending, make one page: about DT_PAGE_FULL, at most DT_PAGE_MAX, and never
 * a part of a millisecond. 0: the first millisecond alone has more than a page may have, namely *tied items. Otherwise
 * *tied is 0.
 */
#define DT_PAGE_FULL 60
#define DT_PAGE_MAX  64 /* zset-max-listpack-entries of an ordinary Redis is 128 */
size_t dt_page_cut(const struct dt_item *items, size_t n, size_t *tied);
/* Appends the argument of RESTORE: a sorted set of items[n] (sorted, each member once, at most DT_PAGE_MAX), with
 * scores relative to the first one's. If memory runs out, out->failed is set. */
void dt_page_pack(struct dt_strbuf *out, const struct dt_item *items, size_t n);
