/* Sealed cursors: what they open with, and that nothing can be read in them. */
#include <string.h>

#include "support/suite.h"

#include "auth/cursor.h"
#include "base/text/base64.h"

#define SECRET  "payments.secret-topic"
#define S(text) DT_STR_LIT(text)

static const unsigned char key[DT_CURSOR_KEY] = "0123456789abcdefghijklmnopqrstu", other_key[DT_CURSOR_KEY] = "another";
static const struct dt_caller everybody = {.scopes = DT_SCOPE_READ | DT_SCOPE_ALL_TOPICS};

struct fixture {
    struct dt_arena arena;
    struct dt_strbuf text;
    struct dt_cursor_list list;
};

static struct dt_cursor_list list_of(const unsigned char *with, char kind, const struct dt_caller *caller,
                                     struct dt_str a, struct dt_str b)
{
    struct dt_cursor_list list;
    assert_int_equal(dt_cursor_list_init(&list, with, kind, caller, (const struct dt_str[]){a, b}, 2), DT_OK);
    return list;
}

static void make(struct fixture *f)
{
    dt_arena_init(&f->arena);
    dt_strbuf_init(&f->text);
    f->list = list_of(key, 'i', &everybody, S("orders"), DT_STR_NONE);
    dt_cursor_add(&f->text, &f->list, S(SECRET));
    assert_false(f->text.failed);
}

static void drop(struct fixture *f)
{
    dt_strbuf_clear(&f->text);
    dt_arena_clear(&f->arena);
}

#define RIG_TEST(name) TEST_ON(struct fixture, f, name, make, drop)

static bool opens(struct fixture *f, const struct dt_cursor_list *list, struct dt_str text)
{
    struct dt_str position;
    bool fine = dt_cursor_parse(&f->arena, list, text, &position);
    assert_int_equal(fine, dt_str_is(position, SECRET));
    return fine;
}

RIG_TEST(a_cursor_opens_with_no_other_list_filter_caller_or_key)
{
    const struct dt_str prefixes[] = {S("orders."), S("mail")};
    const struct dt_caller bound = {.scopes = DT_SCOPE_READ, .topics = {prefixes, 2}};
    const struct dt_caller nobody = {.scopes = DT_SCOPE_READ};
    const struct dt_cursor_list others[] = {
        list_of(key, 'k', &everybody, S("orders"), DT_STR_NONE),
        list_of(key, 'i', &everybody, S("order"), S("s")),
        list_of(key, 'i', &everybody, S("orders"), S("")), /* empty is not absent */
        list_of(key, 'i', &everybody, DT_STR_NONE, S("orders")),
        list_of(key, 'i', &bound, S("orders"), DT_STR_NONE),
        list_of(key, 'i', &nobody, S("orders"), DT_STR_NONE),
        list_of(other_key, 'i', &everybody, S("orders"), DT_STR_NONE),
    };
    for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++)
        assert_false(opens(f, &others[i], dt_strbuf_str(&f->text)));
}

RIG_TEST(a_cursor_of_one_bound_token_is_not_for_another)
{
    const struct dt_str a[] = {S("a."), S("b.")}, b[] = {S("a.b.")}, c[] = {S("a.")};
    const struct dt_caller callers[] = {{.topics = {a, 2}}, {.topics = {b, 1}}, {.topics = {c, 1}}};
    for (size_t i = 0; i < 3; i++) {
        struct dt_cursor_list own = list_of(key, 't', &callers[i], DT_STR_NONE, DT_STR_NONE);
        dt_strbuf_reset(&f->text);
        dt_cursor_add(&f->text, &own, S(SECRET));
        for (size_t j = 0; j < 3; j++) {
            struct dt_cursor_list list = list_of(key, 't', &callers[j], DT_STR_NONE, DT_STR_NONE);
            assert_int_equal(opens(f, &list, dt_strbuf_str(&f->text)), i == j);
        }
    }
}

RIG_TEST(a_cursor_with_one_changed_character_is_refused)
{
    for (size_t i = 0; i < f->text.n; i++) {
        char was = f->text.p[i];
        f->text.p[i] = was == 'A' ? 'B' : 'A';
        assert_false(opens(f, &f->list, dt_strbuf_str(&f->text)));
        f->text.p[i] = was;
    }
    for (size_t n = 0; n < f->text.n; n++)
        assert_false(opens(f, &f->list, (struct dt_str){f->text.p, n}));
    assert_false(opens(f, &f->list, S("?")));
    assert_false(opens(f, &f->list, DT_STR_NONE));
}

RIG_TEST(a_place_may_be_empty_or_long)
{
    char longest[300];
    struct dt_str position;
    memset(longest, '\xff', sizeof(longest));
    for (size_t n = 0; n <= sizeof(longest); n += 50) {
        dt_strbuf_reset(&f->text);
        dt_cursor_add(&f->text, &f->list, (struct dt_str){longest, n});
        assert_true(dt_cursor_parse(&f->arena, &f->list, dt_strbuf_str(&f->text), &position));
        assert_int_equal(position.n, n);
        assert_memory_equal(position.p, longest, n);
    }
}

SUITE(NULL, NULL)
