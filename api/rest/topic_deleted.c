/* See topic_deleted.h. */
#include "topic_deleted.h"

#include "api.h"
#include "intake/index_writer.h"
#include "request/topic_cache.h"

enum dt_next dt_topic_refuse_deletion(struct dt_request *req, const struct dt_topic_deletion *deletion)
{
    if (deletion->keeper == DT_TOPIC_HAS_SCHEDULE)
        dt_request_refuse(req, DT_PROBLEM_TOPIC_IN_USE, "the schedule %.*s makes jobs of the topic",
                          (int)deletion->schedule.n, deletion->schedule.p);
    else
        dt_request_refuse(req, DT_PROBLEM_TOPIC_IN_USE, "%lld jobs of the topic are not finished",
                          (long long)deletion->jobs);
    return DT_REPLY;
}

void dt_topics_announce(struct dt_request *req)
{
    dt_topic_cache_invalidate(req->api->topics);
    dt_index_writer_topics(req->api->index);
}
