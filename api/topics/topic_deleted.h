/* The answer to DELETE /v1/topics/{name} if the topic cannot go. */
#ifndef DT_API_TOPIC_DELETED_H
#define DT_API_TOPIC_DELETED_H

#include "request/request.h"
#include "store/operations/topic_deletion.h"

/* Refuses the request: jobs of the topic are not finished, or a schedule makes some. */
enum dt_next dt_topic_refuse_deletion(struct dt_request *req, const struct dt_topic_deletion *deletion);

#endif
