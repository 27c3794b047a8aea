/* What the wall says of each kind of route, and that a handler which does not ask it cannot answer. */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/suite.h"

#include "request/request.h"

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

TEST(a_token_is_visible_to_itself_and_to_admins_of_all_topics)
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

TEST(an_answer_that_skipped_the_tenant_check_aborts_the_process)
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
