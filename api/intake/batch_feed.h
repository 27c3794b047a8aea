/*
 * The feeding of a batch with a request's body: a stream of lines (application/x-ndjson), or an array. A route of
 * batches has a dt_stream and a handler, which name the kind of their elements; the rest is here. request.h says when
 * each function is called.
 */
#ifndef DT_API_BATCH_FEED_H
#define DT_API_BATCH_FEED_H

#include "batch.h"

enum dt_next dt_batch_feed_begin(struct dt_request *req, const struct dt_batch_kind *kind, bool *buffer);
enum dt_feed dt_batch_feed(struct dt_request *req, const char *p, size_t n, size_t *taken);
void dt_batch_feed_cut(struct dt_request *req, enum dt_cut why);
/* The handler: ends the lines, or takes the array. */
enum dt_next dt_batch_feed_handle(struct dt_request *req, const struct dt_batch_kind *kind);

#endif
