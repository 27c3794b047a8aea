/* What the handlers of topics share with the operation that deletes one with its jobs. */
#ifndef DT_API_TOPIC_DELETED_H
#define DT_API_TOPIC_DELETED_H

#include "features/operations/operations.h"
#include "request/request.h"

/* Refuses the request: jobs of the topic are not finished, or a schedule makes some. */
enum dt_next dt_topic_refuse_deletion(struct dt_request *req, const struct dt_topic_deletion *deletion);
/* After a change of topics or shards: this process reads them again, and the dispatchers are notified. */
void dt_topics_announce(struct dt_request *req);

#endif
