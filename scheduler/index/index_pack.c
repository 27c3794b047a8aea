/*
 * The bytes of members and of packed pages.
 *
 * A packed page is what DUMP returns for a small sorted set: Redis 7's type 17, a listpack of member, score, member,
 * score, …; then the version of the format, and a CRC-64 of everything.
 */
#include "index_pack.h"

#include "base/assert.h"
#include "job/job.h"

#define RDB_ZSET_LISTPACK   17
#define RDB_VERSION         10
#define CRC_JONES_REFLECTED UINT64_C(0x95ac9329ac4bc9b5)
#define LISTPACK_HEADER     6u
#define LISTPACK_ENTRY_MAX  11u /* most bytes of an element: 64 bits or 8 bytes, and its framing */
#define LISTPACK_BYTES_MAX  (LISTPACK_HEADER + 2u * DT_PAGE_MAX * LISTPACK_ENTRY_MAX + 1u)

struct dt_member dt_member_of(int64_t id, int64_t due_ms)
{
    struct dt_member member = {.n = 8};
    int64_t sequence = id & ((INT64_C(1) << DT_SEQUENCE_BITS) - 1);
    if (id - sequence == dt_job_id(due_ms, 0)) /* the day in the id (its home day) is the day of due_ms */
        member.n = sequence >> 32 ? 5 : 4;
    for (unsigned i = 0; i < member.n; i++)
        member.bytes[i] = (unsigned char)((uint64_t)id >> (8 * (member.n - 1u - i)));
    return member;
}

bool dt_member_id(const char *p, size_t n, int64_t due_ms, int64_t *id)
{
    uint64_t value = 0;
    if (n != 4 && n != 5 && n != 8)
        return false;
    for (size_t i = 0; i < n; i++)
        value = value << 8 | (unsigned char)p[i];
    if (value > INT64_MAX)
        return false;
    *id = n == 8 ? (int64_t)value : dt_job_id(due_ms, 0) | (int64_t)value;
    return *id > 0;
}

struct dt_item dt_item_of(int64_t id, int64_t due_ms, uint32_t ref)
{
    return (struct dt_item){due_ms, id, dt_member_of(id, due_ms), ref};
}

int dt_item_order(const struct dt_item *a, const struct dt_item *b)
{
    const struct dt_member *x = &a->member;
    const struct dt_member *y = &b->member;
    if (a->due_ms != b->due_ms)
        return DT_ORDER(a->due_ms, b->due_ms);
    int order = memcmp(x->bytes, y->bytes, x->n < y->n ? x->n : y->n);
    return order ? order : DT_ORDER(x->n, y->n);
}

static int compare_items(const void *a, const void *b)
{
    return dt_item_order(a, b);
}

void dt_items_sort(struct dt_item *items, size_t n)
{
    for (size_t i = 1; i < n; i++) {
        if (dt_item_order(&items[i - 1], &items[i]) > 0) {
            qsort(items, n, sizeof(*items), compare_items);
            return;
        }
    }
}

size_t dt_page_cut(const struct dt_item *items, size_t n, size_t *tied)
{
    size_t whole = 0;
    size_t end = 0;
    *tied = 0;
    while (end < n && (end < DT_PAGE_FULL || whole == 0)) {
        int64_t due_ms = items[end].due_ms;
        while (end < n && items[end].due_ms == due_ms)
            end++;
        if (end <= DT_PAGE_FULL || (whole == 0 && end <= DT_PAGE_MAX))
            whole = end;
        else
            break;
    }
    if (whole == 0)
        *tied = end;
    return whole;
}

/* Returns the CRC-64 that Redis computes, half a byte at a time. Each call builds the table of 16 values, so that
 * threads share nothing. */
static uint64_t crc_of(const unsigned char *p, size_t n)
{
    uint64_t half[16];
    uint64_t crc = 0;
    for (unsigned i = 0; i < 16; i++) {
        uint64_t value = i;
        for (int bit = 0; bit < 4; bit++)
            value = value >> 1 ^ (value & 1 ? CRC_JONES_REFLECTED : 0);
        half[i] = value;
    }
    for (size_t i = 0; i < n; i++) {
        crc ^= p[i];
        crc = crc >> 4 ^ half[crc & 15];
        crc = crc >> 4 ^ half[crc & 15];
    }
    return crc;
}

static unsigned char *put_le(unsigned char *p, uint64_t value, unsigned bytes)
{
    for (unsigned i = 0; i < bytes; i++)
        *p++ = (unsigned char)(value >> (8 * i));
    return p;
}

/* Ends a listpack element with the element's length. */
static unsigned char *end_entry(unsigned char *begin, unsigned char *end)
{
    *end = (unsigned char)(end - begin);
    return end + 1;
}

static unsigned char *put_integer(unsigned char *p, int64_t value)
{
    unsigned char *begin = p;
    if (value >= 0 && value <= 127) {
        *p++ = (unsigned char)value;
    } else if (value >= -4096 && value <= 4095) {
        *p++ = (unsigned char)(0xC0 | ((uint64_t)value >> 8 & 0x1F));
        *p++ = (unsigned char)value;
    } else {
        static const struct {
            int64_t below;
            unsigned char code, bytes;
        } sizes[] = {{INT64_C(1) << 15, 0xF1, 2}, {INT64_C(1) << 23, 0xF2, 3}, {INT64_C(1) << 31, 0xF3, 4}};
        unsigned char code = 0xF4;
        unsigned char bytes = 8;
        for (unsigned i = 3; i-- > 0;) {
            if (value >= -sizes[i].below && value < sizes[i].below) {
                code = sizes[i].code;
                bytes = sizes[i].bytes;
            }
        }
        *p++ = code;
        p = put_le(p, (uint64_t)value, bytes);
    }
    return end_entry(begin, p);
}

/* Returns whether Redis stores the member as an integer, because it looks like a decimal integer. A packed page must
 * store it in the same way. */
static bool looks_like_integer(const struct dt_member *member, int64_t *value)
{
    unsigned i = member->bytes[0] == '-';
    int64_t v = 0;
    if (member->bytes[i] < '1' || member->bytes[i] > '9')
        return false;
    for (; i < member->n; i++) {
        if (member->bytes[i] < '0' || member->bytes[i] > '9')
            return false;
        v = v * 10 + (member->bytes[i] - '0');
    }
    *value = member->bytes[0] == '-' ? -v : v;
    return true;
}

void dt_page_pack(struct dt_strbuf *out, const struct dt_item *items, size_t n)
{
    unsigned char text[3 + LISTPACK_BYTES_MAX + 10];
    unsigned char *pack = text + 3;
    unsigned char *p = pack + LISTPACK_HEADER;
    dt_assert_cmp(n, <=, DT_PAGE_MAX);
    for (size_t i = 0; i < n; i++) {
        const struct dt_member *member = &items[i].member;
        int64_t value;
        if (looks_like_integer(member, &value)) {
            p = put_integer(p, value);
        } else {
            unsigned char *begin = p;
            *p++ = (unsigned char)(0x80 | member->n);
            memcpy(p, member->bytes, member->n);
            p = end_entry(begin, p + member->n);
        }
        p = put_integer(p, items[i].due_ms - items[0].due_ms);
    }
    *p++ = 0xFF;
    const size_t bytes = (size_t)(p - pack);
    put_le(pack, bytes, 4);
    put_le(pack + 4, 2 * n, 2);
    text[0] = RDB_ZSET_LISTPACK;
    text[1] = (unsigned char)(0x40 | bytes >> 8); /* string length of 14 bits */
    text[2] = (unsigned char)bytes;
    p = put_le(p, RDB_VERSION, 2);
    p = put_le(p, crc_of(text, (size_t)(p - text)), 8);
    dt_strbuf_add(out, (const char *)text, (size_t)(p - text));
}
