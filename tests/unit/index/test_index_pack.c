/* Members of the index, and pages as Redis takes them. */
#include "index/index_pack.h"

#include "support/suite.h"

#include "job/job.h"

#define NOON INT64_C(1820966400000)

TEST(a_member_is_short_on_the_home_day_and_decodes_to_the_id)
{
    static const int64_t sequences[] = {
        1, 255, 0x31323334, INT64_C(0xffffffff), INT64_C(0x100000000), (INT64_C(1) << 40) - 1};
    for (size_t i = 0; i < sizeof(sequences) / sizeof(sequences[0]); i++) {
        int64_t id = dt_job_id(NOON, sequences[i]), days[] = {NOON, NOON + DT_DAY_MS, NOON - DT_DAY_MS, 5};
        for (int k = 0; k < 4; k++) {
            struct dt_member member = dt_member_of(id, days[k]);
            int64_t back = 0;
            assert_int_equal(member.n, k ? 8 : sequences[i] >> 32 ? 5 : 4);
            assert_true(dt_member_id((const char *)member.bytes, member.n, days[k], &back));
            assert_int_equal(back, id);
        }
    }
}

TEST(a_text_that_cannot_be_a_member_is_refused)
{
    int64_t id;
    assert_false(dt_member_id("", 0, NOON, &id));
    assert_false(dt_member_id("abc", 3, NOON, &id));
    assert_false(dt_member_id("abcdef", 6, NOON, &id));
    assert_false(dt_member_id("\xff\0\0\0\0\0\0\0", 8, NOON, &id)); /* negative */
    assert_false(dt_member_id("\0\0\0\0\0\0\0\0", 8, NOON, &id));
    assert_false(dt_member_id("\0\0\0\0", 4, 5, &id)); /* id 0 */
    assert_true(dt_member_id("\0\0\0\0\0\0\0\1", 8, NOON, &id));
    assert_int_equal(id, 1);
}

TEST(items_are_sorted_by_time_and_then_by_their_members_bytes)
{
    struct dt_item items[] = {dt_item_of(dt_job_id(NOON, 300), NOON, 0), dt_item_of(dt_job_id(NOON, 2), NOON + 1, 1),
                              dt_item_of(dt_job_id(NOON, 299), NOON, 2), dt_item_of(dt_job_id(NOON, 1), NOON, 3)};
    static const uint32_t order[] = {3, 2, 0, 1};
    dt_items_sort(items, 4);
    for (int i = 0; i < 4; i++)
        assert_int_equal(items[i].ref, order[i]);
}

/* n entries, `each` in a millisecond. */
static struct dt_item *entries(size_t n, size_t each)
{
    struct dt_item *items = calloc(n, sizeof(*items));
    for (size_t i = 0; i < n; i++)
        items[i] = dt_item_of(dt_job_id(NOON, (int64_t)i + 1), NOON + (int64_t)(i / each), 0);
    return items;
}

TEST(a_page_ends_between_two_milliseconds_and_is_never_too_large)
{
    static const struct {
        size_t n, each, cut, tied;
    } cases[] = {{1, 1, 1, 0},     {59, 1, 59, 0},   {500, 1, 60, 0},    {500, 7, 56, 0},
                 {500, 30, 60, 0}, {500, 31, 31, 0}, {500, 60, 60, 0},   {500, 62, 62, 0},
                 {500, 64, 64, 0}, {500, 65, 0, 65}, {500, 500, 0, 500}, {1000, 900, 0, 900}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct dt_item *items = entries(cases[i].n, cases[i].each);
        size_t tied;
        assert_int_equal(dt_page_cut(items, cases[i].n, &tied), cases[i].cut);
        assert_int_equal(tied, cases[i].tied);
        free(items);
    }
}

/* As DUMP of Redis 7.0 gave it for ZADD k 0 <00 00 00 01> 127 <00 00 00 02> 128 1001 70000 <00 00 00 03>. */
TEST(a_packed_page_is_what_redis_itself_would_dump)
{
    static const unsigned char dumped[] = {
        0x11, 0x28, 0x28, 0x00, 0x00, 0x00, 0x08, 0x00, 0x84, 0x00, 0x00, 0x00, 0x01, 0x05, 0x00, 0x01, 0x84, 0x00,
        0x00, 0x00, 0x02, 0x05, 0x7f, 0x01, 0xc3, 0xe9, 0x02, 0xc0, 0x80, 0x02, 0x84, 0x00, 0x00, 0x00, 0x03, 0x05,
        0xf2, 0x70, 0x11, 0x01, 0x04, 0xff, 0x0a, 0x00, 0x46, 0x39, 0x9c, 0x44, 0xb2, 0x9e, 0xdc, 0xf3};
    struct dt_item items[] = {dt_item_of(dt_job_id(NOON, 1), NOON, 0), dt_item_of(dt_job_id(NOON, 2), NOON + 127, 0),
                              dt_item_of(dt_job_id(NOON, 0x31303031), NOON + 128, 0),
                              dt_item_of(dt_job_id(NOON, 3), NOON + 70000, 0)};
    STRBUF(out);
    dt_page_pack(&out, items, 4);
    /* the length stands in two bytes here, in one there: both are its forms, the rest is the same but for the sum */
    assert_int_equal((unsigned char)out.p[0], dumped[0]);
    assert_memory_equal(out.p + 3, dumped + 2, sizeof(dumped) - 2 - 8);
    assert_int_equal(out.n, sizeof(dumped) + 1);
}

/* ---- a reader of its own, by Redis's description of the format ---- */

/* An entry of a listpack: an integer, or bytes. */
struct read {
    bool is_text;
    int64_t value;
    const unsigned char *text;
    size_t n, took;
};

static int64_t integer_at(const unsigned char *p, unsigned bytes)
{
    uint64_t value = 0;
    for (unsigned i = 0; i < bytes; i++)
        value |= (uint64_t)p[i] << (8 * i);
    return bytes == 8 ? (int64_t)value : (int64_t)(value << (64 - 8 * bytes)) >> (64 - 8 * bytes);
}

static struct read read_entry(const unsigned char *p)
{
    static const unsigned char bytes_of[] = {2, 3, 4, 8};
    struct read e = {0};
    if (p[0] < 0x80) {
        e = (struct read){.value = p[0], .took = 1};
    } else if (p[0] < 0xC0) {
        e = (struct read){.is_text = true, .text = p + 1, .n = p[0] & 0x3Fu, .took = 1 + (p[0] & 0x3Fu)};
    } else if (p[0] < 0xE0) {
        int64_t value = (p[0] & 0x1F) << 8 | p[1];
        e = (struct read){.value = value >= 4096 ? value - 8192 : value, .took = 2};
    } else {
        assert_in_range(p[0], 0xF1, 0xF4);
        unsigned bytes = bytes_of[p[0] - 0xF1];
        e = (struct read){.value = integer_at(p + 1, bytes), .took = 1u + bytes};
    }
    assert_int_equal(p[e.took], e.took); /* an entry ends with its length, for who comes from behind */
    e.took++;
    return e;
}

/* One bit at a time. */
static uint64_t crc_bit_by_bit(const unsigned char *p, size_t n)
{
    uint64_t crc = 0;
    for (size_t i = 0; i < n; i++) {
        crc ^= p[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc & 1 ? crc >> 1 ^ UINT64_C(0x95ac9329ac4bc9b5) : crc >> 1;
    }
    return crc;
}

static void assert_packed(const struct dt_item *items, size_t n)
{
    STRBUF(out);
    dt_page_pack(&out, items, n);
    const unsigned char *p = (const unsigned char *)out.p, *pack = p + 3;
    size_t bytes = (size_t)((p[1] & 0x3F) << 8 | p[2]), at = 6;
    assert_int_equal(p[0], 17);
    assert_int_equal(p[1] >> 6, 1);
    assert_int_equal(out.n, 3 + bytes + 2 + 8);
    assert_int_equal(integer_at(pack, 4), bytes);
    assert_int_equal(integer_at(pack + 4, 2), 2 * n);
    for (size_t i = 0; i < n; i++) {
        struct read member = read_entry(pack + at), score = read_entry(pack + at + member.took);
        char text[24];
        at += member.took + score.took;
        assert_members(score, (is_text, false), (value, items[i].due_ms - items[0].due_ms));
        if (!member.is_text) { /* Redis keeps what looks like a decimal integer as one */
            member.n = (size_t)snprintf(text, sizeof text, "%lld", (long long)member.value);
            member.text = (const unsigned char *)text;
        }
        assert_int_equal(member.n, items[i].member.n);
        assert_memory_equal(member.text, items[i].member.bytes, member.n);
    }
    assert_int_equal(pack[at], 0xFF);
    assert_int_equal(at + 1, bytes);
    assert_int_equal(integer_at(pack + bytes, 2), 10);
    assert_true((uint64_t)integer_at(pack + bytes + 2, 8) == crc_bit_by_bit(p, out.n - 8));
}

TEST(scores_of_every_size_are_packed_as_redis_reads_them)
{
    static const int64_t edges[] = {0,
                                    127,
                                    128,
                                    4095,
                                    4096,
                                    32767,
                                    32768,
                                    8388607,
                                    8388608,
                                    2147483647,
                                    2147483648,
                                    INT64_C(4294967295),
                                    1 << 8,
                                    1 << 16,
                                    INT64_C(1) << 32,
                                    INT64_C(1) << 40};
    for (size_t i = 0; i < sizeof(edges) / sizeof(*edges); i++)
        for (int64_t near = -1; near <= 1; near++) {
            int64_t due_ms = NOON + edges[i] + near;
            struct dt_item items[] = {dt_item_of(dt_job_id(NOON, 1), NOON, 0),
                                      dt_item_of(dt_job_id(NOON, 2), due_ms, 1)};

            if (due_ms >= NOON)
                assert_packed(items, 2);
        }
}

TEST(members_that_look_like_numbers_are_packed_as_numbers)
{
    /* the four bytes of a sequence, read as text */
    static const int64_t sequences[] = {0x30303030,
                                        0x31303030,
                                        0x30313233,
                                        0x39393939,
                                        0x2d313233,
                                        0x2d303132,
                                        0x2d2d3132,
                                        0x31323361,
                                        0x3132332f,
                                        0x3132333a,
                                        0x3a313233,
                                        0x2f313233,
                                        0x2d3a3132,
                                        0x31323334,
                                        INT64_C(0x3132333435),
                                        INT64_C(0x2d39393939),
                                        INT64_C(0x3936373136),
                                        0x34303935,
                                        0x34303936,
                                        0x2d313238,
                                        0x31323820};

    for (size_t i = 0; i < sizeof(sequences) / sizeof(*sequences); i++) {
        struct dt_item item = dt_item_of(dt_job_id(NOON, sequences[i]), NOON, 0);
        assert_packed(&item, 1);
    }
}

TEST(pages_of_every_length_are_packed_whole)
{
    for (size_t n = 1; n <= DT_PAGE_MAX; n++) {
        struct dt_item items[DT_PAGE_MAX];
        for (size_t i = 0; i < n; i++) /* of another day: eight bytes a member, and large scores */
            items[i] = dt_item_of(dt_job_id(NOON, (int64_t)i + 1), NOON + DT_DAY_MS * (int64_t)(2 + i * i), 0);
        assert_packed(items, n);
    }
}

TEST(a_list_sorted_except_for_its_last_item_is_sorted_by_one_call)
{
    for (size_t n = 2; n < 6; n++) {
        struct dt_item items[6];
        for (size_t i = 0; i < n; i++)
            items[i] =
                dt_item_of(dt_job_id(NOON, (int64_t)i + 1), NOON + (i + 1 < n ? 10 + (int64_t)i : 5), (uint32_t)i);
        dt_items_sort(items, n);
        assert_int_equal(items[0].ref, n - 1);
        for (size_t i = 1; i < n; i++)
            assert_int_equal(items[i].ref, i - 1);
    }
}
