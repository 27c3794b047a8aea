/*
 * Owns what a bound caller may see: see wall.h. The fail point reads every row's column as NOTHING, so that a test sees
 * what notices that.
 */
#include "wall.h"

#include "base/assert.h"
#include "base/fail_point.h"

static enum dt_wall wall_of(const struct dt_request *req)
{
    return DT_FAIL_FORCED("wall.emptied") ? DT_WALL_NOTHING : req->route->wall;
}

static bool is_within(const struct dt_request *req, struct dt_str topic)
{
    return dt_topic_within(dt_caller_bound(&req->caller), topic);
}

bool dt_wall_enter(struct dt_request *req)
{
    const enum dt_wall wall = wall_of(req);
    if (wall == DT_WALL_ALL_TOPICS && !dt_caller_sees_all(&req->caller))
        dt_request_refuse(req, DT_PROBLEM_FORBIDDEN, "the token is for some topics, and this concerns all");
    else if (wall == DT_WALL_TOPIC_IN_PATH && !is_within(req, req->params[0]))
        dt_request_refuse(req, DT_PROBLEM_NOT_FOUND, "there is no such topic");
    else
        return true;
    return false;
}

bool dt_wall_pass(struct dt_request *req)
{
    const enum dt_wall wall = wall_of(req);
    const struct dt_str topic = dt_request_query(req, "topic");
    if (wall != DT_WALL_FILTER && wall != DT_WALL_TOPIC_IN_QUERY)
        return true;
    if (wall == DT_WALL_TOPIC_IN_QUERY && !topic.p && !dt_caller_sees_all(&req->caller))
        dt_request_refuse(req, DT_PROBLEM_FORBIDDEN, "this is for tokens that see all topics: ask for one topic");
    else if (topic.p && !is_within(req, topic))
        dt_request_refuse(req, DT_PROBLEM_NOT_FOUND, "no such topic");
    else
        return true;
    return false;
}

void dt_wall_check(const struct dt_request *req)
{
    const bool shows = (req->status >= 200 && req->status < 300) || req->status == 409 ||
                       req->status == 412; /* a job is in the last two */
    if (!shows || !req->route)
        return;
    switch (req->route->wall) {
    case DT_WALL_ROW_IN_PATH:
    case DT_WALL_IN_BODY:
    case DT_WALL_FILTER:
        dt_assert(req->walled);
        dt_assert(!req->foreign);
        break;
    case DT_WALL_TOPIC_IN_PATH:
    case DT_WALL_TOPIC_IN_QUERY:
    case DT_WALL_OWN_TOKEN:
    case DT_WALL_ALL_TOPICS:
    case DT_WALL_NOTHING:
        break;
    }
}

const struct dt_topic_bound *dt_wall_bound(struct dt_request *req)
{
    dt_assert(req->route->wall != DT_WALL_NOTHING);
    req->walled = true;
    return wall_of(req) == DT_WALL_NOTHING ? NULL : dt_caller_bound(&req->caller);
}

dt_status dt_wall_found(struct dt_request *req, struct dt_str topic)
{
    const bool within = dt_topic_within(dt_wall_bound(req), topic);
    req->foreign |= !within;
    return within ? DT_OK : DT_NOT_FOUND;
}

bool dt_wall_shows_token(const struct dt_request *req, struct dt_str token)
{
    dt_assert(req->route->wall == DT_WALL_OWN_TOKEN);
    return wall_of(req) == DT_WALL_NOTHING || dt_caller_may(&req->caller, DT_SCOPE_ADMIN_ALL) ||
           dt_str_eq(req->caller.name, token);
}
