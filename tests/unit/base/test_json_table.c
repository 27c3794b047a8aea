/* Bodies that are read by a table: values, bounds, and the faults that a caller is told, in the order of the body. */

#include "base/text/json_table.h"
#include "support/rigs/json_rig.h"

enum colour { RED, GREEN };

struct thing {
    struct dt_str name, note;
    enum colour colour;
    bool open, has_count;
    int64_t count, wait_ms, seconds_ms, at_ms;
};

static const char *check_name(struct dt_json_reader *r, struct dt_str text)
{
    return dt_str_is(text, r->context) ? "is taken" : NULL;
}

static void read_any(struct dt_json_reader *r, const struct dt_json_field *field, const struct dt_json_node *node)
{
    if (node->type != DT_JSON_ARRAY)
        dt_json_faultf(r, field, "has %u parts", (unsigned)node->n);
}

static bool admits(struct dt_json_reader *, const struct dt_json_field *, const struct dt_json_node *node)
{
    return !dt_str_is(node->name, "beside");
}

static const char *const colours[] = {"red", "green", NULL};

enum { NAME, COUNT = 4 }; /* rows */

static const struct dt_json_field fields[] = {
    [NAME] = DT_FIELD("name", TEXT, struct thing, name, .judge = check_name),
    DT_FIELD("note", TEXT, struct thing, note, .min = 2, .max = 3, .flags = DT_FIELD_NULLABLE),
    DT_FIELD("colour", WORD, struct thing, colour, .words = colours, .min = GREEN, .reason = "must be green"),
    DT_FIELD("open", FLAG, struct thing, open),
    [COUNT] =
        DT_FIELD("count", COUNT, struct thing, count, .min = 1, .max = 9, .has = offsetof(struct thing, has_count)),
    DT_FIELD("wait", DURATION, struct thing, wait_ms, .min = 1, .max = 2000, .reason = "must be short"),
    DT_FIELD("seconds", SECONDS, struct thing, seconds_ms, .max = 2000, .reason = "must be short"),
    DT_FIELD("at", TIME, struct thing, at_ms),
    DT_FIELD_BY("any", read_any),
    DT_FIELD_FOR_SHOW("shown", OBJECT, .reason = "is not as it is shown"),
};
static const struct dt_json_table table = DT_TABLE(fields, .unknown = DT_REASON_UNKNOWN, .admits = admits);

static struct dt_arena arena;

/* Reads a body under the pointer /x; the faults are joined: "pointer reason; …". */
static const char *read_thing(dt_json *json, const char *text, struct thing *out, struct dt_json_reader *r)
{
    static char told[2000];
    static struct dt_faults faults;
    const struct dt_json_limits limits = {.depth = 4};
    told[0] = '\0';
    faults = (struct dt_faults){.arena = &arena};
    *r = (struct dt_json_reader){.json = json, .faults = &faults, .out = out, .context = "taken", .parent = "/x"};
    assert_int_equal(dt_json_parse(json, dt_str(text), &limits, NULL), DT_OK);
    dt_json_read(r, &table, dt_json_root(json));
    for (size_t i = 0, n = 0; i < faults.n; i++, n = strlen(told))
        snprintf(told + n, sizeof told - n, "%s%s %s", i ? "; " : "", faults.v[i].pointer.p, faults.v[i].reason.p);
    assert_int_equal(dt_faults_status(&faults), faults.n ? DT_INVALID : DT_OK);
    return told;
}

JSON_TEST(every_kind_is_read_into_its_member)
{
    struct dt_json_reader r;
    struct thing t = {.count = 5, .note = DT_STR_LIT("as it was")};
    assert_string_equal(
        read_thing(json,
                   "{\"colour\":\"green\",\"open\":true,\"count\":9,\"wait\":\"2s\",\"seconds\":1.5,\"at\":"
                   "\"1970-01-01T00:00:01Z\",\"any\":[],\"shown\":{},\"name\":\"n\",\"note\":null}",
                   &t, &r),
        "");
    assert_true(dt_str_is(t.name, "n") && t.colour == GREEN && t.open && t.count == 9 && t.has_count);
    assert_true(t.wait_ms == 2000 && t.seconds_ms == 1500 && t.at_ms == 1000);
    assert_true(dt_str_is(t.note, "as it was"));
    assert_int_equal(r.given, 0x3ff);
    assert_int_equal(r.good, 0x1fd); /* neither null nor what is only shown */
}

JSON_TEST(absent_members_leave_their_fields_unchanged)
{
    struct dt_json_reader r;
    struct thing t = {.count = 5, .wait_ms = 7};
    assert_string_equal(read_thing(json, "{\"beside\":1}", &t, &r), "");
    assert_true(t.count == 5 && t.wait_ms == 7 && !t.has_count && !dt_json_given(&r, COUNT));
}

JSON_TEST(each_fault_is_reported_with_its_pointer_and_reason)
{
    static const char *const rows[][2] = {
        {"[]", "/x must be an object"},
        {"{\"name\":1}", "/x/name must be a string"},
        {"{\"name\":\"taken\"}", "/x/name is taken"},
        {"{\"note\":\"a\"}", "/x/note must be a string of 2 to 3 bytes"},
        {"{\"note\":7}", "/x/note must be a string of 2 to 3 bytes"},
        {"{\"colour\":\"red\"}", "/x/colour must be green"},
        {"{\"colour\":1}", "/x/colour must be green"},
        {"{\"open\":null}", "/x/open must be true or false"},
        {"{\"count\":0}", "/x/count must be a whole number from 1 to 9"},
        {"{\"count\":10}", "/x/count must be a whole number from 1 to 9"},
        {"{\"count\":1.0}", "/x/count must be a whole number from 1 to 9"},
        {"{\"wait\":0}", "/x/wait must be short"},
        {"{\"wait\":2001}", "/x/wait must be short"},
        {"{\"wait\":-1}", "/x/wait must not be negative, nor longer than 100 years"},
        {"{\"seconds\":2.1}", "/x/seconds must be short"},
        {"{\"seconds\":\"1s\"}", "/x/seconds must be a number of seconds, from 0 to 100 years"},
        {"{\"at\":\"today\"}", "/x/at " DT_REASON_TIME},
        {"{\"any\":{\"a\":1}}", "/x/any has 1 parts"},
        {"{\"shown\":1}", "/x/shown is not as it is shown"},
        {"{\"a/b~\":1}", "/x/a~1b~0 is not known"},
        {"{\"more\":1,\"count\":0,\"name\":\"n\",\"open\":2}",
         "/x/more is not known; /x/count must be a whole number from 1 to 9; /x/open must be true or false"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct dt_json_reader r;
        struct thing t = {.count = 5};
        assert_string_equal(read_thing(json, rows[i][0], &t, &r), rows[i][1]);
        assert_int_equal(t.count, 5);
        assert_int_equal(r.good & ~(UINT64_C(1) << NAME), 0);
    }
}

static void end(void)
{
    dt_arena_clear(&arena);
}

SUITE(NULL, end)
