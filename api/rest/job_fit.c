/* Reading the topic, judging, answering: see job_fit.h. */
#include "job_fit.h"

#include "answer.h"
#include "api.h"
#include "job/change/insert_problem.h"
#include "request/topic_cache.h"

bool dt_job_fits(struct dt_request *req, dt_store *store, struct dt_str topic, const struct dt_callback_asked *asked)
{
    struct dt_callback_misfit misfit;
    struct dt_faults faults;
    (void)(dt_topic_cache_refresh(req->api->topics, DT_SNAPSHOT_TOPICS, store, NULL) ==
           DT_OK); /* else the last known holds */
    struct dt_view *view = dt_topic_cache_view(req->api->topics);
    const struct dt_topic_settings *settings = view ? dt_view_topic(view, topic) : NULL;
    bool deleting = settings && settings->deleting;
    bool fits = !settings || deleting || dt_callback_fits(&settings->callback, asked, &misfit);
    dt_view_release(view);
    if (deleting) {
        const struct dt_problem problem = dt_topic_deleting();
        dt_request_problem(req, &problem);
    }
    if (fits)
        return !deleting;
    dt_faults_init(&faults, &req->arena);
    dt_faults_add_misfit(&faults, &misfit);
    dt_answer_faults(req, DT_INVALID, &faults);
    return false;
}
