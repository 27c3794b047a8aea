/*
 * The feeding of a batch with a request's body: a stream of lines (application/x-ndjson), or an array. A route of
 * batches has the stream of its kind (struct dt_batch_kind), and dt_batch_feed_handle as its handler. request.h says
 * when each function is called.
 */
#ifndef DT_API_BATCH_FEED_H
#define DT_API_BATCH_FEED_H

#include "batch.h"

enum dt_next dt_batch_feed_begin(struct dt_request *req, bool *buffer);
enum dt_feed dt_batch_feed(struct dt_request *req, const char *p, size_t n, size_t *taken);
void dt_batch_feed_cut(struct dt_request *req, enum dt_cut why);
/* The handler: ends the lines, or takes the array. */
enum dt_next dt_batch_feed_handle(struct dt_request *req);

#endif
