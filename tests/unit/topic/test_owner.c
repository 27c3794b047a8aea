/* Which owner a topic has. */

#include "support/suite.h"

#include "topic/owners.h"

static struct dt_arena arena;

static int64_t owner_of(struct dt_owners *owners, const char *name)
{
    dt_owners_sort(owners);
    return dt_owners_of(owners, dt_str(name));
}

static void add(struct dt_owners *owners, const char *topics)
{
    assert_int_equal(dt_owners_add(owners, dt_str(topics), &arena), DT_OK);
}

static void clear(void)
{
    dt_arena_clear(&arena);
}

#define FRESH_TEST(name) TEST_WITH(name, NULL, clear)

FRESH_TEST(without_a_token_the_name_decides_up_to_its_first_dot)
{
    assert_true(dt_owner_by_name(DT_STR_LIT("shop.orders")) > 0);
    assert_int_equal(dt_owner_by_name(DT_STR_LIT("shop.orders")), dt_owner_by_name(DT_STR_LIT("shop")));
    assert_int_equal(dt_owner_by_name(DT_STR_LIT("shop.a.b")), dt_owner_by_name(DT_STR_LIT("shop")));
    assert_int_not_equal(dt_owner_by_name(DT_STR_LIT("shops")), dt_owner_by_name(DT_STR_LIT("shop")));
    assert_true(dt_owner_by_name(DT_STR_NONE) > 0);
}

FRESH_TEST(the_longest_prefix_decides_whatever_the_order)
{
    struct dt_owners owners = {0};
    add(&owners, "shop.");
    add(&owners, "atk");
    add(&owners, "atk.special,shop.vip.,, nonsense.,x y");
    assert_int_equal(owner_of(&owners, "atk1.x"), owner_of(&owners, "atk2.y"));
    assert_int_equal(owner_of(&owners, "atk.special.x"), owner_of(&owners, "shop.vip.y"));
    assert_int_not_equal(owner_of(&owners, "atk.special.x"), owner_of(&owners, "atk.x"));
    assert_int_not_equal(owner_of(&owners, "shop.x"), owner_of(&owners, "shop.vip.y"));
    assert_int_equal(owner_of(&owners, "shop"), dt_owner_by_name(DT_STR_LIT("shop")));
    assert_int_equal(owner_of(&owners, "zzz.x"), dt_owner_by_name(DT_STR_LIT("zzz")));
    assert_int_equal(owner_of(&owners, ""), dt_owner_by_name(DT_STR_NONE));
}

FRESH_TEST(tokens_with_the_same_prefixes_are_one_owner_whatever_their_order)
{
    struct dt_owners a = {0};
    struct dt_owners b = {0};
    add(&a, "in.,out.");
    add(&b, "out.,in.,out.");
    assert_int_equal(owner_of(&a, "in.x"), owner_of(&b, "in.x"));
    assert_int_equal(owner_of(&a, "in.x"), owner_of(&b, "out.x"));
}

/* Such as a monitor of several tenants. */
FRESH_TEST(a_token_with_the_prefixes_of_several_owners_does_not_make_them_one)
{
    static const char *const names[] = {"acme.", "globex.", "initech.", "umbrella.", "hooli."};
    struct dt_owners owners = {0};
    add(&owners, "acme.,globex.,initech.,umbrella.,hooli.");
    for (size_t i = 0; i < 5; i++)
        add(&owners, names[i]);
    for (size_t i = 0; i < 5; i++)
        for (size_t k = 0; k < i; k++)
            assert_int_not_equal(owner_of(&owners, names[i]), owner_of(&owners, names[k]));
}

FRESH_TEST(a_token_for_all_topics_owns_none)
{
    struct dt_owners owners = {0};
    add(&owners, "*");
    add(&owners, "");
    assert_int_equal(owners.n, 0);
    assert_int_equal(owner_of(&owners, "shop.x"), dt_owner_by_name(DT_STR_LIT("shop")));
}

FRESH_TEST(many_prefixes_are_supported)
{
    struct dt_owners owners = {0};
    char text[2000] = "";
    for (int i = 100; i < 400; i++)
        snprintf(text + strlen(text), sizeof(text) - strlen(text), "p%d.,", i);
    add(&owners, text);
    assert_int_equal(owners.n, 300);
    assert_int_equal(owner_of(&owners, "p100.x"), owner_of(&owners, "p399.x"));
    assert_true(owner_of(&owners, "p100.x") > 0);
}
