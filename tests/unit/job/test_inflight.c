/* How a list of what is in flight shrinks: what leaves it, and why, and how much of it goes next. */

#include "support/suite.h"

#include "job/inflight.h"

static struct dt_claim five[5] = {{100, 1, 10}, {101, 2, 20}, {102, 1, 30}, {103, 1, 40}, {104, 9, 50}};
static const struct dt_inflight list = {.v = five, .n = 5};
static const struct dt_inflight nothing;

static struct dt_inflight head(size_t n)
{
    return (struct dt_inflight){.v = five, .n = n};
}

static void assert_shrink(struct dt_shrink is, size_t leave, bool undeliverable, size_t send_n)
{
    assert_members(is, (leave, leave), (undeliverable, undeliverable), (send_n, send_n));
}

TEST(a_sent_part_is_removed_from_the_list_and_the_next_part_is_twice_as_large)
{
    assert_shrink(dt_inflight_sent(100, 1), 1, false, 2);
    assert_shrink(dt_inflight_sent(100, 30), 30, false, 60);
    assert_shrink(dt_inflight_sent(100, 40), 40, false, 60);
    assert_shrink(dt_inflight_sent(100, 100), 100, false, 0);
    assert_shrink(dt_inflight_sent(0, 0), 0, false, 0);
}

TEST(a_takeover_without_a_known_refusal_changes_nothing)
{
    assert_shrink(dt_inflight_taken_over(&list, 5, false, &nothing), 0, false, 5);
    assert_shrink(dt_inflight_taken_over(&list, 2, false, &nothing), 0, false, 2);
    assert_shrink(dt_inflight_taken_over(&nothing, 0, false, &nothing), 0, false, 0);
}

TEST(a_refused_list_is_halved_down_to_one)
{
    struct dt_inflight four = head(4), three = head(3), two = head(2);
    assert_shrink(dt_inflight_taken_over(&list, 4, false, &four), 0, false, 2);
    assert_shrink(dt_inflight_taken_over(&list, 3, false, &three), 0, false, 1);
    assert_shrink(dt_inflight_taken_over(&list, 2, false, &two), 0, false, 1);
}

TEST(an_attempt_refused_alone_is_undeliverable_and_the_next_is_sent_alone)
{
    struct dt_inflight one = head(1);
    assert_shrink(dt_inflight_taken_over(&list, 1, false, &one), 1, true, 1);
    assert_shrink(dt_inflight_taken_over(&one, 1, false, &one), 1, true, 0);
}

TEST(an_attempt_in_the_ledger_was_sent_whatever_the_hint_says)
{
    struct dt_inflight one = head(1), two = head(2);
    assert_shrink(dt_inflight_taken_over(&list, 1, true, &one), 1, false, 2);
    assert_shrink(dt_inflight_taken_over(&list, 2, true, &two), 2, false, 3);
}

TEST(a_hint_about_another_list_is_ignored)
{
    for (int i = 0; i < 5; i++) {
        struct dt_claim other[2] = {five[0], five[1]};
        struct dt_inflight hint = {.v = other, .n = i == 4 ? 1 : 2};
        other[0].id += i == 0;
        other[1].attempt += i == 1;
        other[1].due_ms += i == 2;
        if (i == 3) {
            other[0] = five[1];
            other[1] = five[0];
        }
        assert_shrink(dt_inflight_taken_over(&list, 2, false, &hint), 0, false, 2);
    }
    struct dt_inflight second = {.v = five + 1, .n = 1};
    assert_shrink(dt_inflight_taken_over(&list, 1, false, &second), 0, false, 1);
}

/* Whatever is refused, in any list: halving and doubling end, everything else is sent once and in order. */
TEST(a_poison_message_at_any_place_is_isolated_and_the_others_sent_once)
{
    for (unsigned n = 1; n <= 9; n++) {
        for (unsigned poison = 0; poison < 1u << n; poison++) {
            struct dt_claim v[9];
            unsigned sent = 0, undeliverable = 0, at = 0, steps = 0;
            size_t send_n = n;
            for (unsigned i = 0; i < n; i++)
                v[i] = (struct dt_claim){i, 1, i};
            while (at < n) {
                struct dt_inflight rest = {.v = v + at, .n = n - at}, batch = {.v = v + at, .n = send_n};
                unsigned mask = ((1u << send_n) - 1) << at;
                struct dt_shrink s = mask & poison ? dt_inflight_taken_over(&rest, send_n, false, &batch)
                                                   : dt_inflight_sent(rest.n, send_n);
                if (!(mask & poison))
                    sent |= mask;
                else if (s.undeliverable)
                    undeliverable |= 1u << at;
                at += (unsigned)s.leave;
                send_n = s.send_n;
                assert_true(at == n ? send_n == 0 : send_n >= 1 && send_n <= n - at);
                assert_true(++steps < 100);
            }
            assert_int_equal(undeliverable, poison);
            assert_int_equal(sent, ((1u << n) - 1) & ~poison);
        }
    }
}

TEST(a_list_is_read_as_it_was_written)
{
    struct dt_inflight read = {0};
    struct dt_strbuf text = {0};
    dt_inflight_format(five, 5, &text);
    assert_int_equal(dt_inflight_parse(dt_strbuf_str(&text), &read), DT_OK);
    assert_true(dt_inflight_equal(read.v, read.n, five, 5));
    dt_strbuf_clear(&text);
    assert_int_equal(dt_inflight_parse(DT_STR_LIT(" [ [999999999999999999 , 1,-20] ] \n"), &read), DT_OK);
    assert_int_equal(read.n, 1);
    assert_true(read.v[0].id == INT64_C(999999999999999999));
    assert_int_equal(read.v[0].due_ms, -20);
    assert_int_equal(dt_inflight_parse(DT_STR_LIT("[[1000000000000000000,1,1]]"), &read), DT_MALFORMED);
    assert_int_equal(dt_inflight_parse(DT_STR_LIT("[]"), &read), DT_OK);
    assert_int_equal(read.n, 0);
    assert_int_equal(dt_inflight_parse(DT_STR_LIT(""), &read), DT_OK);
    assert_int_equal(read.n, 0);
    dt_inflight_clear(&read);
    assert_null(read.v);
}

/* A byte that is another, or a text that ends anywhere: each stands in memory of its own, so that nothing is read behind
 * it. */
TEST(a_list_that_is_malformed_anywhere_is_refused)
{
    static const char whole[] = "[[100,1,10],[101,2,20]]";
    struct dt_inflight read = {0};
    char *text = malloc(sizeof(whole) - 1);
    assert_non_null(text);
    for (size_t i = 0; i < sizeof(whole) - 1; i++) {
        memcpy(text, whole, sizeof(whole) - 1);
        text[i] = 'x';
        assert_int_equal(dt_inflight_parse((struct dt_str){text, sizeof(whole) - 1}, &read), DT_MALFORMED);
    }
    free(text);
    for (size_t n = 1; n < sizeof(whole) - 1; n++) {
        text = malloc(n);
        assert_non_null(text);
        memcpy(text, whole, n);
        assert_int_equal(dt_inflight_parse((struct dt_str){text, n}, &read), DT_MALFORMED);
        free(text);
    }
    assert_int_equal(dt_inflight_parse(DT_STR_LIT("[[100,1,10],]"), &read), DT_MALFORMED);
    assert_int_equal(dt_inflight_parse(DT_STR_LIT("[[100,1,10]]x"), &read), DT_MALFORMED);
    dt_inflight_clear(&read);
}

TEST(a_list_that_is_sorted_by_id_can_be_searched)
{
    struct dt_claim v[] = {{7, 1, 1}, {3, 1, 2}, {9, 2, 3}};
    struct dt_inflight some = {.v = v, .n = 3}, all = {0};
    assert_int_equal(dt_inflight_append(&all, &nothing), DT_OK);
    assert_null(all.v);
    assert_int_equal(dt_inflight_append(&all, &list), DT_OK);
    assert_int_equal(dt_inflight_append(&all, &some), DT_OK);
    assert_int_equal(all.n, 8);
    assert_int_equal(all.v[5].id, 7);
    dt_inflight_sort_by_id(&all);
    for (size_t i = 1; i < all.n; i++)
        assert_true(all.v[i - 1].id < all.v[i].id);
    assert_true(dt_inflight_has(&all, 3) && dt_inflight_has(&all, 9) && dt_inflight_has(&all, 104));
    assert_false(dt_inflight_has(&all, 8) || dt_inflight_has(&all, 105) || dt_inflight_has(&nothing, 3));
    dt_inflight_clear(&all);
}

TEST(formatting_by_id_does_not_reorder_the_list)
{
    struct dt_claim v[] = {{7, 1, 1}, {3, 1, 2}};
    STRBUF(text);
    assert_int_equal(dt_inflight_format_by_id(v, 2, &text), DT_OK);
    assert_true(dt_str_is(dt_strbuf_str(&text), "[[3,1,2],[7,1,1]]"));
    assert_int_equal(v[0].id, 7);
    dt_strbuf_reset(&text);
    assert_int_equal(dt_inflight_format_by_id(NULL, 0, &text), DT_OK);
    assert_true(dt_str_is(dt_strbuf_str(&text), "[]"));
}
