/* The growable buffer and the arena. */

#include "support/suite.h"

#include "base/text/strbuf.h"

TEST(an_empty_buffer_has_no_memory)
{
    STRBUF(sb);
    assert_null(sb.p);
    assert_int_equal(sb.n, 0);
}

TEST(a_text_is_terminated_after_every_append)
{
    STRBUF(sb);
    dt_strbuf_adds(&sb, "");
    assert_string_equal(sb.p, "");
    dt_strbuf_adds(&sb, "ab");
    dt_strbuf_addc(&sb, 'c');
    dt_strbuf_add(&sb, "def", 2);
    dt_strbuf_add(&sb, NULL, 0);
    dt_strbuf_addf(&sb, "-%03d-%s", 7, "x");
    assert_string_equal(sb.p, "abcde-007-x");
    assert_int_equal(sb.n, 11);
    assert_true(dt_str_is(dt_strbuf_str(&sb), "abcde-007-x"));
}

TEST(a_buffer_grows_to_any_length)
{
    STRBUF(sb);
    for (int i = 0; i < 100000; i++) {
        dt_strbuf_addc(&sb, (char)('a' + i % 26));
        assert_true(sb.n < sb.cap);
    }
    for (int i = 0; i < 100000; i++)
        assert_int_equal(sb.p[i], 'a' + i % 26);
    assert_int_equal(sb.p[100000], '\0');
}

TEST(reserved_memory_is_not_allocated_again)
{
    STRBUF(sb);
    dt_strbuf_reserve(&sb, 1000);
    const char *p = sb.p;
    for (int i = 0; i < 1000; i++)
        dt_strbuf_addc(&sb, 'x');
    assert_ptr_equal(sb.p, p);
}

TEST(the_growth_of_a_buffer_is_known_beforehand)
{
    static const size_t steps[] = {1, 62, 1, 64, 100, 5000, 1, 8192, 3, 600000, 1};
    struct dt_arena arena = {0};
    STRBUF(sb);
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        size_t cap = sb.cap + dt_strbuf_growth(&sb, steps[i]);
        dt_strbuf_reserve(&sb, steps[i]);
        sb.n += steps[i];
        assert_non_null(dt_arena_alloc(&arena, steps[i]));
        assert_int_equal(sb.cap, cap);
    }
    dt_arena_reset(&arena);
    assert_true(arena.size > 0 && arena.size <= 600000);
    dt_arena_clear(&arena);
    assert_int_equal(arena.size, 0);
}

TEST(reset_keeps_the_memory_and_forgets_the_failure)
{
    STRBUF(sb);
    dt_strbuf_reset(&sb);
    assert_null(sb.p);
    dt_strbuf_adds(&sb, "text");
    const char *p = sb.p;
    dt_strbuf_reserve(&sb, SIZE_MAX / 2);
    assert_true(sb.failed);
    dt_strbuf_reset(&sb);
    assert_false(sb.failed);
    assert_ptr_equal(sb.p, p);
    assert_string_equal(sb.p, "");
}

TEST(after_a_failure_nothing_is_appended_any_more)
{
    STRBUF(sb);
    dt_strbuf_adds(&sb, "kept");
    dt_strbuf_reserve(&sb, SIZE_MAX);
    assert_true(sb.failed);
    dt_strbuf_adds(&sb, "lost");
    dt_strbuf_addf(&sb, "%d", 1);
    dt_strbuf_add_i64(&sb, 1);
    assert_string_equal(sb.p, "kept");
}

TEST(integers_are_written_at_both_ends_of_their_range)
{
    const struct {
        int64_t v;
        const char *text;
    } cases[] = {
        {0, "0"},
        {-1, "-1"},
        {9, "9"},
        {10, "10"},
        {99, "99"},
        {100, "100"},
        {-1005, "-1005"},
        {98076, "98076"},
        {INT64_MAX, "9223372036854775807"},
        {INT64_MIN, "-9223372036854775808"},
    };
    struct dt_strbuf sb = {0};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        dt_strbuf_add_i64(&sb, cases[i].v);
        assert_string_equal(sb.p, cases[i].text);
        dt_strbuf_clear(&sb);
    }
}

TEST(slices_are_equal_by_their_bytes)
{
    assert_true(dt_str_eq(DT_STR_NONE, DT_STR_LIT("")));
    assert_true(dt_str_eq((struct dt_str){"a\0b", 3}, (struct dt_str){"a\0b", 3}));
    assert_false(dt_str_eq((struct dt_str){"a\0b", 3}, (struct dt_str){"a\0c", 3}));
    assert_false(dt_str_is(dt_str("a"), "ab"));
    assert_int_equal(dt_str(NULL).n, 0);
}

TEST(slices_are_compared_without_the_case_of_their_letters)
{
    assert_true(dt_str_is_caseless(DT_STR_LIT("Content-LENGTH"), "content-length"));
    assert_true(dt_str_is_caseless(DT_STR_NONE, ""));
    assert_false(dt_str_is_caseless(DT_STR_LIT("Content-Lengt"), "content-length"));
    assert_false(dt_str_is_caseless(DT_STR_LIT("content-length "), "content-length"));
    assert_false(dt_str_is_caseless(DT_STR_LIT("content\rlength"), "content-length"));
    assert_false(
        dt_str_is_caseless(DT_STR_LIT("[x"), "{x")); /* these differ in the bit of the case, and are no letters */
    assert_false(dt_str_is_caseless(DT_STR_LIT("@x"), "`x"));
}

TEST(trimming_removes_the_blanks_at_both_ends_of_a_slice)
{
    assert_true(dt_str_is(dt_str_trimmed(DT_STR_LIT(" \t a b\t ")), "a b"));
    assert_true(dt_str_is(dt_str_trimmed(DT_STR_LIT("\ra\n")), "\ra\n"));
    assert_int_equal(dt_str_trimmed(DT_STR_LIT(" \t ")).n, 0);
    assert_int_equal(dt_str_trimmed(DT_STR_NONE).n, 0);
}

TEST(arena_memory_is_aligned_and_does_not_overlap)
{
    unsigned char *blocks[500];
    size_t sizes[500];
    ARENA(arena);
    for (size_t i = 0; i < 500; i++) {
        sizes[i] = i * 37 % 3000;
        blocks[i] = dt_arena_alloc(&arena, sizes[i]);
        assert_non_null(blocks[i]);
        assert_int_equal((uintptr_t)blocks[i] % _Alignof(max_align_t), 0);
        memset(blocks[i], (int)(i % 251), sizes[i]);
    }
    for (size_t i = 0; i < 500; i++)
        for (size_t k = 0; k < sizes[i]; k++)
            assert_int_equal(blocks[i][k], i % 251);
}

TEST(a_block_larger_than_a_chunk_is_served)
{
    char *big, *small;
    ARENA(arena);
    small = dt_arena_alloc(&arena, 8);
    big = dt_arena_alloc(&arena, 10 << 20);
    assert_non_null(big);
    memset(big, 1, 10 << 20);
    memset(small, 2, 8);
    assert_int_equal(big[0], 1);
}

TEST(an_arena_can_be_used_again_after_reset_and_after_clear)
{
    struct dt_arena arena = {0};
    dt_arena_reset(&arena);
    for (int round = 0; round < 10; round++) {
        for (int i = 0; i < 1000; i++)
            memset(dt_arena_alloc(&arena, 100), round, 100);
        if (round % 3 == 2)
            dt_arena_clear(&arena);
        else
            dt_arena_reset(&arena);
    }
    dt_arena_clear(&arena);
}

TEST(a_reset_arena_serves_the_same_work_from_the_chunk_it_kept)
{
    ARENA(arena);
    void *first = dt_arena_alloc(&arena, 100);
    dt_arena_reset(&arena);
    assert_ptr_equal(dt_arena_alloc(&arena, 100), first);
}

TEST(allocating_an_impossible_size_returns_null)
{
    ARENA(arena);
    assert_null(dt_arena_alloc(&arena, SIZE_MAX));
    assert_null(dt_arena_alloc(&arena, SIZE_MAX - 8));
}

TEST(a_copy_is_terminated_and_the_copy_of_an_absent_text_is_absent)
{
    ARENA(arena);
    struct dt_str copy = dt_arena_copy(&arena, (struct dt_str){"abcdef", 3});
    assert_string_equal(copy.p, "abc");
    assert_int_equal(copy.n, 3);
    copy = dt_arena_copy(&arena, DT_STR_LIT(""));
    assert_non_null(copy.p);
    assert_int_equal(copy.n, 0);
    assert_null(dt_arena_copy(&arena, DT_STR_NONE).p);
}

TEST(two_texts_are_joined_and_terminated)
{
    ARENA(arena);
    assert_string_equal(dt_arena_join(&arena, DT_STR_LIT("ce-"), (struct dt_str){"idle", 2}).p, "ce-id");
    assert_int_equal(dt_arena_join(&arena, DT_STR_LIT("ce-"), DT_STR_LIT("id")).n, 5);
    assert_string_equal(dt_arena_join(&arena, DT_STR_LIT(""), DT_STR_LIT("")).p, "");
}
