/* A set of ids: what was added is in it, nothing else is, until it is emptied. */
#include "support/suite.h"

#include "shard/shard_parts.h"

/* Ids as they are given out: a day's, one after the other. */
#define DAY (INT64_C(690) << 40)

TEST(a_set_has_the_ids_that_were_added_and_no_others)
{
    struct dt_id_set set = {0};
    assert_false(dt_id_set_has(&set, 7));
    for (int64_t i = 0; i < 1000; i++)
        assert_true(dt_id_set_add(&set, DAY + 3 * i));
    assert_true(dt_id_set_add(&set, DAY));
    assert_int_equal(set.n, 1000);
    for (int64_t i = 0; i < 1000; i++) {
        assert_true(dt_id_set_has(&set, DAY + 3 * i));
        assert_false(dt_id_set_has(&set, DAY + 3 * i + 1));
    }
    dt_id_set_clear(&set);
}

TEST(an_emptied_set_is_like_a_new_one)
{
    struct dt_id_set set = {0};
    dt_id_set_empty(&set);
    assert_true(dt_id_set_add(&set, 7));
    dt_id_set_empty(&set);
    assert_false(dt_id_set_has(&set, 7));
    assert_true(dt_id_set_add(&set, 8));
    assert_true(dt_id_set_has(&set, 8));
    assert_false(dt_id_set_has(&set, 7)); /* not even now that there is something in it */
    assert_int_equal(set.n, 1);
    dt_id_set_clear(&set);
    assert_false(dt_id_set_has(&set, 8));
    dt_id_set_clear(&set);
}

TEST(a_full_set_says_so_and_keeps_its_ids)
{
    struct dt_id_set set = {0};
    for (int64_t i = 0; i < DT_ID_SET_MAX; i++)
        assert_true(dt_id_set_add(&set, DAY + i));
    assert_false(dt_id_set_add(&set, DAY - 1));
    assert_false(dt_id_set_has(&set, DAY - 1));
    assert_true(dt_id_set_add(&set, DAY + 5)); /* it is there */
    for (int64_t i = 0; i < DT_ID_SET_MAX; i++)
        assert_true(dt_id_set_has(&set, DAY + i));
    dt_id_set_clear(&set);
}
