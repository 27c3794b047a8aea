/* What the wall says of each kind of route, and that a handler which does not ask it cannot answer. */
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/suite.h"

#include "request/wall.h"

static struct dt_str prefix = {"mine.", 5};
static const struct dt_str mine = {"mine.t", 6};
static const struct dt_str other = {"other", 5};

/* A request of a route with this wall, whose path and query name the topic. */
static struct dt_request request_of(enum dt_wall wall, struct dt_str topic, bool bound)
{
    static struct dt_route route;
    route = (struct dt_route){.wall = wall};
    return (struct dt_request){.route = &route,
                               .params = {topic},
                               .query = {{DT_STR_LIT("topic"), topic}},
                               .n_query = topic.p != NULL,
                               .status = 200,
                               .caller = {.scopes = bound ? DT_SCOPE_ADMIN : DT_SCOPE_ADMIN_ALL,
                                          .topics = {&prefix, 1},
                                          .name = DT_STR_LIT("token")}};
}

static int refusal(bool (*step)(struct dt_request *), struct dt_request req)
{
    dt_strbuf_init(&req.out);
    dt_arena_init(&req.arena);
    const int status = step(&req) ? 0 : req.status;
    dt_strbuf_clear(&req.out);
    dt_arena_clear(&req.arena);
    return status;
}

TEST(each_wall_refuses_what_it_is_for)
{
    static const struct {
        enum dt_wall wall;
        const struct dt_str *topic;
        int enter, pass;
    } rows[] = {
        {DT_WALL_TOPIC_IN_PATH, &other, 404, 0},
        {DT_WALL_TOPIC_IN_PATH, &mine, 0, 0},
        {DT_WALL_TOPIC_IN_QUERY, &other, 0, 404},
        {DT_WALL_TOPIC_IN_QUERY, &mine, 0, 0},
        {DT_WALL_TOPIC_IN_QUERY, NULL, 0, 403},
        {DT_WALL_FILTER, &other, 0, 404},
        {DT_WALL_FILTER, &mine, 0, 0},
        {DT_WALL_FILTER, NULL, 0, 0},
        {DT_WALL_ALL_TOPICS, &mine, 403, 0},
        {DT_WALL_ROW_IN_PATH, &other, 0, 0},
        {DT_WALL_IN_BODY, &other, 0, 0},
        {DT_WALL_OWN_TOKEN, &other, 0, 0},
        {DT_WALL_NOTHING, &other, 0, 0},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        const struct dt_str topic = rows[i].topic ? *rows[i].topic : DT_STR_NONE;
        const struct dt_request bound = request_of(rows[i].wall, topic, true);
        const int enter = refusal(dt_wall_enter, bound);
        const int pass = refusal(dt_wall_pass, bound);
        if (enter != rows[i].enter || pass != rows[i].pass)
            fail_msg("row %zu: %d and %d", i, enter, pass);
        const struct dt_request all = request_of(rows[i].wall, topic, false);
        if (refusal(dt_wall_enter, all) || refusal(dt_wall_pass, all))
            fail_msg("row %zu is refused to who sees all", i);
    }
}

TEST(a_row_of_another_topic_is_not_found)
{
    struct dt_request bound = request_of(DT_WALL_ROW_IN_PATH, DT_STR_NONE, true);
    struct dt_request all = request_of(DT_WALL_ROW_IN_PATH, DT_STR_NONE, false);
    assert_int_equal(dt_wall_found(&bound, mine), DT_OK);
    assert_int_equal(dt_wall_found(&bound, other), DT_NOT_FOUND);
    assert_int_equal(dt_wall_found(&bound, DT_STR_NONE), DT_NOT_FOUND);
    assert_ptr_equal(dt_wall_bound(&bound), &bound.caller.topics);
    assert_int_equal(dt_wall_found(&all, other), DT_OK);
    assert_null(dt_wall_bound(&all));
}

TEST(a_token_is_shown_to_itself_and_to_who_rules_all)
{
    const struct dt_request bound = request_of(DT_WALL_OWN_TOKEN, DT_STR_NONE, true);
    const struct dt_request all = request_of(DT_WALL_OWN_TOKEN, DT_STR_NONE, false);
    assert_true(dt_wall_shows_token(&bound, DT_STR_LIT("token")));
    assert_false(dt_wall_shows_token(&bound, DT_STR_LIT("another")));
    assert_true(dt_wall_shows_token(&all, DT_STR_LIT("another")));
}

/* Whether a request with this wall, topic and status dies, once the handler has done its part. */
static bool dies(enum dt_wall wall, int status, bool asks, struct dt_str found)
{
    int end = 0;
    const pid_t child = fork();
    if (child == 0) {
        struct dt_request req = request_of(wall, DT_STR_NONE, true);
        req.status = status;
        if (asks)
            (void)dt_wall_bound(&req);
        if (found.p && dt_wall_found(&req, found) != DT_OK)
            req.status = status;
        dt_wall_check(&req);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &end, 0), child);
    return WIFSIGNALED(end) && WTERMSIG(end) == SIGABRT;
}

TEST(an_answer_that_did_not_pass_the_wall_ends_the_process)
{
    static const enum dt_wall walls[] = {DT_WALL_ROW_IN_PATH, DT_WALL_IN_BODY, DT_WALL_FILTER};
    for (size_t i = 0; i < sizeof(walls) / sizeof(*walls); i++) {
        assert_true(dies(walls[i], 200, false, DT_STR_NONE));
        assert_true(dies(walls[i], 409, false, DT_STR_NONE));
        assert_true(dies(walls[i], 412, false, DT_STR_NONE));
        assert_true(dies(walls[i], 200, false, other));
        assert_false(dies(walls[i], 404, false, other));
        assert_false(dies(walls[i], 422, false, DT_STR_NONE));
        assert_false(dies(walls[i], 503, false, DT_STR_NONE));
        assert_false(dies(walls[i], 200, true, DT_STR_NONE));
        assert_false(dies(walls[i], 200, false, mine));
    }
    assert_false(dies(DT_WALL_TOPIC_IN_PATH, 200, false, DT_STR_NONE));
    assert_false(dies(DT_WALL_NOTHING, 200, false, DT_STR_NONE));
    assert_true(dies(DT_WALL_NOTHING, 200, true, DT_STR_NONE)); /* the handler and its column contradict each other */
}

SUITE(NULL, NULL)
