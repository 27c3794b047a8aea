/*
 * How entries are stored in Redis: members, their order, and whole pages in Redis's own serialized form. Pure
 * functions. Internal to index/.
 *
 * An id consists of a day (the home day) and a sequence number (job/job.h). A member has the bytes of the id, the
 * highest byte first. If the home day is the day of the entry's time, the member is only the sequence number (4 or 5
 * bytes), else all 8 bytes.
 */
#pragma once

#include "base/text/strbuf.h"

struct dt_member {
    unsigned char bytes[8];
    unsigned char n; /* number of bytes: 4, 5 or 8 */
};
/* Returns the member of the job's entry at due_ms. */
struct dt_member dt_member_of(int64_t id, int64_t due_ms);
/* Reads the id from the member p[n] of an entry at due_ms. Returns false if p[n] is not the member of an entry; *id may
 * have changed. */
bool dt_member_id(const char *p, size_t n, int64_t due_ms, int64_t *id);

/* An entry in the form in which it is sent to Redis. */
struct dt_item {
    int64_t due_ms, id;
    struct dt_member member;
    uint32_t ref; /* for the caller's use */
};
struct dt_item dt_item_of(int64_t id, int64_t due_ms, uint32_t ref);
/* Compares in the order of a due set: by due time, then by the bytes of the member, as Redis orders equal scores.
 * Returns < 0, 0 or > 0. */
int dt_item_order(const struct dt_item *a, const struct dt_item *b);
void dt_items_sort(struct dt_item *items, size_t n);

/* Returns how many of items[n], which are ascending, make one page: about DT_PAGE_FULL, at most DT_PAGE_MAX, and never
 * a part of a millisecond. Returns 0 if the first millisecond alone has more items than fit into a page; *tied is then
 * their number, otherwise 0. */
#define DT_PAGE_FULL 60
#define DT_PAGE_MAX  64 /* most entries of a page; Redis packs up to 128 by default (zset-max-listpack-entries) */
size_t dt_page_cut(const struct dt_item *items, size_t n, size_t *tied);
/* Appends the argument of RESTORE: a sorted set of items[n] (sorted, each member once, at most DT_PAGE_MAX), with
 * scores relative to the first item's time. If memory runs out, out->failed is set. */
void dt_page_pack(struct dt_strbuf *out, const struct dt_item *items, size_t n);
