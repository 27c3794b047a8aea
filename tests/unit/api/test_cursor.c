/* Sealed cursors: what they open with, and that nothing can be read in them. */

#include "support/suite.h"

#include "base/text/encoding.h"
#include "request/cursor.h"

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
    f->list = list_of(key, 'i', &everybody, S("orders"), DT_STR_NONE);
    dt_cursor_add(&f->text, &f->list, S(SECRET));
    assert_false(f->text.failed);
}

static void drop(struct fixture *f)
{
    dt_strbuf_clear(&f->text);
    dt_arena_clear(&f->arena);
}

#define CURSOR_TEST(name) TEST_ON(struct fixture, f, name, make, drop)

static bool opens(struct fixture *f, const struct dt_cursor_list *list, struct dt_str text)
{
    struct dt_str position;
    bool fine = dt_cursor_parse(&f->arena, list, text, &position);
    assert_int_equal(fine, dt_str_is(position, SECRET));
    return fine;
}

CURSOR_TEST(a_cursor_opens_with_its_own_list)
{
    assert_true(opens(f, &f->list, dt_strbuf_str(&f->text)));
    struct dt_cursor_list same = list_of(key, 'i', &everybody, S("orders"), DT_STR_NONE); /* in another process */
    assert_true(opens(f, &same, dt_strbuf_str(&f->text)));
}

CURSOR_TEST(a_cursor_opens_with_no_other_list_filter_caller_or_key)
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

CURSOR_TEST(a_cursor_of_one_bound_token_is_not_for_another)
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

CURSOR_TEST(a_cursor_with_one_changed_character_is_refused)
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

CURSOR_TEST(a_cursor_does_not_reveal_its_contents)
{
    char quads[256], raw[256];
    size_t n = 0, padded = (f->text.n + 3) / 4 * 4;
    assert_true(padded < sizeof(quads));
    memset(quads, '=', padded);
    for (size_t i = 0; i < f->text.n; i++) {
        char c = f->text.p[i];
        quads[i] = c == '-' ? '+' : c == '_' ? '/' : c;
    }
    assert_true(dt_base64_decode((struct dt_str){quads, padded}, raw, &n));
    for (size_t i = 0; i + 4 <= n; i++)
        for (size_t k = 0; k + 4 <= strlen(SECRET); k++)
            assert_memory_not_equal(&raw[i], &SECRET[k], 4);
    struct dt_strbuf again = {0};
    dt_cursor_add(&again, &f->list, S(SECRET)); /* two of one place cannot be told to be so */
    assert_string_not_equal(again.p, f->text.p);
    dt_strbuf_clear(&again);
}

CURSOR_TEST(the_position_in_a_cursor_may_be_empty_or_long)
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
