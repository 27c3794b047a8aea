/*
 * Many jobs of one request: elements go in, one by one, in order; results come out, one for each, in the same order,
 * while chunks of them are committed meanwhile.
 *
 *   element -> decoded into the open chunk (a unit of the committer) -> full: submitted -> done -> results written
 *
 * An element that is refused (400, 413, 422, 404) takes its place in the chunk as text and makes no job. At most
 * DT_BATCH_UNDER_WAY chunks are at the committer at a time: whoever feeds asks dt_batch_room and waits, on a condition
 * (a worker) or suspended (an HTTP thread).
 *
 * Owned by the thread that owns the request; only `done` of a unit comes from elsewhere. A batch lives until its
 * request is cleaned up and the last chunk came back, whichever is later.
 */
#ifndef DT_API_BATCH_H
#define DT_API_BATCH_H

#include "api.h"
#include "http.h"
#include "job_json.h"

#define DT_BATCH_UNDER_WAY 4
/* A chunk is full with this much text, or with dt_committer_unit_rows elements. */
#define DT_BATCH_CHUNK_BYTES (1U << 20)

typedef struct dt_batch dt_batch;

/* array: results are elements of one JSON array; else a line each. NULL: memory is out. */
dt_batch *dt_batch_new(struct dt_request *req, bool array);
/* The request's hold; chunks under way keep the batch. Accepts NULL. */
void dt_batch_release(dt_batch *batch);

/* May another element go in now? Also writes the results of chunks that came back. */
bool dt_batch_room(dt_batch *batch);
/* One element's text, parsed, decoded, put into the open chunk; needs room. keep: the text does not live on: copy what
 * is kept. */
void dt_batch_add(dt_batch *batch, struct dt_str text, bool keep);
/* An element that was refused before it was looked at (too long a line). Needs room too. */
void dt_batch_refuse(dt_batch *batch, enum dt_problem_type type, const char *detail);
/* Elements beyond limits.batch_lines are refused with 413 by dt_batch_add; true: so many came that nothing more is
 * answered. */
bool dt_batch_over(const dt_batch *batch);

/* Submits the open chunk. False: there is no room for it now. */
bool dt_batch_flush(dt_batch *batch);
/*
 * On an HTTP thread: suspends the request until there is room (finished: until all chunks came back) and says true;
 * false: no need to wait. After true the request is not the caller's any more.
 */
bool dt_batch_suspend(dt_batch *batch, bool finished);
/* On a worker: the same by blocking. */
void dt_batch_wait(dt_batch *batch, bool finished);
/* After the last chunk came back: the results as the request's answer (200, or 503 when memory was out). */
void dt_batch_answer(dt_batch *batch);

#endif
