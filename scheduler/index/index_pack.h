/*
 * How entries look inside Redis: members, their order, and whole slices in Redis's own serialized form. Pure. Internal
 * to index/.
 *
 * A member is the id's bytes, the highest first, as few as tell it from its entry's time: the sequence alone (4 bytes,
 * or 5) when the id's home day is the day of the entry's time, else all 8.
 */
#ifndef DT_INDEX_INDEX_PACK_H
#define DT_INDEX_INDEX_PACK_H

#include "base/strbuf.h"

struct dt_member {
    unsigned char bytes[8];
    unsigned char n; /* 4, 5 or 8 */
};
struct dt_member dt_member_of(int64_t id, int64_t due_ms);
/* False when it is nobody's. */
bool dt_member_id(const char *p, size_t n, int64_t due_ms, int64_t *id);
/* Redis's order among equal scores. */
int dt_member_compare(const struct dt_member *a, const struct dt_member *b);

/* An entry as it is sent. ref: what the caller likes. */
struct dt_item {
    int64_t due_ms, id;
    struct dt_member member;
    uint32_t ref;
};
struct dt_item dt_item_of(int64_t id, int64_t due_ms, uint32_t ref);
/* By (due, member): the order of a set. */
void dt_items_sort(struct dt_item *items, size_t n);

/* At most so many entries of ascending order are one slice: all of a millisecond or none of it. 0: the first
 * millisecond alone has more than a slice takes (then *tied says how many it has). */
#define DT_SLICE_FULL 60
#define DT_SLICE_MAX  64 /* zset-max-listpack-entries of an ordinary Redis is 128 */
size_t dt_slice_cut(const struct dt_item *items, size_t n, size_t *tied);
/* What RESTORE takes: a sorted set of these entries (sorted, each member once), scores relative to the first one's. */
void dt_slice_pack(struct dt_strbuf *out, const struct dt_item *items, size_t n);

#endif
