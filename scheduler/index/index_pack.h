/*
 * How entries look inside Redis: members, their order, and whole pages in Redis's own serialized form. Pure. Internal
 * to index/.
 *
 * A member is the id's bytes, the highest first, as few as tell it from its entry's time: the sequence alone (4 bytes,
 * or 5) when the id's home day is the day of the entry's time, else all 8.
 */
#ifndef DT_INDEX_INDEX_PACK_H
#define DT_INDEX_INDEX_PACK_H

#include "base/text/strbuf.h"

struct dt_member {
    unsigned char bytes[8];
    unsigned char n; /* 4, 5 or 8 */
};
/* The member of the job's entry at due_ms. */
struct dt_member dt_member_of(int64_t id, int64_t due_ms);
/* The id of the member p[n] of an entry at due_ms. False: it is no member of an entry; *id may have been written. */
bool dt_member_id(const char *p, size_t n, int64_t due_ms, int64_t *id);
/* Redis's order among equal scores: < 0, 0 or > 0 as memcmp. */
int dt_member_compare(const struct dt_member *a, const struct dt_member *b);

/* An entry as it is sent. */
struct dt_item {
    int64_t due_ms, id;
    struct dt_member member;
    uint32_t ref; /* what the caller likes */
};
struct dt_item dt_item_of(int64_t id, int64_t due_ms, uint32_t ref);
/* By (due, member): the order of a set. */
void dt_items_sort(struct dt_item *items, size_t n);

/*
 * How many of items[n], which are in ascending order, make one page: about DT_PAGE_FULL, at most DT_PAGE_MAX, and all
 * entries of a millisecond or none. 0: the first millisecond alone has more than a page takes; then *tied is how many
 * it has, else 0.
 */
#define DT_PAGE_FULL 60
#define DT_PAGE_MAX  64 /* zset-max-listpack-entries of an ordinary Redis is 128 */
size_t dt_page_cut(const struct dt_item *items, size_t n, size_t *tied);
/* Appends to out what RESTORE takes: a sorted set of items[n] (sorted, each member once, at most DT_PAGE_MAX), with
 * scores relative to the first one's. out is marked as failed when there is no memory. */
void dt_page_pack(struct dt_strbuf *out, const struct dt_item *items, size_t n);

#endif
