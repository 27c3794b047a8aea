/* Problem documents: the table of types, the statuses behind them, faults and their pointers. */

#include "job/problem.h"
#include "support/rigs/body_rig.h"

static void make(struct body_rig *f)
{
    open_body_rig(f, (struct dt_job_rules){0});
}

#define RIG_TEST(name) TEST_ON(struct body_rig, f, name, make, close_body_rig)

static const struct dt_json_node *document(struct body_rig *f, const struct dt_problem *problem, struct dt_str id)
{
    dt_strbuf_reset(&f->out);
    dt_problem_add(&f->out, problem, id);
    assert_false(f->out.failed);
    assert_int_equal(dt_json_parse(f->json, dt_strbuf_str(&f->out), &(struct dt_json_limits){0}, NULL), DT_OK);
    return dt_json_root(f->json);
}

static const struct dt_json_node *member(struct body_rig *f, const struct dt_json_node *object, const char *name)
{
    const struct dt_json_node *node = dt_json_member(f->json, object, name);
    if (!node)
        fail_msg("no member %s in %s", name, f->out.p);
    return node;
}

static void assert_text(struct body_rig *f, const struct dt_json_node *object, const char *name, const char *text)
{
    assert_string_equal(member(f, object, name)->str.p, text);
}

RIG_TEST(a_problem_names_its_type_title_and_status)
{
    for (int t = 0; t < DT_PROBLEM_TYPES; t++) {
        struct dt_problem problem = {.type = (enum dt_problem_type)t};
        char type[64];
        snprintf(type, sizeof(type), "/problems/%s", dt_problem_slug(problem.type));
        const struct dt_json_node *root = document(f, &problem, DT_STR_NONE);
        assert_text(f, root, "type", type);
        assert_int_equal(member(f, root, "status")->i, dt_problem_http_status(problem.type));
        assert_true(member(f, root, "title")->str.n > 0);
        assert_null(dt_json_member(f->json, root, "detail"));
        assert_null(dt_json_member(f->json, root, "request_id"));
        assert_null(dt_json_member(f->json, root, "errors"));
    }
}

RIG_TEST(a_problem_carries_detail_request_id_and_the_job_it_is_about)
{
    struct dt_job job = {.id = 7316522, .state = DT_DISPATCHED, .attempt = 3, .version = 9};
    struct dt_problem problem = {
        .type = DT_PROBLEM_TOO_LATE, .detail = DT_STR_LIT("a \"quoted\" reason"), .id = 7316522, .job = &job};
    const struct dt_json_node *root = document(f, &problem, DT_STR_LIT("req-1"));
    assert_text(f, root, "detail", "a \"quoted\" reason");
    assert_text(f, root, "request_id", "req-1");
    assert_text(f, root, "id", "7316522");
    assert_text(f, root, "state", "dispatched");
    assert_int_equal(member(f, root, "attempt")->i, 3);
    problem.type = DT_PROBLEM_VERSION_MISMATCH;
    root = document(f, &problem, DT_STR_NONE);
    assert_int_equal(member(f, root, "version")->i, 9);
}

RIG_TEST(faults_beyond_the_limit_are_counted)
{
    for (int i = 0; i < DT_FAULTS_MAX + 50; i++)
        dt_faults_add_member(&f->faults, "", DT_STR_LIT("x"), "is not known");
    const struct dt_json_node *root =
        document(f, &(struct dt_problem){.type = DT_PROBLEM_INVALID, .faults = &f->faults}, DT_STR_NONE);
    assert_int_equal(member(f, root, "errors")->n, DT_FAULTS_MAX);
    assert_int_equal(member(f, root, "errors_in_all")->i, DT_FAULTS_MAX + 50);
}

RIG_TEST(faults_beyond_the_limit_are_counted_however_they_are_added)
{
    for (int i = 0; i < DT_FAULTS_MAX; i++)
        dt_faults_add(&f->faults, "/a", "is wrong");
    assert_int_equal(f->faults.n, DT_FAULTS_MAX);
    for (int i = 0; i < 50; i++)
        dt_faults_addf(&f->faults, "/b", "is %d too many", i);
    dt_faults_add(&f->faults, "/c", "is wrong");
    assert_members(f->faults, (n, DT_FAULTS_MAX + 51), (failed, false));
    for (size_t i = 0; i < DT_FAULTS_MAX; i++)
        assert_true(dt_str_is(f->faults.v[i].pointer, "/a"));
}

TEST(statuses_map_to_problems)
{
    assert_int_equal(dt_problem_of_status(DT_UNAVAILABLE), DT_PROBLEM_UNAVAILABLE);
    assert_int_equal(dt_problem_of_status(DT_FULL), DT_PROBLEM_UNAVAILABLE);
    assert_int_equal(dt_problem_of_status(DT_UNKNOWN), DT_PROBLEM_OUTCOME_UNKNOWN);
    assert_int_equal(dt_problem_of_status(DT_TOO_LATE), DT_PROBLEM_TOO_LATE);
    assert_int_equal(dt_problem_of_status(DT_NOT_DEAD), DT_PROBLEM_NOT_DEAD);
    assert_int_equal(dt_problem_of_status(DT_VERSION), DT_PROBLEM_VERSION_MISMATCH);
    assert_int_equal(dt_problem_of_status(DT_EXISTS), DT_PROBLEM_KEY_CONFLICT);
    assert_int_equal(dt_problem_of_status(DT_MALFORMED), DT_PROBLEM_MALFORMED);
    assert_int_equal(dt_problem_of_status(DT_INVALID), DT_PROBLEM_INVALID);
    assert_int_equal(dt_problem_of_status(DT_TOO_LARGE), DT_PROBLEM_TOO_LARGE);
    assert_int_equal(dt_problem_of_status(DT_CORRUPT), DT_PROBLEM_INTERNAL);
    assert_int_equal(dt_problem_of_status(DT_OK), DT_PROBLEM_INTERNAL);
}

TEST(only_503_has_retry_after)
{
    for (int t = 0; t < DT_PROBLEM_TYPES; t++) {
        enum dt_problem_type type = (enum dt_problem_type)t;
        assert_int_equal(dt_problem_retry_after_s(&(struct dt_problem){.type = type}) > 0,
                         dt_problem_http_status(type) == 503);
    }
}
