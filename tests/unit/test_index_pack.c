/* Members of the index, and slices as Redis takes them. */
#include "index/index_pack.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "job/job.h"

#define NOON INT64_C(1820966400000)

static void a_member_is_short_on_the_ids_home_day_and_gives_the_id_back(void **state)
{
    static const int64_t sequences[] = {
        1, 255, 0x31323334, INT64_C(0xffffffff), INT64_C(0x100000000), (INT64_C(1) << 40) - 1};

    (void)state;
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

static void what_cannot_be_a_member_is_refused(void **state)
{
    int64_t id;

    (void)state;
    assert_false(dt_member_id("", 0, NOON, &id));
    assert_false(dt_member_id("abc", 3, NOON, &id));
    assert_false(dt_member_id("abcdef", 6, NOON, &id));
    assert_false(dt_member_id("\xff\0\0\0\0\0\0\0", 8, NOON, &id)); /* negative */
    assert_false(dt_member_id("\0\0\0\0\0\0\0\0", 8, NOON, &id));
    assert_false(dt_member_id("\0\0\0\0", 4, 5, &id)); /* id 0 */
}

static void items_are_sorted_by_time_and_then_by_their_members_bytes(void **state)
{
    struct dt_item items[] = {dt_item_of(dt_job_id(NOON, 300), NOON, 0), dt_item_of(dt_job_id(NOON, 2), NOON + 1, 1),
                              dt_item_of(dt_job_id(NOON, 299), NOON, 2), dt_item_of(dt_job_id(NOON, 1), NOON, 3)};
    static const uint32_t order[] = {3, 2, 0, 1};

    (void)state;
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

static void a_slice_ends_between_two_milliseconds_and_is_never_too_large(void **state)
{
    static const struct {
        size_t n, each, cut, tied;
    } cases[] = {{1, 1, 1, 0},     {59, 1, 59, 0},   {500, 1, 60, 0},    {500, 7, 56, 0},
                 {500, 30, 60, 0}, {500, 31, 31, 0}, {500, 60, 60, 0},   {500, 62, 62, 0},
                 {500, 64, 64, 0}, {500, 65, 0, 65}, {500, 500, 0, 500}, {1000, 900, 0, 900}};

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct dt_item *items = entries(cases[i].n, cases[i].each);
        size_t tied;

        assert_int_equal(dt_slice_cut(items, cases[i].n, &tied), cases[i].cut);
        assert_int_equal(tied, cases[i].tied);
        free(items);
    }
}

/* As DUMP of Redis 7.0 gave it for ZADD k 0 <00 00 00 01> 127 <00 00 00 02> 128 1001 70000 <00 00 00 03>. */
static void a_packed_slice_is_what_redis_itself_would_dump(void **state)
{
    static const unsigned char dumped[] = {
        0x11, 0x28, 0x28, 0x00, 0x00, 0x00, 0x08, 0x00, 0x84, 0x00, 0x00, 0x00, 0x01, 0x05, 0x00, 0x01, 0x84, 0x00,
        0x00, 0x00, 0x02, 0x05, 0x7f, 0x01, 0xc3, 0xe9, 0x02, 0xc0, 0x80, 0x02, 0x84, 0x00, 0x00, 0x00, 0x03, 0x05,
        0xf2, 0x70, 0x11, 0x01, 0x04, 0xff, 0x0a, 0x00, 0x46, 0x39, 0x9c, 0x44, 0xb2, 0x9e, 0xdc, 0xf3};
    struct dt_item items[] = {dt_item_of(dt_job_id(NOON, 1), NOON, 0), dt_item_of(dt_job_id(NOON, 2), NOON + 127, 0),
                              dt_item_of(dt_job_id(NOON, 0x31303031), NOON + 128, 0),
                              dt_item_of(dt_job_id(NOON, 3), NOON + 70000, 0)};
    struct dt_strbuf out;

    (void)state;
    dt_strbuf_init(&out);
    dt_slice_pack(&out, items, 4);
    /* the length stands in two bytes here, in one there: both are its forms, the rest is the same but for the sum */
    assert_int_equal((unsigned char)out.p[0], dumped[0]);
    assert_memory_equal(out.p + 3, dumped + 2, sizeof(dumped) - 2 - 8);
    assert_int_equal(out.n, sizeof(dumped) + 1);
    dt_strbuf_clear(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_member_is_short_on_the_ids_home_day_and_gives_the_id_back),
        cmocka_unit_test(what_cannot_be_a_member_is_refused),
        cmocka_unit_test(items_are_sorted_by_time_and_then_by_their_members_bytes),
        cmocka_unit_test(a_slice_ends_between_two_milliseconds_and_is_never_too_large),
        cmocka_unit_test(a_packed_slice_is_what_redis_itself_would_dump),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
